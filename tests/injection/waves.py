"""A remote store: requests travel in waves, and it counts them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tegula.errors import ConflictError
from tegula.stores import ByteRange, Generation, MemoryStore, Store
from tegula.stores.arguments import BytesLike
from tegula.stores.capabilities import Ranged, Revalidating

__all__ = ["Log", "RangedWaveStore", "RevalidatingWaveStore", "WaveStore", "of_chunks"]

_DOCUMENTS = ("zarr.json", ".zarray", "meta", "storage", "sizes")
_QUIET = 0.04  # seconds without a new request after which all that are under way are answered


class Log(list[list[str]]):
    """The waves of one operation: for each the requests that were under way together."""

    @property
    def requests(self) -> list[str]:
        """All requests, in the order of their waves."""
        return [request for wave in self for request in wave]

    def __repr__(self) -> str:
        return "\n".join(f"wave {number}: {len(wave)}: {wave[:8]}" for number, wave in enumerate(self, 1))


def of_chunks(requests: list[str]) -> list[str]:
    """Return the requests for chunks, without the one for the document of their array."""
    found = [request for request in requests if not request.split()[1].endswith(_DOCUMENTS)]
    assert len(requests) - len(found) <= 1
    return found


def _patience() -> float:
    """Return how many times as long as usual a thread may take to send its request: others may have the cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) if hasattr(os, "getloadavg") else 1.0


class WaveStore(Store):
    """Values in memory that behave as if they were in an object store.

    While the waves are counted, no request is answered before all others that can be sent without its answer are under
    way, too. So the number of waves is the length of the longest chain of requests, whatever their latency.
    """

    def __init__(self, *, concurrency: int = 64, quiet: float = _QUIET) -> None:
        self.values = MemoryStore()
        self.concurrency = concurrency
        self._quiet = quiet
        self._log: Log | None = None
        self._gate = threading.Condition()
        self._travelling: list[str] = []
        self._latest = 0.0  # when the last request was sent
        self._answered = 0  # waves
        self.most = 0  # requests under way at once

    @contextmanager
    def waves(self) -> Iterator[Log]:
        """Count the waves of the operations in the ``with`` block."""
        log = self._log = Log()
        try:
            yield log
        finally:
            self._log = None

    def _travel(self, request: str) -> None:
        log = self._log
        self.passing(request)
        if log is None:
            return
        with self._gate:
            wave = self._answered
            self._travelling.append(request)
            self.most = max(self.most, len(self._travelling))
            self._latest = time.monotonic()
            quiet = self._quiet * _patience()
            looks = 0  # one look sees no thread that waits for the interpreter, which this thread holds
            while wave == self._answered:
                left = self._latest + quiet - time.monotonic()
                if left <= 0 and (looks == 0 or _is_busy()):
                    looks += 1
                    self._gate.wait(self._quiet / 4)
                elif left <= 0:
                    log.append(sorted(self._travelling))
                    self._travelling.clear()
                    self._answered += 1
                    self._gate.notify_all()
                else:
                    self._gate.wait(left)

    def passing(self, request: str) -> None:
        """Called before each request, for tests that do something in between."""

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        self._travel(f"get {key} {byte_range or ''}".rstrip())
        return self.values.get(key, byte_range, with_generation=with_generation)

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        self._travel(f"set {key}")
        return self.values.set(key, value, if_generation=if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        self._travel(f"delete {key}")
        self.values.delete(key, if_generation=if_generation)

    def size(self, key: str) -> int | None:
        self._travel(f"size {key}")
        return self.values.size(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self._travel(f"list {prefix}")
        return self.values.list_prefix(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self._travel(f"list {prefix}*")
        return self.values.list_dir(prefix)

    @property
    def url(self) -> str:
        return "remote://store"


def _is_busy() -> bool:
    """Return whether another thread of this process is running, or could, on Linux only."""
    tasks = Path("/proc/self/task")
    own = str(threading.get_native_id())
    for task in tasks.iterdir() if tasks.exists() else ():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # the thread has ended
            continue
        if state in "RD" and task.name != own:  # it computes, or waits for a disk
            return True
    return False


class RangedWaveStore(Ranged, WaveStore):
    """The same, but ranges of a value are read by one request each, all of one state."""

    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        self._travel(f"ranges {key} {[*ranges]}")
        value, found = self.values.get(key, with_generation=True)
        if generation is not None and found != generation:
            raise ConflictError("the value has changed", key=key)
        view = MemoryStore({"value": value or b""})
        return None if value is None else [view.get("value", each) or b"" for each in ranges], found


class RevalidatingWaveStore(Revalidating, WaveStore):
    """The same, but values are sent only if they have changed, so documents are kept.

    Parameters
    ----------
    values : MemoryStore, optional
        The values of another store, which another process would have.
    """

    def __init__(self, values: MemoryStore | None = None, *, quiet: float = _QUIET) -> None:
        super().__init__(quiet=quiet)
        self.values = self.values if values is None else values

    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        self._travel(f"changed {key}")
        value, found = self.values.get(key, with_generation=True)
        return None if found == generation else (value, found)
