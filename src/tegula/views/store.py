"""Views as stores: one Zarr v3 array, whose chunks are read from the view when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.engine import stored_array
from tegula.errors import ReadOnlyError, TegulaError
from tegula.formats import find_format
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import default_keys
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores.interface import ABSENT, ByteRange, Generation, Store, check_key, check_prefix, clip_range

if TYPE_CHECKING:
    from tegula.views.view import View

__all__ = ["ViewStore"]

_DOCUMENT: Final = "zarr.json"
_NBYTES: Final = 2**24  # of a chunk whose shape the array below does not give


class ViewStore(Store):
    """A read-only store with one array of Zarr v3, whose elements are those of a view; made by `View.as_store`.

    Chunks are not compressed. They lie in one chunk each of the array below, where its chunks divide the view evenly.

    Parameters
    ----------
    view : View
        The view.

    Raises
    ------
    UnsupportedError
        If Zarr v3 has no data type for the elements.

    Examples
    --------
    >>> import tegula
    >>> view = tegula.create_array({}, data=[[1, 2], [3, 4]], chunks=1).lazy.T
    >>> store = ViewStore(view)
    >>> tegula.open(store)[...]
    array([[1, 3],
           [2, 4]])
    """

    read_only = True
    listable = False  # each chunk that could be stored would have to be read

    def __init__(self, view: View) -> None:
        self.view_shown = view
        self.concurrency = view._base.concurrency
        draft = ArrayMetadata(
            shape=view.shape,
            data_type=view._data_type,
            grid=regular_grid(_chunk_shape(view)),
            keys=default_keys(),
            codecs=(),
            fill_value=view._fill,
            attributes=dict(view.attrs),
            dimension_names=view.dimension_names,
            format="zarr2",
        )
        fmt = find_format("zarr3")
        metadata = fmt.adapt(draft)
        self._document = fmt.serialize(metadata)[_DOCUMENT]
        self._array = stored_array(self, "", metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewStore, (self.view_shown,)

    @property
    def url(self) -> str:
        """A name for messages: the location of the array below."""
        return f"view:{self.view_shown.location}"

    # --- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the document, or the bytes of a chunk; see `Store.get`."""
        value = self._document if check_key(key) == _DOCUMENT else self._chunk(key)
        if value is None:
            return (None, ABSENT) if with_generation else None
        part = value if byte_range is None else value[slice(*clip_range(byte_range, len(value)))]
        return (part, blake2b(value, digest_size=16).digest()) if with_generation else part

    def _chunk(self, key: str) -> bytes | None:
        coords = self._coords(key)
        if coords is None:
            return None
        array = self._array
        region = array.metadata.grid.region(coords, array.metadata.shape)
        try:
            values = np.asarray(self.view_shown[region][...])
        except TegulaError as error:
            raise error.within(key=key) from None
        shape = array.metadata.grid.chunk_shape(coords)
        if values.shape != shape:  # a chunk at the edge is stored in full
            padded = np.full(shape, array.fill, array.dtype)
            padded[tuple(map(slice, values.shape))] = values
            values = padded
        return bytes(array.chain.encode(np.ascontiguousarray(values, array.dtype)))

    def _coords(self, key: str) -> tuple[int, ...] | None:
        metadata = self._array.metadata
        coords = metadata.keys.decode(key, metadata.ndim)
        inside = coords is not None and all(n < count for n, count in zip(coords, metadata.grid.counts(metadata.shape)))
        return coords if inside else None

    def size(self, key: str) -> int | None:
        """Return the length of the document, or of a chunk in bytes."""
        if check_key(key) == _DOCUMENT:
            return len(self._document)
        coords = self._coords(key)
        if coords is None:
            return None
        known = self._array.chain.encoded_size(self._array.metadata.grid.chunk_shape(coords))
        return known if known is not None else len(self._chunk(key) or b"")

    def exists(self, key: str) -> bool:
        """Return whether `key` is the document or that of a chunk."""
        return check_key(key) == _DOCUMENT or self._coords(key) is not None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield the key of the document; chunks are not listed."""
        return iter([_DOCUMENT] if check_prefix(prefix) == "" else [])

    # --- writing

    def set(self, key: str, value: Any, *, if_generation: Generation | None = None) -> Generation:
        """Raise `ReadOnlyError`; assign to the view instead."""
        raise ReadOnlyError("a view is not written through its store: assign to the view", key=check_key(key))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError("a view is not written through its store: assign to the view", key=check_key(key))


def _chunk_shape(view: View) -> tuple[int, ...]:
    """Return the shape of the chunks of a view: not larger than some megabytes, unless those of the array below are."""
    exact, shape = view._chunk_lengths(), [length or 1 for length in view._chunk_lengths(exact=False)]
    free = [axis for axis, length in enumerate(exact) if length is None or length == view.shape[axis]]
    while prod(shape) * max(1, view.itemsize) > _NBYTES and any(shape[axis] > 1 for axis in free):
        longest = max(free, key=shape.__getitem__)
        shape[longest] = -(-shape[longest] // 2)
    return tuple(shape)
