"""The operations that are timed: each regime makes a task for a contender and a case."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cold
import numpy as np
from cases import Case, Values, box_key
from contenders.interface import Contender, Lacking
from places import Place

SMALL = {"v2-8k-lz4-u2", "v2-128k-lz4-u2", "v3-8k-lz4-u2", "v3-128k-lz4-u2"}
APPENDED = SMALL | {"v2-8k-zstd-u2", "v2-128k-zstd-u2", "v2-2m-lz4-u2", "v2-2m-zstd-u2", "v2-32m-lz4-u2"}


class Task:
    """Something that is run again and again; only `run` is timed."""

    single = False  # `before` has to come before every run
    amount: float = 1  # operations in a run

    def __init__(self, contender: Contender, case: Case, place: Place) -> None:
        self.contender, self.case, self.place = contender, case, place
        self.array: Any = None
        self.prepare()

    def prepare(self) -> None:
        self.array = self.contender.open(self.case, self.place.filled(self.contender))

    def before(self) -> None:
        """Prepare a run; this is not timed."""

    @abstractmethod
    def run(self) -> Any:
        """Do what is timed."""

    def check(self, result: Any) -> None:
        """Raise `AssertionError` if what was read or written is wrong."""
        raise NotImplementedError

    def end(self) -> None:
        if self.array is not None:
            self.contender.close(self.array)
        self.array = None
        self.place.discard(self.contender.name)


def same(found: Any, expected: Any) -> None:
    assert np.array_equal(np.asarray(found), np.asarray(expected)), "it read something else"


class Read(Task):
    """All of an array, again and again."""

    def prepare(self) -> None:
        super().prepare()
        self.amount = self.case.nbytes
        self.get = self.contender.reader(self.array)

    def run(self) -> Any:
        return self.get(...)

    def check(self, result: Any) -> None:
        same(result, self.place.values())


class FirstRead(Read):
    """All of an array into new memory, because every result is kept."""

    single = True

    def prepare(self) -> None:
        super().prepare()
        self.kept: list[Any] = []
        self.contender.forget()

    def run(self) -> Any:
        self.kept.append(super().run())
        return self.kept[-1]


class Write(Task):
    """All of an array in which nothing was written."""

    single = True

    def prepare(self) -> None:
        self.amount = self.case.nbytes
        self.source = self.place.values()

    def before(self) -> None:
        if self.array is not None:
            self.contender.close(self.array)
        self.array = self.place.empty(self.contender, 0 if self.case.format == "bcolz" else None)

    def run(self) -> Any:
        if self.case.format == "bcolz":
            self.contender.append(self.array, self.source)
        else:
            self.contender.put(self.array, ..., self.source)

    def check(self, result: Any) -> None:
        self.compare(self.source)

    def compare(self, expected: Values) -> None:
        """Compare the stored values with `expected`; a contender reads files of its own format itself."""
        if not self.contender.makes(self.case):
            try:
                stored = self.place.stored(self.place.private(self.contender.name))
            except ImportError:  # in a worker, which has one library only
                pass
            else:
                return same(stored, expected)
        self.contender.close(self.array)
        self.array = self.contender.open(self.case, self.place.private(self.contender.name))
        return same(self.contender.reader(self.array)(...), expected)


class Overwrite(Write):
    """All of an array once more."""

    single = False

    def prepare(self) -> None:
        super().prepare()
        self.array = self.contender.open(self.case, self.place.copy(self.contender))

    def before(self) -> None:
        pass

    def run(self) -> Any:
        self.contender.put(self.array, ..., self.source)


class Append(Write):
    """An array that grows by one block after the other."""

    def before(self) -> None:
        if self.array is not None:
            self.contender.close(self.array)
        self.array = self.place.empty(self.contender, 0)

    def run(self) -> Any:
        for start, stop in self.case.blocks():
            self.contender.append(self.array, self.source[start:stop])


class Keys(Task):
    """Parts that are read one by one."""

    make: Callable[[Case], list[Any]]

    def prepare(self) -> None:
        super().prepare()
        self.keys = type(self).make(self.case)
        self.amount = len(self.keys)
        self.get = self.contender.reader(self.array)

    def run(self) -> Any:
        get = self.get
        return [get(key) for key in self.keys]

    def check(self, result: Any) -> None:
        values = self.place.values()
        for key, found in zip(self.keys, result, strict=True):
            same(np.asarray(found).reshape(-1), values[key].reshape(-1))


class Points(Keys):
    make = staticmethod(lambda case: case.points(case.operations))


class Element(Keys):
    make = staticmethod(lambda case: case.points(1) * case.operations)


class Windows(Keys):
    make = staticmethod(lambda case: [box_key(box) for box in case.windows(case.operations)])


class Fours(Keys):
    make = staticmethod(lambda case: [box_key(box) for box in case.fours(20)])


class Columns(Keys):
    make = staticmethod(lambda case: [(slice(None), column) for column in case.columns(2)])


class VectorisedPoints(Task):
    """Points in one call."""

    def prepare(self) -> None:
        super().prepare()
        self.axes = tuple(np.array(axis) for axis in zip(*self.case.points(500), strict=True))
        self.amount = 500

    def run(self) -> Any:
        return self.contender.points(self.array, self.axes)

    def check(self, result: Any) -> None:
        same(result, self.place.values()[self.axes])


class Update(Task):
    """Squares of 32 x 32 elements written within chunks."""

    def prepare(self) -> None:
        self.array = self.contender.open(self.case, self.place.copy(self.contender))
        self.keys = [box_key(box) for box in self.case.updates(self.case.changes)]
        self.amount = len(self.keys)
        self.block = np.full((32, 32), 7, self.case.dtype)

    def run(self) -> Any:
        for key in self.keys:
            self.contender.put(self.array, key, self.block)

    def check(self, result: Any) -> None:
        expected = self.place.values()
        for key in self.keys:
            expected[key] = self.block
        Write.compare(self, expected)


class Grow(Task):
    """Ten times some rows more, and nothing written."""

    amount = 10

    def prepare(self) -> None:
        self.array = self.contender.open(self.case, self.place.copy(self.contender))
        self.rows = self.case.shape[0]

    def run(self) -> Any:
        for _ in range(10):
            self.rows += 1
            self.contender.resize(self.array, (self.rows, *self.case.shape[1:]))

    def check(self, result: Any) -> None:
        found = self.contender.shape(self.array)
        assert found[0] == self.rows, f"it has {found[0]} rows"


class Shrink(Task):
    """Half of the rows deleted."""

    single = True

    def prepare(self) -> None:
        pass

    def before(self) -> None:
        if self.array is not None:
            self.contender.close(self.array)
        path = self.place.copy if self.contender.makes(self.case) else lambda one: self.place.linked(one.name)
        self.array = self.contender.open(self.case, path(self.contender))

    def run(self) -> Any:
        self.contender.resize(self.array, (self.case.shape[0] // 2, *self.case.shape[1:]))

    def check(self, result: Any) -> None:
        found = self.contender.shape(self.array)
        assert found[0] == self.case.shape[0] // 2, f"it has {found[0]} rows"


class Cold(Task):
    """A task before each run of which the array's files are dropped from memory."""

    single = True

    def before(self) -> None:
        cold.drop(self.place.filled(self.contender))


class ColdRead(Cold, Read): ...


class ColdPoints(Cold, Points): ...


class ColdWindows(Cold, Windows): ...


class ColdColumns(Cold, Columns): ...


class Open(Task):
    """An array opened and its first element read."""

    def prepare(self) -> None:
        self.path = self.place.filled(self.contender)
        self.key = (0,) * len(self.case.shape)

    def run(self) -> Any:
        array = self.contender.open(self.case, self.path)
        first = self.contender.reader(array)(self.key)
        self.contender.close(array)
        return first

    def check(self, result: Any) -> None:
        same(np.asarray(result).reshape(()), self.place.values()[self.key])


@dataclass(frozen=True)
class Regime:
    """A row of the table for each case that it is meant for."""

    name: str
    task: type[Task]
    unit: str
    applies: Callable[[Case], bool]
    writes: bool = False
    rounds: int = 99

    def lacking(self, contender: Contender, case: Case) -> None:
        reason = contender.lacks(case, self.name)
        if reason is None and contender.synced and not self.writes:
            reason = "reading is the same without waiting for the disk"
        if reason is not None:
            raise Lacking(reason)


def _any(case: Case) -> bool:
    return True


def _plane(case: Case) -> bool:
    return case.format != "bcolz"


def _small(case: Case) -> bool:
    return case.name in SMALL


def _appended(case: Case) -> bool:
    return case.name in APPENDED or case.format == "bcolz"


def _latency(case: Case) -> bool:
    return _plane(case) and case.chunk in ("8k", "128k") and case.codec == "lz4"


_ALL = [
    # results of the first are all kept, which is why it has few rounds
    Regime("first read", FirstRead, "MB/s", _any, rounds=3),
    Regime("read", Read, "MB/s", _any),
    Regime("write", Write, "MB/s", _any, writes=True),
    Regime("overwrite", Overwrite, "MB/s", lambda case: _plane(case) and case.codec in ("none", "lz4"), writes=True),
    Regime("append", Append, "MB/s", _appended, writes=True),
    Regime("points", Points, "op/s", _any),
    Regime("element", Element, "op/s", _latency),
    Regime("vectorised points", VectorisedPoints, "op/s", _any),
    Regime("windows", Windows, "op/s", _plane),
    Regime("four chunks", Fours, "op/s", _latency),
    Regime("columns", Columns, "op/s", _plane),
    Regime("update", Update, "op/s", _plane, writes=True),
    Regime("grow", Grow, "op/s", _small, writes=True),
    Regime("shrink", Shrink, "op/s", _small, writes=True),
    Regime("open", Open, "op/s", _latency),
    # on a disk, and on request
    Regime("cold read", ColdRead, "MB/s", _any),
    Regime("cold points", ColdPoints, "op/s", _any),
    Regime("cold windows", ColdWindows, "op/s", _plane),
    Regime("cold columns", ColdColumns, "op/s", _plane),
]
REGIMES: dict[str, Regime] = {regime.name: regime for regime in _ALL}
