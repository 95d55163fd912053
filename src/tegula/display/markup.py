"""HTML that works in any notebook: no scripts, no style sheets, colours taken from the theme; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final, NamedTuple

__all__ = ["Entry", "badge", "card", "fold", "more", "muted", "nested", "page", "printable", "shorten", "table", "text"]

_MOST: Final = 200  # letters of one text
_DEPTH: Final = 60  # levels of a hierarchy; browsers draw some hundred
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none"
_MUTED: Final = "opacity:.65"


def printable(value: str) -> str:
    r"""Escape characters that are invisible, change the direction of text, or control a terminal.

    Examples
    --------
    >>> print(printable("a\nb"))
    a\nb
    """
    if value.isprintable():
        return value
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in value)


def shorten(value: Any, most: int = _MOST) -> str:
    """Write a value as a line of at most `most` letters; those invisible or of another direction are escaped.

    Examples
    --------
    >>> shorten("a\\nb"), shorten((1, 2)), shorten("x" * 300, 8)
    ('a\\\\nb', '(1, 2)', 'xxxxxxx…')
    """
    plain = str(value)
    cut = printable(plain[:most])
    return cut if len(plain) <= most and len(cut) <= most else f"{cut[: most - 1]}…"


def text(value: Any, most: int = _MOST) -> str:
    """Write a value as HTML text.

    Examples
    --------
    >>> text("<b>")
    '&lt;b&gt;'
    """
    return escape(shorten(value, most))


def muted(value: Any) -> str:
    """Write a value as HTML text in a weaker colour."""
    return f'<span style="{_MUTED}">{text(value)}</span>'


def badge(kind: str, value: Any) -> str:
    """Write a value on a coloured background; `kind`, one of good, bad, doubtful and plain, gives the colour."""
    colour = {"good": "#2e7d32", "bad": "#c62828", "doubtful": "#b26a00"}.get(kind, "#546e7a")
    style = f"background:{colour};color:#fff;border-radius:3px;padding:0 6px;font-size:12px;white-space:nowrap"
    return f'<span style="{style}">{text(value)}</span>'


def more(number: int | None, what: str) -> str:
    """Return a note on entries that are left out; `number` is ``None`` if they were not counted.

    Examples
    --------
    >>> more(3, "findings")
    '<span style="opacity:.65">… and 3 more findings</span>'
    """
    return muted(f"… and {'' if number is None else f'{number} '}more {what}")


def table(rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, wraps: bool = True) -> str:
    """Return a table of HTML cells; the first cell of a row is its title, the last one spans the remaining columns.

    If `wraps` is false, each row is a line, and a table that is too wide can be scrolled.

    Examples
    --------
    >>> table([("Shape", "(3, 4)")]).count("<td")
    1
    """
    lines = [*rows]
    columns = max(map(len, [*lines, heads]), default=0)
    parts = []
    style = _CELL if wraps else f"{_CELL};white-space:nowrap"
    if heads:
        first = "".join(f'<th style="{style};{_MUTED}">{head}</th>' for head in heads)
        parts.append(f'<thead><tr style="background:none">{first}</tr></thead>')
    parts.append("<tbody>")
    for title, *cells in lines:
        spans = [1] * len(cells)
        if spans:
            spans[-1] += columns - 1 - len(cells)
        tail = "".join(
            f'<td style="{style}"{f" colspan={span}" if span > 1 else ""}>{cell}</td>'
            for cell, span in zip(cells, spans)
        )
        parts.append(f'<tr style="background:none"><th style="{style}">{title}</th>{tail}</tr>')
    parts.append("</tbody>")
    drawn = f'<table style="border-collapse:collapse;margin:2px 0;border:none">{"".join(parts)}</table>'
    return drawn if wraps else f'<div style="overflow-x:auto">{drawn}</div>'


def fold(summary: str, body: str, *, opened: bool = False) -> str:
    """Return HTML that opens with a click on its summary, without a script."""
    return (
        f'<details{" open" if opened else ""}><summary style="cursor:pointer;display:list-item">{summary}</summary>'
        f'<div style="margin-left:18px">{body}</div></details>'
    )


def card(kind: str, title: str, *parts: str) -> str:
    """Return HTML with a title and the parts below it."""
    style = "border-bottom:1px solid;padding:2px 0 4px;margin-bottom:4px"
    head = f'<div style="{style}">{muted(kind)} <b>{title}</b></div>'
    body = "".join(part for part in parts if part)
    return f'<div style="font-size:13px;line-height:1.5;max-width:1000px">{head}{body}</div>'


def page(title: str, body: str) -> str:
    """Return an HTML document that needs no other file.

    Examples
    --------
    >>> page("a", "<b>b</b>").splitlines()[0]
    '<!DOCTYPE html>'
    """
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = "font-family:sans-serif;margin:24px;color-scheme:light dark"
    return (
        f'<!DOCTYPE html>\n<html lang="en" style="color-scheme:light dark">\n<head>{head}<title>{text(title)}</title>'
        f'</head>\n<body style="{style}">\n{body}\n</body>\n</html>\n'
    )


class Entry(NamedTuple):
    """One line of a hierarchy.

    Parameters
    ----------
    depth : int
        Its depth below the first one.
    summary : str
        HTML of the line.
    body : str
        HTML that opens below it.
    opened : bool
        Whether its members are shown at first.
    """

    depth: int
    summary: str
    body: str = ""
    opened: bool = False


def nested(entries: Iterable[Entry]) -> str:
    """Return HTML of a hierarchy whose parts fold; `entries` come parents first.

    Examples
    --------
    >>> nested([Entry(0, "g"), Entry(1, "a"), Entry(0, "b")]).count("<details")
    1
    """
    return "".join(_nested([*entries]))


def _nested(entries: list[Entry]) -> Iterator[str]:
    closing: list[int] = []  # depths of the entries that are open
    for number, entry in enumerate(entries):
        while closing and closing[-1] >= entry.depth:
            closing.pop()
            yield "</div></details>"
        if len(closing) >= _DEPTH:
            if entries[number - 1].depth < entry.depth:
                yield "<div>…</div>"
            continue
        has_more = number + 1 < len(entries) and entries[number + 1].depth > entry.depth
        if not has_more and not entry.body:
            yield f'<div style="margin-left:16px">{entry.summary}</div>'
        elif not has_more:
            yield fold(entry.summary, entry.body, opened=entry.opened)
        else:
            closed = fold(entry.summary, entry.body, opened=entry.opened)
            yield closed.removesuffix("</div></details>")
            closing.append(entry.depth)
    yield "</div></details>" * len(closing)
