"""Sources of writes: converting them to the target's data type, and aligning their dimensions with the target's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.casting import each
from tegula.tensorstore.errors import StatusError, invalid, type_error
from tegula.tensorstore.json.values import conversion_error, to_json_value

if TYPE_CHECKING:
    from tegula.tensorstore.index.domain import IndexDomain

__all__ = ["align", "as_source", "spread"]

_Values = npt.NDArray[Any]


def as_source(source: Any, dtype: dtypes.dtype, rank: int) -> _Values:
    """Convert the source of a write to an array of a data type with at most `rank` dimensions.

    NumPy arrays are converted only if NumPy considers that safe; numbers and lists of numbers as by ``np.array``.
    """
    wanted = dtype.numpy_dtype
    if type(source) is np.ndarray and source.dtype == wanted and wanted.kind != "O" and source.ndim <= rank:
        return source
    if wanted.kind == "O":
        return _objects(source, dtype, rank)
    if isinstance(source, np.ndarray):
        if not np.can_cast(source.dtype, wanted, "safe"):
            what = "array data" if source.ndim else "scalar"
            raise type_error(f"Cannot cast {what} from {source.dtype!r} to {wanted!r} according to the rule 'safe'")
        if source.ndim > rank:
            raise _too_deep(source.ndim, rank, "object too deep for desired array")
        return source.astype(wanted)
    if isinstance(source, np.complexfloating) and wanted.kind != "c":
        source = source.real
    try:
        values = np.array(source, wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise conversion_error(error) from error
    if values.ndim > rank:
        text = f"The requested array would exceed the maximum number of dimension of {rank}."
        raise _too_deep(values.ndim, rank, f"setting an array element with a sequence. {text}")
    return values


def _too_deep(ndim: int, rank: int, text: str) -> StatusError:
    return invalid(text if rank else f"Expected array of rank {rank}, but received array of rank {ndim}")


def _objects(source: Any, dtype: dtypes.dtype, rank: int) -> _Values:
    # an array written to a single JSON element is stored as a list
    if isinstance(source, (np.ndarray, np.generic)) and (rank or dtype != dtypes.json):
        values = np.asarray(source).astype(object)
        if values.ndim > rank:
            raise _too_deep(values.ndim, rank, "object too deep for desired array")
    else:
        values = _nested(source, rank)
    if dtype == dtypes.json:
        return each(values, to_json_value, np.dtype(object))
    return each(values, _expect_bytes if dtype == dtypes.string else _expect_text, np.dtype(object))


def _nested(source: Any, rank: int) -> _Values:
    """Return nested lists as an array with a dimension for each level, up to ``rank``."""
    shape: list[int] = []
    level = [source]
    while len(shape) < rank and level and all(isinstance(element, (list, tuple)) for element in level):
        lengths = {len(element) for element in level}
        if len(lengths) > 1:
            break
        shape.append(lengths.pop())
        level = [inner for element in level for inner in element]
    values = np.empty(len(level), object)
    values[:] = level
    if not shape:
        values[0] = source
    return values.reshape(shape)


def _expect_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise type_error(f"expected bytes, {type(value).__name__} found")
    return value


def _expect_text(value: Any) -> str:
    if not isinstance(value, str):
        raise type_error("bad argument type for built-in operation")
    return value


def align(source: IndexDomain, target: IndexDomain) -> tuple[int, ...]:
    """Match the dimensions of a source with those of a target.

    If both have labels, labelled dimensions match by label; all others match in order, starting with the last.
    Matching dimensions must have the same size, or size 1 in the source.

    Returns
    -------
    tuple of int
        The dimension of the source for each dimension of the target; -1 if there is none.
    """
    matches = _matches(source, target)
    wrong = []
    for number in range(source.rank):
        match = matches.get(number)
        size = source.shape[number]
        if match is None:
            if size != 1:
                wrong.append(f"unmatched source dimension {_dimension(source, number)} does not have a size of 1")
        elif size not in (1, target.shape[match]):
            wrong.append(
                f"source dimension {_dimension(source, number)} mismatch with target dimension "
                f"{_dimension(target, match)}"
            )
    if wrong:
        raise invalid("Error aligning dimensions: " + ", ".join(wrong))
    numbers = {match: number for number, match in matches.items()}
    return tuple(numbers.get(match, -1) for match in range(target.rank))


def _matches(source: IndexDomain, target: IndexDomain) -> dict[int, int]:
    sources, targets = list(range(source.rank)), list(range(target.rank))
    matches = {}
    if any(source.labels) and any(target.labels):
        for number, label in enumerate(source.labels):
            if label:
                sources.remove(number)
                if label in target.labels:
                    matches[number] = target.labels.index(label)
        targets = [number for number, label in enumerate(target.labels) if not label]
    matches.update(zip(reversed(sources), reversed(targets), strict=False))
    return matches


def _dimension(domain: IndexDomain, number: int) -> str:
    label = f'"{domain.labels[number]}": ' if domain.labels[number] else ""
    return f"{number} {label}[{domain.inclusive_min[number]}, {domain.exclusive_max[number]})"


def spread(values: _Values, axes: Sequence[int], shape: tuple[int, ...]) -> _Values:
    """Broadcast values to the shape of a target; `axes` is the result of `align`."""
    unused = tuple(axis for axis in range(values.ndim) if axis not in axes)
    used = values.reshape([size for axis, size in enumerate(values.shape) if axis not in unused]) if unused else values
    order = [axis - sum(1 for dropped in unused if dropped < axis) for axis in axes if axis >= 0]
    aligned = used.transpose(order)[tuple(slice(None) if axis >= 0 else None for axis in axes)]
    return np.broadcast_to(aligned, shape)
