"""Views as selections of a base array, compared with TensorStore."""

from typing import Any

import numpy as np
import pytest
import tensorstore
from tests.tensorstore.recorded_errors import kind_and_code

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
    results = []
    for package in (ts, tensorstore):
        array = package.array(values.copy(), dtype=getattr(package, name))
        view = select(array)
        view.write(np.broadcast_to(new[: view.size], view.shape)).result()
        results.append(array.read().result().tolist())
    assert results[0] == results[1] != values.tolist()


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


@pytest.mark.parametrize("view", [np.s_[[6, -2]], np.s_[::2, [1, 9, -5]], np.s_[::-2, [3, 0]], np.s_[[7, 6], ::-1]])
def test_an_index_beyond_an_array_that_can_be_resized(view: Any) -> None:
    def error(module: Any) -> Any:
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        array = module.open(spec, create=True, dtype="int8", shape=[7, 3], context=module.Context()).result()
        with pytest.raises(ValueError, match="outside valid range") as info:
            array[view].read().result()
        return kind_and_code(info.value)

    assert error(ts) == error(tensorstore)


@pytest.mark.parametrize("value", [[3], [[3, 4]], np.array([3], np.int8), np.zeros((0, 2), np.int8)])
def test_an_array_written_to_one_element(value: Any) -> None:
    for module in (ts, tensorstore):
        with pytest.raises(ValueError, match=f"rank {np.ndim(value)}"):
            module.array(np.int8(0))[...].write(value).result()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("dims", [(0, 1), (2, 0), (1,)])
def test_the_inner_order_of_a_diagonal(order: list[int], dims: tuple[int, ...]) -> None:
    def layout(module: Any) -> Any:
        spec = {"driver": "zarr3", "kvstore": "memory://", "schema": {"chunk_layout": {"inner_order": order}}}
        array = module.open(spec, create=True, dtype="int8", shape=[4, 4, 4], context=module.Context()).result()
        return array[module.d[dims].diagonal][:, None].chunk_layout.to_json()

    assert layout(ts) == layout(tensorstore)


@pytest.mark.parametrize("select", [lambda view: view.oindex[[3, 3]], lambda view: view.vindex[[2, 3]]])
@pytest.mark.parametrize("cast", [False, True])
def test_index_arrays_reach_nothing_outside_an_empty_view(select: Any, cast: bool) -> None:
    def error(module: Any) -> Any:
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        array = module.open(spec, create=True, dtype="int32", shape=[6], context=module.Context()).result()
        array.write(np.arange(6, dtype="i4")).result()
        view = select((module.cast(array, "float32") if cast else array)[3:3])
        with pytest.raises(ValueError, match="outside valid range") as read:
            view.read().result()
        if not cast:
            with pytest.raises(ValueError, match="outside valid range"):
                view.write(np.int32(7)).result()
        assert array.read().result().tolist() == [0, 1, 2, 3, 4, 5]
        return kind_and_code(read.value)

    assert error(ts) == error(tensorstore)


@pytest.mark.parametrize("low", [-8, -3, 0, 2, 5, 7])
@pytest.mark.parametrize("shape", [4, 40])
def test_the_grid_of_a_computed_array_begins_with_its_domain(low: int, shape: int) -> None:
    def calls(module: Any) -> Any:
        written: list[tuple[int, int]] = []

        def write(domain: Any, values: Any, parameters: Any) -> None:
            written.append((domain.inclusive_min[0], domain.exclusive_max[0]))

        array = module.virtual_chunked(
            None, write, dtype=module.int32, domain=module.IndexDomain([module.Dim(low, 20, implicit_upper=True)]),
            chunk_layout=module.ChunkLayout(chunk_shape=[shape]),
        )  # fmt: skip
        array[:].write(np.int32(1)).result()
        whole = sorted(written)
        if module is ts:  # the other one sometimes writes what is there by chance
            with pytest.raises(ValueError, match="chunk-aligned"):
                array[low + 1 :].write(np.int32(1)).result()
        return array.chunk_layout.grid_origin, str(array.domain), whole

    assert calls(ts) == calls(tensorstore)
