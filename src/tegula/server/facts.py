"""Nodes as JSON: listings of members, all facts about one node, and a search of the tree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from math import prod
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.errors import TegulaError, UnsupportedError
from tegula.extracts.values import to_json
from tegula.hierarchy.group import Group
from tegula.metadata.conventions import coordinates_among
from tegula.metadata.nodes import CodecSpec
from tegula.metadata.times import time_units
from tegula.server.content import Content
from tegula.stores.secrets import redacted
from tegula.tables.table import Table
from tegula.zarr3_view.casting import suggested_cast

__all__ = ["entry", "info", "listing", "message", "tree"]

_MOST_MEMBERS: Final = 5000
_MOST_COLUMNS: Final = 1000
_MOST_LENGTHS: Final = 100  # maximum number of chunk lengths listed for an axis with varying chunks
_MOST_COUNTED: Final = 20_000  # maximum number of stored chunks listed to add up their bytes
_MOST_VISITED: Final = 50_000  # nodes in a search
_MOST_SECONDS: Final = 5.0

Json = dict[str, Any]


def message(error: object) -> str:
    """Return the text of an error without secrets, in one line."""
    return redacted(" ".join(str(error).split()))


def entry(name: str, node: Array | Group | Table) -> Json:
    """Return the facts about a member that need no further request.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=(4, 6), chunks=(2, 3), dtype="f8", codecs=["zstd"])
    >>> facts = entry("a", a)
    >>> facts["kind"], facts["shape"], facts["dtype"], facts["nbytes"], facts["cast"]
    ('array', [4, 6], 'float64', 192, 'float32')
    """
    facts: Json = {"name": name, "kind": node.kind, "format": node.format}
    if isinstance(node, Array):
        data_type = node.metadata.data_type
        facts |= {
            "shape": [*node.shape],
            "dtype": str(data_type),
            "chunks": _lengths(node.chunks),
            "shards": None if node.shards is None else _lengths(node.shards),
            "codecs": [_codec(codec) for codec in node.metadata.codecs],
            "dimension_names": None if node.dimension_names is None else [*node.dimension_names],
            "fill_value": to_json(node.fill_value),
            "conventions": _conventions(node),
            "nbytes": None if data_type.variable else node.nbytes,
            "cast": suggested_cast(data_type),
        }
    elif isinstance(node, Table):
        facts |= {"rows": len(node), "columns": [*node.names[:_MOST_COLUMNS]]}
    return facts


def _conventions(array: Array) -> Json | None:
    """Return what the elements stand for; ``None`` if they stand for themselves, without a title or units."""
    conventions = array.conventions
    if conventions.is_plain and not conventions.title and not conventions.units:
        return None
    dates = time_units(array.metadata.attributes) if conventions.stored.kind in "iuf" else None
    return {
        "missing": [to_json(mask) for mask in conventions.masks],
        "scale": 1 if conventions.scale is None else to_json(conventions.scale),
        "offset": 0 if conventions.offset is None else to_json(conventions.offset),
        "read_as": None if conventions.read_as == conventions.stored else conventions.read_as.name,
        "title": conventions.title,
        "units": conventions.units,
        "dates": dates is not None and dates.reference is not None,
    }


def _lengths(chunks: tuple[Any, ...]) -> list[Any]:
    return [[*axis[:_MOST_LENGTHS]] if isinstance(axis, tuple) else axis for axis in chunks]


def _codec(codec: CodecSpec) -> Json:
    return {"name": codec.name, "configuration": to_json(codec.configuration)}


def listing(content: Content, path: str, after: str, limit: int) -> Json:
    """Return a node and a page of its members, in the order of their names.

    Parameters
    ----------
    content : Content
        The served content.
    path : str
        Path of the node.
    after : str
        The last name of the previous page.
    limit : int
        Maximum number of members in the page.

    Raises
    ------
    NotFoundError
        If there is no node.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> g["x"], g["y"] = [1], [2]
    >>> page = listing(Content(g), "", "", 1)
    >>> [member["name"] for member in page["members"]], page["truncated"]
    (['x'], True)
    """
    node = content.open(path)
    facts = {
        "path": path,
        **entry(path.rpartition("/")[2] or node.name, node),
        "attributes": to_json(node.attrs.asdict()),
        "store": message(node.store.url),
        "stored_path": node.path,
    }
    limit = max(1, min(limit, _MOST_MEMBERS))
    names: list[str] = []
    if isinstance(node, Table):
        begin = node.names.index(after) + 1 if after in node.names else 0
        names = [*node.names[begin:]]  # the order of columns matters
    elif isinstance(node, Group):
        try:
            node = content.members(node)
            names = sorted(name for name in node if name > after)
        except UnsupportedError as error:
            facts["error"] = message(error)
    members = [_member(node, name) for name in names[:limit]]
    arrays = {name: member.metadata for name, (member, _) in zip(names, members) if isinstance(member, Array)}
    coordinates = coordinates_among(arrays) if isinstance(node, Group) else ()
    listed = [{**about, "coordinate": True} if about["name"] in coordinates else about for _, about in members]
    return {**facts, "members": listed, "truncated": len(names) > limit}


def _member(node: Any, name: str) -> tuple[Any, Json]:
    """Return a member and its facts; without the member if it can't be read."""
    try:
        member = node[name]
        return member, entry(name, member)
    except TegulaError as error:
        return None, {"name": name, "kind": "unreadable", "error": message(error)}


def info(content: Content, path: str) -> Json:
    """Return all facts about a node; the bytes stored only if few chunks must be listed for that.

    Raises
    ------
    NotFoundError
        If there is no node.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=4, chunks=2, dtype="u1", codecs=[])
    >>> a[:2] = 7
    >>> facts = info(Content(a), "")
    >>> facts["stored_nbytes"], facts["stored_chunks"], facts["nchunks"], facts["ratio"]
    (2, 1, 2, 2.0)
    """
    node = content.open(path)
    facts: Json = {
        "path": path,
        **entry(path.rpartition("/")[2] or node.name, node),
        "attributes": to_json(node.attrs.asdict()),
        "store": message(node.store.url),
    }
    if isinstance(node, Array):
        return facts | content.watch(node).guard(partial(_array_facts, node))
    if isinstance(node, Table):
        columns = [_member(node, name)[1] for name in node.names[:_MOST_COLUMNS]]
        return facts | {"columns": columns, "ncolumns": len(node.names)}
    try:
        facts["nmembers"] = sum(1 for _ in islice(iter(content.members(node)), _MOST_VISITED))
    except UnsupportedError as error:
        facts |= {"nmembers": None, "error": message(error)}
    return facts


def _array_facts(array: Array) -> Json:
    grid = array.metadata.grid.counts(array.shape)
    facts: Json = {
        "nchunks": array.nchunks,
        "nshards": array.nshards,
        "grid": [*(array.cdata_shape if array.nshards is not None else grid)],
        "stored_chunks": None,
        "stored_nbytes": None,
        "ratio": None,
    }
    if not array.store.listable or (array.store.is_remote and prod(grid) > _MOST_COUNTED):
        return facts
    count = size = 0
    until = time.monotonic() + _MOST_SECONDS
    for _, _, nbytes in array.stored.sized_chunks():
        count, size = count + 1, size + nbytes
        if count > _MOST_COUNTED or time.monotonic() > until:
            return facts
    ratio = array.nbytes / size if size and not array.metadata.data_type.variable else None
    return facts | {"stored_chunks": count, "stored_nbytes": size, "ratio": ratio and round(ratio, 3)}


def tree(content: Content, under: str, search: str, limit: int) -> Json:
    """Return the nodes below a path whose path contains all words of a search, parents first.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> a = g.create_array("era/wind", shape=3, dtype="u1")
    >>> [node["path"] for node in tree(Content(g), "", "WIND", 10)["nodes"]]
    ['era/wind']
    """
    limit = max(1, min(limit, _MOST_MEMBERS))
    words = search.casefold().split()
    until = time.monotonic() + _MOST_SECONDS
    matches: list[Json] = []
    visited = 0
    truncated = False
    nodes: Iterator[tuple[str, Any]] = content.below(under)
    for below, node in nodes:
        visited += 1
        if len(matches) >= limit or visited > _MOST_VISITED or time.monotonic() > until:
            truncated = True
            break
        path = f"{under}/{below}".lstrip("/")
        folded = below.casefold()
        if all(word in folded for word in words):
            facts = entry(path.rpartition("/")[2], node)
            shown = ("name", "kind", "format", "shape", "dtype", "dimension_names", "rows")
            matches.append({"path": path, **{name: facts[name] for name in shown if name in facts}})
    return {"under": under, "search": search, "nodes": matches, "visited": visited, "truncated": truncated}
