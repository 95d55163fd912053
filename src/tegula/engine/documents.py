"""Reading the metadata documents of one node or of many from a store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tegula.deferred import Later
from tegula.errors import StoreError, TegulaError
from tegula.formats import FORMATS, find_format, parse
from tegula.formats.documents import MAX_BYTES
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores.interface import Generation, Store
from tegula.stores.local import LocalStore

if TYPE_CHECKING:
    import random

    from tegula.engine import document_cache, far
else:
    document_cache, far = Later("tegula.engine.document_cache"), Later("tegula.engine.far")
    random = Later("random")

__all__ = ["back_off", "documents_of", "fetch_documents", "read_many", "read_metadata"]

_LARGE = 2**15  # bytes of a document from which on its generation is worth knowing
_ALL_KEYS = tuple(key for item in FORMATS.values() for key in item.keys)


class _Documents(Mapping[str, bytes]):
    """The documents under a node's path, by key relative to it, each fetched when it is first used.

    Parameters
    ----------
    store, path
        Where the node is.
    found : dict of str to bytes or None, optional
        Documents that have been fetched already; ``None`` stands for one that does not exist.
    keys : sequence of str, optional
        Keys of documents that this process may cache; if one of them is missing, all others are fetched.

    Attributes
    ----------
    generation : Generation or None
        The generation of the last large document, if the store returns it at no cost.
    """

    generation: Generation | None = None

    def __init__(
        self, store: Store, path: str, found: dict[str, bytes | None] | None = None, keys: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._prefix = f"{path}/" if path else ""
        self._found: dict[str, bytes | None] = {} if found is None else found
        self._keys = keys
        self._used: set[str] = set()
        if keys:
            self._fetch_kept([*keys])

    def _fetch_kept(self, keys: list[str]) -> None:
        with suppress(StoreError):  # then each document is requested by itself and raises its own error
            found = document_cache.fetch(self._store, [self._prefix + key for key in keys], MAX_BYTES + 1)
            self._found.update((key.removeprefix(self._prefix), value) for key, value in found.items())

    def settle(self, node: NodeMetadata | None) -> None:
        """Cache only the documents that determined the node, and those of its format; none if there is no node."""
        if self._keys:
            names = self._used.union(find_format(node.format).keys) if node is not None else ()
            used = {self._prefix + key for key in names}
            document_cache.settle(self._store, [self._prefix + key for key in self._keys], used)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a document, or `default` if it does not exist; each one is fetched when it is first used."""
        if self._keys:
            self._used.add(key)
            if key not in self._found and self._found and key in self._keys:
                self._fetch_kept([other for other in self._keys if other not in self._found])
        if key not in self._found:
            try:
                self._found[key] = self._read(self._prefix + key)
            except StoreError as error:
                if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
                    raise
                self._found[key] = None  # a document of another format stands in place of its directory
        raw = self._found[key]
        return default if raw is None else raw

    def _read(self, key: str) -> bytes | None:
        """Return a document, and note the generation of a large one if the store returns it at no cost."""
        store = self._store
        # one byte above the parser's limit is enough to notice that a document is too long
        if store.concurrency or store.single_writer:
            return store.get(key, (0, MAX_BYTES + 1))
        raw = store.get(key, (0, _LARGE))
        if raw is not None and len(raw) == _LARGE:
            raw, self.generation = store.get(key, (0, MAX_BYTES + 1), with_generation=True)
        return raw

    def __getitem__(self, key: str) -> bytes:
        raw: bytes | None = self.get(key)
        if raw is None:
            raise KeyError(key)
        return raw

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in _ALL_KEYS if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def documents_of(
    store: Store, paths: Sequence[str], keys: Sequence[str] = _ALL_KEYS, *, kept: bool = False
) -> list[Mapping[str, bytes]]:
    """Return the documents of nodes, by key relative to the node.

    If the store is far or has its own `get_many`, all documents are fetched together, except for a single node in local
    files. Otherwise, and after an error, each document is fetched when it is first used, and raises its own error. With
    `kept`, the documents of a single node may come from the cache of this process, as the setting ``recheck`` allows.
    """
    single = len(paths) == 1 and isinstance(store, LocalStore)
    if single and not store.concurrency:  # the usual case
        return [_Documents(store, paths[0])]
    answers: Sequence[bytes | None] = ()
    prefixes = [f"{path}/" if path else "" for path in paths]
    if kept and len(paths) == 1 and store.concurrency and document_cache.applies(store):
        return [_Documents(store, paths[0], keys=keys)]
    # a large document of a near store is read when it is used, with its generation
    most = MAX_BYTES + 1 if store.concurrency or store.single_writer else _LARGE
    if store.concurrency or (type(store).get_many is not Store.get_many and not single):
        wanted = [(prefix + key, (0, most)) for prefix in prefixes for key in keys]
        with suppress(StoreError):
            answers = far.get_many(store, wanted)
    rows = [zip(keys, answers[start : start + len(keys)]) for start in range(0, len(answers), len(keys) or 1)]
    found: list[dict[str, bytes | None]] = [
        {key: raw for key, raw in row if raw is None or len(raw) < most or most > MAX_BYTES} for row in rows
    ]
    return [_Documents(store, path, known) for path, known in zip(paths, found or [{} for _ in paths])]


def fetch_documents(store: Store, path: str, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the documents that exist under a node's path, by key relative to it."""
    keys = [*keys]
    documents = documents_of(store, [path], keys)[0]
    return {key: documents[key] for key in keys if key in documents}


def read_metadata(
    store: Store,
    path: str,
    format: str | None = None,
    documents: Mapping[str, bytes] | None = None,
    *,
    kept: bool = False,
) -> NodeMetadata | None:
    """Read the metadata of the node at a path; return ``None`` if there is none.

    Parameters
    ----------
    store, path
        Where the node is.
    format : str, optional
        Its format; detected if not given.
    documents : mapping of str to bytes, optional
        Its documents, if they have been fetched already.
    kept : bool
        Whether cached documents may be used, as the setting ``recheck`` allows; for opening a node.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    try:
        item = None if format is None else find_format(format)
        if documents is None:
            documents = documents_of(store, [path], _ALL_KEYS if item is None else item.keys, kept=kept)[0]
        found = (
            parse(documents)
            if item is None
            else item.parse({key: raw for key in item.keys if (raw := documents.get(key)) is not None})
        )
        if isinstance(documents, _Documents):
            documents.settle(found)
            copies: Any = found.copies if isinstance(found, GroupMetadata) else None
            if copies is not None:
                copies.generation = documents.generation
        return found
    except TegulaError as error:
        prefix = f"{path}/" if path else ""
        if error.key is not None and not error.key.startswith(prefix):
            error.key = prefix + error.key
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise


def read_many(store: Store, paths: Sequence[str], format: str | None = None) -> list[NodeMetadata | TegulaError | None]:
    """Read the metadata of nodes as `read_metadata` does, in at most two waves, and return errors as results.

    With `format` the result is ``None`` where there are no documents of that format, even if there are others.
    """
    formats = [*FORMATS.values()]
    item = None if format is None else find_format(format)
    # the documents that can make an array: those of the format and of newer formats, which take precedence
    keys = [key for one in formats[: None if item is None else formats.index(item) + 1] for key in one.keys]
    found: list[NodeMetadata | TegulaError | None] = [None] * len(paths)
    undecided: dict[int, dict[str, bytes]] = {}
    for number, documents in enumerate(documents_of(store, paths, keys)):
        try:
            known = {key: documents[key] for key in keys if key in documents}
        except TegulaError as error:
            found[number] = error
            continue
        if item is not None and known.keys().isdisjoint(item.node_keys):
            continue
        node = None
        with suppress(TegulaError):
            node = parse(known)
        if isinstance(node, ArrayMetadata):
            found[number] = node
        else:
            undecided[number] = known
    # the other documents, where an array of an older format may be beside a group
    others = [key for key in _ALL_KEYS if key not in keys]
    rest = documents_of(store, [paths[number] for number in undecided], others)
    for (number, known), documents in zip(undecided.items(), rest):
        try:
            more = {key: documents[key] for key in others if key in documents}
            found[number] = read_metadata(store, paths[number], documents={**known, **more})
        except TegulaError as error:
            found[number] = error
    return found


def back_off(attempt: int) -> None:
    """Wait before another attempt, for a random time of at most 50 ms that grows with each lost race."""
    if attempt:
        time.sleep(random.random() * min(0.05, 0.0001 * 2 ** min(attempt, 9)))
