"""Transforms: the short way of selecting gives what the long way gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.chains import steps

from tegula.indexing import Affine, whole


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
