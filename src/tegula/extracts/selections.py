"""Selections as text, written as between the brackets of ``a[...]``."""

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
    """Parse a selection.

    Parameters
    ----------
    text : str
        Ints, slices, ``...`` and names of fields, quoted or bare, separated by commas; a list of names in brackets
        selects several fields. The whole selection may be in brackets.

    Returns
    -------
    tuple of int, slice, Ellipsis, str and list of str
        The items of the selection.

    Raises
    ------
    SelectionError
        If the text is not a selection.

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
    position = 0
    while position < len(text) or not items:
        match = _ITEM.match(text, position)
        if match is None:
            part = f" in {text!r:.80}" if position else ""
            raise SelectionError(
                f"{text[position:]!r:.40}{part} selects nothing: give positions, as in 5 or 0:10, ... for all other "
                "axes, or names of fields"
            )
        items.append(_item(match, text))
        position = match.end()
    return tuple(items)


def _item(match: re.Match[str], text: str) -> Any:
    if match["ellipsis"]:
        return ...
    if match["int"]:
        return int(match["int"])
    if match["slice"]:
        start, stop, step = (None if match[part] is None else int(match[part]) for part in ("start", "stop", "step"))
        if step == 0:
            raise SelectionError(f"{text!r:.80}: the step of a slice can't be 0")
        return slice(start, stop, step)
    if match["name"]:
        return _name(match["name"])
    return [_name(name) for name in _NAME.findall(match["names"])]


def _name(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "'\"" else text


def split_selection(target: str) -> tuple[str, tuple[Any, ...] | None]:
    """Split ``target[selection]``, unless a file or directory of the whole name exists.

    Raises
    ------
    SelectionError
        If the target ends in brackets that do not hold a selection.

    Examples
    --------
    >>> split_selection("x.zarr::a[0, ::2]")
    ('x.zarr::a', (0, slice(None, None, 2)))
    >>> split_selection("x.zarr")
    ('x.zarr', None)
    """
    if not target.endswith("]") or os.path.lexists(target):
        return target, None
    reason = SelectionError(f"{target!r:.80} has a closing bracket without an opening one")
    start = target.rfind("[")
    while start > 0:  # names of fields may have brackets, so try each opening bracket from the last one
        try:
            return target[:start], _parse_items(target[start + 1 : -1])
        except SelectionError as error:
            reason = error
        start = target.rfind("[", 0, start)
    raise reason
