"""Reading the metadata documents of one node or of many from a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tegula import config
from tegula.errors import StoreError, TegulaError
from tegula.formats import ALL_KEYS, COMMON_KEYS, FORMATS, Format, find_format, is_common, next_keys, parse
from tegula.formats.keys import NETCDF_KEY
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.runtime.deferred import Later
from tegula.stores.arguments import Generation
from tegula.stores.capabilities import Pinning, stored_key
from tegula.stores.interface import Store

if TYPE_CHECKING:
    from tegula.engine.caches import document_cache
    from tegula.engine.concurrency import retries
    from tegula.engine.reading import remote
else:
    document_cache, remote = Later("tegula.engine.caches.document_cache"), Later("tegula.engine.reading.remote")
    retries = Later("tegula.engine.concurrency.retries")

__all__ = ["documents_of", "fetch_documents", "read_many", "read_metadata"]

_set_read_as: Any = vars(ArrayMetadata)["read_as"].__set__
_LARGE = 2**15  # bytes of a document from which on its generation is worth knowing
_PINS = 8  # how often the directory of a node is opened, if it is missing for a moment
_LOOKS = 2  # how often a directory is looked at before it is said to have no node
# By key: which documents of a node in local files the kernel reads in one call. If there is no `zarr.json`, it reads
# all documents of Zarr v2; if there are none of these either, it reads the main documents of all other formats.
_second, *_others = [*FORMATS.values()][1:]
_TOGETHER = dict.fromkeys(_second.keys, _second.keys)
_rare = tuple(key for fmt in _others for key in fmt.node_keys if key not in COMMON_KEYS)
_TOGETHER.update(dict.fromkeys(_rare, _rare))
_ASKED = tuple(key for key in ALL_KEYS if key != NETCDF_KEY)  # of a remote store


class _Documents(Mapping[str, bytes]):
    """The documents under a node's path, by key relative to it, each fetched when it is first used.

    Parameters
    ----------
    store, path
        Where the node is.
    known : dict of str to bytes or None, optional
        Documents that have been fetched already; ``None`` stands for one that does not exist.
    keys : sequence of str, optional
        Keys of the documents that can determine the node, if the store is remote: it is asked for `next_keys` of them.
    kept : bool
        Whether this process caches the documents.

    Attributes
    ----------
    read_as : (bytes, Generation) or None
        The document that was read last, and its generation, if the store returns it at no cost.
    """

    read_as: tuple[bytes, Generation] | None = None

    def __init__(
        self,
        store: Store,
        path: str,
        known: dict[str, bytes | None] | None = None,
        keys: Sequence[str] = (),
        *,
        kept: bool = False,
    ) -> None:
        self._store = store
        self._prefix = f"{path}/" if path else ""
        self._known: dict[str, bytes | None] = {} if known is None else known
        if store.is_remote:
            self._known.setdefault(NETCDF_KEY, None)
        self._keys = keys
        self._kept = self._together = kept
        self._used = {NETCDF_KEY}
        # whether the kernel reads several documents in one call, which takes less time than a second call of the store
        self._by_kernel = self._tells = not store.is_remote and store.plain_files is not None

    def _fetch_kept(self, key: str) -> None:
        """Fetch documents together until that of a key is among them."""
        try:
            while key not in self._known:
                cached = document_cache.fetch(self._store, self._prefix, self._keys, self._known)
                if not cached:
                    break
                self._known.update(cached)
        except StoreError:
            self._together = False  # each document is requested by itself and raises its own error

    def settle(self, node: NodeMetadata | None) -> None:
        """Note the generation of the node's document; cache only the documents of the node's format."""
        if self.read_as is not None:
            raw, generation = self.read_as
            if type(node) is ArrayMetadata:
                _set_read_as(node, self.read_as)
            elif (
                isinstance(node, GroupMetadata)
                and node.consolidated is not None
                and node.documents.get(find_format(node.format).consolidated_key) is raw
            ):
                consolidated: Any = node.consolidated
                consolidated.generation = generation
        if self._kept:
            used = self._used.union(find_format(node.format).keys) if node is not None else set()
            if unused := self._known.keys() - used:
                document_cache.settle(self._store, self._prefix, unused)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a document, or `default` if it does not exist; each one is fetched when it is first used."""
        if key not in self._known:
            if self._by_kernel and self._known and key in _TOGETHER:
                self._read_together(_TOGETHER[key])
            if self._together and key in self._keys and (key in COMMON_KEYS or not is_common(self._known)):
                self._fetch_kept(key)
            if self._keys and key not in self._known and key not in COMMON_KEYS and is_common(self._known):
                return default  # a remote store is not asked for it, since the node has a common format
        if key not in self._known:
            try:
                self._known[key] = self._read(self._prefix + key)
            except StoreError as error:
                if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
                    raise
                self._known[key] = None  # a document of another format stands in place of its directory
        self._used.add(key)
        raw = self._known[key]
        return default if raw is None else raw

    def _read_together(self, names: Sequence[str]) -> None:
        """Read documents in the order in which they would be requested, except unusual ones."""
        keys = [self._prefix + name for name in names] if self._prefix else [*names]
        for key, raw in zip(names, self._store.read_together(keys, _LARGE)):  # type: ignore[attr-defined]
            if raw is False:
                self._by_kernel = False  # the kernel is not in use, or leaves this store to Python
            elif raw is None or len(raw) < _LARGE:
                self._known.setdefault(key, raw)

    def _read(self, key: str) -> bytes | None:
        """Return a document, and note the generation of a local or large one if the store returns it at no cost."""
        store = self._store
        # one byte above the limit is enough to notice that a document is too long
        if store.is_remote or store.single_writer:
            return store.get(key, (0, config.current().max_input_bytes + 1))
        if self._tells:
            raw, generation = store.get(key, (0, _LARGE), with_generation=True)
        else:
            raw, generation = store.get(key, (0, _LARGE)), None
        if raw is not None and len(raw) == _LARGE:
            raw, generation = store.get(key, (0, config.current().max_input_bytes + 1), with_generation=True)
        if raw is not None and generation is not None:
            self.read_as = raw, generation
        return raw

    def __getitem__(self, key: str) -> bytes:
        raw: bytes | None = self.get(key)
        if raw is None:
            raise KeyError(key)
        return raw

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in ALL_KEYS if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def documents_of(
    store: Store, paths: Sequence[str], keys: Sequence[str] | None = None, *, kept: bool = False
) -> list[Mapping[str, bytes]]:
    """Return the documents of nodes, by key relative to the node.

    If the store is remote or has its own `get_many`, all documents are fetched together, except for a single node in
    local files. Otherwise, and after an error, each document is fetched when it is first used, and raises its own
    error.

    Parameters
    ----------
    store, paths
        Where the nodes are.
    keys : sequence of str, optional
        The keys of the documents; by default those of all formats. A remote store is asked for the default keys in up
        to two waves, as `next_keys` says.
    kept : bool
        Whether the documents of a single node may come from the cache of this process, as the setting ``recheck``
        allows.
    """
    single = len(paths) == 1 and store.local_directory is not None
    if single and not store.is_remote:  # the usual case
        return [_Documents(store, paths[0])]
    wanted = (_ASKED if store.is_remote else ALL_KEYS) if keys is None else keys
    if kept and len(paths) == 1 and store.is_remote and document_cache.applies(store):
        return [_Documents(store, paths[0], keys=wanted, kept=True)]
    values: list[dict[str, bytes | None]] = [{NETCDF_KEY: None} if store.is_remote else {} for _ in paths]
    if not store.is_remote:
        if type(store).get_many is not Store.get_many and not single:
            _fetch(store, paths, values, [wanted] * len(paths))
        return [_Documents(store, path, known) for path, known in zip(paths, values)]
    if keys is not None:
        _fetch(store, paths, values, [wanted] * len(paths))
    else:
        while any(waves := [next_keys(wanted, known) for known in values]) and _fetch(store, paths, values, waves):
            pass
    return [_Documents(store, path, known, () if keys is not None else wanted) for path, known in zip(paths, values)]


def _fetch(
    store: Store, paths: Sequence[str], documents: Sequence[dict[str, bytes | None]], keys: Sequence[Sequence[str]]
) -> bool:
    """Fetch documents of nodes together, given the keys for each node, and add them to `documents`; return success."""
    # a large document of a local store is read when it is used, with its generation
    limit = config.current().max_input_bytes
    most = limit + 1 if store.is_remote or store.single_writer else _LARGE
    numbered = [(number, key) for number, each in enumerate(keys) for key in each if key not in documents[number]]
    prefixes = [f"{path}/" if path else "" for path in paths]
    try:
        answers = remote.get_many(store, [(prefixes[number] + key, (0, most)) for number, key in numbered])
    except StoreError:
        return False
    for (number, key), raw in zip(numbered, answers):
        if raw is None or len(raw) < most or most > limit:
            documents[number][key] = raw
    return True


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
    fetched = documents is None
    try:
        fmt = None if format is None else find_format(format)
        if documents is None:
            documents = documents_of(store, [path], None if fmt is None else fmt.keys, kept=kept)[0]
        node = (
            parse(documents)
            if fmt is None
            else fmt.parse({key: raw for key in fmt.keys if (raw := documents.get(key)) is not None})
        )
        if isinstance(documents, _Documents):
            documents.settle(node)
        if node is None and kept and fetched and isinstance(store, Pinning):
            # perhaps one node took the place of another, and the documents of each were looked up in the other one
            with suppress(FileNotFoundError):
                for _ in range(_LOOKS):  # they are deleted from a directory that was held while it was replaced
                    with store.pin(f"{path}/" if path else "") as view:
                        if (node := read_metadata(view, path, format, _Documents(view, path))) is not None:
                            break
        return node
    except TegulaError as error:
        prefix = f"{path}/" if path else ""
        # perhaps the documents are of two nodes, one in the place of the other
        if fetched and isinstance(store, Pinning):
            for attempt in range(_PINS):
                retries.back_off(attempt)
                with suppress(FileNotFoundError), store.pin(prefix) as view:
                    return read_metadata(view, path, format, _Documents(view, path))
        if error.key is not None and not error.key.startswith(prefix):
            error.key = prefix + error.key
        if error.key is not None:
            if store.is_remote:  # the body may have been cut short, so the next look asks the store again
                document_cache.forget(store, error.key)
            error.key = stored_key(store, error.key)
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise


def read_many(store: Store, paths: Sequence[str], format: str | None = None) -> list[NodeMetadata | TegulaError | None]:
    """Read the metadata of nodes as `read_metadata` does, in at most two waves, and return errors as results.

    With `format` the result is ``None`` where there are no documents of that format, even if there are others.
    """
    fmt = None if format is None else find_format(format)
    keys = None if fmt is None else _keys_of_arrays(fmt)
    nodes: list[NodeMetadata | TegulaError | None] = [None] * len(paths)
    undecided: dict[int, dict[str, bytes]] = {}
    for number, documents in enumerate(documents_of(store, paths, keys)):
        try:
            known = {key: documents[key] for key in keys or ALL_KEYS if key in documents}
        except TegulaError as error:
            nodes[number] = error
            continue
        if fmt is not None and known.keys().isdisjoint(fmt.node_keys):
            continue
        node = None
        with suppress(TegulaError):
            node = parse(known)
        if isinstance(node, ArrayMetadata):
            nodes[number] = node
        else:
            undecided[number] = known
    # the other documents, where an array of an older format may be beside a group
    others = [key for key in COMMON_KEYS if keys is not None and key not in keys]
    fetched = documents_of(store, [paths[number] for number in undecided], others)
    for (number, known), documents in zip(undecided.items(), fetched):
        try:
            more = {key: documents[key] for key in others if key in documents}
            nodes[number] = read_metadata(store, paths[number], documents={**known, **more})
        except TegulaError as error:
            nodes[number] = error
    return nodes


def _keys_of_arrays(fmt: Format) -> tuple[str, ...]:
    """Return the keys of the documents that can make an array: those of a format, and of newer ones before it."""
    formats = [*FORMATS.values()]
    return tuple(key for one in formats[: formats.index(fmt) + 1] for key in one.keys)
