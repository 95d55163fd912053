"""Selections of dimensions: numbers, labels, slices of numbers, and sequences of these."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from tegula.tensorstore.errors import index_error, invalid, type_error
from tegula.tensorstore.json.binding import dump

__all__ = ["Item", "resolve", "resolve_dimension", "selection_items", "slice_text"]

Item = int | str | slice


def selection_items(argument: Any) -> tuple[Item, ...]:
    """Read a selection of dimensions; nested sequences are flattened."""
    items: list[Item] = []
    _collect(argument, items)
    return tuple(items)


def _collect(argument: Any, items: list[Item]) -> None:
    if isinstance(argument, str):
        items.append(argument)
    elif isinstance(argument, bytes):
        items.append(argument.decode())
    elif isinstance(argument, slice):
        items.append(
            slice(
                *(
                    None if part is None else operator.index(part)
                    for part in (argument.start, argument.stop, argument.step)
                )
            )
        )
    elif isinstance(selection := getattr(argument, "_selection", None), tuple):
        items.extend(selection)
    elif hasattr(argument, "__index__") and not isinstance(argument, bool):
        items.append(operator.index(argument))
    elif isinstance(argument, Iterable):
        for item in argument:
            _collect(item, items)
    else:
        raise type_error(f"__getitem__(): incompatible function arguments: not a selection of dimensions: {argument!r}")


def resolve(items: Iterable[Item], rank: int, labels: Sequence[str]) -> list[int]:
    """Return the numbers of the selected dimensions; no dimension may be selected twice."""
    dims: list[int] = []
    for item in items:
        if isinstance(item, slice):
            dims.extend(_range(item, rank))
        elif isinstance(item, str):
            if not item:
                raise index_error("Dimension cannot be specified by empty label")
            if item not in labels:
                listed = ", ".join(map(dump, labels))
                raise index_error(f"Label {dump(item)} does not match one of {{{listed}}}")
            dims.append(labels.index(item))
        else:
            dims.append(resolve_dimension(item, rank))
    if len(set(dims)) != len(dims):
        if len(dims) > rank:
            raise index_error(f"Number of dimensions ({len(dims)}) exceeds input rank ({rank}).")
        twice = [dim for at, dim in enumerate(dims) for other in dims[:at] if dim == other]
        raise invalid(f"Input dimensions {{{', '.join(map(str, twice))}}} specified more than once")
    return dims


def resolve_dimension(dim: int, rank: int) -> int:
    """Return the number of a dimension; a negative one counts from the end."""
    if not -rank <= dim < rank:
        raise index_error(f"Dimension index {dim} is outside valid range [-{rank}, {rank})")
    return dim + rank if dim < 0 else dim


def slice_text(item: slice) -> str:
    """Return the text of a slice, as between brackets, without a step of 1.

    Examples
    --------
    >>> slice_text(slice(1, None)), slice_text(slice(None, 5, 2))
    ('1:', ':5:2')
    """
    step = None if item.step in (None, 1) else item.step
    parts = [item.start, item.stop] if step is None else [item.start, item.stop, step]
    return ":".join(["" if part is None else str(part) for part in parts])


def _range(item: slice, rank: int) -> Iterable[int]:
    step = 1 if item.step is None else item.step
    if step == 0:
        raise index_error("step must not be 0")
    start = 0 if step > 0 else rank - 1
    stop = rank if step > 0 else -1
    if item.start is not None:
        start = resolve_dimension(item.start, rank)
    if item.stop is not None:
        if not -rank - 1 <= item.stop <= rank:
            raise index_error(
                f"Dimension exclusive stop index {item.stop} is outside valid range [-{rank + 1}, {rank}]"
            )
        stop = item.stop + rank if item.stop < 0 else item.stop
    if (stop - start) * step < 0 and not (item.start is None and item.stop is None):
        raise index_error(f"{slice_text(item)} is not a valid range")
    return range(start, stop, step)
