"""Operations on input dimensions of a transform: translation, striding, labels, transposition, diagonals.

`Movable` has those that domains and transforms have in common as properties.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from tegula.tensorstore.errors import StatusError, annotate, index_error, invalid
from tegula.tensorstore.index.composition import Transform, substituted
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, affine_domain, shift, translation
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.subscripts import (
    Selector,
    Subscript,
    flags_argument,
    labels_argument,
    offsets_argument,
    resolve,
    resolve_dimension,
    selectors_of,
)

__all__ = [
    "Movable",
    "check_labels",
    "diagonal",
    "mark_implicit",
    "moved",
    "relabelled",
    "reordered",
    "strided",
    "target_order",
]

Self = TypeVar("Self", bound="Movable")


class Movable(ABC):
    """Base class of domains, and of objects with lazy indexing: operations that change no element.

    A subclass defines `_pair`, its domain and the output maps over it, and `_with_pair`.
    """

    __slots__ = ()

    @abstractmethod
    def _pair(self) -> Transform: ...

    @abstractmethod
    def _with_pair(self: Self, pair: Transform) -> Self: ...

    def _subscript(self: Self, name: str, apply: Callable[[Transform, Any], Transform]) -> Subscript[Self]:
        return Subscript(self, name, lambda key: self._with_pair(apply(self._pair(), key)))

    @property
    def label(self: Self) -> Subscript[Self]:
        """``x.label["a", "b"]`` is x with these labels."""
        return self._subscript(
            "label", lambda pair, key: relabelled(pair, dict(enumerate(labels_argument(key, len(pair[0]._lower)))))
        )

    @property
    def translate_by(self: Self) -> Subscript[Self]:
        """``x.translate_by[1, 2]`` is x with its domain translated by these offsets; None keeps a dimension."""
        return self._subscript("translate_by", lambda pair, key: _all_moved(pair, key, "by"))

    @property
    def translate_backward_by(self: Self) -> Subscript[Self]:
        """``x.translate_backward_by[1, 2]`` is x with its domain translated backward by these offsets."""
        return self._subscript("translate_backward_by", lambda pair, key: _all_moved(pair, key, "backward_by"))

    @property
    def translate_to(self: Self) -> Subscript[Self]:
        """``x.translate_to[1, 2]`` is x with its domain translated to this origin."""
        return self._subscript("translate_to", lambda pair, key: _all_moved(pair, key, "to"))

    @property
    def mark_bounds_implicit(self: Self) -> Subscript[Self]:
        """``x.mark_bounds_implicit[True]`` has implicit bounds; ``[False:True]``, only implicit upper ones."""
        return self._subscript(
            "mark_bounds_implicit",
            lambda pair, key: mark_implicit(pair, range(len(pair[0]._lower)), *flags_argument(key)),
        )

    def transpose(self: Self, axes: Any = None) -> Self:
        """Return x with its dimensions in another order, by default reversed."""
        pair = self._pair()
        rank = pair[0].rank
        if axes is None:
            return self._with_pair(reordered(pair, list(range(rank - 1, -1, -1))))
        dims = resolve(selectors_of(axes), rank, pair[0]._labels)
        if len(dims) != rank:
            raise invalid(f"{len(dims)} dimensions are no order of {rank}")
        return self._with_pair(reordered(pair, dims))

    @property
    def T(self: Self) -> Self:
        """X with its dimensions in reverse order."""
        return self.transpose()


def _all_moved(pair: Transform, key: Any, how: str) -> Transform:
    return moved(pair, dict(enumerate(offsets_argument(key, len(pair[0]._lower)))), how)


def moved(pair: Transform, amounts: Mapping[int, int | None], how: str) -> Transform:
    """Translate dimensions ``by`` or ``backward_by`` an amount, or ``to`` an origin; None keeps a dimension."""
    domain = pair[0]
    offsets = [
        translation(lower, upper, amounts.get(dim), how)
        for dim, (lower, upper) in enumerate(zip(domain._lower, domain._upper, strict=True))
    ]
    new = domain._with([shift(*old) for old in zip(domain._lower, domain._upper, offsets, strict=True)])
    return _changed(pair, new, [OutputIndexMap._single(dim, -offset) for dim, offset in enumerate(offsets)])


def strided(pair: Transform, strides: Mapping[int, int]) -> Transform:
    """Keep the indices that are multiples of the stride of a dimension, and divide them by it."""
    domain = pair[0]
    bounds = list(zip(domain._lower, domain._upper, strict=True))
    lower_flags, upper_flags = list(domain._implicit_lower), list(domain._implicit_upper)
    for dim, stride in strides.items():
        try:
            if not stride:
                raise index_error("the stride is 0")
            bounds[dim] = affine_domain(bounds[dim], 0, stride)
        except StatusError as error:
            raise annotate(error, f"stride of dimension {dim}") from None
        if stride < 0:
            lower_flags[dim], upper_flags[dim] = upper_flags[dim], lower_flags[dim]
    new = domain._with(bounds, lower_flags, upper_flags)
    return _changed(pair, new, [OutputIndexMap._single(dim, 0, strides.get(dim, 1)) for dim in range(domain.rank)])


def _changed(pair: Transform, new: Any, inner: list[OutputIndexMap]) -> Transform:
    """Return the transform from a new domain, whose indices `inner` maps to those of the old one."""
    return new, substituted(*pair, new, inner)


def check_labels(labels: Iterable[str]) -> None:
    """Refuse labels that occur twice."""
    named = [label for label in labels if label]
    if repeated := sorted({label for label in named if named.count(label) > 1}):
        raise invalid(f"labels occur twice: {', '.join(repeated)}")


def relabelled(pair: Transform, labels: Mapping[int, str]) -> Transform:
    """Change the labels of dimensions."""
    domain, maps = pair
    new = [labels.get(dim, label) for dim, label in enumerate(domain._labels)]
    check_labels(new)
    return domain._with(labels=new), maps


def mark_implicit(pair: Transform, dims: Iterable[int], lower: bool | None, upper: bool | None) -> Transform:
    """Mark bounds as implicit or explicit; None keeps them."""
    domain, maps = pair
    lower_flags, upper_flags = list(domain._implicit_lower), list(domain._implicit_upper)
    for dim in dims:
        if (lower or upper) and any(old._array is not None and old._array.shape[dim] != 1 for old in maps):
            raise invalid(f"dimension {dim} of an index array can't have implicit bounds")
        lower_flags[dim] = lower_flags[dim] if lower is None else lower
        upper_flags[dim] = upper_flags[dim] if upper is None else upper
    return domain._with(implicit_lower=lower_flags, implicit_upper=upper_flags), maps


def reordered(pair: Transform, dims: list[int]) -> Transform:
    """Put the dimensions in another order."""
    return _changed(pair, pair[0]._take(dims), [OutputIndexMap._single(at) for at in np.argsort(dims).tolist()])


def target_order(rank: int, dims: list[int], target: tuple[Selector, ...]) -> tuple[list[int], list[int]]:
    """Return the order of all dimensions after some have moved to target positions, and these positions.

    A single number is the position of the first moved dimension; the others follow it.
    """
    count = len(dims)
    if len(target) == 1 and isinstance(target[0], int):
        start = resolve_dimension(target[0], rank - count + 1) if count else 0
        positions = list(range(start, start + count))
    else:
        if any(isinstance(selector, str) for selector in target):
            raise index_error("Target dimensions cannot be specified by label")
        positions = []
        for selector in target:
            for position in resolve((selector,), rank, ()):
                if position in positions:
                    raise index_error(f"the target dimension {position} occurs more than once")
                positions.append(position)
        if len(positions) != count:
            raise index_error(f"{len(positions)} target dimensions do not fit {count} selected ones")
    moved_dims = dict(zip(positions, dims, strict=True))
    remaining = iter([dim for dim in range(rank) if dim not in dims])
    return [moved_dims[position] if position in moved_dims else next(remaining) for position in range(rank)], positions


def diagonal(pair: Transform, dims: list[int]) -> Transform:
    """Replace dimensions by their diagonal, which comes first and has the indices that all of them contain."""
    domain = pair[0]
    chosen = [domain._bounds(dim) for dim in dims]
    lower = max([bounds[0] for bounds in chosen], default=-INFINITY)
    upper = max(lower, min([bounds[1] for bounds in chosen], default=EXCLUSIVE_INFINITY))
    flags = all(bounds[2] for bounds in chosen), all(bounds[3] for bounds in chosen)
    others = [dim for dim in range(domain.rank) if dim not in dims]
    new = domain._of_bounds(
        [(lower, upper, *flags), *map(domain._bounds, others)], ["", *[domain._labels[dim] for dim in others]]
    )
    return _changed(
        pair, new, [OutputIndexMap._single(0 if dim in dims else others.index(dim) + 1) for dim in range(domain.rank)]
    )
