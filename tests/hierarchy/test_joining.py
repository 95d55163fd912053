"""Groups of data sets as one group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, NotFoundError


def dataset(start: int, target: Any = None, **changes: Any) -> tegula.Group:
    group = tegula.create_group({} if target is None else target, format="zarr2")
    rows = changes.get("rows", 2)
    units = {"units": changes.get("units", "mm")}
    group.create_array("rain", data=np.full((rows, 3), start), attributes=units, dimension_names=["time", "x"])
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
    [({"units": "m"}, "the attribute units is 'm'"), ({"x": 4.0}, "the elements differ")],
)
def test_groups_that_do_not_fit_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        tegula.concat_datasets([dataset(0), dataset(2, **changes)])


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
