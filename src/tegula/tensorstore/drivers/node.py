"""Base class of drivers for arrays that tegula stores; it reads and writes whole elements or one field."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

import tegula
from tegula import engine
from tegula.indexing import Plan, vectorized
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.drivers.elements import Elements, fill_as_shown, pick, put
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.drivers.viewed import array_rank, joint_first, joint_in_place, numpy_selection
from tegula.tensorstore.errors import StatusError, as_status, invalid, status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import MAX_RANK
from tegula.tensorstore.spec.interface import Driver, Indices, ResizeOptions

if TYPE_CHECKING:
    from tegula.tensorstore.kvstore.transaction import Transaction

_MAX_EXTENT = 2**62 - 2
__all__ = ["NodeDriver", "new_shape"]

_Values = npt.NDArray[Any]
_FEW_CHUNKS = 64


class NodeDriver(Driver):
    """The driver of an array that tegula stores.

    The drivers for formats add name, metadata, chunk layout and codec.

    Parameters
    ----------
    array : tegula.Array
        The array, with its bounds when it was opened. After a resize, a new driver has the new bounds.
    elements : Elements, optional
        The part of the elements to show; by default whole elements.
    labels : iterable of str, optional
        Labels of the dimensions.
    fill_missing : bool
        Whether missing chunks read as the fill value; otherwise reading them is an error.

    Attributes
    ----------
    array : tegula.Array
        The array to read and write.
    elements : Elements
        The part of the elements to show.
    newest : tegula.Array or None
        The array with its latest known bounds; drivers that were copied from each other share it.
    """

    source: StoredSpec
    array: tegula.Array
    elements: Elements
    newest: tegula.Array | None = None
    wrong_fill: ClassVar[str] = "FAILED_PRECONDITION"
    """The status code for another fill value than that of a schema."""

    def __init__(
        self,
        array: tegula.Array,
        elements: Elements | None = None,
        *,
        labels: Iterable[str] | None = None,
        fill_missing: bool = True,
    ) -> None:
        self.array = array
        metadata = array.stored.metadata
        self.elements = elements = Elements(metadata.data_type) if elements is None else elements
        field = elements.field
        self.dtype = elements.dtype
        self._fill_missing = fill_missing
        self._labels = None if labels is None else tuple(labels)
        self._direct = elements.plain and not elements.shape and fill_missing and field is None
        self._note_shape()
        fill = metadata.fill_value
        if fill is not None and metadata.data_type.is_fixed:
            self.fill_value = elements.present(fill if field is None else np.asarray(fill[field]))

    def _note_shape(self) -> None:
        inner = self.elements.shape
        outer = self.array.stored.metadata.shape
        shape, upper = (*outer, *inner), (True,) * len(outer) + (False,) * len(inner)
        rank = len(shape)
        labels = ("",) * rank if self._labels is None else self._labels
        if rank > MAX_RANK or max(shape, default=0) > _MAX_EXTENT:
            self.domain = IndexDomain(shape=shape, implicit_upper_bounds=upper, labels=labels)  # raises the error
        else:
            self.domain = IndexDomain._make((0,) * rank, shape, (False,) * rank, upper, labels)

    # --- constraints

    def check_schema(self, schema: Schema) -> None:
        """Raise unless the array meets a schema."""
        actual = Schema()
        try:
            actual._set_domain(self.domain, "domain")
            actual._set_dtype(self.dtype)
            if schema.rank is not None:
                actual._set_rank(schema.rank, "rank")
            if schema.dtype is not None:
                actual._set_dtype(schema.dtype)
            if schema.domain is not None:
                actual._set_domain(schema.domain, "domain")
            if schema._has_chunk_layout:
                actual._set_chunk_layout(self.chunk_layout)
                actual._set_chunk_layout(schema.chunk_layout)
            if schema.codec is not None and self.codec is not None:
                self.codec._merged(schema.codec)
            units = zip(self.dimension_units or (), schema.dimension_units or ())
            if any(a is not None and b is not None and str(a) != str(b) for a, b in units):  # as text in documents
                raise invalid("dimension_units are others")
        except StatusError as error:
            text = f"The array does not meet the schema: {error.sentence}"
            raise status("FAILED_PRECONDITION", text) from None
        if schema._has_chunk_layout and any(size and size > 0 for size in schema.chunk_layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
        if schema.fill_value is not None:
            self._check_fill(schema.fill_value)

    def _check_fill(self, constraint: npt.NDArray[Any]) -> None:
        """Raise unless an array has a fill value, bit by bit."""
        wanted, stored = fill_as_shown(constraint, self.elements), self.fill_value
        if stored is None or np.broadcast_to(stored, wanted.shape).tobytes() != wanted.tobytes():
            shown = "none" if stored is None else stored.tolist()
            text = f"Invalid fill_value: the schema requires {wanted.tolist()}, but the metadata specify {shown}"
            raise status(self.wrong_fill, text)

    # --- reading and writing

    def load(self, indices: Indices | None) -> None:
        engine.load(self.array.stored)

    def read(self, indices: Indices) -> _Values:
        if self._direct:
            selection, joint = numpy_selection(indices)
            return self._get(selection, joint)
        outer = self.array.ndim
        selection, joint = numpy_selection(indices[:outer])
        if not self._fill_missing:
            self._refuse_missing(selection)
        return self._picked(selection, joint, indices[outer:], strict=not self._fill_missing)

    def _get(self, selection: tuple[Any, ...], joint: int, strict: bool = False) -> _Values:
        array, field = self.array, self.elements.field
        if strict:  # inner chunks of shards, which `_refuse_missing` does not know
            array = _another_object(array)
            array.missing_chunks = "error"
        chosen = selection if field is None else (field, *selection)
        try:
            values = array.vindex[chosen] if joint else array[chosen]
        except tegula.TegulaError as error:
            raise as_status(error) from error
        return joint_first(np.asarray(values), selection, joint) if joint else np.asarray(values)

    def _picked(self, selection: tuple[Any, ...], joint: int, inner: Indices, strict: bool = False) -> _Values:
        shown = self.elements.present(self._get(selection, joint, strict))
        return shown if self._is_whole(inner) else pick(shown, array_rank(selection), inner)

    def write(self, indices: Indices, values: _Values) -> None:
        if self._direct:
            selection, joint = numpy_selection(indices)
            self._set(selection, joint, values)
            return
        outer = self.array.ndim
        selection, joint = numpy_selection(indices[:outer])
        inner = indices[outer:]
        if not self._is_whole(inner):
            selection, heads, joint = _without_duplicates(selection, inner, joint)
            part, full = values, tuple(slice(0, size, 1) for size in self.elements.shape)
            values = self._picked(selection, joint, full).copy()
            put(values, heads, inner, part)
        self._set(selection, joint, self.elements.store(values))

    def _set(self, selection: tuple[Any, ...], joint: int, stored: _Values) -> None:
        if joint:
            stored = joint_in_place(stored, selection, joint)
        field = self.elements.field
        chosen = selection if field is None else (field, *selection)
        try:
            if joint:
                self.array.vindex[chosen] = stored
            else:
                self.array[chosen] = stored
        except tegula.TegulaError as error:
            raise as_status(error) from error

    def _is_whole(self, inner: Indices) -> bool:
        return all(term == slice(0, size, 1) for term, size in zip(inner, self.elements.shape) if _is_slice(term)) and (
            all(map(_is_slice, inner))
        )

    # --- chunks

    def _plan(self, selection: tuple[Any, ...]) -> Plan:
        return vectorized(selection, self.array.shape, self.array.metadata.grid)

    def _refuse_missing(self, selection: tuple[Any, ...]) -> None:
        stored = self.array.stored
        for coords, *_ in self._plan(selection):
            key = stored.key(coords)
            if not stored.store.exists(key):
                shown = ", ".join(map(str, self.shown_coords(coords)))
                name = key.removeprefix(stored.prefix)
                location = f'"{name}"' if self.kvstore is None else self.kvstore._describe_key(name)
                raise status("NOT_FOUND", f"chunk {{{shown}}} stored at {location} is missing")

    def shown_coords(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Return the coordinates of a chunk as messages have them."""
        return coords

    def storage_statistics(self, indices: Indices) -> tuple[bool, bool]:
        selection, _ = numpy_selection(indices[: self.array.ndim])
        try:
            count, total = self.count_stored(self._plan(selection))
        except tegula.TegulaError as error:
            raise as_status(error) from error
        return count == 0, count == total

    def count_stored(self, plan: Plan) -> tuple[int, int]:
        """Return the number of stored chunks, and of all chunks, that a plan touches."""
        stored = self.array.stored
        if plan.nchunks > _FEW_CHUNKS and plan.is_basic:
            return sum(plan.at(coords) is not None for coords, _ in stored.stored_chunks()), plan.nchunks
        return sum(stored.store.exists(stored.key(coords)) for coords, *_ in plan), plan.nchunks

    # --- in a transaction, and with other bounds

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        if self.kvstore is None:
            raise status("FAILED_PRECONDITION", "the array has no kvstore")
        other = copy(self)
        other.kvstore = self.kvstore.with_transaction(transaction)
        vars(other).pop("newest", None)
        array = self.array
        # the document is read by the transaction itself, which checks that it is still the same one
        stored = replace(array.stored, store=other.kvstore._store, shared={}, document=None)
        other.array = tegula.Array(stored, array.path, read_only=array.read_only, allow_pickle=array.allow_pickle)
        return other

    def at(self, array: tegula.Array) -> Driver:
        """Return the driver of the array with other bounds."""
        other = copy(self)
        other.array = _another_object(array)
        other._note_shape()
        return other

    def shared(self) -> tegula.Array:
        """Return `newest`, creating it if there is none."""
        newest: tegula.Array = vars(self).setdefault("newest", _another_object(self.array))  # one for all threads
        return newest

    def latest(self, *, look: bool = True) -> Driver:
        if look and self.source.rechecks:
            return self.resolve()
        newest = self.newest
        return self if newest is None or newest.shape == self.array.shape else self.at(newest)

    def _check_other_fields(self, options: ResizeOptions) -> None:
        names = self.array.dtype.names
        if names is not None and len(names) > 1 and self.elements.field is not None and not options.tied_bounds:
            raise status(
                "FAILED_PRECONDITION",
                "Resize operation would affect other fields but `resize_tied_bounds` was not specified",
            )


def _another_object(array: tegula.Array) -> tegula.Array:
    """Return a new object for an array, with bounds of its own; `copy` would read the bounds from the store."""
    return tegula.Array(array.stored, array.path, read_only=array.read_only, allow_pickle=array.allow_pickle)


def _is_slice(term: Any) -> bool:
    return isinstance(term, slice)


def _without_duplicates(
    selection: tuple[Any, ...], inner: Indices, joint: int
) -> tuple[tuple[Any, ...], tuple[npt.NDArray[np.int64], ...], int]:
    """Return a selection without duplicate points, and the position in it of each point of the index arrays."""
    if not joint:
        return selection, (), 0
    arrays = [term for term in selection if isinstance(term, np.ndarray)]
    shape = np.broadcast_shapes(*(term.shape for term in (*arrays, *inner) if isinstance(term, np.ndarray)))
    points = np.stack([np.broadcast_to(array, shape).reshape(-1) for array in arrays])
    unique, positions = np.unique(points, axis=1, return_inverse=True)
    rows = iter(unique)
    unique_selection = tuple(next(rows) if isinstance(term, np.ndarray) else term for term in selection)
    return unique_selection, (positions.reshape(shape),), 1


def new_shape(old: tuple[int, ...], options: ResizeOptions) -> tuple[int, ...]:
    """Return the new shape for a resize."""
    shape = tuple(size if bound is None else bound for size, bound in zip(old, options.exclusive_max))
    for axis, (before, after) in enumerate(zip(old, shape)):
        if after < 0:
            raise status("INVALID_ARGUMENT", f"Resize to a negative extent along output dimension {axis}: {after}")
        if after > _MAX_EXTENT:
            raise status("INVALID_ARGUMENT", f"Resize to too large an extent along output dimension {axis}: {after}")
        word = "shrink" if after < before else "expand"
        if after != before and getattr(options, "expand_only" if word == "shrink" else "shrink_only"):
            raise status(
                "FAILED_PRECONDITION",
                f"Resize operation would {word} output dimension {axis} from [0, {before}) to [0, {after}) "
                f"but `{'expand' if word == 'shrink' else 'shrink'}_only` was specified",
            )
    return shape
