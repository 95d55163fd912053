"""Walks: the arrays at and below a node that is open or is opened for the walk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from tegula.arrays.array import Array
from tegula.engine import missing_rule
from tegula.engine.concurrency.pool import results_of
from tegula.engine.documents.implied_keys import members_unknown
from tegula.errors import NotFoundError, TegulaError
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open_stored
from tegula.hierarchy.options import with_options
from tegula.hierarchy.sources import Sources
from tegula.stores.targets.opening import check_options
from tegula.stores.targets.paths import clean
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing

__all__ = ["Node", "arrays_below", "nbytes_stored", "node_at", "opened", "with_known_members"]

Node = Array | Group | Table


def with_known_members(node: Node) -> Node:
    """Return a node; for a group in a store that can't be listed, take the members from its consolidated metadata.

    Raises
    ------
    UnsupportedError
        If there is no consolidated metadata.
    """
    if not isinstance(node, Group) or node.store.listable or node.knows_members:
        return node
    try:
        return node.with_consolidated(just_opened=True)
    except NotFoundError as error:
        raise members_unknown(node.store, node.path) from error


def node_at(
    source: Any, mode: Literal["r", "r+"] = "r", *, missing_chunks: Missing | None = None, **options: Any
) -> Node:
    """Return the node to read: the source itself, or what is opened there with `options`, as `tegula.open` does.

    `missing_chunks` says what its chunks that are not stored read as; otherwise the node says it, or the setting.
    """
    if not isinstance(source, Node):
        node: Node = open_stored(source, mode, missing_chunks=missing_chunks, **options)
        return node
    if missing_chunks is None:
        return source
    return with_options(source, missing_chunks=missing_rule(missing_chunks))


@contextmanager
def opened(
    source: Any,
    path: str,
    allow_pickle: bool,
    storage_options: Mapping[str, Any] | None,
    missing_chunks: Missing | None = None,
) -> Iterator[Node]:
    """Open a source, unless it is a node already, and close it at the end; see `with_known_members` and `node_at`."""
    if isinstance(source, Node):
        check_options(source, storage_options)
        below = clean(path)  # the path is relative to the source, where a name that begins with "/" would not be
        source = source[below] if below and not isinstance(source, Array) else source
        yield with_known_members(node_at(source, missing_chunks=missing_chunks))
        return
    where: dict[str, Any] = {"path": path, "allow_pickle": allow_pickle, "storage_options": storage_options}
    with node_at(source, missing_chunks=missing_chunks, **where) as node:
        yield with_known_members(node)


def arrays_below(
    node: Node, failed: dict[str, str], sources: Sources | None = None, **how: bool
) -> Iterator[tuple[str, Array]]:
    """Yield the path and the node of each array at and below a node, columns of tables included.

    `failed` receives the path of each node that can't be opened, and the reason; `sources` the nodes that are visited.
    `how` is passed to `Group.walk`.
    """
    if isinstance(node, Array):
        yield "", node
        return
    lost: dict[str, str] = {}
    for path, member in [("", node)] if isinstance(node, Table) else node.walk(lost, **how):
        if sources is not None:
            sources.see(member)
        if isinstance(member, Array):
            yield path, member
        for name in member.names if isinstance(member, Table) else ():
            inner = f"{path}/{name}".lstrip("/")
            try:
                yield inner, member[name]
            except TegulaError as error:
                failed[inner] = str(error)
    failed.update(lost)
    if sources is not None:
        for path in lost:
            sources.see_path(f"{node.path}/{path}".lstrip("/"))


def nbytes_stored(node: Node) -> int:
    """Return the bytes of the stored chunks of all arrays at and below a node that can be opened and listed."""
    arrays = (array for _, array in arrays_below(node, {}) if array.store.listable)
    return sum(results_of(Array.nbytes_stored, arrays, node.store.concurrency))
