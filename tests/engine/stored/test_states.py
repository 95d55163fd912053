"""Handles of arrays that have been replaced: an operation acts on its own node, or says that the node was replaced."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obstore.store import MemoryStore as Bucket
from remote_stores import RevalidatingStore

import tegula
from tegula import config
from tegula.engine.stored.states import REPLACEMENTS, Replacements
from tegula.stores import LocalStore, MemoryStore, ObjectStore

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
EXECUTORS: list[Any] = ["auto", "reference"]
STORES: dict[str, Callable[[Path], Any]] = {
    "local": lambda place: str(place / "x"),
    "below a root": lambda place: LocalStore(place / "x"),
    "zip": lambda place: str(place / "x.zip"),
    "memory": lambda place: MemoryStore(),
    "mapping": lambda place: {},
    "fsspec": lambda place: f"memory://{place}",
    "bucket": lambda place: ObjectStore(Bucket()),
}
NEW: dict[str, dict[str, Any]] = {
    "another type": {"dtype": "f4"},
    "another byte order": {"dtype": ">i4"},
    "other chunks": {"chunks": 10},
    "another codec": {"codecs": "zstd"},
    "another fill value": {"fill_value": 9},
    "another shape and type": {"shape": (12, 3), "chunks": (5, 3), "dtype": "i8"},
    "the same description": {},
}
OPERATIONS: dict[str, Callable[[tegula.Array], Any]] = {
    "read an element": lambda a: a[3],
    "read a slice": lambda a: a[2:9],
    "read all": lambda a: a[...],
    "read by an index array": lambda a: a.oindex[[1, 8]],
    "read fields of a mask": lambda a: a.vindex[np.arange(a.shape[0]) % 3 == 0],
    "read in the background": lambda a: a.read().result(),
    "read into an array": lambda a: a.read(out=np.empty(a.shape, a.dtype)).result(),
    "write a chunk": lambda a: a.__setitem__(slice(5), 7),
    "write all": lambda a: a.__setitem__(..., 7),
    "write part of a chunk": lambda a: a.__setitem__(3, 7),
    "write the fill value": lambda a: a.__setitem__(..., 0),
    "append": lambda a: a.append([1, 2]),
    "grow": lambda a: a.resize(20),
    "shrink": lambda a: a.resize(3),
    "attributes": lambda a: a.attrs.update(x=1),
}


def contents(target: Any, path: str) -> Any:
    array = tegula.open_array(target, path=path)
    return array.shape, array.dtype, array[...].tolist(), dict(array.attrs)


@pytest.mark.slow
@pytest.mark.sampled(one_in=525)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", STORES)
@pytest.mark.parametrize("new", NEW)
def test_handle_of_a_replaced_array_neither_reads_nor_changes_the_new(
    executor: Any, format: str, place: str, new: str, tmp_path: Path
) -> None:
    target, path = STORES[place](tmp_path), "g/a" if place == "below a root" else ""
    old: dict[str, Any] = {"shape": 10, "chunks": 5, "dtype": "i4", "codecs": None, "format": format, "path": path}
    if format == "zarr1" and "codecs" in NEW[new]:
        return  # its compressors are others
    if format == "bcolz" and new in ("another byte order", "another codec"):
        return
    with config.configure(executor=executor):
        for used in (False, True):
            for name, operation in OPERATIONS.items():
                handle = tegula.create_array(target, overwrite=True, **old)
                if used:
                    handle[...] = 5
                    assert handle[3] == 5
                array = tegula.create_array(target, overwrite=True, **{**old, **NEW[new]})
                array[...] = 2
                before = contents(target, path)
                with pytest.raises(tegula.NotFoundError, match="replaced since it was opened"):
                    operation(handle)
                assert contents(target, path) == before, name


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "options", [{"shards": 10, "chunks": 5}, {"dtype": str}, {"dtype": [("a", "i4"), ("b", "f8")]}]
)
def test_shards_text_and_fields(executor: Any, options: dict[str, Any], tmp_path: Path) -> None:
    with config.configure(executor=executor):
        for target in (tmp_path / "x", MemoryStore()):
            handle = tegula.create_array(target, **{"shape": 40, "chunks": 10, "dtype": "i4", **options})
            handle[:25] = np.zeros(25, handle.dtype)
            assert handle[24] == handle[24]
            array = tegula.create_array(target, shape=40, chunks=10, dtype="f4", overwrite=True)
            array[...] = 1.5
            for name in ("read a slice", "read an element", "read all", "write part of a chunk"):
                with pytest.raises(tegula.NotFoundError, match="replaced"):
                    OPERATIONS[name](handle)
            assert array[...].tolist() == [1.5] * 40


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_arrays_that_another_process_or_library_has_replaced(executor: Any, format: str, tmp_path: Path) -> None:
    """Within the directory, by another directory, and by another process with the same description."""
    place = tmp_path / "x"
    options: dict[str, Any] = {"shape": 10, "chunks": 5, "format": format, "codecs": None}
    document = {"zarr3": "zarr.json", "zarr2": ".zarray"}[format]

    def in_place() -> None:
        text = (place / document).read_text()
        names = {"zarr3": ("int32", "float32"), "zarr2": ("<i4", "<f4")}[format]
        (place / "new").write_text(text.replace(*names))
        (place / "new").rename(place / document)

    def by_rename() -> None:
        tegula.create_array(tmp_path / "y", dtype="f4", **options)[...] = 1.5
        place.rename(tmp_path / "old")
        (tmp_path / "y").rename(place)

    def alike() -> None:
        script = f"""
            import tegula
            array = tegula.create_array({str(place)!r}, dtype="i4", overwrite=True, **{options!r})
            array[...] = 8
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)

    for replace in (in_place, by_rename, *([alike] if executor == "auto" and sys.platform == "linux" else [])):
        with config.configure(executor=executor):
            handle = tegula.create_array(place, dtype="i4", overwrite=True, **options)
            handle[...] = 5
            assert handle[...].tolist() == [5] * 10
            for _ in range(200):
                assert handle[3] == 5
            replace()
            with pytest.raises(tegula.NotFoundError, match="replaced"):
                handle[...] = 7
            with suppress(tegula.NotFoundError):
                assert handle[3] == 5  # reads in quick succession stay in the directory, which holds the old elements
            time.sleep(0.01)
            with pytest.raises(tegula.NotFoundError, match="replaced"):
                handle[3]
            assert 7 not in tegula.open_array(place)[...]


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("place", STORES)
@pytest.mark.parametrize("format", FORMATS)
def test_a_change_of_attributes_or_shape_does_not_end_a_handle(
    executor: Any, place: str, format: str, tmp_path: Path
) -> None:
    target = STORES[place](tmp_path)
    with config.configure(executor=executor):
        array = tegula.create_array(target, shape=10, chunks=5, dtype="i4", format=format)
        array[...] = 5
        handle, other = tegula.open_array(target, "r+"), tegula.open_array(target, "r+")
        for number in range(3):
            assert handle[2:9].tolist() == [5] * 7
            other.attrs["x"] = number
            assert handle[3] == 5
            other.append([5, 5])
            handle[4] = 5
            assert handle[...].tolist() == [5] * 10
        handle.refresh()
        assert handle[...].tolist() == [5] * 16


def swapping(first: Path, second: Path, ended: threading.Event) -> None:
    """Exchange two directories again and again."""
    aside = first.parent / "aside"
    while not ended.is_set():
        first.rename(aside)
        second.rename(first)
        aside.rename(second)


@pytest.mark.slow
@pytest.mark.sampled(one_in=25)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "bcolz"])
def test_reads_beside_directories_that_are_exchanged_see_one_of_them(
    executor: Any, format: str, tmp_path: Path
) -> None:
    """Each array has elements of its own, and one has chunks that are missing."""
    place, other = tmp_path / "x", tmp_path / "y"
    made = tegula.create_array(place, shape=64, chunks=8, dtype="i4", format=format, codecs=None)
    made[...] = 1
    made = tegula.create_array(other, shape=64, chunks=16, dtype="f4", format=format, codecs=None, fill_value=2)
    made[:32] = 2
    ended = threading.Event()
    thread = threading.Thread(target=swapping, args=(place, other, ended))
    thread.start()
    seen = set()
    try:
        with config.configure(executor=executor):
            for number in range(600):
                try:
                    array = tegula.open_array(place)
                    for selection in (slice(None), number % 64, slice(40, 44)):
                        seen |= {(str(array.dtype), value) for value in np.unique(array[selection]).tolist()}
                except tegula.NotFoundError:
                    continue
    finally:
        ended.set()
        thread.join()
    assert seen <= {("int32", 1), ("float32", 2.0)}


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_missing_chunks_of_an_array_moved_and_back_are_its_own(executor: Any, tmp_path: Path) -> None:
    place, aside = tmp_path / "x", tmp_path / "aside"
    array = tegula.create_array(place, shape=64, chunks=8, dtype="i4", fill_value=9)
    array[...] = 1
    ended = threading.Event()

    def move() -> None:
        while not ended.is_set():
            place.rename(aside)
            aside.rename(place)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        with config.configure(executor=executor):
            for number in range(1500):
                with suppress(tegula.NotFoundError):
                    handle = tegula.open_array(place) if number % 100 == 50 else array
                    assert handle[number % 64] == 1
                    assert (handle[3:60:2] == 1).all()
    finally:
        ended.set()
        thread.join()


class ReplacedBeforeChunk(MemoryStore):
    """A store in which the array is replaced just before a chunk of it is read."""

    is_armed = False

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if self.is_armed and key.startswith("c/"):
            self.is_armed = False
            tegula.create_array(self, data=np.arange(10.0), chunks=5, codecs=["zstd"], overwrite=True)
        return super().get(key, *args, **options)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_chunk_in_memory_replaced_during_a_read_is_not_called_damaged(executor: Any) -> None:
    with config.configure(executor=executor):
        store = ReplacedBeforeChunk()
        array = tegula.create_array(store, data=np.arange(10, dtype="i4"), chunks=5, codecs=None)
        for _ in range(3):  # then the store is known to be unchanged
            assert array[3] == 3
        store.is_armed = True
        with pytest.raises(tegula.NotFoundError, match="replaced"):
            array[3]


def test_the_places_of_replaced_nodes_are_remembered_for_a_while() -> None:
    store, other = MemoryStore(), MemoryStore()
    found = Replacements()
    start = found.count
    found.add(store, "a/b/")
    assert found.since(start, store, "a/b/")
    assert found.since(start, store, "a/b/c/")
    assert not found.since(start, store, "a/")
    assert not found.since(start, store, "a/bb/")
    assert not found.since(start, other, "a/b/")
    assert not found.since(found.count, store, "a/b/")
    for number in range(3000):
        found.add(store, f"{number}/")
    assert len(found._last) == Replacements._MOST
    assert REPLACEMENTS is not found


def test_another_process_has_replaced_an_array_in_a_bucket() -> None:
    bucket = Bucket()
    handle = tegula.create_array(ObjectStore(bucket), shape=10, chunks=5, dtype="i4", codecs=None)
    handle[...] = 5
    assert handle[...].tolist() == [5] * 10
    text = bytes(bucket.get("zarr.json").bytes()).replace(b"int32", b"float32")
    bucket.put("zarr.json", text)
    bucket.put("c/0", np.full(5, 1.5, "f4").tobytes())
    with pytest.raises(tegula.NotFoundError, match="replaced"):
        handle[:3]


def test_an_array_is_found_while_another_format_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x")
    tegula.create_array(path, data=[1, 2], format="zarr2")
    get, replaced = LocalStore.get, False

    def replace(store: Any, key: str, *args: Any, **options: Any) -> Any:
        nonlocal replaced
        found = get(store, key, *args, **options)
        if not replaced and key.endswith("zarr.json") and store.root == path:
            replaced = True
            assert (found[0] if isinstance(found, tuple) else found) is None
            tegula.create_array(path, data=[3, 4], format="zarr3", overwrite=True)
        return found

    monkeypatch.setattr(LocalStore, "get", replace)
    assert tegula.open_array(path)[:].tolist() == [3, 4]
    assert replaced


class LateAnswers(RevalidatingStore):
    """A remote store in which another process replaces an array between the answers to two requests of one wave."""

    changes: Any = property(lambda self: None, lambda self, value: None)  # other processes can change it
    new: dict[str, bytes] | None = None
    chunk_is_first = False

    def wait_for(self, is_chunk: bool) -> bool:
        """Return whether this is the first request for a chunk, or for a document, after the store was armed."""
        if self.new is None or is_chunk in self.seen:
            return False
        self.seen.add(is_chunk)
        if is_chunk != self.chunk_is_first:
            assert self.answered.wait(10)
        return True

    def arm(self, new: dict[str, bytes], chunk_is_first: bool) -> None:
        self.seen: set[bool] = set()
        self.answered = threading.Event()
        self.chunk_is_first, self.new = chunk_is_first, new

    def answer(self, key: str, read: Callable[[], Any]) -> Any:
        is_chunk = key.startswith("c/")
        first = self.wait_for(is_chunk)
        found = read()
        if first and is_chunk == self.chunk_is_first:
            for name, value in (self.new or {}).items():
                self.set(name, value)
            self.answered.set()
        return found

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        read = super().get
        return self.answer(key, lambda: read(key, byte_range, with_generation=with_generation))

    def get_if_changed(self, key: str, generation: Any) -> Any:
        read = super().get_if_changed
        return self.answer(key, lambda: read(key, generation))


def values_of(**options: Any) -> dict[str, bytes]:
    store = MemoryStore()
    tegula.create_array(store, chunks=5, **options)
    return {key: store.get(key) for key in store.list_prefix("")}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_remote_chunk_of_a_replacing_array_is_not_called_damaged(executor: Any) -> None:
    with config.configure(executor=executor):
        store = LateAnswers(values_of(data=np.arange(10, dtype="i4"), codecs=None))
        array = tegula.open_array(store)
        assert array[3] == 3
        store.arm(values_of(data=np.arange(10.0), codecs=["zstd"]), chunk_is_first=False)
        with pytest.raises(tegula.NotFoundError, match="replaced"):
            array[3]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_missing_remote_chunk_is_read_again_after_a_replacement(executor: Any) -> None:
    with config.configure(executor=executor):
        data = np.arange(10, dtype="i4") + 1
        store = LateAnswers(values_of(data=data))
        array = tegula.open_array(store)
        store.delete("c/0")  # another process has begun to replace the array
        store.arm(values_of(data=data + 1), chunk_is_first=True)
        assert array[3] == 5
