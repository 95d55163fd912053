"""Runners, the work that they carry out, and the choice of a runner by the user's arguments.

`do_units` has a runner do the units of an array that have no record in the ledger.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from tegula import config
from tegula.engine.concurrency.pool import results_of
from tegula.engine.reading.remote import UNITS
from tegula.errors import MetadataError, UnsupportedError
from tegula.jobs.ledger import RUN, UNRECORDED, Amounts, Records, add_amounts, is_shared
from tegula.jobs.plans import Piece, Unit, units_of
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.stores.local.open_files import GaveUp, waiting

__all__ = [
    "Result",
    "Runner",
    "Threads",
    "Work",
    "check_reachable",
    "check_wanted",
    "do_units",
    "runner_of",
    "running",
    "unpacked",
]

Coords = tuple[int, ...]
Result = tuple[Unit, Any]


class Work(ABC):
    """The work on each unit of one array. It can be pickled, so that other processes can do it."""

    name: str = ""  # path of the array below the source
    ledger: Records = UNRECORDED  # where the worker records that a unit is done
    requests: int = 0  # units that should be under way at once in a process: the `concurrency` of the stores
    is_remote: bool = False  # whether one of the stores is, so that the units under way take memory at the same time
    limits: Mapping[str, int] = MappingProxyType({})  # settings that keep a process within its memory, only lowered

    @abstractmethod
    def do(self, unit: Unit) -> Any:
        """Do one unit, and return its result; with a ledger, the amounts to record."""

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory."""
        return unit.size

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return the boxes and chunks to visit, in order, if few chunks are stored; ``None`` for all boxes."""
        return None

    def __call__(self, unit: Unit) -> Any:
        """Do one unit, and record in the ledger that it is done."""
        with UNITS.hold(self.nbytes(unit) if self.is_remote else 0):
            result = self.do(unit)
        self.ledger.record(unit.number, result, self.record_of)
        return result

    def record_of(self, result: Any) -> Amounts | None:
        """Return what the ledger records of a result; ``None`` for no record, so that the unit is done again."""
        found: Amounts = result
        return found

    def result_of(self, record: Amounts) -> Any:
        """Return the result that a record of the ledger stands for."""
        return record

    def packed(self) -> bytes:
        """Return the work as bytes for other processes."""
        return pickle.dumps(self)


def check_wanted() -> None:
    """Raise an error if another part of the operation has failed, so that nobody wants the results any more."""
    if waiting.is_over():
        raise GaveUp("stopped because another part of the operation failed")


@lru_cache(maxsize=64)
def unpacked(raw: bytes) -> Work:
    """Return the work that `Work.packed` has packed; cached, so that a process opens its stores and arrays once.

    From then on, the process, which was started for such work only, keeps within the limits of the work.
    """
    work = pickle.loads(raw)
    assert isinstance(work, Work)
    now = config.current()
    if lower := {name: value for name, value in work.limits.items() if value < getattr(now, name)}:
        config.put(**lower)
    return work


class Runner(ABC):
    """Carries out units in threads, in processes, or on other machines.

    Attributes
    ----------
    workers : int
        Number of units that it does at once; 0 for the `concurrency` of the stores.
    shares_memory : bool
        Whether the work is done in this process.
    """

    workers: int = 0
    shares_memory: bool = False

    @abstractmethod
    def run(self, work: Work, units: Iterable[Unit]) -> Iterator[Result]:
        """Yield each unit with its result; several threads may call it at once.

        Raises
        ------
        Exception
            The error of a unit, raised after all units under way have ended.
        """

    def close(self) -> None:
        """Release what the runner holds: processes, connections."""
        return

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Threads(Runner):
    """Does units in this process; in local stores one at a time, whose chunks the threads of the kernel share."""

    shares_memory = True

    def run(self, work: Work, units: Iterable[Unit]) -> Iterator[Result]:
        """Yield each unit with its result, in order."""
        return results_of(lambda unit: (unit, work(unit)), units, work.requests)


def runner_of(runner: Any, workers: int | None) -> Runner:
    """Return the runner for the arguments of a user: a name, a `Runner`, or what `Cluster` takes.

    Examples
    --------
    >>> type(runner_of(None, None)).__name__, type(runner_of("threads", None)).__name__
    ('Threads', 'Threads')
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise MetadataError(f"workers must be a number of processes, not {workers!r:.40}", field="workers")
    if isinstance(runner, Runner):
        return runner
    if runner is None:
        runner = "threads" if workers is None else "processes"
    if runner == "threads":
        if workers is not None:
            raise MetadataError(
                "threads are set with tegula.config.configure(threads=...); workers are processes", field="workers"
            )
        return Threads()
    if runner == "processes":
        return _made("processes", "Processes", workers)
    is_known = hasattr(runner, "submit") and hasattr(runner, "scheduler_info")
    if isinstance(runner, str):
        is_known = runner in ("dask", "local") or "://" in runner or runner.endswith(".json")
    if not is_known:
        raise MetadataError(
            f"{runner!r:.80} is not a runner: pass 'threads', 'processes', 'dask', the address of a scheduler, or a "
            "Client of dask.distributed",
            field="runner",
        )
    return _made("cluster", "Cluster", runner, workers)


def _made(module: str, name: str, *options: Any) -> Runner:
    made: Runner = getattr(import_module(f"tegula.jobs.runners.{module}"), name)(*options)
    return made


@contextmanager
def running(runner: Any, workers: int | None, *stores: Any) -> Iterator[Runner]:
    """Start the runner for the arguments of a user in a ``with`` block, if it can reach some stores."""
    with runner_of(runner, workers) as who:
        check_reachable(who, *stores)
        yield who


def check_reachable(runner: Runner, *stores: Any) -> None:
    """Refuse stores that the other processes of a runner can't reach."""
    for store in stores:
        if not runner.shares_memory and not is_shared(store):
            raise UnsupportedError(
                f"{store!r} is in the memory of this process, which others can't reach; use runner='threads'"
            )


def do_units(
    runner: Runner, work: Work, piece: Piece, report: Callable[[int], None]
) -> tuple[Counter[str], Counter[int]]:
    """Do the units of an array; `report` is called with the number of elements done so far.

    Return the sums over all units that are done, and the number of units left to each of the other parts of the job.
    """
    ledger, done, mine = work.ledger, 0, deque[int]()
    if (known := ledger.completed(piece.first)) is not None:
        return Counter(known), Counter()

    def units() -> Iterator[Unit]:
        return units_of(piece, work.stored(piece.grid))

    def skipped(size: int) -> None:
        nonlocal done
        done += size

    total = ledger.sum_of(piece)
    for count, (unit, result) in enumerate(runner.run(work, ledger.left(units(), mine, skipped)), start=1):
        ledger.note(unit.number, result)
        add_amounts(total, result)
        done += unit.size
        report(done)
        if not count % RUN:
            ledger.merge(mine)
    ledger.merge(mine)
    if ledger.part[1] == 1:
        return total, Counter()
    # what other parts have done
    ledger.read()
    if (known := ledger.completed(piece.first)) is not None:
        return Counter(known), Counter()
    return ledger.sum_of(piece), ledger.left_to_others(units())
