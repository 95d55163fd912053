"""Parts of a sync that run at once, operation by operation in a given order: none undoes what another has noted.

Each part works on the same target through a store of its own, which waits before each operation until it is its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.jobs.syncing.test_sync import check_same

import tegula
from tegula.jobs import units
from tegula.stores import MemoryStore
from tegula.stores.wrapping import WrappingStore
from tegula.testing.faults import Crash

pytestmark = pytest.mark.once(executors="both")
T = TypeVar("T")
PARTS = 3
_STUCK = 0.3  # seconds after which a part that does not come to its next operation waits for another one

Order = Sequence[tuple[int, int]]
"""Which part does how many operations, one after the other; afterwards they do the rest in order."""
orders = st.lists(st.tuples(st.integers(0, PARTS - 1), st.integers(1, 40) | st.integers(1, 250)), max_size=6)


class Turns:
    """Lets several threads go on one at a time, in a given order of their operations."""

    def __init__(self, order: Order, crash: tuple[int, int] | None) -> None:
        self._order = iter(order)
        self._now, self._left = next(self._order, (0, 0))
        self._crash = crash
        self._counts = [0] * PARTS
        self._waiting, self._running = [0] * PARTS, {*range(PARTS)}
        self._changed = threading.Condition()

    def wait(self, part: int) -> None:
        """Wait for the turn of a part; raise `Crash` if it is killed."""
        with self._changed:
            self._waiting[part] += 1
            self._changed.notify_all()
            while not self._is_turn_of(part):
                if not self._changed.wait(_STUCK) and not self._waiting[self._now]:
                    break  # the other one waits for a lock that this one has
            self._waiting[part] -= 1
            self._counts[part] += 1
            self._left -= 1
            if self._crash is not None and self._crash[0] == part and self._counts[part] > self._crash[1]:
                raise Crash

    def _is_turn_of(self, part: int) -> bool:
        while self._left <= 0 or self._now not in self._running:
            self._now, self._left = next(self._order, (min(self._running), 10**9))
        return self._now == part

    def end(self, part: int) -> None:
        with self._changed:
            self._running.discard(part)
            self._changed.notify_all()


class Stepwise(WrappingStore):
    """A store whose operations wait for the turn of a part."""

    turns: Turns
    part = 0

    def act(self, operation: str, key: str, work: Callable[[], T]) -> T:
        self.turns.wait(self.part)
        return work()


def run_parts(
    source: MemoryStore, target: MemoryStore, order: Order, crash: tuple[int, int] | None = None, **options: Any
) -> list[Any]:
    """Sync by several parts at once; return their reports and errors."""
    turns = Turns(order, crash)

    def run(part: int) -> Any:
        store = Stepwise(target)
        store.turns, store.part = turns, part
        try:
            return tegula.sync(source, store, part=(part + 1, PARTS), **options)
        except (tegula.TegulaError, Crash) as error:
            return error
        finally:
            turns.end(part)

    with ThreadPoolExecutor(PARTS) as pool:
        return [*pool.map(run, range(PARTS))]


def new_source() -> tuple[MemoryStore, tegula.Group]:
    source = MemoryStore()
    group = tegula.create_group(source, attributes={"title": "first"})
    group.create_array("cut", data=np.arange(20).reshape(4, 5) + 1, chunks=(2, 2))
    group.create_array("old", data=np.arange(4), chunks=2)
    group.create_array("replaced", data=np.linspace(0, 1, 6), chunks=3)
    group.create_array("same", data=np.arange(1, 5), chunks=2)
    group.create_array("some", data=np.arange(1, 13), chunks=2)
    return source, group


def change(group: tegula.Group) -> None:
    """Make a change of each kind."""
    group.attrs["title"] = "second"
    group["cut"].resize(3, 7)
    group["cut"][:, 5:] = 9
    del group["old"]
    group.create_array("replaced", data=np.arange(5), chunks=2, overwrite=True)
    group["some"][2:9] = -1
    group["some"][9:] = 0  # a chunk is deleted
    group["some"].append([7, 8, 9])
    group.create_group("new", attributes={"a": 1}).create_array("x", data=np.arange(1, 7), chunks=2)


@pytest.fixture(autouse=True, scope="module")
def _small_units() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "BLOCK_BYTES", 1)  # a unit is one chunk
        yield


OPTIONS: tuple[dict[str, Any], ...] = ({}, {"chunks": {"some": 3, "cut": (3, 3)}})


class Pausing(WrappingStore):
    """A store that calls a function before, and one after, the operations on some key, each as often as there are."""

    others_act: Callable[[], object]
    moment: tuple[str, str]
    skip = 0

    def act(self, operation: str, key: str, work: Callable[[], T]) -> T:
        is_moment = operation == self.moment[0] and key.startswith(self.moment[1])
        if is_moment and self.skip == 0:
            self.others_act()
        found = work()
        if is_moment and self.skip == 1:
            self.others_act()
        self.skip -= 2 * is_moment
        return found


MEMORIES = [f"{name}/.tegula_sync/node.json" for name in ("some", "cut", "replaced", "new/x", "old", "")]
MOMENTS = [
    *((operation, key.lstrip("/")) for key in MEMORIES for operation in ("get", "set")),
    *(("list_states", key) for key in ("some/", "cut/", "replaced/", "new/x/", "old/")),
    *(("set", key) for key in ("some/c/", "some/zarr.json", "cut/zarr.json", "replaced/", "new/x/zarr.json")),
    *(("delete", key) for key in ("some/c/", "old/", ".tegula_job/")), ("delete_prefix", "old/"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_what_parts_do_between_steps_of_others_is_not_undone(moment: tuple[str, str]) -> None:
    happened = False
    for skip, options in enumerate([*OPTIONS, {}]):
        source, group = new_source()
        target = MemoryStore()
        tegula.sync(source, target, **options)
        change(group)
        reports = list[tegula.SyncReport]()

        def run_others(*parts: int) -> None:
            nonlocal happened
            happened = True
            reports.extend(tegula.sync(source, target, delete=True, part=(part, PARTS)) for part in parts)  # noqa: B023

        store = Pausing(target)
        store.moment, store.skip, store.others_act = moment, skip, lambda: run_others(1, 3)
        reports.append(tegula.sync(source, store, delete=True, part=(2, PARTS)))
        run_others(*({1, 3} if len(reports) == 1 else ()))
        assert all(report.ok for report in reports), reports
        if not min(report.units_left for report in reports):
            check_same(source, target)
        assert tegula.sync(source, target, delete=True).ok  # without force
        check_same(source, target)
        assert tegula.sync(source, target).is_same
    assert happened


@given(orders, st.sampled_from(OPTIONS))
@settings(max_examples=examples(60, slow=True), deadline=None)
def test_in_whatever_order_parts_work_none_refuses_what_another_writes(order: Order, options: dict[str, Any]) -> None:
    source, group = new_source()
    target = MemoryStore()
    for number in range(2):
        results = run_parts(source, target, order, delete=True, **({} if number else options))
        assert all(isinstance(result, tegula.SyncReport) and result.ok for result in results), results
        assert not min(result.units_left for result in results)
        assert not any(".tegula_job" in key for key in target.list())
        check_same(source, target)
        assert tegula.sync(source, target).is_same
        if not number:
            change(group)


@given(orders, st.tuples(st.integers(0, PARTS - 1), st.integers(0, 150)), st.sampled_from(OPTIONS), st.booleans())
@settings(max_examples=examples(60, slow=True), deadline=None)
def test_whenever_a_part_is_killed_the_next_sync_completes_the_target(
    order: Order, crash: tuple[int, int], options: dict[str, Any], as_parts: bool
) -> None:
    source, group = new_source()
    target = MemoryStore()
    tegula.sync(source, target, **options)
    change(group)
    results = run_parts(source, target, order, crash, delete=True)
    assert all(isinstance(result, (tegula.SyncReport, Crash)) for result in results), results
    if not as_parts:
        group["some"][0] = 77  # another state of the source
    for part in range(1, PARTS + 1) if as_parts else [None]:
        report = tegula.sync(source, target, delete=True, part=part and (part, PARTS))
        assert report.ok, report
    check_same(source, target)
    assert tegula.sync(source, target).is_same


@given(orders, st.sampled_from(["same", "some", "replaced", "old", "cut"]))
@settings(max_examples=examples(30, slow=True), deadline=None)
def test_in_whatever_order_parts_work_they_refuse_what_others_have_changed(order: Order, name: str) -> None:
    source, group = new_source()
    target = MemoryStore()
    tegula.sync(source, target)
    change(group)
    tegula.open_array(target, path=name, mode="r+")[0] = 99
    results = run_parts(source, target, order, delete=True)
    refused = [result for result in results if isinstance(result, tegula.ConflictError)]
    assert refused
    assert all("others have changed" in result.message for result in refused)
    assert np.all(tegula.open_array(target, path=name)[0] == 99)
    tegula.sync(source, target, delete=True, force=True)
    check_same(source, target)
    assert tegula.sync(source, target).is_same


@pytest.mark.parametrize("options", [{}, {"chunks": 3}], ids=["copied", "rewritten"])
def test_each_part_reports_the_chunks_that_it_has_written_itself(options: dict[str, Any]) -> None:
    source = MemoryStore()
    x = tegula.create_array(source, data=np.arange(1, 25), chunks=2)
    target = MemoryStore()
    number = 8 if options else 12
    for _ in range(2):
        reports = [tegula.sync(source, target, part=(part, PARTS), **options).arrays[0] for part in (1, 2, 3)]
        assert all(report.chunks_written for report in reports)
        assert sum(report.chunks_written for report in reports) == number
        assert sum(report.nbytes_read for report in reports) == sum(report.nbytes_written for report in reports)
        if options:
            assert sum(report.nbytes_read for report in reports) == x.nbytes
        x[...] = -x[...]
