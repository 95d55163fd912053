"""The drawing of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tegula.display.contents import array_text, format_of, is_plain_directory
from tegula.display.layout import cells_of, painted, wrapped
from tegula.display.markup import Entry, card, more, muted, nested, printable, shorten, text
from tegula.errors import MetadataError, TegulaError
from tegula.runtime.quantities import counted

__all__ = ["Line", "Tree", "group_tree"]

_MOST: Final = 1000  # lines of HTML
_NARROWEST: Final = 20  # letters of a line, beside the branches
_OPEN: Final = 50  # with more lines than this, groups below the first are folded


class Line(NamedTuple):
    """One node of a hierarchy: its depth, its name, and a text about it."""

    depth: int
    name: str
    facts: str = ""


class Tree:
    """A hierarchy as lines of text; ``print`` shows it, and notebooks show groups that fold.

    Examples
    --------
    >>> print(Tree([Line(0, "/"), Line(1, "x", "(3,) int8")]))
    /
    └── x (3,) int8
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, width: int | None = None, *, colours: bool = False) -> str:
        """Return the lines, of at most `width` letters, wrapped at words; with colours for a terminal."""
        drawn = []
        follows: list[bool] = []  # whether another line of that depth follows
        for depth, name, facts in reversed(self._lines):
            follows += [False] * (depth + 1 - len(follows))
            stems = ["│   " if more_below else "    " for more_below in follows[1 : depth + 1]]
            stem, corner = "".join(stems[:-1]), ("├── " if follows[depth] else "└── ") if depth else ""
            title = printable(name)
            text = f"{title} {printable(facts)}".rstrip()
            lines = [text]
            if width is not None and len(stem) + len(corner) + cells_of(text) > width:
                room = max(_NARROWEST, width - 4 * len(stems))
                lines = wrapped(text, room, "  ", breaks=False)
            first, *others = lines
            if colours:
                stem, corner = painted(stem, "weak"), painted(corner, "weak")
                first = first.replace(title, painted(title, "name"), 1)
            drawn += [
                painted("".join(stems), "weak") + line if colours else "".join(stems) + line
                for line in reversed(others)
            ]
            drawn.append(stem + corner + first)
            del follows[depth + 1 :]
            follows[depth] = True
        return "\n".join(reversed(drawn))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        few = len(self._lines) <= _OPEN
        entries = [
            Entry(line.depth - 1, f"<b>{text(line.name, 80)}</b> {muted(shorten(line.facts))}", opened=few)
            for line in self._lines[1:_MOST]
        ]
        left = len(self._lines) - 1 - len(entries)
        rest = f"<div>{more(left, 'nodes, which print shows')}</div>" if left > 0 else ""
        name = text(self._lines[0].name, 120)
        return card(counted(len(self._lines) - 1, "node") + " below", name, nested(entries), rest)


def group_tree(group: Any, max_depth: int | None = None) -> Tree:
    """Draw a group with its members, at most `max_depth` levels of them; with their formats where these differ."""
    if max_depth is not None and not (hasattr(max_depth, "__index__") and max_depth >= 0):
        raise MetadataError(f"max_depth is a number of levels or None, not {max_depth!r}", field="max_depth")
    is_plain = not hasattr(group, "names") and is_plain_directory(group)
    lines = [Line(0, f"/{group.path}", "(a plain directory)" if is_plain else "")]
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    ahead = None if hasattr(group, "names") else group.ahead()  # the columns of a table are few
    stack = [_entries(group, ahead)] if max_depth != 0 else []
    while stack:
        entries, mixed = stack[-1]
        name, node = next(entries, ("", None))
        if node is None:
            stack.pop()
            continue
        depth = len(stack)
        try:
            if isinstance(node, TegulaError):
                raise node
            is_array, is_table = hasattr(node, "chunks"), hasattr(node, "lengths")
            rows = counted(len(node), "row") if is_table else ""
            facts = array_text(node) if is_array else rows
            facts += f" [{form}]" if mixed and (form := format_of(node)) else ""
        except TegulaError as error:
            lines.append(Line(depth, name, f"(unreadable: {error.message})"))
            continue
        lines.append(Line(depth, name, facts.strip()))
        if not is_array and (max_depth is None or depth < max_depth):
            stack.append(_entries(node, ahead))
    return Tree(lines)


def _entries(group: Any, ahead: Any) -> tuple[Iterator[tuple[str, Any]], bool]:
    """Return an iterator over names and members, or the errors of members; and whether their formats differ."""
    if hasattr(group, "names"):  # a table, which iterates over its rows
        return _columns(group), False
    entries = [*group.entries(ahead)]
    formats = {format_of(node) for _, node in entries if not isinstance(node, TegulaError)} - {None}
    return iter(entries), group.is_folder and len(formats) > 1


def _columns(table: Any) -> Iterator[tuple[str, Any]]:
    for name in table.names:
        try:
            yield name, table[name]
        except TegulaError as error:
            yield name, error
