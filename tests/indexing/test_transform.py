"""Transforms: the short way of selecting gives what the long way gives, and elements are those of NumPy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.chains import steps

from tegula.indexing import Affine, Transform, whole
from tegula.indexing.transform import OutputMap, axes_of, extent
from tegula.metadata.chunk_grids import regular_grid


def described(transform: Any) -> Any:
    maps = [tuple(one) if isinstance(one, Affine) else (one.shape, one.tolist()) for one in transform.maps]
    return transform.shape, maps, transform.base, transform.names


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_the_short_way_gives_what_the_long_way_gives(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    transform = whole(shape, data.draw(st.sampled_from([None, tuple("abcd"[: len(shape)])])))
    for _ in range(4):
        step = data.draw(steps(transform.shape))
        if step.kind == "transpose":
            transform = transform.transpose(step.value)
            continue
        selection: Any = step.value
        if data.draw(st.booleans()) and isinstance(selection, tuple):
            selection = tuple([one.tolist() if isinstance(one, np.ndarray) else one for one in selection])
        try:
            slow = transform._indexed(selection, step.kind == "outer")
        except IndexError:
            assert transform._picked(selection, step.kind == "outer") is None
            break
        fast = transform._picked(selection, step.kind == "outer")
        if fast is not None:
            assert described(fast) == described(slow)
            if any(not isinstance(one, Affine) for one in fast.maps):
                transform = data.draw(st.sampled_from([fast, slow]))
                continue
        if len(slow.shape) > 6:
            break
        transform = slow


def test_the_short_way_is_the_usual_one() -> None:
    transform = whole((9, 4, 5))
    for selection in (5, slice(1, 7), (slice(None), 2), (None, ...), (..., None, 1), [3, 1], np.array([0, -1])):
        assert transform._picked(selection, False) is not None
    picked = transform.index([3, 1, 4])
    assert picked._picked((slice(1, None), None, 0), False) is not None
    indices = np.array([1, 2])
    chosen = transform.index(indices)
    indices[0] = 7  # later changes are not those of the view
    assert chosen.maps[0].reshape(-1).tolist() == [1, 2]  # type: ignore[union-attr]


@st.composite
def transforms(draw: Any, shape: tuple[int, ...]) -> Transform:
    """Draw a transform whose maps may share axes, as on a diagonal, and whose axes are all used."""
    lengths = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    maps: list[OutputMap] = []
    for size in shape:
        kind, axis = (
            draw(st.sampled_from("affine affine constant array".split())),
            draw(st.integers(0, len(lengths) - 1)),
        )
        if kind == "affine":
            reach = (size - 1) // max(1, lengths[axis] - 1)
            step = draw(st.integers(-reach, reach)) or 1
            if (lengths[axis] - 1) * abs(step) < size:
                low = draw(st.integers(0, size - 1 - (lengths[axis] - 1) * abs(step)))
                maps.append(Affine(axis, low if step > 0 else low - step * (lengths[axis] - 1), step))
                continue
        if kind == "constant":
            maps.append(Affine(-1, draw(st.integers(0, size - 1)), 0))
            continue
        depends = [draw(st.booleans()) for _ in lengths]
        extents = [length if own else 1 for length, own in zip(lengths, depends)]
        numbers = draw(st.lists(st.integers(0, size - 1), min_size=prod(extents), max_size=prod(extents)))
        maps.append(np.array(numbers).reshape(extents) if len(numbers) > 1 else Affine(-1, numbers[0], 0))
    used = {axis for one in maps for axis in axes_of(one)}
    return Transform(tuple([size if axis in used else 1 for axis, size in enumerate(lengths)]), tuple(maps), shape)


def positions(transform: Transform) -> tuple[np.ndarray[Any, Any], ...]:
    """The index along each axis of the array, for each element of a view."""
    mesh = np.indices(transform.shape)
    ones = np.ones(transform.shape, int)
    found = []
    for one in transform.maps:
        along = 0 if isinstance(one, Affine) and one.axis < 0 else mesh[one.axis] if isinstance(one, Affine) else one
        found.append(ones * (one.start + one.step * along if isinstance(one, Affine) else along))
    return tuple(found)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_arrays_in_memory_and_plans_of_maps_that_share_axes(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    transform = data.draw(transforms(shape))
    values = np.arange(prod(shape)).reshape(shape)
    wanted = values[positions(transform)]
    assert np.array_equal(transform.take(values), wanted)
    assert [extent(one, transform.shape) for one in transform.maps] == [
        (each.min(), each.max()) for each in positions(transform)
    ]

    plan = transform.plan(shape, regular_grid([2] * len(shape)))
    work = np.empty(plan.work_shape, int)
    for coords, inside, place, _ in plan:
        chunk = values[tuple([slice(2 * number, 2 * number + 2) for number in coords])]
        work[(*place, ...)] = chunk[(*inside, ...)]
    assert np.array_equal(plan.present(work), wanted)

    ndim = data.draw(st.integers(0, len(shape)))
    once, places = transform.distinct(ndim)
    numbers = once.take(np.arange(prod(shape[:ndim])).reshape(shape[:ndim]))
    assert np.unique(numbers).size == numbers.size
    elements = values.reshape(-1, *shape[ndim:])[numbers]
    assert np.array_equal(
        Transform(transform.shape, (*places, *transform.maps[ndim:]), elements.shape).take(elements), wanted
    )

    if np.unique(wanted).size == wanted.size:
        changed = values.copy()
        transform.put(changed, -wanted)
        expected = values.copy()
        expected[positions(transform)] *= -1
        assert np.array_equal(changed, expected)
