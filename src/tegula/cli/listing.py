"""``tegula info``, ``tree`` and ``ls``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from tegula.array import Array
from tegula.cli.places import Place, opened, split_place
from tegula.cli.reporting import AsJson, columns, print_json, tell
from tegula.errors import TegulaError
from tegula.group import Group
from tegula.info import human_bytes
from tegula.table import Table
from tegula.tree import group_tree

__all__ = ["info", "ls", "tree"]

Node = Array | Group | Table


def info(place: Place, as_json: AsJson = False) -> None:
    """Print the facts of an array, a group or a table."""
    with opened(place, allow_pickle=True) as node:  # nothing is unpickled here
        if as_json:
            print_json(_facts(node))
        else:
            typer.echo(str(node.info))


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
        "dimension_names": array.dimension_names,
        "nbytes": None if array.metadata.data_type.variable else array.nbytes,
        "nbytes_stored": array.nbytes_stored(),
        "nchunks": array.nchunks,
        "nchunks_stored": array.nchunks_initialized(),
        "attributes": array.attrs.asdict(),
    }


def _group_facts(group: Group) -> dict[str, Any]:
    members = [(name, group[name]) for name in group]
    return {
        "kind": "group",
        "format": group.format,
        "store": group.store.url,
        "path": group.path,
        "arrays": [name for name, node in members if isinstance(node, Array)],
        "groups": [name for name, node in members if isinstance(node, Group)],
        "attributes": group.attrs.asdict(),
    }


def _table_facts(table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "format": table.format,
        "store": table.store.url,
        "path": table.path,
        "rows": len(table),
        "columns": [_short_facts(name, table[name]) for name in table.names],
        "nbytes": None if table.dtype.hasobject else table.nbytes,
        "nbytes_stored": table.nbytes_stored(),
        "attributes": table.attrs.asdict(),
    }


def tree(
    place: Place,
    depth: Annotated[int | None, typer.Option(min=0, show_default=False, help="Levels of members to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a group or a table with all that is in it."""
    with opened(place, allow_pickle=True) as node:  # nothing is unpickled here
        if as_json:
            print_json(_branch(node.name, node, depth))
        elif not isinstance(node, Array):
            typer.echo(str(group_tree(node, depth)))
        else:
            typer.echo(f"/{node.path} {node.shape} {node.metadata.data_type}")


def _branch(name: str, node: Node, depth: int | None) -> dict[str, Any]:
    facts = _short_facts(name, node)
    if not isinstance(node, Array) and depth != 0:
        below = None if depth is None else depth - 1
        facts["members"] = [_branch(inner, node[inner], below) for inner in _names(node)]
    return facts


def _names(node: Group | Table) -> list[str]:
    return [*(node if isinstance(node, Group) else node.names)]


def _short_facts(name: str, node: Node) -> dict[str, Any]:
    if isinstance(node, Group):
        return {"name": name, "kind": "group"}
    if isinstance(node, Table):
        return {"name": name, "kind": "table", "shape": node.shape}
    return {"name": name, "kind": "array", "shape": node.shape, "dtype": str(node.metadata.data_type)}


def ls(
    place: Place,
    recursive: Annotated[bool, typer.Option("-r", "--recursive", help="Also what is in groups below.")] = False,
    long: Annotated[bool, typer.Option("-l", "--long", help="With kind, shape, data type and bytes stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the names of a group's members, or of a table's columns."""
    failed = False
    found: list[dict[str, Any]] = []
    with opened(place, allow_pickle=True) as node:  # nothing is unpickled here
        if not isinstance(node, Array) and not (recursive or long or as_json):
            for name in _names(node):
                typer.echo(name)
            return
        members: Iterable[tuple[str, Node | TegulaError]] = [(split_place(place)[1] or place, node)]
        if not isinstance(node, Array):
            members = _members(node, recursive)
        for name, member in members:
            if isinstance(member, TegulaError):
                failed = True
                tell("error", f"{name}: {member}")
                continue
            found.append(_short_facts(name, member))
            if long:
                found[-1]["nbytes_stored"] = None if isinstance(member, Group) else member.nbytes_stored()
    _print_listing(found, long, as_json)
    if failed:
        raise typer.Exit(1)


def _members(group: Group | Table, recursive: bool) -> Iterator[tuple[str, Node | TegulaError]]:
    """Yield the members, for one that can't be opened the reason."""
    for name in _names(group):
        try:
            node: Node = group[name]
        except TegulaError as error:
            yield name, error
            continue
        yield name, node
        if recursive and not isinstance(node, Array):
            for below, member in _members(node, recursive):
                yield f"{name}/{below}", member


def _print_listing(found: list[dict[str, Any]], long: bool, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found:
        return
    if not long:
        typer.echo("\n".join(item["name"] for item in found))
        return
    rows = []
    for item in found:
        stored = item["nbytes_stored"]
        size = "-" if stored is None else human_bytes(stored)
        rows.append([item["kind"], str(item.get("shape", "-")), item.get("dtype", "-"), size, item["name"]])
    typer.echo(columns(rows, right=[3]))
