"""The drawing of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from html import escape
from operator import length_hint
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
    """Draw a group with its members, at most `max_depth` levels of them; with their formats where these differ."""
    lines = [f"/{group.path}"]
    # a stack, since a hierarchy may be deeper than Python lets functions call each other
    stack = [(group, "", *_names(group))] if max_depth != 0 else []
    while stack:
        above, indent, names, mixed = stack[-1]
        name = next(names, None)
        if name is None:
            stack.pop()
            continue
        last = length_hint(names) == 0
        corner = f"{indent}{'└' if last else '├'}── {name}"
        try:
            node = above[name]
            is_array, is_table = hasattr(node, "chunks"), hasattr(node, "lengths")
            facts = f" {node.shape} {node.metadata.data_type}" if is_array else f" {len(node)} rows" if is_table else ""
            facts += f" [{node.format}]" if mixed else ""
        except TegulaError as error:
            lines.append(f"{corner} (unreadable: {error.message})")
            continue
        lines.append(corner + facts)
        if not is_array and (max_depth is None or len(stack) < max_depth):
            stack.append((node, indent + ("    " if last else "│   "), *_names(node)))
    return Tree(lines)


def _names(group: Any) -> tuple[Iterator[str], bool]:
    """Return an iterator over the names of the members, which knows how many are left, and whether formats differ."""
    is_table = hasattr(group, "names")
    names = list(group.names if is_table else group)  # a table iterates over its rows
    return iter(names), not is_table and group._is_folder and len({*_formats(group, names)}) > 1


def _formats(group: Any, names: list[str]) -> Iterator[str]:
    """Yield the formats of those members that can be opened."""
    for name in names:
        with suppress(TegulaError):
            yield group[name].format
