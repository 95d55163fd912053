"""Missing, packed and boolean values and times: every tool takes them for what xarray does, in every form."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xarray.backends.zarr import FillValueCoder
from zarr.core.buffer import cpu

import tegula
from tegula.arrays.array import Array
from tegula.jobs.downsampling.levels import masks_of
from tegula.metadata.conventions import missing_in

pytestmark = pytest.mark.once(executors="both")

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
FORMATS = [2, 3]


def loaded(store: Any, engine: str) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: xr.Dataset = xr.open_dataset(
            store, engine=engine, **({"consolidated": False} if engine == "zarr" else {})
        )  # type: ignore[arg-type]
        return found.load()


def by_zarr(store: tegula.MemoryStore) -> xr.Dataset:
    held = {key: cpu.Buffer.from_bytes(store.get(key)) for key in store.list()}
    return loaded(zarr.storage.MemoryStore(held), "zarr")


@st.composite
def variables(draw: st.DrawFn) -> tuple[Any, Any, dict[str, Any]]:
    """Return stored numbers, the encoding and the attributes of a variable."""
    dtype = np.dtype(draw(st.sampled_from(NUMBERS)))
    if dtype.kind == "f":
        elements: Any = st.floats(-100, 100, width=dtype.itemsize * 8) | st.just(float("nan"))
    else:
        elements = st.integers(max(np.iinfo(dtype).min, -100), 100)
    values = np.array(draw(st.lists(elements, min_size=1, max_size=8)), dtype)
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.5, 0.1, 3.0]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([1.0, -273.15]))
    return values, draw(st.none() | elements), attributes


def stored(values: Any, mask: Any, attributes: dict[str, Any], number: int) -> tegula.MemoryStore:
    """Store a variable as xarray does: with its mask as the fill value in v2, and in the attribute in v3."""
    store = tegula.MemoryStore()
    tegula.create_group(store, format=f"zarr{number}")
    if number == 3 and mask is not None:
        attributes = {**attributes, "_FillValue": FillValueCoder.encode(mask, values.dtype)}
    fill = {"fill_value": mask} if number == 2 else {}
    tegula.create_array(
        store, path="v", data=values, dimension_names=["x"], attributes=attributes, format=f"zarr{number}", **fill
    )
    return store


def check_same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype or found.dtype.kind == expected.dtype.kind
    if found.dtype == object:  # NaN is not equal to itself there
        found, expected = found.astype("f8"), expected.astype("f8")
    np.testing.assert_array_equal(found, expected)


def check_tools(store: tegula.MemoryStore, expected: xr.DataArray) -> None:
    """Check that all tools take the variable for what xarray says."""
    array = tegula.open(store, path="v")
    assert isinstance(array, Array)
    values = expected.values
    check_same(loaded(store, "tegula")["v"].values, values)
    check_same(array.conventions.decode(array[...]), values)
    found = tegula.statistics(array)
    known = values[~np.isnan(values)] if values.dtype.kind in "fc" else values
    assert (found.count, found.missing) == (known.size, values.size - known.size)
    if known.size and known.dtype.kind != "c":
        assert (found.min, found.max) == (known.min(), known.max())
    left_out = missing_in(array[...], masks_of(array, None))  # by means and modes of `downsample`
    expected_out = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)
    np.testing.assert_array_equal(np.zeros(values.shape, bool) if left_out is None else left_out, expected_out)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(variable=variables(), number=st.sampled_from(FORMATS))
def test_tools_agree_with_xarray(variable: Any, number: int) -> None:
    values, mask, attributes = variable
    store = stored(values, mask, attributes, number)
    expected = by_zarr(store)["v"]
    check_tools(store, expected)
    # and so after a conversion to the other format, and back
    for format in (f"zarr{5 - number}", f"zarr{number}"):
        other = tegula.MemoryStore()
        report = tegula.convert(store, other, format=format, verify=True)
        assert report.ok, report
        check_same(by_zarr(other)["v"].values, expected.values)
        check_tools(other, expected)
        store = other


OWN: dict[str, tuple[Any, list[Any]]] = {  # a mask, and the forms in which programs store it in JSON
    "?": (True, [True, [True], 1]),
    "i2": (-9, [-9, [-9], -9.0]),
    "u8": (2**63, [2**63, [2**63]]),
    "f2": (-9.0, [-9.0, [-9.0], -9, "-9"]),
    "f4": (-999.0, [-999.0, [-999.0], -999, "AAAAAAA4j8A="]),
    "f8": (float("nan"), ["NaN", ["NaN"], None, "AAAAAAAA+H8="]),
    "c8": (2 + 1j, [["AAAAAAAAAEA=", "AAAAAAAA8D8="], [2.0, 1.0], [2, 1]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OWN)
@pytest.mark.parametrize("number", FORMATS)
def test_forms_of_other_programs_mean_the_same(dtype: str, number: int) -> None:
    mask, forms = OWN[dtype]
    values = np.array([0, mask, 1, mask], dtype) if dtype != "?" else np.array([False, True, True, False])
    expected = by_zarr(stored(values, mask, {}, number))["v"]
    for form in forms:
        store = tegula.MemoryStore()
        tegula.create_group(store, format=f"zarr{number}")
        options: dict[str, Any] = {"dimension_names": ["x"], "format": f"zarr{number}"}
        options |= {"attributes": {"_FillValue": form}} | ({"fill_value": None} if number == 2 else {})
        array = tegula.create_array(store, path="v", data=values, **options)
        check_same(loaded(store, "tegula")["v"].values, expected.values)
        check_same(array.conventions.decode(values), expected.values)
        other = tegula.MemoryStore()
        tegula.convert(store, other, format=f"zarr{5 - number}", verify=True)
        check_same(by_zarr(other)["v"].values, expected.values)
        check_same(loaded(other, "tegula")["v"].values, expected.values)


def test_fill_values_are_no_masks_where_no_dimension_is_named() -> None:
    array = tegula.create_array({}, data=np.array([0, 1], "i2"), format="zarr2")
    assert array.conventions.is_plain
    assert xr.open_dataset(array.store, engine="tegula")["data"].dtype == "i2"


UNITS = ["days", "hours", "minutes", "seconds", "milliseconds", "microseconds"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    numbers=st.lists(st.integers(-30_000, 30_000), min_size=1, max_size=5),
    unit=st.sampled_from(UNITS),
    date=st.sampled_from(["2000-01-01", "1970-01-01T00:00:00Z", "1999-2-28 12:30:15.25", "2000-01-01 00:00:00 +02:00"]),
    calendar=st.sampled_from([None, "standard", "proleptic_gregorian"]),
    dtype=st.sampled_from(["i4", "i8", "f8"]),
)
def test_times_are_those_of_xarray(numbers: list[int], unit: str, date: str, calendar: Any, dtype: str) -> None:
    attributes = {"units": f"{unit} since {date}", **({} if calendar is None else {"calendar": calendar})}
    values = np.array(numbers, dtype) * (0.5 if dtype == "f8" and unit != "microseconds" else 1)
    store = stored(values.astype(dtype), None if dtype == "f8" else numbers[0] - 1, attributes, 3)
    array = tegula.open(store, path="v")
    assert isinstance(array, Array)
    expected = by_zarr(store)["v"].values
    np.testing.assert_array_equal(array.conventions.decode(array[...]).astype("M8[ns]"), expected.astype("M8[ns]"))
    found = tegula.statistics(array)
    assert (found.min, found.max) == (expected.min().astype("M8[us]"), expected.max().astype("M8[us]"))
    stored_values = tegula.statistics(array, raw=True)
    assert (stored_values.min, stored_values.max) == (values.min(), values.max())


def test_dates_before_the_reform_of_a_mixed_calendar_are_refused() -> None:
    attributes = {"units": "days since 0001-01-01"}
    array = tegula.create_array({}, data=np.array([0.0, 730_121.0]), attributes=attributes)
    with pytest.raises(tegula.UnsupportedError, match="Gregorian reform"):
        tegula.statistics(array)
    late = tegula.create_array({}, data=np.array([730_121.0]), attributes=attributes)
    assert tegula.statistics(late).min == np.datetime64("2000-01-01T00:00:00")
    other = tegula.create_array({}, data=np.array([360]), attributes={**attributes, "calendar": "360_day"})
    assert tegula.statistics(other).min == 360


def test_masks_of_text_survive_a_conversion() -> None:
    store, other = tegula.MemoryStore(), tegula.MemoryStore()
    tegula.create_group(store, format="zarr2")
    options: dict[str, Any] = {"dtype": str, "dimension_names": ["x"], "format": "zarr2", "fill_value": "none"}
    tegula.create_array(store, path="v", data=np.array(["a", "none"], object), **options)
    tegula.convert(store, other, format="zarr3", verify=True)
    for found in (loaded(store, "tegula"), loaded(other, "tegula"), by_zarr(other)):
        assert found["v"].values.tolist()[0] == "a"
        assert np.isnan(found["v"].values[1])
    assert tegula.compare(store, other).equal
