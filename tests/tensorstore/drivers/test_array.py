"""The ``array`` driver: specs of views, compared with TensorStore."""

from typing import Any

import numpy as np
import pytest
import tensorstore

import tegula.tensorstore as ts

VALUES = [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("units", [None, ["m", "s"], [None, "s"]])
@pytest.mark.parametrize(
    "select",
    [
        lambda array: array,
        lambda array: array.T,
        lambda array: array[0],
        lambda array: array[0, 1],
        lambda array: array[0:1],
        lambda array: array.T[0:1],
        lambda array: array[2:2],
        lambda array: array[None],
        lambda array: array[[0, 1], [1, 2]],
    ],
)
def test_specs_of_views_of_an_opened_array(select: Any, units: Any) -> None:
    spec = {"driver": "array", "array": VALUES, "dtype": "int32"}
    if units is not None:
        spec["schema"] = {"dimension_units": units}
    mine, real = (select(package.open(spec).result()) for package in (ts, tensorstore))
    assert mine.spec().to_json() == real.spec().to_json()
    assert repr(mine) == repr(real)
    assert ts.open(mine.spec()).result().read().result().tolist() == real.read().result().tolist()


@pytest.mark.parametrize(
    "select",
    [
        lambda array: array[2:2, 3:3][:, 3],
        lambda array: array[2:2, [0, 1]],
        lambda array: array[0:0][[], 1],
        lambda array: array[[[0, 1], [1, 0]], [0, 1]][:, 2:2],
    ],
)
def test_specs_of_empty_views(select: Any) -> None:
    mine, real = (select(package.array(np.array(VALUES))) for package in (ts, tensorstore))
    assert mine.spec().to_json() == real.spec().to_json()


@pytest.mark.parametrize("value", [{"a": [1, None]}, [1, 2], "text", None])
def test_specs_of_one_element_of_json(value: object) -> None:
    values = np.empty((2, 1), object)
    values[:] = [[value], [3]]
    for package in (ts, tensorstore):
        array = package.array(values, dtype=package.json)
        assert array[0, 0].spec().to_json()["array"] == array[0].spec().to_json()["array"] == value


@pytest.mark.parametrize(
    "schema",
    [
        {"fill_value": 1},
        {"codec": {"driver": "zarr"}},
        {"chunk_layout": {"write_chunk": {"shape": [3, 3]}}},
        {"chunk_layout": {"inner_order": [1, 0]}},
        {"dimension_units": ["m", None]},
        {"domain": {"labels": ["x", "y"]}},
    ],
)
def test_constraints_change_nothing_before_opening(schema: Any) -> None:
    json = {"driver": "array", "array": VALUES, "dtype": "int32", "schema": schema}
    mine, real = ts.Spec(json), tensorstore.Spec(json)
    assert mine.fill_value is real.fill_value is None
    assert mine.codec is real.codec is None
    assert mine.schema.to_json() == real.schema.to_json()
    assert mine.chunk_layout.to_json() == real.chunk_layout.to_json()
