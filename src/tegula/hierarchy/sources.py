"""Sources: what an operation over many chunks reads, compared with the store once more before it completes.

A handle describes a node as it was when it was opened. While a copy, a conversion or a checksum is under way, another
process may cut the node short, replace, delete or move it; what is missing then reads as fill values, and what is new
would be decoded by the old description. So an operation notes its sources when it begins, and compares them before
anything that it makes can look complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, Final, Literal

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import children
from tegula.engine.documents.generations import States, states_of
from tegula.errors import ConflictError, MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import ALL_KEYS, find_format
from tegula.hierarchy.ahead import AnyGroup
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.targets.paths import location_of
from tegula.tables.columns import column_names
from tegula.tables.table import Table

__all__ = ["Lengths", "Source", "Sources", "source_of"]

Lengths = Literal["same", "chunks", "longer", "any"]
"""How the lengths of an array may change while it is read: not at all; by whole chunks after a whole chunk, as suits
chunks that are copied as they are; by more elements, which no one reads; or in any way."""
_AGAIN: Final = "do it again when no other program replaces or cuts what is read"
_Changed = Callable[[str], object] | None


class Source:
    """A node that an operation reads, as it was at the beginning.

    In a ``with`` block it is compared with the store at the end (`check`), also after an error of tegula, which the
    change may have caused.

    Parameters
    ----------
    store, path : Store, str
        Where it is.
    metadata : ArrayMetadata, GroupMetadata or None
        The description by which it is read; ``None`` if its documents can't be read, and must stay the same.
    lengths : {"longer", "chunks", "same", "any"}
        How the lengths of an array may change.
    changed : callable, optional
        Called with a description of the change before the error is raised.
    described_above : bool
        Whether the description may be from consolidated metadata, and the node without documents.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=8, chunks=4, dtype="i4")
    >>> source = source_of(a)
    >>> a.resize(12)
    >>> source.check()
    >>> a.resize(4)
    >>> source.check()
    Traceback (most recent call last):
    tegula.errors.ConflictError: the source has changed since it was opened: the array had shape (8,), and has shape ...
    """

    __slots__ = ("_begun", "_changed", "_described_above", "_keys", "_lengths", "_metadata", "_path", "_store")

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: NodeMetadata | None,
        *,
        lengths: Lengths = "longer",
        changed: _Changed = None,
        described_above: bool = False,
    ) -> None:
        self._store, self._path, self._metadata = store, path, metadata
        self._lengths, self._changed, self._described_above = lengths, changed, described_above
        self._keys = ALL_KEYS if metadata is None else (*metadata.documents,)
        # where generations recur, they say no more than the bytes of the description
        wanted = store.fresh_generations or described_above or metadata is None
        self._begun: States | None = None
        if wanted:
            self._begun = begun = self._read() if self._keys else {}
            if metadata is not None:
                self._compare(begun)  # at once, if the handle is an old one

    def _read(self) -> States:
        return states_of(self._store, self._path, self._keys)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.check()
        elif isinstance(error, TegulaError):
            with suppress(StoreError):  # the storage failed; the first error says so
                self.check()

    @property
    def documents(self) -> Mapping[str, bytes]:
        """The documents by which the node is read."""
        if self._metadata is not None:
            return self._metadata.documents
        return {key: raw for key, (raw, _) in (self._begun or {}).items() if raw is not None}

    def check(self) -> None:
        """Compare the documents with the store once more.

        Raises
        ------
        ConflictError
            If what was read may be wrong: the array has become shorter, or another node has taken its place.
        NotFoundError
            If the node has been deleted or moved.
        """
        self._compare(self._read() if self._keys else {})

    @staticmethod
    @contextmanager
    def all_of(sources: Sequence[Source]) -> Iterator[None]:
        """Compare several nodes with their stores at once, at the end of a ``with`` block."""
        requests = max((source._store.concurrency for source in sources), default=0)
        try:
            yield
        except TegulaError as raised:
            error = raised
            gather(lambda source: source.__exit__(None, error, None), sources, requests)
            raise
        gather(Source.check, sources, requests)

    def _compare(self, now: States) -> None:
        what = self._difference(now)
        if what is None:
            return
        if self._changed is not None:
            self._changed(what)
        gone = all(raw is None for raw, _ in now.values())
        where = location_of(self._store, self._path)
        raise (NotFoundError if gone else ConflictError)(_message(what), path=where)

    def _difference(self, now: States) -> str | None:
        """Return how the node differs from what was read, in words; ``None`` if it does not."""
        metadata, begun = self._metadata, self._begun
        raw = {key: value for key, (value, _) in now.items() if value is not None}
        before = None if begun is None else {key: value for key, (value, _) in begun.items() if value is not None}
        name = _named(metadata, self._path)
        if not raw and (not self._keys or (self._described_above and not before)):
            return None  # nothing describes it, or only consolidated metadata
        if not raw:
            return f"{name} was deleted or moved"
        if before is not None and begun is not None and raw == before and isinstance(metadata, ArrayMetadata):
            for key in find_format(metadata.format).node_keys:
                if key in begun and begun[key] != now[key]:
                    return f"{key} of {name} was written anew, as when an array is replaced by one like it"
        if metadata is None:
            return None if raw == before else f"the documents of {name} are not the same"
        if raw == dict(metadata.documents):
            return None
        try:
            present = find_format(metadata.format).parse(raw)
        except TegulaError as error:
            return f"{name} can't be read any more: {error.message}"
        return _change(name, metadata, present, self._lengths)


def source_of(array: Array, lengths: Lengths = "longer", changed: _Changed = None, **more: bool) -> Source:
    """Return an array as a source, in its present state; for parameters see `Source`."""
    return Source(array.store, array.path, array.metadata, lengths=lengths, changed=changed, **more)


class Sources:
    """The groups and tables that an operation visits, with the names of their members.

    Parameters
    ----------
    root : Array, Group, Table or None
        The node that the operation reads; ``None`` if the nodes are given one by one.
    path : str
        Its path, if it is not given.
    implicit : bool
        Whether nodes without documents, and those of other formats than their group's, are visited.
    changed : callable, optional
        As for `Source`.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="u1")
    >>> sources = Sources(g)
    >>> for name, node in g.walk():
    ...     sources.see(node)
    >>> sources.check()
    >>> del g["x"]
    >>> sources.check()
    Traceback (most recent call last):
    tegula.errors.ConflictError: the source has changed since it was opened: the member 'x' was deleted or moved; ...
    """

    def __init__(
        self,
        root: Array | AnyGroup | Table | None,
        path: str = "",
        *,
        implicit: bool = False,
        changed: _Changed = None,
    ) -> None:
        self._implicit, self._changed = implicit, changed
        self._lock = Lock()
        self._groups: dict[str, tuple[Store, GroupMetadata]] = {}
        self._members: dict[str, set[str]] = {}
        self._columns: list[Source] = []
        self.root = path if root is None else root.path
        self._is_known = root is not None and not isinstance(root, (Array, Table)) and root.knows_members
        if root is not None:
            self.see(root)

    def array(self, array: Array, lengths: Lengths = "longer") -> Source:
        """Return an array as a source, to be compared on its own once it is read.

        Columns of a table are compared once more at the end, since they belong together.
        """
        made = source_of(array, lengths, self._changed, described_above=self._is_known)
        _, above = self._groups.get(array.path.rpartition("/")[0], (None, None))
        if array.path != self.root and above is not None and _is_table(above):
            with self._lock:
                self._columns.append(made)
        return made

    def see(self, node: Array | AnyGroup | Table) -> None:
        """Note a node that the operation visits."""
        self.see_path(node.path)
        if isinstance(node, Array):
            return
        self.see_group(node.store, node.path, node.metadata)

    def see_group(self, store: Store, path: str, metadata: GroupMetadata) -> None:
        """Note a group or table, given its description."""
        with self._lock:
            self._groups[path] = store, metadata
            self._members.setdefault(path, set())

    def see_path(self, path: str) -> None:
        """Note the path of a member, whether or not it can be read."""
        with self._lock:
            while path != self.root and path:
                above, _, name = path.rpartition("/")
                members = self._members.setdefault(above, set())
                if name in members:
                    return
                members.add(name)
                path = above

    def check(self) -> None:
        """Compare groups, tables and the names of their members with the store.

        Raises
        ------
        ConflictError
            If a member was added, deleted or moved, or another node has taken the place of a group.
        NotFoundError
            If a group was deleted or moved.
        """
        tasks: list[Callable[[], object]] = [column.check for column in self._columns]
        for path, (store, metadata) in ({} if self._is_known else self._groups).items():
            if metadata.documents:
                tasks.append(Source(store, path, metadata, changed=self._changed).check)
            if store.listable and not _is_table(metadata):
                tasks.append(partial(self._check_members, store, path, metadata))
        requests = max((store.concurrency for store, _ in self._groups.values()), default=0)
        gather(lambda task: task(), tasks, requests)

    def _check_members(self, store: Store, path: str, metadata: GroupMetadata) -> None:
        """Compare the names of a group's members."""
        prefix = f"{path}/" if path else ""
        names = {child[len(prefix) : -1] for child in children(store, prefix)}
        seen = self._members.get(path, set())
        what = None
        if lost := sorted(seen - names):
            what = f"the member {prefix + lost[0]!r} was deleted or moved"
        elif (new := next(self._added(store, prefix, sorted(names - seen), metadata), None)) is not None:
            what = f"the member {prefix + new!r} was added"
        if what is not None:
            if self._changed is not None:
                self._changed(what)
            raise ConflictError(_message(what), path=location_of(store, path))

    def _added(self, store: Store, prefix: str, names: list[str], metadata: GroupMetadata) -> Iterator[str]:
        """Yield the names, among those added, that a walk would visit."""
        folder = not metadata.documents or find_format(metadata.format).folders_are_groups
        anything = self._implicit or folder
        for name in names:
            with suppress(TegulaError):  # files of other programs
                node = engine.read_metadata(store, prefix + name, None if anything else metadata.format)
                if node is None and anything:
                    node = engine.implicit_group(store, prefix + name, None, deep=True)
                if node is not None:
                    yield name


def _message(what: str) -> str:
    return f"the source has changed since it was opened: {what}; {_AGAIN}"


def _named(metadata: NodeMetadata | None, path: str) -> str:
    kind = "node" if metadata is None else "array" if isinstance(metadata, ArrayMetadata) else "group"
    return f"the {kind} {path!r}" if path else f"the {kind}"


def _is_table(metadata: GroupMetadata) -> bool:
    if metadata.members is not None:
        return True
    with suppress(MetadataError):  # the attribute of another program
        return column_names(metadata) is not None
    return False


def _change(name: str, old: NodeMetadata, new: NodeMetadata | None, lengths: Lengths) -> str | None:
    """Return how two descriptions of a node differ, in words, as far as it matters to what was read."""
    if isinstance(old, GroupMetadata):
        if not isinstance(new, GroupMetadata):
            return f"{name} was replaced by another node"
        with suppress(MetadataError):
            before, after = column_names(old), column_names(new)
            if before is not None and before != after:
                return f"{name} had the columns {_short(before)}, and has {_short(after)} now"
        return None
    if not isinstance(new, ArrayMetadata):
        return f"{name} was replaced by another node"
    facts: dict[str, Callable[[ArrayMetadata], Any]] = {
        "data type": lambda one: str(one.data_type),
        "chunks of shape": lambda one: one.grid.largest_chunk(),
        "codecs": lambda one: [(codec.name, dict(codec.configuration)) for codec in one.codecs],
        "fill value": lambda one: None if one.fill_value is None else one.fill_value[()],
    }
    if not new.has_chunks_of(old):
        for what, fact in facts.items():
            if repr(fact(old)) != repr(fact(new)):
                return f"{name} had {what} {_short(fact(old))}, and has {what} {_short(fact(new))} now"
        if old.ndim == new.ndim:
            return f"{name} was replaced by one with other chunks"
    if not _may_become(old, new, lengths):
        return f"{name} had shape {old.shape}, and has shape {new.shape} now"
    return None


def _may_become(old: ArrayMetadata, new: ArrayMetadata, lengths: Lengths) -> bool:
    """Return whether the elements that were read of an array are still right after its lengths have changed."""
    if old.ndim != new.ndim:
        return False
    if old.shape == new.shape or lengths == "any":
        return True
    if lengths == "same" or any(after < before for before, after in zip(old.shape, new.shape)):
        return False
    if lengths == "longer":
        return True
    chunk = old.grid.largest_chunk()
    cut = (before % length for before, after, length in zip(old.shape, new.shape, chunk) if before != after)
    return old.grid.is_regular and not any(cut)


def _short(value: Any) -> str:
    return f"{value!r:.120}" if not isinstance(value, str) else value[:120]
