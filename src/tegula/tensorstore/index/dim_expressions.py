"""Dimension expressions: a selection of dimensions and a chain of operations on them.

``d["x", "y"].translate_by[5][::2]`` only describes the operations; indexing a domain or an array with it applies them.
"""

from __future__ import annotations

from typing import Any, Self

from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import IndexStatusError, StatusError, index_error
from tegula.tensorstore.index.composition import Transform
from tegula.tensorstore.index.domain import Applicable
from tegula.tensorstore.index.indexing import index_selected, parse_expression
from tegula.tensorstore.index.operations import Mode, Operable, by_arrays, operated, operation
from tegula.tensorstore.index.subscripts import Selector, Subscript, integers, resolve, selectors_of, slice_text

__all__ = ["DimExpression", "DimSelection", "d"]

Operation = tuple[str, Any]
"""The name of an operation of a dimension expression, and its argument."""


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


class DimExpression(Applicable, Operable):
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

    @classmethod
    def _make(cls, selected: tuple[Selector, ...], operations: tuple[Operation, ...] = ()) -> Self:
        self = cls.__new__(cls)
        self._selected, self._operations = selected, operations
        return self

    def _operated(self, name: str, argument: Any = None) -> Any:
        return DimExpression._make(self._selected, (*self._operations, (name, argument)))

    def _indexed(self, indices: Any, mode: Mode) -> DimExpression:
        expression = parse_expression(indices, mode, "chained" if self._operations else "first")
        return self._operated("index", expression)  # type: ignore[no-any-return]

    def _apply(self, pair: Transform) -> Transform:
        """Apply the operations to a domain and the output maps over it."""
        if not self._operations:
            raise index_error("Must specify at least one operation in dimension expression")
        dims: list[int] | None = None
        try:
            for name, argument in self._operations:
                if name == "index":
                    pair, dims = index_selected(pair, argument, self._selected, dims)
                    continue
                if dims is None:
                    dims = resolve(self._selected, pair[0].rank, pair[0].labels)
                pair, dims = operated(pair, dims, name, argument)
        except IndexStatusError:
            raise
        except StatusError as error:
            raise index_error(error.sentence, error.code) from None
        return pair

    def __getitem__(self, indices: Any) -> DimExpression:
        return self._indexed(indices, "default")

    oindex: Subscript[DimExpression] = by_arrays("oindex", "Index with arrays that each apply to their own dimension.")
    vindex: Subscript[DimExpression] = by_arrays(
        "vindex", "Index with arrays that broadcast together; the resulting dimensions come first."
    )
    stride: Subscript[DimExpression] = operation(
        "stride", integers, "Keep the indices that are multiples of a stride, and divide them by it."
    )
    transpose: Subscript[DimExpression] = operation(
        "transpose", selectors_of, "Move the dimensions to other positions."
    )

    @property
    def diagonal(self) -> DimExpression:
        """Replace the dimensions by their diagonal, a single dimension that comes first."""
        return self._operated("diagonal")  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimExpression):
            return NotImplemented
        return self._selected == other._selected and self._operations == other._operations

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._make, (self._selected, self._operations)

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
    _selection: tuple[Selector, ...] = attribute("_selected", "The dimensions, for what takes them.")


class _DimSelection:
    """The type of ``d``: ``d[...]`` selects dimensions."""

    __iter__ = None

    @staticmethod
    def __getitem__(selection: Any) -> DimSelection:
        return DimSelection._make(selectors_of(selection))


d = _DimSelection()
