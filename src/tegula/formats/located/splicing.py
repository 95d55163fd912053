"""Changing a few members of an object in a large JSON document, while keeping every other byte.

So changing one of many attributes does not take as long as writing all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from tegula import config
from tegula.formats.documents import MAX_DEPTH, depth_of, load, rewrite
from tegula.formats.json_encoding import Indenter, as_bytes, dump, style_of
from tegula.formats.keys import Style
from tegula.formats.located.members import Members, find_members

__all__ = ["Absent", "splice", "with_values"]

Edit: TypeAlias = tuple[int, int, str]
"""Start and end of the bytes to replace, and the new text."""

_LARGE: Final = 2**15  # a smaller document is written as a whole, which is not slower


class Absent:
    """The value of a member to remove."""


def splice(
    raw: bytes, key: str, chain: Sequence[str], old: Mapping[str, Any], changes: Mapping[str, Any], fresh: Style
) -> tuple[bytes, dict[str, Any]] | None:
    """Change some members of one of the objects in a document.

    Parameters
    ----------
    raw : bytes
        The document.
    key : str
        Its key, for errors.
    chain : sequence of str
        Names of the nested members that lead to the object, outermost first.
    old : mapping of str to Any
        The parsed object.
    changes : mapping of str to Any
        The new values; `Absent` for a member to remove.
    fresh : Style
        Layout of a new document; a document with the same indent is assumed to have sorted members if this layout has.

    Returns
    -------
    (bytes, dict) or None
        The new document and the new content of the object. ``None`` if the document is small, has an unusual layout or
        repeated or escaped names, or would become too large or too deep; the caller then parses and writes all of it.

    Raises
    ------
    MetadataError
        If a value has no JSON form.

    Examples
    --------
    >>> raw = b'{\\n  "a": "' + b"x" * 40000 + b'",\\n  "b": [ 2,3 ]\\n}'
    >>> new, content = splice(raw, "zarr.json", (), {"a": "x" * 40000, "b": [2, 3]}, {"c": (4,)}, Style(indent=2))
    >>> new[-40:], content["c"]
    (b'x",\\n  "b": [ 2,3 ],\\n  "c": [\\n    4\\n  ]\\n}', [4])
    """
    # the members of the object must be where a writer of this layout puts them
    if len(raw) <= _LARGE or not old or not all(isinstance(name, str) for name in changes):
        return None
    style, names = style_of(raw), [*old]
    if style.indent is None:
        return None
    levels = find_members(raw, chain)
    if levels is None or len(levels) != len(chain) + 1 or len(levels[-1]) != len(names):
        return None
    if style.indent == fresh.indent:
        style = replace(style, sort_keys=fresh.sort_keys)
    if style.sort_keys and names != sorted(names):
        return None

    # replace, insert and remove members
    values = load(dump({name: value for name, value in changes.items() if value is not Absent}, key, style), key)
    edits = _edits(levels[-1], names, changes, style, "\n" + " " * (style.indent or 0) * (len(chain) + 1))
    if edits is None:
        return None
    new = _edited(raw, edits)

    # the result must be within the limits of `load`
    if len(new) > config.current().max_input_bytes or depth_of(values) + len(chain) > MAX_DEPTH:
        return None
    content = {**old, **values}
    for name in changes.keys() - values.keys():
        del content[name]
    return new, dict(sorted(content.items())) if style.sort_keys and len(content) > len(old) else content


def with_values(raw: bytes, key: str, values: Mapping[str, Any]) -> bytes:
    """Set members of a document, while keeping every other byte if its layout and the members are as usual.

    Examples
    --------
    >>> with_values(b'{"a": 1,\t"b": 2}', "zarr.json", {"b": [True]})
    b'{"a": 1,\t"b": [true]}'
    """
    style, levels = style_of(raw), find_members(raw, ())
    names = [*load(raw, key)]
    edits: list[Edit] = []
    usual = levels is not None and len(levels[0]) == len(names)
    for name, value in values.items() if usual else ():
        span = levels[0].span(names.index(name), name) if levels and name in names else None
        if span is None:
            break
        line = "\n" + " " * (style.indent or 0)
        if style.indent is None:
            text = dump({"": value}, key, replace(style, ending=""))[len(b'{"":') : -1].decode().strip()
        else:
            text = Indenter(style).text(value, line)
        edits.append((span[1], span[2], text))
    if len(edits) < len(values):
        return rewrite({key: raw}, key, values, style)
    return _edited(raw, edits)


def _edited(raw: bytes, edits: list[Edit]) -> bytes:
    pieces, at = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[0]):  # stable: insertions at one position keep order
        pieces += [raw[at:start], as_bytes(text)]
        at = end
    return b"".join([*pieces, raw[at:]])


def _edits(
    members: Members, names: list[str], changes: Mapping[str, Any], style: Style, line: str
) -> list[Edit] | None:
    """Return the edits for `changes`; ``None`` if one of several changes is a removal, or no member would be left.

    Parameters
    ----------
    members, names : Members, list of str
        The members of the object, and their names.
    changes, style
        As in `splice`.
    line : str
        Line break and indent of the members.
    """
    indenter = Indenter(style)
    edits: list[Edit] = []
    for name in sorted(changes) if style.sort_keys else changes:
        # find the member itself, or the one to insert it before
        at = bisect_left(names, name) if style.sort_keys else names.index(name) if name in names else len(names)
        there = at < len(names) and names[at] == name
        span = members.span(at, names[at]) if at < len(names) else (0, 0, 0)
        before = members.span(at - 1, names[at - 1]) if at else (0, 0, 0)
        if span is None or before is None:
            return None

        # remove it, with the comma before it, or after it if it is the first
        if changes[name] is Absent:
            if len(changes) > 1 or len(names) == 1:
                return None
            behind = members.span(1, names[1])
            if behind is None:
                return None
            edits.append((before[2], span[2], "") if at else (span[0], behind[0], ""))
            continue

        # replace its value, or insert it after the member before it, or first
        text = indenter.text(changes[name], line)
        if there:
            edits.append((span[1], span[2], text))
        elif at:
            edits.append((before[2], before[2], f",{line}{indenter.name(name)}: {text}"))
        else:
            edits.append((span[0], span[0], f"{indenter.name(name)}: {text},{line}"))
    return edits
