"""A view of a node of any format as Zarr v3: with the keys, documents and chunks that it would have in Zarr v3."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tegula import engine
from tegula.codecs.equivalence import decode_alike
from tegula.engine.nodes.deleting import remove_array
from tegula.errors import ConflictError, MetadataError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.formats import find_format, parse
from tegula.hierarchy.drafts import found_at
from tegula.hierarchy.nodes import open_below
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import ABSENT, ByteRange, Generation, Store
from tegula.stores.arguments import check_key, check_prefix, clip_range, flat_view
from tegula.zarr3_view.nodes import DOCUMENT, ShownArray, ShownGroup, describe, documents_of

__all__ = ["Zarr3View"]

_CHUNK: Final = re.compile(r"(?:(.+)/)?(c(?:/(?:0|[1-9][0-9]*))*)").fullmatch
# chunks of arrays in Zarr v3 whose document names other keys
_OTHER_CHUNK: Final = re.compile(r"(?:c[./])?[0-9]+(?:[./][0-9]+)*").fullmatch
_MASK: Final = "_FillValue"
_MOST: Final = 4096  # nodes that are kept
_MOST_AXES: Final = 66  # parts of a key: NumPy has 64 axes
Shown = ShownArray | ShownGroup


class Zarr3View(Store):
    """A node of any format, shown as Zarr v3.

    An array is looked up when its document is read, and its chunks match that document: growth of a bcolz array is seen
    when the array is opened again.

    Parameters
    ----------
    store, path : Store, str
        The node.
    format : str
        The format of new nodes.
    writable : bool
        Whether documents and chunks can be written.

    Examples
    --------
    >>> from tegula.hierarchy.creators import create_array
    >>> from tegula.hierarchy.opening import open
    >>> old = create_array({}, shape=3, dtype=">i2", format="bcolz")
    >>> old[:] = [1, 2, 3]
    >>> view = Zarr3View(old.store, "", format="bcolz", writable=False)
    >>> sorted(view.list())
    ['c/0', 'zarr.json']
    >>> open(view)[:], open(view).format
    (array([1, 2, 3], dtype=int16), 'zarr3')
    """

    def __init__(self, store: Store, path: str, *, format: str, writable: bool) -> None:
        self.store = store
        self.path = path
        self.format = format  # the node itself may be deleted, and created again
        self.writable = writable
        self.read_only = store.read_only or not writable
        self.concurrency, self.single_writer = store.concurrency, store.single_writer
        self.listable, self.conditional_delete = store.listable, store.conditional_delete
        self.fresh_generations, self.in_memory = False, store.in_memory
        self._nodes: dict[str, Shown | None] = {}
        # arrays that were created here, whose chunks come and go as the documents said that were given
        self._made: dict[str, ArrayMetadata] = {}

    @property
    def url(self) -> str:
        """The URL of the node, since the view has none of its own."""
        return f"{self.store.url}/{self.path}".rstrip("/")

    # --- nodes

    def node(self, path: str, *, again: bool = False) -> Shown | None:
        """Return the node at a path below the view, or ``None``; with `again` its documents are read once more.

        Raises
        ------
        MetadataError, UnsupportedError
            If it can't be read, or Zarr v3 has no form for it.
        """
        if not again and path in self._nodes:
            return self._nodes[path]
        store, place, metadata = found_at(self.store, self._place(path), engine.read_node, self.path)
        try:
            shown = self._shown(path, store, place, metadata)
        except TegulaError as error:
            error.within(path=f"{self.store.url}/{place}".rstrip("/"))
            raise
        if shown is None:  # it may be created at any time
            self._nodes.pop(path, None)
            return None
        if len(self._nodes) >= _MOST:
            self._nodes.clear()
        self._nodes[path] = shown
        return shown

    def _shown(self, path: str, store: Store, place: str, metadata: NodeMetadata | None) -> Shown | None:
        if metadata is None:
            return None
        if isinstance(metadata, ArrayMetadata):
            known = self._nodes.get(path)
            if isinstance(known, ShownArray) and known.metadata.documents == metadata.documents:
                return known
            made = self._made.get(path)
            if made is None or not _fits(metadata, made):
                return ShownArray(store, place, metadata, shown_in=self.store)
            described = replace(describe(metadata), codecs=made.codecs, keys=made.keys)
            return ShownArray(store, place, metadata, described)
        return ShownGroup(metadata, self._consolidated(path, place, metadata))

    def _consolidated(
        self, path: str, place: str, group: GroupMetadata
    ) -> Iterator[tuple[str, Mapping[str, bytes]]] | None:
        """Return the members for consolidated metadata: those in the group's own, or the columns of a table."""
        item = find_format(group.format)
        if group.members is not None:
            found = {name: self._listed(f"{path}/{name}".strip("/"), again=True) for name in group.members}
            return ((name, {DOCUMENT: node.document}) for name, node in found.items() if node is not None)
        if item.consolidated is None or not item.consolidated_key:
            return None
        copies = item.consolidated(engine.fetch_documents(self.store, place, [item.consolidated_key]))
        if copies is None:
            return None
        return self._converted(copies)

    def _converted(self, copies: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, Mapping[str, bytes]]]:
        for name, documents in copies.items():
            try:
                node = parse(documents) if name else None
                converted = None if node is None else documents_of(node)
            except TegulaError:
                continue  # opening it alone reports the reason
            if converted is not None:
                yield name, converted

    def _place(self, path: str) -> str:
        return "/".join(part for part in (self.path, path) if part)

    def array_at(self, path: str) -> ShownArray | None:
        """Return the array at a path below the view, or ``None``."""
        found = self.node(path)
        return found if isinstance(found, ShownArray) else None

    def knows(self, path: str) -> bool:
        """Return whether there was a node at a path when it was looked up last."""
        return path in self._nodes

    def forget(self) -> None:
        """Forget all nodes: one that was replaced may have the documents of the old one."""
        self._nodes.clear()

    def known_array(self, path: str) -> ShownArray | None:
        """Return the array at a path if it was looked up before, without a request to the store."""
        found = self._nodes.get(path)
        return found if isinstance(found, ShownArray) else None

    def chunk(self, key: str) -> tuple[ShownArray, tuple[int, ...], str] | None:
        """Return the array and coordinates of a chunk, and its key in the store; ``None`` if no chunk has the key."""
        match = _CHUNK(key)
        if match is not None:
            found = self._chunk_of(match[1] or "", match[2])
            if found is not None:
                return found
        parts = key.split("/")
        for cut in range(len(parts) - 1, max(-1, len(parts) - _MOST_AXES), -1):
            inner = "/".join(parts[cut:])
            if not _OTHER_CHUNK(inner):
                if parts[cut] != "c":
                    break
                continue
            found = self._chunk_of("/".join(parts[:cut]), inner)
            if found is not None:
                return found
        return None

    def _chunk_of(self, path: str, inner: str) -> tuple[ShownArray, tuple[int, ...], str] | None:
        array = self.array_at(path)
        coords = None if array is None else array.coords(inner)
        stored = array.key(coords) if array is not None and coords is not None else ""
        return (array, coords, stored) if array is not None and coords is not None and stored else None

    # --- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return a document or chunk in Zarr v3; see `Store.get`."""
        value, generation = self._get(check_key(key), byte_range)
        return (value, generation) if with_generation else value

    def _get(self, key: str, byte_range: ByteRange | None) -> tuple[bytes | None, Generation]:
        path = _document_path(key)
        if path is not None:
            node = self.node(path, again=True)
            if node is None:
                return None, ABSENT
            return _clipped(node.document, byte_range), node.document
        chunk = self.chunk(key)
        if chunk is None:
            return None, ABSENT
        array, coords, stored = chunk
        if array.is_passed_on:
            return self.store.get(stored, byte_range, with_generation=True)
        data, generation = self.store.get(stored, with_generation=True)
        return None if data is None else _clipped(array.show(data, coords), byte_range), generation

    def size(self, key: str) -> int | None:
        """Return the length of a document or chunk in Zarr v3, or ``None`` if there is none."""
        chunk = None if _document_path(check_key(key)) is not None else self.chunk(key)
        if chunk is not None and chunk[0].is_passed_on:
            return self.store.size(chunk[2])
        value = self._get(key, None)[0]
        return None if value is None else len(value)

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        chunk = None if _document_path(check_key(key)) is not None else self.chunk(key)
        return self._get(key, None)[0] is not None if chunk is None else self.store.exists(chunk[2])

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`; nodes that Zarr v3 has no form for are left out."""
        start = check_prefix(prefix)[:-1]
        while start and self._listed(start) is None:
            start = start.rpartition("/")[0]
        return (key for key in self._below(start) if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, each sorted."""
        path = check_prefix(prefix)[:-1]
        node = self._listed(path)
        if isinstance(node, ShownGroup):
            names = (name for name in self._names(path) if self._listed(f"{prefix}{name}") is not None)
            return [f"{prefix}{DOCUMENT}"], sorted(f"{prefix}{name}/" for name in names)
        if node is not None:
            first = next((f"{prefix}{node.shown_key(coords)}" for coords in node.chunks()), None)
            inner = "/" in first[len(prefix) :] if first else False
            keys = [f"{prefix}{DOCUMENT}", *([first] if first and not inner else [])]
            return sorted(keys), [f"{prefix}c/"] if inner else []
        return super().list_dir(prefix)

    def _listed(self, path: str, *, again: bool = False) -> Shown | None:
        """Return the node at a path, ``None`` also if it can't be shown."""
        try:
            return self.node(path, again=again)
        except (MetadataError, UnsupportedError):
            return None

    def _names(self, path: str) -> list[str]:
        """Return the names of the members of a group or table."""
        found: Any = open_below(self.store, self._place(path), self.path, read_only=True)
        return [] if found is None else [*(getattr(found, "names", None) or found)]

    def _below(self, path: str) -> Iterator[str]:
        """Yield the keys of a node and of all nodes below it."""
        waiting = [path]
        while waiting:
            at = waiting.pop()
            node, prefix = self._listed(at), f"{at}/" if at else ""
            if node is not None:
                yield f"{prefix}{DOCUMENT}"
            if isinstance(node, ShownArray):
                yield from (f"{prefix}{node.shown_key(coords)}" for coords in node.chunks())
            elif node is not None:
                waiting += [f"{prefix}{name}" for name in self._names(at)]

    # --- writing

    def set(self, key: str, value: Any, *, if_generation: Generation | None = None) -> Generation:
        """Store a document or chunk of Zarr v3 in the format of the node; see `Store.set`.

        Raises
        ------
        UnsupportedError
            If that format can't represent what the document says.
        """
        self._check_writable(check_key(key))
        raw = bytes(flat_view(value, key))
        path = _document_path(key)
        if path is not None:
            return self._set_document(key, path, raw, if_generation)
        chunk = self.chunk(key)
        if chunk is None:
            raise UnsupportedError(f"{self!r} holds documents and chunks of arrays, and nothing else", key=key)
        array, coords, stored = chunk
        return self.store.set(stored, array.take(raw, coords), if_generation=if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove a chunk, or the documents of a node, with the chunks of an array; see `Store.delete`."""
        self._check_writable(check_key(key))
        path = _document_path(key)
        if path is None:
            chunk = self.chunk(key)
            if chunk is not None:
                self.store.delete(chunk[2], if_generation=if_generation)
            return
        node = self.node(path, again=True)
        present = ABSENT if node is None else node.document
        if if_generation is not None and present != if_generation:
            raise ConflictError("the document has changed since it was read", key=key)
        if node is None:
            return
        place = self._place(path)
        if isinstance(node, ShownArray):  # without its documents nothing would show its chunks, but the next array here
            remove_array(node.stored, place)
        else:
            copies = find_format(node.metadata.format).consolidated_key
            for name in [*([copies] if copies else []), *reversed([*node.metadata.documents])]:
                self.store.delete(f"{place}/{name}".lstrip("/"))
            engine.forget(self.store, place)
        self._nodes.pop(path, None)
        self._made.pop(path, None)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, members before their group; see `Store.delete_prefix`."""
        keys = [*self.list_prefix(prefix)]
        # chunks go with the documents of their array; where there are none, the prefix is inside an array
        documents = [key for key in reversed(keys) if _document_path(key) is not None]
        for key in documents or keys:
            self.delete(key)

    def _check_writable(self, key: str) -> None:
        if self.read_only:
            why = "the store is" if self.writable else "a view of this format is"
            raise ReadOnlyError(f"{why} read-only", path=self.url, key=key)

    def _set_document(self, key: str, path: str, raw: bytes, if_generation: Generation | None) -> Generation:
        """Write what a document says into the documents of the node, or create the node."""
        wanted = parse({DOCUMENT: raw})
        node = self.node(path, again=True)
        if if_generation is not None and (ABSENT if node is None else node.document) != if_generation:
            raise ConflictError("the document has changed since it was read", key=key)
        if wanted is None or json.loads(raw).get("consolidated_metadata") is not None:
            raise UnsupportedError("consolidated metadata can't be written in this format", key=key)
        place = self._place(path)
        if node is None or not node.metadata.documents:
            self._create(path, wanted)
        elif isinstance(node, ShownArray) and isinstance(wanted, ArrayMetadata):
            _check_same(node.described, wanted, key)
            engine.update_documents(self.store, place, node.metadata, partial(_changed_array, node, wanted))
        elif isinstance(node, ShownGroup) and isinstance(wanted, GroupMetadata):
            new = wanted.attributes
            engine.update_documents(self.store, place, node.metadata, lambda old: replace(old, attributes=new))
        else:
            raise UnsupportedError("an array can't become a group, or a group an array", key=key)
        made = self.node(path, again=True)
        return ABSENT if made is None else made.document

    def _create(self, path: str, wanted: NodeMetadata) -> None:
        item = find_format(self.format)
        if isinstance(wanted, ArrayMetadata):
            adapted = item.adapt(replace(wanted, documents={}))
            if not _fits(adapted, wanted):
                raise UnsupportedError(f"{item.name} has no array with these chunks and elements", key=DOCUMENT)
            new: NodeMetadata = adapted
            # whoever creates an array goes on to write chunks as its own document says
            self._made[path] = wanted
        else:
            new = GroupMetadata(attributes=wanted.attributes, format=item.name)
        engine.create_documents(self.store, self._place(path), item, new, False)

    # --- what makes two views equal

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Zarr3View):
            return NotImplemented
        mine, theirs = (self.path, self.read_only), (other.path, other.read_only)
        return mine == theirs and (self.store == other.store or self.store.identity == other.store.identity)

    def __hash__(self) -> int:
        return hash((self.path, self.read_only))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.store, self.path, self.format, self.writable, self._made)


def _reopen(store: Store, path: str, format: str, writable: bool, made: dict[str, ArrayMetadata]) -> Zarr3View:
    view = Zarr3View(store, path, format=format, writable=writable)
    view._made.update(made)
    return view


def _document_path(key: str) -> str | None:
    """Return the path of the node whose document has this key, or ``None``."""
    path, _, name = key.rpartition("/")
    return path if name == DOCUMENT else None


def _clipped(value: bytes, byte_range: ByteRange | None) -> bytes:
    return value if byte_range is None else value[slice(*clip_range(byte_range, len(value)))]


def _check_same(shown: ArrayMetadata, wanted: ArrayMetadata, key: str) -> None:
    """Refuse a change of anything that chunks depend on."""
    alike = decode_alike(shown.codecs, shown.data_type, wanted.codecs, wanted.data_type)
    if not (alike and shown.keys == wanted.keys and _have_same_elements(shown, wanted)):
        raise UnsupportedError(
            "of an array that is stored in another format, only shape, attributes and dimension names can change",
            key=key,
        )


def _have_same_elements(one: ArrayMetadata, other: ArrayMetadata) -> bool:
    """Return whether chunks have the same elements, however they are encoded."""
    before, after = one.fill_value, other.fill_value
    same_fill = before is not None and after is not None and bytes(before.data) == bytes(after.data)
    same = (one.ndim, one.grid, one.data_type) == (other.ndim, other.grid, other.data_type)
    return same and (same_fill or one.data_type.variable is not None)


def _fits(stored: ArrayMetadata, wanted: ArrayMetadata) -> bool:
    """Return whether an array can be shown as a document describes it."""
    return _have_same_elements(describe(stored), wanted)


def _changed_array(node: ShownArray, wanted: ArrayMetadata, old: ArrayMetadata) -> ArrayMetadata:
    """Return the description of an array with the shape, attributes and names of a document in Zarr v3."""
    stored_attributes = find_format(old.format).stored_attributes
    assert stored_attributes is not None  # formats that Zarr v3 can change have it
    new = replace(old, shape=wanted.shape, attributes=wanted.attributes, dimension_names=wanted.dimension_names)
    attributes = dict(stored_attributes(new))
    shown = node.described.attributes
    if _MASK in shown and attributes.get(_MASK) == shown[_MASK]:  # that is how the fill value is shown
        del attributes[_MASK]
        if _MASK in old.attributes:
            attributes[_MASK] = old.attributes[_MASK]
    return replace(new, attributes=attributes)
