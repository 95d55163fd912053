"""`tegula.copy`, `move` and `delete`: nodes are copied as they are stored, without decoding chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tegula import engine
from tegula.arrays.creation import new_format
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import Node
from tegula.engine.documents.implied_keys import listable
from tegula.engine.nodes.creating import check_path, check_reserved, create_parents
from tegula.engine.nodes.deleting import delete_node, holds_draft, is_chunk_key, is_taken, occupant
from tegula.engine.nodes.paths import is_vacant, refuse_inside_draft
from tegula.engine.nodes.replacing import replacing
from tegula.engine.stored.states import REPLACEMENTS
from tegula.engine.stored.visiting import batches
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.formats import FORMATS, find_format
from tegula.hierarchy.copier import Copier, CopyProgress
from tegula.hierarchy.drafts import place_of, place_to_change
from tegula.hierarchy.viewed import store_to_read
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores import LocalStore, Store
from tegula.stores.capabilities import Renaming, Translating, is_link
from tegula.stores.targets.opening import abandon, check_options, creating, options_of_both
from tegula.stores.targets.paths import (
    address_of,
    clean,
    is_missing,
    local_path,
    location_of,
    refuse_missing,
    refuse_overlap,
)

if TYPE_CHECKING:
    from tegula.arrays.arguments import SourceLike, TargetLike

__all__ = [
    "CopyProgress", "CopyReport", "copy", "copy_node", "delete", "move", "move_node", "prepare", "source_store",
    "target_store",
]  # fmt: skip

_ARRAYS: Final = tuple(key for fmt in FORMATS.values() for key in fmt.node_keys)


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The report of `copy` and `move`.

    Parameters
    ----------
    arrays, groups : int
        Numbers of arrays and groups; a table counts as a group.
    values : int
        Number of stored values: chunks, documents and any other files.
    nbytes : int
        Their size in bytes.
    renamed : bool
        Whether everything was renamed in one step; then nothing is counted.
    units_left : int
        Number of units that other parts of a job still have to do.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="u1", fill_value=1)
    >>> tegula.copy(a, {})
    CopyReport(arrays=1, groups=0, values=1, nbytes=552, renamed=False, units_left=0)
    """

    arrays: int = 0
    groups: int = 0
    values: int = 0
    nbytes: int = 0
    renamed: bool = False
    units_left: int = 0


def copy(
    source: Any,
    target: Any,
    *,
    path: str = "",
    overwrite: bool = False,
    progress: CopyProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    check: Callable[[Store, str], object] = lambda store, path: None,
) -> CopyReport:
    """Copy a node in this process, without a ledger; parameters, result and errors are those of `tegula.copy`.

    `check` refuses a target, before anything is deleted there.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=np.arange(6), y=np.ones(2))
    >>> copy(store, tegula.MemoryStore()).arrays
    2
    """
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    with source_store(source, options=storage_options, read_only=True) as (store, old):
        _read_node(store, old)  # before anything is created for the target
        visited = listable(store, old)
        with target_store(target, path, target_options) as (new_store, new):
            check(new_store, new)
            return copy_node(visited, old, new_store, new, overwrite=overwrite, progress=progress)


def copy_node(
    store: Store,
    old: str,
    new_store: Store,
    new: str,
    *,
    overwrite: bool = False,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Copy the node at a path of a store to a path of another store, or the same; see `copy`."""
    store, old = as_stored(store, old)
    prepare(store, old, new_store, new, overwrite)
    return _replaced(store, old, new_store, new, overwrite, progress)


@known_keywords
def move(
    source: SourceLike,
    target: SourceLike,
    *,
    path: str = "",
    overwrite: bool = False,
    progress: CopyProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
) -> CopyReport:
    """Move an array, a table, or a group with everything below it, as it is stored.

    Within one local file system it is renamed in one step. Elsewhere it is copied as by `copy`, and the source is
    deleted once the copy is complete; anything that other processes write to the source meanwhile is lost. The
    consolidated metadata of groups above the source or the target is not updated: consolidate them again.

    Parameters
    ----------
    source, target, path, overwrite, progress, storage_options, target_storage_options
        As for `copy`. A rename does not call `progress`.

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
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    with source_store(source, options=storage_options, read_only=False) as (store, old):
        _read_node(store, old)
        with target_store(target, path, target_options) as (new_store, new):
            report = move_node(store, old, new_store, new, overwrite=overwrite, progress=progress)
        _remove_empty_store(store, source, old)
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
    """Move the node at a path of a store to a path of another store, or the same; see `move`."""
    if store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=store.url)
    _refuse_column(store, old)
    _refuse_link(store, old)
    prepare(store, old, new_store, new, overwrite)
    try:
        renamed = isinstance(store, Renaming) and _renamed(store, old, new_store, new, overwrite)
    finally:
        engine.forget(store, _prefix(old))
        engine.forget(new_store, _prefix(new))
    if renamed:
        return CopyReport(renamed=True)
    report = _replaced(store, old, new_store, new, overwrite, progress)
    new_store.flush()  # the source is deleted next
    delete_node(store, old)
    return report


@known_keywords
def delete(target: TargetLike, *, path: str = "", storage_options: Mapping[str, Any] | None = None) -> None:
    """Delete an array, a table, or a group with everything below it.

    Members are deleted before their group, and the documents of an array before its chunks. So an
    interruption leaves no array with missing chunks, and the same call deletes the rest. A node whose documents can't
    be read is deleted, too. A folder without a document of its own loses the nodes below it and keeps other files; so
    an interruption there may leave chunks of the array that was being deleted. A symbolic link is deleted, not what it
    leads to; one that is the store itself is refused.

    Parameters
    ----------
    target : str, path, mapping, Store, Array, Group or Table
        The node to delete, or where it is stored.
    path : str
        Path below the target.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Raises
    ------
    NotFoundError
        If there is no node.
    MetadataError
        If it is a column of a bcolz table; see `Table.remove_column`.
    ReadOnlyError, StoreError
        If the store can't be written.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="u1")
    >>> tegula.delete(g, path="x")
    >>> list(g)
    []
    """
    check_options(target, storage_options)
    with source_store(target, path, options=storage_options, read_only=False) as (store, old):
        if not is_link(store, _prefix(old)):  # a link that leads nowhere is deleted, too
            with suppress(MetadataError):  # it exists, though it can't be read
                _read_node(store, old)
        _refuse_column(store, old)
        _refuse_link(store, old)
        delete_node(store, old)
        _remove_empty_store(store, target, old)


def _refuse_link(store: Store, path: str) -> None:
    """Refuse to delete what a symbolic link leads to, when the link is named as the store."""
    if not path and is_link(store, ""):
        raise StoreError(
            f"{store.url} is a symbolic link; delete the link itself with the system's tools, or name"
            " the place it leads to"
        )


# --- sources and targets


def _store_and_path(target: Any, path: str) -> tuple[Store, str] | None:
    """Return the store of a node and a path below the node; ``None`` if `target` is not a node."""
    if not isinstance(target, Node):
        return None
    return target.store, "/".join(part for part in (target.path, clean(path)) if part)


@contextmanager
def source_store(
    source: Any, path: str = "", *, options: Mapping[str, Any] | None, read_only: bool
) -> Iterator[tuple[Store, str]]:
    """Open the store of a source, and close it at the end if it was opened here."""
    if (known := _store_and_path(source, path)) is not None:
        if not read_only:
            source.check_writable()
        engine.wait_for(source.store)
        yield as_stored(*known) if read_only else place_to_change(*known)
        return
    source, path, _ = address_of(source, path)
    if not read_only:
        refuse_missing(source)
    store = store_to_read(source, read_only=read_only, storage_options=options)
    try:
        found = place_of(store, path) if read_only else place_to_change(store, path)
        if found[0] is store:
            refuse_missing(source)
        yield as_stored(*found)
    finally:
        abandon(store, source)


def as_stored(store: Store, path: str) -> tuple[Store, str]:
    """Return a store in which a node can be copied value by value; a node of a draft becomes a hierarchy there."""
    return store.source(path) if isinstance(store, Translating) else (store, path)


@contextmanager
def target_store(target: Any, path: str, options: Mapping[str, Any] | None) -> Iterator[tuple[Store, str]]:
    """Open the store of a target, and write out pending values at the end."""
    if (known := _store_and_path(target, path)) is not None:
        target.check_writable()
        yield known
        return
    target, path, _ = address_of(target, path)
    local = local_path(target)
    fresh = local is not None and is_missing(local)
    try:
        with creating(target, options) as store:
            yield store, path
    except BaseException:
        if fresh and local is not None:
            with suppress(OSError):
                os.rmdir(local)
        raise
    if store is not target:
        store.close()


def _read_node(store: Store, path: str) -> NodeMetadata | None:
    """Read the metadata of the node at a path, which must exist; return ``None`` if it is not supported."""
    try:
        node = engine.read_node(store, path)
    except UnsupportedError:
        return None  # its bytes can still be copied
    if node is None:
        raise NotFoundError("there is no array or group", path=location_of(store, path))
    return node


def _refuse_column(store: Store, path: str) -> None:
    """Refuse to move or delete a column of a bcolz table, which lists its columns."""
    if store.local_directory is not None and not path and (name := os.path.basename(store.local_directory)):
        above: Store = LocalStore(os.path.dirname(store.local_directory), read_only=True)
        parent = ""
    else:
        above, (parent, _, name) = store, path.rpartition("/")
    if not name:
        return
    table = None
    with suppress(TegulaError):
        table = engine.read_metadata(above, parent, "bcolz")
    if isinstance(table, GroupMetadata) and name in (table.members or ()):
        column = location_of(store, path)
        raise MetadataError(
            f"{column} is a column of a table; use Table.remove_column", path=location_of(above, parent)
        )


def _remove_empty_store(store: Store, source: Any, path: str) -> None:
    """Remove the directory or archive of a deleted node, if it was opened by name and is empty."""
    if path or store is source or isinstance(source, Node):
        return
    if store.local_directory is not None:
        with suppress(OSError):
            os.rmdir(store.local_directory)
    abandon(store, source, remove_empty=True)


def _prefix(path: str) -> str:
    return f"{path}/" if path else ""


def prepare(store: Store, old: str, new_store: Store, new: str, overwrite: bool) -> None:
    """Check that the name is valid, and the target free unless it is overwritten; create the groups above it.

    A node that is to be overwritten stays; without a node, leftovers are deleted.
    """
    if new_store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=new_store.url)

    # the name, which must be valid in the format of the node
    node = _read_node(store, old)
    refuse_overlap(store, old, new_store, new)
    refuse_inside_draft(new_store)
    is_folder = isinstance(node, GroupMetadata) and not node.documents
    if node is not None and not is_folder:
        fmt = find_format(node.format)
        _check_name(new_store, new, fmt.name)
        check_path(new, fmt)
        if new.rpartition("/")[2] != old.rpartition("/")[2]:  # a copy may keep a reserved name of older versions
            check_reserved(new, fmt, new_store)

    # the target, which must be free
    if not overwrite and is_taken(new_store, new):
        raise AlreadyExistsError(
            "something already exists at this path; pass overwrite=True to replace it", path=location_of(new_store, new)
        )
    kept = overwrite and occupant(new_store, new) is not None  # it is replaced when the copy is complete
    for keys in () if kept else batches(new_store.list_prefix(_prefix(new))):
        for key in keys:  # other files, which stay, and leftovers of a copy that was killed
            if not _belongs_to_copy(store, old, key[len(_prefix(new)) :]):
                continue
            if not overwrite:
                raise AlreadyExistsError(
                    "a value at the target would be read as part of the copy; pass overwrite=True to delete it",
                    path=location_of(new_store, new),
                    key=key,
                )
            new_store.delete(key)

    # the groups above it
    if node is not None and not is_folder and fmt.has_groups:
        create_parents(new_store, new, fmt)


def _belongs_to_copy(source: Store, old: str, name: str) -> bool:
    """Return whether an existing key at the target would be read as part of the copy, such as a chunk."""
    if source.exists(_prefix(old) + name):
        return True
    parts = name.split("/")
    for count in range(len(parts)):
        above = _prefix("/".join([*filter(None, [old]), *parts[:count]]))
        if is_chunk_key("/".join(parts[count:])) and any(source.exists(above + key) for key in _ARRAYS):
            return True
        # a hierarchy of a draft is shown with all that its two trees hold
        if parts[count : count + 2] in (["meta", "root"], ["data", "root"]) and holds_draft(source, above.rstrip("/")):
            return True
    return False


def _check_name(store: Store, path: str, format: str) -> None:
    """Refuse a name whose suffix implies another format."""
    try:
        new_format(store, path, format, format)
    except MetadataError as error:
        raise MetadataError(
            f"the suffix of the name implies another format than {format}; choose another name, or change the format "
            "with tegula.convert",
            path=location_of(store, path),
        ) from error


def _renamed(store: Renaming, old: str, new_store: Store, new: str, overwrite: bool) -> bool:
    """Rename a node and return whether that was possible; a node that it replaces is put back if not."""
    there = occupant(new_store, new) if overwrite else None
    if there is None:
        return store.move_prefix(_prefix(old), new_store, _prefix(new))
    if there != "node" or not isinstance(new_store, Renaming) or is_link(new_store, _prefix(new)):
        return False
    with new_store.beside(_prefix(new)) as beside:
        if beside is None:
            return False
        try:
            REPLACEMENTS.add(new_store, _prefix(new))
            if not (beside.exchange() and store.move_prefix(_prefix(old), new_store, _prefix(new))):
                return False
        finally:  # by what is stored, since a signal may come between a call and a note of its success
            if is_vacant(new_store, new) and not is_vacant(beside.store, ""):
                beside.exchange()
        with suppress(TegulaError):  # what can't be deleted now is removed by sweeping
            delete_node(beside.store, "")
    return True


def _replaced(
    store: Store, old: str, new_store: Store, new: str, overwrite: bool, progress: CopyProgress | None
) -> CopyReport:
    """Copy a node; a node that it replaces stays until the copy is complete."""
    known = {"reserved": True, "anywhere": True}  # as `prepare` has checked
    with replacing(new_store, new, find_format("zarr3"), overwrite, "lazy", **known) as replacement:
        return _copied(store, old, replacement.store, replacement.path, progress)


def _copied(store: Store, old: str, new_store: Store, new: str, progress: CopyProgress | None) -> CopyReport:
    copier = Copier(store, _prefix(old), new_store, _prefix(new), progress)
    try:
        copier.tree()
    except AlreadyExistsError:  # another process writes there, and may own the values
        raise
    except BaseException:  # Ctrl-C, too
        with suppress(TegulaError):
            copier.undo()
        raise
    finally:
        engine.forget(new_store, _prefix(new))
    if not copier.values:
        raise NotFoundError("the source was deleted during the copy", path=location_of(store, old))
    return CopyReport(copier.arrays, copier.groups, copier.values, copier.nbytes)
