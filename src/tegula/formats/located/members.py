"""Members of an object in a large JSON document, located by position and parsed on demand.

Consolidated metadata holds the documents of all nodes of a hierarchy, and opening one node should not parse all of
them. One pass over the document finds the positions of the members: in the kernel this takes a few milliseconds;
without it, the parser of the standard library builds and discards every value.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.config.budget import check_values
from tegula.formats.documents import depth_of

__all__ = ["Members", "find_members", "index_members", "with_shape"]

Level: TypeAlias = npt.NDArray[np.uint32]
_KEY, _KEY_END, _VALUE, _VALUE_END, _SUM, _FIELDS = range(6)
_BRACE: Final = ord("{")
_DECODER: Final = json.JSONDecoder()
_FEW: Final = 8  # lookups after which a dictionary of the keys pays off
_MAX_DEPTH: Final = 60  # a deeper value is left to `load`, which checks the exact limit
_past_space: Final = re.compile(r"[ \t\n\r]*").match
_numbers: Final = re.compile(rb"(?<=[\[,\s])(?:0|[1-9][0-9]*)(?=[\],\s])")
_plain_list: Final = re.compile(rb"\[[0-9,\s]*\]").fullmatch
_around: tuple[bytes, bytes] = b"", b""  # of the numbers that were replaced last; an array that grows does so often
_past_string: Final = re.compile(r'"([^"\\\x00-\x1f]*)"').match


class Members:
    """The members of a JSON object, in order.

    Parameters
    ----------
    raw : bytes
        The document.
    level : ndarray of uint32
        Five numbers for each member: start and end of its key in the document, start and end of its value, CRC-32 of
        its key.

    Examples
    --------
    >>> (members,) = find_members(b'{"a": 1, "b": {}}', ())
    >>> members.get("a"), members.keys()
    (b'1', ['b'])
    """

    def __init__(self, raw: bytes, level: Level) -> None:
        self._raw = raw
        self._level = level.reshape(-1, _FIELDS)
        self._spans: dict[bytes, tuple[int, int]] | None = None
        self._asked = 0

    def get(self, key: str) -> bytes | None:
        """Return the text of the value of `key`, or ``None``; as in Python's parser, the last of several is used."""
        # a dictionary of the keys pays off after some lookups
        name = key.encode("utf-8", "surrogatepass")
        self._asked += 1
        if self._spans is None and self._asked > _FEW:
            bounds = self._level[:, :_SUM].tolist()
            self._spans = {self._raw[first:last]: (start, end) for first, last, start, end in bounds}
        if self._spans is not None:
            span = self._spans.get(name)
            return None if span is None else self._raw[span[0] : span[1]]

        # before that, compare checksums, and keys where these are equal
        for index in np.flatnonzero(self._level[:, _SUM] == zlib.crc32(name))[::-1]:
            first, last, start, end = self._level[index, :_SUM].tolist()
            if self._raw[first:last] == name:
                return self._raw[start:end]
        return None

    def keys(self) -> list[str]:
        """Return the keys whose value is an object; of several members with the same key, the last one is used."""
        raw = self._raw
        bounds = self._level[:, [_KEY, _KEY_END, _VALUE]].tolist()
        are_objects = {raw[start:end]: raw[value] == _BRACE for start, end, value in bounds}
        return [key.decode() for key, is_object in are_objects.items() if is_object]

    def __len__(self) -> int:
        return len(self._level)

    def span(self, index: int, name: str) -> tuple[int, int, int] | None:
        """Return the start of a member, and start and end of its value; ``None`` if its name is not `name`."""
        first, last, start, end = self._level[index, :_SUM].tolist()
        return (first - 1, start, end) if self._raw[first:last] == name.encode("utf-8", "surrogatepass") else None

    def parsed(self, *, without: str) -> dict[str, Any]:
        """Parse all members except one, which becomes an empty object."""
        keys = [self._raw[start:end].decode() for start, end in self._level[:, [_KEY, _KEY_END]].tolist()]
        return {key: {} if key == without else json.loads((self.get(key) or b"").decode()) for key in keys}


def find_members(raw: bytes, chain: Sequence[str]) -> list[Members] | None:
    """Locate the members of a document, and those of the objects that `chain` leads to.

    Parameters
    ----------
    raw : bytes
        The document.
    chain : sequence of str
        Names of nested members, outermost first.

    Returns
    -------
    list of Members or None
        The members of the document, then of each object along `chain` that exists. ``None`` if the document is not
        valid, or names along `chain` are escaped or repeated; the caller then parses it with `load`.
    """
    levels = _fastest()(raw, [*chain])
    return None if levels is None else [Members(raw, level) for level in levels]


def with_shape(raw: bytes, shape: Sequence[int]) -> bytes | None:
    """Replace the numbers in the member ``shape`` of a document, and keep every other byte.

    Parameters
    ----------
    raw : bytes
        The document.
    shape : sequence of int
        The new numbers.

    Returns
    -------
    bytes or None
        ``None`` if the member is not a plain list of as many numbers; the caller then writes the whole document.

    Examples
    --------
    >>> with_shape(b'{"shape": [ 3,4 ], "chunks": [3, 4]}', (10, 4))
    b'{"shape": [ 10,4 ], "chunks": [3, 4]}'
    """
    global _around
    if min(shape, default=0) < 0 or max(shape, default=0) >= 2**63:
        return None
    before, after = _around
    old = raw[len(before) : len(raw) - len(after)]
    if not (before and raw.startswith(before) and raw.endswith(after) and _plain_list(old)):
        levels = _fastest()(raw, [])
        rows = [] if levels is None else levels[0].reshape(-1, _FIELDS).tolist()
        spans = [(start, end) for first, last, start, end, _ in rows if raw[first:last] == b"shape"]
        if len(spans) != 1:
            return None
        start, end = spans[0]
        before, old, after = raw[:start], raw[start:end], raw[end:]
        if _plain_list(old) is None:
            return None
        _around = before, after
    between = _numbers.split(old)
    if len(between) != len(shape) + 1:
        return None
    return b"".join([before, *chain.from_iterable(zip(between, map(b"%d".__mod__, shape))), between[-1], after])


@cache
def _fastest() -> Callable[[bytes, list[str]], list[Level] | None]:
    try:
        kernel: Any = import_module("tegula._kernel")
    except ImportError:
        return index_members
    function: Callable[[bytes, list[str]], list[Level] | None] = getattr(kernel, "index_members", index_members)
    return function


def index_members(raw: bytes, chain: list[str]) -> list[Level] | None:
    """Return the `level` arrays of `Members` for the document and along `chain`, as the kernel's function does.

    Returns
    -------
    list of ndarray of uint32, or None
        ``None`` as in `find_members`.
    """
    levels: list[list[int]] = []
    try:
        check_values(raw)  # the caller's `load` raises its error
        raw.decode("utf-8")  # raises if it is not
        text = raw.decode("latin-1")  # one character for each byte; all of JSON's syntax is ASCII
        names = [name.encode("utf-8", "surrogatepass").decode("latin-1") for name in chain]
        end = _past(_past_space, text, _object(text, _past(_past_space, text, 0), names, levels))
    except (ValueError, IndexError, RecursionError):
        return None
    return [np.array(level, np.uint32) for level in levels] if end == len(text) else None


def _past(pattern: Callable[[str, int], re.Match[str] | None], text: str, at: int) -> int:
    """Return the position after a match of `pattern` at `at`; raise if there is none."""
    match = pattern(text, at)
    if match is None:
        raise ValueError
    return match.end()


def _object(text: str, at: int, chain: list[str], levels: list[list[int]]) -> int:
    """Append the members of the object at position `at` to `levels`, and return the position after the object."""
    level: list[int] = []
    levels.append(level)
    at = _expect(text, at, "{")
    if text[at] == "}":
        return at + 1
    followed = False
    while True:
        start, at = at + 1, _past(_past_string, text, at)
        name = text[start : at - 1]
        value = _expect(text, _past(_past_space, text, at), ":")
        on_chain = bool(chain) and name == chain[0]
        if on_chain and followed:
            raise ValueError
        followed = followed or on_chain
        end = _object(text, value, chain[1:], levels) if on_chain and text[value] == "{" else _past_value(text, value)
        level += (start, at - 1, value, end, zlib.crc32(name.encode("latin-1")))
        at = _past(_past_space, text, end)
        if text[at] == "}":
            return at + 1
        at = _expect(text, at, ",")


def _expect(text: str, at: int, character: str) -> int:
    """Return the position after `character` and the white space that follows it; raise if it is not at `at`."""
    if text[at] != character:
        raise ValueError
    return _past(_past_space, text, at + 1)


def _past_value(text: str, at: int) -> int:
    """Return the position after the value at `at`; raise if it is not valid or nested too deeply."""
    value, end = _DECODER.raw_decode(text, at)
    if text.count("[", at, end) + text.count("{", at, end) > _MAX_DEPTH and depth_of(value) > _MAX_DEPTH:
        raise ValueError
    return end
