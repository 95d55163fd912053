"""Targets opened as data stores, which xarray decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from xarray import Variable
from xarray.backends.common import AbstractDataStore

from tegula.arrays.array import Array
from tegula.errors import MetadataError, NotFoundError
from tegula.hierarchy import opening
from tegula.hierarchy.group import Group
from tegula.hierarchy.options import with_options
from tegula.hierarchy.walking import Node
from tegula.stores.targets.opening import check_options
from tegula.xarray.dimensions import check_dims, check_used, dimensions_of
from tegula.xarray.variables import coordinates_of, variable_of

__all__ = ["NodeStore", "Opener", "opener_of"]

_ALONE = "data"
"""The variable of an array at the root of its store; the same for all arrays, so that they can be combined."""


class NodeStore(AbstractDataStore):
    """The arrays and attributes of one group, table or array.

    Parameters
    ----------
    variables : mapping of str to Variable
        The variables, still encoded.
    attributes : mapping
        The attributes of the group.
    close : callable
        Closes the opened store.
    """

    def __init__(
        self, variables: Mapping[str, Variable], attributes: Mapping[str, Any], close: Callable[[], None]
    ) -> None:
        self._variables = variables
        self._attributes = {name: value for name, value in attributes.items() if not name.lower().startswith("_nc")}
        self._close = close

    def get_variables(self) -> Mapping[str, Variable]:
        """Return the variables by name."""
        return self._variables

    def get_attrs(self) -> Mapping[str, Any]:
        """Return the attributes."""
        return self._attributes

    def get_dimensions(self) -> dict[str, int]:
        """Return the length of each dimension."""
        return {
            str(dim): size for variable in self._variables.values() for dim, size in zip(variable.dims, variable.shape)
        }

    def close(self) -> None:
        """Close the store, if it was opened by name."""
        self._close()


@dataclass(frozen=True)
class Opener:
    """How to open targets; the members are the engine's options."""

    dims: Any = None
    consolidated: bool | None = None
    format: str | None = None
    storage_options: Mapping[str, Any] | None = None
    use_zarr_fill_value_as_mask: bool | None = None
    allow_pickle: bool = False
    missing_chunks: str | None = None
    drop_variables: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", check_dims(self.dims))

    def open(self, target: Any, group: str | None = None) -> NodeStore:
        """Open one group, table or array."""
        node = self._node(target, group)
        members = self._listed(node, Group.members) if isinstance(node, Group) else []
        arrays = _arrays_in(node, members)
        check_used(self.dims, arrays)
        return self._store(node, arrays, _closing(node, target))

    def open_all(self, target: Any, group: str | None = None) -> dict[str, NodeStore]:
        """Open a group and all groups and tables below it, by their paths, which begin with a slash."""
        node = self._node(target, group)
        nodes: dict[str, Node] = {"": node}
        arrays: dict[str, dict[str, Array]] = {"": _arrays_in(node)}
        for path, member in self._listed(node, Group.walk) if isinstance(node, Group) else []:
            above, _, name = path.rpartition("/")
            if isinstance(member, Array):
                arrays[above][name] = member
            else:
                nodes[path], arrays[path] = member, _arrays_in(member)
        close = _closing(node, target)
        stores: dict[str, NodeStore] = {}
        for path, node in nodes.items():  # parents first
            parts = path.split("/") if path else []
            parents = ["/" + "/".join(parts[:count]) for count in range(len(parts))]
            lengths: dict[str, int] = {}
            for parent in parents:
                if parent in stores:
                    lengths.update(stores[parent].get_dimensions())
            stores[f"/{path}"] = self._store(node, arrays[path], close, lengths)
        return stores

    # --- nodes and their members

    def _node(self, target: Any, group: str | None) -> Any:
        path = (group or "").strip("/")
        if isinstance(target, Node):
            check_options(target, self.storage_options)
            node: Any = with_options(target, allow_pickle=self.allow_pickle, missing_chunks=self.missing_chunks)
        elif self.consolidated:
            node = opening.open_group(target, format=self.format, **self._options())
        else:
            return opening.open_stored(target, path=path, format=self.format, **self._options())
        if self.consolidated and isinstance(node, Group):
            node = node.with_consolidated(just_opened=True)
        if not path:
            return node
        if isinstance(node, Array):
            raise NotFoundError(f"an array has no members, so no group {path!r:.80}", path=node.path)
        member = node[path]
        if node.owns_store:
            member.owns_store = True
        return member

    def _options(self) -> dict[str, Any]:
        options = {"storage_options": self.storage_options, "allow_pickle": self.allow_pickle}
        return options | {"missing_chunks": self.missing_chunks}

    def _listed(self, group: Group, read: Callable[[Group], Iterator[tuple[str, Any]]]) -> list[tuple[str, Any]]:
        """List members; from consolidated metadata in storage that can't be listed, unless the caller forbids it."""
        if self.consolidated is None and not group.store.listable and group.is_consolidated():
            group = group.with_consolidated()
        return [*read(group)]

    def _store(
        self,
        node: Any,
        arrays: Mapping[str, Array],
        close: Callable[[], None],
        above: Mapping[str, int] | None = None,
    ) -> NodeStore:
        dropped = {self.drop_variables} if isinstance(self.drop_variables, str) else {*(self.drop_variables or ())}
        kept = {name: array for name, array in arrays.items() if name not in dropped}
        try:
            dims = dimensions_of(kept, self.dims, "row" if node.kind == "table" else "", above)
        except MetadataError as error:
            raise error.within(path=node.location) from None
        variables = {
            name: variable_of(array, dims[name], self.use_zarr_fill_value_as_mask) for name, array in kept.items()
        }
        variables |= coordinates_of(kept, dims, {*arrays, *dropped, *(above or ())})
        return NodeStore(variables, {} if isinstance(node, Array) else node.attrs.asdict(), close)


def opener_of(options: Mapping[str, Any]) -> tuple[Opener, dict[str, Any]]:
    """Return the opener for the engine's options, and the options for decoding; both say which variables to drop."""
    own = {field.name for field in fields(Opener)}
    opener = Opener(**{name: value for name, value in options.items() if name in own})
    return opener, {name: value for name, value in options.items() if name not in own or name == "drop_variables"}


def _arrays_in(node: Any, members: Iterable[tuple[str, Any]] = ()) -> dict[str, Array]:
    """Return the arrays of a data set: a single array, the columns of a table, or the member arrays of a group."""
    if isinstance(node, Array):
        return {node.name or _ALONE: node}
    if node.kind == "table":
        return dict(node.open_columns.select())
    return {name: member for name, member in members if isinstance(member, Array)}


def _closing(node: Node, target: Any) -> Callable[[], None]:
    """Return the function that closes a node, which does nothing if the caller opened the node."""
    return _nothing if isinstance(target, Node) else node.close


def _nothing() -> None:
    pass
