"""Chains of selections, made by hypothesis, and what NumPy makes of them."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

FULL = slice(None)


class Step(NamedTuple):
    """One selection: NumPy's own, an orthogonal one, or a transposition."""

    kind: str
    value: Any

    def of_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what NumPy selects."""
        if self.kind == "transpose":
            return values.transpose(self.value)
        return values[self.value] if self.kind != "outer" else _outer(values, self.value)

    def of_view(self, view: Any) -> Any:
        """Return what a view selects."""
        if self.kind == "transpose":
            return view.transpose(self.value)
        return view.oindex[self.value] if self.kind == "outer" else view[self.value]


def _outer(values: npt.NDArray[Any], selection: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Select along one axis after the other."""
    items = [*selection] if ... in [item if item is ... else None for item in selection] else [*selection, ...]
    at = next(number for number, item in enumerate(items) if item is ...)
    used = sum(item is not None and item is not ... for item in items)
    items[at : at + 1] = [FULL] * (values.ndim - used)
    axis = 0
    for item in items:
        values = np.expand_dims(values, axis) if item is None else values[(*(FULL,) * axis, item)]
        axis += not isinstance(item, int)
    return values


@st.composite
def items(draw: st.DrawFn, size: int, kind: str) -> Any:
    """Return a selection along one axis."""
    sorts = ["slice", "slice", "full"]
    if size:
        sorts += ["int"] if kind == "basic" else ["int", "indices", "mask"]
    sort = draw(st.sampled_from(sorts))
    if sort == "slice":
        return draw(st.slices(size))
    if sort == "full":
        return FULL
    if sort == "int":
        return draw(st.integers(-size, size - 1))
    if sort == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    shape = draw(st.sampled_from([(1,), (2,), (3,), (2, 3), (2, 1), (1, 3)]))
    count = prod(shape)
    numbers = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
    return np.array(numbers).reshape(-1 if kind == "outer" else shape)


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """Return a selection from an array of some shape, which need not be valid where index arrays are broadcast."""
    kind = draw(st.sampled_from(["basic", "basic", "any", "outer", "transpose"]))
    if kind == "transpose":
        return Step(kind, draw(st.permutations(range(len(shape)))))
    chosen = [draw(items(size, kind)) for size in shape[: draw(st.integers(0, len(shape)))]]
    for extra in (None, ...):
        if draw(st.integers(0, 4)) == 0:
            at = draw(st.integers(0, len(chosen))) if extra is None else len(chosen)
            chosen.insert(at, extra)
    return Step(kind, tuple(chosen) or ((FULL,) if shape else ()))
