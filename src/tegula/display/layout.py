"""Text for terminals: tables whose cells are wrapped at words, and colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from unicodedata import combining, east_asian_width

from tegula.display.markup import printable

__all__ = ["cells_of", "columns", "cut", "number_text", "padded", "painted", "wrapped"]

_GAP: Final = 2  # blanks between columns
_NARROWEST: Final = 8  # a column is not made narrower than this to break a word
_CODES: Final[Mapping[str, str]] = {"title": "1", "name": "36", "weak": "2"}  # bold, cyan, dim


def cells_of(text: str) -> int:
    """Return how many cells of a terminal text takes: letters of East Asia and emoji take two, accents none.

    Examples
    --------
    >>> cells_of("abc"), cells_of("気温"), cells_of("e\u0301"), cells_of("🌊")
    (3, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(map(_cells_of_letter, text))


def _cells_of_letter(letter: str) -> int:
    if combining(letter) or letter == "\ufe0f":
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text with blanks up to a width in cells, at its end or, to align it at the right, before it."""
    blanks = " " * (width - cells_of(text))
    return blanks + text if right else text + blanks


def cut(text: str, most: int, *, end: bool = False) -> str:
    """Return as much of text as fits into `most` cells, of its beginning or of its end, and ``…`` for what is left out.

    Examples
    --------
    >>> cut("気温偏差", 5), cut("temperature", 5, end=True), cut("abc", 5)
    ('気温…', '…ture', 'abc')
    """
    if cells_of(text) <= most:
        return text
    letters = text[::-1] if end else text
    while cells_of(letters) > most - 1:
        letters = letters[:-1]
    return f"…{letters[::-1]}" if end else f"{letters}…"


def wrapped(text: str, width: int, indent: str = "", *, breaks: bool = True) -> list[str]:
    """Return lines of at most `width` cells, broken between words.

    Parameters
    ----------
    text : str
        What to wrap.
    width : int
        The most cells in a line.
    indent : str
        What lines after the first begin with.
    breaks : bool
        Whether a word that is longer than a line is broken.

    Examples
    --------
    >>> wrapped("海面 water", 7, "  "), wrapped("気温偏差", 4)
    (['海面', '  water'], ['気温', '偏差'])
    """
    lines = [""]
    for word in text.split():
        gap = " " if lines[-1].strip() else ""
        if gap and cells_of(lines[-1] + gap + word) > width:
            lines.append(indent)
            gap = ""
        lines[-1] += gap
        for letter in word:
            if breaks and lines[-1] and cells_of(lines[-1] + letter) > width and lines[-1] != indent:
                lines.append(indent)
            lines[-1] += letter
    return lines


def painted(text: str, style: str) -> str:
    """Return text in a style that terminals show: ``"title"``, ``"name"`` or ``"weak"``; blanks at its end stay plain.

    Examples
    --------
    >>> painted("x ", "title")
    '\\x1b[1mx\\x1b[0m '
    """
    bare = text.rstrip()
    return f"\x1b[{_CODES[style]}m{bare}\x1b[0m{text[len(bare) :]}" if bare else text


def number_text(value: Any) -> str:
    """Write a number, a shape or a list of names as people read them.

    Examples
    --------
    >>> number_text(1234567), number_text((8760, 721)), number_text((5,)), number_text(("time", None))
    ('1,234,567', '8,760 × 721', '5', 'time, ?')
    >>> number_text(True), number_text(()), number_text(90.0)
    ('yes', '()', '90.0')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple) and value:
        if all(isinstance(item, int) for item in value):
            return " × ".join(f"{item:,}" for item in value)
        if all(item is None or isinstance(item, str) for item in value):
            return ", ".join(item or "?" for item in value)
    return str(value)


def columns(
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    width: int | None = None,
    styles: Mapping[int, str] | None = None,
) -> str:
    """Lay out a table as text, without columns that are empty; letters that would control a terminal are escaped.

    Parameters
    ----------
    rows : sequence of rows of str
        The cells, row by row.
    right : sequence of int
        Numbers of the columns to align at the right.
    width : int, optional
        The most cells in a line: cells of the widest columns are wrapped at words.
    styles : mapping of int to str, optional
        Styles of columns, as for `painted`.

    Examples
    --------
    >>> print(columns([["array", "12", "x"], ["group", "9", "data"]], right=[1]))
    array  12  x
    group   9  data
    >>> print(columns([["title", "monthly means of temperature"], ["x", "3"]], width=24))
    title  monthly means of
           temperature
    x      3
    """
    most = max(map(len, rows), default=0)
    rows = [(*map(printable, row), *[""] * (most - len(row))) for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*rows)]
    if width is not None:
        _narrow(widths, rows, width)
    lines = []
    for row in rows:
        parts = [[cell] if cells_of(cell) <= room else wrapped(cell, room) for cell, room in zip(row, widths)]
        for number in range(max(map(len, parts), default=0)):
            words = []
            for column, (part, room) in enumerate(zip(parts, widths)):
                if not room:
                    continue
                cell = part[number] if number < len(part) else ""
                cell = padded(cell, room, right=column in right)
                words.append(painted(cell, styles[column]) if styles and column in styles else cell)
            lines.append((" " * _GAP).join(words).rstrip())
    return "\n".join(lines)


def _narrow(widths: list[int], rows: Sequence[Sequence[str]], width: int) -> None:
    """Make the widest columns narrower until a line fits; a column keeps the room of its longest word."""
    floors = [
        min(room, max((cells_of(word) for row in rows for word in row[column].split()), default=0))
        for column, room in enumerate(widths)
    ]
    for breaks in (False, True):  # words are broken only if nothing else helps
        if breaks:
            floors = [min(floor, _NARROWEST) for floor in floors]
        while sum(widths) + _GAP * (sum(map(bool, widths)) - 1) > width:
            able = [column for column, room in enumerate(widths) if room > floors[column]]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1
