"""Dimension expressions: a selection of dimensions and a chain of operations on them.

``d["x", "y"].translate_by[5][::2]`` only describes the operations; indexing a domain or an array with it applies them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tegula.tensorstore.errors import IndexStatusError, StatusError, index_error
from tegula.tensorstore.index.composition import Transform
from tegula.tensorstore.index.domain import Applicable
from tegula.tensorstore.index.indexing import Expression, Mode, index_selected, parse_expression
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


class Operation(ABC):
    """One operation of a dimension expression."""

    @abstractmethod
    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]: ...


@dataclass(frozen=True, slots=True)
class _Translate(Operation):
    how: str
    amounts: int | list[int | None] | None

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        return moved(pair, dict(zip(dims, _each(self.amounts, dims), strict=True)), self.how), dims

    def __str__(self) -> str:
        return f".translate_{self.how}[{_vector_text(self.amounts)}]"


@dataclass(frozen=True, slots=True)
class _Stride(Operation):
    strides: int | list[int | None] | None

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        strides: dict[int, int] = {}
        for dim, stride in zip(dims, _each(self.strides, dims), strict=True):
            if stride is None:
                raise index_error(f"dimension {dim} has no stride")
            strides[dim] = stride
        return strided(pair, strides), dims

    def __str__(self) -> str:
        return f".stride[{_vector_text(self.strides)}]"


@dataclass(frozen=True, slots=True)
class _Label(Operation):
    labels: tuple[str, ...]

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        if len(self.labels) != len(dims):
            raise index_error(f"{len(self.labels)} labels do not fit {len(dims)} dimensions")
        return relabelled(pair, dict(zip(dims, self.labels, strict=True))), dims

    def __str__(self) -> str:
        return f".label[{','.join(map(repr, self.labels))}]"


@dataclass(frozen=True, slots=True)
class _MarkImplicit(Operation):
    lower: bool | None
    upper: bool | None

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        return mark_implicit(pair, dims, self.lower, self.upper), dims

    def __str__(self) -> str:
        if self.lower == self.upper:
            return f".mark_bounds_implicit[{self.lower}]"
        shown = ["" if flag is None else str(flag) for flag in (self.lower, self.upper)]
        return f".mark_bounds_implicit[{':'.join(shown)}]"


@dataclass(frozen=True, slots=True)
class _Transpose(Operation):
    target: tuple[Selector, ...]

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        order, positions = target_order(pair[0].rank, dims, self.target)
        return reordered(pair, order), positions

    def __str__(self) -> str:
        return f".transpose[{_selection_text(self.target)}]"


@dataclass(frozen=True, slots=True)
class _Diagonal(Operation):
    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        return diagonal(pair, dims), [0]

    def __str__(self) -> str:
        return ".diagonal"


@dataclass(frozen=True, slots=True)
class _Index(Operation):
    expression: Expression

    def apply(self, pair: Transform, dims: Chosen) -> tuple[Transform, Chosen]:
        return index_selected(pair, self.expression, (), dims)

    def __str__(self) -> str:
        mode = "" if self.expression.mode == "default" else f".{self.expression.mode}"
        return f"{mode}{self.expression}"


def _each(values: int | list[int | None] | None, dims: Chosen) -> list[int | None]:
    if not isinstance(values, list):
        return [values] * len(dims)
    if len(values) != len(dims):
        raise index_error(f"{len(values)} indices do not fit {len(dims)} dimensions")
    return values


def _vector_text(values: int | list[int | None] | None) -> str:
    if not isinstance(values, list):
        return str(values)
    return ",".join(map(str, values)) + ("," if len(values) == 1 else "")


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

    def _then(self, operation: Operation) -> DimExpression:
        return DimExpression._make(self._selected, (*self._operations, operation))

    def _apply(self, pair: Transform) -> Transform:
        """Apply the operations to a domain and the output maps over it."""
        if not self._operations:
            raise index_error("Must specify at least one operation in dimension expression")
        domain = pair[0]
        try:
            first, *later = self._operations
            if isinstance(first, _Index):
                pair, dims = index_selected(pair, first.expression, self._selected, None)
            else:
                pair, dims = first.apply(pair, resolve(self._selected, domain.rank, domain._labels))
            for operation in later:
                pair, dims = operation.apply(pair, dims)
        except IndexStatusError:
            raise
        except StatusError as error:
            raise index_error(error.sentence, error.code) from None
        return pair

    def __getitem__(self, indices: Any) -> DimExpression:
        return self._index(indices, "default")

    def _index(self, indices: Any, mode: Mode) -> DimExpression:
        expression = parse_expression(indices, mode, "chained" if self._operations else "first")
        return self._then(_Index(expression))

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
        return Subscript(self, "label", lambda key: self._then(_Label(tuple(strings(key)))))

    @property
    def translate_by(self) -> Subscript[DimExpression]:
        """Translate the dimensions by offsets."""
        return self._translate("by")

    @property
    def translate_backward_by(self) -> Subscript[DimExpression]:
        """Translate the dimensions backward by offsets."""
        return self._translate("backward_by")

    @property
    def translate_to(self) -> Subscript[DimExpression]:
        """Translate the dimensions to an origin."""
        return self._translate("to")

    def _translate(self, how: str) -> Subscript[DimExpression]:
        return Subscript(self, f"translate_{how}", lambda key: self._then(_Translate(how, integers(key))))

    @property
    def stride(self) -> Subscript[DimExpression]:
        """Keep the indices that are multiples of a stride, and divide them by it."""
        return Subscript(self, "stride", lambda key: self._then(_Stride(integers(key))))

    @property
    def transpose(self) -> Subscript[DimExpression]:
        """Move the dimensions to other positions."""

        return Subscript(self, "transpose", lambda key: self._then(_Transpose(selectors_of(key))))

    @property
    def diagonal(self) -> DimExpression:
        """Replace the dimensions by their diagonal, a single dimension that comes first."""
        return self._then(_Diagonal())

    @property
    def mark_bounds_implicit(self) -> Subscript[DimExpression]:
        """Mark bounds as implicit or explicit."""
        return Subscript(self, "mark_bounds_implicit", lambda key: self._then(_MarkImplicit(*flags_argument(key))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimExpression):
            return NotImplemented
        return self._selected == other._selected and self._operations == other._operations

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (DimExpression._make, (self._selected, self._operations))

    def __repr__(self) -> str:
        return f"d[{_selection_text(self._selected)}]{''.join(map(str, self._operations))}"


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
