"""Chunk key encodings: conversion of grid coordinates to the key of a chunk, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tegula.runtime.deferred import matcher
from tegula.runtime.frozen import Frozen

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "BCOLZ_KEYS",
    "ENCODINGS",
    "N5_KEYS",
    "V1_KEYS",
    "V2_KEYS",
    "ChunkKeyEncoding",
    "default_keys",
    "fanout_keys",
    "v2_keys",
]

_NUMBER = matcher(r"0|[1-9][0-9]{0,18}")
_DIGITS = "(?:0|[1-9][0-9]{0,17})"


class ChunkKeyEncoding(Frozen):
    """The mapping of grid coordinates to chunk keys (Zarr v3 core, section "Chunk key encoding").

    Parameters
    ----------
    separator : str
        Text between two coordinates.
    prefix, suffix : str
        Text before the first and after the last coordinate.
    scalar : str
        Key of the only chunk of a 0-d array; ``""`` where the format has no such arrays.
    first_only : bool
        True if the key holds the first coordinate only, since all others are always 0 (bcolz).
    is_reversed : bool
        True if the key holds the coordinates in reverse order (N5).
    digits : int
        If not 0, each coordinate is written as parts of so many decimal digits, after the number of parts less one
        (``fanout`` of Zarr v3).

    Examples
    --------
    >>> default_keys().encode((0, 3)), V2_KEYS.encode((0, 3)), V2_KEYS.encode(())
    ('c/0/3', '0.3', '0')
    >>> default_keys().decode("c/10/2", 2), default_keys().decode("c/01/2", 2)
    ((10, 2), None)
    >>> BCOLZ_KEYS.encode((3, 0)), BCOLZ_KEYS.decode("data/__3.blp", 2)
    ('data/__3.blp', (3, 0))
    >>> N5_KEYS.encode((3, 0)), N5_KEYS.decode("0/3", 2)
    ('0/3', (3, 0))
    >>> fanout_keys(3).encode((1234, 5)), fanout_keys(3).decode("c/1/001/234/0/005", 2)
    ('c/1/001/234/0/005', (1234, 5))
    """

    separator: str
    prefix: str
    suffix: str
    scalar: str
    first_only: bool = False
    is_reversed: bool = False
    digits: int = 0

    def encode(self, coords: Sequence[int]) -> str:
        """Return the key of the chunk at `coords`."""
        return _template(self, len(coords)).format(*coords)

    def template(self, ndim: int, before: str = "") -> str:
        """Return the format string that turns the coordinates of a chunk of `ndim` dimensions into its key.

        It is empty if there is no key. `before` is text in front of each key.

        Examples
        --------
        >>> default_keys().template(2), default_keys().template(2, "a{}/").format(0, 3)
        ('c/{0}/{1}', 'a{}/c/0/3')
        """
        template = _template(self, ndim)
        if not before or not template:
            return template
        return _Parts(before + template, self) if self.digits and ndim else _literal(before) + template

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk whose key is `key`, or ``None`` if it is not the key of a chunk."""
        if ndim == 0:
            return () if key and key == self.scalar else None
        if not key.startswith(self.prefix) or not key.endswith(self.suffix):
            return None
        parts = key[len(self.prefix) : len(key) - len(self.suffix)].split(self.separator)
        if self.digits:
            coords = _joined(parts, self.digits)
            return coords if coords is not None and len(coords) == ndim else None
        if len(parts) != (1 if self.first_only else ndim) or not all(map(_NUMBER, parts)):
            return None
        coords = (*map(int, parts), *(0,) * (ndim - len(parts)))
        return coords[::-1] if self.is_reversed else coords

    def decode_many(self, keys: Sequence[str], ndim: int, before: str = "") -> npt.NDArray[np.int64] | None:
        """Return the coordinates of many chunks at once, one in a row; ``None`` if one of the keys may be no chunk's.

        `before` is text in front of each key.

        Examples
        --------
        >>> default_keys().decode_many(["a/c/0/12", "a/c/3/4"], 2, "a/")
        array([[ 0, 12],
               [ 3,  4]])
        >>> default_keys().decode_many(["c/0/1", "c/0/x"], 2) is None
        True
        """
        if not ndim or self.digits or not keys:
            return None
        width = 1 if self.first_only else ndim
        start, separator = before + self.prefix, self.separator if width > 1 else ""
        text = "\n".join(keys) + "\n"
        if not _many(start, separator, self.suffix, width).fullmatch(text):
            return None
        text = f"\n{text}".replace(f"\n{start}", "\n").replace(f"{self.suffix}\n", "\n")
        found = np.fromstring(text.replace(separator, " ") if separator else text, np.int64, sep=" ")
        found = found.reshape(len(keys), width)
        if self.first_only:
            found = np.pad(found, ((0, 0), (0, ndim - 1)))
        return np.ascontiguousarray(found[:, ::-1]) if self.is_reversed else found


@lru_cache(64)
def _many(start: str, separator: str, suffix: str, width: int) -> re.Pattern[str]:
    """Return the pattern of lines with a key in each."""
    more = rf"(?:{re.escape(separator)}{_DIGITS}){{{width - 1}}}" if width > 1 else ""
    return re.compile(rf"(?>{re.escape(start)}{_DIGITS}{more}{re.escape(suffix)}\n)*+")


@lru_cache(64)
def _template(keys: ChunkKeyEncoding, ndim: int) -> str:
    if not ndim:
        return _literal(keys.scalar)
    if keys.digits:
        return _Parts(keys.prefix, keys)
    separator = _literal(keys.separator)
    axes = range(1 if keys.first_only else ndim)
    numbers = separator.join([f"{{{axis}}}" for axis in (axes[::-1] if keys.is_reversed else axes)])
    return _literal(keys.prefix) + numbers + _literal(keys.suffix)


def _literal(text: str) -> str:
    """Escape the braces of `text`, which have a meaning in format strings."""
    return text.replace("{", "{{").replace("}", "}}")


class _Parts(str):
    """What is in front of keys whose coordinates are written as parts; used as a format string."""

    __slots__ = ("_keys",)
    _keys: ChunkKeyEncoding

    def __new__(cls, before: str, keys: ChunkKeyEncoding) -> _Parts:
        made = super().__new__(cls, before)
        made._keys = keys
        return made

    def format(self, *coords: object, **_: object) -> str:
        """Return the key of the chunk at `coords`."""
        parts: list[str] = []
        width = self._keys.digits
        for coord in map(str, coords):
            count = -(-len(coord) // width)
            padded = coord.zfill(count * width)
            parts += [str(count - 1), *(padded[at : at + width] for at in range(0, len(padded), width))]
        return f"{self}{self._keys.separator.join(parts)}{self._keys.suffix}"


def _joined(parts: list[str], digits: int) -> tuple[int, ...] | None:
    """Return the coordinates that parts of `digits` digits stand for; ``None`` if no chunk has these."""
    coords: list[int] = []
    at = 0
    while at < len(parts):
        if not _NUMBER(parts[at]) or len(parts[at]) > 2:
            return None
        stop = at + 2 + int(parts[at])
        some = parts[at + 1 : stop]
        text = "".join(some)
        if stop > len(parts) or any(len(part) != digits for part in some) or not (text.isascii() and text.isdigit()):
            return None
        if len(some) > 1 and not int(some[0]):
            return None
        coords.append(int(text))
        at = stop
    return (*coords,)


def fanout_keys(digits: int) -> ChunkKeyEncoding:
    """Return the encoding ``fanout``, ``c/1/001/234/0/005``: no directory has more than ``10**digits`` entries."""
    return ChunkKeyEncoding("/", "c/", "", "c", digits=digits)


def default_keys(separator: str = "/") -> ChunkKeyEncoding:
    """Return the ``default`` encoding of Zarr v3, ``c/0/3`` or ``c.0.3``."""
    return ChunkKeyEncoding(separator, f"c{separator}", "", "c")


def v2_keys(separator: str = ".") -> ChunkKeyEncoding:
    """Return the ``v2`` encoding, ``0.3`` or ``0/3``."""
    return ChunkKeyEncoding(separator, "", "", "0")


V2_KEYS = v2_keys()
ENCODINGS = (V2_KEYS, v2_keys("/"), default_keys(), default_keys("."))
"""The encodings of Zarr v2 and v3."""
V1_KEYS = ChunkKeyEncoding(".", "", "", "")
BCOLZ_KEYS = ChunkKeyEncoding("/", "data/__", ".blp", "", first_only=True)
N5_KEYS = ChunkKeyEncoding("/", "", "", "", is_reversed=True)
