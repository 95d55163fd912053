"""Views as stores: arrays of Zarr v3, whose chunks are read from the views when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np

from tegula.engine import stored_array
from tegula.errors import ReadOnlyError, TegulaError
from tegula.formats import find_format
from tegula.formats.dimension_names import attributes_without
from tegula.indexing import Affine
from tegula.metadata.chunk_grids import cells, regular_grid
from tegula.metadata.chunk_keys import default_keys
from tegula.metadata.conventions import FILL
from tegula.metadata.masks import converted_mask
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores.interface import ABSENT, ByteRange, Generation, Store, check_key, check_prefix, clip_range

__all__ = ["ViewStore", "attributes_of"]

Coords = tuple[int, ...]
_ZARR3: Final = find_format("zarr3")
_DOCUMENT: Final = "zarr.json"
_NBYTES: Final = 2**24  # of a chunk whose shape the array below does not give


class ViewStore(Store):
    """A read-only store with arrays of Zarr v3, whose elements are those of views; made by `View.as_store`.

    Chunks are not compressed. They lie in one chunk each of the array below, where its chunks divide the view evenly.
    All chunks of the grid count as stored.

    Parameters
    ----------
    views : View, or mapping of str to View
        The view that is the array at the root, or the members of a group there, by name.
    attributes : mapping, optional
        The attributes of that group.

    Raises
    ------
    UnsupportedError
        If Zarr v3 has no data type for the elements.

    Examples
    --------
    >>> import tegula
    >>> view = tegula.create_array({}, data=[[1, 2], [3, 4]], chunks=1).lazy.T
    >>> tegula.open(ViewStore(view))[...]
    array([[1, 3],
           [2, 4]])
    >>> tegula.open(ViewStore({"a": view, "b": view[0]}))["b"][...]
    array([1, 3])
    """

    read_only = True

    def __init__(self, views: Any, attributes: Mapping[str, Any] | None = None) -> None:
        self._given = views, attributes
        self._group = b""
        named = {"": views}
        if isinstance(views, Mapping):
            group = GroupMetadata(attributes=dict(attributes or {}), format=_ZARR3.name)
            self._group = _ZARR3.serialize(group)[_DOCUMENT]
            named = {f"{name}/": view for name, view in views.items()}
        self._arrays = {prefix: _ShownView(view, self, prefix) for prefix, view in named.items()}
        self.concurrency = max((view._base.concurrency for view in named.values()), default=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewStore, self._given

    @property
    def url(self) -> str:
        """A name for messages: the location of the array below."""
        locations = [shown.view.location for shown in self._arrays.values()]
        return f"view:{locations[0] if locations else ''}"

    def view_at(self, path: str) -> Any:
        """Return the view that the array at a path shows."""
        return self._arrays[f"{path}/" if path else ""].view

    # --- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return a document, or the bytes of a chunk; see `Store.get`."""
        value = self._document(check_key(key))
        if value is None:
            shown, coords = self._chunk(key)
            value = None if shown is None else shown.chunk(coords, key)
        if value is None:
            return (None, ABSENT) if with_generation else None
        part = value if byte_range is None else value[slice(*clip_range(byte_range, len(value)))]
        return (part, blake2b(value, digest_size=16).digest()) if with_generation else part

    def size(self, key: str) -> int | None:
        """Return the length of a document or chunk in bytes."""
        document = self._document(check_key(key))
        if document is not None:
            return len(document)
        shown, coords = self._chunk(key)
        return None if shown is None else shown.size(coords, key)

    def exists(self, key: str) -> bool:
        """Return whether `key` is that of a document or chunk."""
        return self._document(check_key(key)) is not None or self._chunk(key)[0] is not None

    def _document(self, key: str) -> bytes | None:
        if key == _DOCUMENT and self._group:
            return self._group
        shown = self._arrays.get(key.removesuffix(_DOCUMENT)) if key.endswith(_DOCUMENT) else None
        return None if shown is None else shown.document

    def _chunk(self, key: str) -> tuple[_ShownView | None, Coords]:
        """Return the array of a chunk and its coordinates; ``None`` if `key` is no chunk's key."""
        prefix = key[: key.find("/") + 1] if self._group else ""
        shown = self._arrays.get(prefix)
        coords = None if shown is None else shown.coords(key[len(prefix) :])
        return (None, ()) if coords is None else (shown, coords)

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`."""
        check_prefix(prefix)
        if self._group and not prefix:
            yield _DOCUMENT
        for own, shown in self._arrays.items():
            if own.startswith(prefix) or prefix.startswith(own):
                keys = chain([_DOCUMENT], map(shown.key, shown.cells()))
                yield from (key for name in keys if (key := own + name).startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, each sorted."""
        check_prefix(prefix)
        if self._group and not prefix:
            return [_DOCUMENT], sorted(self._arrays)
        if (shown := self._arrays.get(prefix)) is not None:
            document, chunk = f"{prefix}{_DOCUMENT}", f"{prefix}c"
            return ([document], [f"{chunk}/"]) if shown.view.ndim else ([chunk, document], [])
        return super().list_dir(prefix)

    # --- writing

    def set(self, key: str, value: Any, *, if_generation: Generation | None = None) -> Generation:
        """Raise `ReadOnlyError`; assign to the view instead."""
        raise ReadOnlyError("a view is not written through its store: assign to the view", key=check_key(key))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError("a view is not written through its store: assign to the view", key=check_key(key))


class _ShownView:
    """A view, its document in Zarr v3, and its chunks."""

    def __init__(self, view: Any, store: Store, prefix: str) -> None:
        self.view = view
        draft = ArrayMetadata(
            shape=view.shape,
            data_type=view._data_type,
            grid=regular_grid(_chunk_shape(view)),
            keys=default_keys(),
            codecs=(),
            fill_value=view._fill,
            attributes=attributes_of(view),
            dimension_names=view.dimension_names,
            format="zarr2",
        )
        metadata = _ZARR3.adapt(draft)
        self.document = _ZARR3.serialize(metadata)[_DOCUMENT]
        self._array = stored_array(store, prefix.rstrip("/"), metadata)

    def key(self, coords: Coords) -> str:
        """Return the key of a chunk below the array."""
        return self._array.metadata.keys.encode(coords)

    def cells(self) -> Iterator[Coords]:
        """Yield the coordinates of all chunks."""
        metadata = self._array.metadata
        return cells([(0, count) for count in metadata.grid.counts(metadata.shape)])

    def coords(self, key: str) -> Coords | None:
        """Return the coordinates of a chunk by its key below the array; ``None`` if it is no chunk's key."""
        metadata = self._array.metadata
        coords = metadata.keys.decode(key, metadata.ndim)
        inside = coords is not None and all(n < count for n, count in zip(coords, metadata.grid.counts(metadata.shape)))
        return coords if inside else None

    def size(self, coords: Coords, key: str) -> int:
        """Return the length of a chunk in bytes."""
        known = self._array.chain.encoded_size(self._array.metadata.grid.chunk_shape(coords))
        return known if known is not None else len(self.chunk(coords, key))

    def chunk(self, coords: Coords, key: str) -> bytes:
        """Return the bytes of a chunk; one at the edge is filled up."""
        array = self._array
        try:
            values = np.asarray(self.view[array.metadata.grid.region(coords, array.metadata.shape)][...])
        except TegulaError as error:
            raise error.within(key=key) from None
        shape = array.metadata.grid.chunk_shape(coords)
        if values.shape != shape:
            padded = np.full(shape, array.fill, array.dtype)
            padded[tuple(map(slice, values.shape))] = values
            values = padded
        return bytes(array.chain.encode(np.ascontiguousarray(values, array.dtype)))


def attributes_of(view: Any) -> Mapping[str, Any]:
    """Return the attributes as Zarr v3 has them, with the value that marks missing elements of their type.

    Names of dimensions, which may have changed, are left out.
    """
    found = attributes_without(view._base.attributes)
    if view._field is not None:
        return {name: value for name, value in found.items() if name != FILL}
    return found if view._type is None else converted_mask(found, view._base.data_type, view._data_type)


def _chunk_shape(view: Any) -> tuple[int, ...]:
    """Return the shape of the chunks of a view: not larger than some megabytes, unless those of the array below are."""
    exact, shape = view._chunk_lengths(), [*view._part_lengths()]
    sliced = {one.axis for one in view._transform.maps if isinstance(one, Affine)}
    free = [axis for axis, length in enumerate(exact) if length is None or axis not in sliced]
    while prod(shape) * max(1, view.itemsize) > _NBYTES and any(shape[axis] > 1 for axis in free):
        longest = max(free, key=shape.__getitem__)
        shape[longest] = -(-shape[longest] // 2)
    return tuple(shape)
