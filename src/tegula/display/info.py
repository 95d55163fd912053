"""Facts of arrays, groups and tables as text and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tegula.display.contents import Listed, attributes_listed, contents, data_set_row, is_plain_directory
from tegula.display.layout import cells_of, columns, number_text, padded, painted
from tegula.display.markup import fold, muted, shorten, table, text
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = [
    "Info", "codecs_text", "column_text", "group_info", "node_info", "shown",
]  # fmt: skip


_VALUES: Final = 4  # the column of a coordinate's values
_MOST: Final = 500  # letters of a fact; a grid may list a million lengths of chunks


class Info(Mapping[str, Any]):
    """Facts by name, in order; ``print`` shows a table, ``dict`` and `json` give the values.

    Examples
    --------
    >>> Info({"Shape": (3, 4), "Stored": 1200})
    Shape   3 × 4
    Stored  1,200
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> Any:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return self.as_text()

    def as_text(self, width: int | None = None, *, colours: bool = False) -> str:
        """Return the facts as lines of at most `width` letters, wrapped at words; with colours for a terminal."""
        indent = max((cells_of(name) for name in self._facts), default=0) + 2
        lines = []
        for name, value in self._facts.items():
            said = columns([[shorten(number_text(value), _MOST)]], width=None if width is None else width - indent)
            title, first, *others = padded(name, indent), *(said.splitlines() or [""])
            lines.append(f"{painted(title, 'title') if colours else title}{first}".rstrip())
            lines += [" " * indent + line for line in others]
            if isinstance(value, Listed) and value.rows:
                styles = {0: "name"} if colours else None
                rows = columns(value.rows, width=None if width is None else width - 2, styles=styles)
                lines += [f"  {line}" for line in rows.splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts, lists = [], []
        for name, value in self._facts.items():
            if isinstance(value, Listed) and value.rows:
                lists.append(fold(f"<b>{text(name)}</b> {muted(value)}", _list_html(value), opened=True))
            else:
                facts.append((text(name), text(number_text(value))))
        return f'<div style="font-size:13px;line-height:1.5;max-width:1000px">{"".join([table(facts), *lists])}</div>'


def _list_html(listed: Listed) -> str:
    """Lay out the lines of things, without empty columns; what is noted on one unfolds where its values are."""
    used = [n for n in range(max(map(len, listed.rows))) if any(n < len(row) and row[n] for row in listed.rows)]
    rows = []
    for row in listed.rows:
        cells = [text(cell.removeprefix("chunks ") if listed.heads else cell) for cell in row]
        note = listed.notes.get(row[0])
        if note is not None and len(cells) > _VALUES:
            cells[_VALUES] = fold(cells[_VALUES], f'<div style="white-space:normal">{text(note, _MOST)}</div>')
        rows.append([cells[n] if n < len(cells) else "" for n in used])
    return table(rows, [listed.heads[n] for n in used] if listed.heads else (), wraps=not listed.heads)


def _codec_name(codec: Any) -> str:
    """Return a codec as ``name(option=value, …)``."""
    if codec.name in ("sharding_indexed", "n5_default"):
        inner = ", ".join(
            item if isinstance(item, str) else str(item.get("name")) for item in codec.configuration["codecs"]
        )
        return f"{codec.name}({inner})"
    options = ", ".join(f"{name}={value!r}" for name, value in codec.configuration.items())
    return f"{codec.name}({options})" if options else str(codec.name)


def codecs_text(array: Any) -> str:
    """Return the codecs of an array as text, in encoding order."""
    return " → ".join(_codec_name(codec) for codec in array.metadata.codecs)


def shown(value: Any) -> Any:
    """Return a value that can be printed; NumPy can't print a time without a unit."""
    try:
        str(value)
    except ValueError:
        return f"{int(value.view('i8'))} (without a unit)"
    return value


def node_info(node: Any) -> Info:
    """Collect the facts of an array or table, and list its stored chunks."""
    return _array_info(node) if node.kind == "array" else _table_info(node)


def _array_info(array: Any) -> Info:
    """Collect the facts of an array; lists its stored chunks."""
    # a count would take one request for each chunk where the store can't be listed
    count, stored = array.stored.amount_stored() if array.store.listable else (None, 0)
    facts: dict[str, Any] = {
        "Type": "array",
        "Format": array.format,
        "Store": array.store.url,
        "Path": array.path or "/",
        "Shape": array.shape,
        "Data type": str(array.metadata.data_type),
        "Chunks": array.chunks,
    }
    if array.shards is not None:
        facts["Shards"] = array.shards
    facts |= {
        "Codecs": codecs_text(array),
        "Fill value": shown(array.fill_value),
        "Read-only": array.read_only,
    }
    if array.dimension_names is not None:
        facts["Dimensions"] = array.dimension_names
    if (steps := array.stored.steps) is not None:
        facts["Spacing"] = steps_text(steps)
    ratio = f", ratio {array.nbytes / stored:.1f}" if stored and not array.metadata.data_type.variable else ""
    facts |= {
        "Size in memory": human_bytes(array.nbytes) if not array.metadata.data_type.variable else "unknown",
        "Size stored": human_bytes(stored) + ratio if count is not None else "unknown: the store can't be listed",
        "Shards stored" if array.shards else "Chunks stored": (
            f"{'?' if count is None else f'{count:,}'} of {array.nshards if array.shards else array.nchunks:,}"
        ),
        "Attributes": attributes_listed(array.attrs.asdict()),
    }
    return Info(facts)


def group_info(group: Any, stored_of: Callable[[Sequence[tuple[str, Any]]], Mapping[str, int | None]]) -> Info:
    """Collect the facts of a group and list its direct members, with the first and last values of coordinates.

    `stored_of` returns the bytes of the stored chunks of arrays by path below the group, given its members.
    """
    unreadable: dict[str, str] = {}
    members = [*group.members(unreadable)]
    stored = stored_of(members)
    facts: dict[str, Any] = {"Type": "plain directory, not itself a group" if is_plain_directory(group) else "group"}
    if is_plain_directory(group):
        inside = {"Data sets": Listed(len(members), [data_set_row(name, node, stored) for name, node in members])}
    else:
        kinds: dict[str, list[tuple[str, ...]]] = {"Array": [], "Group": [], "Table": []}
        for name, node in members:
            kinds[type(node).__name__].append((shorten(name, 40),))
        formats = sorted({node.format for _, node in members}) if group.is_folder else [group.format]
        facts["Format"] = ", ".join(formats) or "none"
        inside = {**contents(members, stored), "Groups": Listed(len(kinds["Group"]), kinds["Group"])}
        if kinds["Table"]:
            inside["Tables"] = Listed(len(kinds["Table"]), kinds["Table"])
    return Info(
        {
            **facts,
            "Store": group.store.url,
            "Path": group.path or "/",
            "Read-only": group.read_only,
            **inside,
            **({"Unreadable": ", ".join(unreadable)} if unreadable else {}),
            "Attributes": attributes_listed(group.attrs.asdict()),
        }
    )


def _table_info(table: Any) -> Info:
    """Collect the facts of a table and its columns; lists the stored chunks of all."""
    stored = table.nbytes_stored()
    ratio = f", ratio {table.nbytes / stored:.1f}" if stored and not table.dtype.hasobject else ""
    lengths = table.lengths()
    return Info(
        {
            "Type": "table",
            "Format": table.format,
            "Store": table.store.url,
            "Path": table.path or "/",
            "Rows": len(table),
            "Columns": len(table.names),
            **{f"  {name}": column_text(table[name]) for name in table.names},
            **({} if table.is_consistent else {"Lengths differ": lengths}),
            "Read-only": table.read_only,
            "Size in memory": human_bytes(table.nbytes) if not table.dtype.hasobject else "unknown",
            "Size stored": human_bytes(stored) + ratio,
            "Attributes": attributes_listed(table.attrs.asdict()),
        }
    )


def column_text(column: Any) -> str:
    """Return the data type, inner shape and chunks of a column as text."""
    inner = f" × {column.shape[1:]}" if column.ndim > 1 else ""
    return f"{column.metadata.data_type}{inner}, {column.chunks[0]:,} rows a chunk"
