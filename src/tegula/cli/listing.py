"""``tegula info``, ``tree`` and ``ls``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tegula.array import Array
from tegula.cli.places import Place, opened, split_place
from tegula.cli.reporting import AsJson, columns, print_json, tell
from tegula.errors import TegulaError
from tegula.group import Group
from tegula.info import human_bytes

__all__ = ["info", "ls", "tree"]


def info(place: Place, as_json: AsJson = False) -> None:
    """Print the facts of an array or a group."""
    with opened(place) as node:
        if as_json:
            print_json(_array_facts(node) if isinstance(node, Array) else _group_facts(node))
        else:
            typer.echo(str(node.info))


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


def tree(
    place: Place,
    depth: Annotated[int | None, typer.Option(min=0, show_default=False, help="Levels of members to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a group with all that is in it."""
    with opened(place) as node:
        if as_json:
            print_json(_branch(node.name, node, depth))
        elif isinstance(node, Group):
            typer.echo(str(node.tree(depth)))
        else:
            typer.echo(f"/{node.path} {node.shape} {node.metadata.data_type}")


def _branch(name: str, node: Array | Group, depth: int | None) -> dict[str, Any]:
    facts = _short_facts(name, node)
    if isinstance(node, Group) and depth != 0:
        below = None if depth is None else depth - 1
        facts["members"] = [_branch(inner, node[inner], below) for inner in node]
    return facts


def _short_facts(name: str, node: Array | Group) -> dict[str, Any]:
    if isinstance(node, Group):
        return {"name": name, "kind": "group"}
    return {"name": name, "kind": "array", "shape": node.shape, "dtype": str(node.metadata.data_type)}


def ls(
    place: Place,
    recursive: Annotated[bool, typer.Option("-r", "--recursive", help="Also what is in groups below.")] = False,
    long: Annotated[bool, typer.Option("-l", "--long", help="With kind, shape, data type and bytes stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the names of a group's members."""
    failed = False
    found: list[dict[str, Any]] = []
    with opened(place) as node:
        if isinstance(node, Group) and not (recursive or long or as_json):
            for name in node:
                typer.echo(name)
            return
        members = _members(node, recursive) if isinstance(node, Group) else [(split_place(place)[1] or place, node)]
        for name, member in members:
            if isinstance(member, TegulaError):
                failed = True
                tell("error", f"{name}: {member}")
                continue
            found.append(_short_facts(name, member))
            if long:
                found[-1]["nbytes_stored"] = member.nbytes_stored() if isinstance(member, Array) else None
    _print_listing(found, long, as_json)
    if failed:
        raise typer.Exit(1)


def _members(group: Group, recursive: bool) -> Iterator[tuple[str, Array | Group | TegulaError]]:
    """Yield the members, for one that can't be opened the reason."""
    for name in group:
        try:
            node: Array | Group = group[name]
        except TegulaError as error:
            yield name, error
            continue
        yield name, node
        if recursive and isinstance(node, Group):
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
