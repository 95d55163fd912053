"""The group: a mapping of names to arrays, groups and tables."""

from __future__ import annotations

import _thread
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, MutableMapping, Sequence, ValuesView
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack
from weakref import ref

from tegula import display, engine
from tegula.arrays.array import Array
from tegula.arrays.attributes import Attributes
from tegula.arrays.chunking import as_shape
from tegula.arrays.creation import new_group
from tegula.arrays.filling import CREATION, ArrayOptions, new_array_with
from tegula.arrays.keywords import check_keywords, known_keywords
from tegula.arrays.node import Node, other_names
from tegula.arrays.values import as_data
from tegula.display import Info, Tree
from tegula.engine.nodes.deleting import delete_node
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    StoreError,
    TegulaError,
    UnsupportedError,
    brief,
)
from tegula.formats import find_format
from tegula.hierarchy.ahead import Ahead, Entry
from tegula.hierarchy.consolidating import (
    below,
    has_consolidated,
    opened_consolidated,
    read_consolidated,
    write_consolidated,
)
from tegula.hierarchy.copying import CopyReport, copy_node, move_node
from tegula.hierarchy.drafts import elsewhere, place_of, place_to_change
from tegula.hierarchy.members import Documents, Items, Keys, Members, Names, Values, readable, walked
from tegula.metadata.data_types import as_data_type, can_hold, same_type
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.runtime.deferred import Later
from tegula.stores import Store
from tegula.stores.arguments import is_key
from tegula.stores.capabilities import Translating
from tegula.stores.targets import nearest
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import DTypeLike, ShapeLike
    from tegula.arrays.foreign_names import GroupAliases
    from tegula.hierarchy import reopening
else:
    reopening = Later("tegula.hierarchy.reopening")
    GroupAliases = other_names(
        "GroupAliases",
        "create_dataset require_dataset array empty zeros ones full create_groups require_groups array_keys "
        "group_keys array_values group_values nmembers visititems visit visitkeys visitvalues basename "
        "info_complete",
    )

__all__ = ["Group", "group_at", "open_below", "open_node"]

M = TypeVar("M", "Array", "Group")
N = TypeVar("N", bound="Array | Group | Table | None")
_KEYWORDS = CREATION | {"shape", "dtype", "data", "format", "overwrite", "allow_pickle"}
_FEW_CHUNKS: Final = 1000  # that `info` counts the bytes of


def open_node(
    store: Store,
    path: str,
    format: str | None = None,
    *,
    read_only: bool,
    allow_pickle: bool = False,
    documents: Mapping[str, bytes] | None = None,
) -> Array | Group | Table | None:
    """Open the node at a path, implicit groups included; return ``None`` if there is none.

    `documents` are those of the node, if they have been read already.
    """
    metadata = engine.read_metadata(store, path, format, documents, kept=True)
    if isinstance(metadata, ArrayMetadata):
        return _node(store, path, metadata, read_only, allow_pickle)
    return group_at(store, path, metadata, format, read_only=read_only, allow_pickle=allow_pickle)


def open_below(store: Store, path: str, above: str, **options: Any) -> Array | Group | Table | None:
    """Open the node at a path below a group, as `open_node` does, also one in a hierarchy of a draft of Zarr v3."""
    failed = None
    try:
        if (node := open_node(store, path, **options)) is not None:
            return node
    except UnsupportedError as error:
        failed = error
    if (found := elsewhere(store, path, failed, above)) is not None:
        return open_node(*found, **{**options, "documents": None})
    if failed is not None:
        raise failed
    return None


def group_at(
    store: Store, path: str, metadata: GroupMetadata | None, format: str | None, *, read_only: bool, allow_pickle: bool
) -> Group | Table | None:
    """Return the group or table that `metadata` describes; without it, an implicit group or ``None``."""
    metadata = metadata or engine.implicit_group(store, path, format, deep=True)
    return None if metadata is None else _group(store, path, metadata, read_only, allow_pickle)


def _group(store: Store, path: str, metadata: GroupMetadata, read_only: bool, allow_pickle: bool) -> Group | Table:
    if metadata.members is not None:
        return Table(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
    return Group(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)


def _node(
    store: Store,
    path: str,
    metadata: NodeMetadata,
    read_only: bool,
    allow_pickle: bool,
    document: str | None = None,
) -> Array | Group | Table:
    if isinstance(metadata, GroupMetadata):
        return _group(store, path, metadata, read_only, allow_pickle)
    stored = engine.stored_array(store, path, metadata, allow_pickle=allow_pickle, document=document)
    return Array(stored, path, read_only=read_only, allow_pickle=allow_pickle)


class Group(Node, MutableMapping[str, Any], GroupAliases):
    """A mapping of names to the arrays and groups in it; made by `tegula.open` and `tegula.create_group`.

    Names may be paths: ``g["a/b"]``. Iteration yields the names of the direct members. An *implicit group* is a prefix
    without a document but with nodes below it. It can be opened by name, but a group that has a document does not list
    it. An implicit group lists all members that can be opened, of any format, implicit groups included.

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

    kind = "group"

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
        self.allow_pickle = allow_pickle
        self._missing_chunks: str | None = None
        self._members = Members(store, path, metadata.format, known, copy)
        self._last_listing: tuple[int, Callable[[], Names | None]] = 0, lambda: None  # its thread and iterator

    @property
    def store(self) -> Store:
        """The store that holds the group."""
        return self._store

    @property
    def metadata(self) -> GroupMetadata:
        """The group's description, as last read or written by this object."""
        return self._metadata

    @property
    def format(self) -> str:
        """Name of the storage format."""
        return self._metadata.format

    @property
    def knows_members(self) -> bool:
        """Whether members are looked up in consolidated metadata.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.consolidate()
        >>> g.knows_members, g.with_consolidated().knows_members
        (False, True)
        """
        return self._members.known is not None

    @property
    def is_folder(self) -> bool:
        """``True`` if the group may have members of any format: it has no document, or its format needs none.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_group({}).is_folder
        False
        """
        return not self._metadata.documents or find_format(self.format).folders_are_groups

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping that writes through."""
        return Attributes(self, self._own_attributes, self._change_attributes)

    def _own_attributes(self) -> Mapping[str, Any]:
        return self._metadata.attributes

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.check_writable()
        if not self._metadata.documents:  # give an implicit group a document
            fmt = find_format(self.format)
            if not fmt.has_groups:
                raise UnsupportedError(
                    f"{self.format} has no groups, so it can't store their attributes", path=self.location
                )
            with suppress(AlreadyExistsError):  # another process has created it
                engine.create_documents(self._store, self._path, fmt, self._metadata, overwrite=False)
        self._metadata = engine.update_documents(
            self._store,
            self._path,
            self._metadata,
            lambda metadata: replace(metadata, attributes=change(dict(metadata.attributes))),
        )

    # --- members

    def __getitem__(self, name: str) -> Any:
        if name == "/":
            root = open_node(self._store, "", read_only=self._read_only, allow_pickle=self.allow_pickle)
            node = self._passed_on(root)
        else:
            node = self._open(self.path_of(name))
        if node is None:
            advice = nearest.member_advice(self._store, self.path_of(name))
            raise NotFoundError(f"there is no member {name!r}{advice}", path=self.location)
        return node

    def get_array(self, name: str) -> Array:
        """Return the array with this name: what ``g[name]`` gives, with a type that type checkers know.

        Raises
        ------
        NotFoundError
            If there is no such member, or it is not an array.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g["x"] = [1, 2]
        >>> g.get_array("x").shape
        (2,)
        """
        return self._member(name, Array)

    def get_group(self, name: str) -> Group:
        """Return the group with this name; see `get_array`."""
        return self._member(name, Group)

    def _member(self, name: str, kind: type[M]) -> M:
        node = self[name]
        if not isinstance(node, kind):
            raise NotFoundError(f"the member {name!r} is not the {kind.kind} that is asked for: {node!r}")
        return node

    def path_of(self, name: str) -> str:
        """Return the path of a member in the store; a name that begins with ``/`` is a path from the store's root.

        Raises
        ------
        NotFoundError
            If no member can have this name.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_group({}, path="era").path_of("t")
        'era/t'
        """
        if not isinstance(name, str):
            raise NotFoundError(f"a member's name must be text, not {brief(name)}", path=self.location)
        inner = name.strip("/")
        if not is_key(inner):
            raise NotFoundError(f"{name!r} can't be the name of a member", path=self.location)
        return f"{self._path}/{inner}" if self._path and not name.startswith("/") else inner

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.strip("/"):
            return name == "/"  # the root of the store
        try:
            path = self.path_of(name)
        except NotFoundError:
            return False
        return self._members.has(path)

    def __iter__(self) -> Iterator[str]:
        names = Names(self._members.names(is_folder=self.is_folder))
        self._last_listing = _thread.get_ident(), ref(names)
        return names

    def keys(self) -> KeysView[str]:
        """Return the names of the direct members as a view that lists them at each use."""
        return Keys(self)

    def items(self) -> ItemsView[str, Any]:
        """Return names and nodes of the direct members as a view that opens them as it goes.

        A member that can't be opened is an object that raises the reason when it is used.
        """
        return Items(self)

    def values(self) -> ValuesView[Any]:
        """Return the nodes of the direct members as a view that opens them as it goes; see `items`."""
        return Values(self)

    def __len__(self) -> int:
        # `list` takes an iterator and then asks for the length: one listing serves both
        thread, listing = self._last_listing
        names = listing() if thread == _thread.get_ident() else None
        number = None if names is None else names.count()
        return sum(1 for _ in self._members.names(is_folder=self.is_folder)) if number is None else number

    def __bool__(self) -> bool:
        return True  # also if it is empty

    def _open(self, path: str, documents: Mapping[str, bytes] | None = None) -> Array | Group | Table | None:
        known, copy = self._members.known_at(path), self._members.copy
        if known is None:
            options = {"read_only": self._read_only, "allow_pickle": self.allow_pickle}
            return self._passed_on(open_below(self._store, path, self._path, documents=documents, **options))
        try:
            metadata = find_format(self.format).parse(known.get(path, {}))
        except TegulaError as error:
            error.key = copy  # the document that it was read from
            error.within(path=f"{self._store.url}/{path}")
            raise
        if metadata is None:
            if (place := self._members.place_in_draft(path)) is None:
                return None
            member = open_node(*place, read_only=True, allow_pickle=self.allow_pickle)
            return self._passed_on(member)
        node = _node(self._store, path, metadata, self._read_only, self.allow_pickle, copy)
        if isinstance(node, Group):
            node._members.known, node._members.copy = known, copy
        return self._passed_on(node)

    def _made(self, path: str, metadata: NodeMetadata) -> Array | Group | Table:
        return self._passed_on(_node(self._store, path, metadata, self._read_only, self.allow_pickle))

    def _passed_on(self, node: N) -> N:
        """Pass on to a member what reads of chunks that are not stored give."""
        if self._missing_chunks is not None and node is not None:
            node.missing_chunks = self._missing_chunks
        return node

    @property
    def missing_chunks(self) -> str | None:
        """What reads of chunks that are not stored give; see `Array.missing_chunks`.

        It can be set, for all members that are opened later.
        """
        return self._missing_chunks

    @missing_chunks.setter
    def missing_chunks(self, value: str | None) -> None:
        self._missing_chunks = engine.missing_rule(value)

    def __setitem__(self, name: str, values: Any) -> None:
        if isinstance(values, Mapping):
            raise MetadataError(
                "a group can't be assigned; copy it with tegula.convert or tegula.copy", path=self.location
            )
        if name in self:
            raise AlreadyExistsError(
                f"the member {name!r} already exists; delete it first, or write to its elements if it is an array",
                path=self.location,
            )
        self.create_array(name, data=as_data(values) if values is None else values)

    def __delitem__(self, name: str) -> None:
        self.check_writable()
        if name not in self:
            raise NotFoundError(f"there is no member {brief(name)}", path=self.location)
        delete_node(*place_to_change(self._store, self.path_of(name), self._path))

    @known_keywords
    def members(
        self, unreadable: dict[str, str] | None = None, *, implicit: bool = False, strict: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield the name and node of each direct member.

        Parameters
        ----------
        unreadable : dict, optional
            Receives the name of each member that can't be opened, and the reason. Without it, each of these members
            is a warning, or an error if the store fails.
        implicit : bool
            Include implicit groups, and nodes of another format than the group's.
        strict : bool
            Raise an error if the store fails, since the member may be sound; without `unreadable`, also if a document
            is not valid.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> [(name, node.shape) for name, node in g.members()]
        [('x', (3,))]
        """
        yield from readable(self.entries(self.ahead(implicit=implicit), implicit=implicit), unreadable, strict)

    @known_keywords
    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield the name and node of each direct member that is an array; warn about members that can't be opened."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, Array))

    @known_keywords
    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield the name and node of each direct member that is a group; warn about members that can't be opened."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, Group))

    @known_keywords
    def walk(
        self, unreadable: dict[str, str] | None = None, *, implicit: bool = False, strict: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield the path below this group and the node of each member at any depth, parents first.

        Parameters
        ----------
        unreadable, implicit, strict
            As for `members`, with paths instead of names.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_group("a/b")
        >>> [path for path, node in g.walk()]
        ['a', 'a/b']
        """
        yield from walked(self, unreadable, implicit=implicit, strict=strict)

    def ahead(self, *, implicit: bool = False) -> Ahead | None:
        """Return an object that looks up many members at once if the store is remote; ``None`` if none is needed.

        Parameters
        ----------
        implicit : bool
            Whether prefixes without documents count as groups.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_group({}).ahead() is None
        True
        """
        return Ahead(implicit=implicit) if self._store.is_remote and self._members.known is None else None

    def entries(self, ahead: Ahead | None = None, *, implicit: bool = False) -> Iterator[Entry]:
        """Yield the name and node of each direct member, or its name and the error from opening it.

        Parameters
        ----------
        ahead : Ahead, optional
            What looks up the members; see `ahead`.
        implicit : bool
            Whether prefixes without documents count as groups.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g["x"] = [1, 2]
        >>> [(name, node.shape) for name, node in g.entries()]
        [('x', (2,))]
        """
        if ahead is not None:
            yield from ahead.members(self)
            return
        names = self._members.prefixes() if implicit and self._store.listable else iter(self)
        for name, documents in self._members.with_documents(names):
            node: Any
            try:
                node = self._open(self.path_of(name), documents)
            except TegulaError as error:
                node = error
            if node is not None:
                yield name, node

    # --- creating

    @known_keywords
    def create_array(
        self,
        name: str,
        *,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        data: Any = None,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """Create an array in the group; parameters and errors are those of `tegula.create_array`.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.create_array("x", shape=3, dtype="u1").path
        'x'
        """
        self.check_writable()
        check_keywords("create_array", options, _KEYWORDS)
        own: dict[str, Any] = {"format": self.format, **options}
        return self._passed_on(new_array_with(self._store, self.path_of(name), data, shape=shape, dtype=dtype, **own))

    @known_keywords
    def create_group(self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False) -> Group:
        """Create a group in the group.

        Raises
        ------
        AlreadyExistsError
            If a member with this name exists and `overwrite` is false.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.create_group("model/a").path
        'model/a'
        """
        self.check_writable()
        path = self.path_of(name)
        metadata = new_group(self._store, path, attributes=attributes, format=self.format, overwrite=overwrite)
        return self._passed_on(Group(self._store, path, metadata, read_only=False, allow_pickle=self.allow_pickle))

    @known_keywords
    def require_array(
        self, name: str, *, shape: ShapeLike, dtype: DTypeLike, exact: bool = False, **options: Unpack[ArrayOptions]
    ) -> Array:
        """Return the array with this name, shape and dtype; create it if it does not exist.

        If several processes require it at once, one of them creates it and all return it.

        Parameters
        ----------
        name, shape, dtype, **options
            As for `create_array`.
        exact : bool
            Require the same dtype. Otherwise any dtype that holds all values of `dtype` will do, as in h5py and
            zarr-python: for ``"i4"`` also ``"i8"`` or ``"f8"``.

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
        check_keywords("require_array", options, _KEYWORDS)
        if name not in self:
            try:
                return self.create_array(name, shape=shape, dtype=dtype, **options)
            except AlreadyExistsError:
                if name not in self:  # otherwise another process has just created it
                    raise
        node = self[name]
        fits = same_type if exact else can_hold
        wanted = as_shape(shape), as_data_type(dtype)
        if not isinstance(node, Array) or node.shape != wanted[0] or not fits(node.metadata.data_type, wanted[1]):
            raise AlreadyExistsError(f"the member {name!r} differs: {node!r}", path=self.location)
        return node

    @known_keywords
    def require_group(self, name: str) -> Group:
        """Return the group with this name; create it if it does not exist.

        Raises
        ------
        AlreadyExistsError
            If the member is an array.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g.require_group("a") == g.require_group("a")
        True
        """
        if name not in self:
            try:
                return self.create_group(name)
            except AlreadyExistsError:
                if name not in self:  # otherwise another process has just created it
                    raise
        node = self[name]
        if not isinstance(node, Group):
            raise AlreadyExistsError(f"the member {name!r} is not a group: {node!r}", path=self.location)
        return node

    # --- copying and moving

    @known_keywords
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
            The name in the target group; by default its current name.
        overwrite : bool
            Delete an existing node, with all its members.

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
        if isinstance(source, Node):
            store, old = source.store, source.path
        else:
            store, old = place_of(self._store, self.path_of(source), self._path)
        if name is not None and not isinstance(target, Group):
            raise MetadataError("name= needs a group as target", path=self.location)
        group = target if isinstance(target, Group) else self
        last = old.rpartition("/")[2] if name is None else name
        group.check_writable()
        new = group.path_of(last if isinstance(target, Group) else target)
        return copy_node(store, old, group._store, new, overwrite=overwrite)

    @known_keywords
    def move(self, source: str, target: str, *, overwrite: bool = False) -> CopyReport:
        """Rename a member, within this group or into one below it; see `tegula.move`.

        Parameters
        ----------
        source, target : str
            The old name and the new one, both relative to this group; groups above the new one are created.
        overwrite : bool
            Delete an existing node, with all its members.

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
        self.check_writable()
        store, old = place_to_change(self._store, self.path_of(source), self._path)
        return move_node(store, old, self._store, self.path_of(target), overwrite=overwrite)

    # --- tree and consolidated metadata

    @known_keywords
    def tree(self, max_depth: int | None = None) -> Tree:
        """Return a drawing of the hierarchy, shown as text and, in notebooks, as HTML."""
        return display.group_tree(self, max_depth)

    def consolidate(self) -> None:
        """Write a copy of the metadata of all members into the group (Zarr v2 ``.zmetadata``, v3 inline).

        Readers that use this copy (`tegula.open_group` with ``consolidated=True``) open members without reading their
        documents. Later changes do not update the copy: consolidate again after them. Hierarchies of drafts of Zarr v3
        are not in the copy; they are found by name, and listed in stores that are not remote. Members that are not
        supported are left out, with a warning.

        Raises
        ------
        MetadataError
            If a document of a member is not valid: a copy without that member would hide it.

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
        self.check_writable()
        plain = Group(self._store, self._path, self._metadata, read_only=True, allow_pickle=self.allow_pickle)
        self._metadata = write_consolidated(
            self._store,
            self._path,
            self.format,
            lambda: (
                (path, node.metadata.documents)
                for path, node in plain.walk(strict=True)
                if not isinstance(node.store, Translating)  # other readers can't read a draft's documents
            ),
        )

    def is_consolidated(self) -> bool:
        """Return whether the group has consolidated metadata that can be read.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_group({}).is_consolidated()
        False
        """
        return has_consolidated(self._store, self._path, self._metadata)

    def with_consolidated(self, *, just_opened: bool = False) -> Group:
        """Return this group with its members taken from the consolidated metadata.

        A group that was just opened may have read them already, and uses that copy with `just_opened`.

        Raises
        ------
        NotFoundError
            If the group has no consolidated metadata.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> g["x"] = [1, 2]
        >>> g.consolidate()
        >>> list(g.with_consolidated())
        ['x']
        """
        documents = opened_consolidated(self._metadata) if just_opened else None
        documents = documents or read_consolidated(self._store, self._path, self._metadata)
        if documents is None:
            raise NotFoundError("the group has no consolidated metadata", path=self.location)
        group = Group(
            self._store,
            self._path,
            self._metadata,
            read_only=self._read_only,
            allow_pickle=self.allow_pickle,
            known=below(documents, self._path),
            copy=f"{self._path}/{find_format(self.format).consolidated_key}".lstrip("/"),
        )
        group.owns_store = self.owns_store
        return self._passed_on(group)

    @property
    def info(self) -> Info:
        """A report on the group and its direct members; shown as a table.

        It has the stored size of an array only where that is quick to count: in stores that are not remote, for at most
        1,000 chunks (or shards). `Array.nbytes_stored` counts any, the program ``tegula info`` all below the group.
        """
        return display.group_info(self, self._nbytes_stored)

    def _nbytes_stored(self, members: Sequence[tuple[str, Node]]) -> dict[str, int]:
        """Return the bytes of the stored chunks of those arrays among members where `info` has them."""
        sizes: dict[str, int] = {}
        if self._store.listable and not self._store.is_remote:
            for name, node in members:
                if isinstance(node, Array) and (node.nshards or node.nchunks) <= _FEW_CHUNKS:
                    with suppress(StoreError):  # the storage may refuse to list
                        sizes[name] = node.nbytes_stored()
        return sizes

    def check_writable(self) -> None:
        """Look members up in the store from now on; for errors see `Node.check_writable`."""
        self._members.known = None  # the copy is out of date once something is written
        super().check_writable()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return (self._store.url, self._path, self._metadata) == (other._store.url, other._path, other._metadata)

    def __hash__(self) -> int:
        return hash((self._store.url, self._path))

    def __reduce__(self) -> tuple[Any, ...]:
        # consolidated metadata is read again, since it may describe very many members
        members = self._members
        owner = None if members.known is None or members.copy is None else members.copy.rpartition("/")[0]
        mark = engine.fingerprint(self._metadata)
        options = self._read_only, self.allow_pickle, self._missing_chunks
        return reopening.unpickled, (Group, self._store, self._path, self.format, mark, *options, owner)

    def __repr__(self) -> str:
        return f"<tegula.Group {self.format} {self.location!r}>"

    def _ipython_key_completions_(self) -> list[str]:
        return [*self]
