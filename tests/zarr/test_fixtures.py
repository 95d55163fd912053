"""Arrays by other libraries, in every format, are the same through zarr-python over tegula's store."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula

pytest.importorskip("zarr", minversion="3")
import zarr
from tests.archives import of_kind, open_case, unpack_all

import tegula.zarr
from tegula.formats import find_format

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


# what zarr-python says of data types, grids and codecs that it does not have
LACKS = (
    "No Zarr data type",
    "Unknown chunk grid",
    "chunk key encoding",
    "An implementation for codec",
    "Unknown codec",
    "Invalid fill_value",
    "cast-value-rs",
)
PIPELINES = ("tegula.zarr.Pipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_all(tmp_path_factory.mktemp("shown"))


def same(found: Any, expected: Any) -> bool:
    """Compare elements with all their bits, as far as the types of both libraries allow it."""
    one, two = np.asarray(found), np.asarray(expected)
    if one.dtype.kind in "OT" or two.dtype.kind in "OT":
        return [*map(str, one.ravel())] == [*map(str, two.ravel())]
    return one.shape == two.shape and one.tobytes() == two.astype(one.dtype).tobytes()


# chunks of varying lengths, where zarr-python has them
EXPERIMENTAL = {name: True for name in ["array.rectilinear_chunks"] if zarr.config.get(name, None) is not None}


def columns_of(table: tegula.Table) -> dict[str, tegula.Array]:
    """Return the columns that can be read without unpickling."""
    found = {}
    for name in table.names:
        with suppress(tegula.UnsupportedError):
            found[name] = table[name]
    return found


@pytest.mark.sampled(one_in=40)
@of_kind("array", "table", but="anndata")
def test_arrays_are_the_same(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    node = open_case(unpacked / archive, case)
    store = tegula.zarr.store(node)
    for name, array in (columns_of(node) if isinstance(node, tegula.Table) else {"": node}).items():
        try:
            expected = array[...]
            store.store.get(f"{store.path}/{name}/zarr.json".replace("//", "/").lstrip("/"))
        except tegula.UnsupportedError:
            with pytest.raises(Exception):  # noqa: B017 - zarr-python is told so
                zarr.open_array(store, path=name, mode="r")[...]
            continue
        for pipeline in PIPELINES:
            with zarr.config.set({"codec_pipeline.path": pipeline, **EXPERIMENTAL}):
                try:
                    shown = zarr.open_array(store, path=name, mode="r")
                    found = shown[...]
                except (ValueError, TypeError, KeyError, ImportError) as error:
                    if not any(lack in str(error) for lack in LACKS):
                        raise
                    pytest.skip(f"zarr-python can't open {array.dtype}: {error!r:.120}")
                assert same(found, expected)
        assert shown.shape == array.shape
        portable = find_format(array.format).portable_attributes
        attributes = {**(array.attrs if portable is None else portable(array.metadata))}
        attributes.pop("_ARRAY_DIMENSIONS", None)
        assert {key: shown.attrs[key] for key in attributes} == attributes


def named(array: tegula.Array) -> Any:
    """Return a store with a copy of an array, as it is stored, whose dimensions have names."""
    store = tegula.MemoryStore()
    copy = tegula.copy if array.format != "zarr3_draft" else tegula.convert
    copy(array, store, path="a")
    names = [f"d{number}" for number in range(array.ndim)]
    if array.format in ("zarr3", "zarr3_draft"):
        document = json.loads(store.get("a/zarr.json"))
        store.set("a/zarr.json", json.dumps({**document, "dimension_names": names}).encode())
    else:
        attributes = tegula.open_array(store, path="a", mode="r+").attrs
        attributes.pop("axes", None)  # N5's names, which would be others
        attributes["_ARRAY_DIMENSIONS"] = names
    return store


@pytest.mark.sampled(one_in=40)
@of_kind("array", "table", but="anndata")
def test_arrays_are_the_same_through_xarray(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    xr = pytest.importorskip("xarray")
    node = open_case(unpacked / archive, case)
    for array in (columns_of(node) if isinstance(node, tegula.Table) else {"": node}).values():
        try:
            expected, store = array[...], tegula.zarr.store(named(array))
            store.store.get("a/zarr.json")
        except tegula.UnsupportedError:
            continue  # Zarr v3 has nothing for its elements; see above
        with zarr.config.set({"codec_pipeline.path": PIPELINES[0], **EXPERIMENTAL}):
            try:
                shown = xr.open_zarr(store, consolidated=False, decode_cf=False, chunks=None)["a"]
                found = shown.values
            except (ValueError, TypeError, KeyError, ImportError, NotImplementedError) as error:
                if not any(lack in str(error) for lack in (*LACKS, "rectilinear")):
                    raise
                pytest.skip(f"zarr-python can't open {array.dtype}: {error!r:.120}")
        assert shown.shape == array.shape
        assert same(found, expected)
