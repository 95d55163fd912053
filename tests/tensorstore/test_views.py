"""Views as selections of a base array, compared with TensorStore."""

from typing import Any

import numpy as np
import pytest
import tensorstore

import tegula.tensorstore as ts


@pytest.mark.parametrize(
    "select",
    [
        lambda array: array[0, None, 0],
        lambda array: array[[0], [1]],
        lambda array: array[[0, 0], [1, 1]],
        lambda array: array[1, 1][None, None],
    ],
)
@pytest.mark.parametrize("name", ["json", "ustring", "string"])
def test_objects_written_to_one_element(name: str, select: Any) -> None:
    values, new = np.array([["a", "b"], ["c", "d"]], object), np.array(["y", "z"], object)
    if name == "string":
        values, new = np.char.encode(values.astype(str)).astype(object), np.array([b"y", b"z"], object)
    found = []
    for package in (ts, tensorstore):
        array = package.array(values.copy(), dtype=getattr(package, name))
        view = select(array)
        view.write(np.broadcast_to(new[: view.size], view.shape)).result()
        found.append(array.read().result().tolist())
    assert found[0] == found[1] != values.tolist()


def test_a_document_written_through_a_new_axis() -> None:
    for package in (ts, tensorstore):
        document = package.open({"driver": "json", "kvstore": "memory://k"}, context=package.Context()).result()
        document[None].write(np.array([{"a": 1}], object)).result()
        assert document.read().result().item() == {"a": 1}


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([[1.5], [2]]), np.array([]), np.array(["x", "y"])])
def test_an_array_written_to_a_document_is_a_list(value: Any) -> None:
    for package in (ts, tensorstore):
        document = package.open({"driver": "json", "kvstore": "memory://k"}, context=package.Context()).result()
        document.write(value).result()
        assert document.read().result().item() == value.tolist()
