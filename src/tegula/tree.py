"""The drawing of a hierarchy."""

from __future__ import annotations

from html import escape
from typing import Any

from tegula.errors import TegulaError

__all__ = ["Tree", "group_tree"]


class Tree:
    """A hierarchy as lines of text; ``print`` shows it.

    Examples
    --------
    >>> print(Tree(["/", "└── x (3,) int8"]))
    /
    └── x (3,) int8
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __str__(self) -> str:
        return "\n".join(self._lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def group_tree(group: Any, max_depth: int | None = None) -> Tree:
    """Draw a group with its members, at most `max_depth` levels of them."""
    return Tree([f"/{group.path}", *_below(group, "", max_depth)])


def _below(group: Any, indent: str, depth: int | None) -> list[str]:
    if depth == 0:
        return []
    lines: list[str] = []
    names = list(group.names if hasattr(group, "names") else group)  # a table iterates over its rows
    for position, name in enumerate(names):
        last = position == len(names) - 1
        try:
            node = group[name]
            is_array, is_table = hasattr(node, "chunks"), hasattr(node, "lengths")
            facts = f" {node.shape} {node.metadata.data_type}" if is_array else f" {len(node)} rows" if is_table else ""
        except TegulaError as error:
            lines.append(f"{indent}{'└' if last else '├'}── {name} (unreadable: {error.message})")
            continue
        lines.append(f"{indent}{'└' if last else '├'}── {name}{facts}")
        if not is_array:
            lines += _below(node, indent + ("    " if last else "│   "), None if depth is None else depth - 1)
    return lines
