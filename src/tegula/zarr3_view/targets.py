"""The store to show for a target: its own store if it is Zarr v3, otherwise a view of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula import engine
from tegula.arrays.node import Node
from tegula.engine.documents.finding import members_of_folder
from tegula.engine.documents.reading import read_many
from tegula.errors import TegulaError
from tegula.formats import find_format
from tegula.hierarchy.drafts import found_at
from tegula.hierarchy.viewed import store_to_read
from tegula.metadata.nodes import NodeMetadata
from tegula.stores import Store
from tegula.stores.targets.opening import check_options
from tegula.stores.targets.paths import address_of
from tegula.zarr3_view.view import Zarr3View

__all__ = ["shown"]


def shown(target: Any, path: str, read_only: bool, storage_options: Mapping[str, Any] | None) -> tuple[Store, str]:
    """Return a store in which a node is Zarr v3, and the path of the node in it.

    Examples
    --------
    >>> from tegula.hierarchy.creators import create_array
    >>> a = create_array({}, path="t", shape=3, dtype="u1", format="zarr1")
    >>> shown(a, "", True, None)[0].get("zarr.json")[:20]
    b'{\\n  "shape": [\\n    3'
    """
    prefix = ""
    target, path, _ = address_of(target, path)
    if isinstance(target, Node):
        check_options(target, storage_options)
        target, prefix = target.store, target.path
    store = store_to_read(target, read_only=read_only, storage_options=storage_options)
    store, found, metadata = found_at(store, "/".join(part for part in (prefix, path) if part), engine.read_node)
    if metadata is None or (metadata.format == "zarr3" and not _is_mixed(store, found, metadata)):
        return store, found
    own = find_format(metadata.format)
    return Zarr3View(store, found, format=own.name, writable=own.writable and own.has_groups), ""


def _is_mixed(store: Store, path: str, metadata: NodeMetadata) -> bool:
    """Return whether a folder, which is no group of its own, has members that are not Zarr v3."""
    if metadata.documents or not store.listable:
        return False
    members = [member[:-1] for member in members_of_folder(store, f"{path}/" if path else "")]
    nodes = read_many(store, members)
    return any(isinstance(node, TegulaError) or (node is not None and node.format != "zarr3") for node in nodes)
