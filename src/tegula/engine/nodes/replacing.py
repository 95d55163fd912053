"""Replacing nodes: the new node is complete before it takes the place of the old one.

Every function that replaces a node makes the new one where `replacing` says: in a store of its own, or beside the old
node. So the new node may be made from the old one, whatever leads to it: a view, an array of dask or another
library, a reference. Until the new node is complete the old one is not touched, and an error or Ctrl-C leaves it as it
was.

=====================  ====================================================  ======================================
store                  where the new node is made                            how it replaces the old one
=====================  ====================================================  ======================================
local files            in a hidden directory beside it (`Renaming.beside`)   both directories change places in one step
memory, mappings       in memory                                             the old one is deleted, the values copied
zip archives           in a hidden directory beside the archive              the same
any other              in memory if its data are, otherwise inside the       the same; by the storage itself if it is
                       old node, where no member can be                      `Copying`
=====================  ====================================================  ======================================

A job that can be resumed makes its node below its ledger, inside the old node, in every store (`put_in_place`).

Where values are copied, the documents of the new node come last. If another process creates a node at the same time,
one of the two is stored again as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from tegula.engine.concurrency.pool import for_each
from tegula.engine.concurrency.retries import back_off
from tegula.engine.documents.finding import JOB_DIRECTORY
from tegula.engine.documents.forgetting import forget
from tegula.engine.documents.reading import read_metadata
from tegula.engine.nodes.changing import create_documents
from tegula.engine.nodes.deleting import Occupant, clear_place, delete_node, delete_occupant, is_chunk_key, occupant
from tegula.engine.nodes.opening import stored_array
from tegula.engine.nodes.paths import check_path, check_reserved, create_parents, is_vacant
from tegula.engine.reading.remote import delete_keys, delete_prefix
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.states import REPLACEMENTS
from tegula.engine.stored.visiting import batches
from tegula.errors import (
    AlreadyExistsError,
    ConflictError,
    MetadataError,
    NotFoundError,
    TegulaError,
    UnsupportedError,
)
from tegula.formats import FORMATS, Format, find_format
from tegula.runtime.deferred import Later
from tegula.stores import LocalStore, MemoryStore, Store
from tegula.stores.capabilities import Beside, Copying, EmptyDirectories, Renaming
from tegula.stores.local.directories import temporary_directory

if TYPE_CHECKING:
    from tegula.stores.zip import store as zip
else:
    zip = Later("tegula.stores.zip.store")

__all__ = ["Data", "Replacement", "put_in_place", "replacing"]

Data = Literal["none", "memory", "lazy"]
"""What a new node is made from: documents alone, data in memory, or data that are read piece by piece."""
_RETRIES: Final = 100


class Replacement:
    """Where to make a new node that may replace another; `put` then puts it in place.

    Parameters
    ----------
    store, path, fmt
        Where the new node will be, and its format.
    overwrite : bool
        Whether it may replace another.
    data : {"none", "memory", "lazy"}
        What it is made from.
    reserved, anywhere, has_parent : bool
        As for `tegula.engine.nodes.creating.create_node`.
    everything : bool
        Whether everything below the path is replaced, whatever it is; otherwise only nodes and parts of nodes are.
    keep : str
        A prefix inside the old node that stays until the new node is in place, if values are copied.

    Raises
    ------
    MetadataError
        If the path can't be that of a new node.
    StoreError
        If there is no place for the new node.

    Attributes
    ----------
    store, path : Store, str
        Where to make the node. If nothing is there that has to be replaced, this is its final place.
    target, target_path : Store, str
        Its final place.
    options : dict
        The options with which the node, an array or a group, is created there.
    there : {"node", "members", "incomplete"} or None
        What is in its final place and has to be replaced.
    is_vacant : bool
        Whether no key is below its final place.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        fmt: Format,
        overwrite: bool,
        data: Data,
        *,
        reserved: bool = False,
        anywhere: bool = False,
        has_parent: bool = False,
        everything: bool = False,
        keep: str = "",
    ) -> None:
        self.store, self.path = self.target, self.target_path = store, path
        self._fmt, self._has_parent, self._everything, self._keep = fmt, has_parent or anywhere, everything, keep
        self._stack = ExitStack()
        self._beside: Beside | None = None
        self.there: Occupant | None = None
        self.is_vacant = False
        self.options: dict[str, Any] = {"overwrite": overwrite, "reserved": reserved, "has_parent": has_parent}
        if not overwrite:
            return
        if not anywhere:
            check_path(path, fmt)
            if not reserved:
                check_reserved(path, fmt, store)
        self.is_vacant = is_vacant(store, path)
        if self.is_vacant:
            self.options["has_chunks"] = True  # it need not be looked up again
            return
        self.there = "node" if everything else occupant(store, path)
        if self.there is not None and (data != "none" or self.there == "node"):
            if data == "lazy":  # an unsuitable group above is found before the work
                self._make_parents()
            try:
                self._find_room(data)
            except BaseException:
                self._stack.close()
                raise

    @property
    def _prefix(self) -> str:
        return f"{self.target_path}/" if self.target_path else ""

    @property
    def is_staged(self) -> bool:
        """Whether the node is made beside another one that it will replace."""
        return self.store is not self.target or self.path != self.target_path

    def _find_room(self, data: Data) -> None:
        """Choose where the new node is made; documents alone are stored in place if there is no room beside them."""
        store = self.target
        # beside it, in local files
        if isinstance(store, Renaming):
            self._beside = self._stack.enter_context(store.beside(self._prefix))
        if self._beside is not None and (self._beside.in_one_step or data != "none"):
            self._make_in(self._beside.store, "")
            return
        if data == "none":
            self._stack.close()
            return
        # in memory, beside an archive, or under another name
        if data == "memory" or store.in_memory:
            self._make_in(MemoryStore(), "")
        elif store.scratch_directory is not None:
            folder = self._stack.enter_context(temporary_directory(store.scratch_directory))
            self._make_in(LocalStore(os.path.join(folder, "new")), "")
        else:
            # inside the old node, so that the next writer removes what a killed one has left; no node has such a name
            self._make_in(self.target, f"{self._prefix}{JOB_DIRECTORY}-{os.urandom(8).hex()}/new")

    def _make_parents(self) -> None:
        if self._fmt.has_groups and not self._has_parent:
            create_parents(self.target, self.target_path, self._fmt)
            self._has_parent = True

    def _make_in(self, store: Store, path: str) -> None:
        self.store, self.path = store, path
        self.options = {"overwrite": False, "reserved": True, "has_parent": True}

    def opened(self, array: StoredArray, *, allow_pickle: bool = False) -> StoredArray:
        """Return an array that was made here, as it is found at its final place."""
        if not self.is_staged:
            return array
        how: dict[str, Any] = {"allow_pickle": allow_pickle, "write_empty": array.write_empty}
        how["missing_chunks"] = array.missing_chunks
        return stored_array(self.target, self.target_path, array.metadata, **how)

    def put(self) -> None:
        """Put the node, which is complete, in its final place, and delete what was there.

        Raises
        ------
        AlreadyExistsError, MetadataError
            If a group above can't be created, or others keep creating nodes there.
        StoreError
            If the store fails.
        """
        if not self.is_staged:
            return
        self._make_parents()
        REPLACEMENTS.add(self.target, self._prefix)
        try:
            if self.there == "node" and self._beside is not None and self._beside.exchange():
                with suppress(TegulaError):  # what can't be deleted now is removed by sweeping
                    delete_node(self._beside.store, "")  # documents first
            else:
                self._store_again()
        finally:
            forget(self.target, self._prefix)

    def close(self) -> None:
        """Remove the new node, or the old one if the new one has been put in place."""
        if self.store is self.target and self.is_staged:
            with suppress(TegulaError):
                delete_prefix(self.store, self.path.removesuffix("new"))
        self._stack.close()

    def _store_again(self) -> None:
        """Copy the values to the final place: chunks, then documents, and those that make the node last."""
        below = f"{self.path}/" if self.path else ""
        node = None
        with suppress(MetadataError, UnsupportedError):  # a copy of what can't be read
            node = read_metadata(self.store, self.path)
        own = {} if node is None else {**node.documents}
        every = (key[len(below) :] for key in self.store.list_prefix(below))
        keys = [key for key in every if not (self._keep and f"{self._prefix}{key}".startswith(self._keep))]
        nodes = {key: _node_of(key) for key in keys if key not in own}
        members = [key for key, member in nodes.items() if member is not None]
        chunks = [key for key, member in nodes.items() if member is None]
        copy = self._copier(below)
        there = self.there
        for attempt in range(_RETRIES):
            # the place, and the directories
            self._clear(there, {*keys}, {*filter(None, nodes.values()), *([""] if own else [])})
            if self._beside is not None and isinstance(self.target, EmptyDirectories):
                for prefix in self._beside.prefixes():
                    self.target.make_prefix(self._prefix + prefix)
            try:
                for some in (chunks, members):
                    for_each(copy, some, parallel=False, requests=self.target.concurrency)
                if node is not None:
                    fmt = find_format(node.format)
                    create_documents(self.target, self.target_path, fmt, node, False, documents=own)
                return
            except (AlreadyExistsError, ConflictError, NotFoundError):  # others create or delete nodes here
                back_off(attempt)
                occupied = occupant(self.target, self.target_path)
                there = "node" if self._everything else occupied or "incomplete"  # chunks that others have just copied
            except BaseException:  # Ctrl-C, too
                with suppress(TegulaError):
                    if occupant(self.target, self.target_path) != "node":
                        for_each(self._delete, keys, parallel=False, requests=self.target.concurrency)
                raise
        raise AlreadyExistsError(
            "other processes keep creating a node here", path=f"{self.target.url}/{self.target_path}".rstrip("/")
        )

    def _clear(self, there: Occupant | None, keys: Set[str], nodes: Set[str]) -> None:
        """Delete what is at the final path; if that is no node, only what would be read as part of the new one."""
        keep = tuple(filter(None, [self._keep, f"{self.path}/" if self.store is self.target else ""]))
        delete_occupant(self.target, self.target_path, there, keep=keep)
        if there == "node":
            return
        if there == "incomplete":
            for node in sorted(nodes - {""}):  # others stay
                clear_place(self.target, f"{self._prefix}{node}")

        def is_part(name: str) -> bool:
            parts = name.split("/")
            above = (n for n in range(len(parts)) if "/".join(parts[:n]) in nodes)
            return name in keys or any(is_chunk_key("/".join(parts[n:])) for n in above)

        for batch in batches(self.target.list_prefix(self._prefix)):
            removable = (key for key in batch if not (keep and key.startswith(keep)))
            delete_keys(self.target, [key for key in removable if is_part(key[len(self._prefix) :])])

    def _copier(self, below: str) -> Callable[[str], None]:
        source, target = self.store, self.target
        direct = target if isinstance(target, Copying) and target.copies_from(source) else None

        def copy(key: str) -> None:
            if direct is not None:
                direct.copy_from(source, below + key, self._prefix + key)
            elif (value := source.get(below + key)) is not None:
                target.set(self._prefix + key, value)

        return copy

    def _delete(self, key: str) -> None:
        self.target.delete(self._prefix + key)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_stack"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _stack=ExitStack())
        if self._beside is not None:
            self._stack.callback(self._beside.close)


@contextmanager
def replacing(
    store: Store, path: str, fmt: Format, overwrite: bool, data: Data, **options: Any
) -> Iterator[Replacement]:
    """Say where to make a node that may replace another; when the context ends without an error, put it in place.

    The parameters are those of `Replacement`.

    Examples
    --------
    >>> from tegula.formats import find_format
    >>> with replacing(MemoryStore(), "a", find_format("zarr3"), True, "lazy") as place:
    ...     place.path, place.is_staged
    ('a', False)
    """
    replacement = Replacement(store, path, fmt, overwrite, data, **options)
    try:
        yield replacement
        replacement.put()
    finally:
        replacement.close()


def put_in_place(store: Store, path: str, made: str, *, keep: str) -> None:
    """Put a complete node that was made inside the node at a path in the place of that node.

    Parameters
    ----------
    store, path : Store, str
        The final place.
    made : str
        The path below which the new node was made. What is there stays after an error, unless it was moved.
    keep : str
        A prefix, with `made` below it, that stays where values are copied. Where directories change places it is
        deleted with the old node.

    Raises
    ------
    AlreadyExistsError, MetadataError, StoreError
        As for `Replacement.put`.
    """
    node = None
    with suppress(MetadataError, UnsupportedError):  # a copy of what can't be read
        node = read_metadata(store, made)
    fmt, prefix = find_format("zarr3" if node is None else node.format), f"{path}/" if path else ""
    if isinstance(store, Renaming) and is_vacant(store, path) and store.move_prefix(f"{made}/", store, prefix):
        return
    replacement = Replacement(store, path, fmt, False, "lazy", has_parent=node is None, keep=keep)
    replacement.there = occupant(store, path)
    replacement._make_in(store, made)
    with replacement._stack:
        if replacement.there == "node" and isinstance(store, Renaming):
            beside = replacement._stack.enter_context(store.beside(prefix))
            if beside is not None and beside.in_one_step and store.move_prefix(f"{made}/", beside.store, ""):
                replacement._beside = beside
                replacement._make_in(beside.store, "")
        replacement.put()


def _node_of(key: str) -> str | None:
    """Return the path of the node to which the document with a key belongs; ``None`` if the key is no document's.

    Examples
    --------
    >>> _node_of("a/x/meta/sizes"), _node_of("a/x/c/0")
    ('a/x', None)
    """
    names = (name for fmt in FORMATS.values() for name in fmt.keys)
    return next((key[: -len(name)].rstrip("/") for name in names if f"/{key}".endswith(f"/{name}")), None)
