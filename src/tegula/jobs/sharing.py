"""Sharing: operations whose results are computed box by box and merged, by a runner and with a ledger."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import results_of
from tegula.errors import MetadataError, TegulaError
from tegula.hierarchy.group import Group
from tegula.hierarchy.sources import Sources
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Plan, Unit, fingerprint_of
from tegula.jobs.records import Amounts
from tegula.jobs.runners.runner import Runner, Work, check_reachable, runner_of
from tegula.jobs.units import Box, arrays_below, box_results
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.stores import store_of

__all__ = [
    "Code", "Entry", "Share", "entry_for", "of_each_array", "shared_results", "sharing", "sharing_arrays",
    "sources_for",
]  # fmt: skip

R = TypeVar("R")
T = TypeVar("T")
Entry = tuple[str, tuple[int, ...], dict[str, Any]]
"""Path and shape of an array that an operation visits, and the fingerprint of what is read."""


# --- results in a ledger


@dataclass(frozen=True)
class Code(Generic[R]):
    """A conversion of an operation's results to JSON values and back.

    Parameters
    ----------
    classes : tuple of type
        The dataclasses that occur in results.

    Examples
    --------
    >>> code, result = Code(), (1.5, None, np.datetime64("2020-01-01"))
    >>> code.decode(code.encode(result)) == result
    True
    """

    classes: tuple[type, ...] = ()

    def encode(self, result: R) -> dict[str, Any] | None:
        """Return a result as a record; ``None`` if it can't be recorded, so that its unit is done again."""
        try:
            return {"result": self._encoded(result)}
        except TypeError:
            return None

    def decode(self, record: Mapping[str, Any]) -> R:
        """Return the result in a record."""
        try:
            found: R = self._decoded(record["result"])
        except Exception as error:
            raise MetadataError("the record of the unit can't be read") from error
        return found

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, (np.datetime64, np.timedelta64)):
            return {"time": [value.dtype.str, int(value.view("i8"))]}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, tuple):
            return {"tuple": [self._encoded(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[key, self._encoded(item)] for key, item in value.items()]}
        if is_dataclass(value) and type(value) in self.classes:
            return {"class": [type(value).__name__, *(self._encoded(getattr(value, f.name)) for f in fields(value))]}
        raise TypeError

    def _decoded(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "time":
            return np.int64(inner[1]).view(inner[0])
        if kind == "float":
            return float.fromhex(inner)
        if kind == "complex":
            return complex(*map(float.fromhex, inner))
        if kind == "bytes":
            return bytes.fromhex(inner)
        if kind == "tuple":
            return tuple(map(self._decoded, inner))
        if kind == "dict":
            return {key: self._decoded(item) for key, item in inner}
        name, *parts = inner
        made = {one.__name__: one for one in self.classes}[name]
        return made(*map(self._decoded, parts))


# --- runner and ledger


@dataclass(frozen=True)
class Share(Generic[R]):
    """A runner for the boxes of an operation, and the ledger that records finished boxes.

    Parameters
    ----------
    runner : Runner
        Computes the boxes.
    code : Code
        How results are recorded.
    ledger : Ledger, optional
        The ledger that records finished boxes.
    plan : Plan, optional
        The arrays, if there is a ledger.
    """

    runner: Runner
    code: Code[R]
    ledger: Ledger | None = None
    plan: Plan | None = None


@contextmanager
def sharing(
    plan: Plan,
    code: Code[R],
    entries: Callable[[], Iterable[Entry]],
    stores: Iterable[Any],
    *,
    runner: Any,
    workers: int | None,
    ledger: Any,
) -> Iterator[Share[R] | None]:
    """Yield the `Share` of an operation; ``None`` if the user gave no runner, workers or ledger.

    Parameters
    ----------
    plan : Plan
        The operation, still without arrays.
    code : Code
        How results are recorded.
    entries : callable
        Returns the arrays to visit; called only if there is a ledger.
    stores : iterable of Store
        The stores to read from.
    runner, workers
        As for `runner_of`.
    ledger : str, path, mapping or Store, optional
        Where to keep the ledger; it is removed at the end.
    """
    if runner is None and workers is None and ledger is None:
        yield None
        return
    with runner_of(runner, workers) as who:
        check_reachable(who, *stores)
        if ledger is None:
            yield Share(who, code)
            return
        place = store_of(ledger)
        check_reachable(who, place)
        for name, shape, source in sorted(entries(), key=lambda entry: entry[0]):
            plan.add(name, shape, regular_grid([1] * len(shape)), source)
        kept = Ledger(place, "")
        kept.expected = plan
        try:
            begun = False
            if kept.has_plan and kept.plan() is None:
                kept.remove()  # it can't be read, and there is nothing but the ledger
            while not begun:  # another process may complete it at the same moment
                if kept.is_done:
                    kept.remove()
                begun = kept.begin(plan, resume=True)
            yield Share(who, code, kept, plan)
            if kept.is_kept:
                kept.finish()
            else:  # it was removed, or replaced by another operation
                kept.sweep()
        finally:
            kept.release()
        if place.local_directory is not None and place is not ledger:
            with suppress(OSError):  # it holds something else
                os.rmdir(place.local_directory)


def sharing_arrays(
    operation: str, node: Array | Group | Table, code: Code[R], **who: Any
) -> AbstractContextManager[Share[R] | None]:
    """Return the context of `sharing` for an operation on the arrays at and below a node."""

    def entries() -> Iterator[Entry]:
        return (entry_for(name, array) for name, array in arrays_below(node, {}))

    return sharing(Plan(operation, {}, node.location, ""), code, entries, [node.store], **who)


def sources_for(node: Array | Group | Table, share: Share[Any] | None) -> Sources:
    """Return the sources of an operation on a node; a change is noted in the ledger, if there is one."""
    ledger = None if share is None else share.ledger
    return Sources(node, changed=None if ledger is None else ledger.spoil)


def of_each_array(
    node: Group | Table, work: Callable[[str, Array], T], share: Share[R] | None, sources: Sources
) -> tuple[dict[str, T], dict[str, str]]:
    """Return by path the result for each array below a node, and the reason for each that could not be read.

    Parameters
    ----------
    node : Group or Table
        The node.
    work : callable
        Returns the result for a path and an array; several threads may call it.
    share : Share, optional
        The runner and ledger for the boxes of the arrays.
    sources : Sources
        Receives the nodes that are visited, and compares them at the end.
    """
    found, failed = dict[str, T](), dict[str, str]()

    def attempt(item: tuple[str, Array]) -> Callable[[], None]:
        name, array = item
        try:
            result = work(name, array)
        except TegulaError as error:
            reason = str(error)
            return lambda: failed.update({name: reason})
        return lambda: found.update({name: result})

    requests = max(node.store.concurrency, 0 if share is None else share.runner.workers)
    for note in results_of(attempt, arrays_below(node, failed, sources), requests):
        note()
    sources.check()
    return found, failed


def entry_for(name: str, *arrays: Array) -> Entry:
    """Return the plan entry for arrays of the same shape that are read together."""
    found = [fingerprint_of(array) for array in arrays]
    documents = {f"{place}: {key}": value for place, one in enumerate(found) for key, value in one["documents"].items()}
    stored = [one.get("stored chunks") for one in found]
    source = {"documents": documents, "shape": [*arrays[0].shape], "stored chunks": stored}
    return name, arrays[0].shape, source


class _Boxes(Work):
    """Work that applies a function to boxes of an array and records the results."""

    def __init__(
        self,
        name: str,
        function: Callable[[Box], Any],
        room: int,
        stores: Sequence[Store],
        code: Code[Any],
        ledger: Ledger | None,
    ) -> None:
        self.name, self.function, self.room = name, function, room
        self.requests = max(store.concurrency for store in stores)
        self.is_remote = any(store.is_remote for store in stores)
        self.code, self.ledger = code, ledger

    def do(self, unit: Unit) -> Any:
        """Return the result for a box."""
        return self.function(unit.box)

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a box takes in memory."""
        return unit.size * self.room

    def record_of(self, result: Any) -> Amounts | None:
        """Return the record of a result."""
        return self.code.encode(result)

    def result_of(self, record: Amounts) -> Any:
        """Return the result in a record."""
        return self.code.decode(record)


def shared_results(
    share: Share[R] | None, name: str, function: Callable[[Box], R], found: Iterable[Box], array: Array, *others: Array
) -> Iterator[tuple[R, int]]:
    """Yield the result and number of elements of each box, in order, as `box_results` does.

    Parameters
    ----------
    share : Share, optional
        The runner and ledger; without it, this process does the work.
    name : str
        Path of the array below the source.
    function : callable
        Computes the result of a box; it can be pickled.
    found, array, *others
        As for `box_results`.
    """
    if share is None:
        yield from box_results(function, found, array, *others)
        return
    ledger = share.ledger
    first = 0 if share.plan is None else share.plan.pieces[name].first
    room = sum(8 if one.dtype.hasobject else one.itemsize for one in (array, *others))
    work = _Boxes(name, function, room, [one.store for one in (array, *others)], share.code, ledger)
    units = deque[Unit]()  # units whose results have not been yielded yet
    ready: dict[int, Any] = {}

    def left() -> Iterator[Unit]:
        for box in found:
            number = 0
            for part, size in zip(box, array.shape):
                number = number * size + part.start
            unit = Unit(first + number, box)
            units.append(unit)
            record = None if ledger is None else ledger.known(unit.number)
            if ledger is not None and record is not None:
                try:
                    ready[unit.number] = share.code.decode(record)
                    continue
                except MetadataError:
                    ledger.discard(unit.number)
            yield unit

    # in the same order for every runner, since sums of floats depend on it
    def in_turn() -> Iterator[tuple[R, int]]:
        while units and units[0].number in ready:
            unit = units.popleft()
            yield ready.pop(unit.number), unit.size

    for unit, result in share.runner.run(work, left()):
        ready[unit.number] = result
        yield from in_turn()
    yield from in_turn()
