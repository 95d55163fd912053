"""Sharing: operations whose results are computed box by box and merged, by a runner and with a ledger."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import numpy as np

from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather, results_of
from tegula.engine.stored.misplaced import refuse_misplaced
from tegula.errors import MetadataError, TegulaError
from tegula.hierarchy.sources import Source, Sources
from tegula.hierarchy.walking import Node, arrays_below
from tegula.jobs.ledger import UNRECORDED, Amounts, Ledger, Records
from tegula.jobs.plans import Piece, Plan, Unit, fingerprint_of
from tegula.jobs.runners.runner import Runner, Threads, Work, check_reachable, running
from tegula.jobs.units import Box, Progress, itemsize_of, one_at_a_time
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import Store
from tegula.stores.targets.opening import store_of

__all__ = ["Code", "Reading", "Share", "piece_for", "reading", "shared_results", "sharing"]

R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")


# --- results in a ledger


_TIMES: Final = (np.datetime64, np.timedelta64)
_SCALARS: Final[dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "time": (_TIMES, lambda t: [t.dtype.str, int(t.view("i8"))], lambda pair: np.int64(pair[1]).view(pair[0])),
    "float": (float, float.hex, float.fromhex),
    "complex": (complex, lambda z: [z.real.hex(), z.imag.hex()], lambda pair: complex(*map(float.fromhex, pair))),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
}
"""Scalars that JSON has no exact form for: their types, and functions that write and read them."""


@dataclass(frozen=True)
class Code(Generic[R]):
    """A conversion of an operation's results to JSON values and back."""

    classes: tuple[type, ...] = ()  # the dataclasses that occur in results

    def encode(self, result: R) -> dict[str, Any] | None:
        """Return a result as a record; ``None`` if it can't be recorded, so that its unit is done again."""
        try:
            return {"result": self._encoded(result)}
        except TypeError:
            return None

    def decode(self, record: Mapping[str, Any]) -> R:
        """Return the result in a record."""
        try:
            result: R = self._decoded(record["result"])
        except Exception as error:
            raise MetadataError("the record of the unit can't be read") from error
        return result

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, np.generic) and not isinstance(value, _TIMES):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        for kind, (types, write, _) in _SCALARS.items():
            if isinstance(value, types):
                return {kind: write(value)}
        if isinstance(value, tuple):
            return {"tuple": [self._encoded(part) for part in value]}
        if isinstance(value, dict):
            return {"dict": [[key, self._encoded(part)] for key, part in value.items()]}
        if is_dataclass(value) and type(value) in self.classes:
            return {"class": [type(value).__name__, *(self._encoded(getattr(value, f.name)) for f in fields(value))]}
        raise TypeError

    def _decoded(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind in _SCALARS:
            return _SCALARS[kind][2](inner)
        if kind == "tuple":
            return tuple(map(self._decoded, inner))
        if kind == "dict":
            return {key: self._decoded(part) for key, part in inner}
        name, *parts = inner
        (made,) = (one for one in self.classes if one.__name__ == name)
        return made(*map(self._decoded, parts))


# --- runner and ledger


@dataclass(frozen=True)
class Share(Generic[R]):
    """A runner for the boxes of an operation, and the ledger that records finished boxes."""

    runner: Runner
    code: Code[R]
    ledger: Records = UNRECORDED
    plan: Plan | None = None  # the arrays, if there is a ledger


@contextmanager
def sharing(
    plan: Plan,
    code: Code[R],
    pieces: Callable[[], Iterable[Piece]],
    stores: Iterable[Store],
    *,
    runner: Any,
    workers: int | None,
    ledger: Any,
) -> Iterator[Share[R] | None]:
    """Yield the `Share` of an operation; ``None`` if the user gave no runner, workers or ledger.

    Only if there is a ledger, which is removed at the end, `pieces` is called: it returns the arrays to visit, as
    `piece_for` has them, which the `plan` still lacks. `stores` are those to read from.
    """
    if runner is None and workers is None and ledger is None:
        yield None
        return
    with running(runner, workers, *stores) as who:
        if ledger is None:
            yield Share(who, code)
            return
        store = store_of(ledger)
        check_reachable(who, store)
        for piece in sorted(pieces(), key=lambda piece: piece.name):
            plan.add(piece)
        records = Ledger(store, "")
        records.expected = plan
        try:
            begun = False
            if records.stored_plan() == (True, None):
                records.remove()  # it can't be read, and there is nothing but the ledger
            while not begun:  # another process may complete it at the same moment
                if records.is_done:
                    records.remove()
                begun = records.begin(plan, resume=True)
            yield Share(who, code, records, plan)
            if records.is_kept:
                records.finish()
            else:  # it was removed, or replaced by another operation
                records.sweep()
        finally:
            records.release()
        if store.local_directory is not None and store is not ledger:
            with suppress(OSError):  # it holds something else
                os.rmdir(store.local_directory)


def piece_for(name: str, *arrays: Array) -> Piece:
    """Return the units of arrays of the same shape that are read together: numbered by their first element."""
    prints = [fingerprint_of(array) for array in arrays]
    documents = {f"{side}: {key}": value for side, one in enumerate(prints) for key, value in one["documents"].items()}
    stored = [one.get("stored chunks") for one in prints]
    rule = {name: one[name] for one in prints for name in ("missing chunks",) if name in one}
    source = {"documents": documents, "shape": [*arrays[0].shape], "stored chunks": stored, **rule}
    return Piece(name, arrays[0].shape, regular_grid([1] * arrays[0].ndim), source)


class _Boxes(Work):
    """Work that applies a function to boxes of some arrays of one shape and records the results."""

    def __init__(self, name: str, function: Callable[[Box], Any], arrays: Sequence[Array], share: Share[Any]) -> None:
        self.name, self.function, self.code, self.ledger = name, function, share.code, share.ledger
        self.room = sum(map(itemsize_of, arrays))
        self.requests = max(array.store.concurrency for array in arrays)
        self.is_remote = any(array.store.is_remote for array in arrays)

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
    share: Share[R], name: str, function: Callable[[Box], R], boxes: Iterable[Box], *arrays: Array
) -> Iterator[tuple[R, int]]:
    """Yield the result and the number of elements of each box of arrays of one shape, in the order of the boxes.

    `name` is the path of the arrays below the source, and `function`, which can be pickled, computes a result.
    """
    ledger = share.ledger
    first = 0 if share.plan is None else share.plan.pieces[name].first
    units = deque[Unit]()  # units whose results have not been yielded yet
    ready: dict[int, R] = {}

    def unrecorded() -> Iterator[Unit]:
        for box in boxes:
            number = 0
            for part, size in zip(box, arrays[0].shape):
                number = number * size + part.start
            unit = Unit(first + number, box)
            units.append(unit)
            if (record := ledger.known(unit.number)) is not None:
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

    for unit, result in share.runner.run(_Boxes(name, function, arrays, share), unrecorded()):
        ready[unit.number] = result
        yield from in_turn()
    yield from in_turn()


# --- operations that only read


class Reading(Generic[R]):
    """An operation that only reads: it goes through nodes that are read together, and has results for their boxes."""

    def __init__(self, share: Share[R], nodes: Sequence[Node], progress: Progress | None) -> None:
        self._share, self._progress = share, one_at_a_time(progress)
        self._nodes = nodes
        self.sources = [Sources(node, changed=share.ledger.spoil) for node in nodes]
        self._requests = max(node.store.concurrency for node in nodes)

    def each(self, work: Callable[[T], V], items: Iterable[T]) -> Iterator[V]:
        """Yield the results for nodes, in order, of which several are worked on at the same time."""
        return results_of(work, items, max(self._requests, self._share.runner.workers))

    def of_arrays(self, work: Callable[[str, Array], V]) -> tuple[dict[str, V], dict[str, str]]:
        """Return by path the result for each array at and below the node, and the reason if it could not be read.

        Raises
        ------
        TegulaError
            If the node itself is an array, and can't be read.
        """
        (node,), (sources,) = self._nodes, self.sources
        if isinstance(node, Array):
            with self._unchanged(node):
                return {"": work("", node)}, {}
        results, failed = dict[str, V](), dict[str, str]()

        def read(entry: tuple[str, Array]) -> tuple[str, V | TegulaError]:
            return entry[0], self.attempt(partial(work, *entry), entry[1])

        for path, result in self.each(read, arrays_below(node, failed, sources)):
            if isinstance(result, TegulaError):
                failed[path] = str(result)
            else:
                results[path] = result
        return results, failed

    def attempt(self, work: Callable[[], V], *arrays: Array) -> V | TegulaError:
        """Return the result of work on arrays, or the error if they can't be read or have changed."""
        try:
            with self._unchanged(*arrays):
                return work()
        except TegulaError as error:
            return error

    def _unchanged(self, *arrays: Array) -> AbstractContextManager[None]:
        """Compare arrays with their stores, since what is missing in another node would count as fill values."""
        sides = [*zip(self.sources, arrays)]
        return Source.all_of(gather(lambda side: side[0].array(side[1]), sides, self._requests))

    def results(
        self, path: str, work: Callable[[Box], R], boxes: Iterable[Box], others: Callable[[int], R], *arrays: Array
    ) -> Iterator[R]:
        """Yield the results for all elements of arrays of one shape, and report the progress.

        `path` is theirs below the nodes. `work`, which can be pickled, computes the result of a box, and `others` that
        of the elements outside of the boxes, which hold the fill value, given their number.

        Raises
        ------
        MetadataError
            If the chunks of an array are those of another chunk key encoding.
        """
        gather(refuse_misplaced, [array.stored for array in arrays], self._requests)
        first, done = arrays[0], 0
        for result, size in shared_results(self._share, path, work, boxes, *arrays):
            yield result
            done += size
            if self._progress is not None:
                self._progress(path, done * first.itemsize, first.nbytes)
        yield others(first.size - done)
        if self._progress is not None:
            self._progress(path, first.nbytes, first.nbytes)


@contextmanager
def reading(
    operation: str,
    code: Code[R],
    nodes: Sequence[Node],
    progress: Progress | None,
    pieces: Callable[[], Iterator[Piece]] | None = None,
    **who: Any,
) -> Iterator[Reading[R]]:
    """Yield an operation that only reads; at the end, groups and tables are compared with their stores.

    `pieces` returns the arrays for the plan, by default all at and below the one node; `who` is passed to `sharing`.
    """

    def below() -> Iterator[Piece]:
        return (piece_for(path, array) for path, array in arrays_below(nodes[0], {}))

    urls = [node.location for node in nodes]
    plan = Plan(operation, {}, urls[0], "".join(urls[1:]))
    with sharing(plan, code, pieces or below, [node.store for node in nodes], **who) as share:
        made = Reading(Share(Threads(), code) if share is None else share, nodes, progress)
        yield made
        gather(Sources.check, made.sources, max(node.store.concurrency for node in nodes))
