"""Where elements lie: what attributes state, and what they state of levels of a pyramid."""

import time

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
