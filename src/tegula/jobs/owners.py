"""Owners: the processes that work on a job or a part of it, and whether they are alive."""

from __future__ import annotations

import _thread
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, TegulaError
from tegula.formats.documents import load
from tegula.runtime.deferred import Later
from tegula.runtime.system import start_of
from tegula.stores import ABSENT, Generation, Store
from tegula.stores.capabilities import delete_if

if TYPE_CHECKING:
    import socket
else:
    socket = Later("socket")

__all__ = ["LATEST", "Claim", "Owner", "delete_unchanged", "new_claim", "owner_of"]

_claims: Final[dict[str, None]] = {}  # claims of this process that have not ended
LATEST: Final = 10**11
"""The latest plausible time in a record, in seconds since 1970; a later one is damaged."""
_ATTEMPTS: Final = 10  # to become the owner of a part
_RENEWED: Final = 30.0  # seconds between two signs of life
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
        return {"host": host, "pid": pid, "began": start_of(pid), "claim": claim, "seen": time.time()}

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive; for a process on another machine, whether it was seen recently."""
        facts = self.facts
        if facts.get("host") == socket.gethostname():
            pid = facts.get("pid")
            if pid == os.getpid() and facts.get("claim") not in _claims:
                return False  # a record that could not be deleted
            began = start_of(pid) if type(pid) is int and pid > 0 else None
            if began is None or (began and facts.get("began")):
                return began is not None and began == facts.get("began")
            # the number may be that of a later process
        return time.time() - self._seen < _EXPIRES

    @property
    def _seen(self) -> float:
        seen = self.facts.get("seen")
        return float(seen) if isinstance(seen, (int, float)) and 0 <= seen < LATEST else 0.0

    def __str__(self) -> str:
        ago = max(0, round(time.time() - self._seen))
        return f"process {self.facts.get('pid')} on {self.facts.get('host')}, seen {ago} s ago"


def owner_of(raw: bytes) -> Owner:
    """Return the owner that a record names; for a damaged record, an owner that is not alive."""
    try:
        return Owner(load(raw, ""))
    except MetadataError:
        return Owner({})


def new_claim() -> str:
    """Return the name of a new claim of this process."""
    name = os.urandom(8).hex()
    _claims[name] = None
    return name


class Claim:
    """The claim of this process on a part of a job: a record in the job's ledger, renewed until it is given up."""

    def __init__(self, store: Store, key: str) -> None:
        self.name = ""
        self.is_held = False
        self._store, self._key = store, key  # of the record
        self._job: float | None = None  # the time at which the job began
        self._beat: Any = None  # a lock; releasing it ends the thread that renews the record
        self._lock = Lock()

    def take(self, job: float | None, where: str) -> None:
        """Become the owner of the part; raise if a living process owns it. `where` is the target, for messages."""
        for _ in range(_ATTEMPTS):
            raw, generation = self._store.get(self._key, with_generation=True)
            if raw is not None and (owner := owner_of(raw)).is_alive:
                raise AlreadyExistsError(f"another job works on it ({owner})", path=where)
            self._job = job
            self.is_held, self.name = True, new_claim()  # first, so that a signal leaves no claim without an end
            try:
                self._store.set(self._key, self._record(), if_generation=generation)
                break
            except ConflictError:  # another owner, or a part that has completed the job has removed the old one
                self._disowned()
            except BaseException:  # a signal may come when it is stored already
                self._disowned()
                with suppress(TegulaError):
                    self._delete()
                raise
        else:
            raise AlreadyExistsError("other processes begin to work on the job all the time", path=where)
        beat = _thread.allocate_lock()
        beat.acquire()  # first, since `_disowned` releases it after a signal, too
        self._beat = beat
        _thread.start_new_thread(self._give_signs, (beat,))

    def _record(self) -> bytes:
        return json.dumps({**Owner.here(self.name), "job": self._job}).encode()

    def _give_signs(self, ended: Any) -> None:
        """Renew the record each half minute, even if a unit takes longer, until the part is released."""
        while not ended.acquire(timeout=_RENEWED):
            with self._lock:
                if not self.is_held or ended is not self._beat:
                    return
                with suppress(TegulaError):  # the storage may be back the next time
                    raw, generation = self._store.get(self._key, with_generation=True)
                    if raw is None or not self._is_own(raw):
                        return  # the job was removed, or another process has taken the part
                    self._store.set(self._key, self._record(), if_generation=generation)

    def give_up(self) -> None:
        """Delete the record, unless another process has taken the part meanwhile."""
        if self._disowned():
            try:
                self._delete()
            except KeyboardInterrupt:  # once more, since nothing else does it
                self._delete()
                raise

    def _delete(self) -> None:
        """Delete the record if this process has stored it."""
        raw, generation = self._store.get(self._key, with_generation=True)
        if raw is not None and self._is_own(raw):
            delete_unchanged(self._store, self._key, generation)

    def _is_own(self, raw: bytes) -> bool:
        """Return whether a record is that of this claim, whose name no other record has."""
        return self.name.encode() in raw

    def _disowned(self) -> bool:
        """Stop renewing the record; return whether there was one."""
        with self._lock:
            was_held, self.is_held = self.is_held, False
            _claims.pop(self.name, None)
            if self._beat is not None:
                self._beat.release()
                self._beat = None
        return was_held


def delete_unchanged(store: Store, key: str, generation: Generation) -> None:
    """Delete a value, unless another process has replaced it: then it belongs to the next job."""
    if generation != ABSENT:
        with suppress(ConflictError):
            delete_if(store, key, generation)
