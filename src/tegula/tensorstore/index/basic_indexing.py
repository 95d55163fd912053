"""A fast path for views by integers and slices: the transform is indexed in one pass.

The result is the same as that of `tegula.tensorstore.index.indexing` and a composition. Everything else, errors
included, is left to them.
"""

from __future__ import annotations

from typing import Any

from tegula.tensorstore.errors import IndexStatusError
from tegula.tensorstore.index.composition import Maps, Transform
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, Bounds
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.slicing import slice_bounds

__all__ = ["index_basic"]

_ALL = slice(None)


def index_basic(domain: IndexDomain, maps: Maps, key: Any) -> Transform | None:
    """Return the indexed transform; None if the general path has to do it."""
    terms = _basic_terms(key, len(domain._lower))
    if terms is None:
        return None
    kept: list[Bounds] = []
    labels: list[str] = []
    changes: list[tuple[int, int, int]] = []
    for dim, term in enumerate(terms):
        bounds = domain._lower[dim], domain._upper[dim], domain._implicit_lower[dim], domain._implicit_upper[dim]
        if type(term) is int:
            least = -INFINITY if bounds[2] else bounds[0]
            if not least <= term < (EXCLUSIVE_INFINITY if bounds[3] else bounds[1]):
                return None
            changes.append((-1, term, 0))
            continue
        found = _slice(bounds, term, dim)
        if found is None:
            return None
        changes.append((len(kept), found[1], found[2]))
        kept.append(found[0])
        labels.append(domain._labels[dim])
    new_maps = _changed(maps, changes)
    return None if new_maps is None else (IndexDomain._of_bounds(kept, labels), new_maps)


def _basic_terms(key: Any, rank: int) -> tuple[Any, ...] | None:
    """Return an integer or a slice for each dimension; None if there are other terms."""
    terms: tuple[Any, ...] = key if type(key) is tuple else (key,)
    ellipsis = -1
    for at, term in enumerate(terms):
        if term is ...:
            if ellipsis >= 0:
                return None
            ellipsis = at
        elif type(term) is not int and type(term) is not slice:
            return None
    if ellipsis >= 0:
        missing = rank - len(terms) + 1
        terms = (*terms[:ellipsis], *((_ALL,) * missing), *terms[ellipsis + 1 :])
    elif len(terms) < rank:
        terms += (_ALL,) * (rank - len(terms))
    return terms if len(terms) == rank else None


def _slice(bounds: Bounds, item: slice, dim: int) -> tuple[Bounds, int, int] | None:
    start, stop, step = item.start, item.stop, item.step
    if start is None and stop is None and step is None:
        return bounds, 0, 1
    lower, upper, implicit_lower, implicit_upper = bounds
    plain = (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or type(step) is int)
    )
    if not plain or (lower == upper and (implicit_lower or implicit_upper)):
        return None
    if step is None and start is not None and stop is not None and lower <= start <= stop <= upper and start < INFINITY:
        return (start, stop, False, False), 0, 1
    try:
        return slice_bounds(bounds, item, dim)
    except IndexStatusError:
        return None


def _changed(maps: Maps, changes: list[tuple[int, int, int]]) -> Maps | None:
    """Replace the dimensions in the output maps; None if one of the maps has an index array."""
    made: list[OutputIndexMap] = []
    for item in maps:
        dim = item._dimension
        if dim is None:
            if item._array is not None:
                return None
            made.append(item)
            continue
        place, offset, stride = changes[dim]
        if place == dim and stride == 1 and not offset:
            made.append(item)
            continue
        offset = item._offset + item._stride * offset
        stride *= item._stride
        if not (-INFINITY < offset < INFINITY and -INFINITY < stride < INFINITY):
            return None
        made.append(OutputIndexMap._single(place, offset, stride) if place >= 0 else OutputIndexMap._constant(offset))
    return tuple(made)
