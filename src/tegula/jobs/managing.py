"""Functions that find, show and remove jobs that are running or were interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tegula.arrays.keywords import known_keywords
from tegula.display.markup import printable
from tegula.engine.documents.finding import children
from tegula.engine.nodes.deleting import remove_incomplete
from tegula.errors import AlreadyExistsError, NotFoundError
from tegula.jobs.ledger import DIRECTORY, Ledger, survives
from tegula.jobs.owners import Owner
from tegula.jobs.plans import LARGEST, Piece
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import Store
from tegula.stores.targets.opening import store_of
from tegula.stores.targets.paths import address_of, local_path, location_of

if TYPE_CHECKING:
    from tegula.arrays.arguments import TargetLike

__all__ = [
    "Done",
    "JobState",
    "clean_job",
    "discard",
    "done_before",
    "jobs_around",
    "list_jobs",
    "refuse_running",
    "show_job",
]


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as its ledger describes it.

    Parameters
    ----------
    path : str
        Path of its target in the store.
    operation : str
        Name of the operation.
    source, target : str
        Where it reads and writes.
    begun : float
        When it began, in seconds since 1970.
    units, units_done : int
        Number of units, and how many of them are known to be done; of sparse arrays most are never visited.
    arrays, arrays_done : int
        Number of arrays, and how many are complete.
    owners : dict of str to Owner
        The processes that work or worked on it, by part.
    ledger_bytes : int
        Size of the ledger in bytes.

    Examples
    --------
    >>> import tegula
    >>> from tegula.jobs.ledger import Ledger
    >>> from tegula.jobs.plans import Plan
    >>> store = tegula.MemoryStore()
    >>> Ledger(store, "x").begin(Plan("convert", {}, "a.zarr", "x"), resume=False)
    True
    >>> tegula.jobs.show_job(store, "x").state
    'running'
    """

    path: str
    operation: str
    source: str
    target: str
    begun: float
    units: int
    units_done: int
    arrays: int
    arrays_done: int
    owners: Mapping[str, Owner]
    ledger_bytes: int

    @property
    def state(self) -> str:
        """``"running"`` if a process works on it, else ``"interrupted"``."""
        return "running" if any(owner.is_alive for owner in self.owners.values()) else "interrupted"

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "owners"}
        return {"state": self.state, **plain, "owners": {name: str(owner) for name, owner in self.owners.items()}}

    def __str__(self) -> str:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.begun))
        done = f"{self.units_done} of {self.units} units, {self.arrays_done} of {self.arrays} arrays done"
        lines = [
            printable(f"{self.state}: {self.operation} of {self.source} to {self.target}"),
            f"  begun {began}, {done}",
        ]
        for name, owner in self.owners.items():
            part, _, parts = name.partition("of")
            which = "" if parts == "1" else f"part {part} of {parts}: "
            lines.append(f"  {which}{printable(str(owner))}{'' if owner.is_alive else ', dead'}")
        return "\n".join(lines)


@known_keywords
def list_jobs(
    target: TargetLike, path: str = "", *, storage_options: Mapping[str, Any] | None = None
) -> list[JobState]:
    """Return the jobs in a store that are running or were interrupted.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to search; jobs at any depth are found.
    path : str
        Path in the store.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Raises
    ------
    NotFoundError
        If `target` is a path where no file or directory exists, or a URL below which nothing is stored.

    Examples
    --------
    >>> import tegula
    >>> tegula.jobs.list_jobs(tegula.MemoryStore())
    []
    """
    target, path, _ = address_of(target, path)
    here = local_path(target)
    if here is not None and not os.path.exists(here):
        raise NotFoundError("there is no file or directory", path=here)
    store = store_of(target, read_only=True, storage_options=storage_options)
    last, is_empty = f"{DIRECTORY}/plan.json", True
    plans = []
    for key in store.list_prefix(f"{path}/".lstrip("/")):
        is_empty = False
        if key == last or key.endswith(f"/{last}"):
            plans.append(key)
    if is_empty and isinstance(target, str) and (here is None or path):
        raise NotFoundError("nothing is stored here", path=location_of(store, path))
    states = [_state_of(store, key[: -len(last)].rstrip("/")) for key in sorted(plans)]
    return [state for state in states if state is not None]


@known_keywords
def show_job(target: TargetLike, path: str = "", *, storage_options: Mapping[str, Any] | None = None) -> JobState:
    """Return the state of the job that writes a target.

    Parameters
    ----------
    target : str, path, mapping or Store
        The target of the job.
    path : str
        Path in the target's store.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Raises
    ------
    NotFoundError
        If no job is under way or was interrupted there.

    Examples
    --------
    >>> import tegula
    >>> tegula.jobs.show_job(tegula.MemoryStore(), "x")
    Traceback (most recent call last):
    tegula.errors.NotFoundError: no job is under way or was interrupted here (path 'memory:...')
    """
    target, path, _ = address_of(target, path)
    store = store_of(target, read_only=True, storage_options=storage_options)
    state = _state_of(store, path)
    if state is None:
        raise NotFoundError("no job is under way or was interrupted here", path=location_of(store, path))
    return state


def jobs_around(store: Store, path: str) -> list[JobState]:
    """Return the jobs that write a node, a group above it or, where looking costs no request, a member of it."""
    if not survives(store):
        return []
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    if store.local_directory is not None:
        prefix = f"{path}/" if path else ""
        paths += [child.rstrip("/") for child in children(store, prefix)]
    states = [_state_of(store, target) for target in paths]
    return [state for state in states if state is not None]


class Done(NamedTuple):
    """What a job has done of an array: the share of its units, and the bytes that were written."""

    share: float
    written: int


def done_before(store: Store, path: str) -> dict[str, Done]:
    """Return what the job at a path has done, by array; nothing if there is no job."""
    ledger = Ledger(store, path)
    plan = ledger.plan()
    ledger.read()
    done = {}
    for array in () if plan is None else plan["arrays"]:
        grid = regular_grid(tuple(array["box"]))
        piece = Piece(array["name"], tuple(array["shape"]), grid, first=array["first"])
        complete = ledger.completed(piece.first)
        sums = ledger.sum_of(piece) if complete is None else complete
        share = 1 - ledger.left_of(piece) / piece.count if complete is None else 1.0
        done[piece.name] = Done(share, sums.get("written", 0))
    return done


@known_keywords
def clean_job(
    target: TargetLike, path: str = "", *, force: bool = False, storage_options: Mapping[str, Any] | None = None
) -> JobState:
    """Delete everything that an interrupted job has written, and its ledger; return the last state of the job.

    Parameters
    ----------
    target, path, storage_options
        As for `show_job`.
    force : bool
        Remove it even if a process seems to be working on it, for example after a machine was lost.

    Raises
    ------
    NotFoundError
        If no job is under way or was interrupted there.
    AlreadyExistsError
        If a process is working on it, and `force` is false.

    Examples
    --------
    >>> import tegula
    >>> tegula.jobs.clean_job({})
    Traceback (most recent call last):
    tegula.errors.NotFoundError: no job is under way or was interrupted here (path 'mapping:...')
    """
    target, path, _ = address_of(target, path)
    store = store_of(target, storage_options=storage_options)
    state = show_job(store, path)
    discard(store, path, force=force)
    if store is not target and store.local_directory is not None:  # which the job has created
        with suppress(OSError):
            os.rmdir(store.local_directory)
    return state


def discard(store: Store, path: str, *, force: bool = False, plan: Mapping[str, Any] | None = None) -> None:
    """Delete everything that a job has written, and its ledger, but not what it was to replace.

    `plan` says what may have been written if the plan of the job can't be read. A mirror stays as the sync has left it:
    the next one continues.
    """
    ledger = Ledger(store, path)
    is_there, stored = ledger.stored_plan()
    if stored is not None or not is_there:
        plan = stored
    if not force:
        refuse_running(store, path)
    made_anew = plan is not None and plan.get("operation") != "sync"
    if plan is not None and made_anew and not ledger.is_done and not ledger.look_for_old():
        ledger.forget_units()  # first: a unit with a record would not be done again
        prefix = f"{path}/" if path else ""
        arrays = [f"{prefix}{array['name']}".rstrip("/") for array in plan.get("arrays", ())]
        groups = sorted((f"{prefix}{name}".rstrip("/") for name in plan.get("groups", ())), key=len, reverse=True)
        for node in arrays + groups:
            remove_incomplete(store, node, chunks=node in arrays)
    ledger.remove()


def refuse_running(store: Store, path: str) -> None:
    """Raise an error if a process works on a job at a path; without a ledger, it keeps a claim there."""
    known = survives(store) and store.listable
    live = [owner for owner in Ledger(store, path).owners().values() if owner.is_alive] if known else []
    if live:
        raise AlreadyExistsError(f"another job works on it ({live[0]})", path=location_of(store, path))


def _state_of(store: Store, path: str) -> JobState | None:
    ledger = Ledger(store, path)
    is_there, plan = ledger.stored_plan()
    if not is_there:
        return None
    ledger.read()
    if plan is None:
        facts = "job whose plan can't be read", "", location_of(store, path), 0.0, 0
        return JobState(path, *facts, ledger.number_done(LARGEST), 0, 0, ledger.owners(), ledger.nbytes())
    arrays = plan.get("arrays", [])
    complete = [array for array in arrays if ledger.completed(array["first"]) is not None]
    done = sum(array["units"] for array in complete) + ledger.number_done(plan["units"])
    facts = plan["operation"], plan["source"], plan["target"], plan["begun"], plan["units"]
    return JobState(path, *facts, done, len(arrays), len(complete), ledger.owners(), ledger.nbytes())
