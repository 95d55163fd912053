"""A few members of an object in a large JSON document written anew, and every other byte left as it is.

A change of one attribute among many should not take as long as writing all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from tegula.formats.documents import MAX_BYTES, MAX_DEPTH, Indenter, Style, depth_of, dump, load, style_of
from tegula.formats.members import Members, find_members

__all__ = ["Absent", "spliced"]

Edit: TypeAlias = tuple[int, int, str]  # the bytes from here to there become this text
_LARGE: Final = 2**15


class Absent:
    """Stands for the value of a member that is to be removed."""


def spliced(
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
        The names of the members, one inside the other, that lead to the object.
    old : mapping of str to Any
        What the object says now.
    changes : mapping of str to Any
        The new values; `Absent` for a member to remove.
    fresh : Style
        How a new document is written: whether its members are sorted.

    Returns
    -------
    (bytes, dict) or None
        The new document, and what the object says then. ``None`` where the document is small, laid out in an
        unusual way, too large or too deep after the change, or has repeated or escaped names: then it is parsed and
        written as a whole.

    Raises
    ------
    MetadataError
        If a value has no JSON form.

    Examples
    --------
    >>> raw = b'{\\n  "a": "' + b"x" * 40000 + b'",\\n  "b": [ 2,3 ]\\n}'
    >>> new, content = spliced(raw, "zarr.json", (), {"a": "x" * 40000, "b": [2, 3]}, {"c": (4,)}, Style(indent=2))
    >>> new[-40:], content["c"]
    (b'x",\\n  "b": [ 2,3 ],\\n  "c": [\\n    4\\n  ]\\n}', [4])
    """
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
    values = load(dump({name: value for name, value in changes.items() if value is not Absent}, key, style), key)
    edits = _edits(levels[-1], names, changes, style, "\n" + " " * (style.indent or 0) * (len(chain) + 1))
    if edits is None:
        return None
    pieces, at = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[0]):  # which keeps the order of those at one place
        pieces += [raw[at:start], text.encode("utf-8")]
        at = end
    new = b"".join([*pieces, raw[at:]])
    if len(new) > MAX_BYTES or depth_of(values) + len(chain) > MAX_DEPTH:
        return None
    content = {**old, **values}
    for name in changes.keys() - values.keys():
        del content[name]
    return new, dict(sorted(content.items())) if style.sort_keys and len(content) > len(old) else content


def _edits(
    members: Members, names: list[str], changes: Mapping[str, Any], style: Style, line: str
) -> list[Edit] | None:
    """Say what becomes of which bytes; ``None`` where a member is removed beside other changes, or none is left."""
    indenter = Indenter(style)
    edits: list[Edit] = []
    for name in sorted(changes) if style.sort_keys else changes:
        # the member itself, or the one before which it would be
        at = bisect_left(names, name) if style.sort_keys else names.index(name) if name in names else len(names)
        there = at < len(names) and names[at] == name
        place = members.place(at, names[at]) if at < len(names) else (0, 0, 0)
        before = members.place(at - 1, names[at - 1]) if at else (0, 0, 0)
        if place is None or before is None:
            return None
        if changes[name] is Absent:
            if len(changes) > 1 or len(names) == 1:
                return None
            behind = members.place(1, names[1])
            if behind is None:
                return None
            # with the comma before it; the first one with the comma behind it
            edits.append((before[2], place[2], "") if at else (place[0], behind[0], ""))
            continue
        text = indenter.text(changes[name], line)
        if there:
            edits.append((place[1], place[2], text))
        elif at:
            edits.append((before[2], before[2], f",{line}{indenter.name(name)}: {text}"))
        else:
            edits.append((place[0], place[0], f"{indenter.name(name)}: {text},{line}"))
    return edits
