"""Indexing a transform is the same as composing it with the indexing of its domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.tensorstore import array
from tegula.tensorstore.errors import ArgumentTypeError, IndexStatusError
from tegula.tensorstore.index.indexing import Mode, index_directly, parse_expression
from tegula.tensorstore.index.output_maps import compose
from tegula.tensorstore.index.transform import IndexTransform, identity

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


def outcome(act: Any) -> Any:
    """Return a result, or what an error says apart from its words."""
    try:
        return described(act())
    except (IndexStatusError, ArgumentTypeError) as error:
        return type(error), error.code


@given(
    key=st.one_of(terms, st.lists(terms, min_size=1, max_size=4).map(tuple)),
    mode=st.sampled_from(MODES),
    outer=transforms,
    first=st.sampled_from([None, (slice(None), FIRST), (slice(None), slice(None), FIRST), (FIRST, FIRST)]),
)
def test_indexing_a_transform_is_composing_it_with_its_indexed_domain(
    key: Any, mode: Mode, outer: IndexTransform, first: Any
) -> None:
    if first is not None:
        outer = outer[first].translate_by[1]

    def indexed(of: IndexTransform) -> Any:
        result = index_directly(of._pair(), parse_expression(key, mode))
        assert not any(each._array is not None and each._array.flags.writeable for each in result[1])
        return result

    assert outcome(lambda: indexed(outer)) == outcome(lambda: compose(outer._pair(), indexed(identity(outer.domain))))


def test_a_view_keeps_the_indices_that_it_was_made_with() -> None:
    index = np.array([2, 0])
    view = array([10, 11, 12])[index]
    index[:] = 1
    assert view.read().result().tolist() == [12, 10]
