"""Chunk key encodings: grid coordinates to the key of a chunk, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["V1_KEYS", "V2_KEYS", "ChunkKeyEncoding", "default_keys", "v2_keys"]

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


@dataclass(frozen=True, slots=True)
class ChunkKeyEncoding:
    """How the key of a chunk is spelled (Zarr v3 core, "chunk key encoding").

    Parameters
    ----------
    separator : str
        What stands between two coordinates.
    prefix, suffix : str
        What stands before and after them.
    scalar : str
        The key of the only chunk of a 0-d array; ``""`` where the format has none.

    Examples
    --------
    >>> default_keys().encode((0, 3)), V2_KEYS.encode((0, 3)), V2_KEYS.encode(())
    ('c/0/3', '0.3', '0')
    >>> default_keys().decode("c/10/2", 2), default_keys().decode("c/01/2", 2)
    ((10, 2), None)
    """

    separator: str
    prefix: str
    suffix: str
    scalar: str

    def encode(self, coords: Sequence[int]) -> str:
        """Return the key of the chunk at `coords`."""
        if not coords:
            return self.scalar
        return self.prefix + self.separator.join(map(str, coords)) + self.suffix

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Return the coordinates that `key` stands for, or ``None`` if it is no chunk's key."""
        if ndim == 0:
            return () if key and key == self.scalar else None
        if not key.startswith(self.prefix) or not key.endswith(self.suffix):
            return None
        parts = key[len(self.prefix) : len(key) - len(self.suffix)].split(self.separator)
        if len(parts) != ndim or not all(map(_NUMBER, parts)):
            return None
        return tuple(map(int, parts))


def default_keys(separator: str = "/") -> ChunkKeyEncoding:
    """Return the ``default`` encoding of Zarr v3, ``c/0/3`` or ``c.0.3``."""
    return ChunkKeyEncoding(separator, f"c{separator}", "", "c")


def v2_keys(separator: str = ".") -> ChunkKeyEncoding:
    """Return the ``v2`` encoding, ``0.3`` or ``0/3``."""
    return ChunkKeyEncoding(separator, "", "", "0")


V2_KEYS = v2_keys()
V1_KEYS = ChunkKeyEncoding(".", "", "", "")
