"""Handles of arrays that others have made smaller: what is beyond the present shape is neither read nor written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waves import RevalidatingWaveStore, WaveStore

import tegula
from tegula import config
from tegula.engine.lengths import resizing
from tegula.stores import LocalStore, MemoryStore

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
EXECUTORS: list[Any] = ["auto", "reference"]
STORES: dict[str, Callable[[Path], Any]] = {
    "local": lambda place: place / "x",
    "below a root": lambda place: LocalStore(place / "x"),
    "memory": lambda place: MemoryStore(),
    "mapping": lambda place: {},
    "remote": lambda place: WaveStore(quiet=0),
    "remote, with entity tags": lambda place: RevalidatingWaveStore(quiet=0),
}
TEXT = "resized to|shortened to"
# from 40 rows in chunks of 8 to 18 rows
INSIDE: dict[str, Callable[[tegula.Array], Any]] = {
    "an element": lambda a: a[17],
    "a slice": lambda a: a[3:18],
    "backwards": lambda a: a[17::-1],
    "strided": lambda a: a[1:18:5],
    "nothing": lambda a: a[30:30],
    "orthogonal": lambda a: a.oindex[[1, 17, 9]],
    "points": lambda a: a.vindex[[17, 0]],
    "a mask": lambda a: a.vindex[np.arange(40) < 18],
    "into an array": lambda a: a.read(slice(3, 18), np.empty(15, a.dtype)).result(),
}
BEYOND: dict[str, Callable[[tegula.Array], Any]] = {
    "an element of the last chunk": lambda a: a[18],
    "an element of a deleted chunk": lambda a: a[-1],
    "a slice across the edge": lambda a: a[3:19],
    "a slice of deleted chunks": lambda a: a[30:],
    "all": lambda a: a[...],
    "backwards": lambda a: a[::-1],
    "strided": lambda a: a[1:20:6],
    "orthogonal": lambda a: a.oindex[[1, 18, 9]],
    "points": lambda a: a.vindex[[39, 0]],
    "a mask": lambda a: a.vindex[np.arange(40) < 19],
    "blocks": lambda a: a.blocks[2],
    "iteration": lambda a: [*a],
    "in the background": lambda a: a.read().result(),
    "into an array": lambda a: a.read(slice(3, 19), np.empty(16, a.dtype)).result(),
    "as numpy": np.asarray,
}
WRITES: dict[str, Any] = {"an element": 18, "part": slice(16, 19), "a chunk": slice(24, 32), "all": ..., "the end": -1}


def made(target: Any, format: str, **options: Any) -> tegula.Array:
    array = tegula.create_array(target, **{"shape": 40, "chunks": 8, "dtype": "i4", "format": format, **options})
    array[...] = np.arange(1, 41)
    return array


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", STORES)
@pytest.mark.parametrize("used", [False, True])
def test_reads(executor: Any, format: str, place: str, used: bool, tmp_path: Path) -> None:
    with config.configure(executor=executor):
        array = made(STORES[place](tmp_path), format)
        handle = tegula.open_array(array.store)
        expected = {name: read(handle) for name, read in INSIDE.items()} if used else {}
        array.resize(18)
        for name, read in BEYOND.items():
            with pytest.raises(tegula.SelectionError, match=TEXT) as caught:
                read(handle)
            assert caught.value.is_stale, name
        for name, read in INSIDE.items():
            found = read(handle)
            assert np.array_equal(found, expected.get(name, found)), name
        for copy in (handle, tegula.open_array(array.store)):
            copy.refresh()
            assert copy[...].tolist() == [*range(1, 19)]


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", [name for name in STORES if "remote" not in name])
@pytest.mark.parametrize("used", [False, True])
def test_writes(executor: Any, format: str, place: str, used: bool, tmp_path: Path) -> None:
    with config.configure(executor=executor):
        array = made(STORES[place](tmp_path), format)
        handle = tegula.open_array(array.store, "r+")
        if used:
            handle[0] = 1
        array.resize(18)
        before = sorted(key for key in array.store.list_prefix("") if not key.endswith("cparams"))
        for name, part in WRITES.items():
            for value in (7, 0):
                with pytest.raises(tegula.SelectionError, match=TEXT) as caught:
                    handle[part] = value
                assert caught.value.is_stale, name
        assert sorted(key for key in array.store.list_prefix("") if not key.endswith("cparams")) == before
        handle[16:18] = 5
        handle[:8] = 6
        array.resize(40)
        assert array[...].tolist() == [6] * 8 + [*range(9, 17)] + [5, 5] + [0] * 22
        handle[39] = 4
        assert array[39] == handle[39] == 4


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("place", STORES)
def test_arrays_that_have_grown_along_one_axis_and_shrunk_along_another(
    executor: Any, place: str, tmp_path: Path
) -> None:
    with config.configure(executor=executor):
        array = tegula.create_array(STORES[place](tmp_path), shape=(10, 6), chunks=(4, 4), dtype="i4")
        array[...] = np.arange(60).reshape(10, 6)
        handle = tegula.open_array(array.store)
        array.resize(20, 3)
        assert handle[9, 2] == 56
        assert handle[:, :3].tolist() == np.arange(60).reshape(10, 6)[:, :3].tolist()
        assert handle.oindex[[9, 0], [2]].tolist() == [[56], [2]]
        for read in (lambda: handle[0, 3], lambda: handle[9], lambda: handle.vindex[[0, 1], [2, 5]]):
            with pytest.raises(tegula.SelectionError, match=r"resized to \(20, 3\) since it was opened; call refresh"):
                read()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("options", [{"shards": 16}, {"dtype": str}, {"dtype": [("a", "i4"), ("b", "f8")]}])
def test_shards_text_and_fields(executor: Any, options: dict[str, Any], tmp_path: Path) -> None:
    with config.configure(executor=executor):
        for target in (tmp_path / "x", MemoryStore()):
            array = tegula.create_array(target, **{"shape": 40, "chunks": 8, "dtype": "i4", **options})
            handle = tegula.open_array(array.store)
            array.resize(18)
            assert len(handle[3:18]) == 15
            for read in (lambda: handle[20], lambda: handle[:], lambda: handle.vindex[[3, 39]]):  # noqa: B023
                with pytest.raises(tegula.SelectionError, match="resized to"):
                    read()
            if handle.dtype.names:
                assert handle["a", :18].shape == (18,)
                with pytest.raises(tegula.SelectionError, match="resized to"):
                    handle["a"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_chunks_of_varying_lengths(executor: Any, tmp_path: Path) -> None:
    with config.configure(executor=executor):
        array = tegula.create_array(tmp_path / "x", shape=40, chunks=[[10, 5, 25]], dtype="i4")
        array[...] = np.arange(40)
        handle = tegula.open_array(tmp_path / "x")
        array.resize(12)
        assert handle[5:12].tolist() == [*range(5, 12)]
        for read in (lambda: handle[12], lambda: handle[::-3], lambda: handle.oindex[[3, 14]]):
            with pytest.raises(tegula.SelectionError, match="resized to"):
                read()
        for size in (60, 50, 100):  # which adds chunks
            array.resize(size)
            assert handle[5:12].tolist() == [*range(5, 12)]
            assert handle[12:].tolist() == [0] * 28
            array[-1] = 3
            assert array[-1] == 3


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_another_process_makes_the_array_smaller_and_larger(executor: Any, format: str, tmp_path: Path) -> None:
    with config.configure(executor=executor):
        made(tmp_path / "x", format)
        handle = tegula.open_array(tmp_path / "x", "r+")
        for _ in range(100):
            assert handle[30] == 31
        script = "import sys, tegula; tegula.open_array(sys.argv[1], 'r+').resize(int(sys.argv[2]))"
        subprocess.run([sys.executable, "-c", script, tmp_path / "x", "18"], check=True, timeout=120)
        with pytest.raises(tegula.SelectionError, match="resized to"):
            handle[30]
        with pytest.raises(tegula.SelectionError, match="resized to"):
            handle[24:32] = 7
        assert handle[17] == 18
        subprocess.run([sys.executable, "-c", script, tmp_path / "x", "50"], check=True, timeout=120)
        assert handle[30] == 0
        handle[30] = 3
        assert handle[30] == 3


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("place", STORES)
def test_a_handle_that_grows_and_refreshes(executor: Any, place: str, tmp_path: Path) -> None:
    """What the document is known to say about the shape follows the changes of the handle itself."""
    with config.configure(executor=executor):
        array = made(STORES[place](tmp_path), "zarr3")
        other = tegula.open_array(array.store, "r+")
        for _ in range(3):
            array.resize(18)
            array.append(np.arange(30))
            array[47] = 9
            assert array[18:].tolist() == [*range(29), 9]
            other.refresh()
            other[47] = 8
            assert array[47] == other[47] == 8
            other.resize(60)
            array.refresh()
            array[59] = 5
            assert array[59] == 5
            other[50:60] = 4
            assert other[59] == 4


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1"])
@pytest.mark.parametrize("place", STORES)
def test_shrinking_an_array_keeps_the_chunks_of_its_replacement(
    executor: Any, format: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same shape, and chunks where the other one has none any more, or only up to its edge."""
    with config.configure(executor=executor):
        array = made(STORES[place](tmp_path), format)

        def replace(*args: Any, original: Any = resizing.cut_off) -> None:
            new = tegula.create_array(array.store, shape=18, chunks=2, dtype="i4", format=format, overwrite=True)
            new[...] = 7
            original(*args)

        monkeypatch.setattr(resizing, "cut_off", replace)
        array.resize(18)
        assert tegula.open_array(array.store)[...].tolist() == [7] * 18


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("place", ["local", "memory", "remote"])
def test_a_fill_value_for_a_sparse_array_that_was_replaced(executor: Any, place: str, tmp_path: Path) -> None:
    """So many chunks are selected that only those stored are visited."""
    options: dict[str, Any] = {"shape": 10**6, "dtype": "i4", "overwrite": True}
    with config.configure(executor=executor):
        handle = tegula.create_array(STORES[place](tmp_path), chunks=10, **options)
        handle[:10] = 1
        array = tegula.create_array(handle.store, chunks=20, **options)
        array[:20] = 2
        with pytest.raises(tegula.NotFoundError, match="replaced"):
            handle[:] = 0
        assert array[:20].tolist() == [2] * 20


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("recheck", ["always", "open", "never"])
@pytest.mark.parametrize("place", ["local", "memory", "remote"])
def test_reads_through_the_cache(executor: Any, recheck: Any, place: str, tmp_path: Path) -> None:
    with config.configure(executor=executor, cache_bytes=2**20, recheck=recheck):
        array = made(STORES[place](tmp_path), "zarr3")
        handle = tegula.open_array(array.store)
        array.resize(18)
        with pytest.raises(tegula.SelectionError, match="resized to"):
            handle[30]
        assert handle[15] == 16
        with pytest.raises(tegula.SelectionError, match="resized to"):
            handle[20]
