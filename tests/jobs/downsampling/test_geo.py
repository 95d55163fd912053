"""Conventions for geographic data: conversions keep them, and pyramids have them where the source does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula

_CONVENTIONS = [{"uuid": "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4", "name": "spatial"}, {"name": "proj:"}]
_GEO: dict[str, Any] = {
    "zarr_conventions": _CONVENTIONS,
    "proj:code": "EPSG:32633",
    "spatial:dimensions": ["y", "x"],
    "spatial:shape": [21, 40],
    "spatial:transform": [10.0, 0.0, 500.0, 0.0, -20.0, 900.0],
    "spatial:bbox": [500.0, 480.0, 900.0, 900.0],
}


def _source(store: Any = None, **attributes: Any) -> tegula.Array:
    data = np.arange(3 * 21 * 40.0).reshape(3, 21, 40)
    group = tegula.create_group({} if store is None else store)
    names = ["band", "y", "x"]
    return group.create_array(
        "t", data=data, chunks=(1, 10, 10), dimension_names=names, attributes={**_GEO, **attributes}
    )


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_conversions_keep_them(format: str) -> None:
    store, target = tegula.MemoryStore(), tegula.MemoryStore()
    _source(store)
    layout = {"multiscales": {"layout": [{"asset": "t"}]}, "zarr_conventions": _CONVENTIONS}
    tegula.open(store, mode="r+").attrs.update(layout)
    tegula.convert(store, target, format=format)
    group = tegula.open(target)
    assert group.attrs.asdict() == layout
    assert {name: group["t"].attrs[name] for name in _GEO} == _GEO


def test_each_level_has_its_own_transformation() -> None:
    target = tegula.MemoryStore()
    tegula.downsample(_source(), target)
    group = tegula.open_group(target)
    assert [group[name].attrs["spatial:transform"] for name in group] == [
        [10.0, 0.0, 500.0, 0.0, -20.0, 900.0], [20.0, 0.0, 500.0, 0.0, -40.0, 900.0],
        [40.0, 0.0, 500.0, 0.0, -80.0, 900.0],
    ]  # fmt: skip
    assert [group[name].attrs["spatial:shape"] for name in group] == [[21, 40], [11, 20], [6, 10]]
    assert {group[name].attrs["proj:code"] for name in group} == {"EPSG:32633"}


def test_levels_are_adapted_also_where_a_group_above_lists_the_conventions() -> None:
    target, listed = tegula.MemoryStore(), tegula.MemoryStore()
    source = tegula.MemoryStore()
    array = _source(source)
    tegula.downsample(array, listed)
    del array.attrs["zarr_conventions"]
    tegula.downsample(array, target)
    assert tegula.open_group(target).attrs.asdict().keys() == {"ome"}
    for level in ("s0", "s1", "s2"):
        attributes = tegula.open(listed, path=level).attrs.asdict()
        del attributes["zarr_conventions"]
        assert tegula.open(target, path=level).attrs.asdict() == attributes


def test_the_group_describes_the_levels() -> None:
    target = tegula.MemoryStore()
    tegula.downsample(_source(), target, levels=1)
    attributes = tegula.open_group(target).attrs.asdict()
    assert attributes["ome"]["version"] == "0.5"
    assert [item["name"] for item in attributes["zarr_conventions"]] == ["spatial", "proj:", "multiscales"]
    assert attributes["multiscales"] == {
        "layout": [
            {"asset": "s0", "transform": {"scale": [1.0, 1.0, 1.0], "translation": [0.0, 0.0, 0.0]},
             "spatial:shape": [21, 40], "spatial:transform": [10.0, 0.0, 500.0, 0.0, -20.0, 900.0]},
            {"asset": "s1", "derived_from": "s0",
             "transform": {"scale": [1.0, 2.0, 2.0], "translation": [0.0, 0.5, 0.5]},
             "spatial:shape": [11, 20], "spatial:transform": [20.0, 0.0, 500.0, 0.0, -40.0, 900.0]},
        ],
        "resampling_method": "average",
    }  # fmt: skip
    assert attributes["proj:code"] == "EPSG:32633"
    assert "spatial:transform" not in attributes


def test_nodes_lie_in_the_middle_of_their_block() -> None:
    found = {}
    for method in ("mean", "nearest"):
        target = tegula.MemoryStore()
        tegula.downsample(_source(**{"spatial:registration": "node"}), target, levels=1, method=method)
        found[method] = tegula.open_group(target)["s1"].attrs["spatial:transform"]
    assert found["mean"] == [20.0, 0.0, 505.0, 0.0, -40.0, 890.0]
    assert found["nearest"] == [20.0, 0.0, 500.0, 0.0, -40.0, 900.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"spatial:transform": [1, 2]},
        {"spatial:transform": "x"},
        {"spatial:dimensions": ["lat", "lon"]},
        {"spatial:dimensions": 3},
        {"spatial:transform_type": "rpc"},
    ],
)
def test_a_transformation_that_is_not_understood_is_left_out(wrong: dict[str, Any]) -> None:
    target = tegula.MemoryStore()
    tegula.downsample(_source(**wrong), target, levels=1)
    group = tegula.open_group(target)
    assert "spatial:transform" not in group["s1"].attrs
    assert "spatial:transform" not in group.attrs["multiscales"]["layout"][1]


def test_without_conventions_nothing_is_added() -> None:
    target = tegula.MemoryStore()
    source = tegula.create_array({}, data=np.zeros((40, 40)), chunks=20, attributes={"proj:code": "EPSG:1"})
    tegula.downsample(source, target)
    assert [*tegula.open_group(target).attrs] == ["ome"]


def test_the_group_keeps_its_own_conventions() -> None:
    store = tegula.MemoryStore()
    array = _source(store)
    mine = {"name": "mine"}
    tegula.open(store, mode="r+").attrs["zarr_conventions"] = [mine]
    tegula.downsample(array)
    group = tegula.open_group(store)
    assert [item["name"] for item in group.attrs["zarr_conventions"]] == ["mine", "spatial", "proj:", "multiscales"]
    assert [level["asset"] for level in group.attrs["multiscales"]["layout"]] == ["t", "s1", "s2"]
    tegula.downsample(array, levels=1, overwrite=True)
    group = tegula.open_group(store)
    assert [level["asset"] for level in group.attrs["multiscales"]["layout"]] == ["t", "s1"]
    assert len(group.attrs["zarr_conventions"]) == 4
