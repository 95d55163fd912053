"""Stores of obstore, fsspec and zarr-python as targets, over the same storage."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore.store
import pytest
import zarr
import zarr.storage
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from tests.waiting import run_threads

import tegula
from tegula.errors import ReadOnlyError, StoreError
from tegula.stores import FsspecStore, LocalStore, MappingStore, ObjectStore, Store, ZipStore
from tegula.stores.targets.libraries import store_of_library
from tegula.stores.zarr_python import ZarrPythonStore

VALUES = np.arange(60, dtype="i4").reshape(6, 10)


class Wrapped(zarr.storage.WrapperStore[Any]):
    """A store that tegula does not know."""


def fsspec_of_zarr(folder: Path) -> Any:
    fs = AsyncFileSystemWrapper(fsspec.filesystem("memory"), asynchronous=True)
    return zarr.storage.FsspecStore(fs, path=f"/tests-{uuid.uuid4()}")


MAKERS: dict[str, tuple[Callable[[Path], Any], type[Store]]] = {
    "LocalStore": (lambda folder: zarr.storage.LocalStore(folder / "x"), LocalStore),
    "FsspecStore": (fsspec_of_zarr, FsspecStore),
    "ObjectStore": (lambda folder: zarr.storage.ObjectStore(obstore.store.MemoryStore()), ObjectStore),
    "MemoryStore": (lambda folder: zarr.storage.MemoryStore(), ZarrPythonStore),
    "LoggingStore": (lambda folder: zarr.storage.LoggingStore(zarr.storage.MemoryStore()), ZarrPythonStore),
    "wrapper": (lambda folder: Wrapped(zarr.storage.LocalStore(folder / "x")), ZarrPythonStore),
}


@pytest.fixture(params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, type[Store]]:
    make, kind = MAKERS[request.param]
    return make(tmp_path), kind


@pytest.mark.slow
def test_both_libraries_read_what_the_other_one_has_written(made: tuple[Any, type[Store]]) -> None:
    theirs, kind = made
    assert type(tegula.store_of(theirs)) is kind
    ours = tegula.create_array(theirs, path="g/ours", shape=VALUES.shape, chunks=(2, 3), dtype="i4")
    ours[:] = VALUES
    assert zarr.open_array(theirs, path="g/ours")[:].tolist() == VALUES.tolist()
    zarr.create_array(theirs, name="g/theirs", shape=VALUES.shape, chunks=(4, 5), dtype="i4")[:] = VALUES
    found = tegula.open(theirs, path="g/theirs")
    assert found[:].tolist() == VALUES.tolist()
    zarr.open_array(theirs, path="g/theirs")[0, 0] = 77
    assert found[0, 0] == 77  # no copy, and nothing remembered
    assert [*tegula.open(theirs, path="g")] == ["ours", "theirs"]
    tegula.open(theirs, "r+", path="g/theirs").append(VALUES)
    assert zarr.open_array(theirs, path="g/theirs").shape == (12, 10)


@pytest.mark.slow
def test_a_store_path_is_the_store_below_a_path(made: tuple[Any, type[Store]]) -> None:
    theirs, kind = made
    path = zarr.storage.StorePath(theirs, "g/h")
    store = tegula.store_of(path)
    assert type(store) is kind
    tegula.save(path, VALUES)
    assert zarr.open_array(theirs, path="g/h")[:].tolist() == VALUES.tolist()
    assert [*store.list_prefix("")]
    assert tegula.load(zarr.storage.StorePath(theirs), path="g/h").tolist() == VALUES.tolist()
    array = zarr.open_array(theirs, path="g/h")
    assert tegula.load(array.store_path).tolist() == VALUES.tolist()


@pytest.mark.slow
def test_a_read_only_store_stays_so(made: tuple[Any, type[Store]]) -> None:
    theirs, _ = made
    tegula.save(theirs, VALUES)
    for store in (tegula.store_of(theirs.with_read_only(True)), tegula.store_of(theirs, read_only=True)):
        assert store.read_only
        with pytest.raises(ReadOnlyError):
            store.set("a", b"1")
        assert tegula.load(store).tolist() == VALUES.tolist()


def test_a_zip_store_of_zarr_python(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zarr.storage.ZipStore(path, mode="w") as theirs:
        zarr.create_array(theirs, name="a", shape=VALUES.shape, chunks=(4, 5), dtype="i4")[:] = VALUES
        store = tegula.store_of(theirs)
        assert isinstance(store, ZarrPythonStore)
        assert tegula.load(theirs, path="a").tolist() == VALUES.tolist()
    theirs = zarr.storage.ZipStore(path, mode="r")
    assert isinstance(tegula.store_of(theirs), ZipStore)
    assert tegula.load(theirs, path="a").tolist() == VALUES.tolist()


def test_stores_over_one_memory_store_share_locks() -> None:
    theirs = zarr.storage.MemoryStore()
    array = tegula.create_array(theirs, path="a", shape=1, chunks=1, dtype="i8")
    threads = [
        threading.Thread(target=lambda: [tegula.open(theirs, "r+", path="a").append([1]) for _ in range(10)])
        for _ in range(4)
    ]
    run_threads(threads)
    assert tegula.open(theirs, path="a").shape == (41,)
    del array


@pytest.mark.slow
def test_inside_a_running_event_loop() -> None:
    async def main() -> list[Any]:
        theirs = zarr.storage.LoggingStore(zarr.storage.MemoryStore())
        tegula.save(theirs, VALUES)
        values: list[Any] = tegula.load(theirs).tolist()
        return values

    assert asyncio.run(main()) == VALUES.tolist()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_in_a_forked_child() -> None:
    code = """
import os, signal, numpy, tegula, zarr.storage
theirs = zarr.storage.LoggingStore(zarr.storage.MemoryStore())
tegula.save(theirs, [1, 2])
store = tegula.store_of(theirs)
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if tegula.load(store).tolist() == [1, 2] else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


class Failing(zarr.storage.WrapperStore[Any]):
    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        raise PermissionError("https://me:hidden@host/x?sig=hidden")

    async def getsize(self, key: str) -> int:
        raise PermissionError("https://me:hidden@host/x?sig=hidden")


def test_an_error_of_another_store_is_a_store_error_without_secrets() -> None:
    store = tegula.store_of(Failing(zarr.storage.MemoryStore()))
    for operation in (
        lambda: store.get("a"), lambda: store.get("a", (0, 1)), lambda: store.get_many([("a", None)]),
        lambda: store.size("a"), lambda: store.get("a", with_generation=True),
    ):  # fmt: skip
        with pytest.raises(StoreError, match="PermissionError") as caught:
            operation()
        assert caught.value.key == "a"
        assert "hidden" not in str(caught.value)


def test_a_pickled_store_of_zarr_python(tmp_path: Path) -> None:
    theirs = Wrapped(zarr.storage.LocalStore(tmp_path))
    tegula.save(theirs, VALUES)
    assert tegula.load(pickle.loads(pickle.dumps(tegula.store_of(theirs)))).tolist() == VALUES.tolist()


# --- fsspec and obstore


def test_file_systems_and_mappers(tmp_path: Path) -> None:
    name = f"tests-{uuid.uuid4()}"
    mapper = fsspec.get_mapper(f"memory://{name}")
    tegula.save(mapper, VALUES)
    assert zarr.open_array(mapper)[:].tolist() == VALUES.tolist()
    store = tegula.store_of(mapper)
    assert isinstance(store, FsspecStore)
    assert store.root == f"/{name}"
    memory = fsspec.filesystem("memory")
    assert tegula.load(memory, path=name).tolist() == VALUES.tolist()
    assert tegula.store_of(memory, read_only=True).read_only
    local = tegula.store_of(fsspec.get_mapper(str(tmp_path / "x")))
    assert isinstance(local, LocalStore)
    assert local.root == str(tmp_path / "x")


def test_stores_of_obstore() -> None:
    theirs = obstore.store.MemoryStore()
    tegula.save(theirs, VALUES)
    store = tegula.store_of(theirs, read_only=True)
    assert isinstance(store, ObjectStore)
    assert store.read_only
    assert tegula.load(theirs).tolist() == VALUES.tolist()


def test_other_objects_are_no_stores_of_libraries() -> None:
    for odd in ({}, None, 7, "memory://", Path("x"), np.arange(3), VALUES.tolist()):
        assert store_of_library(odd, read_only=False) is None


# --- zarr-python 2, as its classes are named

ZARR2 = """
import sys, numpy as np, tegula, zarr  # without tegula's arrays, which take more packages
from tegula.stores import FsspecStore, LocalStore, MappingStore
assert zarr.__version__.startswith("2.")
folder, values = sys.argv[1], np.arange(60).reshape(6, 10)
for make, kind in (
    (lambda: zarr.DirectoryStore(folder + "/directory"), LocalStore),
    (lambda: zarr.storage.FSStore("memory://fs-store"), FsspecStore),
    (lambda: zarr.storage.FSStore(folder + "/fs-store"), LocalStore),
    (lambda: zarr.storage.FSStore(folder + "/nested", dimension_separator="/"), MappingStore),
    (lambda: zarr.NestedDirectoryStore(folder + "/nested-directory"), MappingStore),
    (lambda: zarr.storage.MemoryStore(), MappingStore),
    (lambda: zarr.storage.KVStore({}), MappingStore),
):
    store = make()
    assert type(tegula.store_of(store)) is kind, (store, tegula.store_of(store))
    zarr.array(values, store=store, chunks=(2, 3), path="a")
    ours = tegula.store_of(store)
    assert sorted(ours.list()) == sorted(store.keys())
    for key in ours.list():
        assert ours.get(key) == bytes(store[key])
    ours.set("a/.zattrs", b'{"unit": "K"}')
    assert zarr.open(store, path="a").attrs["unit"] == "K"
reader = zarr.storage.FSStore("memory://fs-store", mode="r")
assert tegula.store_of(reader).read_only
"""


@pytest.mark.slow
def test_stores_of_zarr_python_2(tmp_path: Path) -> None:
    python = os.environ.get("TEGULA_ZARR2_PYTHON")
    if not python:
        pytest.skip("TEGULA_ZARR2_PYTHON names no Python with zarr 2")
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (tegula, fsspec):  # the parts needed here are pure Python, so any Python can import them
        (packages / package.__name__).symlink_to(Path(package.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [python, "-c", ZARR2, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_mappings_stay_mappings() -> None:
    assert isinstance(tegula.store_of({}), MappingStore)
