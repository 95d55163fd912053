"""Sweeping: the first write of a process into a directory removes the temporary files of dead writers there."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tegula.stores.local.directories import Directory

__all__ = ["SWEPT", "note_swept", "sweep"]

_REMEMBERED = 65536
SWEPT: Final[set[str]] = set()
"""Paths of directories that this process has swept, or made."""


def note_swept(path: str) -> None:
    """Note that a directory need not be swept."""
    if len(SWEPT) >= _REMEMBERED:
        SWEPT.clear()
    SWEPT.add(path)


def sweep(path: str, directory: Directory) -> None:
    """Remove the temporary files of dead writers from a directory, once per process, since this lists the directory."""
    note_swept(path)
    with suppress(OSError):
        directory.reclaim()
