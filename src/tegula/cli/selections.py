"""Selections as text, as they stand between the brackets of ``a[...]``."""

from __future__ import annotations

import os.path
import re
from typing import Any, Final

from tegula.errors import SelectionError

__all__ = ["parse_selection", "split_selection"]

_INT: Final = r"[+-]?[0-9]{1,18}"
_BARE: Final = r"[^\W\d][\w.-]*"
_QUOTED: Final = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_NAME: Final = re.compile(rf"{_QUOTED}|{_BARE}", re.DOTALL)
_ITEM: Final = re.compile(
    rf"""\s*(?:
        (?P<ellipsis>\.\.\.)
      | (?P<slice>(?P<start>{_INT})?\s*:\s*(?P<stop>{_INT})?\s*(?: :\s*(?P<step>{_INT})? )?)
      | (?P<int>{_INT})
      | (?P<name>{_QUOTED}|{_BARE})
      | (?P<names>\[ \s*(?:{_QUOTED}|{_BARE})\s* (?:,\s*(?:{_QUOTED}|{_BARE})\s*)* \])
    )\s*(?:,|\Z)""",
    re.VERBOSE | re.DOTALL,
)


def parse_selection(text: str) -> tuple[Any, ...]:
    """Read a selection.

    Parameters
    ----------
    text : str
        Ints, slices, ``...`` and names of fields, quoted or bare, separated by commas; a list of names in brackets
        selects several fields. The whole may stand in brackets.

    Returns
    -------
    tuple of int, slice, Ellipsis, str and list of str
        What to put between the brackets of an array.

    Raises
    ------
    SelectionError
        If the text is no selection.

    Examples
    --------
    >>> parse_selection("0:10, ..., -1")
    (slice(0, 10, None), Ellipsis, -1)
    >>> parse_selection("[::2, 'wind speed', u]")
    (slice(None, None, 2), 'wind speed', 'u')
    """
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        try:
            return _parse_items(text[1:-1])
        except SelectionError:
            return _parse_items(text)  # begins and ends with a list of names
    return _parse_items(text)


def _parse_items(text: str) -> tuple[Any, ...]:
    text = text.strip()
    items: list[Any] = []
    place = 0
    while place < len(text) or not items:
        match = _ITEM.match(text, place)
        if match is None:
            rest = f"{text[place:]!r:.40} is no int, slice, '...' or field"
            raise SelectionError(f"{text!r:.80} is not a selection: {rest}")
        items.append(_item(match, text))
        place = match.end()
    return tuple(items)


def _item(match: re.Match[str], text: str) -> Any:
    if match["ellipsis"]:
        return ...
    if match["int"]:
        return int(match["int"])
    if match["slice"]:
        start, stop, step = (None if match[part] is None else int(match[part]) for part in ("start", "stop", "step"))
        if step == 0:
            raise SelectionError(f"{text!r:.80} is not a selection: the step of a slice can't be 0")
        return slice(start, stop, step)
    if match["name"]:
        return _name(match["name"])
    return [_name(name) for name in _NAME.findall(match["names"])]


def _name(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "'\"" else text


def split_selection(place: str) -> tuple[str, tuple[Any, ...] | None]:
    """Split ``path[selection]``; what exists under the whole name is a path, brackets or not.

    Raises
    ------
    SelectionError
        If there are brackets at the end, but no selection in them.

    Examples
    --------
    >>> split_selection("x.zarr::a[0, ::2]")
    ('x.zarr::a', (0, slice(None, None, 2)))
    >>> split_selection("x.zarr")
    ('x.zarr', None)
    """
    if not place.endswith("]") or os.path.lexists(place):
        return place, None
    reason = SelectionError(f"{place!r:.80} ends in a bracket that was never opened")
    start = place.rfind("[")
    while start > 0:  # names of fields may hold brackets, so the last one need not be the first of the selection
        try:
            return place[:start], _parse_items(place[start + 1 : -1])
        except SelectionError as error:
            reason = error
        start = place.rfind("[", 0, start)
    raise reason
