"""Reservations of a length, for stores without locks: random blanks after the document that holds the length.

Readers ignore blanks and tabs after a JSON document. A document that ends in 64 of them is *reserved*; their order is
the mark of this reservation. A writer that finds the reservation of another writer waits until it ends, or until it has
not changed for `PATIENCE`. Then it assumes that the other writer is dead or has stalled, and replaces the reservation.
It measures this time by its own clock; clocks are never compared.

A reservation is not a lock. A writer that lost its reservation notices when it writes the length, and starts again.
"""

from __future__ import annotations

import os
import re
import time
from typing import Final

from tegula.stores import Store

__all__ = ["PATIENCE", "Reservation", "keep_mark", "needs_reservation", "unmarked"]

PATIENCE: Final = 20.0  # seconds, longer than a few requests and their retries take
_BITS: Final = 64
_is_mark = re.compile(rb"[ \t]{%d}" % _BITS).fullmatch


def needs_reservation(store: Store) -> bool:
    """Return whether writers wait for each other's reservations: in a remote store, or one without fresh generations.

    In other stores a lost race costs less than waiting.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> needs_reservation(MemoryStore())
    False
    """
    return not store.fresh_generations or store.is_remote


def _find_mark(raw: bytes) -> re.Match[bytes] | None:
    return _is_mark(raw, max(len(raw) - _BITS, 0))


def unmarked(raw: bytes) -> bytes:
    """Return a document without a reservation.

    Examples
    --------
    >>> unmarked(Reservation().renew(b"{}")), unmarked(b"{} ")
    (b'{}', b'{} ')
    """
    return raw[:-_BITS] if _find_mark(raw) else raw


def keep_mark(old: bytes, new: bytes) -> bytes:
    """Return a changed document with the reservation that it had: a change of attributes does not end it.

    Examples
    --------
    >>> reserved = Reservation().renew(b"{}")
    >>> keep_mark(reserved, b'{"a": 1}') == b'{"a": 1}' + reserved[2:], keep_mark(b"{}", b"[]")
    (True, b'[]')
    """
    match = _find_mark(old)
    return unmarked(new) + match[0] if match else new


class Reservation:
    """The reservations that one operation makes, one after another, and those of other writers that it has seen.

    Examples
    --------
    >>> mine, other = Reservation(), Reservation()
    >>> reserved = other.renew(b"{}")
    >>> other.may_start(reserved), mine.may_start(reserved), mine.may_start(b"{}")
    (True, False, True)
    """

    def __init__(self) -> None:
        self._mark = b""
        self._made = 0.0
        self._seen = b""
        self._seen_at = 0.0

    @property
    def is_old(self) -> bool:
        """``True`` once the reservation should be renewed, before a waiting writer assumes that this one is dead."""
        return time.monotonic() - self._made > PATIENCE / 4

    def marks(self, raw: bytes) -> bool:
        """Return whether a document has this reservation."""
        return self._mark != b"" and raw.endswith(self._mark)

    def renew(self, raw: bytes) -> bytes:
        """Return a document with a new reservation in place of any other."""
        bits = f"{int.from_bytes(os.urandom(_BITS // 8), 'big'):0{_BITS}b}"
        self._mark = bits.replace("0", " ").replace("1", "\t").encode()
        self._made = time.monotonic()
        return unmarked(raw) + self._mark

    def may_start(self, raw: bytes) -> bool:
        """Return whether a document has no reservation, or that of this operation or of a stalled writer."""
        match = _find_mark(raw)
        if match is None or self.marks(raw):
            return True
        if match[0] != self._seen:
            self._seen, self._seen_at = match[0], time.monotonic()
        return time.monotonic() - self._seen_at > PATIENCE
