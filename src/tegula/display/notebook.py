"""HTML of arrays, groups, tables and attributes for notebooks, always of a bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any, Final

from tegula.display.chunk_grid_svg import chunk_grid_svg
from tegula.display.contents import axes_text
from tegula.display.info import codecs_text, column_text, shown
from tegula.display.markup import Entry, card, fold, more, muted, nested, shorten, table, text
from tegula.errors import TegulaError
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = ["attributes_html", "node_html", "view_html"]

_MEMBERS: Final = 50  # members of a group that are shown
_INNER: Final = 10  # members of a group in a group
_NODES: Final = 120  # nodes that are opened to show one group
_FEW: Final = 30  # entries up to which groups in a group are unfolded at first
_LEVELS: Final = 3
_ATTRIBUTES: Final = 100  # of one mapping
_VALUES: Final = 300  # of all attributes of a node
_COLUMNS: Final = 100


def node_html(node: Any) -> str:
    """Show a node in a notebook."""
    return {"array": _array_html, "group": _group_html, "table": _table_html}[node.kind](node)


def _array_html(array: Any) -> str:
    """Show the facts of an array that need no listing of the store, beside a drawing of its chunk grid."""
    svg = chunk_grid_svg(
        array.shape, array.metadata.grid, array.dimension_names, array.chunks if array.shards is not None else None
    )
    picture = f'<div style="flex:none">{svg}</div>' if svg else ""
    facts = f'<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:center">{_array_facts(array)}{picture}</div>'
    return card("tegula.Array", _title(array), facts, _attributes_fold(array))


def view_html(view: Any) -> str:
    """Show what a view selects: its shape, type and dimensions, and the array that it is of."""
    rows = [("Shape", text(view.shape, 100)), ("Data type", text(view.dtype))]
    if view.dimension_names is not None:
        rows.append(("Dimensions", text(view.dimension_names, 100)))
    size = "unknown" if view.dtype.hasobject else human_bytes(view.nbytes)
    return card("tegula.View", text(view.location, 120), table([*rows, ("Size in memory", size)]))


def _array_facts(array: Any) -> str:
    """Lay out sizes, shapes and counts of array, shards and chunks side by side, and the other facts below."""
    metadata = array.metadata
    heads, shapes = ["", "Array"], [array.shape]
    grid = metadata.grid.largest_chunk()
    if array.shards is not None:
        heads, shapes = [*heads, "Shard", "Chunk"], [*shapes, grid, array.chunks]
        counts = [prod(metadata.grid.counts(array.shape)), _inner_count(array)]
        counted = ["", f"{counts[0]} shards", f"{counts[1]} chunks"]
    else:
        heads, shapes = [*heads, "Chunk"], [*shapes, grid]
        counted = ["", f"{prod(metadata.grid.counts(array.shape))} chunks"]
    itemsize = array.dtype.itemsize
    sizes = ["unknown" if metadata.data_type.variable else human_bytes(prod(shape) * itemsize) for shape in shapes]
    shown_shapes = [text(shape, 60) for shape in shapes]
    if not metadata.grid.is_regular:
        shown_shapes[1] += " at most"
    rows = [
        ("Shape", *shown_shapes),
        ("Size", *sizes),
        ("Count", *(word.removesuffix("s") if word.startswith("1 ") else word for word in counted)),
    ]
    if array.dimension_names is not None:
        rows.append(("Dimensions", text(", ".join(name or "–" for name in array.dimension_names))))
    if (steps := array.stored.steps) is not None:
        rows.append(("Spacing", text(steps_text(steps), 100)))
    rows += [
        ("Data type", text(metadata.data_type, 100)),
        ("Fill value", text(shown(array.fill_value), 100)),
        ("Codecs", text(codecs_text(array))),
        ("Format", text(array.format)),
        ("Store", _store(array)),
    ]
    return table(rows, heads)


def _member_facts(array: Any) -> str:
    """Lay out the facts of an array that is one of many."""
    rows = [("Chunks", text(array.chunks, 60)), ("Codecs", text(codecs_text(array)))]
    if array.shards is not None:
        rows.insert(0, ("Shards", text(array.shards, 60)))
    if not array.metadata.data_type.variable:
        rows.append(("Size", human_bytes(array.nbytes)))
    return table([*rows, ("Fill value", text(shown(array.fill_value), 100))])


def _inner_count(array: Any) -> int:
    return prod(-(-size // length) for size, length in zip(array.shape, array.chunks))


def _group_html(group: Any) -> str:
    """Show the facts of a group and its members, which fold; of many members, and at deep levels, only the first."""
    facts = table([("Format", text(group.format)), ("Store", _store(group))])
    entries = [*_entries(group, 0, _MEMBERS, [_NODES])]
    few = len(entries) <= _FEW
    entries = [entry._replace(opened=few and entry.opened) for entry in entries]
    members = fold("<b>Members</b>", nested(entries) if entries else muted("none"), opened=True)
    return card("tegula.Group", _title(group), facts, members, _attributes_fold(group))


def _entries(group: Any, depth: int, most: int, left: list[int]) -> Iterator[Entry]:
    """Yield the members of a group at any depth, until the number of nodes to open is used up."""
    names = iter(group)
    try:
        shown_names = [*islice(names, most)]
    except TegulaError as error:
        yield Entry(depth, _unreadable("members", error))
        return
    for name in shown_names:
        if not left[0]:
            yield Entry(depth, more(None, "members"))
            return
        left[0] -= 1
        try:
            node = group[name]
        except TegulaError as error:
            yield Entry(depth, _unreadable(name, error))
            continue
        title = f"<b>{text(name, 80)}</b>"
        if hasattr(node, "chunks"):
            facts = f"{text(axes_text(node), 80)} {muted(shorten(node.metadata.data_type, 40))}"
            yield Entry(depth, f"{title} {facts}", _member_facts(node) + _attributes_fold(node))
        elif hasattr(node, "lengths"):
            yield Entry(depth, f"{title} {muted(f'table of {len(node.names)} columns')}", _columns(node))
        else:
            yield Entry(depth, f"{title}/", _attributes_fold(node), opened=True)
            if depth + 1 < _LEVELS:
                yield from _entries(node, depth + 1, _INNER, left)
            else:
                yield Entry(depth + 1, muted("…"))
    if next(names, None) is not None:
        yield Entry(depth, more(None, "members"))


def _unreadable(name: str, error: TegulaError) -> str:
    return f"<b>{text(name, 80)}</b> {muted(f'unreadable: {error.message}')}"


def _table_html(node: Any) -> str:
    """Show the facts of a table that need no listing of the store, its columns, and its attributes."""
    facts = table([("Rows", str(len(node))), ("Format", text(node.format)), ("Store", _store(node))])
    columns = fold(f"<b>Columns</b> {muted(len(node.names))}", _columns(node), opened=True)
    return card("tegula.Table", _title(node), facts, columns, _attributes_fold(node))


def _columns(node: Any) -> str:
    rows = []
    for name in node.names[:_COLUMNS]:
        try:
            rows.append((f"<b>{text(name, 80)}</b>", text(column_text(node[name]))))
        except TegulaError as error:
            rows.append((f"<b>{text(name, 80)}</b>", muted(f"unreadable: {error.message}")))
    left = len(node.names) - len(rows)
    return table(rows) + (more(left, "columns") if left else "")


def _title(node: Any) -> str:
    return text(f"/{node.path}", 120)


def _store(node: Any) -> str:
    return text(node.store.url + (f"/{node.path}" if node.path else ""))


# --- attributes


def attributes_html(attributes: Mapping[str, Any]) -> str:
    """Show attributes by name; objects in them fold."""
    return card("tegula.Attributes", str(len(attributes)), _mapping(attributes, [_VALUES], 0))


def _attributes_fold(node: Any) -> str:
    attributes = node.attrs.asdict()
    if not attributes:
        return ""
    return fold(f"<b>Attributes</b> {muted(len(attributes))}", _mapping(attributes, [_VALUES], 0))


def _mapping(values: Mapping[str, Any], left: list[int], depth: int) -> str:
    rows = []
    for name, value in islice(values.items(), _ATTRIBUTES):
        if left[0] <= 0:
            break
        left[0] -= 1
        rows.append((text(name, 80), _value(value, left, depth)))
    rest = len(values) - len(rows)
    return table(rows) + (more(rest, "attributes") if rest else "")


def _value(value: Any, left: list[int], depth: int) -> str:
    if isinstance(value, Mapping) and value and depth < 4:
        keys = ", ".join(str(key) for key in islice(value, 8))
        return fold(
            muted(shorten(f"{{{keys}{', …' if len(value) > 8 else ''}}}", 80)), _mapping(value, left, depth + 1)
        )
    return text(value if isinstance(value, str) else _json(value))


def _json(value: Any) -> str:
    """Write a value as JSON; only the beginning of a long list, since no more fits on a line."""
    if isinstance(value, list) and len(value) > 100:
        value = value[:100]
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
