"""Several threads and processes at once: nothing is lost, nothing is torn.

``TEGULA_RACES`` multiplies the work of some tests, for long runs.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.effort import amount
from tests.waiting import exit_code

import tegula
from tegula import config
from tegula.errors import AlreadyExistsError, ReadOnlyError, SelectionError, TegulaError
from tegula.stores import LocalStore, MappingStore, MemoryStore

WORKERS = 3
SCALE = amount("RACES", usual=1, nightly=10)
LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr1": {"format": "zarr1", "chunks": 400},
    "zarr2": {"format": "zarr2", "chunks": 400},
    "zarr3": {"chunks": 400},
    "shards": {"chunks": 10, "shards": 400},
}

PROGRAM = (
    f"SCALE = {SCALE}\n"
    + """
import json, os, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np, tegula

def elements(path, worker, count):
    array = tegula.open_array(path, mode="r+")
    for index in range(worker, array.size, count):
        array[index] = index + 1

def mixed(path, worker, count):
    # two threads of each process, with an array of their own or one in common
    shared = tegula.open_array(path, mode="r+")
    def work(half):
        array = shared if worker % 2 else tegula.open_array(path, mode="r+")
        for index in range(worker * 2 + half, array.size, count * 2):
            array[index] = index + 1
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))

def unless_shrunk(act):
    # what others have just cut off can't be read or written
    try:
        return act()
    except tegula.SelectionError as error:
        assert error.is_stale
        return None

def resize(path, worker, count):
    # what is written within the shape that all have in common stays, and what lies beyond an end is gone
    array = tegula.open_array(path, mode="r+")
    for number in range(20 * SCALE):
        array.resize(8 + (worker * 7 + number * 5) % 30)
        array[worker] = number + 1
        unless_shrunk(lambda: array.__setitem__(len(array) - 1, 99))
        array.attrs[str(worker)] = number
        seen = None
        while seen is None:
            seen = unless_shrunk(lambda: tegula.open_array(path)[...])
        assert 8 <= len(seen) < 38 and set(seen[count:].tolist()) <= {0, 99}, seen

def churn(path, worker, count, format):
    # processes create, overwrite, delete and open: what is there was written by one of them, as a whole
    seen = 0
    for number in range(15 * SCALE):
        mark = worker * 1000 + number + 1
        options = {"shape": 3, "dtype": "i4", "fill_value": mark, "attributes": {"who": mark}, "path": "a"}
        try:
            if number % 5 < 3:
                tegula.create_array(path, format=format, overwrite=number % 5 == 1, **options)
            elif number % 5 == 3:
                tegula.LocalStore(path).delete_prefix("a/")
            found = tegula.open_array(path, path="a")
            assert found.fill_value == found[1]
            seen += format == "zarr3" and found.attrs["who"] == found.fill_value
            assert format != "zarr3" or found.attrs["who"] == found.fill_value
        except (tegula.AlreadyExistsError, tegula.NotFoundError):
            pass
    return int(seen)

def members(path, worker, count):
    group = tegula.open_group(path, mode="r+")
    for number in range(4 * SCALE):
        group.create_array(f"{worker}.{number}", shape=2, dtype="i4")
        group.consolidate()
        known = set(tegula.open_group(path, consolidated=True))
        assert {f"{worker}.{earlier}" for earlier in range(number + 1)} <= known

def scribble(path, worker, count):
    # deletes an array that others write to
    try:
        array = tegula.open_array(path, mode="r+", path="a")
        if worker == 0:
            del tegula.open_group(path, mode="r+")["a"]
        else:
            for index in range(40):
                array[index] = 7
            array.attrs["x"] = 1
    except tegula.NotFoundError:
        pass

def attributes(path, worker, count):
    node = tegula.open(path, mode="r+")
    for number in range(25):
        node.attrs[f"{worker}.{number}"] = number

def append(path, worker, count):
    array = tegula.open_array(path, mode="r+")
    for number in range(15):
        array.append(np.full((2, 3), worker * 100 + number))

def create(path, worker, count, format):
    try:
        tegula.create_array(path, shape=3, dtype="i4", fill_value=worker, path="a/b", format=format)
    except tegula.AlreadyExistsError:
        return "lost"
    return "won"

for line in sys.stdin:
    job, *arguments = json.loads(line)
    print(json.dumps(globals()[job](*arguments)), flush=True)
"""
)

RunAtOnce = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def at_once() -> Iterator[RunAtOnce]:
    """Run a job of the program in several processes at once and return what each answered."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tegula.__file__).parents[1])}
    command = [sys.executable, "-c", PROGRAM]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        runs = [
            stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))
            for _ in range(WORKERS)
        ]

        def run(job: str, path: Path, *options: str) -> list[Any]:
            for worker, process in enumerate(runs):
                assert process.stdin is not None
                process.stdin.write(json.dumps([job, str(path), worker, WORKERS, *options]) + "\n")
                process.stdin.flush()
            return [json.loads(process.stdout.readline()) for process in runs if process.stdout is not None]

        yield run
        # leaving the stack closes the pipes, at which the processes end


def in_threads(action: Callable[[int], Any], count: int = 4) -> list[Any]:
    barrier = threading.Barrier(count)

    def run(worker: int) -> Any:
        barrier.wait(30)
        return action(worker)

    with ThreadPoolExecutor(count) as pool:
        return [*pool.map(run, range(count))]


@pytest.mark.slow
@pytest.mark.sampled(one_in=30)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_process_loses_an_update_of_a_chunk_that_others_change(
    layout: str, tmp_path: Path, at_once: RunAtOnce
) -> None:
    tegula.create_array(tmp_path / "x", shape=400, dtype="i4", **LAYOUTS[layout])
    at_once("elements", tmp_path / "x")
    np.testing.assert_array_equal(tegula.open_array(tmp_path / "x")[...], np.arange(400) + 1)
    # and nothing is left behind
    names = sorted(path.name for path in (tmp_path / "x").rglob("*") if path.is_file())
    assert names in (["0", "zarr.json"], [".zarray", "0"], ["0", ".zarray"], ["0", "attrs", "meta"])


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["zarr2", "shards"])
def test_no_thread_of_any_process_loses_an_update(layout: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    tegula.create_array(tmp_path / "x", shape=400, dtype="i4", **LAYOUTS[layout])
    at_once("mixed", tmp_path / "x")
    np.testing.assert_array_equal(tegula.open_array(tmp_path / "x")[...], np.arange(400) + 1)


@pytest.mark.slow
@pytest.mark.sampled(one_in=25)
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_processes_that_resize_and_write_at_once(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    array = tegula.create_array(tmp_path / "x", shape=38, chunks=8, dtype="i4", format=format)
    at_once("resize", tmp_path / "x")
    array.refresh()
    last = 20 * SCALE
    assert array[:WORKERS].tolist() == [last] * WORKERS
    assert array.attrs.asdict() == {str(worker): last - 1 for worker in range(WORKERS)}
    array.resize(WORKERS)
    array.resize(50)
    assert array[...].tolist() == [last] * WORKERS + [0] * (50 - WORKERS)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_node_created_and_deleted_at_once_is_never_mixed(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    tegula.create_group(tmp_path / "x", format=format)
    seen = at_once("churn", tmp_path / "x", format)
    assert format == "zarr2" or sum(seen) > 0
    tegula.create_array(tmp_path / "x", path="a", shape=2, dtype="u1", format=format, overwrite=True)
    assert tegula.open_group(tmp_path / "x")["a"].shape == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_consolidated_copy_has_all_that_was_there_before_it(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    tegula.create_group(tmp_path / "x", format=format)
    at_once("members", tmp_path / "x")
    assert len(tegula.open_group(tmp_path / "x", consolidated=True)) == WORKERS * 4 * SCALE


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_writing_does_not_restore_a_deleted_array(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    for _ in range(3 * SCALE):
        group = tegula.create_group(tmp_path / "x", format=format, overwrite=True)
        group.create_array("a", shape=40, chunks=2, dtype="i4")[...] = 1
        at_once("scribble", tmp_path / "x")
        assert "a" not in group
        again = group.create_array("a", shape=40, chunks=2, dtype="i4", overwrite=True)
        assert (again[...] == 0).all()
        assert again.attrs.asdict() == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LocalStore, MemoryStore, MappingStore])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_thread_loses_an_update(layout: str, kind: type, tmp_path: Path) -> None:
    store = kind(tmp_path / "x") if kind is LocalStore else kind({})
    tegula.create_array(store, shape=400, dtype="i4", **LAYOUTS[layout])

    def work(worker: int) -> None:
        array = tegula.open_array(store, mode="r+")
        for index in range(worker, 400, 4):
            array[index] = index + 1

    in_threads(work)
    np.testing.assert_array_equal(tegula.open_array(store)[...], np.arange(400) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_no_attribute_is_lost(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    tegula.create_group(tmp_path / "x", format=format, attributes={"first": 1})
    at_once("attributes", tmp_path / "x")
    expected = {f"{worker}.{number}": number for worker in range(WORKERS) for number in range(25)}
    assert tegula.open_group(tmp_path / "x").attrs.asdict() == {"first": 1, **expected}


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_no_append_is_lost(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    tegula.create_array(tmp_path / "x", shape=(0, 3), chunks=(7, 2), dtype="i4", fill_value=-1, format=format)
    at_once("append", tmp_path / "x")
    values = tegula.open_array(tmp_path / "x")[...]
    assert values.shape == (WORKERS * 15 * 2, 3)
    assert (values[::2] == values[1::2]).all()
    expected = [worker * 100 + number for worker in range(WORKERS) for number in range(15)]
    assert sorted(values[::2, 0]) == expected
    assert (values == values[:, :1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_of_several_creators_one_wins(format: str, tmp_path: Path, at_once: RunAtOnce) -> None:
    for name in "xy":
        (tmp_path / name).mkdir()
    answers = at_once("create", tmp_path / "x", format)
    assert sorted(answers) == ["lost"] * (WORKERS - 1) + ["won"]
    assert tegula.open_array(tmp_path / "x", path="a/b").fill_value == answers.index("won")

    def create(worker: int) -> bool:
        try:
            tegula.create_array(tmp_path / "y", shape=2, dtype="i4", fill_value=worker, format=format)
        except AlreadyExistsError:
            return False
        return True

    won = in_threads(create)
    assert sum(won) == 1
    assert tegula.open_array(tmp_path / "y").fill_value == won.index(True)


def test_opening_while_another_process_creates() -> None:
    for format in ("zarr1", "zarr2", "zarr3") * 10:
        store = MemoryStore()

        def work(worker: int, store: Any = store, format: str = format) -> tuple[tuple[int, ...], str]:
            array = tegula.open_array(store, mode="a", path="x", shape=3, dtype="i4", format=format)
            if format == "zarr1":
                return array.shape, ""
            root = tegula.open_group(store, mode="a", format=format)
            root.require_group("inner")
            return array.shape, root.require_array("values", shape=3, dtype="i4").path

        assert in_threads(work) == [((3,), "" if format == "zarr1" else "values")] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LocalStore, MemoryStore])
def test_a_shard_is_read_as_it_was_at_one_moment(kind: type, tmp_path: Path) -> None:
    store = kind(tmp_path / "x") if kind is LocalStore else kind()
    array = tegula.create_array(store, shape=4000, chunks=100, shards=4000, dtype="i4", codecs="gzip")
    array[...] = 1
    rng = np.random.default_rng(0)
    contents = [np.full(4000, 1), np.full(4000, 2), rng.permutation(4000)]
    done = threading.Event()

    def work(worker: int) -> int:
        if worker == 0:
            try:
                for number in range(150):
                    array[...] = contents[number % 3]
            finally:
                done.set()
            return 0
        reader = tegula.open_array(store)
        seen = 0
        while not done.is_set():
            values = reader[...]
            assert any((values == content).all() for content in contents)
            part = reader[50:3950:70]
            assert any((part == content[50:3950:70]).all() for content in contents)
            seen += 1
        return seen

    assert sum(in_threads(work, 3)) > 0


@pytest.mark.slow
def test_a_chunk_is_read_as_it_was_at_one_moment(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=50_000, chunks=50_000, dtype="i4", codecs=None)
    array[...] = 1
    done = threading.Event()

    def work(worker: int) -> None:
        if worker == 0:
            for number in range(100):
                array[...] = number % 5 + 1
            done.set()
        while not done.is_set():
            assert len(set(tegula.open_array(tmp_path / "x")[...].tolist())) == 1

    in_threads(work, 3)


# --- futures


def test_futures() -> None:
    array = tegula.create_array(MemoryStore(), shape=(6, 4), chunks=(2, 2), dtype="i4")
    values = np.arange(24).reshape(6, 4)
    future = array.write(..., values)
    assert future.result(30) is None
    assert future.done()
    assert future.exception() is None
    np.testing.assert_array_equal(array.read((slice(1, 5), 2)).result(30), values[1:5, 2])
    called = threading.Event()
    failing = array.read((9, 9))
    failing.add_done_callback(lambda same: called.set() if same is failing else None)
    assert isinstance(failing.exception(30), SelectionError)
    with pytest.raises(SelectionError):
        failing.result()
    assert called.wait(30)
    assert "done" in repr(failing)
    with pytest.raises(ReadOnlyError):
        tegula.open_array(array.store).write(..., 1).result()


def test_futures_are_awaited() -> None:
    array = tegula.create_array(MemoryStore(), shape=(6, 4), chunks=(2, 2), dtype="i4")

    async def work() -> list[Any]:
        await asyncio.gather(*[_awaited(array.write(row, row)) for row in range(6)])
        assert (await array.read(3) == 3).all()
        with pytest.raises(SelectionError):
            await array.read(99)
        return await asyncio.gather(*[_awaited(array.read(row)) for row in range(6)])

    assert [set(row.tolist()) for row in asyncio.run(work())] == [{row} for row in range(6)]


async def _awaited(future: Any) -> Any:
    return await future


def test_a_flush_waits_for_what_is_not_cancelled() -> None:
    begun, go = threading.Event(), threading.Event()

    class Blocked(MemoryStore):
        def set(self, key: str, value: Any, **options: Any) -> Any:
            if key.startswith("c/"):
                begun.set()
                assert go.wait(30)
            return super().set(key, value, **options)

    array = tegula.create_array(Blocked(), shape=300, chunks=1, dtype="i4")

    async def work() -> None:
        tasks = [asyncio.create_task(_awaited(array.write(number, 1))) for number in range(300)]
        await asyncio.to_thread(begun.wait, 30)
        flushing = asyncio.create_task(asyncio.to_thread(array.flush))
        await asyncio.sleep(0.05)
        for task in tasks:  # this ends the tasks that have not begun
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        go.set()
        await asyncio.wait_for(flushing, 30)

    asyncio.run(work())
    assert 1 <= (array[...] == 1).sum() < 300


@pytest.mark.slow
def test_background_work_may_use_as_many_threads_as_it_likes() -> None:
    """Operations that wait for chunks do not starve the chunks."""
    array = tegula.create_array(MemoryStore(), shape=(64, 40_000), chunks=(1, 10_000), dtype="i4", codecs=None)
    with config.configure(threads=3):
        for future in [array.write(slice(row, row + 2), row) for row in range(0, 64, 2)]:
            future.result(60)
        reads = [array.read() for _ in range(20)]
        for future in reads:
            assert (future.result(60)[::2, 0] == np.arange(0, 64, 2)).all()


def test_an_error_in_one_chunk_is_the_error_of_the_operation() -> None:
    for threads in (1, 4):
        with config.configure(threads=threads):
            array = tegula.create_array(MemoryStore(), shape=2**20, chunks=2**12, dtype="u1", codecs=["crc32c"])
            array[...] = 1
            array.store.set("c/77", b"damaged")
            with pytest.raises(TegulaError) as caught:
                array[...]
            assert caught.value.key == "c/77"


# --- fork, pickles, processes


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_and_writes(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=(16, 100_000), chunks=(1, 100_000), dtype="i4")
    with config.configure(threads=4):
        array[...] = 1  # the pools are in use
        array.read().result()
        child = os.fork()
        if child == 0:
            try:
                fine = (array[...] == 1).all()
                array[3] = 2
                fine = fine and (array.read(3).result(30) == 2).all()
                fine = fine and (tegula.open_array(tmp_path / "x")[3] == 2).all()
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        assert exit_code(child) == 0
        expected = np.ones(16)
        expected[3] = 2
        np.testing.assert_array_equal(array[:, 0], expected)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_nodes_and_stores_are_pickled_by_opening_them_again(tmp_path: Path, protocol: int) -> None:
    group = tegula.create_group(tmp_path / "x", attributes={"a": 1})
    array = group.create_array("v/w", shape=(4, 4), dtype="f4", fill_value=np.nan)
    array[0] = 1
    for node in (array, tegula.open_array(tmp_path / "x", path="v/w"), group, tegula.open_group(tmp_path / "x")):
        copy = pickle.loads(pickle.dumps(node, protocol))
        assert type(copy) is type(node)
        assert copy == node
        assert (copy.path, copy.format, copy.read_only) == (node.path, node.format, node.read_only)
        assert copy.attrs.asdict() == node.attrs.asdict()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array, protocol))[...], array[...])
    memory = tegula.create_array(MemoryStore(), shape=3, dtype="i4", fill_value=7)
    assert pickle.loads(pickle.dumps(memory, protocol))[...].tolist() == [7, 7, 7]
    dump = pickle.dumps(array, protocol)
    del group["v"]
    with pytest.raises(TegulaError):
        pickle.loads(dump)[...]


@pytest.mark.slow
def test_arrays_go_to_other_processes(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=8, chunks=2, dtype="i4")
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        jobs = [pool.apply_async(array.__setitem__, (index, index)) for index in range(8)]
        for job in jobs:
            job.get(60)
        assert pool.apply(array.__getitem__, (5,)) == 5
    assert array[...].tolist() == [*range(8)]
