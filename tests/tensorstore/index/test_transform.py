"""Index transforms by hand: constructors, JSON, masks and dimension expressions."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import tensorstore as real
from tests.tensorstore.recorded_errors import kind_and_code

from tegula import tensorstore
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.indexing import DimExpression, DimSelection, d
from tegula.tensorstore.index.output_maps import OutputIndexMap, OutputIndexMethod
from tegula.tensorstore.index.transform import Indexable, IndexTransform, compose, identity

pytestmark = pytest.mark.once(executors="none")

DOCUMENTS: list[Any] = [
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3], "index_array_bounds": [0, 2]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3], "index_array_bounds": ["-inf", 5], "stride": 2}]},
    {"input_shape": [2, 3], "output": [{"index_array": [[1, 2, 3]]}, {"index_array": [[5], [6]], "offset": 3}]},
    {"input_shape": [0], "output": [{"index_array": [1]}]},
    {"input_rank": 1, "output": [{"index_array": [1]}]},
    {"input_rank": 1, "output": [{"index_array": [1, 2]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2]}]},
    {"input_shape": [3], "output": [{"index_array": [[1, 2]]}]},
    {"input_shape": [3], "output": [{"index_array": 1}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, "x"]}]},
    {"input_shape": [1], "output": [{"index_array": [[1, 2], [3]]}]},
    {"input_shape": [[3]], "output": [{"index_array": [1, 2, 3]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3], "index_array_bounds": [5, 2]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3], "index_array_bounds": [5]}]},
    {"input_shape": [3], "output": [{"index_array": [1, 2, 3], "index_array_bounds": ["+inf", 5]}]},
    {"input_rank": 2, "output": [{"offset": 5}, {"input_dimension": 1, "stride": -1}]},
    {"input_rank": 2, "output": [{"input_dimension": 1, "stride": 0, "offset": 4}]},
    {"input_rank": 2, "output": [{"offset": 5, "stride": 1}]},
    {"input_rank": 2, "output": [{"input_dimension": 2}]},
    {"input_rank": 2, "output": [{"input_dimension": "x"}]},
    {"input_rank": 2, "output": [{"input_dimension": 1, "index_array": [1]}]},
    {"input_rank": 2, "output": [{"more": 1}]},
    {"input_rank": 2, "output": [5]},
    {"input_rank": 2, "output": 5},
    {"input_rank": 2, "output": [{}] * 33},
    {"input_rank": 2, "more": 1},
    {"input_labels": ["x", ""], "input_exclusive_max": [5, ["+inf"]]},
    {"input_labels": ["x", "x"]},
    {"output": []},
    {},
    5,
]


def described(kind: Any, document: Any) -> Any:
    try:
        created = kind(json=document)
    except ValueError as error:
        return kind_and_code(error)
    return created.to_json(), repr(created), repr(created.output), repr(created.domain)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_json_means_the_same(document: Any) -> None:
    assert described(IndexTransform, document) == described(real.IndexTransform, document)


def test_transforms_are_made_of_domains_bounds_or_json() -> None:
    created = IndexTransform(
        IndexDomain(shape=[2, 3]), [OutputIndexMap(5), OutputIndexMap(input_dimension=1, stride=2)]
    )
    assert isinstance(created, Indexable)
    assert created == IndexTransform(input_shape=[2, 3], output=list(created.output))
    assert created == pickle.loads(pickle.dumps(created)) == copy.deepcopy(created) == copy.copy(created)
    assert hash(created) == hash(copy.deepcopy(created))
    assert created != created[:1]
    assert created != 5
    assert IndexTransform([Dim(3)]).domain == IndexDomain([Dim(3)])
    assert (created.input_rank, created.output_rank, created.ndim, created.size, created.shape) == (2, 2, 2, 6, (2, 3))
    assert (created.input_inclusive_max, created.input_exclusive_max) == ((1, 2), (2, 3))
    assert created((1, 2)) == (5, 4)
    for wrong in ((1,), (2, 0)):
        with pytest.raises(ValueError, match=r"input rank|outside"):
            created(wrong)
    with pytest.raises(TypeError):
        IndexTransform(IndexDomain(2), input_shape=[1, 2])
    with pytest.raises(TypeError):
        IndexTransform(2, output=[1])
    with pytest.raises(TypeError):
        IndexTransform(5, json={})


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("index", [2, 7, -1, 2**62 - 1, -(2**62)])
def test_calls_go_beyond_implicit_bounds_only(flags: tuple[bool, bool], index: int) -> None:
    document = {
        "input_inclusive_min": [[0] if flags[0] else 0],
        "input_exclusive_max": [[5] if flags[1] else 5],
        "output": [{"input_dimension": 0, "stride": 2}, {"index_array": [3]}],
    }

    def called(kind: Any) -> Any:
        try:
            return kind(json=document)([index])
        except ValueError as error:
            return kind_and_code(error)

    assert called(IndexTransform) == called(real.IndexTransform)


def test_output_maps_have_their_properties() -> None:
    array = OutputIndexMap([1, 2], 2, 3, Dim(0, 5))
    assert (array.method, array.stride, array.offset) == (OutputIndexMethod.array, 3, 2)
    assert array.index_array is not None
    assert not array.index_array.flags.writeable
    assert array.index_range == Dim._make(0, 5, False, False, "")
    assert OutputIndexMap(5).method is OutputIndexMethod.constant
    assert (OutputIndexMap(5).stride, OutputIndexMap(5).input_dimension) == (None, None)
    assert OutputIndexMap(1, 2) == OutputIndexMap(input_dimension=1, offset=2) != OutputIndexMap(1, 3)
    assert [pickle.loads(pickle.dumps(each)) for each in (array, OutputIndexMap(1, 2), OutputIndexMap(3))] == [
        array,
        OutputIndexMap(1, 2),
        OutputIndexMap(3),
    ]
    assert (int(OutputIndexMethod.array), str(OutputIndexMethod.array)) == (2, "OutputIndexMethod.array")
    maps = IndexTransform(2).output
    assert (maps.rank, len(maps), maps[-1]) == (2, 2, OutputIndexMap(input_dimension=1))
    assert maps == [OutputIndexMap(input_dimension=0), OutputIndexMap(input_dimension=1)]
    with pytest.raises(IndexError, match="outside valid range"):
        maps[2]
    for arguments in ({"stride": 0}, {"offset": "a"}, {"index_array": ["a"]}, {"index_array": [1], "index_range": 5}):
        with pytest.raises(TypeError):
            OutputIndexMap(**arguments)


def test_masks_must_fit() -> None:
    x = identity(IndexDomain(shape=[3, 4]))
    mask = np.array([True, False, True])
    assert x[mask].to_json()["output"][0] == {"index_array": [[0], [2]]}
    for expression in (lambda: x[:, mask], lambda: x[mask[:2]], lambda: x[d[1].oindex[mask]], lambda: x[np.eye(3) > 0]):
        with pytest.raises(IndexError, match="mask has length"):
            expression()
    assert x.translate_by[1, 0][mask].shape == (2, 4)
    assert IndexTransform(1)[mask].shape == (2,)


def test_dim_expressions() -> None:
    expression = d["x", 1, ::2].translate_by[1, None].label["a", "b"][[1, 2], 3:].transpose[1:].diagonal
    shown = "d['x',1,::2].translate_by[1,None].label['a','b'][array([1, 2]),3:].transpose[1:].diagonal"
    assert repr(expression) == shown
    assert pickle.loads(pickle.dumps(expression)) == expression != expression.diagonal
    assert isinstance(d[0], DimSelection)
    assert isinstance(d[0].diagonal, DimExpression)
    assert d[[0, 1]] == d[0, d[1]] == pickle.loads(pickle.dumps(d[0, 1])) != d[1, 0]
    assert hash(d[0].diagonal) == hash(d[0].diagonal)
    assert repr(d[0].translate_by) == "d[0].translate_by"
    for wrong in (1.5, None):
        with pytest.raises(TypeError):
            d[wrong]
    for make in (
        lambda: d[0].translate_by["a"],
        lambda: d[0].stride[1.5],
        lambda: d[0].label[5],
        lambda: d[0].mark_bounds_implicit["a"],
        lambda: d[0].mark_bounds_implicit[::True],
        lambda: d[0].translate_by[2**64],
    ):
        with pytest.raises(TypeError):
            make()
    x = identity(IndexDomain(shape=[4, 5], labels=["x", "y"]))
    for strides in (None, [None]):
        with pytest.raises(IndexError, match="has no stride"):
            x[d[0].stride[strides]]
    with pytest.raises(TypeError):
        list(d[0])


def test_views_of_large_index_arrays() -> None:
    x = identity(IndexDomain(shape=[100]))[np.arange(0, 100, 2)]
    view = compose(x, identity(IndexDomain(shape=[50]))[10:20:3])
    assert [view((index,)) for index in view.domain[0]] == [(20,), (26,), (32,), (38,)]
    for shape in ((50,), (1000,), (1001,), (600, 2), (2, 600), (12, 12)):
        array = np.arange(np.prod(shape)).reshape(shape)
        assert repr(OutputIndexMap(index_array=array)) == repr(real.OutputIndexMap(index_array=array))


@pytest.mark.parametrize("bounds", [{}, {"exclusive_max": 5}, {"size": 10**13}])
def test_a_diagonal_may_be_infinite_beside_an_index_array(bounds: dict[str, int]) -> None:
    def diagonals(module: Any) -> list[Any]:
        outer = module.Dim(**bounds)
        created = module.IndexTransform(module.IndexDomain([outer, module.Dim(size=3), outer]))[:, [1, 2]]
        return [created[module.d[dims].diagonal].to_json() for dims in (0, (2, 0), (2, 1), ())]

    assert diagonals(tensorstore) == diagonals(real)
