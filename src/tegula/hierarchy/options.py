"""Return an open node with other options."""

from __future__ import annotations

from typing import Any

from tegula.arrays.array import Array
from tegula.hierarchy.group import Group
from tegula.tables.table import Table

__all__ = ["with_options"]


def with_options(
    node: Array | Group | Table, *, allow_pickle: bool = False, missing_chunks: str | None = None
) -> Array | Group | Table:
    """Return a node with these options as well as its own: the same one, or a copy that does not own the store.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=4, dtype="i4")
    >>> with_options(a, missing_chunks="error").missing_chunks, a.missing_chunks
    ('error', None)
    """
    allow_pickle = allow_pickle or node.allow_pickle
    if missing_chunks is None:
        missing_chunks = node.missing_chunks
    if (allow_pickle, missing_chunks) == (node.allow_pickle, node.missing_chunks):
        return node
    how: dict[str, Any] = {"read_only": node.read_only, "allow_pickle": allow_pickle}
    copy: Array | Group | Table
    if isinstance(node, Array):
        copy = Array(node.stored, node.path, **how)
    elif isinstance(node, Table):
        copy = Table(node.store, node.path, node.metadata, **how)
    else:
        members = node._members
        copy = Group(node.store, node.path, node.metadata, **how, known=members.known, copy=members.copy)
    copy.missing_chunks = missing_chunks
    return copy
