"""Hierarchies of drafts of Zarr v3, whose documents and chunks lie in two trees, shown as ordinary hierarchies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tegula.stores import identity as identities
from tegula.stores.arguments import ABSENT, ByteRange, check_key, check_prefix, clip_range
from tegula.stores.capabilities import BlockedKeys, Translating, blocked_by
from tegula.stores.interface import Store
from tegula.stores.read_only import ReadOnlyStore

__all__ = ["DraftPart", "DraftStore"]

_DOCUMENT: Final = "zarr.json"
_META, _DATA = "meta/root", "data/root"
_KINDS: Final = ("array", "group")
_CHUNK: Final = re.compile(r"(?:^|/)c[0-9]*(?:[./][0-9]+)*$")  # the end of a key
_IMPLICIT: Final = b"implicit"  # the generation of a group that has members and no document


def _declare(view: Store, store: Store) -> None:
    """Let a view declare what the store that it shows declares."""
    view.concurrency, view.listable = store.concurrency, store.listable
    view.single_writer, view.fresh_generations = store.single_writer, store.fresh_generations
    view.visits_all_keys = store.visits_all_keys
    view.in_memory, view.in_archive = store.in_memory, store.in_archive


class DraftStore(ReadOnlyStore, BlockedKeys, Translating):
    """A view of another store that holds a hierarchy of a draft of Zarr v3 (2019 to 2022), at the same path.

    ``a/zarr.json`` is ``meta/root/a.array.json`` or ``meta/root/a.group.json``, with ``zarr_format`` and ``node_type``
    before the members that it has, and ``a/c0/1`` is ``data/root/a/c0/1``. A group without a document has one with
    these two members only. There are no keys outside of the hierarchy.

    Parameters
    ----------
    store : Store
        The other store.
    prefix : str
        The prefix of the hierarchy in it: that of its entry point.
    version, suffix : str
        What the entry point says: the URL of the protocol, and the end of the names of documents.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> view = DraftStore(MemoryStore({"meta/root/g/a.array.json": b'{"shape": []}', "data/root/g/a/c0": b"1"}))
    >>> view.get("g/a/zarr.json")
    b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "node_type": "array", "shape": []}'
    >>> sorted(view.list())
    ['g/a/c0', 'g/a/zarr.json', 'g/zarr.json', 'zarr.json']
    """

    why_read_only = "belongs to a hierarchy of a draft of Zarr v3, which is not written; convert it with tegula.convert"

    def __init__(
        self,
        store: Store,
        prefix: str = "",
        version: str = "https://purl.org/zarr/spec/protocol/core/3.0",
        suffix: str = ".json",
    ) -> None:
        self.store, self.prefix, self.version, self.suffix = store, check_prefix(prefix), version, suffix
        _declare(self, store)

    @property
    def url(self) -> str:
        """The URL of the other store."""
        return self.store.url

    @property
    def identity(self) -> object:
        """The identity of the other store, with a mark of the view."""
        inner = self.store.identity
        if isinstance(inner, str):
            return f"{inner}?zarr3_draft={self.prefix}"
        return identities.shared(inner, id(inner), "zarr3_draft", self.prefix)

    @property
    def is_private(self) -> bool:
        """Whether the values of the other store are private; see `Readable.is_private`."""
        return self.store.is_private

    @property
    def values_url(self) -> str | None:  # type: ignore[override]
        """The URL of the other store, to which `stored_key` is added; see `Readable.values_url`."""
        return self.store.values_url

    # --- keys

    def stored_key(self, key: str) -> str:
        """Return the key that the other store has for a document or chunk; one of its own keys stays as it is."""
        if key.startswith((f"{self.prefix}{_META}", f"{self.prefix}{_DATA}")):
            return key
        documents = self._documents(key)
        if documents is not None:
            return next(filter(self.store.exists, documents), key)
        return self._chunk(key) or key

    def _inner(self, key: str) -> str | None:
        """Return a key without the prefix of the hierarchy; ``None`` if it lies outside."""
        return check_key(key)[len(self.prefix) :] if key.startswith(self.prefix) else None

    def _chunk(self, key: str) -> str | None:
        """Return the key of a chunk in the other store; ``None`` if it can't be one."""
        inner = self._inner(key)
        return None if inner is None or not _CHUNK.search(inner) else f"{self.prefix}{_DATA}/{inner}"

    def _documents(self, key: str) -> list[str] | None:
        """Return the keys of the documents that an array or a group may have; ``None`` if `key` is no document's."""
        inner = self._inner(key)
        if inner is None or (inner != _DOCUMENT and not inner.endswith("/" + _DOCUMENT)):
            return None
        place = f"{self.prefix}{_META}/{inner[: -len(_DOCUMENT)]}".rstrip("/")
        return [f"{place}.{kind}{self.suffix}" for kind in _KINDS]

    def _outer(self, key: str, tree: str) -> str:
        """Return the key that is shown for one in a tree of the other store."""
        return self.prefix + key[len(f"{self.prefix}{tree}/") :]

    def kind_of(self, key: str) -> str | None:
        """Return the kind of node, ``"array"`` or ``"group"``, whose document has this key in the other store.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> view = DraftStore(MemoryStore(), "old/")
        >>> view.kind_of("old/meta/root.group.json"), view.kind_of("old/data/root/a/c0")
        ('group', None)
        """
        if not key.startswith((f"{self.prefix}{_META}/", f"{self.prefix}{_META}.")):
            return None
        return next((kind for kind in _KINDS if key.endswith(f".{kind}{self.suffix}")), None)

    def source(self, path: str) -> tuple[Store, str]:
        """Return a store that holds a node as a hierarchy of its own, and the path in it; see `Translating.source`."""
        root = self.prefix.rstrip("/")
        inner = path[len(self.prefix) :]
        return (self.store, root) if path == root else (DraftPart(self.store, self.prefix, inner, self.suffix), "")

    @property
    def whole(self) -> tuple[Store, str]:
        """The other store, and the path of the hierarchy in it; see `Translating.whole`."""
        return self.store, self.prefix.rstrip("/")

    # --- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return a document, or the bytes of a chunk; see `Store.get`."""
        documents = self._documents(key)
        if documents is None:
            chunk = self._chunk(key)
            if chunk is None:
                return (None, ABSENT) if with_generation else None
            if with_generation:
                return self.store.get(chunk, byte_range, with_generation=True)
            return self.store.get(chunk, byte_range)
        start, length = byte_range or (0, None)
        limit = (0, None if length is None else start + length)
        value, generation = None, ABSENT
        for kind, place in zip(_KINDS, documents):
            value, generation = self.store.get(place, limit, with_generation=True)
            if value is not None:
                value = self._stated(value, kind)
                break
        else:
            if self._has_members(key):
                value, generation = self._stated(b"{}", "group"), _IMPLICIT
        if value is not None and byte_range is not None:
            value = value[slice(*clip_range(byte_range, len(value)))]
        return (value, generation) if with_generation else value

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get`, in order; chunks are requested together."""
        wanted = [*requests]
        places = [(self._chunk(key), byte_range) for key, byte_range in wanted]
        chunks = [(place, byte_range) for place, byte_range in places if place is not None]
        found = iter(self.store.get_many(chunks)) if chunks else iter(())
        return [self.get(*request) if place is None else next(found) for (place, _), request in zip(places, wanted)]

    def _stated(self, raw: bytes, kind: str) -> bytes:
        """Return a document with the version and kind of its node, if it is an object; otherwise it is damaged."""
        text = raw.lstrip()
        if not text.startswith(b"{"):
            return raw
        rest = text[1:].lstrip()
        stated = f'{{"zarr_format": {json.dumps(self.version)}, "node_type": "{kind}"'
        return stated.encode() + (b"" if rest.startswith(b"}") else b", ") + rest

    def _has_members(self, key: str) -> bool:
        """Return whether there are documents below a node, given the key of its own document."""
        inner = key[len(self.prefix) :].removesuffix(_DOCUMENT)
        if not inner or not self.store.listable:
            return not inner  # the hierarchy has a root
        keys, prefixes = self.store.list_dir(f"{self.prefix}{_META}/{inner}")
        return bool(keys or prefixes)

    def size(self, key: str) -> int | None:
        """Return the length of a document or chunk in bytes."""
        if self._documents(key) is not None:
            value = self.get(key)
            return None if value is None else len(value)
        chunk = self._chunk(key)
        return None if chunk is None else self.store.size(chunk)

    def exists(self, key: str) -> bool:
        """Return whether there is such a document or chunk."""
        documents = self._documents(key)
        if documents is not None:
            return any(map(self.store.exists, documents)) or self._has_members(key)
        chunk = self._chunk(key)
        return chunk is not None and self.store.exists(chunk)

    def blocked_by(self, key: str) -> str | None:
        """Describe what is in the place of a chunk; see `BlockedKeys.blocked_by`."""
        chunk = self._chunk(key)
        return None if chunk is None else blocked_by(self.store, chunk)

    # --- listings

    def blockers(self, prefix: str) -> Iterator[str]:
        """Yield what is in the place of chunks; see `BlockedKeys.blockers`."""
        if isinstance(self.store, BlockedKeys) and check_prefix(prefix).startswith(self.prefix):
            for name in self.store.blockers(f"{self.prefix}{_DATA}/{prefix[len(self.prefix) :]}"):
                yield self._outer(name, _DATA)

    def _names(self, inner: str) -> Iterator[str]:
        """Yield the names of the nodes directly below a prefix of the hierarchy, some of them twice."""
        base = f"{self.prefix}{_META}/{inner}"
        keys, prefixes = self.store.list_dir(base)
        yield from (name[len(base) : -1] for name in prefixes)
        for key in keys:
            if (node := self._node_of(key[len(base) :])) is not None and node:
                yield node

    def _node_of(self, name: str) -> str | None:
        """Return the node whose document has this key or name; ``None`` if it is no document."""
        for kind in _KINDS:
            if name.endswith(end := f".{kind}{self.suffix}"):
                return name[: -len(end)]
        return None

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, each sorted."""
        if not check_prefix(prefix).startswith(self.prefix):
            return super().list_dir(prefix)
        inner = prefix[len(self.prefix) :]
        nodes = {f"{prefix}{name}/" for name in self._names(inner)}
        keys, prefixes = self.store.list_dir(f"{self.prefix}{_DATA}/{inner}")
        found = [self._outer(key, _DATA) for key in keys if _CHUNK.search(key)]
        if nodes or self.exists(f"{prefix}{_DOCUMENT}"):
            found.append(f"{prefix}{_DOCUMENT}")
        return sorted(found), sorted(nodes.union(self._outer(below, _DATA) for below in prefixes))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`."""
        if not check_prefix(prefix).startswith(self.prefix):
            yield from self.list_prefix(self.prefix) if self.prefix.startswith(prefix) else ()
            return
        inner = prefix[len(self.prefix) :]
        base = f"{self.prefix}{_META}/"
        above = inner.rstrip("/")
        nodes = {above} if self.exists(f"{prefix}{_DOCUMENT}") else set()
        for key in self.store.list_prefix(f"{base}{inner}"):
            node = self._node_of(key[len(base) :])
            while node and node not in nodes and len(node) > len(above):
                nodes.add(node)
                node = node.rpartition("/")[0]
        yield from (self.prefix + f"{node}/{_DOCUMENT}".lstrip("/") for node in nodes)
        chunks = self.store.list_prefix(f"{self.prefix}{_DATA}/{inner}")
        yield from (self._outer(key, _DATA) for key in chunks if _CHUNK.search(key))

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, the prefixes directly below `prefix` under which one of `names` has a value."""
        if _DOCUMENT in names and check_prefix(prefix).startswith(self.prefix):
            return iter(sorted({f"{prefix}{name}/" for name in self._names(prefix[len(self.prefix) :])}))
        return super().prefixes_with(prefix, names)

    def close(self) -> None:
        """Close the other store."""
        self.store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.prefix, self.version, self.suffix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {self.prefix!r})"


class DraftPart(ReadOnlyStore, BlockedKeys, Translating):
    """A node of a draft's hierarchy, and all below it, as a hierarchy of its own, with the keys that this has stored.

    Parameters
    ----------
    store : Store
        The store of the hierarchy.
    prefix : str
        The prefix of the hierarchy.
    node : str
        The path of the node in the hierarchy, not of its root.
    suffix : str
        The end of the names of documents.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore({"zarr.json": b"1", "meta/root/g/a.array.json": b"2", "data/root/g/a/c0": b"3"})
    >>> sorted(DraftPart(store, "", "g/a").list())
    ['data/root/c0', 'meta/root.array.json', 'zarr.json']
    """

    why_read_only = DraftStore.why_read_only

    def __init__(self, store: Store, prefix: str, node: str, suffix: str = ".json") -> None:
        self.store, self.prefix, self.node, self.suffix = store, check_prefix(prefix), node, suffix
        self._documents = [f"{_META}.{kind}{suffix}" for kind in _KINDS]
        _declare(self, store)

    @property
    def url(self) -> str:
        """The URL of the node."""
        return f"{self.store.url}/{self.prefix}{self.node}"

    @property
    def is_private(self) -> bool:
        """Whether the values of the other store are private; see `Readable.is_private`."""
        return self.store.is_private

    @property
    def whole(self) -> tuple[Store, str]:
        """The store of the hierarchy, and its path there; see `Translating.whole`."""
        return self.store, self.prefix.rstrip("/")

    def source(self, path: str) -> tuple[Store, str]:
        """Return the part itself, which shows values as they are stored; see `Translating.source`."""
        return self, path

    def stored_key(self, key: str) -> str:
        """Return the key that the other store has for a value."""
        return self._stored(key) or key

    def _stored(self, key: str) -> str | None:
        """Return the key, or prefix, in the other store; ``None`` if nothing there is shown under it."""
        for tree in (_META, _DATA):
            # `meta/root.array.json` is a document, `meta/root/` and `data/root/` begin all other keys
            if key.startswith(f"{tree}/") or (tree == _META and key in self._documents):
                return f"{self.prefix}{tree}/{self.node}{key[len(tree) :]}"
        return self.prefix + key if key == _DOCUMENT else None

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return a document, or the bytes of a chunk; see `Store.get`."""
        stored = self._stored(check_key(key))
        if stored is None:
            return (None, ABSENT) if with_generation else None
        return (
            self.store.get(stored, byte_range, with_generation=True)
            if with_generation
            else self.store.get(stored, byte_range)
        )

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes."""
        stored = self._stored(check_key(key))
        return None if stored is None else self.store.size(stored)

    def blocked_by(self, key: str) -> str | None:
        """Describe what is in the place of a value; see `BlockedKeys.blocked_by`."""
        stored = self._stored(check_key(key))
        return None if stored is None else blocked_by(self.store, stored)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`."""
        check_prefix(prefix)
        yield from (key for key in (_DOCUMENT, *self._documents) if key.startswith(prefix) and self.exists(key))
        for tree in (_META, _DATA):
            below = prefix if prefix.startswith(f"{tree}/") else f"{tree}/"
            if below.startswith(prefix):
                yield from (self._shown(key, tree) for key in self.store.list_prefix(f"{self._stored(below)}"))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, each sorted."""
        for tree in (_META, _DATA):
            if check_prefix(prefix).startswith(f"{tree}/"):
                keys, prefixes = self.store.list_dir(f"{self._stored(prefix)}")
                return [self._shown(key, tree) for key in keys], [self._shown(below, tree) for below in prefixes]
        keys = [key for key in (_DOCUMENT, *self._documents) if key.startswith(prefix) and self.exists(key)]
        trees = [f"{tree}/" for tree in (_DATA, _META) if f"{tree}/".startswith(prefix)]
        held = [tree for tree in trees if any(self.store.list_dir(f"{self._stored(tree)}"))]
        names = {name[len(prefix) :].partition("/") for name in (*keys, *held)}
        return (
            sorted(prefix + name for name, slash, _ in names if not slash),
            sorted({f"{prefix}{name}/" for name, slash, _ in names if slash}),
        )

    def _shown(self, key: str, tree: str) -> str:
        """Return the key, or prefix, that is shown for one below the node in a tree of the other store."""
        return tree + key[len(f"{self.prefix}{tree}/{self.node}") :]

    def close(self) -> None:
        """Close the other store."""
        self.store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.prefix, self.node, self.suffix)
