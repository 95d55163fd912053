"""NumPy-like indexing of a domain and of the output maps over it, and dimension expressions.

Integers drop a dimension, slices restrict it and (without a step) keep its indices, ``None`` adds a dimension, and
arrays replace dimensions. With the mode ``"default"``, all arrays broadcast together; the resulting dimensions replace
the first array, or come first if other terms separate the arrays. With ``"vindex"`` they always come first. With
``"oindex"``, each array stays in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import EllipsisType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import IndexStatusError, StatusError, index_error, type_error
from tegula.tensorstore.index.dim import EXCLUSIVE_INFINITY, INFINITY, MAX_RANK, Bounds, effective, slice_bounds
from tegula.tensorstore.index.domain import Applicable, IndexDomain
from tegula.tensorstore.index.operations import (
    Mode,
    Operable,
    Selector,
    Subscript,
    by_arrays,
    integers,
    operated,
    operation,
    resolve,
    selectors_of,
    slice_text,
    twice,
)
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap, Transform, is_explicitly_empty, substituted
from tegula.tensorstore.json import read_indices, read_int64

__all__ = [
    "DimExpression", "DimSelection", "DimSelectionLike", "Expression", "NumpyIndexTerm", "NumpyIndexingSpec", "d",
    "index_basic", "index_directly", "newaxis", "parse_expression",
]  # fmt: skip


newaxis = None

NumpyIndexTerm: TypeAlias = int | slice | Sequence[Any] | Any | None
"""A term of an index expression: an integer, a slice, ``None``, an ellipsis, or an array of integers or booleans."""

NumpyIndexingSpec: TypeAlias = NumpyIndexTerm | tuple[NumpyIndexTerm, ...]
"""An index expression: a term, or a tuple of terms."""

DimSelectionLike: TypeAlias = int | str | slice | Sequence[Any]
"""Dimensions: a number, a label, a slice of numbers, or several of these."""

Usage = Literal["direct", "first", "chained"]

_ALL = slice(None)
_NEW = -1
_NOTHING = -2
_PARTS = frozenset((int, type(None)))
_VECTORS = (tuple, list, np.ndarray)
_INVALID = (
    "Only integers, slices (`:`), ellipsis (`...`), tensorstore.newaxis (`None`) and "
    "integer or boolean arrays are valid indices"
)


class Arrays:
    """Index arrays with common axes: one array of integers, or the positions of the true elements of a mask."""

    __slots__ = ("arrays", "shape", "source")

    def __init__(self, arrays: tuple[IndexArray, ...], shape: tuple[int, ...], source: np.ndarray[Any, Any]) -> None:
        self.arrays, self.shape, self.source = arrays, shape, source

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arrays):
            return NotImplemented
        return self.source.dtype == other.source.dtype and np.array_equal(self.source, other.source)

    def __hash__(self) -> int:
        return hash(self.shape)


Term = int | slice | Arrays | EllipsisType | None


class Expression(NamedTuple):
    """An index expression; a scalar one is one integer, 0-d array, slice or None for every selected dimension."""

    terms: tuple[Term, ...]
    scalar: bool
    mode: Mode
    shape: tuple[int, ...] = ()  # that the arrays broadcast to; empty in the mode "oindex"
    apart: bool = False  # whether a slice, an ellipsis or None separates the arrays

    def __str__(self) -> str:
        shown = ",".join([_term_text(term) for term in self.terms])
        return f"[{shown}]" if self.scalar or len(self.terms) != 1 else f"[{shown},]"


# --- reading expressions


def parse_expression(argument: Any, mode: Mode = "default", usage: Usage = "direct") -> Expression:
    """Read the expression between the brackets.

    Its `usage` says whether it indexes an object directly, or is the first or a later operation of a dimension
    expression.
    """
    terms: list[Term] = []
    shape: tuple[int, ...] = ()
    has_array = closed = apart = False
    for index in argument if type(argument) is tuple else (argument,):
        kind = type(index)
        if kind is int and -(2**63) <= index < 2**63:
            terms.append(index)
            continue
        if kind is slice and type(index.start) in _PARTS and type(index.stop) in _PARTS and type(index.step) in _PARTS:
            closed = closed or has_array
            terms.append(index)
            continue
        for term in _terms(index):
            if type(term) is Arrays:
                if not term.arrays and mode == "oindex" and usage != "direct":
                    raise index_error("Zero-rank bool array incompatible with outer indexing of a dimension selection")
                apart, has_array = apart or closed, True
                try:
                    if mode != "oindex":
                        shape = np.broadcast_shapes(shape, term.shape) if shape and shape != term.shape else term.shape
                except ValueError:
                    shown = " vs ".join(f"{{{', '.join(map(str, lengths))}}}" for lengths in (term.shape, shape))
                    raise index_error(f"Incompatible index array shapes: {shown}") from None
            else:
                closed = closed or (has_array and type(term) is not int)
                if term is None and usage == "chained":
                    raise index_error("tensorstore.newaxis (`None`) not valid in chained indexing operations")
                if term is ... and ... in [each for each in terms if type(each) is not Arrays]:
                    raise index_error("An index can only have a single ellipsis (`...`)")
            terms.append(term)
    scalar = type(argument) is not tuple and len(terms) == 1 and terms[0] is not ...
    if scalar and type(argument) is slice:
        scalar = not any(isinstance(part, _VECTORS) for part in (argument.start, argument.stop, argument.step))
    elif scalar and type(term := terms[0]) is Arrays:
        scalar = not term.source.ndim and term.source.dtype.kind != "b"
    if scalar:
        return Expression(tuple(terms), True, mode)
    return Expression(tuple(terms), False, mode, shape, apart and mode != "oindex")


def _terms(index: Any) -> tuple[Term, ...]:
    if index is None or index is ...:
        return (index,)
    if isinstance(index, slice):
        return _slices(index)
    if not isinstance(index, (np.ndarray, bool)) and hasattr(index, "__index__"):
        return (read_int64(index),)
    array = _array(index)
    _check_rank(array.ndim)
    if array.dtype.kind == "b":
        positions = tuple(np.nonzero(array)) if array.ndim else ()
        return (Arrays(positions, positions[0].shape if positions else (int(array),), array),)
    # unlike an integer, a 0-d array counts as an index array when the position of the arrays' dimensions is chosen
    if array.dtype == np.uint64:
        raise type_error("indices of type uint64 do not fit int64")
    indices = array.astype(np.int64)
    indices.flags.writeable = False
    return (Arrays((indices,), indices.shape, indices),)


def _array(index: Any) -> np.ndarray[Any, Any]:
    if isinstance(index, np.ndarray):
        if index.dtype.kind not in "iub":
            raise index_error("Arrays used as indices must be of integer (or boolean) type")
        return index
    try:
        array = np.asarray(index)
    except (TypeError, ValueError):
        raise index_error(_INVALID) from None
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise index_error(_INVALID)
    return array


def _check_rank(rank: int) -> None:
    if rank > MAX_RANK:
        raise index_error(f"Rank {rank} is outside valid range [0, {MAX_RANK}]")


def _slices(term: slice) -> tuple[slice, ...]:
    """Read a slice; its parts may be sequences with an element for each of several dimensions."""
    parts = {"start": term.start, "stop": term.stop, "step": term.step}
    vectors = [(name, part) for name, part in parts.items() if isinstance(part, _VECTORS)]
    rank = len(vectors[0][1]) if vectors else 1
    for pair in pairwise(vectors):
        if len(pair[0][1]) != len(pair[1][1]):
            shown = [f"{name}=[{','.join(map(str, part))}] (rank {len(part)})" for name, part in pair]
            raise index_error(f"{shown[1]} is incompatible with {shown[0]}")
    columns = [[*part] if isinstance(part, _VECTORS) else [part] * rank for part in parts.values()]
    if not all(value is None or hasattr(value, "__index__") for column in columns for value in column):
        raise type_error("slice indices must be integers or None or have an __index__ method")
    columns = [read_indices(column) for column in columns]
    return tuple([slice(*row) for row in zip(*columns, strict=True)])


def _term_text(term: Term) -> str:
    if isinstance(term, slice):
        start, stop = ("" if part is None else str(part) for part in (term.start, term.stop))
        return f"{start}:{stop}" if term.step is None else f"{start}:{stop}:{term.step}"
    return repr(term.source) if isinstance(term, Arrays) else "..." if term is ... else str(term)


# --- applying expressions

Column = tuple[int, Term, int]
"""An old dimension, `_NEW`, or `_NOTHING` for a 0-d mask; its term; which of the term's dimensions it is."""


def index_basic(pair: Transform, key: Any, mode: Mode) -> Transform | None:
    """Index with integers, slices and arrays that stay in place; return ``None`` for all else.

    It takes less than half the time of `index_directly`.
    """
    domain, maps = pair
    terms = key if type(key) is tuple else (key,)
    if len(terms) > len(domain._dims):
        return None
    dims: list[Bounds] = []
    changes: list[Any] = []
    ends: list[tuple[int, int]] = []  # the dimensions with arrays, and where these end among the new ones
    for dim, old in enumerate(domain._dims):
        term = terms[dim] if dim < len(terms) else _ALL
        if type(term) is int and old[0] <= term < old[1]:
            changes.append(OutputIndexMap._single(None, term, 0))
            continue
        if type(term) is np.ndarray and term.ndim and term.size > 1 and term.dtype.kind == "i":
            changes.append(term.astype(np.int64))
            dims += _array_dims(term.shape)
            ends.append((dim, len(dims)))
            continue
        if type(term) is not slice:
            return None
        new, offset, stride = old, 0, 1
        if term is not _ALL:
            start, stop, step = term.start, term.stop, term.step
            if (
                step is None
                and type(start) is int
                and type(stop) is int
                and old[0] <= start <= stop <= old[1] < INFINITY
            ):
                new = start, stop, False, False, old[4]
            elif type(start) in _PARTS and type(stop) in _PARTS and type(step) in _PARTS:
                new, offset, stride = slice_bounds(old, term, dim)
            else:
                return None
        changes.append(OutputIndexMap._single(len(dims), offset, stride))
        dims.append(new)
    new_domain = IndexDomain._of(dims)
    if ends:
        is_joint = mode == "vindex" or (len(ends) > 1 and mode == "default")
        if is_joint or len(dims) > MAX_RANK or is_explicitly_empty(new_domain):
            return None
        for dim, end in ends:
            changes[dim] = _array_map(changes[dim], end, len(dims))
    return new_domain, substituted(domain, maps, new_domain, changes)


def _array_dims(shape: tuple[int, ...]) -> list[Bounds]:
    """Return the dimensions of an index array, which start at 0 and have no labels."""
    return [(0, size, False, False, "") for size in shape]


def _array_map(array: IndexArray, end: int, rank: int) -> OutputIndexMap:
    """Return the map of an index array whose dimensions end at one of those of a new domain."""
    return OutputIndexMap._of_array(array.reshape((1,) * (end - array.ndim) + array.shape + (1,) * (rank - end)))


def index_directly(pair: Transform, expression: Expression) -> Transform:
    """Index all dimensions in order."""
    terms = expression.terms
    rank = len(pair[0]._dims)
    required = _count(terms)
    if required > rank:
        text = f"Indexing expression requires {required} dimensions, and cannot be applied to a domain of rank {rank}"
        raise index_error(text)
    columns: list[Column] = []
    dim = 0
    for term in _expanded(terms, rank - required):
        if type(term) is Arrays:
            columns += [(dim + at, term, at) for at in range(len(term.arrays))] or [(_NOTHING, term, 0)]
            dim += len(term.arrays)
        elif term is None:
            columns.append((_NEW, None, 0))
        else:
            columns.append((dim, term, 0))
            dim += 1
    return _applied(pair, expression, columns, expression.apart)[0]


def index_selected(
    pair: Transform, expression: Expression, selection: Sequence[Selector], dims: list[int] | None
) -> tuple[Transform, list[int]]:
    """Index selected dimensions, or those with the numbers `dims`; return the dimensions selected afterwards, too.

    They are in the order of the terms; a selected new dimension is its position in the result.
    """
    slots = list(range(pair[0].rank))
    if dims is None:
        dims, slots = _resolve_selection(pair[0], expression, selection)
    columns: list[Column] = [(dim, _ALL, 0) for dim in slots]
    terms = _for_selection(expression, len(dims))
    # the slots that each term indexes; a mask without any moves the dimensions of the arrays to the front
    remaining = iter(dims)
    indexed = [[next(remaining) for _ in range(1 if term is None else _count((term,)))] for term in terms]
    for term, numbers in zip(terms, indexed, strict=True):
        for at, slot in enumerate(numbers):
            columns[slot] = slots[slot], term, at
    front = expression.mode == "vindex" or expression.apart or [] in indexed
    result, starts = _applied(
        pair, expression, columns, front, next((term for term in terms if type(term) is Arrays), None)
    )
    # the resulting dimensions that the terms select, in the order of the terms
    chosen: list[int] = []
    joint = list(range(starts[-1], starts[-1] + len(expression.shape))) if -1 in starts else []
    if front:
        chosen, joint = joint, []
    for term, numbers in zip(terms, indexed, strict=True):
        if type(term) is not Arrays:
            chosen += [] if isinstance(term, int) else [starts[numbers[0]]]
        elif expression.mode == "oindex":
            chosen += range(starts[numbers[0]], starts[numbers[0]] + len(term.shape))
        else:
            chosen, joint = chosen + joint, []
    return result, chosen


def _applied(
    pair: Transform, expression: Expression, columns: list[Column], front: bool, first: Arrays | None = None
) -> tuple[Transform, dict[int, int]]:
    """Return the result of terms, and the first new dimension of each column; that of all arrays together at -1.

    The dimensions of arrays that broadcast together take the place of `first`, by default of the first column with one.
    """
    domain, maps = pair
    is_outer = expression.mode == "oindex"
    dims: list[Bounds] = []
    changes: list[Any] = [None] * len(domain._dims)
    arrays: list[tuple[int, IndexArray, int, int]] = []
    starts: dict[int, int] = {}
    outside: list[int] = []
    if (front or expression.mode == "vindex") and Arrays in map(type, expression.terms):
        starts[-1] = 0
        dims += _array_dims(expression.shape)
    for slot, (dim, term, at) in enumerate(columns):
        if isinstance(term, Arrays):
            group, shape = (id(term), term.shape) if is_outer else (-1, expression.shape)
            if not at and group not in starts and (is_outer or first is None or first is term):
                starts[group] = starts[slot if is_outer else -1] = len(dims)
                dims += _array_dims(shape)
            if dim >= 0:
                check_mask(term, at, dim, domain._dims[dim])
                arrays.append((dim, term.arrays[at], group, len(shape)))
        elif isinstance(term, int):
            least, most = effective(domain._dims[dim])
            if not least <= term < most:
                outside.append(dim)
            changes[dim] = OutputIndexMap._constant(term)
        else:
            starts[slot] = len(dims)
            if isinstance(term, slice):
                new, offset, stride = slice_bounds(domain._dims[dim], term, dim)
                changes[dim] = OutputIndexMap._single(len(dims), offset, stride)
                dims.append(new)
            else:
                dims.append((0, 1, True, True, ""))
    _check_rank(len(dims))
    new_domain = IndexDomain._of(dims)
    is_empty = is_explicitly_empty(new_domain)  # which leaves nothing to check
    if outside and not is_empty:
        raise index_error(f"dimension {outside[0]} has no index {changes[outside[0]]._offset}", "OUT_OF_RANGE")
    for dim, array, group, rank in arrays:
        changes[dim] = OutputIndexMap._constant(0) if is_empty else _array_map(array, starts[group] + rank, len(dims))
    return (new_domain, substituted(domain, maps, new_domain, changes)), starts


def check_mask(term: Arrays, at: int, dim: int, bounds: Bounds) -> None:
    """Refuse a mask of another length than its dimension; it starts at index 0, whatever the origin of the domain."""
    size, upper = (term.source.shape or (0,))[at], bounds[1]
    if term.source.dtype.kind == "b" and not bounds[0] and size != upper != EXCLUSIVE_INFINITY:
        raise index_error(f"a mask has length {size} along dimension {dim}, which has size {upper}")


def _count(terms: Iterable[Term]) -> int:
    """Return the number of dimensions that terms index, without those of an ellipsis."""
    return sum([len(term.arrays) if type(term) is Arrays else term is not None and term is not ... for term in terms])


def _expanded(terms: tuple[Term, ...], missing: int) -> tuple[Term, ...]:
    """Replace the ellipsis by full slices for the missing dimensions; without an ellipsis, append these."""
    for at, term in enumerate(terms):
        if term is ...:
            return (*terms[:at], *([_ALL] * missing), *terms[at + 1 :])
    return terms + (_ALL,) * missing if missing else terms


# --- selected dimensions


def _for_selection(expression: Expression, selected: int) -> tuple[Term, ...]:
    """Return one term for each selected dimension."""
    terms = expression.terms
    if expression.scalar:
        return terms * selected
    count = _count(terms) + sum([term is None for term in terms])
    if count > selected or (count < selected and not any(term is ... for term in terms)):
        raise index_error(f"Indexing expression requires {count} dimensions but selection has {selected} dimensions")
    return _expanded(terms, selected - count)


def _resolve_selection(
    domain: IndexDomain, expression: Expression, selection: Sequence[Selector]
) -> tuple[list[int], list[int]]:
    """Resolve the selection of the first operation, which may add dimensions.

    Numbers of dimensions include the new ones. Return the selected numbers, and for each number the old dimension or
    `_NEW`.
    """
    # count the new dimensions: terms that are None; if None is the only term, all selected numbers
    new_only = expression.scalar and expression.terms[0] is None
    if new_only and any(isinstance(selector, str) for selector in selection):
        raise index_error("New dimensions cannot be specified by label")
    added = sum(map(_new_count, selection)) if new_only else sum([term is None for term in expression.terms])
    rank = domain.rank + added
    # resolve numbers among all dimensions; resolve labels later, as their numbers depend on the new dimensions
    flat: list[int | str] = []
    for selector in selection:
        if isinstance(selector, str):
            resolve((selector,), domain.rank, domain.labels)
            flat.append(selector)
        else:
            flat += resolve((selector,), rank, ())
    # number the old dimensions around the new ones, and resolve the labels
    new: list[int] = []
    at = 0
    for term in _for_selection(expression, len(flat)):
        if term is None and at < len(flat):
            number = flat[at]
            if isinstance(number, str):
                raise index_error("Dimensions specified by label cannot be used with newaxis")
            new.append(number)
        at += 1 if term is None else _count((term,))
    old_dims = iter(range(domain.rank))
    slots = [_NEW if number in new else next(old_dims, _NOTHING) for number in range(rank)]
    numbers = [
        slots.index(domain.labels.index(selector)) if isinstance(selector, str) else selector for selector in flat
    ]
    if repeated := twice(numbers):
        raise index_error(f"Dimension {repeated[0]} specified more than once")
    return numbers, slots


def _new_count(selector: Selector) -> int:
    """Return the number of new dimensions that a number or a range of numbers stands for."""
    if not isinstance(selector, slice):
        return 1
    step = 1 if selector.step is None else selector.step
    start, stop = selector.start, selector.stop
    if start is None and stop is not None and (stop < 0) == (step < 0):
        start = 0 if step > 0 else -1
    elif stop is None and start is not None and (start < 0) == (step > 0):
        stop = 0 if step > 0 else -1
    elif start is None or stop is None or (start < 0) != (stop < 0):
        raise index_error(f"`{slice_text(selector)}` is not a valid specification for new dimensions")
    return len(range(start, stop, step))


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
        return self.__reduce__()[1] == other.__reduce__()[1] if isinstance(other, DimExpression) else NotImplemented

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
