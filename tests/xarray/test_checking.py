"""Regions, appends and `mode="a"` store what they are given, or refuse it and leave what is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tegula
import tegula.xarray
from tegula.errors import MetadataError

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["zarr2", "zarr3"]


def stored(format: str, values: Any, attributes: dict[str, Any] | None = None, **options: Any) -> tegula.MemoryStore:
    store = tegula.MemoryStore()
    tegula.create_group(store, format=format)
    options = {"dimension_names": ["x"], "attributes": attributes or {}, "format": format} | options
    tegula.create_array(store, path="v", data=np.asarray(values), **options)
    return store


def append(store: Any, values: Any) -> None:
    tegula.xarray.write(xr.Dataset({"v": ("x", values)}), store, append_dim="x")


def write_region(store: Any, values: Any) -> None:
    size = tegula.open(store, path="v").shape[0]
    data = xr.Dataset({"v": ("x", values)})
    tegula.xarray.write(data, store, region={"x": slice(size - len(values), size)})


def replace(store: Any, values: Any) -> None:
    tegula.xarray.write(xr.Dataset({"v": ("x", values)}), store, mode="a")


def append_lazily(store: Any, values: Any) -> None:
    append(store, dask.array.from_array(values, chunks=1))


WAYS = pytest.mark.parametrize("way", [append, write_region, replace, append_lazily])


@pytest.mark.slow
@pytest.mark.sampled(one_in=14)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "m", "h", "D"])
@pytest.mark.parametrize("kind", ["M", "m"])
@WAYS
def test_times_are_stored_in_the_unit_of_the_array(way: Callable[..., None], kind: str, unit: str, format: str) -> None:
    dtype = f"{kind}8[{unit}]"
    store = stored(format, np.array([1, 2], "i8").astype(f"{kind}8[D]").astype(dtype))
    new = np.array([10_000, "NaT"], f"{kind}8[D]").astype(f"{kind}8[s]")
    way(store, new)
    np.testing.assert_array_equal(tegula.open(store, path="v")[-2:], new)
    if unit not in ("ns", "us", "ms", "s"):
        old = {key: store.get(key) for key in store.list()}
        with pytest.raises(MetadataError, match="finer unit"):
            way(store, new + np.timedelta64(1, "s"))
        if way is not append_lazily:
            assert {key: store.get(key) for key in store.list()} == old
    with pytest.raises(MetadataError, match="can't be added"):
        way(store, np.array([1.0, 2.0]))


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@WAYS
def test_times_in_a_stored_unit(way: Callable[..., None], dtype: str, format: str) -> None:
    attributes = {"units": "days since 2000-01-01 00:35", "calendar": "proleptic_gregorian"}
    store = stored(format, np.array([0, 1], dtype), attributes, **({"fill_value": None} if format == "zarr2" else {}))
    new = np.array(["2000-01-03T00:35", "2000-01-04T00:35"], "M8[ns]")
    way(store, new)
    found = xr.open_dataset(store, engine="tegula")["v"].values
    np.testing.assert_array_equal(found[-2:], new)
    finer = new + np.timedelta64(6, "h")
    if dtype[0] == "i":
        with pytest.raises(MetadataError, match="is stored in 'days since 2000-01-01 00:35'"):
            way(store, finer)
    else:  # a quarter of a day
        way(store, finer)
        np.testing.assert_array_equal(xr.open_dataset(store, engine="tegula")["v"].values[-2:], finer)


REFUSED: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "an integer out of range": (np.array([1, 2], "i1"), {}, np.array([3, 300])),
    "a fraction": (np.array([1, 2], "i4"), {}, np.array([3.0, 2.5])),
    "NaN as an integer": (np.array([1, 2], "i4"), {}, np.array([3.0, np.nan])),
    "a negative number": (np.array([1, 2], "u2"), {}, np.array([3, -1])),
    "out of the range of a float": (np.array([1, 2], "f4"), {}, np.array([1e300, 2.0])),
    "a packed number": (np.array([1, 2], "i2"), {"scale_factor": 0.1}, np.array([1.0, 5000.0])),
    "the value that marks missing data": (np.array([1, 2], "i2"), {"_FillValue": -9}, np.array([1, -9])),
    "seconds in minutes": (np.array([1, 2]), {"units": "minutes since 2000-01-01"},
                           np.array(["2000-01-01T00:01:00", "2000-01-01T00:00:30"], "M8[ns]")),
    "times among numbers": (np.array([1, 2]), {}, np.array(["2000-01-01", "2000-01-02"], "M8[ns]")),
    "a large integer as a float": (np.array([1, 2], "f8"), {}, np.array([1, 2**53 + 1])),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", REFUSED)
@WAYS
def test_what_can_not_be_stored_is_refused(way: Callable[..., None], case: str, format: str) -> None:
    values, attributes, new = REFUSED[case]
    fill = {"fill_value": attributes.get("_FillValue")} if format == "zarr2" else {}
    store = stored(format, values, attributes, **fill)
    old = {key: store.get(key) for key in store.list()}
    with pytest.raises(MetadataError):
        way(store, new)
    if way is not append_lazily:  # blocks are computed one by one
        assert {key: store.get(key) for key in store.list()} == old


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    dtype=st.sampled_from(["i1", "u1", "i2", "u4", "i8", "f4", "f8"]),
    given_type=st.sampled_from(["i1", "u2", "i8", "f4", "f8"]),
    scale=st.sampled_from([None, 0.5, 0.1]),
    offset=st.sampled_from([None, 10.0]),
    mask=st.sampled_from([None, 7]),
    numbers=st.lists(st.integers(-(2**40), 2**40) | st.integers(-130, 260), min_size=2, max_size=2),
    format=st.sampled_from(FORMATS),
    way=st.sampled_from([append, write_region, replace]),
)
def test_what_is_read_is_what_was_given(
    dtype: str, given_type: str, scale: Any, offset: Any, mask: Any, numbers: Any, format: str, way: Any
) -> None:
    attributes = {"scale_factor": scale, "add_offset": offset} if scale is not None else {}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    fill: dict[str, Any] = {"fill_value": mask} if format == "zarr2" else {}
    if mask is not None and format == "zarr3":
        attributes["_FillValue"] = mask
    store = stored(format, np.array([1, 2], dtype), attributes, **fill)
    with np.errstate(all="ignore"):
        new = np.array(numbers).astype(given_type)
    try:
        way(store, new)
    except MetadataError:
        return
    found = xr.open_dataset(store, engine="tegula")["v"].values[-2:]
    allowed = 0.0 if scale is None else scale / 2 * 1.001
    slack = np.abs(new.astype("f8")) * (1e-6 if "f4" in (dtype, found.dtype.str[1:]) else 1e-12)
    assert (np.abs(found.astype("f8") - new.astype("f8")) <= allowed + slack).all(), (found, new)


def test_new_variables_are_checked_too() -> None:
    data = xr.Dataset({"v": ("x", [1, 300])})
    with pytest.raises(MetadataError, match=r"300 can.t be added to the variable .v.*int8"):
        tegula.xarray.write(data, {}, encoding={"v": {"dtype": "i1"}})
    store = tegula.MemoryStore()
    rounded = xr.Dataset({"v": ("x", [1.2, 2.7])})
    tegula.xarray.write(rounded, store, encoding={"v": {"dtype": "i2", "_FillValue": -1}})  # as the user wants it
    assert tegula.open(store, path="v")[:].tolist() == [1, 3]
