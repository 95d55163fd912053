"""The fast path of indexing has the same results as the general path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.tensorstore import array
from tegula.tensorstore.index.basic_indexing import index_basic
from tegula.tensorstore.index.composition import compose
from tegula.tensorstore.index.indexing import index_directly
from tegula.tensorstore.index.numpy_terms import Mode, parse_expression
from tegula.tensorstore.index.transform import IndexTransform

pytestmark = pytest.mark.once(executors="none")

indices = st.integers(-3, 8)
shapes = st.sampled_from([(2,), (3,), (1,), (2, 3), (3, 1), (0,), (1, 1), ()])
MODES: list[Mode] = ["default", "oindex", "vindex"]


@st.composite
def arrays(draw: Any) -> Any:
    shape = draw(shapes)
    count = int(np.prod(shape))
    kind = draw(st.sampled_from(["i8", "i4", "u1", "u8", ">i2", "?", "f8", "list"]))
    values = draw(st.lists(st.integers(0, 6) if kind in ("u1", "u8") else indices, min_size=count, max_size=count))
    return np.array(values, "i8").reshape(shape).tolist() if kind == "list" else np.array(values, kind).reshape(shape)


bounds = st.one_of(st.none(), indices)
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, None, 1, 2, -1]))
terms = st.one_of(indices, slices, slices, arrays(), arrays(), st.just(...), st.none())
transforms = st.builds(
    lambda origin, shape, implicit, offset, stride: IndexTransform(
        input_inclusive_min=origin,
        input_shape=shape,
        implicit_lower_bounds=[implicit, False, False],
        implicit_upper_bounds=[False, implicit, False],
        input_labels=["x", "", "z"],
    )[offset:, ..., ::stride],
    st.lists(st.integers(-1, 1), min_size=3, max_size=3),
    st.lists(st.integers(3, 6), min_size=3, max_size=3),
    st.booleans(),
    st.integers(1, 2),
    st.sampled_from([1, 1, 2, -1]),
)


FIRST = np.array([1, 2, 1, 2])


def described(pair: Any) -> tuple[str, Any]:
    created = IndexTransform._make(*pair)
    arrays = [each._array for each in created._maps if each._array is not None]
    return repr(created), [(array.dtype, array.shape, array.tolist()) for array in arrays]


@given(
    key=st.one_of(terms, st.lists(terms, min_size=1, max_size=4).map(tuple)),
    mode=st.sampled_from(MODES),
    outer=transforms,
    first=st.sampled_from([None, (slice(None), FIRST), (slice(None), slice(None), FIRST), (FIRST, FIRST)]),
)
def test_the_fast_path_does_what_the_general_one_does(key: Any, mode: Mode, outer: IndexTransform, first: Any) -> None:
    if first is not None:
        outer = outer[first].translate_by[1]
    result = index_basic(outer._domain, outer._maps, key, mode)
    if result is not None:
        assert not any(each._array is not None and each._array.flags.writeable for each in result[1])
        inner = index_directly(outer._domain, parse_expression(key, mode))
        assert described(result) == described(compose(outer._pair(), inner))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "key",
    [
        [1, 5, 2],
        [3],
        (np.array([[2]]), np.array([3, 4])),
        np.array([1, 2]),
        np.array([[0, 3]], "u1"),
        (np.array([1, 2]), np.array([3, 4])),
        (np.array([1, 2]), 1, np.array([3, 4])),
        (np.array([1, 2]), slice(1, 3), np.array([[3], [4]])),
        (..., np.array([1, 2])),
        (1, slice(1, 4), [1, 2]),
    ],
)
def test_arrays_of_integers_take_the_fast_path(key: Any, mode: Mode) -> None:
    outer = IndexTransform(input_shape=[6, 6, 6])
    result = index_basic(outer._domain, outer._maps, key, mode)
    assert result is not None
    assert described(result) == described(
        compose(outer._pair(), index_directly(outer._domain, parse_expression(key, mode)))
    )


@pytest.mark.parametrize("key", [slice(1, 3), 2, slice(None, None, -1), (slice(0, 4, 2), 3), (..., 1, slice(1, 3))])
def test_views_of_views_by_arrays_take_the_fast_path(key: Any) -> None:
    outer = IndexTransform(input_shape=[6, 6, 6])[np.array([5, 1, 3, 0])]
    result = index_basic(outer._domain, outer._maps, key, "default")
    assert result is not None
    assert described(result) == described(compose(outer._pair(), index_directly(outer._domain, parse_expression(key))))


def test_a_view_keeps_the_indices_that_it_was_made_with() -> None:
    index = np.array([2, 0])
    view = array([10, 11, 12])[index]
    index[:] = 1
    assert view.read().result().tolist() == [12, 10]
