"""The ledger of a job: small values in a store that record the plan, the owners, and which units are done.

Its keys are below `DIRECTORY` in the job's target, a name that no format uses for a node::

    plan.json               the plan, written once, on condition that there is none
    done                    the job is complete, and the ledger is about to be removed
    owners/1of16            which process works on a part: host, process, time of the last sign of life
    units/42                a unit that is done, with what was read and written
    runs/0-256-0of1         many units in a row, which replace their records
    arrays/t                an array that is complete, with the sums over its units

A record is written after the unit's values, so a unit with a record is done, and a unit without one is done again. The
chunks themselves do not show that: chunks that hold only the fill value are not stored.
"""

from __future__ import annotations

import _thread
import json
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from tegula.engine.far import delete_keys
from tegula.engine.pool import gather
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, TegulaError, UnsupportedError
from tegula.formats.documents import load
from tegula.jobs.owners import LATEST, Owner, owner_of
from tegula.jobs.plans import Plan
from tegula.stores import ABSENT, LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.targets.paths import place

__all__ = ["COMPLETE", "DIRECTORY", "RUN", "Ledger", "add_amounts", "are_facts", "is_ledger_key", "is_shared",
    "share_of", "survives",
]  # fmt: skip

DIRECTORY: Final = ".tegula_job"
COMPLETE: Final = ".tegula_complete"
"""Name of the value that marks a complete target: the facts of the plan, stored in one of its arrays."""
RUN: Final = 256  # successive units that share a record
_LISTINGS: Final = 10  # attempts to list the records while other parts merge them
_ATTEMPTS: Final = 10  # to become the owner of a part
_RECORD: Final = re.compile(
    r"units/[0-9]{1,40}|arrays/[0-9]{1,40}|runs/[0-9]{1,40}-[0-9]{1,40}-[0-9]{1,9}of[1-9][0-9]{0,8}"
).fullmatch
_RENEWED: Final = 30.0
_LARGEST: Final = 10**100  # no number in a record is as large
Amounts = Mapping[str, Any]
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
    """Return whether a key belongs to the ledger of a job, or marks a complete target.

    Examples
    --------
    >>> is_ledger_key("a/.tegula_job/plan.json"), is_ledger_key("a/c/0")
    (True, False)
    """
    return not {DIRECTORY, COMPLETE}.isdisjoint(key.split("/"))


def survives(store: Store) -> bool:
    """Return whether stored values outlive a process that is killed, which values in an archive do not."""
    return not isinstance(store, ZipStore) and not type(store).__name__.startswith("RemoteZip")


class Ledger:
    """The ledger of one job in a store.

    Parameters
    ----------
    store : Store
        The store of the target, or another one that outlives the process.
    path : str
        Path of the target.
    part : (int, int)
        The number of the part that this process does, counted from 1, and the number of parts.

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

    def __init__(self, store: Store, path: str, part: tuple[int, int] = (1, 1)) -> None:
        if not survives(store):
            raise UnsupportedError(
                "a job in an archive can't be resumed or shared, since the archive is written at the end; convert "
                "to a directory or bucket",
                path=place(store, path),
            )
        self.store, self.path, self.part = store, path, part
        self._prefix = f"{path}/{DIRECTORY}/".lstrip("/")
        self._owner = self._claim = ""
        self._begun: float | None = None  # the start of the job that this process works on, in seconds since 1970
        self._beat: Any = None  # a lock; releasing it ends the thread that renews the owner record
        self._owning = Lock()
        self._lock = Lock()
        self._done: dict[int, Amounts] = {}
        self._runs: tuple[list[_Run], list[int]] = [], []  # in order, and the largest end of all runs up to each
        self._sums: dict[str, Amounts] = {}
        self._arrays: dict[str, Amounts] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.path, self.part)

    # --- the job as a whole

    def plan(self) -> dict[str, Any] | None:
        """Return the stored plan; ``None`` if there is no job."""
        key = f"{self._prefix}plan.json"
        raw = self.store.get(key)
        if raw is None:
            return None
        with suppress(MetadataError):
            found = load(raw, key)
            if _is_plan(found):
                return found
        raise MetadataError(
            "the plan of the job is damaged; delete it, and start again with overwrite=True",
            path=place(self.store, self.path),
            key=key,
        )

    @property
    def is_done(self) -> bool:
        """Whether the job is complete; its ledger is being removed, or its process was killed meanwhile."""
        return self.store.exists(f"{self._prefix}done")

    @property
    def is_kept(self) -> bool:
        """Whether the job that this process works on still exists; others may have completed or removed it."""
        if self._begun is None:
            return True
        stored = self.plan()
        return stored is not None and stored["begun"] == self._begun

    def begin(self, plan: Plan, resume: bool, *, is_found: bool = False) -> bool:
        """Begin or resume a job, and keep other processes from it.

        Parameters
        ----------
        plan : Plan
            What the job is to do.
        resume : bool
            Whether to resume the job if there is one.
        is_found : bool
            Whether a job was found just before.

        Returns
        -------
        bool
            False if another process completed or removed the job in the meantime: nothing has begun then.

        Raises
        ------
        AlreadyExistsError
            If another process works on it, or there is one and `resume` is false.
        MetadataError
            If the job there has another plan, or its source has changed; says what differs.
        """
        # the plan, stored by the process that begins
        where = place(self.store, self.path)
        stored = self.plan()
        if stored is None and is_found:
            return False
        if stored is not None and not resume:
            raise self._in_the_way(where)
        if stored is None:
            self._refuse_others(where)
            self.sweep()
            self._begun = time.time()
            raw = json.dumps({**plan.as_dict(), "begun": self._begun}).encode()
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
            self._begun = stored["begun"]
        # the owner
        try:
            self._refuse_others(where)
            self._take(where)
        except AlreadyExistsError:
            if stored is None and self.part == (1, 1):
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
        where = place(self.store, self.path)
        if self.plan() is not None:
            raise self._in_the_way(where)
        try:
            self._take(where)
            if self.plan() is not None:  # another job has just begun
                raise self._in_the_way(where)
            yield
        finally:
            self.release()

    def _in_the_way(self, where: str) -> AlreadyExistsError:
        """Return the error for another job at the target."""
        live = [owner for name, owner in self.owners().items() if owner.is_alive and name != self._own_name]
        interrupted = "a job was interrupted here; resume it, or remove it with `tegula jobs clean`"
        return AlreadyExistsError(f"another job works on it ({live[0]})" if live else interrupted, path=where)

    @property
    def _own_name(self) -> str:
        return self._owner.rpartition("/")[2]

    def _refuse_others(self, where: str) -> None:
        """Raise if another process does this part, or the job divided into another number of parts."""
        number, parts = self.part
        for name, owner in self.owners().items():
            mine = name == f"{number}of{parts}"
            if owner.is_alive and (mine or not name.endswith(f"of{parts}")):
                raise AlreadyExistsError(f"another job works on it ({owner})", path=where)

    def _take(self, where: str) -> None:
        """Become the owner of the part; raise if a living process owns it."""
        number, parts = self.part
        key = f"{self._prefix}owners/{number}of{parts}"
        for _ in range(_ATTEMPTS):
            raw, generation = self.store.get(key, with_generation=True)
            if raw is not None and (owner := owner_of(raw)).is_alive:
                raise AlreadyExistsError(f"another job works on it ({owner})", path=where)
            self._owner, self._claim = key, Owner.new_claim()  # first, so that a signal leaves no claim without an end
            try:
                self.store.set(key, json.dumps(Owner.here(self._claim)).encode(), if_generation=generation)
                break
            except ConflictError:  # another owner, or a part that has completed the job has removed the old one
                self._disowned()
            except BaseException:  # a signal may come when it is stored already
                self._disowned()
                with suppress(TegulaError):
                    if (raw := self.store.get(key)) is not None and owner_of(raw).facts.get("claim") == self._claim:
                        self.store.delete(key)
                raise
        else:
            raise AlreadyExistsError("other processes begin to work on the job all the time", path=where)
        self._beat = _thread.allocate_lock()
        self._beat.acquire()
        _thread.start_new_thread(self._give_signs, (self._beat,))

    def _give_signs(self, ended: Any) -> None:
        """Renew the owner record each half minute, even if a unit takes longer, until the part is released."""
        while not ended.acquire(timeout=_RENEWED):
            with self._owning:
                if not self._owner or ended is not self._beat:
                    return
                with suppress(TegulaError):  # the storage may be back the next time
                    self.store.set(self._owner, json.dumps(Owner.here(self._claim)).encode())

    @property
    def is_taken(self) -> bool:
        """Whether this process has become the owner of its part."""
        return bool(self._owner)

    def release(self) -> None:
        """Let other processes work on the part."""
        if key := self._disowned():
            try:
                self.store.delete(key)
            except KeyboardInterrupt:  # once more, since nothing else does it
                self.store.delete(key)
                raise

    def _disowned(self) -> str:
        """Stop renewing the owner record; return its key, ``""`` if there is none."""
        with self._owning:
            key, self._owner = self._owner, ""
            Owner.end_claim(self._claim)
            if self._beat is not None:
                self._beat.release()
                self._beat = None
        return key

    def owners(self) -> dict[str, Owner]:
        """Return by part the processes that work on the job, or did."""
        prefix = f"{self._prefix}owners/"
        found = {key[len(prefix) :]: self.store.get(key) for key in sorted(self.store.list_prefix(prefix))}
        return {name: owner_of(raw) for name, raw in found.items() if raw is not None}

    def finish(self) -> None:
        """Remove the ledger of a job that is complete."""
        self.store.set(f"{self._prefix}done", b"{}")
        self.remove()

    def remove(self) -> None:
        """Remove the ledger: the records first, then the plan, and last the note that the job is complete."""
        last = [f"{self._prefix}plan.json", f"{self._prefix}done"]
        self.release()  # at once: others take a claim that an interrupt leaves for a process at work
        delete_keys(self.store, [key for key in self.store.list_prefix(self._prefix) if key not in last])
        for key in last:
            self.store.delete(key)

    def sweep(self) -> None:
        """Remove records of a job that is over: a part may write some after another part has completed the target."""
        keys = self._records()
        if keys and self.plan() is None:
            delete_keys(self.store, keys)

    def nbytes(self) -> int:
        """Return the size of the ledger in bytes."""
        return sum(self.store.size(key) or 0 for key in self.store.list_prefix(self._prefix))

    def whole(self) -> Ledger:
        """Return a ledger for work that is not divided into parts; the process that needs the result does all of it."""
        if self.part == (1, 1):
            return self
        return self._shared_as(1, 1)

    def living_parts(self) -> list[int]:
        """Return the numbers of the parts that run now, including this one."""
        number, parts = self.part
        found = {name for name, owner in self.owners().items() if owner.is_alive and name.endswith(f"of{parts}")}
        return sorted({number, *(int(name.partition("of")[0]) for name in found)})

    def among_living(self) -> Ledger:
        """Return a ledger for units that the parts which run now share."""
        if self.part == (1, 1):
            return self
        living = self.living_parts()
        return self._shared_as(living.index(self.part[0]) + 1, len(living))

    def _shared_as(self, number: int, parts: int) -> Ledger:
        made = Ledger(self.store, self.path, (number, parts))
        made._begun = self._begun
        made.read()
        return made

    # --- what is done

    def read(self) -> None:
        """Read which units are done."""
        done, runs, sums = dict[int, Amounts](), list[_Run](), dict[str, Amounts]()
        arrays: dict[str, Amounts] = {}
        # a record that vanishes after it was listed has been merged into another, which the next listing shows
        found: dict[str, Amounts | None] = {}
        for _ in range(_LISTINGS):
            keys = self._records()
            found = dict(zip(keys, gather(self._amounts, keys, self.store.concurrency)))
            if None not in found.values():
                break
        for key, amounts in found.items():
            kind, _, name = key[len(self._prefix) :].partition("/")
            if amounts is None:
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

    def _records(self) -> list[str]:
        return [key for key in self.store.list_prefix(self._prefix) if _RECORD(key[len(self._prefix) :])]

    def _amounts(self, key: str) -> Amounts | None:
        raw = self.store.get(key)  # ``None`` if another part has merged the record
        if raw is None:
            return None
        with suppress(MetadataError):
            found = load(raw, key)
            if all(_is_amount(*item) for item in found.items()):
                return found
        raise MetadataError("the record is damaged; delete it, and its unit will be done again", key=key)

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
        raw = json.dumps({**amounts}, separators=(",", ":")).encode()
        with suppress(ConflictError):  # done twice, for example by a worker that was taken for dead
            self.store.set(f"{self._prefix}units/{number}", raw, if_generation=ABSENT)
        self.note(number, amounts)

    def recorded(self, number: int) -> Amounts | None:
        """Return the stored record of a unit; ``None`` if there is none."""
        return self._amounts(f"{self._prefix}units/{number}")

    def note(self, number: int, amounts: Amounts) -> None:
        """Remember that a worker has recorded a unit as done."""
        with self._lock:
            self._done[number] = amounts

    def gather(self, numbers: Iterable[int]) -> None:
        """Merge the records of successive units of this part into one."""
        found = [(number, self._done[number]) for number in numbers if number in self._done]
        if len(found) < 2:
            return
        first, stop = found[0][0], found[-1][0] + 1
        name = f"{first}-{stop}-{self.part[0] - 1}of{self.part[1]}"
        total = _sum(amounts for _, amounts in found)
        total["units"] = len(found)
        with suppress(ConflictError):
            self.store.set(f"{self._prefix}runs/{name}", json.dumps(total).encode(), if_generation=ABSENT)
        with self._lock:
            self._set_runs({*self._runs[0], (first, stop, self.part[0] - 1, self.part[1])})
            self._sums[name] = total
            for number, _ in found:
                self._done.pop(number, None)
        delete_keys(self.store, [f"{self._prefix}units/{number}" for number, _ in found])

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
        with suppress(ConflictError):
            self.store.set(f"{self._prefix}arrays/{first}", json.dumps(total).encode(), if_generation=ABSENT)
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
    numbers = {
        name: amount for name, amount in amounts.items() if type(amount) in (int, float)
    }  # other values are results of units
    for name, amount in numbers.items():
        total[name] = max(total[name], amount) if name.startswith("largest ") else total[name] + amount


def are_facts(found: Mapping[str, Any]) -> bool:
    """Return whether a document has the facts of a plan (`Plan.facts`), as far as they are used."""
    arrays = found.get("arrays")
    plain = isinstance(found.get("groups"), dict) and _is_count(found.get("units"))
    return plain and isinstance(arrays, list) and all(map(_is_piece, arrays))


def _is_plan(found: Mapping[str, Any]) -> bool:
    begun: Any = found.get("begun")
    texts = all(isinstance(found.get(name), str) for name in ("operation", "source", "target"))
    return texts and type(begun) in (int, float) and 0 <= begun < LATEST and are_facts(found)


def _is_piece(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return False
    source = found.get("source")
    documents = source.get("documents", {}) if isinstance(source, dict) else None
    return isinstance(documents, dict) and all(_is_count(found.get(name)) for name in ("first", "units"))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _is_amount(name: str, value: Any) -> bool:
    """Return whether a member of a record can be summed up, or is the result of a unit."""
    if name == "units":
        return _is_count(value)
    if type(value) in (int, float):
        return bool(abs(value) < (2**63 if name.startswith("largest ") else _LARGEST))
    return True


def is_shared(store: Store) -> bool:
    """Return whether other processes can read and write the values of a store."""
    if isinstance(store, (MemoryStore, MappingStore)):
        return False
    return isinstance(store, LocalStore) or isinstance(store.identity, str) or survives(store)
