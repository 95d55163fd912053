"""Laws: the engines tegula and zarr read the same, and tegula writes what ``Dataset.to_zarr`` writes."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tegula
import tegula.xarray

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]

pytest.importorskip("zarr")
SIZES = {"time": 5, "y": 3, "x": 4}
NUMBERS = ["i1", "u1", "i2", "<i4", ">i4", "u8", "f4", ">f8", "c16", "?"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Let xarray and zarr-python warn of data types without a specification, and of lossy encodings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@st.composite
def variables(draw: Any) -> xr.Variable:
    dims = draw(st.lists(st.sampled_from([*SIZES]), unique=True, max_size=3))
    shape = tuple(SIZES[dim] for dim in dims)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(["number", "number", "packed", "masked", "time", "span", "text", "fixed", "bytes"]))
    numbers = rng.integers(0, 100, shape)
    encoding: dict[str, Any] = {}
    attributes = draw(st.sampled_from([{}, {"units": "K"}, {"valid_range": np.array([0, 1]), "n": np.float32(1)}]))
    if kind == "number":
        values = numbers.astype(draw(st.sampled_from(NUMBERS)))
        if values.dtype.kind == "f" and values.size:
            values.flat[0] = np.nan
    elif kind == "packed":
        values = numbers / 10
        encoding = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -999}
    elif kind == "masked":
        values = np.where(numbers > 50, np.nan, numbers)
        encoding = {"_FillValue": draw(st.sampled_from([-1.0, 1e20, None]))}
    elif kind == "time":
        values = np.datetime64("2000-01-01", "ns") + numbers.astype("m8[h]")
        encoding = draw(st.sampled_from([{}, {"units": "hours since 1970-01-01", "dtype": "i4"}]))
        attributes = {}
    elif kind == "span":
        values = numbers.astype("m8[s]").astype("m8[ns]")
        attributes = {}
    else:
        values = numbers.astype("U")
        values = {"text": values.astype(object), "fixed": values, "bytes": values.astype("S3")}[kind]
    if dims and draw(st.booleans()):
        encoding["chunks"] = tuple(draw(st.integers(1, SIZES[dim])) for dim in dims)
    return xr.Variable(dims, values, attributes, encoding)


@st.composite
def datasets(draw: Any) -> xr.Dataset:
    names = [f"v{number}" for number in range(draw(st.integers(1, 4)))]
    ds = xr.Dataset(
        {name: draw(variables()) for name in names}, attrs=draw(st.sampled_from([{}, {"title": "é", "v": 1}]))
    )
    if draw(st.booleans()):
        ds = ds.assign_coords(time=np.arange(5), label=("y", np.array(["a", "bc", ""])))
    return ds


def opened(path: Path, engine: str, **options: Any) -> xr.Dataset:
    consolidated = {"consolidated": False} if engine == "zarr" else {}
    return xr.open_dataset(path, engine=engine, **consolidated, **options)


def assert_same(one: xr.Dataset, two: xr.Dataset) -> None:
    xr.testing.assert_identical(one, two)
    assert {*one.coords} == {*two.coords}
    for name in one.variables:
        first, second = one[name].encoding, two[name].encoding
        # zarr-python returns a single text as short as it is
        assert one[name].dtype == two[name].dtype or (one[name].dtype.kind in "US" and not one[name].ndim), name
        assert first.keys() == second.keys(), name
        # in Zarr v3 codecs are objects of zarr-python there, and JSON here
        codecs = {"compressors", "filters", "serializer"} if "serializer" in first else set()
        for key in first.keys() - {"source"} - codecs:
            np.testing.assert_equal(first[key], second[key], err_msg=f"{name}: {key}")


@settings(max_examples=15)
@given(ds=datasets(), zarr_format=st.sampled_from([2, 3]), decode=st.booleans())
@example(ds=xr.Dataset({"v0": ((), np.array("85", object))}), zarr_format=2, decode=False)
def test_both_engines_read_the_same(
    ds: xr.Dataset, zarr_format: Any, decode: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("law") / "a.zarr"
    ds.to_zarr(path, zarr_format=zarr_format, consolidated=False)
    expected = opened(path, "zarr", decode_cf=decode)
    found = opened(path, "tegula", decode_cf=decode)
    assert_same(found, expected)
    if not decode:  # writing would encode values a second time that were not decoded
        return
    # either library can write what was read
    tegula.xarray.write(found, path.with_name("b.zarr"), zarr_format=zarr_format)
    xr.testing.assert_identical(opened(path.with_name("b.zarr"), "zarr"), expected)
    # of strings in Zarr v2 to_zarr writes what zarr-python can't read, with either engine
    found = opened(path, "tegula").drop_vars([name for name in ds.variables if expected[name].dtype.kind == "T"])
    found.to_zarr(path.with_name("c.zarr"), zarr_format=zarr_format, consolidated=False)
    xr.testing.assert_identical(opened(path.with_name("c.zarr"), "zarr"), expected[[*found.variables]])


def described(path: Path) -> dict[str, Any]:
    """Return the metadata of each array, without codecs and without chunks that each library chooses itself."""
    found = {}
    for name, array in tegula.open_group(path).arrays():
        metadata = array.metadata
        fill = None if metadata.fill_value is None else repr(metadata.fill_value.item())
        found[name] = (
            metadata.shape, metadata.data_type, metadata.dimension_names or (), fill,
            metadata.keys, metadata.attributes, type(metadata.fill_value),
        )  # fmt: skip
    return found


@settings(max_examples=15)
@given(ds=datasets(), zarr_format=st.sampled_from([2, 3]))
def test_what_is_stored_is_what_to_zarr_stores(
    ds: xr.Dataset, zarr_format: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("law")
    ds.to_zarr(path / "a.zarr", zarr_format=zarr_format, consolidated=True)
    tegula.xarray.write(ds, path / "b.zarr", zarr_format=zarr_format)
    assert described(path / "b.zarr") == described(path / "a.zarr")
    expected = xr.open_zarr(path / "a.zarr", chunks=None)
    found = xr.open_zarr(path / "b.zarr", chunks=None, consolidated=True)
    xr.testing.assert_identical(found, expected)
    for name, variable in ds.variables.items():
        if "chunks" in variable.encoding:
            assert found[name].encoding["chunks"] == expected[name].encoding["chunks"]


@settings(max_examples=12)
@given(data=st.data(), zarr_format=st.sampled_from([2, 3]))
def test_appends_and_regions_are_what_concatenation_gives(
    data: st.DataObject, zarr_format: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any parts in any order, in memory or in chunks of dask that have nothing to do with the stored ones."""
    path = tmp_path_factory.mktemp("law") / "a.zarr"
    length = data.draw(st.integers(1, 40))
    whole = xr.Dataset(
        {"a": (("time", "x"), np.arange(length * 3.0).reshape(length, 3)), "b": ("time", np.arange(length))},
        {"time": np.datetime64("2000-01-01", "ns") + np.arange(length).astype("m8[D]"), "x": [10, 20, 30]},
    )
    chunks = data.draw(st.integers(1, 12))
    encoding: dict[Any, Any] = {"a": {"chunks": (chunks, 2)}, "b": {"chunks": (chunks,)}}
    if zarr_format == 3 and data.draw(st.booleans()):
        encoding["a"]["shards"] = (chunks * 2, 4)

    def part(start: int, stop: int) -> xr.Dataset:
        ds = whole.isel(time=slice(start, stop))
        return ds.chunk(time=data.draw(st.integers(1, 7))) if data.draw(st.booleans()) else ds

    cuts = sorted({0, length, *data.draw(st.lists(st.integers(1, length), max_size=4))})
    steps = [*itertools.pairwise(cuts)]
    tegula.xarray.write(part(*steps[0]), path, zarr_format=zarr_format, encoding=encoding)
    for start, stop in steps[1:]:
        tegula.xarray.write(part(start, stop), path, append_dim="time")
    xr.testing.assert_identical(opened(path, "zarr"), whole)
    whole["a"] = whole["a"] + 0.5
    whole["b"] = whole["b"] + 1
    for start, stop in data.draw(st.permutations(steps)):
        region = data.draw(st.sampled_from(["auto", {"time": "auto", "x": slice(None)}, {"time": slice(start, stop)}]))
        ds = part(start, stop)
        if isinstance(region, dict) and "x" not in region:
            ds = ds.drop_vars("x")
        tegula.xarray.write(ds, path, region=region)
    xr.testing.assert_identical(opened(path, "zarr"), whole)
