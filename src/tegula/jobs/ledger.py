"""The ledger of a job: small values in a store that record the plan, the owners, and which units are done.

Its keys are below `DIRECTORY` in the job's target, a name that no format uses for a node::

    plan.json               the plan, written once, on condition that there is none
    of/6f1c…-1732800000.5   empty; its name has the digest of the plan and the time at which the job began
    replaces                the job replaces a node, which stays until the new one is complete
    done                    the job is complete, and the ledger is about to be removed
    owners/1of16            which process works on a part: host, process, time of the last sign of life
    units/42                a unit that is done, with what was read and written
    runs/0-256-0of1         many units in a row, which replace their records
    arrays/t                an array that is complete, with the sums over its units

The last three are records. A worker writes a record after the values of its unit, and a resumed job repeats the units
that have no record. Stored chunks can't show which units are done, since chunks that equal the fill value are not
stored. A job that replaces a node makes the new one beside its ledger, below `.tegula_job-new`, until it is complete.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from threading import Lock
from types import MappingProxyType
from typing import Any, ClassVar, Final

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import JOB_DIRECTORY as DIRECTORY
from tegula.engine.documents.finding import SYNC_DIRECTORY
from tegula.engine.reading.remote import delete_keys, delete_prefix
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, TegulaError, UnsupportedError
from tegula.formats.documents import load
from tegula.jobs.owners import LATEST, Claim, Owner, delete_unchanged, owner_of
from tegula.jobs.plans import LARGEST, Piece, Plan, Unit, digest, is_count, is_plan
from tegula.stores import ABSENT, Store
from tegula.stores.capabilities import EmptyDirectories
from tegula.stores.targets.paths import location_of

__all__ = [
    "COMPLETE", "DIRECTORY", "RUN", "UNRECORDED", "Amounts", "Ledger", "Records", "add_amounts", "is_ledger_key",
    "is_shared", "share_of", "survives",
]  # fmt: skip

COMPLETE: Final = ".tegula_complete"
"""Name of the value that marks a complete target: the facts of the plan, stored in one of its arrays."""
_ROOMS: Final = ("units/", "runs/", "arrays/", "owners/", "of/")
_LAST: Final = ("plan.json", "replaces", "done")  # of a ledger that is removed; without a plan there is no job
RUN: Final = 256
"""Successive units that share a record."""
_LISTINGS: Final = 10  # attempts to list the records while other parts merge them
_RECORD: Final = re.compile(
    r"units/[0-9]{1,40}|arrays/[0-9]{1,40}|runs/[0-9]{1,40}-[0-9]{1,40}-[0-9]{1,9}of[1-9][0-9]{0,8}"
).fullmatch
Amounts = Mapping[str, Any]
_UNREADABLE: Final[Amounts] = MappingProxyType({})
"""Stands for a record that is empty or cut, as after a power loss: it counts as absent, and its unit is done again."""
_Run = tuple[int, int, int, int]
"""First unit, end, remainder and modulus: the units in this range that have this remainder."""


def share_of(part: Any) -> tuple[int, int]:
    """Return the number of the part to do, and the number of parts.

    Examples
    --------
    >>> share_of(None), share_of([3, 16])
    ((1, 1), (3, 16))
    """
    if part is None:
        return 1, 1
    if isinstance(part, Sequence) and len(part) == 2 and all(type(one) is int for one in part):
        number, parts = part
        if 1 <= number <= parts:
            return number, parts
    raise MetadataError(f"{part!r:.40} is not a part: give two numbers, (3, 16) for the third of 16", field="part")


def is_ledger_key(key: str) -> bool:
    """Return whether a key belongs to the ledger of a job or a sync, or marks a complete target.

    Examples
    --------
    >>> is_ledger_key("a/.tegula_job/plan.json"), is_ledger_key("a/c/0")
    (True, False)
    """
    return any(name in (COMPLETE, SYNC_DIRECTORY) or name.startswith(DIRECTORY) for name in key.split("/"))


def survives(store: Store) -> bool:
    """Return whether stored values outlive a process that is killed, which values in an archive do not."""
    return not store.in_archive


class Records:
    """The records of a job that is done at once, by one process: a ledger that stores and remembers nothing."""

    lasts: ClassVar = False
    """Whether records outlive the process, so that another one may continue the job, or do a part of it."""
    part: tuple[int, int] = 1, 1

    @property
    def is_kept(self) -> bool:
        """Whether the job that this process works on still exists; others may have completed or removed it."""
        return True

    def spoil(self, what: str) -> None:
        """Note how the source has changed, since units that are done may hold what it never held."""

    def read(self) -> None:
        """Read which units are done."""

    def left(self, units: Iterator[Unit], mine: deque[int], skipped: Callable[[int], None]) -> Iterator[Unit]:
        """Return the units of this part that are not done.

        `mine` receives the numbers of all recorded units of this part, `skipped` the size of each that is done.
        """
        return units

    def record(self, number: int, amounts: Any, record_of: Callable[[Any], Amounts | None] = dict) -> None:
        """Store the record of a unit that is done, unless `record_of` returns ``None``; any worker may call this."""

    def note(self, number: int, amounts: Amounts) -> None:
        """Remember that a worker has recorded a unit as done."""

    def merge(self, mine: deque[int]) -> None:
        """Merge the first records of this part, `RUN` at a time, as long as all of those units are done."""

    def recorded(self, number: int) -> Amounts | None:
        """Return the stored record of a unit; ``None`` if there is none."""

    def known(self, number: int) -> Amounts | None:
        """Return the record of a unit, if the ledger had one for this unit alone when it was read."""

    def discard(self, number: int) -> None:
        """Delete the record of a unit whose result can't be read, so that the unit is done again."""

    def complete(self, piece: Piece) -> None:
        """Record that an array is complete, and remove the records of its units."""

    def completed(self, first: int) -> Amounts | None:
        """Return the sums over the units of an array that is complete; ``None`` if it is not."""

    def sum_of(self, piece: Piece) -> Counter[str]:
        """Return the sums over the units of an array that are done, by name."""
        return Counter()

    def left_of(self, piece: Piece) -> int:
        """Return how many units of an array are not done."""
        return piece.stop - piece.first

    def left_to_others(self, units: Iterator[Unit]) -> Counter[int]:
        """Return the number of units of an array that are left to each of the other parts of the job."""
        return Counter()

    def undivided(self) -> Records:
        """Return the records of work that is not divided into parts: who needs the result does all of it."""
        return self

    def among_living(self) -> Records:
        """Return the records of units that the parts which run now share."""
        return self


UNRECORDED: Final = Records()


class Ledger(Records):
    """The ledger of one job in a store.

    Parameters
    ----------
    store : Store
        The store of the target, or another one that outlives the process.
    path : str
        Path of the target.
    part : (int, int)
        The number of the part that this process does, counted from 1, and the number of parts.

    Attributes
    ----------
    replaces : bool
        Whether the job replaces a node, as it says itself before it begins, and as is stored afterwards.
    job : float or None
        The time at which the job began that this process works on, which tells its records from those of a job that
        was replaced; ``None`` if it works on none.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> ledger = Ledger(MemoryStore(), "x")
    >>> ledger.begin(Plan("convert", {}, "a", "b"), resume=False)
    True
    >>> ledger.record(7, {"read": 10, "written": 5})
    >>> 7 in ledger, 8 in ledger
    (True, False)
    """

    lasts = True

    def __init__(self, store: Store, path: str, part: tuple[int, int] = (1, 1)) -> None:
        if not survives(store):
            raise UnsupportedError(
                "a job in an archive can't be resumed or shared, since the archive is written at the end; convert "
                "to a directory or bucket",
                path=location_of(store, path),
            )
        self.store, self.path, self.part = store, path, part
        self.replaces = False
        self.job: float | None = None
        self.expected: Plan | None = None  # what this process is about to do
        self._prefix = f"{path}/{DIRECTORY}/".lstrip("/")
        self._own_name = f"{part[0]}of{part[1]}"
        self._claim = Claim(store, f"{self._prefix}owners/{self._own_name}")
        self._lock = Lock()  # for the records
        self._done: dict[int, Amounts] = {}
        self._sums: dict[_Run, Amounts] = {}
        self._runs: tuple[list[_Run], list[int]] = [], []  # in order, and the largest end of all runs up to each
        self._arrays: dict[str, Amounts] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.path, self.part), {"job": self.job}

    def plan(self) -> dict[str, Any] | None:
        """Return the stored plan; ``None`` if there is no job, or its plan is lost."""
        return self.stored_plan()[1]

    def stored_plan(self) -> tuple[bool, dict[str, Any] | None]:
        """Return whether there is a job, and its plan unless it is lost: empty or cut, as after a power loss."""
        key = f"{self._prefix}plan.json"
        raw = self.store.get(key)
        if raw is None:
            return False, None
        with suppress(MetadataError):
            document = load(raw, key)
            if is_plan(document):
                return True, document
        return True, self._lost_plan()

    def lost(self) -> MetadataError:
        """Return the error for a job whose plan is lost, and which may be another one."""
        return MetadataError(
            "a job was interrupted here whose plan can't be read, and it is not known to be this one; start again with "
            "overwrite=True, or remove it with `tegula jobs clean`",
            path=location_of(self.store, self.path),
        )

    def _lost_plan(self) -> dict[str, Any] | None:
        """Return the plan of this process in place of a lost one, if it is known to be the same."""
        if self.expected is None:
            return None
        first = f"{self._prefix}of/{_digest_of(self.expected)}-"
        for key in self.store.list_prefix(f"{self._prefix}of/"):
            with suppress(ValueError):
                if key.startswith(first) and 0 <= (begun := float(key[len(first) :])) < LATEST:
                    return {**self.expected.as_dict(), "begun": begun}
        return None

    @property
    def has_plan(self) -> bool:
        """Whether there is a job, even one whose plan is lost."""
        return self.store.exists(f"{self._prefix}plan.json")

    @property
    def made(self) -> str:
        """Where the job makes its node: at the path of the target, or inside the node that it will replace."""
        return f"{self._new}node" if self.replaces else self.path

    @property
    def _new(self) -> str:
        return f"{self._prefix[:-1]}-new/"

    def look_for_old(self) -> bool:
        """Return whether the stored job replaces a node, and note that."""
        self.replaces = self.store.exists(f"{self._prefix}replaces")
        return self.replaces

    def is_cut(self, plan: Plan) -> bool:
        """Return whether arrays of the new node are complete, but not there: they were about to replace the old ones.

        A process that is killed at that moment leaves the old node, or the new one in a place that is removed.
        """
        if not self.look_for_old():
            return False
        self.read()

        def is_gone(piece: Piece) -> bool:
            return next(iter(self.store.list_prefix(f"{self.made}/{piece.name}".rstrip("/") + "/")), None) is None

        pieces = [piece for piece in plan.pieces.values() if not is_ledger_key(f"{piece.name}/")]  # not temporary
        complete = [piece for piece in pieces if self.completed(piece.first) is not None]
        return any(gather(is_gone, complete, self.store.concurrency))

    @property
    def is_done(self) -> bool:
        """Whether the job is complete; its ledger is being removed, or its process was killed meanwhile."""
        return self.store.exists(f"{self._prefix}done")

    @property
    def is_kept(self) -> bool:
        if self.job is None:
            return True
        stored = self.plan()
        return stored is not None and stored["begun"] == self.job

    def spoil(self, what: str) -> None:
        key = f"{self._prefix}plan.json"
        with suppress(TegulaError):  # the caller raises the error that tells the user
            stored, generation = self.plan(), self.store.get(key, with_generation=True)[1]
            if stored is not None and stored["begun"] == self.job:
                self._delete_names()  # first: the plan must not be taken for the old one if it is lost
                self.store.set(key, json.dumps({**stored, "changed": what}).encode(), if_generation=generation)

    def begin(self, plan: Plan, resume: bool, *, is_found: bool = False) -> bool:
        """Begin or resume a job, and keep other processes from it.

        `is_found` says whether a job was found just before. Return false if another process has completed or removed
        it in the meantime: nothing has begun then.

        Raises
        ------
        AlreadyExistsError
            If another process works on the job, or there is a job and `resume` is false.
        MetadataError
            If the job there has another plan, or its source has changed; says what differs.
        """
        # the plan, stored by the process that begins
        where = location_of(self.store, self.path)
        self.expected = plan
        is_there, stored = self.stored_plan()
        if not is_there and is_found:
            return False
        if is_there and not resume:
            raise self._in_the_way(where)
        if is_there and stored is None:
            raise self.lost()
        if stored is None:
            self._refuse_others(where)
            self.sweep()
            self.job = time.time()
            if self.replaces:
                self.store.set(f"{self._prefix}replaces", json.dumps({"begun": self.job}).encode())
            else:
                self.store.delete(f"{self._prefix}replaces")  # of a job that was removed by a process that was killed
            raw = json.dumps({**plan.as_dict(), "begun": self.job}).encode()
            try:
                self.store.set(f"{self._prefix}plan.json", raw, if_generation=ABSENT)
            except ConflictError:
                stored = self.plan()
                if stored is None:
                    return False
                if self.part == (1, 1) and not resume:
                    raise AlreadyExistsError("another job has just begun here", path=where) from None
        if stored is not None:
            plan.check_same(stored, where)
            self.job = stored["begun"]
            self.look_for_old()
        name = f"{self._prefix}of/{_digest_of(plan)}-{self.job!r}"
        with suppress(ConflictError):
            self.store.set(name, b"{}", if_generation=ABSENT)
        # the owner
        try:
            self._refuse_others(where)
            self._claim.take(self.job, where)
        except AlreadyExistsError:
            joined = any(owner.is_alive and owner.facts.get("job") == self.job for owner in self.owners().values())
            if stored is None and self.part == (1, 1) and not joined:
                self._delete_names()
                self.store.delete(f"{self._prefix}plan.json")
            raise
        # the records; another part may have completed the job meanwhile, and removed them
        self.read()
        if self.is_done or not self.is_kept:
            self.release()
            return False
        return True

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes away from the target of a job without a ledger, in a ``with`` block.

        Raises
        ------
        AlreadyExistsError
            If another process works on it, or a job was interrupted there.
        """
        where = location_of(self.store, self.path)
        if self.is_done:
            self.remove()
        if self.has_plan:
            raise self._in_the_way(where)
        try:
            self._claim.take(self.job, where)
            if self.has_plan:  # another job has just begun
                raise self._in_the_way(where)
            yield
        finally:
            self.release()

    def _in_the_way(self, where: str) -> AlreadyExistsError:
        """Return the error for another job at the target."""
        own = self._own_name if self.is_taken else ""
        live = [owner for name, owner in self.owners().items() if owner.is_alive and name != own]
        interrupted = "a job was interrupted here; resume it, or remove it with `tegula jobs clean`"
        return AlreadyExistsError(f"another job works on it ({live[0]})" if live else interrupted, path=where)

    def _refuse_others(self, where: str) -> None:
        """Raise if another process does this part, or the job divided into another number of parts."""
        for name, owner in self.owners().items():
            if owner.is_alive and (name == self._own_name or not name.endswith(f"of{self.part[1]}")):
                raise AlreadyExistsError(f"another job works on it ({owner})", path=where)

    @property
    def is_taken(self) -> bool:
        """Whether this process has become the owner of its part."""
        return self._claim.is_held

    def release(self) -> None:
        """Let other processes work on the part; the record of a process that has taken it meanwhile stays."""
        self._claim.give_up()
        # directories of a ledger that are empty, as a process leaves them that is killed in between
        store, above = self.store, self._prefix
        if isinstance(store, EmptyDirectories) and store.has_prefix(above):
            for name in ("", *_ROOMS):
                if store.has_prefix(above + name):
                    store.delete(f"{above}{name}-")  # there is no such key; its directories go if they are empty

    def owners(self) -> dict[str, Owner]:
        """Return by part the processes that work on the job, or did."""
        prefix = f"{self._prefix}owners/"
        records = {key[len(prefix) :]: self.store.get(key) for key in sorted(self.store.list_prefix(prefix))}
        return {name: owner_of(raw) for name, raw in records.items() if raw is not None}

    def finish(self) -> None:
        """Remove the ledger of a job that is complete."""
        self.store.set(f"{self._prefix}done", b"{}")
        self.remove()

    def remove(self) -> None:
        """Remove the ledger: the records first, then the plan, and last the note that the job is complete."""
        last = [self._prefix + name for name in _LAST]
        generations = [self.store.get(key, (0, 0), with_generation=True)[1] for key in last]
        self.release()  # at once: others take a claim that an interrupt leaves for a process at work
        # records before what they are of: a unit with a record would not be done again
        delete_keys(self.store, [key for key in self.store.list_prefix(self._prefix) if key not in last])
        if generations[_LAST.index("replaces")] != ABSENT:
            delete_prefix(self.store, self._new)
        for key, generation in zip(last, generations):
            delete_unchanged(self.store, key, generation)

    def forget_units(self) -> None:
        """Delete the records of units."""
        delete_keys(self.store, self._keys())

    def sweep(self) -> None:
        """Remove records of a job that is over: a part may write some after another part has completed the target."""
        keys = [*self._keys(), *self.store.list_prefix(f"{self._prefix}of/")]
        if keys and not self.has_plan:
            delete_keys(self.store, keys)

    def _delete_names(self) -> None:
        delete_keys(self.store, [*self.store.list_prefix(f"{self._prefix}of/")])

    # --- the records

    def read(self) -> None:
        done, sums, arrays = dict[int, Amounts](), dict[_Run, Amounts](), dict[str, Amounts]()
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
                sums[first, stop, remainder, modulus] = amounts
            else:
                arrays[name] = amounts
        with self._lock:
            self._done, self._arrays = done, arrays
            self._set_runs(sums)

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
            _, stop, remainder, modulus = runs[at]
            if number < stop and number % modulus == remainder:
                return True
            at -= 1
        return False

    def _set_runs(self, sums: dict[_Run, Amounts]) -> None:
        ordered, self._sums = sorted(sums), sums
        self._runs = ordered, [*accumulate((stop for _, stop, _, _ in ordered), max)]

    def left(self, units: Iterator[Unit], mine: deque[int], skipped: Callable[[int], None]) -> Iterator[Unit]:
        number, parts = self.part
        for unit in units:
            if unit.number % parts != number - 1:
                continue
            mine.append(unit.number)
            if unit.number in self:
                skipped(unit.size)
            else:
                yield unit

    def left_to_others(self, units: Iterator[Unit]) -> Counter[int]:
        return Counter(unit.number % self.part[1] + 1 for unit in units if unit.number not in self)

    def record(self, number: int, amounts: Any, record_of: Callable[[Any], Amounts | None] = dict) -> None:
        if (record := record_of(amounts)) is not None:
            self._store(f"units/{number}", record)
            self.note(number, record)

    def recorded(self, number: int) -> Amounts | None:
        amounts = self._amounts(f"{self._prefix}units/{number}")
        return None if amounts is None or not self._is_ours(amounts) else amounts

    def note(self, number: int, amounts: Amounts) -> None:
        with self._lock:
            self._done[number] = amounts

    def merge(self, mine: deque[int]) -> None:
        while len(mine) >= RUN and all(number in self for number, _ in zip(mine, range(RUN))):
            self._merge([mine.popleft() for _ in range(RUN)])

    def _merge(self, numbers: Iterable[int]) -> None:
        """Merge the records of successive units of this part into one."""
        units = [(number, self._done[number]) for number in numbers if number in self._done]
        if len(units) < 2:
            return
        run = units[0][0], units[-1][0] + 1, self.part[0] - 1, self.part[1]
        total = _sum(amounts for _, amounts in units)
        total["units"] = len(units)
        self._store(_name_of(run), total)
        with self._lock:
            self._set_runs({**self._sums, run: total})
            for number, _ in units:
                self._done.pop(number, None)
        delete_keys(self.store, [f"{self._prefix}units/{number}" for number, _ in units])

    def sum_of(self, piece: Piece) -> Counter[str]:
        return _sum(self.records(piece))

    def known(self, number: int) -> Amounts | None:
        return self._done.get(number)

    def records(self, piece: Piece) -> list[Amounts]:
        """Return the records of the units of an array that are done."""
        first, stop = piece.first, piece.stop
        runs = [amounts for run, amounts in self._sums.items() if first <= run[0] < stop]
        return [*runs, *(amounts for number, amounts in self._done.items() if first <= number < stop)]

    def complete(self, piece: Piece) -> None:
        total, first, stop = self.sum_of(piece), piece.first, piece.stop
        with self._lock:
            self._arrays[str(first)] = total
        if not self.is_kept:  # a record would count for the job that replaced this one
            return
        self._store(f"arrays/{first}", total)
        with self._lock:
            numbers = [number for number in self._done if first <= number < stop]
            runs = [run for run in self._sums if first <= run[0] < stop]
        keys = [*(f"units/{number}" for number in numbers), *map(_name_of, runs)]
        delete_keys(self.store, [self._prefix + key for key in keys])
        with self._lock:
            for number in numbers:
                self._done.pop(number, None)
            self._set_runs({run: total for run, total in self._sums.items() if not first <= run[0] < stop})

    def completed(self, first: int) -> Amounts | None:
        return self._arrays.get(str(first))

    def left_of(self, piece: Piece) -> int:
        if self.completed(piece.first) is not None:
            return 0
        return super().left_of(piece) - sum(int(amounts.get("units", 1)) for amounts in self.records(piece))

    def number_done(self, stop: int) -> int:
        """Return how many units below a number are done, not counting those of complete arrays."""
        in_runs: int = _sum(self._sums.values())["units"]
        return in_runs + sum(number < stop for number in self._done)

    def left_in(self, plan: Plan) -> int:
        """Return how many units of a plan are not done."""
        return sum(map(self.left_of, plan.pieces.values()))

    def nbytes(self) -> int:
        """Return the size of the ledger in bytes."""
        return sum(self.store.size(key) or 0 for key in self.store.list_prefix(self._prefix))

    def undivided(self) -> Ledger:
        return self if self.part == (1, 1) else self._shared_as(1, 1)

    def living_parts(self) -> list[int]:
        """Return the numbers of the parts that run now, including this one."""
        number, parts = self.part
        living = {name for name, owner in self.owners().items() if owner.is_alive and name.endswith(f"of{parts}")}
        return sorted({number, *(int(name.partition("of")[0]) for name in living)})

    def among_living(self) -> Ledger:
        if self.part == (1, 1):
            return self
        living = self.living_parts()
        return self._shared_as(living.index(self.part[0]) + 1, len(living))

    def _shared_as(self, number: int, parts: int) -> Ledger:
        made = Ledger(self.store, self.path, (number, parts))
        made.job, made.expected = self.job, self.expected
        made.read()
        return made


def _digest_of(plan: Plan) -> str:
    return digest(json.dumps(plan.facts(), sort_keys=True).encode())


def is_shared(store: Store) -> bool:
    """Return whether other processes can read and write the values of a store."""
    return not store.in_memory and (isinstance(store.identity, str) or survives(store))


def _name_of(run: _Run) -> str:
    first, stop, remainder, modulus = run
    return f"runs/{first}-{stop}-{remainder}of{modulus}"


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
