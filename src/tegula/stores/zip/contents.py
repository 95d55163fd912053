"""The central directory of a zip archive, read from a file or from another store."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tegula.stores.arguments import is_key
from tegula.stores.zip.records import End, Member, ReadAt, check_odd, find_end, read_members, set_ends

__all__ = ["read_directory", "warn_of"]


def read_directory(
    read: ReadAt, size: int, reach: int | None = None, announce: Callable[[Sequence[Member]], Any] | None = None
) -> tuple[End, dict[str, Member], list[Member]]:
    """Read the central directory of an archive.

    Parameters
    ----------
    read : callable
        Returns bytes of the archive.
    size : int
        Length of the file or object that the archive is in.
    reach : int, optional
        How many bytes at its end are searched for the end of the archive.
    announce : callable, optional
        Called with the members whose headers are about to be read.

    Returns
    -------
    End
        The end record.
    dict of str to Member
        The members by name; of several members of one name, the last.
    list of Member
        Members whose names can't be keys.

    Raises
    ------
    StoreError
        If it is not a sound archive.
    OSError
        If it can't be read.
    """
    end = find_end(read, size, reach)
    found = [*read_members(read, end)]
    set_ends(found, end.directory)
    odd = [member for member in found if not is_key(member.name)]
    if odd and announce is not None:
        announce(odd)
    for member in odd:
        check_odd(read, member)
    return end, {member.name: member for member in found if is_key(member.name)}, odd


_warned: set[str] = set()  # archives that `warn_of` has warned about


def warn_of(path: str, odd: Sequence[Member]) -> None:
    """Warn about members whose names can't be keys, once per archive and process."""
    if not odd or path in _warned:
        return
    _warned.add(path)
    names = ", ".join(f"{member.name!r:.60}" for member in odd[:3])
    number = f"{len(odd)} members whose names" if len(odd) > 1 else "a member whose name"
    text = f"the archive {path} has {number} can't be a key, so nothing reads it: {names}"
    if len(odd) > 1:
        text = f"the archive {path} has {number} can't be keys, so nothing reads them: {names}{', …' * (len(odd) > 3)}"
    warnings.warn(text, stacklevel=2)
