"""Sweeping: the first write of a process into a directory removes the temporary files of dead writers there."""

from __future__ import annotations

from contextlib import suppress

from tegula.stores.directories import Directory

__all__ = ["is_swept", "note_swept", "sweep"]

_REMEMBERED = 65536
_swept: set[str] = set()


def is_swept(path: str) -> bool:
    """Return whether this process has swept a directory, or made it."""
    return path in _swept


def note_swept(path: str) -> None:
    """Note that a directory need not be swept."""
    if len(_swept) >= _REMEMBERED:
        _swept.clear()
    _swept.add(path)


def sweep(path: str, directory: Directory) -> None:
    """Remove the temporary files of dead writers from a directory, once per process, since this lists the directory."""
    note_swept(path)
    with suppress(OSError):
        directory.reclaim()
