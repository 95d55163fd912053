"""The Rust library zarrs, through zarr-python's codec pipeline, reads what tegula writes and the other way round."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tegula

# Left out is what zarrs 0.2 does wrong or lacks: complex numbers in big-endian order are read wrongly; text,
# times, Zarr v2 in big-endian order or Fortran order, its filters and most of its compressors are refused.
DTYPES = ("bool", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f2", "<f4", ">f8", "<c8")
V2_COMPRESSORS = {"blosc", "bz2", "zlib", "zstd"}


@pytest.fixture(autouse=True)
def _zarrs_pipeline() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
        yield


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_zarrs(cases: Callable[..., st.SearchStrategy[Any]], data: st.DataObject) -> None:
    case = data.draw(cases(dtypes=DTYPES))
    if case.format == "zarr2":
        names = {codec["id"] for codec in (*case.filters, *case.compressors)}
        automatic = any(codec.get("level", 0) < 0 or codec.get("shuffle", 0) < 0 for codec in case.compressors)
        assume(names <= V2_COMPRESSORS and not automatic and case.order == "C" and case.dtype.isnative)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        case.create(ours)
        case.check(zarr.open_array(ours, mode="r")[...])
        case.create_zarr(theirs)
        case.check(tegula.open_array(theirs)[...])
