"""`ChunkLayout` against the installed TensorStore: the same constraints in, the same JSON, text or refusal out."""

import copy
import pickle
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

import tegula.tensorstore as ts
from tegula.errors import TegulaError
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout

pytestmark = pytest.mark.once(executors="none")

sizes = st.sampled_from([None, 0, -1, 1, 2, 5, 64, 1000, 2**62 - 2, -2, 2**62 - 1])
ratios = st.sampled_from([None, 0, 1, 2, 0.5, 1e300, 1.25, -1.0, float("inf")])
counts = st.sampled_from([0, 1, 100, 10**6, 2**62 - 2, -1, 2**62 - 1])
origins = st.sampled_from([None, 0, 1, -5, 2**62 - 2, 2**62 - 1])


def vectors(elements: st.SearchStrategy[Any], rank: int, wrong: bool) -> st.SearchStrategy[list[Any]]:
    ranks = st.just(rank) if not wrong else st.sampled_from([rank, rank, rank, rank + 1, 0])
    return ranks.flatmap(lambda size: st.lists(elements, min_size=size, max_size=size))


def grids(rank: int, wrong: bool) -> st.SearchStrategy[dict[str, Any]]:
    members: dict[str, Any] = {}
    for suffix in ("", "_soft_constraint"):
        members["shape" + suffix] = vectors(sizes, rank, wrong)
        members["aspect_ratio" + suffix] = vectors(ratios, rank, wrong)
        members["elements" + suffix] = counts
    return st.fixed_dictionaries({}, optional=members)


def layouts(wrong: bool) -> st.SearchStrategy[dict[str, Any]]:
    return st.integers(0, 4).flatmap(lambda rank: layouts_of_rank(rank, wrong))


def layouts_of_rank(rank: int, wrong: bool) -> st.SearchStrategy[dict[str, Any]]:
    order = st.permutations(range(rank)).map(list)
    if wrong:
        order |= st.lists(st.integers(0, 5), max_size=5)
    members: dict[str, Any] = {
        "rank": st.just(rank),
        "inner_order": order,
        "inner_order_soft_constraint": order,
        "grid_origin": vectors(origins, rank, wrong),
        "grid_origin_soft_constraint": vectors(origins, rank, wrong),
    }
    for name in ("chunk", "write_chunk", "read_chunk", "codec_chunk"):
        members[name] = grids(rank, wrong)
    return st.fixed_dictionaries({}, optional=members)


def outcome(call: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        created = call(*args, **kwargs)
    except (ValueError, TypeError) as error:
        return kind_and_code(error)
    if isinstance(created, ChunkLayout):
        assert ChunkLayout(created.to_json()) == created
    return created.to_json(), repr(created)


@settings(deadline=None, max_examples=400)
@given(layouts(wrong=False) | layouts(wrong=True))
def test_json_means_the_same(json: dict[str, Any]) -> None:
    assert outcome(ChunkLayout, json) == outcome(tensorstore.ChunkLayout, json)


def flat(json: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for a layout; those for the codec are left to its own test."""
    arguments = {name: value for name, value in json.items() if not name.endswith("chunk")}
    for name, grid in json.items():
        if name.endswith("chunk") and name != "codec_chunk":
            arguments.update({f"{name}_{part}": value for part, value in grid.items()})
    return arguments


@settings(deadline=None, max_examples=300)
@given(layouts(wrong=False) | layouts(wrong=True))
def test_arguments_mean_the_same(json: dict[str, Any]) -> None:
    arguments = flat(json)
    assert outcome(ChunkLayout, **arguments) == outcome(tensorstore.ChunkLayout, **arguments)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 3).flatmap(lambda rank: st.tuples(grids(rank, False), grids(rank, True), st.just(rank))))
def test_grids_mean_the_same(drawn: tuple[dict[str, Any], dict[str, Any], int]) -> None:
    first, second, _ = drawn

    def build(library: Any) -> Any:
        grid = library.ChunkLayout.Grid(**first)
        grid.update(grid=library.ChunkLayout.Grid(second))
        layout = library.ChunkLayout(chunk=grid, codec_chunk=grid)
        parts = ("rank", "shape", "shape_soft_constraint", "aspect_ratio", "elements", "elements_soft_constraint")
        return [grid.to_json(), layout.to_json(), *(getattr(layout.read_chunk, part) for part in parts)]

    results = []
    for library in (Here, tensorstore):
        try:
            results.append(build(library))
        except ValueError as error:
            results.append(kind_and_code(error))
    assert results[0] == results[1]


def _updated(kind: Any, first: dict[str, Any], **arguments: Any) -> Any:
    value = kind(**first)
    value.update(**arguments)
    return value


@pytest.mark.parametrize(
    "merged",
    [
        lambda kind: kind.Grid(shape=[4], grid=kind.Grid(rank=0, elements=9)),
        lambda kind: _updated(kind.Grid, {"shape": [4]}, grid_soft_constraint=kind.Grid(rank=0, elements=9)),
        lambda kind: _updated(kind.Grid, {}, grid=kind.Grid(rank=0)),
        lambda kind: _updated(kind.Grid, {"rank": 0}, grid=kind.Grid(elements=2)),
        lambda kind: _updated(kind.Grid, {"rank": 0}, grid=kind.Grid(rank=1)),
        lambda kind: _updated(kind.Grid, {"rank": 2}, grid=kind.Grid(rank=1)),
        lambda kind: kind(rank=2, write_chunk=kind.Grid(rank=0, elements=4)),
        lambda kind: kind(chunk=kind.Grid(rank=0)),
        lambda kind: kind(rank=0, chunk=kind.Grid(rank=1, shape=[2])),
    ],
)
def test_a_merged_grid_of_rank_0_has_an_unknown_rank(merged: Any) -> None:
    results = []
    for kind in (ChunkLayout, tensorstore.ChunkLayout):
        try:
            value = merged(kind)
            results.append((value.rank, value.to_json()))
        except ValueError as error:
            results.append(kind_and_code(error))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", [ChunkLayout, ChunkLayout.Grid])
def test_each_constraint_has_its_docstring_and_its_name_in_errors(kind: Any) -> None:
    names = [name for name, value in vars(kind).items() if isinstance(value, property) and name != "ndim"]
    assert {name for name in kind._members if hasattr(kind, name)} <= {*names}
    assert len({getattr(kind, name).__doc__ for name in names} - {None}) == len(names)
    for name in names:
        if name.removesuffix("_soft_constraint") in ("shape", "elements", "inner_order", "grid_origin"):
            with pytest.raises(AttributeError, match=f"'{name}'"):
                setattr(kind(), name, 1)


class Here:
    ChunkLayout = ChunkLayout


@settings(deadline=None, max_examples=200)
@given(layouts(wrong=False), layouts(wrong=False))
def test_updates_and_properties_mean_the_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    def build(library: Any) -> Any:
        layout = library.ChunkLayout(first)
        layout.update(**flat(second))
        seen = [layout.rank, layout.inner_order, layout.inner_order_soft_constraint]
        seen += [
            layout.grid_origin,
            layout.grid_origin_soft_constraint,
            layout == library.ChunkLayout(first),
        ]
        return [*seen, str(layout.read_chunk_template), str(layout.write_chunk_template)]

    results = []
    for library in (Here, tensorstore):
        try:
            results.append(build(library))
        except ValueError as error:
            results.append(kind_and_code(error))
    assert results[0] == results[1]


@settings(deadline=None, max_examples=100)
@given(layouts(wrong=False))
def test_finalize_means_the_same(json: dict[str, Any]) -> None:
    rank = json.setdefault("rank", 2)
    arguments = {**flat(json), "finalize": True}
    arguments.setdefault("grid_origin", [0] * rank)
    assert outcome(ChunkLayout, **arguments) == outcome(tensorstore.ChunkLayout, **arguments)


@settings(deadline=None, max_examples=50)
@given(layouts(wrong=False))
def test_copies_and_pickles(json: dict[str, Any]) -> None:
    try:
        layout = ChunkLayout(json)
    except TegulaError:
        return
    for created in (copy.copy(layout), copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert created == layout
        assert created.read_chunk == layout.read_chunk
    grid = layout.write_chunk
    assert pickle.loads(pickle.dumps(grid)) == grid


def test_codec_arguments_are_for_the_codec() -> None:
    # TensorStore sets the read chunk here
    layout = ChunkLayout(codec_chunk_shape=[1, 2], codec_chunk_aspect_ratio_soft_constraint=[3, 4])
    assert layout.to_json() == {"codec_chunk": {"aspect_ratio_soft_constraint": [3.0, 4.0], "shape": [1, 2]}}


@pytest.mark.parametrize(
    "json",
    [None, 5, [], "x", {"foo": 1}, {"a": 1, "b": 2}, {"rank": 33}, {"rank": None}, {"rank": 2.5}, {"chunk": 5}]
    + [{"chunk": {"elements": value}} for value in (None, "5", 5.5, True, 5.0)]
    + [{"chunk": {"shape": value}} for value in (None, 5, ["a"], [1.0], [1.5], [1] * 33, [[1]])]
    + [{"read_chunk": {"aspect_ratio": value}} for value in (["1"], [True], 2, [None])]
    + [{"inner_order": value} for value in ([0, 0], [0, -1], ["a"], [None], 5, None)]
    + [{"grid_origin": value} for value in ([None, "a"], None, [0.0])],
)
def test_odd_json_is_refused_the_same(json: Any) -> None:
    assert outcome(ChunkLayout, json) == outcome(tensorstore.ChunkLayout, json)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rank": 33},
        {"rank": "a"},
        {"rank": -1},
        {"chunk_shape": 5},
        {"chunk_shape": "ab"},
        {"chunk_shape": [1.5]},
        {"chunk_shape": [2**63]},
        {"chunk_elements": 1.5},
        {"chunk_elements": 2**63},
        {"chunk_aspect_ratio": ["1"]},
        {"chunk": 5},
        {"inner_order": [None]},
        {"inner_order": [-1]},
        {"grid_origin": ["x"]},
    ],
)
def test_odd_arguments_are_refused_the_same(arguments: dict[str, Any]) -> None:
    assert outcome(ChunkLayout, **arguments) == outcome(tensorstore.ChunkLayout, **arguments)


def test_errors_are_ours() -> None:
    for call in (lambda: ChunkLayout(5), lambda: ChunkLayout(nonsense=1), lambda: ChunkLayout({}, rank=1)):
        with pytest.raises(TegulaError):
            call()
    with pytest.raises(TegulaError):
        hash(ChunkLayout())


def test_failed_updates_change_nothing() -> None:
    layout = ChunkLayout(chunk_shape=[1, 2])
    with pytest.raises(ValueError, match="does not match existing one"):
        layout.update(inner_order=[1, 0], write_chunk_shape=[3, 2])
    assert layout == ChunkLayout(chunk_shape=[1, 2])


def test_errors_name_the_grid() -> None:
    layout = {"read_chunk_shape": [3], "write_chunk_shape": [4]}
    cause = "write_chunk constraints not compatible with existing read_chunk constraints: "
    for driver in ("zarr", "n5"):
        for library in (ts, tensorstore):
            spec = {"driver": driver, "kvstore": "memory://"}
            options = {"create": True, "dtype": "int8", "shape": [8], "context": library.Context()}
            future = library.open(spec, chunk_layout=library.ChunkLayout(**layout), **options)
            with pytest.raises(ValueError, match=cause):
                future.result()
    schemas = [ts.Schema(chunk_layout=ChunkLayout(write_chunk_shape=[size])) for size in (3, 4)]
    with pytest.raises(ValueError, match=r"^Invalid schema: New hard constraint on write_chunk shape for dimension 0"):
        schemas[0].update(schema=schemas[1])
