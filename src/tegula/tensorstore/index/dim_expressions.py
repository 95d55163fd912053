"""Dimension expressions: a selection of dimensions and a chain of operations on them.

``d["x", "y"].translate_by[5][::2]`` only describes the operations; indexing a domain or an array with it applies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.tensorstore.errors import IndexStatusError, StatusError, index_error
from tegula.tensorstore.index.composition import Transform
from tegula.tensorstore.index.domain import Applicable
from tegula.tensorstore.index.indexing import Mode, index_selected, parse_expression
from tegula.tensorstore.index.operations import (
    diagonal,
    mark_implicit,
    moved,
    relabelled,
    reordered,
    strided,
    target_order,
)
from tegula.tensorstore.index.subscripts import (
    Selector,
    Subscript,
    flags_argument,
    integers,
    resolve,
    selectors_of,
    slice_text,
    strings,
)

__all__ = ["DimExpression", "DimSelection", "d"]

Chosen = list[int]
Operation = tuple[str, Any]
"""The name of an operation of a dimension expression, and its argument."""


def _applied(pair: Transform, dims: Chosen, name: str, argument: Any) -> tuple[Transform, Chosen]:
    """Return the result of an operation, and the dimensions selected after it."""
    match name:
        case "index":
            return index_selected(pair, argument, (), dims)
        case "transpose":
            order, positions = target_order(pair[0].rank, dims, argument)
            return reordered(pair, order), positions
        case "diagonal":
            return diagonal(pair, dims), [0]
        case "mark_bounds_implicit":
            return mark_implicit(pair, dims, *argument), dims
        case "label":
            return relabelled(pair, _each(argument, dims, "labels")), dims
        case "stride":
            strides = _each(argument, dims, "strides")
            if None in strides.values():
                raise index_error(f"dimension {[*strides.values()].index(None)} of the selected ones has no stride")
            return strided(pair, strides), dims
    return moved(pair, _each(argument, dims, "indices"), name.removeprefix("translate_")), dims


def _each(values: Any, dims: Chosen, what: str) -> dict[int, Any]:
    """Return the value for each dimension: one of several, or the only one."""
    if not isinstance(values, (list, tuple)):
        return dict.fromkeys(dims, values)
    if len(values) != len(dims):
        raise index_error(f"{len(values)} {what} do not fit {len(dims)} dimensions")
    return dict(zip(dims, values, strict=True))


def _text(name: str, argument: Any) -> str:
    """Return the text of an operation, as it is written."""
    match name:
        case "index":
            return f"{'' if argument.mode == 'default' else f'.{argument.mode}'}{argument}"
        case "diagonal":
            return ".diagonal"
        case "label":
            shown = ",".join(map(repr, argument))
        case "transpose":
            shown = _selection_text(argument)
        case "mark_bounds_implicit":
            parts = ["" if flag is None else str(flag) for flag in argument]
            shown = str(argument[0]) if argument[0] == argument[1] else ":".join(parts)
        case _:
            shown = str(argument)
            if isinstance(argument, list):
                shown = ",".join(map(str, argument)) + ("," if len(argument) == 1 else "")
    return f".{name}[{shown}]"


def _selection_text(selectors: tuple[Selector, ...]) -> str:
    if not selectors:
        return "()"
    return ",".join([slice_text(selector) if isinstance(selector, slice) else repr(selector) for selector in selectors])


class DimExpression(Applicable):
    """A chain of operations on selected dimensions of a domain or array; each property or index adds an operation.

    Examples
    --------
    >>> d["x"].translate_by[5].label["y"][1:3]
    d['x'].translate_by[5].label['y'][1:3]
    """

    __slots__ = ("_operations", "_selected")
    __iter__ = None

    _selected: tuple[Selector, ...]
    _operations: tuple[Operation, ...]

    @staticmethod
    def _make(selected: tuple[Selector, ...], operations: tuple[Operation, ...]) -> DimExpression:
        self = DimExpression.__new__(DimExpression)
        self._selected, self._operations = selected, operations
        return self

    def _then(self, name: str, argument: Any = None) -> DimExpression:
        return DimExpression._make(self._selected, (*self._operations, (name, argument)))

    def _property(self, name: str, read: Callable[[Any], Any]) -> Subscript[DimExpression]:
        return Subscript(self, name, lambda key: self._then(name, read(key)))

    def _apply(self, pair: Transform) -> Transform:
        """Apply the operations to a domain and the output maps over it."""
        if not self._operations:
            raise index_error("Must specify at least one operation in dimension expression")
        domain = pair[0]
        try:
            (name, argument), *later = self._operations
            if name == "index":
                pair, dims = index_selected(pair, argument, self._selected, None)
            else:
                pair, dims = _applied(pair, resolve(self._selected, domain.rank, domain._labels), name, argument)
            for operation in later:
                pair, dims = _applied(pair, dims, *operation)
        except IndexStatusError:
            raise
        except StatusError as error:
            raise index_error(error.sentence, error.code) from None
        return pair

    def __getitem__(self, indices: Any) -> DimExpression:
        return self._index(indices, "default")

    def _index(self, indices: Any, mode: Mode) -> DimExpression:
        expression = parse_expression(indices, mode, "chained" if self._operations else "first")
        return self._then("index", expression)

    @property
    def oindex(self) -> Subscript[DimExpression]:
        """Index with arrays that each apply to their own dimension."""
        return Subscript(self, "oindex", lambda key: self._index(key, "oindex"))

    @property
    def vindex(self) -> Subscript[DimExpression]:
        """Index with arrays that broadcast together; the resulting dimensions come first."""
        return Subscript(self, "vindex", lambda key: self._index(key, "vindex"))

    @property
    def label(self) -> Subscript[DimExpression]:
        """Change the labels of the dimensions."""
        return self._property("label", strings)

    @property
    def translate_by(self) -> Subscript[DimExpression]:
        """Translate the dimensions by offsets."""
        return self._property("translate_by", integers)

    @property
    def translate_backward_by(self) -> Subscript[DimExpression]:
        """Translate the dimensions backward by offsets."""
        return self._property("translate_backward_by", integers)

    @property
    def translate_to(self) -> Subscript[DimExpression]:
        """Translate the dimensions to an origin."""
        return self._property("translate_to", integers)

    @property
    def stride(self) -> Subscript[DimExpression]:
        """Keep the indices that are multiples of a stride, and divide them by it."""
        return self._property("stride", integers)

    @property
    def transpose(self) -> Subscript[DimExpression]:
        """Move the dimensions to other positions."""
        return self._property("transpose", selectors_of)

    @property
    def diagonal(self) -> DimExpression:
        """Replace the dimensions by their diagonal, a single dimension that comes first."""
        return self._then("diagonal")

    @property
    def mark_bounds_implicit(self) -> Subscript[DimExpression]:
        """Mark bounds as implicit or explicit."""
        return self._property("mark_bounds_implicit", flags_argument)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimExpression):
            return NotImplemented
        return self._selected == other._selected and self._operations == other._operations

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (DimExpression._make, (self._selected, self._operations))

    def __repr__(self) -> str:
        return f"d[{_selection_text(self._selected)}]{''.join(_text(*operation) for operation in self._operations)}"


class DimSelection(DimExpression):
    """Dimensions by number, label or range of numbers: the start of a dimension expression.

    Examples
    --------
    >>> d["x", 1, ::2]
    d['x',1,::2]
    """

    __slots__ = ()

    @property
    def _selection(self) -> tuple[Selector, ...]:
        return self._selected

    @staticmethod
    def _of(selected: tuple[Selector, ...]) -> DimSelection:
        self = DimSelection.__new__(DimSelection)
        self._selected, self._operations = selected, ()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (DimSelection._of, (self._selected,))


class _DimSelection:
    """The type of ``d``: ``d[...]`` selects dimensions."""

    __iter__ = None

    @staticmethod
    def __getitem__(selection: Any) -> DimSelection:
        return DimSelection._of(selectors_of(selection))


d = _DimSelection()
