"""Where elements lie: what attributes state, and what they state of levels of a pyramid."""

import json
import time
from typing import Any

import pytest

import tegula
from tegula.metadata.spacing import of_level, stated_steps, units_steps

pure = pytest.mark.once(executors="none")


@pure
@pytest.mark.parametrize(
    ("text", "length", "unit"),
    [
        ("4 nm", 4, "nm"), (".5 nm", 0.5, "nm"), ("4 nm ", 4, "nm"), ("\t2.e1nm", 20, "nm"), ("4 1/cm", 4, "1/cm"),
        ("+3", 3, ""), ("", 1, ""), ("nm", 1, "nm"), ("e5 m", 1, "e5 m"), ("1e400 nm", 1, "1e400 nm"),
    ],
)  # fmt: skip
def test_units_are_read_as_tensorstore_reads_them(text: str, length: float, unit: str) -> None:
    ts = pytest.importorskip("tensorstore")
    assert units_steps([text], 1) == ((length, unit, 0),)
    assert ts.Unit(text) == ts.Unit(length, unit)


@pure
@pytest.mark.parametrize("text", ["-4 nm", "0 nm", "0", "-0.0"])
def test_distances_are_positive(text: str) -> None:
    assert not units_steps([text, "4 nm"], 2)


@pure
@pytest.mark.parametrize("text", [" " * 400_000 + "\n1\n1", "1" * 400_000 + "\n", "1e" * 200_000, "." * 400_000])
def test_long_texts_take_no_time(text: str) -> None:
    started = time.process_time()
    units_steps([text], 1)
    assert time.process_time() - started < 1


@pure
def test_an_axis_without_a_unit_hides_no_others() -> None:
    units = {"dimension_units": ["4 nm", None]}
    assert stated_steps(units, 2) == ((4, "nm", 0), (1, "", 0))
    assert of_level(units, 2, [2, 2], "mean") == {"dimension_units": ["8 nm", None]}
    for length, steps in [(4, ((4, "nm", 0), (8, "um", 1))), (5, None)]:
        transform = {"scale": [length, 8], "units": ["nm", "um"], "translate": [0, 1]}
        assert stated_steps({**units, "transform": transform}, 2) == steps
    assert stated_steps({"dimension_units": [None, None]}, 2) is None


def test_an_axis_without_a_unit_has_none_in_xarray_and_in_pyramids() -> None:
    xr = pytest.importorskip("xarray")
    store = tegula.MemoryStore()
    units = {"dimension_units": [None, "4 nm", "8 nm"]}
    tegula.create_array(store, shape=(3, 8, 8), dtype="u1", dimension_names=["c", "y", "x"], attributes=units)
    assert tegula.open_array(store).info["Spacing"] == "1 × 4 nm × 8 nm"
    assert sorted(xr.open_dataset(store, engine="tegula").coords) == ["x", "y"]
    tegula.downsample(store, target := tegula.MemoryStore(), levels=1)
    (pyramid,) = tegula.open_group(target).attrs["ome"]["multiscales"]
    assert [axis.get("unit") for axis in pyramid["axes"]] == [None, "nanometer", "nanometer"]
    assert tegula.open_array(target, path="s1").attrs["dimension_units"] == [None, "8 nm", "16 nm"]


HUGE = 10**400


@pytest.mark.parametrize(
    ("format", "attributes"),
    [
        ("zarr3", {"transform": {"scale": [HUGE, 1], "units": ["nm", "nm"]}}),
        ("zarr3", {"transform": {"scale": [1, 1], "units": ["nm", "nm"], "translate": [0, -HUGE]}}),
        ("zarr3", {"pixelResolution": {"dimensions": [HUGE, 1], "unit": "nm"}}),
        ("n5", {"units": ["nm", "nm"], "resolution": [HUGE, 1]}),
    ],
)
def test_numbers_that_floats_lack_are_not_distances(format: str, attributes: dict[str, Any]) -> None:
    xr = pytest.importorskip("xarray")
    store = tegula.MemoryStore()
    options: dict[str, Any] = {"dimension_names": ["y", "x"], "attributes": attributes}
    tegula.create_array(store, shape=(4, 4), dtype="u1", format=format, **options)
    assert "Spacing" not in tegula.open_array(store).info
    assert not xr.open_dataset(store, engine="tegula").coords
    tegula.downsample(store, target := tegula.MemoryStore(), levels=1)
    level = {**tegula.open_array(target, path="s1").attrs}
    assert {name: level[name] for name in attributes} == attributes


@pytest.mark.parametrize(
    "attributes",
    [
        {"dimension_units": ["1e308 nm", "8 nm"]},
        {"transform": {"scale": [1e308, 8], "units": ["nm", "nm"]}},
        {"transform": {"scale": [10**308, 8], "units": ["nm", "nm"], "translate": [1.7e308, 0]}},
        {"pixelResolution": {"dimensions": [8, 1e308], "unit": "nm"}},
        {"zarr_conventions": [], "spatial:dimensions": ["y", "x"], "spatial:transform": [1e308, 0, 0, 0, 1, 0]},
        {
            "zarr_conventions": [], "spatial:dimensions": ["y", "x"], "spatial:registration": "node",
            "spatial:transform": [HUGE, 0, 0, 0, 1, 0],
        },
    ],
)  # fmt: skip
def test_levels_have_no_numbers_that_floats_lack(attributes: dict[str, Any]) -> None:
    xr = pytest.importorskip("xarray")
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(4, 4), dtype="u1", dimension_names=["y", "x"], attributes=attributes)
    assert "y" not in xr.open_dataset(store, engine="tegula").coords
    if array.info.get("Spacing"):
        with pytest.raises(tegula.MetadataError, match="too large"):
            tegula.downsample(store, {}, levels=1)
    tegula.downsample(store, target := tegula.MemoryStore(), levels=1, scale=1)
    kept = {name: value for name, value in attributes.items() if name in ("zarr_conventions", "spatial:dimensions")}
    found = {**tegula.open_array(target, path="s1").attrs}
    assert {name: found[name] for name in attributes if name in found and name != "spatial:registration"} == kept
    for key in target.list():
        if key.endswith("zarr.json"):
            json.loads(target.get(key), parse_constant=pytest.fail)


def test_a_scale_that_becomes_too_large_is_refused() -> None:
    array = tegula.create_array({}, shape=(4, 4), dtype="u1")
    with pytest.raises(tegula.MetadataError, match="too large"):
        tegula.downsample(array, {}, scale=1e308, levels=1)
