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

`tegula.jobs.records` reads and writes the last three. What a job makes that replaces a node is beside its ledger, below
`.tegula_job-new`, until it is complete.
"""

from __future__ import annotations

import _thread
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import JOB_DIRECTORY as DIRECTORY
from tegula.engine.reading.remote import delete_keys, delete_prefix
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, TegulaError, UnsupportedError
from tegula.formats.documents import load
from tegula.jobs.owners import LATEST, Owner, owner_of
from tegula.jobs.plans import Piece, Plan, digest, is_plan
from tegula.jobs.records import Records
from tegula.stores import ABSENT, Generation, Store
from tegula.stores.capabilities import EmptyDirectories, delete_if
from tegula.stores.targets.paths import location_of

__all__ = ["COMPLETE", "DIRECTORY", "Ledger", "is_ledger_key", "is_shared", "share_of", "survives"]

COMPLETE: Final = ".tegula_complete"
"""Name of the value that marks a complete target: the facts of the plan, stored in one of its arrays."""
_ROOMS: Final = ("units/", "runs/", "arrays/", "owners/", "of/")
_LAST: Final = ("plan.json", "replaces", "done")  # of a ledger that is removed; without a plan there is no job
_ATTEMPTS: Final = 10  # to become the owner of a part
_RENEWED: Final = 30.0


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
    return any(name == COMPLETE or name.startswith(DIRECTORY) for name in key.split("/"))


def survives(store: Store) -> bool:
    """Return whether stored values outlive a process that is killed, which values in an archive do not."""
    return not store.in_archive


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
                path=location_of(store, path),
            )
        super().__init__(store, f"{path}/{DIRECTORY}/".lstrip("/"), part)
        self.path = path
        self.replaces = False
        self.expected: Plan | None = None  # what this process is about to do
        self._owner = self._claim = ""
        self._beat: Any = None  # a lock; releasing it ends the thread that renews the owner record
        self._owning = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.path, self.part), {"job": self.job}

    def plan(self) -> dict[str, Any] | None:
        """Return the stored plan; ``None`` if there is no job, or its plan is lost."""
        return self.found_plan()[1]

    def found_plan(self) -> tuple[bool, dict[str, Any] | None]:
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
        """Whether the job that this process works on still exists; others may have completed or removed it."""
        if self.job is None:
            return True
        stored = self.plan()
        return stored is not None and stored["begun"] == self.job

    def spoil(self, what: str) -> None:
        """Note in the plan how the source has changed, since units that are done may hold what it never held."""
        key = f"{self._prefix}plan.json"
        with suppress(TegulaError):  # the caller raises the error that tells the user
            stored, generation = self.plan(), self.store.get(key, with_generation=True)[1]
            if stored is not None and stored["begun"] == self.job:
                self._delete_names()  # first: the plan must not be taken for the old one if it is lost
                self.store.set(key, json.dumps({**stored, "changed": what}).encode(), if_generation=generation)

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
            If another process works on the job, or there is a job and `resume` is false.
        MetadataError
            If the job there has another plan, or its source has changed; says what differs.
        """
        # the plan, stored by the process that begins
        where = location_of(self.store, self.path)
        self.expected = plan
        is_there, stored = self.found_plan()
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
            self._take(where)
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
            self._take(where)
            if self.has_plan:  # another job has just begun
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
                self.store.set(key, self._owner_record(), if_generation=generation)
                break
            except ConflictError:  # another owner, or a part that has completed the job has removed the old one
                self._disowned()
            except BaseException:  # a signal may come when it is stored already
                self._disowned()
                with suppress(TegulaError):
                    self._delete_claim(key)
                raise
        else:
            raise AlreadyExistsError("other processes begin to work on the job all the time", path=where)
        beat = _thread.allocate_lock()
        beat.acquire()  # first, since `_disowned` releases it after a signal, too
        self._beat = beat
        _thread.start_new_thread(self._give_signs, (beat,))

    def _owner_record(self) -> bytes:
        return json.dumps({**Owner.here(self._claim), "job": self.job}).encode()

    def _give_signs(self, ended: Any) -> None:
        """Renew the owner record each half minute, even if a unit takes longer, until the part is released."""
        while not ended.acquire(timeout=_RENEWED):
            with self._owning:
                if not self._owner or ended is not self._beat:
                    return
                with suppress(TegulaError):  # the storage may be back the next time
                    raw, generation = self.store.get(self._owner, with_generation=True)
                    if raw is None or owner_of(raw).facts.get("claim") != self._claim:
                        return  # the job was removed, or another process has taken the part
                    self.store.set(self._owner, self._owner_record(), if_generation=generation)

    @property
    def is_taken(self) -> bool:
        """Whether this process has become the owner of its part."""
        return bool(self._owner)

    def release(self) -> None:
        """Let other processes work on the part; the record of a process that has taken it meanwhile stays."""
        if key := self._disowned():
            try:
                self._delete_claim(key)
            except KeyboardInterrupt:  # once more, since nothing else does it
                self._delete_claim(key)
                raise
        self._tidy()

    def _tidy(self) -> None:
        """Remove the directories of a ledger that are empty, as a process leaves them that is killed in between."""
        store, above = self.store, self._prefix
        if isinstance(store, EmptyDirectories) and store.has_prefix(above):
            for name in ("", *_ROOMS):
                if store.has_prefix(above + name):
                    store.delete(f"{above}{name}-")  # there is no such key; its directories go if they are empty

    def _delete_claim(self, key: str) -> None:
        """Delete the owner record at `key` if this process has stored it."""
        raw, generation = self.store.get(key, with_generation=True)
        if raw is not None and owner_of(raw).facts.get("claim") == self._claim:
            _delete_unchanged(self.store, key, generation)

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
        last = [self._prefix + name for name in _LAST]
        generations = [self.store.get(key, (0, 0), with_generation=True)[1] for key in last]
        self.release()  # at once: others take a claim that an interrupt leaves for a process at work
        # records before what they are of: a unit with a record would not be done again
        delete_keys(self.store, [key for key in self.store.list_prefix(self._prefix) if key not in last])
        if generations[_LAST.index("replaces")] != ABSENT:
            delete_prefix(self.store, self._new)
        for key, generation in zip(last, generations):
            _delete_unchanged(self.store, key, generation)

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

    def left_in(self, plan: Plan) -> int:
        """Return how many units of a plan are not done."""
        return sum(self.left_of(piece.first, piece.stop) for piece in plan.pieces.values())

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
        made.job, made.expected = self.job, self.expected
        made.read()
        return made


def _digest_of(plan: Plan) -> str:
    return digest(json.dumps(plan.facts(), sort_keys=True).encode())


def _delete_unchanged(store: Store, key: str, generation: Generation) -> None:
    """Delete a value, unless another process has replaced it: then it belongs to the next job."""
    if generation != ABSENT:
        with suppress(ConflictError):
            delete_if(store, key, generation)


def is_shared(store: Store) -> bool:
    """Return whether other processes can read and write the values of a store."""
    return not store.in_memory and (isinstance(store.identity, str) or survives(store))
