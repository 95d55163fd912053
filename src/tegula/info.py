"""Reports of arrays and groups: a table of facts as text, as HTML, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tegula.picture import chunk_grid_svg

__all__ = [
    "Info",
    "array_html",
    "array_info",
    "counted",
    "group_html",
    "group_info",
    "human_bytes",
    "human_seconds",
    "table_html",
    "table_info",
]


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
        return "\n".join(f"{name.ljust(width)}  {value}" for name, value in self._facts.items())

    def _repr_html_(self) -> str:
        return _table(self._facts)


def human_bytes(size: int) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> human_bytes(512), human_bytes(1536), human_bytes(5 * 2**30)
    ('512 B', '1.5 KiB', '5.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} EiB"


def human_seconds(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(3.21), human_seconds(125), human_seconds(7384)
    ('12 ms', '3.2 s', '2 min 5 s', '2 h 3 min')
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, word: str) -> str:
    """Write how many there are of something.

    Examples
    --------
    >>> counted(1, "array"), counted(12, "chunk")
    ('1 array', '12 chunks')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _codec_name(codec: Any) -> str:
    """Write a codec as ``name(option=value, …)``."""
    if codec.name == "sharding_indexed":
        inner = ", ".join(
            item if isinstance(item, str) else str(item.get("name")) for item in codec.configuration["codecs"]
        )
        return f"sharding_indexed({inner})"
    options = ", ".join(f"{name}={value!r}" for name, value in codec.configuration.items())
    return f"{codec.name}({options})" if options else str(codec.name)


def _shown(value: Any) -> Any:
    """Give back what can be shown; NumPy can't write a time without a unit."""
    try:
        str(value)
    except ValueError:
        return f"{int(value.view('i8'))} (without a unit)"
    return value


def array_info(array: Any) -> Info:
    """Collect the facts of an array; lists its stored chunks."""
    count, stored = array._stored.amount_stored()
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
        "Codecs": " → ".join(_codec_name(codec) for codec in array.metadata.codecs),
        "Fill value": _shown(array.fill_value),
        "Read-only": array.read_only,
    }
    if array.dimension_names is not None:
        facts["Dimensions"] = array.dimension_names
    ratio = f", ratio {array.nbytes / stored:.1f}" if stored and not array.metadata.data_type.variable else ""
    facts |= {
        "Size in memory": human_bytes(array.nbytes) if not array.metadata.data_type.variable else "unknown",
        "Size stored": human_bytes(stored) + ratio,
        "Chunks stored": f"{count} of {array.nchunks}",
        "Attributes": len(array.attrs),
    }
    return Info(facts)


def group_info(group: Any) -> Info:
    """Collect the facts of a group and count its direct members."""
    unreadable: dict[str, str] = {}
    kinds = [type(node).__name__ for _, node in group.members(unreadable)]
    return Info(
        {
            "Type": "group",
            "Format": group.format,
            "Store": group.store.url,
            "Path": group.path or "/",
            "Read-only": group.read_only,
            "Arrays": kinds.count("Array"),
            "Groups": kinds.count("Group"),
            **({"Tables": kinds.count("Table")} if "Table" in kinds else {}),
            **({"Unreadable": ", ".join(unreadable)} if unreadable else {}),
            "Attributes": len(group.attrs),
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
            **{f"  {name}": _column_facts(table[name]) for name in table.names},
            **({} if table.is_consistent else {"Lengths differ": lengths}),
            "Read-only": table.read_only,
            "Size in memory": human_bytes(table.nbytes) if not table.dtype.hasobject else "unknown",
            "Size stored": human_bytes(stored) + ratio,
            "Attributes": len(table.attrs),
        }
    )


def _column_facts(column: Any) -> str:
    inner = f" × {column.shape[1:]}" if column.ndim > 1 else ""
    return f"{column.metadata.data_type}{inner}, {column.chunks[0]} rows a chunk"


def _table(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def array_html(array: Any) -> str:
    """Return the facts of an array that cost no listing, beside a picture of its chunk grid."""
    facts = {
        "Shape": array.shape,
        "Chunks": array.chunks,
        "Data type": str(array.metadata.data_type),
        "Size in memory": human_bytes(array.nbytes),
        "Chunk count": array.nchunks,
        "Format": array.format,
        "Codecs": " → ".join(_codec_name(codec) for codec in array.metadata.codecs),
        "Store": array.store.url + (f"/{array.path}" if array.path else ""),
    }
    if array.shards is not None:
        facts["Shards"] = array.shards
    picture = chunk_grid_svg(array.shape, array.metadata.grid, array.dimension_names)
    return (
        f'<div><b>tegula.Array</b><table><tr><td>{_table(facts)}</td><td style="vertical-align:top">{picture}</td></tr>'
        "</table></div>"
    )


def group_html(group: Any) -> str:
    """Return the facts of a group and the names of its members."""
    facts = {"Format": group.format, "Store": group.store.url, "Path": group.path or "/"}
    return f"<div><b>tegula.Group</b>{_table(facts)}{group.tree(max_depth=2)._repr_html_()}</div>"


def table_html(table: Any) -> str:
    """Return the facts of a table that cost no listing, and its columns."""
    facts = {"Rows": len(table), "Format": table.format, "Store": table.store.url, "Path": table.path or "/"}
    columns = {name: _column_facts(table[name]) for name in table.names}
    return f"<div><b>tegula.Table</b>{_table(facts)}{_table(columns)}</div>"
