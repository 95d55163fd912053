"""Selections of dimensions: numbers, labels, slices of numbers, and sequences of these."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from tegula.tensorstore.errors import index_error, invalid, type_error
from tegula.tensorstore.json.binding import dump

__all__ = ["Selector", "resolve", "resolve_dimension", "selectors_of", "slice_text"]

Selector = int | str | slice


def selectors_of(argument: Any) -> tuple[Selector, ...]:
    """Read a selection of dimensions; nested sequences are flattened."""
    selectors: list[Selector] = []
    _collect(argument, selectors)
    return tuple(selectors)


def _collect(argument: Any, selectors: list[Selector]) -> None:
    if isinstance(argument, str):
        selectors.append(argument)
    elif isinstance(argument, bytes):
        selectors.append(argument.decode())
    elif isinstance(argument, slice):
        selectors.append(
            slice(
                *(
                    None if part is None else operator.index(part)
                    for part in (argument.start, argument.stop, argument.step)
                )
            )
        )
    elif isinstance(selection := getattr(argument, "_selection", None), tuple):
        selectors.extend(selection)
    elif hasattr(argument, "__index__") and not isinstance(argument, bool):
        selectors.append(operator.index(argument))
    elif isinstance(argument, Iterable):
        for element in argument:
            _collect(element, selectors)
    else:
        raise type_error(f"__getitem__(): incompatible function arguments: not a selection of dimensions: {argument!r}")


def resolve(selectors: Iterable[Selector], rank: int, labels: Sequence[str]) -> list[int]:
    """Return the numbers of the selected dimensions; no dimension may be selected twice."""
    dims: list[int] = []
    for selector in selectors:
        if isinstance(selector, slice):
            dims.extend(_range(selector, rank))
        elif isinstance(selector, str):
            if not selector:
                raise index_error("Dimension cannot be specified by empty label")
            if selector not in labels:
                listed = ", ".join(map(dump, labels))
                raise index_error(f"Label {dump(selector)} does not match one of {{{listed}}}")
            dims.append(labels.index(selector))
        else:
            dims.append(resolve_dimension(selector, rank))
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


def slice_text(selector: slice) -> str:
    """Return the text of a slice, as between brackets, without a step of 1.

    Examples
    --------
    >>> slice_text(slice(1, None)), slice_text(slice(None, 5, 2))
    ('1:', ':5:2')
    """
    step = None if selector.step in (None, 1) else selector.step
    parts = [selector.start, selector.stop] if step is None else [selector.start, selector.stop, step]
    return ":".join(["" if part is None else str(part) for part in parts])


def _range(selector: slice, rank: int) -> Iterable[int]:
    step = 1 if selector.step is None else selector.step
    if step == 0:
        raise index_error("step must not be 0")
    start = 0 if step > 0 else rank - 1
    stop = rank if step > 0 else -1
    if selector.start is not None:
        start = resolve_dimension(selector.start, rank)
    if selector.stop is not None:
        if not -rank - 1 <= selector.stop <= rank:
            raise index_error(
                f"Dimension exclusive stop index {selector.stop} is outside valid range [-{rank + 1}, {rank}]"
            )
        stop = selector.stop + rank if selector.stop < 0 else selector.stop
    if (stop - start) * step < 0 and not (selector.start is None and selector.stop is None):
        raise index_error(f"{slice_text(selector)} is not a valid range")
    return range(start, stop, step)
