"""The nodes at paths of a store."""

from __future__ import annotations

from functools import partial
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.hierarchy.drafts import found_at
from tegula.hierarchy.group import Group
from tegula.hierarchy.members import node_of, open_as
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.tables.table import Table

__all__ = ["group_at", "open_below", "open_node"]


def open_node(
    store: Store,
    path: str,
    format: str | None = None,
    *,
    read_only: bool,
    allow_pickle: bool = False,
) -> Array | Group | Table | None:
    """Open the node at a path, implicit groups included; return ``None`` if there is none."""
    node: Array | Group | Table | None
    node = open_as(Group, store, path, format, read_only=read_only, allow_pickle=allow_pickle)
    return node


def open_below(store: Store, path: str, above: str, **options: Any) -> Array | Group | Table | None:
    """Open the node at a path below a group, as `open_node` does, also one in a hierarchy of a draft of Zarr v3."""
    node: Array | Group | Table | None = found_at(store, path, partial(open_node, **options), above)[2]
    return node


def group_at(
    store: Store, path: str, metadata: GroupMetadata | None, format: str | None, *, read_only: bool, allow_pickle: bool
) -> Group | Table | None:
    """Return the group or table that `metadata` describes; without it, an implicit group or ``None``."""
    metadata = metadata or engine.implicit_group(store, path, format, deep=True)
    if metadata is None:
        return None
    group: Group | Table = node_of(Group, store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
    return group
