"""Base class of drivers for arrays that tegula stores; it reads and writes whole elements or one field."""

from __future__ import annotations

import time
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

import tegula
from tegula import engine
from tegula.arrays.viewing import ViewedArray
from tegula.engine import StoredArray
from tegula.errors import missing_chunk
from tegula.indexing import Affine, Plan, Transform
from tegula.indexing.transform import axes_of
from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import merged_units
from tegula.tensorstore.drivers.elements import Elements, fill_as_shown
from tegula.tensorstore.drivers.stored import ArraySpec
from tegula.tensorstore.errors import StatusError, as_status, invalid, stating, status
from tegula.tensorstore.index.dim import MAX_RANK
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import Driver, ResizeOptions

_MAX_EXTENT = 2**62 - 2
__all__ = ["Division", "NodeDriver", "new_shape"]

_Values = npt.NDArray[Any]
Division: TypeAlias = tuple[Transform, Transform | None]
_FEW_CHUNKS = 64


class NodeDriver(Driver):
    """The driver of an array that tegula stores.

    The drivers for formats add name, metadata, chunk layout and codec.

    After a resize, a new driver has the new bounds. If nothing says whether missing chunks read as the fill value, the
    setting ``missing_chunks`` decides.
    """

    source: ArraySpec
    kvstore: KvStore
    name: str = attribute("source.name", "The name of the driver.")
    array: tegula.Array
    elements: Elements
    """The part of the elements to show."""
    newest: tegula.Array | None = None
    """The array with its latest known bounds; drivers that were copied from each other share it."""

    def __init__(
        self,
        source: ArraySpec,
        kvstore: KvStore,
        array: tegula.Array,
        elements: Elements | None = None,
        labels: Iterable[str] | None = None,
    ) -> None:
        if source.fill_missing is not None:
            array = _with_rule(array, "fill" if source.fill_missing else "error")
        self.source, self.kvstore, self.array = source, kvstore, array
        metadata = array.stored.metadata
        self.elements = elements = Elements(metadata.data_type) if elements is None else elements
        field = elements.field
        self.dtype = elements.dtype
        self._labels = None if labels is None else tuple(labels)
        self._direct = elements.plain and not elements.shape and field is None
        self._note_shape()
        fill = metadata.fill_value
        if fill is not None and metadata.data_type.is_fixed:
            self.fill_value = elements.present(fill if field is None else np.asarray(fill[field]))

    def _note_shape(self) -> None:
        self._base = ViewedArray(self.array)
        inner = self.elements.shape
        outer = self.array.stored.metadata.shape
        shape, upper = (*outer, *inner), (True,) * len(outer) + (False,) * len(inner)
        rank = len(shape)
        labels = ("",) * rank if self._labels is None else self._labels
        if rank > MAX_RANK or max(shape, default=0) > _MAX_EXTENT:
            self.domain = IndexDomain(shape=shape, implicit_upper_bounds=upper, labels=labels)  # raises the error
        else:
            self.domain = IndexDomain._of_shape(shape, upper, labels)

    # --- constraints

    def check_schema(self, schema: Schema) -> None:
        """Raise unless the array meets a schema."""
        actual, code = Schema(), self.source.mismatch_code
        try:
            actual._put(domain=self.domain, dtype=self.dtype)
            if schema.rank in (None, self.domain.rank):
                actual._put(domain=schema.domain)
            code = "FAILED_PRECONDITION"
            actual._put(rank=schema.rank, dtype=schema.dtype)
            if (layout := schema._chunk_layout) is not None:
                actual._put(chunk_layout=self.chunk_layout)._put(chunk_layout=layout)
            if schema.codec is not None and self.codec is not None:
                self.codec._merged(schema.codec)
            merged_units(self.dimension_units, schema.dimension_units)
        except StatusError as error:
            raise status(code, f"The array does not meet the schema: {error.sentence}") from None
        if layout is not None and any(size and size > 0 for size in layout.codec_chunk.shape or ()):
            raise invalid("codec_chunk_shape not supported")
        if schema.fill_value is not None:
            self._check_fill(schema.fill_value)

    def _check_fill(self, constraint: npt.NDArray[Any]) -> None:
        """Raise unless an array has a fill value, bit by bit."""
        wanted, stored = fill_as_shown(constraint, self.elements), self.fill_value
        if stored is None or np.broadcast_to(stored, wanted.shape).tobytes() != wanted.tobytes():
            shown = None if stored is None else stored.tolist()
            raise status(self.source.mismatch_code, f"Invalid fill_value: the array has {shown}, not {wanted.tolist()}")

    # --- reading and writing

    def load(self, transform: Transform | None) -> None:
        engine.load(self.array.stored)

    def divided(self, transform: Transform) -> Division:
        """Divide a transform: to the array's elements, and to what is shown of these; None if it is all of each."""
        inner, ndim = self.elements.shape, self.array.ndim
        if not inner:
            return transform, None
        outer = len(transform.shape) - len(inner)
        is_whole = transform.shape[outer:] == inner and all(
            isinstance(one, Affine) and one == (outer + axis, 0, 1) for axis, one in enumerate(transform.maps[ndim:])
        )
        if is_whole and all(axis < outer for one in transform.maps[:ndim] for axis in axes_of(one)):
            maps = [one if isinstance(one, Affine) else one.reshape(one.shape[:outer]) for one in transform.maps[:ndim]]
            return Transform(transform.shape[:outer], tuple(maps), transform.base[:ndim]), None
        distinct, places = transform.distinct(ndim)
        return distinct, Transform(transform.shape, (*places, *transform.maps[ndim:]), distinct.shape + inner)

    def read(self, transform: Transform) -> _Values:
        if self._direct:
            return self._get(transform)
        outer, parts = self.divided(transform)
        shown = self.elements.present(self._get(outer))
        return shown if parts is None else parts.take(shown)

    def depend(self, *, writes: bool) -> None:
        """Add the document to the keys that an atomic transaction depends on."""

    def _get(self, transform: Transform, base: ViewedArray | None = None) -> _Values:
        self.depend(writes=False)
        try:
            return np.asarray((base or self._base).read(transform, self.elements.field, None, is_point=False))
        except tegula.TegulaError as error:
            coords = missing_chunk(error)
            raise as_status(error) if coords is None else self._missing(coords) from error

    def write(self, transform: Transform, values: _Values) -> None:
        outer, parts = self.divided(transform)
        if parts is not None:
            base = ViewedArray(_with_rule(self.array, "fill")) if self.array.stored.is_strict else None
            new, values = values, self.elements.present(self._get(outer, base)).copy()
            parts.put(values, new)
        self.depend(writes=True)
        try:
            self._base.write(outer, self.elements.field, self.elements.store(values))
        except tegula.TegulaError as error:
            raise as_status(error) from error

    # --- chunks

    def _missing(self, coords: tuple[int, ...]) -> StatusError:
        stored = self.array.stored
        shown = ", ".join(map(str, self.shown_coords(coords)))
        name = stored.key(coords).removeprefix(stored.prefix)
        return status("NOT_FOUND", f"chunk {{{shown}}} stored at {self.kvstore._describe_key(name)} is missing")

    def shown_coords(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Return the coordinates of a chunk as messages have them."""
        return coords

    def storage_statistics(self, transform: Transform) -> tuple[bool, bool]:
        with stating():
            outer, _ = self.divided(transform)
            count, total = self.count_stored(outer.plan(self.array.shape, self.array.metadata.grid))
        return count == 0, count == total

    def count_stored(self, plan: Plan) -> tuple[int, int]:
        """Return the number of stored chunks, and of all chunks, that a plan touches."""
        stored = self.array.stored
        if plan.nchunks > _FEW_CHUNKS and plan.is_basic:
            return sum(plan.at(coords) is not None for coords, _ in stored.stored_chunks()), plan.nchunks
        return sum(stored.store.exists(stored.key(coords)) for coords, *_ in plan), plan.nchunks

    # --- in a transaction, and with other bounds

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        kvstore = self.kvstore.with_transaction(transaction)
        # the document is read by the transaction itself, which checks that it is still the same one
        stored = replace(self.array.stored, store=kvstore._store, shared={}, document=None)
        other = self.at(_another_object(self.array, stored))
        other.kvstore = kvstore
        vars(other).pop("newest", None)
        return other

    def at(self, array: tegula.Array) -> Self:
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
        moment = self.source.recheck_metadata
        if look and (moment is True or (isinstance(moment, float) and moment > time.time())):
            return self.resolve()
        newest = self.newest
        return self if newest is None or newest.shape == self.array.shape else self.at(newest)


def _another_object(array: tegula.Array, stored: StoredArray | None = None) -> tegula.Array:
    """Return a new object for an array, with bounds of its own; `copy` would read the bounds from the store."""
    stored = array.stored if stored is None else stored
    return tegula.Array(stored, array.path, read_only=array.read_only, allow_pickle=array.allow_pickle)


def _with_rule(array: tegula.Array, rule: str) -> tegula.Array:
    """Return a new object for an array, with a rule for missing chunks."""
    return _another_object(array, replace(array.stored, missing_chunks=rule))


def new_shape(old: tuple[int, ...], options: ResizeOptions) -> tuple[int, ...]:
    """Return the new shape for a resize."""
    shape = tuple(size if bound is None else bound for size, bound in zip(old, options.exclusive_max))
    for axis, (before, after) in enumerate(zip(old, shape)):
        if not 0 <= after <= _MAX_EXTENT:
            raise invalid(f"output dimension {axis} can't have the extent {after}")
        rule = "expand_only" if after < before else "shrink_only"
        if after != before and getattr(options, rule):
            text = f"`{rule}` does not allow to resize output dimension {axis} from {before} to {after}"
            raise status("FAILED_PRECONDITION", text)
    return shape
