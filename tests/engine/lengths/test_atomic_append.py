"""Rows appended to several arrays at once: an append is atomic, also when killed or beside other writers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.waiting import run_threads

import tegula
from tegula import config, engine
from tegula.engine import append_rows, resize_rows
from tegula.errors import MetadataError, NotFoundError, StoreError
from tegula.stores import MemoryStore
from tegula.stores.capabilities import Locking

FORMATS = ["bcolz", "zarr2", "zarr3"]


class Interrupted(Locking, MemoryStore):
    """A store that calls `act` before its operation number `at`, as a concurrent program would."""

    def __init__(self) -> None:
        super().__init__()
        self.at = -1
        self.count = 0
        self.alone = False
        self.act: Callable[[], None] = lambda: None
        self.own: list[tuple[Any, str]] = []  # columns that one program keeps open

    @contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        yield self.alone

    def _step(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.at = -1
            self.act()

    def get(self, *args: Any, **options: Any) -> Any:
        self._step()
        return super().get(*args, **options)

    def set(self, *args: Any, **options: Any) -> Any:
        self._step()
        return super().set(*args, **options)

    def delete(self, *args: Any, **options: Any) -> None:
        self._step()
        super().delete(*args, **options)


class Killed(BaseException):
    pass


def columns(store: tegula.Store, format: str) -> list[tuple[Any, str]]:
    return [(tegula.open_array(store, "r+", path=name).stored, name) for name in "ab"]


def make(store: Interrupted, format: str, known: bool = False) -> None:
    """Create the arrays; with `known`, the program that appends keeps them open and knows their lengths."""
    if format != "bcolz":
        tegula.create_group(store, format=format)
    options = {"format": format, "dtype": "i4"}
    tegula.create_array(store, path="a", shape=(0,), chunks=(4,), **options)
    tegula.create_array(store, path="b", shape=(0, 2), chunks=(3, 2), **options)
    store.own = columns(store, format) if known else []
    append(store, format, 0, 5, own=True)


def append(store: Interrupted, format: str, first: int, count: int, own: bool = False) -> None:
    rows = np.arange(first, first + count)
    by = store.own if own and store.own else columns(store, format)
    done = append_rows(by, [rows, np.stack([rows, -rows], 1)])
    by[:] = [(array, path) for array, (_, path) in zip(done, by)]


def table(store: tegula.Store) -> list[int]:
    """Read the rows of both arrays, which must be the same ones, up to the shorter array's length."""
    a, b = (tegula.open_array(store, path=name)[...] for name in "ab")
    rows = min(len(a), len(b))
    assert len(b) >= len(a)  # the first one leads: it never is the longer one
    np.testing.assert_array_equal(b[:rows], np.stack([a[:rows], -a[:rows]], 1))
    found: list[int] = a[:rows].tolist()
    return found


def steps(format: str, act: Callable[[Interrupted], None], alone: bool = False, known: bool = False) -> int:
    store = Interrupted()
    make(store, format, known)
    store.alone = alone
    store.count = 0
    act(store)
    return store.count


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [False, True])
def test_another_append_may_come_at_any_moment(format: str, known: bool) -> None:
    for at in range(1, steps(format, lambda store: append(store, format, 100, 11, own=True), known=known) + 1):
        store = Interrupted()
        make(store, format, known)
        store.at = store.count + at

        def other(store: Interrupted = store) -> None:
            append(store, format, 200, 6)

        store.act = other
        append(store, format, 100, 11, own=True)
        first, second = [*range(100, 111)], [*range(200, 206)]
        assert table(store) in ([*range(5), *first, *second], [*range(5), *second, *first]), at


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [False, True])
def test_two_appends_may_be_under_way_at_once(format: str, known: bool) -> None:
    """One goes up to a step, then the other up to one of its own, then the first to its end, then the other."""
    count = steps(format, lambda store: append(store, format, 100, 11, own=True), known=known)
    random = Random(7)
    for _ in range(60):
        turns = {"first": random.randint(1, count), "other": random.randint(1, count)}
        paused = {name: threading.Event() for name in turns}
        goes_on = {"first": paused["other"], "other": threading.Event()}
        left = dict(turns)

        class Scheduled(Interrupted):
            def _step(self, left: Any = left, paused: Any = paused, goes_on: Any = goes_on) -> None:
                name = threading.current_thread().name
                if name in left:
                    left[name] -= 1
                    if not left[name]:
                        paused[name].set()
                        assert goes_on[name].wait(60)

        store = Scheduled()
        make(store, format, known)

        def first(store: Any = store, paused: Any = paused, goes_on: Any = goes_on) -> None:
            append(store, format, 100, 11, own=True)
            paused["first"].set()
            goes_on["other"].set()

        def other(store: Any = store, paused: Any = paused) -> None:
            assert paused["first"].wait(60)
            append(store, format, 200, 6)
            paused["other"].set()

        threads = [threading.Thread(target=act, name=act.__name__) for act in (first, other)]
        run_threads(threads)
        one, two = [*range(100, 111)], [*range(200, 206)]
        assert table(store) in ([*range(5), *one, *two], [*range(5), *two, *one]), turns


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rows", [2, 5, 9])
@pytest.mark.parametrize("known", [False, True])
def test_a_resize_may_come_at_any_moment(format: str, rows: int, known: bool) -> None:
    for at in range(1, steps(format, lambda store: append(store, format, 100, 11, own=True), known=known) + 1):
        store = Interrupted()
        make(store, format, known)
        store.at = store.count + at

        def other(store: Interrupted = store) -> None:
            resize_rows(columns(store, format), rows)

        store.act = other
        append(store, format, 100, 11, own=True)
        added, kept = [*range(100, 111)], [*range(5), 0, 0, 0, 0][:rows]
        before = [*range(5), *added]
        assert table(store) in ([*kept, *added], [*before, *[0] * rows][:rows]), at


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_an_append_may_come_at_any_moment_of_a_resize(format: str) -> None:
    for rows in (2, 9):
        for at in range(1, steps(format, lambda store, rows=rows: resize_rows(columns(store, format), rows)) + 1):
            store = Interrupted()
            make(store, format)
            store.at = store.count + at

            def other(store: Interrupted = store) -> None:
                append(store, format, 100, 11)

            store.act = other
            resize_rows(columns(store, format), rows)
            kept = [*range(5), 0, 0, 0, 0][:rows]
            longer = [*range(5), *range(100, 111)]
            assert table(store) in ([*kept, *range(100, 111)], longer[:rows]), (rows, at)


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("what", ["append", "shrink", "grow"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(format: str, what: str, alone: bool, known: bool) -> None:
    acts: dict[str, Callable[[Interrupted], Any]] = {
        "append": lambda store: append(store, format, 100, 11, own=True),
        "shrink": lambda store: resize_rows(columns(store, format), 2),
        "grow": lambda store: resize_rows(columns(store, format), 9),
    }
    new = {"append": [*range(5), *range(100, 111)], "shrink": [0, 1], "grow": [*range(5), 0, 0, 0, 0]}[what]

    def die() -> None:
        raise Killed

    for at in range(1, steps(format, acts[what], alone, known) + 1):
        store = Interrupted()
        make(store, format, known)
        store.at, store.act, store.alone = store.count + at, die, alone
        with pytest.raises(Killed):
            acts[what](store)
        rest = table(store)
        assert rest in ([*range(5)], new), at
        append(store, format, 300, 4, own=True)  # goes on after the last row that counts
        assert table(store) == [*rest, *range(300, 304)], at


class Full(Interrupted):
    """A store with room for a number of bytes."""

    room = 10**9

    def set(self, key: str, value: Any, **options: Any) -> Any:
        others = sum(self.size(other) or 0 for other in self.list_prefix("") if other != key)
        if others + len(value) > self.room:
            raise StoreError("no space left")
        return super().set(key, value, **options)


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_an_append_for_which_there_is_no_room_leaves_nothing(format: str, alone: bool, known: bool) -> None:
    store = Full()
    make(store, format, known)
    store.alone = alone
    before = {key: store.get(key) for key in store.list_prefix("")}
    used = sum(map(len, before.values()))
    failures = 0
    while True:
        store.room = used + failures
        try:
            append(store, format, 100, 11, own=True)
        except StoreError:
            failures += 1
            assert table(store) == [*range(5)], failures
            after = {key: store.get(key) for key in store.list_prefix("")}
            b_is_longer = tegula.open_array(store, path="b").shape[0] > 5
            assert after == before or b_is_longer, failures
        else:
            break
    assert failures > 50
    assert table(store) == [*range(5), *range(100, 111)]


class Unsure(Interrupted):
    """A store whose write number `last` is done and fails nevertheless: perhaps its name is not on the disk."""

    last = 0

    def set(self, *args: Any, **options: Any) -> Any:
        generation = super().set(*args, **options)
        self.last -= 1
        if not self.last:
            raise StoreError("can't tell")
        return generation


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_an_append_that_fails_after_a_write_is_not_made_twice(format: str, alone: bool, known: bool) -> None:
    for last in range(1, steps(format, lambda store: append(store, format, 100, 11, own=True), alone, known)):
        store = Unsure()
        make(store, format, known)
        store.alone, store.last = alone, last
        try:
            append(store, format, 100, 11, own=True)
        except StoreError:
            assert table(store) in ([*range(5)], [*range(5), *range(100, 111)]), last
        else:
            assert table(store) == [*range(5), *range(100, 111)], last
        store.last = 0
        rest = table(store)
        append(store, format, 300, 4, own=True)
        assert table(store) == [*rest, *range(300, 304)], last


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [False, True])
def test_an_append_that_fails_leaves_the_rows_of_another_one(format: str, known: bool) -> None:
    """The other one comes at any moment, and takes all the room that is left."""
    failures = 0
    for at in range(1, steps(format, lambda store: append(store, format, 100, 11, own=True), known=known) + 1):
        store = Full()
        make(store, format, known)
        store.at = store.count + at

        def other(store: Full = store) -> None:
            append(store, format, 200, 6)
            store.room = sum(store.size(key) or 0 for key in store.list_prefix(""))

        store.act = other
        try:
            append(store, format, 100, 11, own=True)
        except StoreError:
            failures += 1
        store.room = Full.room
        append(store, format, 300, 3)
        first, second, third = [*range(100, 111)], [*range(200, 206)], [*range(300, 303)]
        assert table(store) in ([*range(5), *second, *third], [*range(5), *first, *second, *third]), at
    assert failures


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_changing_an_element_while_rows_are_appended_loses_neither(format: str, alone: bool, known: bool) -> None:
    for at in range(1, steps(format, lambda store: append(store, format, 100, 11, own=True), alone, known) + 1):
        store = Interrupted()
        make(store, format, known)
        store.alone = alone
        handle = tegula.open_array(store, "r+", path="a")
        store.at = store.count + at

        def other(handle: tegula.Array = handle) -> None:
            handle[4] = 44

        store.act = other
        append(store, format, 100, 11, own=True)
        a = tegula.open_array(store, path="a")[...]
        assert a.tolist() == [0, 1, 2, 3, 44, *range(100, 111)], at


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "make_store", [MemoryStore, lambda: tegula.MappingStore({}), None], ids=["memory", "dict", "local"]
)
def test_threads_that_append_at_once_lose_nothing(format: str, make_store: Any, tmp_path: Any) -> None:
    store = tegula.LocalStore(tmp_path / "x") if make_store is None else make_store()
    make(store, format)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(6):
                append(store, format, 1000 * number + 10 * turn, 3)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    run_threads(threads)
    assert not errors
    rows = table(store)
    assert rows[:5] == [*range(5)]
    blocks = [rows[at : at + 3] for at in range(5, len(rows), 3)]
    assert all(block == [*range(block[0], block[0] + 3)] for block in blocks)
    wanted = {1000 * number + 10 * turn for number in range(1, 5) for turn in range(6)}
    assert {block[0] for block in blocks} == wanted
    assert len(blocks) == len(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", ["memory", "local"])
def test_leftover_chunks_are_replaced_wherever_they_are(format: str, place: str, tmp_path: Any) -> None:
    stored = []
    for number, executor in enumerate(["reference", "auto", "auto", "auto"]):
        store = MemoryStore() if place == "memory" else tegula.LocalStore(tmp_path / str(number))
        with config.configure(executor=executor):
            make(store, format)
            before = {*store.list_prefix("")}
            append(store, format, 100, 20)
            added = sorted({*store.list_prefix("")} - before)
            kept = dict(zip(added, [b"damaged", store.get(added[-1]) or b""] * len(added)))
            resize_rows(columns(store, format), 5)
            for key in added[number::2] if number else []:  # as if the writer had been killed before the last step
                store.set(key, kept[key])
            append(store, format, 300, 20)
            assert table(store) == [*range(5), *range(300, 320)]
            stored.append({key: store.get(key) for key in store.list_prefix("")})
    assert all(found == stored[0] for found in stored)


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_different_lengths(format: str) -> None:
    store = MemoryStore()
    make(store, format)
    both = columns(store, format)
    resize_rows(both[1:], 3)
    with pytest.raises(MetadataError, match="differ in length"):
        append(store, format, 100, 2)
    with pytest.raises(MetadataError, match="differ in length"):
        resize_rows(both, 7)
    with pytest.raises(MetadataError, match="differ in length"):
        resize_rows(both, 4)
    assert [len(tegula.open_array(store, path=name)) for name in "ab"] == [5, 3]
    resize_rows(both, 3)
    assert table(store) == [0, 1, 2]
    resize_rows(both[1:], 8)  # as an append leaves it that was interrupted
    append(store, format, 100, 2)
    assert table(store) == [0, 1, 2, 100, 101]
    assert [len(tegula.open_array(store, path=name)) for name in "ab"] == [5, 5]


def test_an_array_that_was_replaced_is_not_appended_to() -> None:
    store = MemoryStore()
    make(store, "bcolz")
    old = columns(store, "bcolz")
    tegula.create_array(store, path="a", shape=(3,), dtype="f8", format="bcolz", overwrite=True)
    with pytest.raises(NotFoundError, match="replaced"):
        append_rows(old, [np.arange(2), np.zeros((2, 2))])
    store.delete_prefix("a/")
    with pytest.raises(NotFoundError, match="replaced"):
        append_rows(old, [np.arange(2), np.zeros((2, 2))])


def test_without_a_single_fill_value_rows_can_only_be_appended() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=(2, 2), chunks=(4, 2), dtype="i4", format="bcolz")
    storage = store.get("meta/storage") or b""
    store.set("meta/storage", storage.replace(b'"dflt": 0', b'"dflt": [1, 2]'))
    a = tegula.open_array(store, "r+")
    assert a.fill_value is None
    with pytest.raises(MetadataError, match="fill_value"):
        a.resize(3, 2)
    assert a.append([[5, 6]]) == (3, 2)
    assert a[...].tolist() == [[0, 0], [0, 0], [5, 6]]


@pytest.mark.parametrize("selection", [0, slice(None), [1, 3], slice(3, 4)])
def test_a_missing_or_short_chunk_is_an_error(selection: Any) -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=(4,), chunks=(4,), dtype="i4", format="bcolz")
    a[...] = [1, 2, 3, 4]
    whole = store.get("data/__0.blp")
    a.resize(3)
    cut = store.get("data/__0.blp")
    a.append([4])
    store.set("data/__0.blp", cut)
    with pytest.raises(tegula.CodecError, match="3 rows where the array has 4"):
        a[selection]
    store.delete("data/__0.blp")
    with pytest.raises(StoreError, match="missing"):
        a[selection]
    with pytest.raises(StoreError, match="missing"):
        a[1] = 5
    store.set("data/__0.blp", whole)
    assert a[...].tolist() == [1, 2, 3, 4]
    store.delete("data/__0.blp")
    a[...] = 7  # of which nothing is kept
    assert a[...].tolist() == [7, 7, 7, 7]


def test_a_reader_sees_appended_rows_after_refresh() -> None:
    store = MemoryStore()
    reader = tegula.create_array(store, shape=(3,), chunks=(4,), dtype="i4", format="bcolz", fill_value=9)
    tegula.open_array(store, "r+").append([1, 2, 3])
    assert reader[...].tolist() == [9, 9, 9]
    reader.refresh()
    assert reader[...].tolist() == [9, 9, 9, 1, 2, 3]
    assert engine.read_metadata(store, "") == reader.metadata


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alone", [False, True], ids=["table", "column"])
def test_rows_appended_while_a_table_is_cut_are_kept_whole(
    format: str, alone: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new rows are stored between the new length and the deletion of the old rows, if nothing prevents it."""
    columns = {name: np.arange(1, 5) * factor for name, factor in (("a", 1), ("b", 2))}
    tegula.create_table(tmp_path / "t", columns, format=format, chunks=2)
    shrinker, appender = (tegula.open_table(tmp_path / "t", mode="r+") for _ in range(2))
    shortened, written, cut = (threading.Event() for _ in range(3))
    module = engine.lengths.resizing if alone and format != "bcolz" else engine.lengths.atomic_append
    usual, change = engine.lengths.resizing.cut_off, engine.lengths.length_documents.LengthDocument.change

    def cut_off(array: Any, *args: Any, **options: Any) -> None:
        shortened.set()
        written.wait(0.3)
        usual(array, *args, **options)
        if alone or array.prefix == "b/":
            cut.set()

    def changed(length: Any, *args: Any, **options: Any) -> Any:
        if threading.current_thread() is second and length.array.prefix == "a/":
            written.set()
            cut.wait(3)
        return change(length, *args, **options)

    def append() -> None:
        shortened.wait(3)
        appender.append({"a": [7], "b": [14]})

    monkeypatch.setattr(module, "cut_off", cut_off)
    monkeypatch.setattr(engine.lengths.length_documents.LengthDocument, "change", changed)
    second = threading.Thread(target=append)
    second.start()
    (shrinker["a"] if alone else shrinker).resize(0)
    second.join()
    assert tegula.open_table(tmp_path / "t")[...].tolist() == [(7, 14)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_that_another_program_has_shortened_is_reported(format: str, tmp_path: Any) -> None:
    table = tegula.create_table(tmp_path, {name: [1, 2, 3, 4, 5] for name in "abc"}, format=format, chunks=4)
    table.append({name: [6] for name in "abc"})  # from now on it knows the lengths
    tegula.open_table(tmp_path, mode="r+")["b"].resize(2)
    for _ in range(2):
        with pytest.raises(MetadataError, match=r"differ in length \(a 6, b 2, c 6\)"):
            table.append({name: [7] for name in "abc"})
