"""The bounds and labels of dimensions, which composition and operations change without the rest of a domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from tegula.tensorstore.index.intervals import Bounds

__all__ = ["Box", "Parts"]

Parts = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...], tuple[bool, ...], tuple[str, ...]]
"""Lower and upper bounds, whether each is implicit, and labels."""


class Box:
    """Bounds and labels of dimensions: what domains consist of."""

    __slots__ = ("_implicit_lower", "_implicit_upper", "_labels", "_lower", "_upper")

    _lower: tuple[int, ...]
    _upper: tuple[int, ...]
    _implicit_lower: tuple[bool, ...]
    _implicit_upper: tuple[bool, ...]
    _labels: tuple[str, ...]

    @classmethod
    def _make(
        cls,
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        implicit_lower: tuple[bool, ...],
        implicit_upper: tuple[bool, ...],
        labels: tuple[str, ...],
    ) -> Self:
        self = cls.__new__(cls)
        self._lower, self._upper = lower, upper
        self._implicit_lower, self._implicit_upper = implicit_lower, implicit_upper
        self._labels = labels
        return self

    @classmethod
    def _of_bounds(cls, bounds: Iterable[Bounds], labels: Iterable[str]) -> Self:
        """Return the box with these bounds and labels of its dimensions."""
        lower, upper, implicit_lower, implicit_upper = zip(*bounds) if bounds else ((), (), (), ())
        return cls._make(lower, upper, implicit_lower, implicit_upper, tuple(labels))

    @classmethod
    def _of_shape(cls, shape: tuple[int, ...], implicit_upper: tuple[bool, ...] | None = None) -> Self:
        """Return the box of a stored array, which starts at 0 and has no labels."""
        rank = len(shape)
        return cls._make((0,) * rank, shape, (False,) * rank, implicit_upper or (False,) * rank, ("",) * rank)

    def _parts(self) -> Parts:
        return self._lower, self._upper, self._implicit_lower, self._implicit_upper, self._labels

    def _bounds(self, dim: int) -> Bounds:
        return self._lower[dim], self._upper[dim], self._implicit_lower[dim], self._implicit_upper[dim]

    def _take(self, dims: list[int]) -> Self:
        return self._of_bounds([self._bounds(dim) for dim in dims], [self._labels[dim] for dim in dims])

    def _with(
        self,
        bounds: list[tuple[int, int]] | None = None,
        implicit_lower: list[bool] | None = None,
        implicit_upper: list[bool] | None = None,
        labels: list[str] | None = None,
    ) -> Self:
        """Return the box with some of its parts replaced."""
        return self._make(
            self._lower if bounds is None else tuple([bound[0] for bound in bounds]),
            self._upper if bounds is None else tuple([bound[1] for bound in bounds]),
            self._implicit_lower if implicit_lower is None else tuple(implicit_lower),
            self._implicit_upper if implicit_upper is None else tuple(implicit_upper),
            self._labels if labels is None else tuple(labels),
        )
