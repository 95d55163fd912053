"""Owners: the processes that work on a job or a part of it, and whether they are alive."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from tegula.errors import MetadataError
from tegula.formats.documents import load

__all__ = ["LATEST", "Owner", "owner_of"]

_claims: Final[dict[str, None]] = {}  # claims of this process that have not ended
LATEST: Final = 10**11
"""The latest plausible time in a record, in seconds since 1970; a later one is damaged."""
_EXPIRES: Final = 600.0  # seconds without a sign of life, after which a job on another machine counts as abandoned


class Owner:
    """A process that works on a job, or on a part of it.

    Parameters
    ----------
    facts : mapping
        Its record in the ledger.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts

    @classmethod
    def here(cls, claim: str) -> dict[str, Any]:
        """Return the facts of this process, for one of its claims."""
        pid, host = os.getpid(), socket.gethostname()
        return {"host": host, "pid": pid, "began": _start_of(pid), "claim": claim, "seen": time.time()}

    @staticmethod
    def new_claim() -> str:
        """Make a claim of this process, which lasts until `end_claim`, and return its name."""
        claim = secrets.token_hex(8)
        _claims[claim] = None
        return claim

    @staticmethod
    def end_claim(claim: str) -> None:
        """Give up a claim of this process, even if the store still has a record of it."""
        _claims.pop(claim, None)

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive; for a process on another machine, whether it was seen recently."""
        facts = self.facts
        if facts.get("host") == socket.gethostname():
            pid = facts.get("pid")
            if pid == os.getpid() and facts.get("claim") not in _claims:
                return False  # a record that could not be deleted
            began = _start_of(pid) if type(pid) is int and pid > 0 else None
            return began is not None and began == facts.get("began")
        return time.time() - self._seen < _EXPIRES

    @property
    def _seen(self) -> float:
        seen = self.facts.get("seen")
        return float(seen) if isinstance(seen, (int, float)) and 0 <= seen < LATEST else 0.0

    def __str__(self) -> str:
        ago = max(0, round(time.time() - self._seen))
        return f"process {self.facts.get('pid')} on {self.facts.get('host')}, seen {ago} s ago"


def _start_of(pid: int) -> str | None:
    """Return text that tells a process from earlier ones with its number; ``None`` if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return None
    if os.name == "nt":  # on Windows signal 0 would end the process
        return "" if pid == os.getpid() else None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        return ""
    return ""


def owner_of(raw: bytes) -> Owner:
    """Return the owner that a record names; for a damaged record, an owner that is not alive."""
    try:
        return Owner(load(raw, ""))
    except MetadataError:
        return Owner({})
