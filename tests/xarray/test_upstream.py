"""xarray's own tests of its Zarr backend, run with tegula's engine and writer.

``to_zarr`` of data sets, arrays and trees calls `tegula.xarray.write` while a test runs, and the engine ``zarr`` opens
with the engine ``tegula``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xarray as xr

from tegula.xarray import TegulaBackendEntrypoint, write

zarr = pytest.importorskip("zarr")
pytest.importorskip("dask")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of xarray's optional packages
    upstream = pytest.importorskip("xarray.tests.test_backends")
    trees = pytest.importorskip("xarray.tests.test_backends_datatree")
    fixtures = pytest.importorskip("xarray.tests.conftest")

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,
    pytest.mark.sampled(one_in=4),
]

_MISALIGNED = "expects an error where dask's chunks are not those of the store, which tegula writes safely"
_INSIDE = "calls or patches the inside of zarr-python or of xarray's ZarrStore"
_CODECS = "compares codecs with objects of zarr-python; tegula has them as JSON, which both writers take"
EXCLUDED = {
    "test_shard_encoding_with_dask": _MISALIGNED,
    "test_chunk_encoding_with_dask": _MISALIGNED,
    "test_zarr_append_chunk_partial": _MISALIGNED,
    "test_zarr_region_chunk_partial": _MISALIGNED,
    "test_zarr_region_chunk_partial_offset": _MISALIGNED,
    "test_zarr_safe_chunk_append_dim": _MISALIGNED,
    "test_zarr_safe_chunk_region": _MISALIGNED,
    "test_compressor_encoding": _CODECS,
    "test_zarr_encoding": _CODECS,
    "test_cache_members": _INSIDE,
    "test_hidden_zarr_keys": _INSIDE,
    "test_dimension_names": _INSIDE,
    "test_write_store": _INSIDE,
    "test_zarr_region_index_write": _INSIDE,
    "test_read_non_consolidated_warning": "tegula reads the documents themselves, so there is nothing to warn of",
    "test_to_zarr_not_consolidated": "tegula reads the documents themselves, so there is nothing to warn of",
    "test_non_existent_store": "compares the text of the error, which is of the same type",
    "test_load_async": "needs a plug-in of pytest; run below",
    "test_zarr_fill_value_setting": "xarray's engine ignores use_zarr_fill_value_as_mask=False, which it asks for",
    "test_to_zarr_compute_false[zarr_format=2]": "expects no chunk of zeros where the fill value is undefined, "
    "though zarr-python 2 reads arbitrary memory then",
}


def to_zarr(
    self: Any, store: Any = None, mode: Any = None, group: Any = None, encoding: Any = None, **options: Any
) -> Any:
    for name in ("safe_chunks", "align_chunks"):
        options.pop(name, None)
    new = mode in ("w", "w-") or not (mode or options.get("append_dim") or options.get("region"))
    if "zarr_format" not in options and new:
        options["zarr_format"] = zarr.config.get("default_zarr_format")
    return write(self, store, mode=mode, group=group, encoding=encoding, **options)


@pytest.fixture(autouse=True)
def _replaced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = EXCLUDED.get(request.function.__name__) or EXCLUDED.get(request.node.name)
    if reason is not None and request.cls.__module__ != request.function.__module__:
        pytest.skip(reason)
    for kind in (xr.Dataset, xr.DataArray, xr.DataTree):
        monkeypatch.setattr(kind, "to_zarr", to_zarr)
    engine = TegulaBackendEntrypoint()

    def instead(original: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)  # whose parameters xarray looks at
        def called(self: Any, filename_or_obj: Any, **options: Any) -> Any:
            for name in ("mode", "zarr_format", "cache_members"):
                options.pop(name, None)
            return method(filename_or_obj, **options)

        return called

    for name in ("open_dataset", "open_groups_as_dict", "open_datatree"):
        original = getattr(xr.backends.ZarrBackendEntrypoint, name)
        monkeypatch.setattr(xr.backends.ZarrBackendEntrypoint, name, instead(original, getattr(engine, name)))


default_zarr_format = upstream.default_zarr_format
tmp_store = upstream.tmp_store
use_dask = fixtures.use_dask
time_unit = fixtures.time_unit
create_test_datatree = fixtures.create_test_datatree
simple_datatree = fixtures.simple_datatree
unaligned_datatree_zarr_factory = trees.unaligned_datatree_zarr_factory


class TestDirectory(upstream.ZarrBase):
    @contextlib.contextmanager
    def create_zarr_target(self) -> Iterator[str]:
        with upstream.create_tmp_file(suffix=".zarr") as path:
            yield path

    def test_load_async(self) -> None:
        asyncio.run(super().test_load_async())


class TestRegionAuto(upstream.TestZarrRegionAuto):
    pass


class TestDataArray(upstream.TestDataArrayToZarr):
    pass


class TestTree(trees.TestZarrDatatreeIO):
    pass


def test_each_exclusion_names_a_test() -> None:
    classes = (TestDirectory, TestRegionAuto, TestDataArray, TestTree)
    assert {name for name in EXCLUDED if not any(hasattr(kind, name.partition("[")[0]) for kind in classes)} == set()
