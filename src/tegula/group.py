"""Groups: a mapping of names to arrays and groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, Unpack

import numpy as np

from tegula import engine
from tegula.arrays import Array
from tegula.attributes import Attributes
from tegula.chunking import as_shape
from tegula.copying import CopyReport, copy_node, move_node
from tegula.creation import delete_node, new_group
from tegula.engine.documents import members_of_folder, nodes_below
from tegula.errors import (
    AlreadyExistsError,
    ConflictError,
    MetadataError,
    NotFoundError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.filling import CREATION, ArrayOptions, new_array_with
from tegula.formats import find_format
from tegula.formats.consolidated import Consolidated
from tegula.info import Info, group_info
from tegula.keywords import check_keywords
from tegula.metadata.data_types import DataType, as_data_type, packed
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.node import Node
from tegula.notebook import group_html
from tegula.stores import Store
from tegula.stores.interface import is_key
from tegula.table import Table
from tegula.tree import Tree, group_tree
from tegula.values import as_data

__all__ = ["Group", "open_node"]

Documents = Mapping[str, Mapping[str, bytes]]
_KEYWORDS = CREATION | {"shape", "dtype", "data", "format", "overwrite", "allow_pickle"}


def open_node(
    store: Store, path: str, format: str | None = None, *, read_only: bool, allow_pickle: bool = False
) -> Array | Group | Table | None:
    """Open what is stored at a path, an implicit group where only members are; ``None`` if there is nothing."""
    metadata = engine.read_metadata(store, path, format)
    if metadata is None:
        metadata = engine.implicit_group(store, path, format, deep=True)
    return None if metadata is None else _node(store, path, metadata, read_only, allow_pickle)


def _node(
    store: Store,
    path: str,
    metadata: NodeMetadata,
    read_only: bool,
    allow_pickle: bool,
    document: str | None = None,
) -> Array | Group | Table:
    if isinstance(metadata, GroupMetadata):
        if metadata.members is not None:
            return Table(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
        return Group(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
    stored = engine.stored_array(store, path, metadata, allow_pickle=allow_pickle, document=document)
    return Array(stored, path, read_only=read_only, allow_pickle=allow_pickle)


class Group(Node, MutableMapping[str, Any]):
    """A mapping of names to the arrays and groups in it; made by `tegula.open` and `tegula.create_group`.

    Names may be paths: ``g["a/b"]``. Iteration goes over the names of the direct members. A prefix without a document
    of its own can be opened by name if there are nodes directly below it (an implicit group), but is not listed in a
    group that has one. An implicit group lists whatever can be opened: nodes of all formats, and implicit groups, of
    bcolz and Zarr v1 also those with nodes further down only.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group(tegula.MemoryStore())
    >>> t = g.create_array("era/temperature", shape=(2, 3), dtype="f4")
    >>> list(g), "era/temperature" in g
    (['era'], True)
    >>> print(g.tree())
    /
    └── era
        └── temperature (2, 3) float32
    """

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: GroupMetadata,
        *,
        read_only: bool,
        allow_pickle: bool = False,
        known: Documents | None = None,
        copy: str | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._read_only = read_only or store.read_only
        self._allow_pickle = allow_pickle
        self._known = known
        self._copy = copy  # the key of the document that `known` was read from

    @property
    def store(self) -> Store:
        """Where the group is stored."""
        return self._store

    @property
    def metadata(self) -> GroupMetadata:
        """All that the group's documents say."""
        return self._metadata

    @property
    def format(self) -> str:
        """Name of the storage format."""
        return self._metadata.format

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping that writes through."""
        return Attributes(self._own_attributes, self._change_attributes)

    def _own_attributes(self) -> Mapping[str, Any]:
        return self._metadata.attributes

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._check_writable()
        if not self._metadata.documents:  # an implicit group becomes one with a document
            item = find_format(self.format)
            if not item.has_groups:
                raise UnsupportedError(f"{self.format} has no groups, so no attributes for them", path=self._place)
            with suppress(AlreadyExistsError):  # somebody else has made it one
                engine.create_documents(
                    self._store, self._path, item, replace(self._metadata, attributes={}), overwrite=False
                )
        self._metadata = engine.update_documents(
            self._store,
            self._path,
            self._metadata,
            lambda metadata: replace(metadata, attributes=change(dict(metadata.attributes))),
        )

    # --- members

    def _full(self, name: str) -> str:
        if not isinstance(name, str):
            raise NotFoundError(f"a member's name must be text, not {name!r:.80}", path=self._place)
        inner = name.strip("/")
        if not is_key(inner):
            raise NotFoundError(f"{name!r} can't be the name of a member", path=self._place)
        return f"{self._path}/{inner}" if self._path else inner

    def __getitem__(self, name: str) -> Any:
        node = self._open(self._full(name))
        if node is None:
            raise NotFoundError(f"there is no member {name!r}", path=self._place)
        return node

    def _open(self, path: str) -> Array | Group | Table | None:
        if self._known is None:
            return open_node(self._store, path, None, read_only=self._read_only, allow_pickle=self._allow_pickle)
        metadata = find_format(self.format).parse(self._known.get(path, {}))
        if metadata is None:
            return None
        node = _node(self._store, path, metadata, self._read_only, self._allow_pickle, self._copy)
        if isinstance(node, Group):
            node._known, node._copy = self._known, self._copy
        return node

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.strip("/"):
            return False
        try:
            path = self._full(name)
        except NotFoundError:
            return False
        if self._known is not None:
            return path in self._known
        try:
            return (
                engine.read_metadata(self._store, path) or engine.implicit_group(self._store, path, None, deep=True)
            ) is not None
        except (MetadataError, UnsupportedError):
            return True  # it is there, and can be deleted, though not opened
        except StoreError as error:
            if error.__cause__ is None or isinstance(error.__cause__, NotADirectoryError):
                return False  # a key the store has no place for, or the name of a document
            raise

    def __iter__(self) -> Iterator[str]:
        prefix = f"{self._path}/" if self._path else ""
        if self._known is not None:
            below = (path[len(prefix) :] for path in self._known if path.startswith(prefix) and path != self._path)
            yield from sorted(name for name in below if name and "/" not in name)
            return
        if self._is_folder:
            children = members_of_folder(self._store, prefix)
        else:
            children = nodes_below(self._store, prefix, find_format(self.format))
        yield from (child[len(prefix) : -1] for child in children)

    @property
    def _is_folder(self) -> bool:
        """Whether the group has no document, and so may have members of any format."""
        return not self._metadata.documents

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # an empty group is something

    def __setitem__(self, name: str, values: Any) -> None:
        if isinstance(values, Mapping):
            raise MetadataError("a group can't be assigned; use convert to copy one", path=self._place)
        if name in self:
            raise AlreadyExistsError(
                f"there is a member {name!r}; delete it first, or assign to its elements", path=self._place
            )
        self.create_array(name, data=as_data(values) if values is None else values)

    def __delitem__(self, name: str) -> None:
        self._check_writable()
        if name not in self:
            raise NotFoundError(f"there is no member {name!r}", path=self._place)
        delete_node(self._store, self._full(name))

    def members(self, unreadable: dict[str, str] | None = None, *, implicit: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield name and node of each direct member.

        Parameters
        ----------
        unreadable : dict, optional
            Takes name and reason of the members that can't be opened; without it each of them is a warning, or an error
            if the store has failed.
        implicit : bool
            Include implicit groups, and nodes of another format than the group's.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> [(name, node.shape) for name, node in g.members()]
        [('x', (3,))]
        """
        for name in self._prefixes() if implicit else self:
            try:
                node = self._open(self._full(name))
            except TegulaError as error:
                if unreadable is None and isinstance(error, StoreError) and error.__cause__ is not None:
                    raise  # the member may be sound, and whoever takes this for the whole would lose it
                if unreadable is None:
                    warnings.warn(f"the member {name!r} is left out: {error}", stacklevel=2)
                else:
                    unreadable[name] = str(error)
                continue
            if node is not None:
                yield name, node

    def _prefixes(self) -> Iterator[str]:
        """Yield the names of all prefixes directly below, whatever they are."""
        prefix = f"{self._path}/" if self._path else ""
        return (child[len(prefix) : -1] for child in self._store.list_dir(prefix)[1])

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield name and array of each direct member that is an array; a warning names those that can't be opened."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield name and group of each direct member that is a group; a warning names those that can't be opened."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, Group))

    def walk(self, unreadable: dict[str, str] | None = None, *, implicit: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield path below this group and node of all members, at any depth, parents first.

        Parameters
        ----------
        unreadable, implicit
            As for `members`, with paths for names.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_group("a/b")
        >>> [path for path, node in g.walk()]
        ['a', 'a/b']
        """
        # a stack, since a hierarchy may be deeper than Python lets functions call each other
        open_groups: list[tuple[str, Iterator[tuple[str, Any]], dict[str, str] | None]] = []

        def enter(path: str, group: Group) -> None:
            failed: dict[str, str] | None = None if unreadable is None else {}
            open_groups.append((path, group.members(failed, implicit=implicit), failed))

        enter("", self)
        while open_groups:
            above, members, failed = open_groups[-1]
            name, node = next(members, ("", None))
            if unreadable is not None and failed:
                unreadable.update({above + lost: reason for lost, reason in failed.items()})
                failed.clear()
            if node is None:
                open_groups.pop()
                continue
            yield above + name, node
            if isinstance(node, Group):
                enter(f"{above}{name}/", node)

    # --- creating

    def create_array(
        self, name: str, *, shape: Any = None, dtype: Any = None, data: Any = None, **options: Unpack[ArrayOptions]
    ) -> Array:
        """Create an array in the group; parameters and errors are those of `tegula.create_array`.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.create_array("x", shape=3, dtype="u1").path
        'x'
        """
        self._check_writable()
        check_keywords("create_array", options, _KEYWORDS)
        given: dict[str, Any] = {"format": self.format, **options}
        return new_array_with(self._store, self._full(name), data, shape=shape, dtype=dtype, **given)

    def create_group(self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False) -> Group:
        """Create a group in the group; raises `AlreadyExistsError` if there is a member of that name."""
        self._check_writable()
        path = self._full(name)
        metadata = new_group(self._store, path, attributes=attributes, format=self.format, overwrite=overwrite)
        return Group(self._store, path, metadata, read_only=False, allow_pickle=self._allow_pickle)

    def require_array(
        self, name: str, *, shape: Any, dtype: Any, exact: bool = False, **options: Unpack[ArrayOptions]
    ) -> Array:
        """Return the member of that name, which must be an array of that shape and dtype, or create it.

        Of several that require it at once one creates it, and all get it.

        Parameters
        ----------
        name, shape, dtype, **options
            As for `create_array`.
        exact : bool
            Whether the dtype must be the same; otherwise one will do that holds all values of `dtype`, as in h5py and
            zarr-python: of ``"i4"`` also ``"i8"`` or ``"f8"``.

        Raises
        ------
        AlreadyExistsError
            If the member is a group, or an array of another shape or dtype.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.require_array("x", shape=3, dtype="i8")[:] = 7
        >>> g.require_array("x", shape=3, dtype="i4")[:]
        array([7, 7, 7])
        """
        if name not in self:
            try:
                return self.create_array(name, shape=shape, dtype=dtype, **options)
            except AlreadyExistsError:
                if name not in self:  # or else somebody has just created it
                    raise
        node = self[name]
        fits = _same_type if exact else _holds
        if not isinstance(node, Array) or node.shape != as_shape(shape) or not fits(node, as_data_type(dtype)):
            raise AlreadyExistsError(f"the member {name!r} is another one: {node!r}", path=self._place)
        return node

    def require_group(self, name: str) -> Group:
        """Return the member of that name, which must be a group, or create it.

        Raises
        ------
        AlreadyExistsError
            If the member is an array.
        """
        if name not in self:
            try:
                return self.create_group(name)
            except AlreadyExistsError:
                if name not in self:  # or else somebody has just created it
                    raise
        node = self[name]
        if not isinstance(node, Group):
            raise AlreadyExistsError(f"the member {name!r} is no group: {node!r}", path=self._place)
        return node

    # --- copying and moving

    def copy(
        self, source: str | Node, target: str | Group, name: str | None = None, *, overwrite: bool = False
    ) -> CopyReport:
        """Copy a member with everything below it, as it is stored; see `tegula.copy`.

        Parameters
        ----------
        source : str, Array, Group or Table
            The member, by name, or any node.
        target : str or Group
            The new name; or a group to copy it into.
        name : str, optional
            The name in a group that is the target; by default the one that it has.
        overwrite : bool
            Delete the node that is there, with all below it.

        Raises
        ------
        NotFoundError, AlreadyExistsError, MetadataError
            As `tegula.copy` does.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> report = g.copy("x", "copies/x")
        >>> report = g.copy("x", g["copies"], name="y")
        >>> list(g["copies"])
        ['x', 'y']
        """
        store, old = (source.store, source.path) if isinstance(source, Node) else (self._store, self._full(source))
        if name is not None and not isinstance(target, Group):
            raise MetadataError("a name is for a target that is a group", path=self._place)
        group = target if isinstance(target, Group) else self
        last = old.rpartition("/")[2] if name is None else name
        group._check_writable()
        new = group._full(last if isinstance(target, Group) else target)
        return copy_node(store, old, group._store, new, overwrite=overwrite)

    def move(self, source: str, target: str, *, overwrite: bool = False) -> CopyReport:
        """Give a member another name, in this group or in one below it; see `tegula.move`.

        Parameters
        ----------
        source, target : str
            The old name and the new one, both relative to this group; groups above the new one are created.
        overwrite : bool
            Delete the node that is there, with all below it.

        Raises
        ------
        NotFoundError, AlreadyExistsError, MetadataError
            As `tegula.move` does.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> report = g.move("x", "old/x")
        >>> [path for path, node in g.walk()]
        ['old', 'old/x']
        """
        self._check_writable()
        return move_node(self._store, self._full(source), self._store, self._full(target), overwrite=overwrite)

    # --- the whole

    def tree(self, max_depth: int | None = None) -> Tree:
        """Return a drawing of the hierarchy, shown as text and, in notebooks, as HTML."""
        return group_tree(self, max_depth)

    def consolidate(self) -> None:
        """Write a copy of the metadata of all members into the group (Zarr v2 ``.zmetadata``, v3 inline).

        Readers that trust such copies (`tegula.open_group` with ``consolidated=True`` does) open members without
        reading their documents. A copy is not kept up to date by later changes: call this again after them.

        Examples
        --------
        >>> import tegula
        >>> store = tegula.MemoryStore()
        >>> g = tegula.create_group(store)
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> g.consolidate()
        >>> list(tegula.open_group(store, consolidated=True))
        ['x']
        """
        self._check_writable()
        item = find_format(self.format)
        if item.consolidate is None:
            raise UnsupportedError(f"{self.format} has no consolidated metadata", path=self._place)
        prefix = f"{self._path}/" if self._path else ""
        for attempt in range(10_000):
            before = self._store.get(prefix + item.consolidated_key, with_generation=True)[1]
            current = engine.read_metadata(self._store, self._path, self.format)
            if not isinstance(current, GroupMetadata):
                raise MetadataError("an implicit group has no document to hold the copy", path=self._place)
            # looked for again each time, since it may be a copy with a newer member that has come between
            members = ((path, node.metadata.documents) for path, node in self._fresh().walk())
            new = item.consolidate(current, chain([("", current.documents)], members))
            try:
                self._store.set(prefix + item.consolidated_key, new[item.consolidated_key], if_generation=before)
            except ConflictError:  # an attribute was set meanwhile, say
                engine.back_off(attempt)
                continue
            self._metadata = replace(current, documents={**current.documents, **new}, copies=None)
            return
        raise ConflictError("the metadata kept changing under the copy", path=self._place)

    def _fresh(self) -> Group:
        return Group(self._store, self._path, self._metadata, read_only=True, allow_pickle=self._allow_pickle)

    def _is_consolidated(self) -> bool:
        """Return whether the group holds a copy of its members' metadata that can be read."""
        item = find_format(self.format)
        if item.consolidated is None:
            return False
        if self._metadata.copies is not None:
            return True
        key = item.consolidated_key
        documents = engine.fetch_documents(self._store, self._path, [key])
        try:
            return item.consolidated(documents) is not None
        except TegulaError:
            return False

    def with_consolidated(self) -> Group:
        """Return this group, reading its members' metadata from the consolidated copy, as it is.

        Raises
        ------
        NotFoundError
            If the group has no consolidated metadata.
        """
        item = find_format(self.format)
        documents = engine.fetch_documents(
            self._store, self._path, [item.consolidated_key] if item.consolidated_key else []
        )
        known = self._metadata.copies
        key = item.consolidated_key
        if known is not None and key in documents and documents[key] == self._metadata.documents.get(key):
            return self._knowing(known)  # found in the same bytes when the group was opened
        return self._knowing(item.consolidated(documents) if item.consolidated is not None else None)

    def _just_consolidated(self) -> Group:
        """Do as `with_consolidated` does for a group that has just been opened, which may have found the copy."""
        found = self._metadata.copies
        return self.with_consolidated() if found is None else self._knowing(found)

    def _knowing(self, found: Documents | None) -> Group:
        if found is None:
            raise NotFoundError("the group has no consolidated metadata", path=self._place)
        prefix = f"{self._path}/" if self._path else ""
        if isinstance(found, Consolidated):
            known: Documents = found.below(prefix)
        else:
            known = {prefix + path: nodes for path, nodes in found.items() if path}
        group = Group(
            self._store,
            self._path,
            self._metadata,
            read_only=self._read_only,
            allow_pickle=self._allow_pickle,
            known=known,
            copy=prefix + str(find_format(self.format).consolidated_key),
        )
        group._owns_store = self._owns_store
        return group

    @property
    def info(self) -> Info:
        """A report of the group and its direct members; shown as a table."""
        return group_info(self)

    def _check_writable(self) -> None:
        self._known = None  # a copy of the metadata does not know what is written now
        super()._check_writable()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return (self._store.url, self._path, self._metadata) == (other._store.url, other._path, other._metadata)

    def __hash__(self) -> int:
        return hash((self._store.url, self._path))

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self._read_only, self._allow_pickle, self._known, self._copy)
        return _reopen, (self._store, self._path, self.format, *options)

    def __repr__(self) -> str:
        return f"<tegula.Group {self.format} {self._place!r}>"

    def _repr_html_(self) -> str:
        return group_html(self)


def _reopen(
    store: Store,
    path: str,
    format: str,
    read_only: bool,
    allow_pickle: bool,
    known: Documents | None,
    copy: str | None,
) -> Group:
    metadata = engine.read_metadata(store, path, format) or engine.implicit_group(store, path, format, deep=True)
    if not isinstance(metadata, GroupMetadata):
        raise NotFoundError("there is no such group any more", path=path or store.url)
    return Group(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle, known=known, copy=copy)


def _same_type(array: Array, wanted: DataType) -> bool:
    """Return whether an array has the elements that are wanted, however a format orders and packs their bytes."""
    there = array.metadata.data_type
    native = (packed(item.numpy).newbyteorder("=") for item in (there, wanted))
    return there.variable == wanted.variable and len({*native}) == 1


def _holds(array: Array, wanted: DataType) -> bool:
    """Return whether an array can hold all elements of a type."""
    there = array.metadata.data_type
    same_kind = there.variable == wanted.variable and (there.numpy.names is None) == (wanted.numpy.names is None)
    return _same_type(array, wanted) or (
        same_kind and there.numpy.names is None and np.can_cast(wanted.numpy, there.numpy)
    )
