"""Plans compared with NumPy: a minimal executor carries out a plan, and NumPy gives the expected result."""

from __future__ import annotations

from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tegula.errors import SelectionError
from tegula.indexing import Plan, basic, blocks, numpy_like, orthogonal, refine, vectorized
from tegula.metadata.chunk_grids import ChunkGrid, RegularAxis, VaryingAxis, regular_grid

pytestmark = pytest.mark.once(executors="none")

FULL = slice(None)
law = settings(deadline=None, max_examples=250)


# --- strategies ------------------------------------------------------------------------------------------------------


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...]) -> ChunkGrid:
    axes: list[RegularAxis | VaryingAxis] = []
    for size in shape:
        if draw(st.booleans()):
            axes.append(RegularAxis(draw(st.integers(1, 9))))
        else:
            edges = draw(st.lists(st.integers(1, 5), min_size=size, max_size=size + 1))
            ends = [end for end in accumulate(edges) if end < size]
            axes.append(VaryingAxis(tuple(edges[: len(ends) + draw(st.integers(1, 2))])))
    return ChunkGrid(tuple(axes))


@st.composite
def arrays(draw: st.DrawFn, min_dims: int = 0) -> tuple[np.ndarray, ChunkGrid]:
    """Draw an array whose elements are their flat indices, and a grid for it."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 7]), min_size=min_dims, max_size=4)))
    return np.arange(np.prod(shape, dtype=int)).reshape(shape), draw(grids(shape))


def slices(size: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(-4, 4).filter(bool) | st.just(1) | st.just(-1))


def index_lists(size: int, most: int = 8) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-size, size - 1), max_size=most) if size else st.just([])


@st.composite
def integer_arrays(draw: st.DrawFn, size: int, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape, dtype=int))
    values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)) if count else []
    dtype = draw(st.sampled_from(["i1", "i4", ">i8", "u1", "u8"]))
    if dtype.startswith("u"):
        values = [value % size for value in values]
    array = np.array(values, dtype=dtype).reshape(shape)
    return array.tolist() if array.ndim and draw(st.booleans()) else array


def masks(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    count = int(np.prod(shape, dtype=int))
    flat = st.lists(st.booleans(), min_size=count, max_size=count) | st.sampled_from([[True] * count, [False] * count])
    return flat.map(lambda values: np.array(values, bool).reshape(shape))


@st.composite
def adorned(draw: st.DrawFn, items: list[Any], newaxis: bool = True) -> Any:
    """Draw an equivalent form of a selection: an ellipsis for full slices, new axes, no tuple."""
    full = [isinstance(item, slice) and item == FULL for item in items]
    start = draw(st.integers(0, len(items)))
    end = draw(st.integers(start, len(items)))
    if draw(st.booleans()) and all(full[start:end]):
        items = [*items[:start], ..., *items[end:]]
    else:
        while full and full[-1] and draw(st.booleans()):
            full.pop()
        items = items[: len(full)]
    for place in draw(st.lists(st.integers(0, len(items)), max_size=2)) if newaxis else ():
        items = [*items[:place], None, *items[place:]]
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def basic_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    items = []
    for size in shape:
        kinds: list[st.SearchStrategy[Any]] = [slices(size), st.just(FULL)]
        if size:
            kinds += [st.integers(-size, size - 1), st.integers(-size, size - 1).map(np.int16)]
        items.append(draw(st.one_of(kinds)))
    return draw(adorned(items))


@st.composite
def numpy_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Draw any selection that NumPy accepts, with arrays that broadcast."""
    common = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    items: list[Any] = []
    axis = 0
    mask_length = common[-1] if common else 1
    while axis < len(shape):
        size = shape[axis]
        kind = draw(st.sampled_from(["slice", "full", "int", "array", "array", "mask"]))
        if kind == "int" and size:
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array" and (size or 0 in common):
            own = tuple(draw(st.sampled_from([length, 1])) for length in common)
            own = own[draw(st.integers(0, len(own))) :]
            items.append(draw(integer_arrays(size, own)) if size or 0 in own else [])
        elif kind == "mask":
            rank = draw(st.integers(1, len(shape) - axis))
            mask = draw(masks(shape[axis : axis + rank]))
            if not draw(st.booleans()):  # make it broadcast with the others
                mask &= (np.cumsum(mask) <= mask_length).reshape(mask.shape)
            items.append(mask)
            axis += rank - 1
        else:
            items.append(FULL if kind == "full" else draw(slices(size)))
        axis += 1
    return draw(adorned(items))


@st.composite
def outer_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    items = []
    for size in shape:
        kinds: list[st.SearchStrategy[Any]] = [slices(size), st.just(FULL), index_lists(size), masks((size,))]
        kinds.append(index_lists(size).map(lambda values: np.array(values, "i8")))
        if size:
            kinds += [st.integers(-size, size - 1), index_lists(size, 3).map(lambda v: np.array(sorted(v), "i2"))]
        items.append(draw(st.one_of(kinds)))
    return items


# --- a minimal executor ----------------------------------------------------------------------------------------------


def cut(array: np.ndarray, grid: ChunkGrid) -> dict[tuple[int, ...], np.ndarray]:
    """Return the chunks of an array, clipped to it."""
    found = {}
    for coords in product(*[range(count) for count in grid.counts(array.shape)]):
        starts = [axis.start(number) for axis, number in zip(grid.axes, coords)]
        found[coords] = np.array(array[tuple(slice(s, s + n) for s, n in zip(starts, grid.chunk_shape(coords)))])
    return found


def check(plan: Plan, ids: np.ndarray, grid: ChunkGrid, expected: Any, values: np.ndarray) -> None:
    """Read and write by a plan; `expected` is the selection of NumPy from `ids`, the array of flat indices."""
    assert plan.shape == expected.shape
    assert plan.is_point == (not isinstance(expected, np.ndarray))
    chunks = cut(ids, grid)
    touched = set(np.unique(expected).tolist())
    work = np.full(plan.work_shape, -1)
    seen = []
    for coords, inner, outer, covers in plan:
        assert all(type(number) is int for number in coords)
        assert (work[outer] == -1).all()
        work[outer] = chunks[coords][inner]
        assert covers == touched.issuperset(chunks[coords].ravel().tolist())
        assert all(item.dtype == np.int64 for item in inner if isinstance(item, np.ndarray))
        seen.append(coords)
    result = plan.present(work)
    np.testing.assert_array_equal(result, expected, strict=True)
    assert result.size == 0 or np.shares_memory(result, work)
    assert len(seen) == len(set(seen)) == plan.nchunks
    assert set(seen) == {coords for coords, chunk in chunks.items() if touched.intersection(chunk.ravel().tolist())}

    after = -ids.ravel() - 1
    chunks = cut(after.reshape(ids.shape), grid)
    arranged = plan.arrange(values)
    assert arranged.shape == plan.work_shape
    for coords, inner, outer, _ in plan:
        chunks[coords][inner] = arranged[outer]
    for place, value in zip(expected.ravel(), np.broadcast_to(values, expected.shape).ravel()):
        after[place] = value
    for coords, chunk in cut(after.reshape(ids.shape), grid).items():
        np.testing.assert_array_equal(chunks[coords], chunk)


@st.composite
def right_hand_sides(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Draw values that broadcast to `shape`."""
    own = [draw(st.sampled_from([length, length, 1])) for length in shape]
    own = own[draw(st.sampled_from([0, 0, *range(len(own) + 1)])) :]
    return (np.arange(np.prod(own, dtype=int)) + 1000).reshape(own)


# --- tests -----------------------------------------------------------------------------------------------------------


@law
@given(st.data())
def test_basic_selections_match_numpy(data: st.DataObject) -> None:
    ids, grid = data.draw(arrays())
    selection = data.draw(basic_selections(ids.shape))
    expected = ids[selection]
    values = data.draw(right_hand_sides(expected.shape))
    check(basic(selection, ids.shape, grid), ids, grid, expected, values)
    plan = numpy_like(selection, ids.shape, grid)
    assert [*map(repr, plan)] == [*map(repr, basic(selection, ids.shape, grid))]
    for _, inner, outer, _ in plan:
        assert all(isinstance(item, (int, slice)) for item in inner + outer)


@settings(law, max_examples=500)
@given(st.data())
def test_advanced_selections_match_numpy(data: st.DataObject) -> None:
    ids, grid = data.draw(arrays(min_dims=1))
    selection = data.draw(numpy_selections(ids.shape))
    try:
        expected = ids[selection]
    except IndexError:  # masks that don't broadcast
        with pytest.raises(SelectionError):
            numpy_like(selection, ids.shape, grid)
        return
    values = data.draw(right_hand_sides(expected.shape))
    check(numpy_like(selection, ids.shape, grid), ids, grid, expected, values)
    check(vectorized(selection, ids.shape, grid), ids, grid, expected, values)


@law
@given(st.data())
def test_assignment_matches_numpy(data: st.DataObject) -> None:
    """Compare with NumPy's assignment, also for values with too many dimensions."""
    ids, grid = data.draw(arrays(min_dims=1))
    selection = data.draw(basic_selections(ids.shape) | numpy_selections(ids.shape))
    try:
        shape = ids[selection].shape
    except IndexError:
        assume(False)
    values = data.draw(right_hand_sides(shape))
    if shape and data.draw(st.booleans()):
        values = values[np.newaxis]
    after = ids.copy()
    try:
        after[selection] = values
    except (ValueError, TypeError):  # NumPy is stricter with the values for a single mask
        assume(False)
    plan = numpy_like(selection, ids.shape, grid)
    chunks = cut(ids, grid)
    work = plan.arrange(values)
    for coords, inner, outer, _ in plan:
        chunks[coords][inner] = work[outer]
    for coords, chunk in cut(after, grid).items():
        np.testing.assert_array_equal(chunks[coords], chunk)


@law
@given(st.data())
def test_orthogonal_selections_are_outer_products(data: st.DataObject) -> None:
    ids, grid = data.draw(arrays())
    items = data.draw(outer_selections(ids.shape))
    picks = [
        np.atleast_1d(np.arange(size)[np.asarray(item, int) if isinstance(item, list) else item])
        for item, size in zip(items, ids.shape)
    ]
    dropped = tuple(axis for axis, item in enumerate(items) if isinstance(item, int))
    expected = ids[np.ix_(*picks)].squeeze(dropped) if items else ids
    if len(dropped) == ids.ndim:
        expected = expected[()]
    selection = data.draw(adorned(items, newaxis=False))
    if selection is ... or (isinstance(selection, tuple) and any(item is ... for item in selection)):
        expected = np.asarray(expected)
    plan = orthogonal(selection, ids.shape, grid)
    check(plan, ids, grid, expected, data.draw(right_hand_sides(expected.shape)))


@law
@given(st.data())
def test_block_selections_are_slices_along_chunk_borders(data: st.DataObject) -> None:
    ids, grid = data.draw(arrays())
    items = []
    parts = []
    for axis, count, size in zip(grid.axes, grid.counts(ids.shape), ids.shape):
        first = st.integers(-count, max(0, count - 1))  # what begins past the grid is refused
        whole = st.builds(slice, st.none() | first, st.none() | st.integers(-count - 1, count + 1))
        item = data.draw(st.just(FULL) | whole | st.integers(-count, count - 1) if count else st.just(FULL))
        numbers = [range(count)[item]] if isinstance(item, int) else range(count)[item]
        owned = [index for number in numbers for index in range(size) if axis.locate(index) == number]
        items.append(item)
        parts.append(slice(owned[0], owned[-1] + 1) if owned else slice(0, 0))
    plan = blocks(data.draw(adorned(items, newaxis=False)), ids.shape, grid)
    expected = ids[tuple(parts)]
    check(plan, ids, grid, expected, data.draw(right_hand_sides(expected.shape)))
    assert all(covers for *_, covers in plan)


@law
@given(st.data())
def test_refined_plans_fit_the_chunk_selection(data: st.DataObject) -> None:
    ids, grid = data.draw(arrays(min_dims=1))
    if data.draw(st.booleans()):
        plan = orthogonal(tuple(data.draw(outer_selections(ids.shape))), ids.shape, grid)
    else:
        try:
            plan = numpy_like(data.draw(numpy_selections(ids.shape)), ids.shape, grid)
        except SelectionError:
            assume(False)
    chunks = cut(ids, grid)
    for coords, inner, _, _ in list(plan)[:3]:
        shape = chunks[coords].shape
        local = np.arange(chunks[coords].size).reshape(shape)
        inner_grid = data.draw(grids(shape))
        refined = refine(inner, shape, inner_grid)
        assert refined.work_shape == refined.shape == local[inner].shape
        check(refined, local, inner_grid, local[inner], data.draw(right_hand_sides(refined.shape)))
        work = np.zeros(refined.work_shape)
        assert refined.present(work) is work
        assert refined.arrange(work) is work


wild_items = st.one_of(
    st.integers(-9, 9),
    st.sampled_from([2**63, -(2**63) - 1, 2**70, -(2**70)]),
    slices(5),
    st.just(slice(None, None, 0)),
    st.just(slice(1.5)),
    st.sampled_from(
        [None, ..., 1.0, np.float64(2), 1j, "x", b"x", object(), {}, {1}, np.array(1.0), np.datetime64(1, "D")]
    ),
    st.lists(st.integers(-6, 6), max_size=3),
    st.lists(st.integers(-6, 6), min_size=1, max_size=3).map(np.array),
    st.lists(st.integers(0, 300), min_size=1, max_size=3).map(lambda values: np.array(values, "u8") * 2**56),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.tuples(st.integers(1, 3), st.integers(1, 5)).map(lambda shape: np.ones(shape, bool)),
    st.sampled_from([[1.0], ["a"], [None], [2**70], [1, 2**64], [[1], [2, 3]], np.array([]), np.array(["x"]), [[]]]),
    st.just(np.array([1, 2], object)),
    st.just(np.array([0, 1], "m8[s]")),
)


@settings(law, max_examples=600)
@given(st.data())
def test_errors_match_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    items = data.draw(st.lists(wild_items, max_size=4))
    selection = items[0] if len(items) == 1 and data.draw(st.booleans()) else tuple(items)
    ids = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    grid = regular_grid((2,) * len(shape))
    try:
        expected = ids[selection]
    except (IndexError, ValueError, TypeError, OverflowError, DeprecationWarning):
        for kind in (numpy_like, vectorized):
            with pytest.raises(SelectionError) as caught:
                kind(selection, shape, grid)
            assert str(caught.value)
            assert "\n" not in str(caught.value).rstrip()
        return
    try:
        plan = numpy_like(selection, shape, grid)
    except SelectionError as error:
        # NumPy does not check the indices of an array that is broadcast with an empty one.
        if expected.size or len(items) == 1 or "out of bounds" not in str(error):
            raise
    else:
        check(plan, ids, grid, expected, np.array(-7))


@pytest.mark.parametrize("step", [2**63, -(2**63) - 1, 10**30])
def test_steps_beyond_64_bits(step: int) -> None:
    part = slice(None, None, step)
    (item,) = basic((part,), (7,), regular_grid((3,)))
    assert list(range(7))[part] == [item[0][0] * 3 + item[1][0].start]
    axis = orthogonal((part, [1]), (7, 2), regular_grid((3, 2))).axes[0]
    assert axis is not None
    assert (axis.start, axis.step, axis.count) == (0 if step > 0 else 6, 1, 1)
