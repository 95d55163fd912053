"""The records of a job's ledger: which units are done, and what each has read and written.

A record is written after the unit's values, so a unit with a record is done, and a unit without one is done again. The
chunks themselves do not show that: chunks that hold only the fill value are not stored.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from tegula.engine.concurrency.pool import gather
from tegula.engine.reading.remote import delete_keys
from tegula.errors import ConflictError, MetadataError
from tegula.formats.documents import load
from tegula.jobs.plans import LARGEST, is_count
from tegula.stores import ABSENT, Store

__all__ = ["RUN", "Amounts", "Records", "add_amounts"]

RUN: Final = 256  # successive units that share a record
_LISTINGS: Final = 10  # attempts to list the records while other parts merge them
_RECORD: Final = re.compile(
    r"units/[0-9]{1,40}|arrays/[0-9]{1,40}|runs/[0-9]{1,40}-[0-9]{1,40}-[0-9]{1,9}of[1-9][0-9]{0,8}"
).fullmatch
Amounts = Mapping[str, Any]
_UNREADABLE: Final[Amounts] = MappingProxyType({})
"""Stands for a record that is empty or cut, as after a power loss: it counts as absent, and its unit is done again."""
_Run = tuple[int, int, int, int]
"""First unit, end, remainder and modulus: the units in this range that have this remainder."""


class Records(ABC):
    """The records of one job, as this process knows them.

    Parameters
    ----------
    store : Store
        The store that holds the records.
    prefix : str
        Where they lie in the store.
    part : (int, int)
        The number of the part that this process does, counted from 1, and the number of parts.

    Attributes
    ----------
    job : float or None
        The time at which the job began that this process works on, which tells its records from those of a job that
        was replaced; ``None`` if it works on none.
    """

    def __init__(self, store: Store, prefix: str, part: tuple[int, int]) -> None:
        self.store, self.part = store, part
        self.job: float | None = None
        self._prefix = prefix
        self._lock = Lock()
        self._done: dict[int, Amounts] = {}
        self._runs: tuple[list[_Run], list[int]] = [], []  # in order, and the largest end of all runs up to each
        self._sums: dict[str, Amounts] = {}
        self._arrays: dict[str, Amounts] = {}

    @property
    @abstractmethod
    def is_kept(self) -> bool:
        """Whether the job that this process works on still exists; others may have completed or removed it."""

    def read(self) -> None:
        """Read which units are done."""
        done, runs, sums = dict[int, Amounts](), list[_Run](), dict[str, Amounts]()
        arrays: dict[str, Amounts] = {}
        # a record that vanishes after it was listed has been merged into another, which the next listing shows
        records: dict[str, Amounts | None] = {}
        for _ in range(_LISTINGS):
            keys = self._keys()
            records = dict(zip(keys, gather(self._amounts, keys, self.store.concurrency)))
            if None not in records.values():
                break
        for key, amounts in records.items():
            kind, _, name = key[len(self._prefix) :].partition("/")
            if amounts is None or not self._is_ours(amounts):
                continue
            if kind == "units":
                done[int(name)] = amounts
            elif kind == "runs":
                first, stop, remainder, modulus = map(int, re.split("-|of", name))
                runs.append((first, stop, remainder, modulus))
                sums[name] = amounts
            else:
                arrays[name] = amounts
        with self._lock:
            self._done, self._sums, self._arrays = done, sums, arrays
            self._set_runs(runs)

    def _keys(self) -> list[str]:
        return [key for key in self.store.list_prefix(self._prefix) if _RECORD(key[len(self._prefix) :])]

    def _amounts(self, key: str) -> Amounts | None:
        raw = self.store.get(key)  # ``None`` if another part has merged the record
        if raw is None:
            return None
        with suppress(MetadataError):
            amounts = load(raw, key)
            if all(_is_amount(*member) for member in amounts.items()):
                return amounts
        return _UNREADABLE

    def _store(self, name: str, amounts: Amounts) -> None:
        key, made = f"{self._prefix}{name}", {**amounts}
        if self.job is not None:
            made["job"] = str(self.job)  # texts are not summed up
        raw = json.dumps(made, separators=(",", ":")).encode()
        try:
            self.store.set(key, raw, if_generation=ABSENT)
        except ConflictError:  # done twice, for example by a worker that was taken for dead
            stored = self._amounts(key)
            if stored is not None and not self._is_ours(stored):
                self.store.set(key, raw)

    def _is_ours(self, amounts: Amounts) -> bool:
        """Return whether a record is of this job: a unit in progress may be recorded after its job was replaced."""
        return amounts is not _UNREADABLE and (self.job is None or amounts.get("job") in (None, str(self.job)))

    def discard(self, number: int) -> None:
        """Delete the record of a unit whose result can't be read, so that the unit is done again."""
        with self._lock:
            self._done.pop(number, None)
        self.store.delete(f"{self._prefix}units/{number}")

    def __contains__(self, number: int) -> bool:
        if number in self._done:
            return True
        # runs of other parts overlap, as do those from before the number of parts was changed
        runs, reach = self._runs
        at = bisect_right(runs, number, key=lambda run: run[0]) - 1
        while at >= 0 and number < reach[at]:
            _, stop, rest, modulus = runs[at]
            if number < stop and number % modulus == rest:
                return True
            at -= 1
        return False

    def _set_runs(self, runs: Iterable[_Run]) -> None:
        ordered = sorted(runs)
        self._runs = ordered, [*accumulate((stop for _, stop, _, _ in ordered), max)]

    def is_mine(self, number: int) -> bool:
        """Return whether a unit belongs to the part that this process does."""
        return number % self.part[1] == self.part[0] - 1

    def record(self, number: int, amounts: Amounts) -> None:
        """Store the record of a unit that is done; any worker may call this."""
        self._store(f"units/{number}", amounts)
        self.note(number, amounts)

    def recorded(self, number: int) -> Amounts | None:
        """Return the stored record of a unit; ``None`` if there is none."""
        amounts = self._amounts(f"{self._prefix}units/{number}")
        return None if amounts is None or not self._is_ours(amounts) else amounts

    def note(self, number: int, amounts: Amounts) -> None:
        """Remember that a worker has recorded a unit as done."""
        with self._lock:
            self._done[number] = amounts

    def gather(self, numbers: Iterable[int]) -> None:
        """Merge the records of successive units of this part into one."""
        units = [(number, self._done[number]) for number in numbers if number in self._done]
        if len(units) < 2:
            return
        first, stop = units[0][0], units[-1][0] + 1
        name = f"{first}-{stop}-{self.part[0] - 1}of{self.part[1]}"
        total = _sum(amounts for _, amounts in units)
        total["units"] = len(units)
        self._store(f"runs/{name}", total)
        with self._lock:
            self._set_runs({*self._runs[0], (first, stop, self.part[0] - 1, self.part[1])})
            self._sums[name] = total
            for number, _ in units:
                self._done.pop(number, None)
        delete_keys(self.store, [f"{self._prefix}units/{number}" for number, _ in units])

    def sum_of(self, first: int, stop: int) -> Counter[str]:
        """Return the sums over the units of an array that are done, by name."""
        return _sum(self.records(first, stop))

    def known(self, number: int) -> Amounts | None:
        """Return the record of a unit, if the ledger had one for this unit alone when it was read."""
        return self._done.get(number)

    def records(self, first: int, stop: int) -> list[Amounts]:
        """Return the records of the units of an array that are done."""
        whole = [amounts for name, amounts in self._sums.items() if first <= int(name.partition("-")[0]) < stop]
        return [*whole, *(amounts for number, amounts in self._done.items() if first <= number < stop)]

    def complete(self, first: int, stop: int) -> None:
        """Record that an array is complete, and remove the records of its units."""
        total = self.sum_of(first, stop)
        with self._lock:
            self._arrays[str(first)] = total
        if not self.is_kept:  # a record would count for the job that replaced this one
            return
        self._store(f"arrays/{first}", total)
        with self._lock:
            numbers = [number for number in self._done if first <= number < stop]
            names = [name for name in self._sums if first <= int(name.partition("-")[0]) < stop]
        keys = [*(f"units/{number}" for number in numbers), *(f"runs/{name}" for name in names)]
        delete_keys(self.store, [self._prefix + key for key in keys])
        with self._lock:
            for number in numbers:
                self._done.pop(number, None)
            for name in names:
                self._sums.pop(name, None)
            self._set_runs([run for run in self._runs[0] if not first <= run[0] < stop])

    def completed(self, first: int) -> Amounts | None:
        """Return the sums over the units of an array that is complete; ``None`` if it is not."""
        return self._arrays.get(str(first))

    def left_of(self, first: int, stop: int) -> int:
        """Return how many units of an array are not done; they are numbered from `first` up to `stop`."""
        if self.completed(first) is not None:
            return 0
        found = self.records(first, stop)
        return stop - first - sum(int(amounts.get("units", 1)) for amounts in found)

    def number_done(self, stop: int) -> int:
        """Return how many units below a number are done, not counting those of complete arrays."""
        whole: int = _sum(self._sums.values())["units"]
        return whole + sum(number < stop for number in self._done)


def _sum(several: Iterable[Amounts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for amounts in several:
        add_amounts(total, amounts)
    return total


def add_amounts(total: Counter[str], amounts: Amounts) -> None:
    """Add the amounts of a unit to a sum; of amounts named ``"largest …"``, keep the larger."""
    # other values are results of units
    numbers = {name: amount for name, amount in amounts.items() if type(amount) in (int, float)}
    for name, amount in numbers.items():
        total[name] = max(total[name], amount) if name.startswith("largest ") else total[name] + amount


def _is_amount(name: str, value: Any) -> bool:
    """Return whether a member of a record can be summed up, or is the result of a unit."""
    if name == "units":
        return is_count(value)
    if type(value) in (int, float):
        return bool(abs(value) < (2**63 if name.startswith("largest ") else LARGEST))
    return True
