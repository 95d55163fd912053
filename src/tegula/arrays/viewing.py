"""Stored arrays as the base of views, and dask's token for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tegula import engine
from tegula.arrays import selecting
from tegula.engine import StoredArray
from tegula.formats import find_format
from tegula.metadata.chunk_grids import ChunkGrid, RegularAxis
from tegula.runtime.deferred import Later
from tegula.stores.identity import lasting_text, unique_location

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula.engine import Future
    from tegula.indexing import Plan, Transform
    from tegula.metadata import masks
    from tegula.metadata.data_types import DataType
    from tegula.stores import Store
else:
    masks = Later("tegula.metadata.masks")

__all__ = ["ViewedArray", "dask_token"]


class _Stored(Protocol):
    """What a view needs of an array."""

    stored: StoredArray

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None: ...
    @property
    def attrs(self) -> Mapping[str, Any]: ...
    @property
    def location(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    def check_writable(self) -> None: ...


class ViewedArray:
    """A stored array as the base of views; see `tegula.views.base.Base`."""

    __slots__ = ("array",)

    def __init__(self, array: _Stored) -> None:
        self.array = array

    def __repr__(self) -> str:
        return repr(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.stored.metadata.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.stored.metadata.data_type.numpy

    @property
    def node(self) -> tuple[Store, str, str]:
        stored = self.array.stored
        return stored.store, stored.prefix.rstrip("/"), stored.metadata.format

    @property
    def data_type(self) -> DataType:
        return self.array.stored.metadata.data_type

    @property
    def fill(self) -> npt.NDArray[Any] | None:
        return self.array.stored.metadata.fill_value

    @property
    def chunks(self) -> tuple[int | None, ...]:
        return tuple(
            [axis.chunk if type(axis) is RegularAxis else None for axis in self.array.stored.metadata.grid.axes]
        )

    @property
    def parts(self) -> tuple[int, ...]:
        metadata = self.array.stored.metadata
        return tuple(
            [
                axis.chunk if type(axis) is RegularAxis else max(1, size)
                for axis, size in zip(metadata.grid.axes, metadata.shape)
            ]
        )

    @property
    def names(self) -> tuple[str | None, ...] | None:
        return self.array.dimension_names

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.array.attrs

    @property
    def attributes(self) -> Mapping[str, Any]:
        metadata = self.array.stored.metadata
        return masks.with_mask(metadata, find_format(metadata.format).mask).attributes

    @property
    def location(self) -> str:
        return self.array.location

    @property
    def missing_chunks(self) -> str | None:
        return self.array.stored.missing_chunks

    @property
    def read_only(self) -> bool:
        return self.array.read_only

    @property
    def concurrency(self) -> int:
        return self.array.stored.store.concurrency

    def read(self, transform: Transform, field: Any, out: Any, *, is_point: bool) -> Any:
        stored = self.array.stored
        if out is None and field is None:
            selection = transform.in_order(stored.metadata.shape)
            values = None if selection is None else stored.executor.get(stored, selection)
            if values is not None and (transform.shape or is_point):
                return values
            if isinstance(values, np.generic) and self.dtype.isnative:
                return np.asarray(values)
        chosen = transform if field is None else (field, transform)
        return selecting.read(stored, chosen, partial(_plan, is_point=is_point), out)

    def write(self, transform: Transform, field: Any, values: Any) -> None:
        self.array.check_writable()
        selection = transform if field is None else (field, transform)
        selecting.write(self.array.stored, selection, partial(_plan, is_point=not transform.shape), values)

    def start(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return engine.start(self.array.stored, act, *arguments)

    def token(self) -> tuple[object, ...]:
        return dask_token(self.array.stored)


def _plan(transform: Transform, shape: tuple[int, ...], grid: ChunkGrid, *, is_point: bool) -> Plan:
    return transform.plan(shape, grid, is_point=is_point)


def dask_token(stored: StoredArray) -> tuple[object, ...]:
    """Return dask's token for an array: its location, its documents, and the present generation of its main document.

    The token is the same in every process, unless the storage exists only in this process.

    Raises
    ------
    StoreError
        If the document can't be looked up.
    """
    store, document = stored.store, stored.document
    generation = None
    if document is not None:  # distinguishes the array from a replacement with equal documents
        generation = lasting_text(store.get(document, (0, 1), with_generation=True)[1])
    location = unique_location(store.identity, stored.prefix)
    return "tegula.Array", location, generation, tuple(sorted(stored.metadata.documents.items()))
