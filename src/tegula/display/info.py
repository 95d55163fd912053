"""Facts of arrays, groups and tables as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tegula.display.contents import Listed, attributes_listed, contents
from tegula.display.markup import shorten, table, text
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = [
    "Info", "array_info", "codecs_text", "column_text", "columns", "group_info", "shown", "table_info",
]  # fmt: skip


_MOST: Final = 500  # letters of a fact; a grid may list a million lengths of chunks


class Info(Mapping[str, Any]):
    """Facts by name, in order; ``print`` shows a table, ``dict`` and `json` give the values.

    Examples
    --------
    >>> Info({"Shape": (3, 4), "Stored": 12})
    Shape   (3, 4)
    Stored  12
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
        width = max((len(name) for name in self._facts), default=0)
        lines = []
        for name, value in self._facts.items():
            lines.append(f"{name.ljust(width)}  {shorten(value, _MOST)}")
            if isinstance(value, Listed) and value.rows:
                lines += [f"  {line}" for line in columns(value.rows).splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for name, value in self._facts.items():
            rows.append((text(name), text(value)))
            if isinstance(value, Listed) and value.rows:
                rows.append(("", table([tuple(map(text, row)) for row in value.rows])))
        return table(rows)


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out a table as text.

    Parameters
    ----------
    rows : sequence of rows of str
        The cells, row by row; all rows have the same length.
    right : sequence of int
        Numbers of the columns to align at the right.

    Examples
    --------
    >>> print(columns([["array", "12", "x"], ["group", "9", "data"]], right=[1]))
    array  12  x
    group   9  data
    """
    most = max(map(len, rows), default=0)
    rows = [(*row, *[""] * (most - len(row))) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


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


def array_info(array: Any) -> Info:
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
            f"{'?' if count is None else count} of {array.nshards if array.shards else array.nchunks}"
        ),
        "Attributes": attributes_listed(array.attrs.asdict()),
    }
    return Info(facts)


def group_info(group: Any, stored: Mapping[str, int | None] | None = None) -> Info:
    """Collect the facts of a group and list its direct members, with the first and last values of coordinates.

    `stored` has the bytes of the stored chunks of arrays by name; without it they are not shown.
    """
    unreadable: dict[str, str] = {}
    members = [*group.members(unreadable)]
    kinds: dict[str, list[tuple[str, ...]]] = {"Array": [], "Group": [], "Table": []}
    for name, node in members:
        kinds[type(node).__name__].append((shorten(name, 40),))
    formats = sorted({node.format for _, node in members}) if group.is_folder else [group.format]
    return Info(
        {
            "Type": "directory" if group.is_folder and group.store.local_directory is not None else "group",
            "Format": ", ".join(formats) or "none",
            "Store": group.store.url,
            "Path": group.path or "/",
            "Read-only": group.read_only,
            **contents(members, stored or {}),
            "Groups": Listed(len(kinds["Group"]), kinds["Group"]),
            **({"Tables": Listed(len(kinds["Table"]), kinds["Table"])} if kinds["Table"] else {}),
            **({"Unreadable": ", ".join(unreadable)} if unreadable else {}),
            "Attributes": attributes_listed(group.attrs.asdict()),
        }
    )


def table_info(table: Any) -> Info:
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
    return f"{column.metadata.data_type}{inner}, {column.chunks[0]} rows a chunk"
