"""Selections as written between brackets: field names, and error messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tegula.errors import SelectionError
from tegula.indexing import basic, blocks, numpy_like, orthogonal, split_fields, vectorized
from tegula.metadata.chunk_grids import regular_grid

pytestmark = pytest.mark.once(executors="none")

SHAPE = (10, 5)
GRID = regular_grid((4, 2))


@pytest.mark.parametrize(
    ("selection", "fields", "rest"),
    [
        (..., None, ...),
        ((), None, ()),
        (3, None, 3),
        ([0, 1], None, [0, 1]),
        ([], None, []),
        (([0, 1], 2), None, ([0, 1], 2)),
        ("x", "x", ...),
        (np.str_("x"), "x", ...),
        (("x",), "x", ...),
        (["x"], ["x"], ...),
        (["x", "y"], ["x", "y"], ...),
        (("x", "y"), ["x", "y"], ...),
        (("x", 3), "x", 3),
        ((3, "x"), "x", 3),
        (("x", 3, slice(2)), "x", (3, slice(2))),
        ((["x", "y"], [0, 1]), ["x", "y"], [0, 1]),
        (("x", 0, "y", 1), ["x", "y"], (0, 1)),
        ((["x"], "y", ...), ["x", "y"], ...),
    ],
)
def test_field_names_are_separated(selection: Any, fields: Any, rest: Any) -> None:
    assert split_fields(selection) == (fields, rest)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (10, "index 10 is out of bounds for axis 0 with size 10"),
        ((0, -6), "index -6 is out of bounds for axis 1 with size 5"),
        (np.int8(-11), "index -11 is out of bounds for axis 0 with size 10"),
        (2**70, "index 1180591620717411303424 is out of bounds for axis 0 with size 10"),
        pytest.param(1 << 20000, "index of 20001 bits is out of bounds for axis 0 with size 10", id="huge"),
        ((slice(None), [1, 7]), "index 7 is out of bounds for axis 1 with size 5"),
        (np.array([2**64 - 1], "u8"), "index 18446744073709551615 is out of bounds for axis 0 with size 10"),
        ((1, 2, 3), "too many indices: the array has 2 dimensions, but 3 were indexed"),
        ((..., 1, ...), "only one Ellipsis"),
        ((slice(None), slice(None, None, 0)), "for axis 1 with size 5: slice step cannot be zero"),
        (slice(1.5), "a slice is not valid for axis 0 with size 10"),
        ((slice(None), np.ones(4, bool)), "a boolean mask has length 4 for axis 1 with size 5"),
        (np.ones((10, 4), bool), "a boolean mask has length 4 for axis 1 with size 5"),
        (True, "True can't be used as an index"),
        ((0, np.False_), "False can't be used as an index"),
        (1.0, "not a float"),
        ("x", "not a str"),
        ([0.5], "not a list of data type float64"),
        (np.array([]), "not a ndarray of data type float64"),
        (np.array([1], object), "not a ndarray of data type object"),
        ([[1], [2, 3]], "a list that is not a regular array can't be an index"),
        (([0, 1], [0, 1, 2]), "index arrays of shapes (2,) (3,) can't be broadcast together"),
    ],
)
def test_error_messages(selection: Any, words: str) -> None:
    with pytest.raises(SelectionError) as caught:
        numpy_like(selection, SHAPE, GRID)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "selection", "words"),
    [
        (basic, [1, 2], "a basic selection can't contain arrays"),
        (basic, (0, np.ones(5, bool)), "a basic selection can't contain arrays"),
        (orthogonal, np.ones((10, 5), bool), "one-dimensional arrays, but axis 0 got 2 dimensions"),
        (orthogonal, (0, [[1, 2]]), "one-dimensional arrays, but axis 1 got 2 dimensions"),
        (orthogonal, (0, np.ones(4, bool)), "a boolean mask has length 4 for axis 1 with size 5"),
        (orthogonal, ([0], [0], [0]), "too many indices"),
        (blocks, 3, "index 3 is out of bounds for axis 0 with size 3"),
        (blocks, (0, -4), "index -4 is out of bounds for axis 1 with size 3"),
        (blocks, slice(None, None, 2), "step 1, unlike the one given for axis 0"),
        (blocks, slice(None, None, -1), "step 1, unlike the one given for axis 0"),
        (blocks, slice("a"), "a slice is not valid for axis 0 with 3 blocks"),
        (blocks, slice(3, 4), "begins at 3, out of bounds for axis 0 with size 3"),
        (blocks, (0, slice(15, 20)), "begins at 15, out of bounds for axis 1 with size 3"),
        (blocks, slice(-4, None), "begins at -4, out of bounds for axis 0 with size 3"),
        (blocks, [0], "ints, slices and '...' only"),
        (blocks, None, "ints, slices and '...' only"),
    ],
)
def test_each_kind_rejects_invalid_items(kind: Any, selection: Any, words: str) -> None:
    with pytest.raises(SelectionError) as caught:
        kind(selection, SHAPE, GRID)
    assert words in str(caught.value)


@pytest.mark.parametrize("values", [[1, 2, 3], np.zeros((2, 4)), np.zeros((2, 1, 4)), [[1], [2, 3]]])
def test_values_that_do_not_broadcast_are_rejected(values: Any) -> None:
    with pytest.raises(SelectionError):
        basic((1, slice(4)), SHAPE, GRID).arrange(values)


@pytest.mark.parametrize("kind", [basic, numpy_like, vectorized, orthogonal])
def test_anything_with_an_index_is_an_int(kind: Any) -> None:
    class Three:
        def __index__(self) -> int:
            return 3

    for three in (3, Three(), np.int64(3), np.uint8(3), np.array(3), np.array(3, "u8")):
        for selection in ((three, three), (three, 3, ...), (3, slice(three, None))):
            found = kind(selection, SHAPE, GRID)
            assert [*map(repr, found)] == [
                *map(repr, kind(tuple(3 if x is three else x for x in selection), SHAPE, GRID))
            ]


def test_the_index_arrays_of_the_caller_are_not_kept() -> None:
    index = np.array([0, 1, 2])
    for selection, shape in ((index, (3,)), ((index, index), (3, 3))):
        plan = vectorized(selection, shape, regular_grid((3,) * len(shape)))
        before = [*map(repr, plan)]
        index[:] = 2
        assert [*map(repr, plan)] == before
        index[:] = [0, 1, 2]
