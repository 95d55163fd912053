"""NumPy-like index expressions: their terms, and the number of dimensions that each term indexes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Literal

import numpy as np

from tegula.tensorstore.errors import IndexStatusError, index_error, type_error
from tegula.tensorstore.index.intervals import MAX_RANK
from tegula.tensorstore.index.output_maps import IndexArray

__all__ = [
    "Arrays",
    "Expression",
    "Mode",
    "Term",
    "broadcast",
    "dimension_count",
    "newaxis",
    "parse_expression",
    "rank_error",
]

newaxis = None

Mode = Literal["default", "oindex", "vindex"]
Usage = Literal["direct", "first", "chained"]

_INVALID = (
    "Only integers, slices (`:`), ellipsis (`...`), tensorstore.newaxis (`None`) and "
    "integer or boolean arrays are valid indices"
)


class Arrays:
    """Index arrays with common axes: one array of integers, or the positions of the true elements of a mask."""

    __slots__ = ("arrays", "shape", "source")

    def __init__(self, arrays: tuple[IndexArray, ...], shape: tuple[int, ...], source: np.ndarray[Any, Any]) -> None:
        self.arrays, self.shape, self.source = arrays, shape, source

    @property
    def is_mask(self) -> bool:
        """Whether a mask was given."""
        return bool(self.source.dtype.kind == "b")

    @property
    def is_integer(self) -> bool:
        """Whether a 0-d array of integers was given."""
        return not self.source.ndim and not self.is_mask

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arrays):
            return NotImplemented
        return self.is_mask == other.is_mask and np.array_equal(self.source, other.source)

    def __hash__(self) -> int:
        return hash(self.shape)


Term = int | slice | Arrays | EllipsisType | None


def dimension_count(term: Term) -> int:
    """Return the number of dimensions that a term indexes; an ellipsis counts as 0."""
    if type(term) is Arrays:
        return len(term.arrays)
    return 0 if term is None or term is ... else 1


@dataclass(frozen=True, slots=True)
class Expression:
    """An index expression.

    Attributes
    ----------
    scalar : bool
        Whether the expression is a single integer, 0-d array, slice or None, which applies to every selected dimension.
    shape : tuple of int
        The shape that the arrays broadcast to; empty in the mode ``"oindex"``.
    apart : bool
        Whether a slice, an ellipsis or None separates the arrays.
    """

    terms: tuple[Term, ...]
    scalar: bool
    mode: Mode
    shape: tuple[int, ...] = ()
    apart: bool = False

    def __str__(self) -> str:
        shown = ",".join([_term_text(term) for term in self.terms])
        return f"[{shown}]" if self.scalar or len(self.terms) != 1 else f"[{shown},]"

    @property
    def dimensions(self) -> int:
        """Number of dimensions that the terms index, without those of an ellipsis."""
        return sum([dimension_count(term) for term in self.terms])


def parse_expression(argument: Any, mode: Mode = "default", usage: Usage = "direct") -> Expression:
    """Read the expression between the brackets.

    Parameters
    ----------
    usage : {"direct", "first", "chained"}
        Whether the expression indexes an object directly, or is the first or a later operation of a dimension
        expression.

    Raises
    ------
    IndexError, TypeError
        If a term is not a valid index.
    """
    if type(argument) is tuple:
        return _parse_terms(argument, mode, usage)
    parsed = _parse_terms((argument,), mode, usage)
    terms = parsed.terms
    if len(terms) != 1 or terms[0] is ... or (type(terms[0]) is Arrays and not terms[0].is_integer):
        return parsed
    if isinstance(argument, slice) and not _plain(argument):
        return parsed
    return Expression(terms, True, mode)


def _parse_terms(argument: tuple[Any, ...], mode: Mode, usage: Usage) -> Expression:
    terms: list[Term] = []
    shape: tuple[int, ...] = ()
    has_array = closed = apart = ellipsis = False
    for index in argument:
        for term in _terms(index):
            terms.append(term)
            if type(term) is Arrays:
                if not term.arrays and mode == "oindex" and usage != "direct":
                    raise index_error("Zero-rank bool array incompatible with outer indexing of a dimension selection")
                apart, has_array = apart or closed, True
                shape = broadcast(shape, term.shape) if mode != "oindex" else ()
                continue
            closed = closed or (has_array and type(term) is not int)
            if term is None and usage == "chained":
                raise index_error("tensorstore.newaxis (`None`) not valid in chained indexing operations")
            if term is ...:
                if ellipsis:
                    raise index_error("An index can only have a single ellipsis (`...`)")
                ellipsis = True
    return Expression(tuple(terms), False, mode, shape, apart and mode != "oindex")


def broadcast(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two index arrays broadcast to.

    Raises
    ------
    IndexError
        If the shapes do not broadcast.
    """
    if shape == other or not shape:
        return other
    sizes = [1] * (len(other) - len(shape)) + list(shape)
    for axis, size in enumerate(other, len(sizes) - len(other)):
        if sizes[axis] == 1:
            sizes[axis] = size
        elif size not in (1, sizes[axis]):
            shown = [f"{{{', '.join(map(str, lengths))}}}" for lengths in (other, sizes)]
            raise index_error(f"Incompatible index array shapes: {shown[0]} vs {shown[1]}")
    return tuple(sizes)


def _terms(index: Any) -> tuple[Term, ...]:
    kind = type(index)
    if kind is int or index is None or index is ...:
        return (_integer(index) if kind is int else index,)
    if kind is slice:
        return _slices(index)
    if kind is not bool and not isinstance(index, np.ndarray) and hasattr(index, "__index__"):
        return (_integer(operator.index(index)),)
    array = _array(index)
    if array.ndim > MAX_RANK:
        raise rank_error(array.ndim)
    if array.dtype.kind == "b":
        if array.ndim == 0:
            return (Arrays((), (int(array),), array),)
        positions = tuple(np.nonzero(array))
        return (Arrays(positions, positions[0].shape, array),)
    # unlike an integer, a 0-d array counts as an index array when the position of the arrays' dimensions is chosen
    if array.dtype == np.uint64:
        what = "array data" if array.ndim else "scalar"
        raise type_error(f"Cannot cast {what} from dtype('uint64') to dtype('int64') according to the rule 'safe'")
    indices = array.astype(np.int64)
    indices.flags.writeable = False
    return (Arrays((indices,), indices.shape, indices),)


def _integer(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        kind = "uint64" if 0 < value < 2**64 else "object"
        raise type_error(f"Cannot cast scalar from dtype('{kind}') to dtype('int64') according to the rule 'safe'")
    return value


def _array(index: Any) -> np.ndarray[Any, Any]:
    if isinstance(index, np.ndarray):
        if index.dtype.kind not in "iub":
            raise index_error("Arrays used as indices must be of integer (or boolean) type")
        return index
    if isinstance(index, (str, bytes)):
        raise index_error(_INVALID)
    try:
        array = np.asarray(index)
    except (TypeError, ValueError):
        raise index_error(_INVALID) from None
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise index_error(_INVALID)
    return array


def rank_error(rank: int) -> IndexStatusError:
    """Return the error for too many dimensions."""
    return index_error(f"Rank {rank} is outside valid range [0, {MAX_RANK}]")


def _plain(term: slice) -> bool:
    return not any(isinstance(part, (tuple, list)) for part in (term.start, term.stop, term.step))


def _slices(term: slice) -> tuple[slice, ...]:
    """Read a slice; its parts may be sequences with an element for each of several dimensions."""
    if _plain(term):
        start, stop, step = term.start, term.stop, term.step
        if all(part is None or type(part) is int for part in (start, stop, step)):
            return (term,)
        return (slice(_part(start), _part(stop), _part(step)),)
    parts: list[list[int | None] | int | None] = []
    rank, named = -1, ""
    for name, part in (("start", term.start), ("stop", term.stop), ("step", term.step)):
        if not isinstance(part, (tuple, list, np.ndarray)):
            parts.append(_part(part))
            continue
        values = [_part(value) for value in part]
        shown = f"{name}=[{','.join(map(str, values))}] (rank {len(values)})"
        if rank not in (-1, len(values)):
            raise index_error(f"{shown} is incompatible with {named}")
        parts.append(values)
        rank, named = len(values), shown
    columns = [part if isinstance(part, list) else [part] * rank for part in parts]
    return tuple([slice(*row) for row in zip(*columns, strict=True)])


def _part(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return _integer(operator.index(value))
    except TypeError:
        raise type_error("slice indices must be integers or None or have an __index__ method") from None


def _term_text(term: Term) -> str:
    if term is None or isinstance(term, int):
        return str(term)
    if isinstance(term, slice):
        start, stop = ("" if part is None else str(part) for part in (term.start, term.stop))
        return f"{start}:{stop}" if term.step is None else f"{start}:{stop}:{term.step}"
    return repr(term.source) if isinstance(term, Arrays) else "..."
