"""Copying and moving nodes as they are stored: same format, same documents, same encoded chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import perf_counter
from typing import Any, Final

from tegula import engine
from tegula.creation import check_path, check_reserved, create_parents, delete_node, is_chunk_key, make_room
from tegula.engine.pool import for_each
from tegula.engine.visiting import batches
from tegula.errors import (
    AlreadyExistsError,
    ConflictError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    TegulaError,
    UnsupportedError,
)
from tegula.formats import FORMATS, find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.node import Node
from tegula.places import abandon, clean, creating, is_missing, local_path, new_format, place, refuse_overlap, store_of
from tegula.stores import ABSENT, LocalStore, Store

__all__ = ["CopyProgress", "CopyReport", "copy", "copy_node", "delete", "move", "move_node"]

CopyProgress = Callable[[str, int, int], None]
_FIRST: Final = 4  # values by which to see how long one takes
_QUICK: Final = 0.001  # seconds


def _documents_in_order() -> tuple[str, ...]:
    """Return the keys of all documents, those that make a node last, the newest format's last of all."""
    inner = [key for item in FORMATS.values() for key in item.keys if key not in item.node_keys]
    copies = [item.consolidated_key for item in FORMATS.values() if item.consolidated_key]
    nodes = [key for item in [*FORMATS.values()][::-1] for key in item.node_keys]
    return (*dict.fromkeys(key for key in (*inner, *copies) if key not in nodes), *nodes)


_ARRAYS: Final = tuple(key for item in FORMATS.values() for key in item.node_keys)
_RANK: Final = {key: rank for rank, key in enumerate(_documents_in_order())}


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What `copy` or `move` has done.

    Parameters
    ----------
    arrays, groups : int
        How many nodes of each kind were copied; a table counts as a group.
    values : int
        How many stored values: chunks, documents, and files of others among them.
    nbytes : int
        Their size in bytes.
    renamed : bool
        Whether everything was moved in one step instead, and nothing was counted.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="u1", fill_value=1)
    >>> tegula.copy(a, {})
    CopyReport(arrays=1, groups=0, values=1, nbytes=552, renamed=False)
    """

    arrays: int = 0
    groups: int = 0
    values: int = 0
    nbytes: int = 0
    renamed: bool = False


def copy(
    source: Any, target: Any, *, path: str = "", overwrite: bool = False, progress: CopyProgress | None = None
) -> CopyReport:
    """Copy an array, a table, or a group with everything below it, without decoding anything.

    The copy has the format of the source, and its documents and stored chunks byte for byte: attributes, members of
    documents that tegula does not know, consolidated metadata, and whatever else is stored below the source. Only what
    is stored is visited, a few values at a time. To change format, chunks or codecs, use `tegula.convert`.

    The documents that make a node of a path are written last: an array before the group that it is in, the documents
    of an array after its chunks. So an array under way, or left by a process that was killed, is not there for readers.
    After any other error what was copied is deleted.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        What to copy.
    target : str, path, mapping, Store, Array, Group or Table
        Where to; a node stands for its place. Must not be the source, nor lie within it or above it.
    path : str
        Path below the target; groups above it are created.
    overwrite : bool
        Delete the node that is there, with all below it, before anything is copied.
    progress : callable, optional
        Called with the path of the array or group at hand, and how many values and bytes have been copied until now.

    Returns
    -------
    CopyReport

    Raises
    ------
    NotFoundError
        If there is no source.
    AlreadyExistsError
        If there is a node at the target and `overwrite` is false, or another process writes there.
    MetadataError
        If source and target lie within each other, or the name of the target is one for another format.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=np.arange(6), y=np.ones(2))
    >>> report = tegula.copy(store, tegula.MemoryStore())
    >>> report.arrays, report.groups
    (2, 1)
    """
    with _source(source, read_only=True) as (store, old):
        _found(store, old)  # before anything is made for the target
        with _target(target, path) as (new_store, new):
            return copy_node(store, old, new_store, new, overwrite=overwrite, progress=progress)


def copy_node(
    store: Store,
    old: str,
    new_store: Store,
    new: str,
    *,
    overwrite: bool = False,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Copy what is stored at a path of a store to a path of another, or of the same; see `copy`."""
    _prepare(store, old, new_store, new, overwrite)
    return _copied(store, old, new_store, new, progress)


def move(
    source: Any, target: Any, *, path: str = "", overwrite: bool = False, progress: CopyProgress | None = None
) -> CopyReport:
    """Move an array, a table, or a group with everything below it to another place, as it is stored.

    Within one local file system it is renamed, in one step. Elsewhere it is copied as by `copy`, and the source is
    deleted when the copy is complete; what others write to the source during the copy is lost. Consolidated metadata of
    groups above the source or the target are left as they are, as by every change of members: consolidate them again.

    Parameters
    ----------
    source, target, path, overwrite, progress
        As for `copy`. After a rename `progress` has not been called.

    Returns
    -------
    CopyReport

    Raises
    ------
    NotFoundError, AlreadyExistsError, MetadataError
        As for `copy`; also if the source is a column of a bcolz table.
    ReadOnlyError
        If the source can't be written.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="u1")
    >>> report = tegula.move(x, g, path="old/x")
    >>> sorted(g), "x" in g["old"]
    (['old'], True)
    """
    with _source(source, read_only=False) as (store, old):
        _found(store, old)
        with _target(target, path) as (new_store, new):
            report = move_node(store, old, new_store, new, overwrite=overwrite, progress=progress)
        _remove_place(store, source, old)
    return report


def move_node(
    store: Store,
    old: str,
    new_store: Store,
    new: str,
    *,
    overwrite: bool = False,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Move what is stored at a path of a store to a path of another, or of the same; see `move`."""
    if store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=store.url)
    _refuse_column(store, old)
    _prepare(store, old, new_store, new, overwrite)
    if store.move_prefix(_prefix(old), new_store, _prefix(new)):
        return CopyReport(renamed=True)
    report = _copied(store, old, new_store, new, progress)
    new_store.flush()  # or what is deleted next would be the only copy
    delete_node(store, old)
    return report


def delete(target: Any, *, path: str = "") -> None:
    """Delete an array, a table, or a group with everything below it.

    Members go before the group that they are in, and the documents of an array before its chunks: what is left if that
    is interrupted can be deleted once more, and no array is left that has lost some of its chunks. A node whose
    documents can't be read is deleted, too.

    Parameters
    ----------
    target : str, path, mapping, Store, Array, Group or Table
        What to delete.
    path : str
        Path below the target.

    Raises
    ------
    NotFoundError
        If there is nothing.
    MetadataError
        If it is a column of a bcolz table; see `Table.remove_column`.
    ReadOnlyError, StoreError
        If it can't be deleted.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="u1")
    >>> tegula.delete(g, path="x")
    >>> list(g)
    []
    """
    with _source(target, path, read_only=False) as (store, old):
        with suppress(MetadataError):  # it is there, though not readable
            _found(store, old)
        _refuse_column(store, old)
        delete_node(store, old)
        _remove_place(store, target, old)


# --- places


def _place_of(target: Any, path: str) -> tuple[Store, str] | None:
    """Return store and path of a node, and a path below it; ``None`` if `target` is none."""
    if not isinstance(target, Node):
        return None
    return target.store, "/".join(part for part in (target.path, clean(path)) if part)


@contextmanager
def _source(source: Any, path: str = "", *, read_only: bool) -> Iterator[tuple[Store, str]]:
    """Open the store of a source, and let go of it at the end if it was opened here."""
    if (known := _place_of(source, path)) is not None:
        if not read_only:
            source._check_writable()
        engine.wait_for(source.store)
        yield known
        return
    local = local_path(source)
    if local is not None and is_missing(local):
        raise NotFoundError("there is no array or group", path=local)
    store = store_of(source, read_only=read_only)
    try:
        yield store, clean(path)
    finally:
        abandon(store, source)


@contextmanager
def _target(target: Any, path: str) -> Iterator[tuple[Store, str]]:
    """Open the store of a target; what is pending is in it at the end."""
    if (known := _place_of(target, path)) is not None:
        target._check_writable()
        yield known
        return
    local = local_path(target)
    fresh = local is not None and is_missing(local)
    try:
        with creating(target) as store:
            yield store, clean(path)
    except BaseException:
        if fresh and local is not None:
            with suppress(OSError):
                os.rmdir(local)
        raise
    if store is not target:
        store.close()


def _found(store: Store, path: str) -> NodeMetadata | None:
    """Return what is stored at a path; ``None`` if there are documents that tegula does not support."""
    try:
        found = engine.read_metadata(store, path) or engine.implicit_group(store, path, None, deep=True)
    except UnsupportedError:
        return None  # its bytes can be copied all the same
    if found is None:
        raise NotFoundError("there is no array or group", path=place(store, path))
    return found


def _refuse_column(store: Store, path: str) -> None:
    """Refuse to take a column out of a table of bcolz, which lists its columns."""
    if isinstance(store, LocalStore) and not path and (name := os.path.basename(store.root)):
        above: Store = LocalStore(os.path.dirname(store.root), read_only=True)
        parent = ""
    else:
        above, (parent, _, name) = store, path.rpartition("/")
    if not name:
        return
    table = None
    with suppress(TegulaError):
        table = engine.read_metadata(above, parent, "bcolz")
    if isinstance(table, GroupMetadata) and name in (table.members or ()):
        column = place(store, path)
        raise MetadataError(f"{column} is a column of a table; use Table.remove_column", path=place(above, parent))


def _remove_place(store: Store, source: Any, path: str) -> None:
    """Remove the directory or archive that a node was in, if it was given by name and is empty."""
    if path or store is source or isinstance(source, Node):
        return
    if isinstance(store, LocalStore):
        with suppress(OSError):
            os.rmdir(store.root)
    abandon(store, source, remove_empty=True)


def _prefix(path: str) -> str:
    return f"{path}/" if path else ""


def _prepare(store: Store, old: str, new_store: Store, new: str, overwrite: bool) -> None:
    """Check that a node can be put there, make room for it, and create the groups above it."""
    if new_store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=new_store.url)
    found = _found(store, old)
    refuse_overlap(store, old, new_store, new)
    is_folder = isinstance(found, GroupMetadata) and not found.documents
    if found is not None and not is_folder:
        item = find_format(found.format)
        _check_name(new_store, new, item.name)
        check_path(new, item)
        if new.rpartition("/")[2] != old.rpartition("/")[2]:  # its own name it may keep, as an older format allowed it
            check_reserved(new, item, new_store)
    if overwrite:
        make_room(new_store, new)
    elif _is_taken(new_store, new):
        raise AlreadyExistsError(
            "there is a node already; pass overwrite=True to replace it", path=place(new_store, new)
        )
    for keys in batches(new_store.list_prefix(_prefix(new))):
        for key in keys:  # files of others, which stay; and what a copy that was killed has left
            if not _counts(store, old, key[len(_prefix(new)) :]):
                continue
            if not overwrite:
                raise AlreadyExistsError(
                    "something is stored there that the copy would take for its own; pass overwrite=True to delete it",
                    path=place(new_store, new),
                    key=key,
                )
            new_store.delete(key)
    if found is not None and not is_folder and item.has_groups:
        create_parents(new_store, new, item)


def _counts(source: Store, old: str, name: str) -> bool:
    """Return whether a key that is there already would be a part of the copy: a chunk of one of its arrays, say."""
    if source.exists(_prefix(old) + name):
        return True
    parts = name.split("/")
    for count in range(len(parts)):
        above = _prefix("/".join([*filter(None, [old]), *parts[:count]]))
        if is_chunk_key("/".join(parts[count:])) and any(source.exists(above + key) for key in _ARRAYS):
            return True
    return False


def _check_name(store: Store, path: str, format: str) -> None:
    """Refuse a name that is one for another format."""
    try:
        new_format(store, path, format, format)
    except MetadataError as error:
        raise MetadataError(
            f"the name is one for another format than {format}; choose another name, or change the format with "
            "tegula.convert",
            path=place(store, path),
        ) from error


def _is_taken(store: Store, path: str) -> bool:
    try:
        return (engine.read_metadata(store, path) or engine.implicit_group(store, path, None)) is not None
    except (MetadataError, UnsupportedError):
        return True


# --- values


def _copied(store: Store, old: str, new_store: Store, new: str, progress: CopyProgress | None) -> CopyReport:
    copier = _Copier(store, _prefix(old), new_store, _prefix(new), progress)
    try:
        copier.tree()
    except AlreadyExistsError:  # another process writes there: what is there may be its own
        raise
    except BaseException:  # Ctrl-C, too
        with suppress(TegulaError):
            copier.undo()
        raise
    if not copier.values:
        raise NotFoundError("the source was deleted during the copy", path=place(store, old))
    return CopyReport(copier.arrays, copier.groups, copier.values, copier.nbytes)


class _Copier:
    """Copies the values below one prefix to another, and counts them."""

    def __init__(self, source: Store, old: str, target: Store, new: str, progress: CopyProgress | None) -> None:
        self.source, self.old = source, old
        self.target, self.new = target, new
        self.progress = progress
        self.arrays = self.groups = self.values = self.nbytes = 0
        self._node = ""
        self._lock = Lock()
        # a listing may not go on while its store is written, unless it is that of a file system
        self._listed_first = target == source and not isinstance(source, LocalStore)

    def tree(self) -> None:
        """Copy everything: of each node first what is below it, its documents last."""
        open_groups: list[tuple[str, Iterator[str], list[str]]] = []

        def enter(prefix: str) -> None:
            self._node = prefix[len(self.old) :].rstrip("/")
            if self._is_array(prefix):
                self._array(prefix)
                return
            keys, children = self.source.list_dir(prefix)
            self._values(key for key in keys if key[len(prefix) :] not in _RANK)
            documents = [key[len(prefix) :] for key in keys if key[len(prefix) :] in _RANK]
            open_groups.append((prefix, iter(children), documents))

        # a stack, since a hierarchy may be deeper than Python lets functions call each other
        enter(self.old)
        while open_groups:
            prefix, children, documents = open_groups[-1]
            child = next(children, None)
            if child is not None:
                enter(child)
                continue
            open_groups.pop()
            self._documents(prefix, documents)

    def _is_array(self, prefix: str) -> bool:
        """Return whether all below a prefix belongs to one array, as far as can be told."""
        try:
            found = engine.read_metadata(self.source, prefix[:-1])
        except (MetadataError, UnsupportedError):
            return True
        self.arrays += isinstance(found, ArrayMetadata)
        self.groups += isinstance(found, GroupMetadata)
        return isinstance(found, ArrayMetadata)

    def _array(self, prefix: str) -> None:
        documents: list[str] = []

        def others() -> Iterator[str]:
            for key in self.source.list_prefix(prefix):
                if key[len(prefix) :] in _RANK:
                    documents.append(key[len(prefix) :])
                else:
                    yield key

        self._values(others())
        self._documents(prefix, documents)

    def _documents(self, prefix: str, names: list[str]) -> None:
        for name in sorted(names, key=_RANK.__getitem__):
            self._value(prefix + name)

    def _values(self, keys: Iterable[str]) -> None:
        source = iter([*keys] if self._listed_first else keys)
        start = perf_counter()
        for key in islice(source, _FIRST):
            self._value(key)
        # moving small values is so quick that threads only wait for each other
        for_each(self._value, source, perf_counter() - start > _QUICK * _FIRST)

    def _value(self, key: str) -> None:
        data = self.source.get(key)
        if data is None:  # deleted since it was listed
            return
        name = self.new + key[len(self.old) :]
        try:
            self.target.set(name, data, if_generation=ABSENT)
        except ConflictError as error:
            raise AlreadyExistsError(
                "something is stored there already, or another process is writing there",
                path=place(self.target, self.new[:-1]),
                key=name,
            ) from error
        with self._lock:  # one report at a time, each with larger numbers than the last
            self.values += 1
            self.nbytes += len(data)
            if self.progress is not None:
                self.progress(self._node, self.values, self.nbytes)

    def undo(self) -> None:
        """Delete what was copied, the documents before the rest."""
        for wanted in (True, False):
            listed = self.source.list_prefix(self.old)
            for key in [*listed] if self._listed_first else listed:
                name = key[len(self.old) :]
                if any(name == last or name.endswith(f"/{last}") for last in _RANK) is wanted:
                    self.target.delete(self.new + name)
