"""Groups of data sets as one group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, NotFoundError, UnsupportedError


def dataset(start: int, target: Any = None, **changes: Any) -> tegula.Group:
    group = tegula.create_group({} if target is None else target, format="zarr2")
    rows = changes.get("rows", 2)
    units = {"units": changes.get("units", "mm")}
    options = {"attributes": units, "fill_value": changes.get("fill_value", 0)}
    group.create_array("rain", data=np.full((rows, 3), start), dimension_names=["time", "x"], **options)
    group.create_array("time", data=np.arange(start, start + rows), dimension_names=["time"])
    group.create_array("x", data=np.array([1.0, np.nan, changes.get("x", 3.0)]), dimension_names=["x"])
    return group


def test_arrays_with_the_dimension_are_joined(tmp_path: Path) -> None:
    groups: list[Any] = [dataset(0), dataset(2, rows=3), tmp_path / "last"]
    dataset(5, tmp_path / "last")
    groups[0].attrs["title"] = "first"
    group = tegula.concat_datasets(groups)
    assert (sorted(group), group.attrs["title"]) == (["rain", "time", "x"], "first")
    assert group["time"][...].tolist() == [*range(7)]
    assert group["rain"][:, 0].tolist() == [0, 0, 2, 2, 2, 5, 5]
    assert (group["rain"].dimension_names, group["rain"].attrs["units"]) == (("time", "x"), "mm")
    assert group["x"].shape == (3,)


def test_xarray_reads_them() -> None:
    xarray = pytest.importorskip("xarray")
    group = tegula.concat_datasets([dataset(0), dataset(2)])
    opened = xarray.open_dataset(group.store, engine="tegula")
    assert dict(opened.sizes) == {"time": 4, "x": 3}
    assert opened.rain.sel(time=3).values.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"units": "m"}, "the attribute units is 'm'"),
        ({"x": 4.0}, "the elements differ"),
        ({"fill_value": -1}, "missing elements are marked by -1, but by 0 in the first group"),
    ],
)
def test_groups_that_do_not_fit_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        tegula.concat_datasets([dataset(0), dataset(2, **changes)])


def test_missing_elements_are_those_of_each_format() -> None:
    xarray = pytest.importorskip("xarray")
    groups = [dataset(0), dataset(2)]
    opened = xarray.open_dataset(tegula.concat_datasets(groups), engine="tegula")
    parts = [xarray.open_dataset(group, engine="tegula") for group in groups]
    xarray.testing.assert_equal(opened.rain, xarray.concat([part.rain for part in parts], "time"))
    assert np.isnan(opened.rain[0, 0])
    packed = tegula.concat([group["rain"] for group in groups]).astype("f4")
    assert np.isnan(xarray.open_dataset(packed, engine="tegula").data[0, 0])


def timed(units: str, values: Any, **changes: Any) -> tegula.Group:
    group = tegula.create_group({}, format=changes.get("format", "zarr3"))
    values = np.asarray(values, changes.get("dtype", "i8"))
    attributes = {"units": units, "bounds": "edges", **changes.get("attributes", {})}
    group.create_array("time", data=values, dimension_names=["time"], attributes=attributes)
    edges = np.stack([values, values + 1], 1)
    group.create_array("edges", data=edges, dimension_names=["time", "side"], fill_value=None)
    return group


@pytest.mark.parametrize(
    ("first", "second", "units"),
    [
        (("days since 2024-01-01", range(31)), ("days since 2024-02-01", range(29)), "days since 2024-01-01"),
        (("days since 2024-01-01", [0, 9]), ("hours since 2024-02-01", [5]), "hours since 2024-01-01"),
        (("days since 2024-01-01 06:00", [0, 9]), ("days since 2024-02-01", [5]), "hours since 2024-01-01 06:00"),
        (("seconds since 2024-01-01", [7]), ("days since 1970-01-01", [20000]), "seconds since 2024-01-01"),
    ],
)
@pytest.mark.parametrize("dtype", ["i2", "i8", "f8"])
def test_times_are_counted_from_one_date(first: Any, second: Any, units: str, dtype: str) -> None:
    xarray = pytest.importorskip("xarray")
    groups = [timed(*one, dtype=dtype) for one in (first, second)]
    group = tegula.concat_datasets(groups)
    assert group["time"].attrs["units"] == units
    assert "units" not in group["edges"].attrs
    opened = xarray.open_dataset(group, engine="tegula")
    parts = [xarray.open_dataset(one, engine="tegula") for one in groups]
    xarray.testing.assert_equal(opened, xarray.concat(parts, "time", coords="minimal"))


def test_times_of_other_calendars_and_missing_ones() -> None:
    def joined(*groups: tegula.Group) -> Any:
        return tegula.concat_datasets(groups)["time"]

    for calendar, days in (("noleap", 59), ("366_day", 60), ("360_day", 60), ("julian", 60)):
        options = {"attributes": {"calendar": calendar, "_FillValue": -9}}
        group = timed("days since 2024-01-01", [1, -9], **options)
        assert joined(group, timed("days since 2024-03-01", [-9, 2], **options))[...].tolist() == [1, -9, -9, days + 2]
    gregorian = timed("days since 2024-01-01", [1], attributes={"calendar": "gregorian"})
    assert joined(gregorian, timed("days since 2024-01-01", [2]))[...].tolist() == [1, 2]
    others = [
        timed("days since 2024-01-02", [1], attributes={"calendar": "noleap"}),
        timed("months since 2024-01-01", [1]),
    ]
    for other in (*others, timed("days since 2024-01-02", [1], attributes={"scale_factor": 2.0})):
        with pytest.raises(MetadataError, match="convert them first"):
            joined(gregorian, other)
    with pytest.raises(UnsupportedError, match="out of range"):
        joined(timed("nanoseconds since 2024-01-01", [1]), timed("days since 2024-01-01", [10**9]))


def test_other_groups_are_refused() -> None:
    other = dataset(2)
    tegula.delete(other.store, path="x")
    with pytest.raises(MetadataError, match="not all groups have the array 'x'"):
        tegula.concat_datasets([dataset(0), other])
    with pytest.raises(MetadataError, match="no array has the dimension 'level'"):
        tegula.concat_datasets([dataset(0)], dim="level")
    with pytest.raises(MetadataError, match="no groups"):
        tegula.concat_datasets([])
    with pytest.raises(MetadataError, match="no axis 3"):
        tegula.stack([dataset(0)["x"]], axis=3)
    with pytest.raises(MetadataError, match="not one path"):
        tegula.concat("x.zarr")
    for array in (np.zeros(3), dataset(0)):
        with pytest.raises(MetadataError, match="no stored array"):
            tegula.concat([array])
    with pytest.raises(NotFoundError, match="there is a group, not an array"):
        tegula.concat([dataset(0).store])
