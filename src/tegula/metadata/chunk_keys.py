"""Chunk key encodings: conversion of grid coordinates to the key of a chunk, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tegula.runtime.deferred import matcher
from tegula.runtime.frozen import Frozen

__all__ = ["BCOLZ_KEYS", "ENCODINGS", "N5_KEYS", "V1_KEYS", "V2_KEYS", "ChunkKeyEncoding", "default_keys", "v2_keys"]

_NUMBER = matcher(r"0|[1-9][0-9]{0,18}")


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
    """

    separator: str
    prefix: str
    suffix: str
    scalar: str
    first_only: bool = False
    is_reversed: bool = False

    def encode(self, coords: Sequence[int]) -> str:
        """Return the key of the chunk at `coords`."""
        return _template(self, len(coords)).format(*coords)

    def template(self, ndim: int) -> str:
        """Return the format string that turns the coordinates of a chunk of `ndim` dimensions into its key.

        Examples
        --------
        >>> default_keys().template(2), default_keys().template(2).format(0, 3)
        ('c/{0}/{1}', 'c/0/3')
        """
        return _template(self, ndim)

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates of the chunk whose key is `key`, or ``None`` if it is not the key of a chunk."""
        if ndim == 0:
            return () if key and key == self.scalar else None
        if not key.startswith(self.prefix) or not key.endswith(self.suffix):
            return None
        parts = key[len(self.prefix) : len(key) - len(self.suffix)].split(self.separator)
        if len(parts) != (1 if self.first_only else ndim) or not all(map(_NUMBER, parts)):
            return None
        coords = (*map(int, parts), *(0,) * (ndim - len(parts)))
        return coords[::-1] if self.is_reversed else coords


@lru_cache(64)
def _template(keys: ChunkKeyEncoding, ndim: int) -> str:
    if not ndim:
        return _literal(keys.scalar)
    separator = _literal(keys.separator)
    axes = range(1 if keys.first_only else ndim)
    numbers = separator.join([f"{{{axis}}}" for axis in (axes[::-1] if keys.is_reversed else axes)])
    return _literal(keys.prefix) + numbers + _literal(keys.suffix)


def _literal(text: str) -> str:
    """Escape the braces of `text`, which have a meaning in format strings."""
    return text.replace("{", "{{").replace("}", "}}")


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
