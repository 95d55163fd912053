"""``tegula info``, ``tree`` and ``ls``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import typer

from tegula.arrays.array import Array
from tegula.cli.files import on_terminal
from tegula.cli.reporting import AsJson, Colour, Colours, print_json, print_message, print_text
from tegula.cli.targets import Node, StorageOptions, Target, open_target, split_target
from tegula.cli.unfinished import warn_of_jobs
from tegula.display.contents import (
    add_dimensions,
    array_text,
    coordinates_of,
    dimensions_text,
    ends,
    format_of,
    is_plain_directory,
    kind_of,
    units_of,
)
from tegula.display.info import Info, group_info
from tegula.display.layout import columns
from tegula.display.markup import printable
from tegula.display.tree import Line, Tree, group_tree
from tegula.errors import TegulaError
from tegula.hierarchy.group import Group
from tegula.hierarchy.walking import with_known_members
from tegula.runtime.quantities import counted, human_bytes
from tegula.stores.secrets import redacted
from tegula.tables.table import Table

__all__ = ["info", "ls", "tree"]

_WIDEST_TYPE: Final = 24  # characters of a data type


@contextmanager
def _open(target: str, storage_option: StorageOptions) -> Iterator[Node]:
    """Open the node that a target names; on a web server with the members of its consolidated metadata."""
    # no elements are read: nothing is unpickled
    with open_target(target, "r", storage_option, allow_pickle=True) as node:
        yield with_known_members(node)


def info(
    target: Target, as_json: AsJson = False, colour: Colour = Colours.auto, storage_option: StorageOptions = None
) -> None:
    """Print the metadata and sizes of an array, a table or a group; for a group, with totals of all its members."""
    with _open(target, storage_option) as node:
        jobs = warn_of_jobs(node.store, node.path)
        if as_json:
            print_json({**_facts(node), "jobs": [job.as_dict() for job in jobs]})
        elif isinstance(node, Group):
            sizes: dict[str, int | None] = {}
            totals = _totals_as_text(node, sizes)
            print_text(Info({**group_info(node, sizes), **totals}), colour)
        else:
            print_text(node.info, colour)


@dataclass(slots=True)
class _Totals:
    """Totals of all nodes below a group, at any depth.

    Parameters
    ----------
    arrays, tables, groups, unreadable : int
        Number of each; columns of tables do not count as arrays.
    nbytes : int
        Bytes of the elements in memory; arrays and columns with variable-length elements are left out.
    variable : int
        Number of arrays and columns with variable-length elements.
    nbytes_stored : int or None
        Bytes of the stored chunks; ``None`` if the store can't be listed.
    ratio : float or None
        Compression ratio of the arrays with fixed-length elements.
    dimensions : dict of str to list of int
        Lengths of the dimensions by name.
    """

    arrays: int = 0
    tables: int = 0
    groups: int = 0
    unreadable: int = 0
    nbytes: int = 0
    variable: int = 0
    nbytes_stored: int | None = 0
    ratio: float | None = None
    dimensions: dict[str, list[int]] = field(default_factory=dict)


def _totals(group: Group, sizes: dict[str, int | None]) -> _Totals:
    """Add up all nodes below a group, and note the stored bytes of arrays by their path below the group."""
    totals, failed = _Totals(), dict[str, str]()
    total_stored = fixed_length_stored = 0

    def add(array: Array) -> int | None:
        nonlocal total_stored, fixed_length_stored
        size = _stored(array)
        stored = size or 0
        total_stored += stored
        if array.metadata.data_type.variable:
            totals.variable += 1
        else:
            totals.nbytes += array.nbytes
            fixed_length_stored += stored
        add_dimensions(totals.dimensions, array)
        return size

    for path, node in group.walk(failed):
        if isinstance(node, Array):
            totals.arrays += 1
            sizes[path] = add(node)
        elif isinstance(node, Table):
            totals.tables += 1
            for name in node.names:
                sizes[f"{path}/{name}"] = add(node[name])
        else:
            totals.groups += 1
    totals.unreadable = len(failed)
    totals.nbytes_stored = total_stored if group.store.listable else None
    totals.ratio = totals.nbytes / fixed_length_stored if fixed_length_stored else None
    return totals


def _stored(node: Array | Table) -> int | None:
    """Return the bytes of the stored chunks; ``None`` if that takes a request for each chunk."""
    return node.nbytes_stored() if node.store.listable else None


def _totals_as_text(group: Group, sizes: dict[str, int | None]) -> dict[str, str]:
    totals = _totals(group, sizes)
    numbers = [
        counted(number, kind)
        for number, kind in ((totals.arrays, "array"), (totals.tables, "table"), (totals.groups, "group"))
        if number
    ]
    unknown = f", and {counted(totals.variable, 'array')} of unknown size" if totals.variable else ""
    ratio = "" if totals.ratio is None else f", ratio {totals.ratio:.1f}"
    facts = {"In all": ", ".join(numbers) or "empty"}
    if totals.unreadable:
        facts["In all"] += f", {totals.unreadable} unreadable"
    if totals.dimensions and not is_plain_directory(group):
        facts["Dimensions"] = dimensions_text(totals.dimensions)
    size = totals.nbytes_stored
    return {
        **facts,
        "Size in memory": human_bytes(totals.nbytes) + unknown,
        "Size stored": "unknown: the store can't be listed" if size is None else human_bytes(size) + ratio,
    }


def _facts(node: Node) -> dict[str, Any]:
    if isinstance(node, Array):
        return _array_facts(node)
    return _group_facts(node) if isinstance(node, Group) else _table_facts(node)


def _array_facts(array: Array) -> dict[str, Any]:
    codecs = [{"name": codec.name, "configuration": codec.configuration} for codec in array.metadata.codecs]
    return {
        "kind": "array",
        "format": array.format,
        "store": array.store.url,
        "path": array.path,
        "shape": array.shape,
        "dtype": str(array.metadata.data_type),
        "chunks": array.chunks,
        "shards": array.shards,
        "codecs": codecs,
        "fill_value": array.metadata.fill_value,
        "read_only": array.read_only,
        "dimension_names": array.dimension_names,
        "nbytes": None if array.metadata.data_type.variable else array.nbytes,
        "nbytes_stored": _stored(array),
        "nchunks": array.nchunks,
        "nchunks_stored": array.nchunks_initialized() if array.store.listable else None,
        "attributes": array.attrs.asdict(),
    }


def _group_facts(group: Group) -> dict[str, Any]:
    unreadable: dict[str, str] = {}
    members = [*group.members(unreadable)]
    arrays = {name: node for name, node in members if isinstance(node, Array)}
    coordinates = coordinates_of(arrays)
    sizes: dict[str, int | None] = {}
    totals = asdict(_totals(group, sizes))
    return {
        "kind": kind_of(group),
        "format": format_of(group),
        "store": group.store.url,
        "path": group.path,
        "read_only": group.read_only,
        "arrays": [*arrays],
        "variables": [
            {
                **_short_facts(name, array),
                "chunks": array.chunks,
                "is_coordinate": name in coordinates,
                **({"ends": ends(array)} if name in coordinates else {}),
                "nbytes_stored": sizes.get(name),
                "attributes": array.attrs.asdict(),
            }
            for name, array in arrays.items()
        ],
        "groups": [name for name, node in members if isinstance(node, Group)],
        "tables": [name for name, node in members if isinstance(node, Table)],
        "unreadable": unreadable,
        "totals": totals,
        "attributes": group.attrs.asdict(),
    }


def _table_facts(table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "format": table.format,
        "store": table.store.url,
        "path": table.path,
        "read_only": table.read_only,
        "rows": len(table),
        "columns": [_short_facts(name, table[name]) for name in table.names],
        "nbytes": None if table.dtype.hasobject else table.nbytes,
        "nbytes_stored": table.nbytes_stored(),
        "attributes": table.attrs.asdict(),
    }


def tree(
    target: Target,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=0, show_default=False, help="The number of levels to show.")
    ] = None,
    as_json: AsJson = False,
    colour: Colour = Colours.auto,
    storage_option: StorageOptions = None,
) -> None:
    """Draw the tree of a group and all its members, or of a table and its columns."""
    with _open(target, storage_option) as node:
        jobs = warn_of_jobs(node.store, node.path)
        if as_json:
            print_json({**_branch(node.name, node, depth), "jobs": [job.as_dict() for job in jobs]})
        elif not isinstance(node, Array):
            print_text(group_tree(node, depth), colour)
        else:
            print_text(Tree([Line(0, f"/{node.path}", array_text(node))]), colour)


def _branch(name: str, root: Node, depth: int | None) -> dict[str, Any]:
    branch = _short_facts(name, root)
    pending: list[tuple[dict[str, Any], Node, int | None]] = [(branch, root, depth)]
    while pending:
        facts, node, levels = pending.pop()
        if isinstance(node, Array) or levels == 0:
            continue
        below = None if levels is None else levels - 1
        members = facts["members"] = []
        for inner in _names(node):
            try:
                member = node[inner]
            except TegulaError as error:
                members.append({"name": inner, "unreadable": error.message})
                continue
            members.append(_short_facts(inner, member))
            if not isinstance(member, Array):
                pending.append((members[-1], member, below))
    return branch


def _names(node: Group | Table) -> list[str]:
    return [*(node if isinstance(node, Group) else node.names)]


def _short_facts(name: str, node: Node) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, "kind": kind_of(node), "format": format_of(node)}
    if not isinstance(node, Group):
        facts["shape"] = node.shape
    if isinstance(node, Array):
        facts["dtype"] = str(node.metadata.data_type)
        if node.dimension_names is not None:
            facts["dimension_names"] = node.dimension_names
        if units := units_of(node):
            facts["units"] = units
    return facts


def ls(
    target: Target,
    recursive: Annotated[bool, typer.Option("-r", "--recursive", help="List members at all levels.")] = False,
    long: Annotated[
        bool,
        typer.Option("-l", "--long", help="Print kind, format, shape, data type and bytes stored."),
    ] = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """List the names of a group's members, or of a table's columns."""
    failed = False
    listed: list[dict[str, Any]] = []
    with _open(target, storage_option) as node:
        if not isinstance(node, Array) and not (recursive or long or as_json):
            for name in _names(node):
                _print_name(name)
            return
        # an array is listed by itself
        members: Iterable[tuple[str, Node | TegulaError]] = [(split_target(target)[1] or redacted(target), node)]
        if not isinstance(node, Array):
            members = _members(node, recursive)
        # gather all facts before printing, since they determine the widths of the columns
        for name, member in members:
            if isinstance(member, TegulaError):
                failed = True
                print_message("error", f"{name}: {member}")
                continue
            listed.append(_short_facts(name, member))
            if long:
                listed[-1]["nbytes_stored"] = None if isinstance(member, Group) else _stored(member)
    _print_listing(listed, long, as_json)
    if failed:
        raise typer.Exit(1)


def _members(group: Group | Table, recursive: bool) -> Iterator[tuple[str, Node | TegulaError]]:
    """Yield the name of each member, and the node or the error from opening it."""
    stack = [("", group, iter(_names(group)))]
    while stack:
        above, parent, names = stack[-1]
        name = next(names, None)
        if name is None:
            stack.pop()
            continue
        try:
            node: Node = parent[name]
        except TegulaError as error:
            yield above + name, error
            continue
        yield above + name, node
        if recursive and not isinstance(node, Array):
            stack.append((f"{above}{name}/", node, iter(_names(node))))


def _print_name(name: str) -> None:
    """Print a name as it is; on a terminal, escape characters that could control the terminal."""
    typer.echo(printable(name) if on_terminal() else name, color=True)


def _print_listing(listed: list[dict[str, Any]], long: bool, as_json: bool) -> None:
    if as_json:
        print_json(listed)
        return
    if not listed:
        return
    if not long:
        for facts in listed:
            _print_name(facts["name"])
        return
    rows = [["kind", "format", "shape", "data type", "stored", "name"]]
    for facts in listed:
        stored = facts["nbytes_stored"]
        size = "-" if stored is None else human_bytes(stored)
        shape, dtype = str(facts.get("shape", "-")), facts.get("dtype", "-")
        dtype = dtype if len(dtype) <= _WIDEST_TYPE else f"{dtype[: _WIDEST_TYPE - 1]}…"
        rows.append([facts["kind"], facts["format"] or "-", shape, dtype, size, facts["name"]])
    typer.echo(columns(rows, right=[4]))
