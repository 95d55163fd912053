"""Arrays whose files have been moved, unmounted or deleted under an open handle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folders import files

import tegula
from tegula import config

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
READS: dict[str, Callable[[tegula.Array], Any]] = {
    "all": lambda a: a[...],
    "one element": lambda a: a[35],
    "orthogonal": lambda a: a.oindex[[1, 20]],
    "mask": lambda a: a.vindex[np.arange(40) % 7 == 0],
    "in the background": lambda a: a.read().result(),
}
CHANGES: dict[str, Callable[[tegula.Array], Any]] = {
    "a whole chunk": lambda a: a.__setitem__(slice(10), 3),
    "part of a chunk": lambda a: a.__setitem__(35, 3),
    "all": lambda a: a.__setitem__(..., 3),
    "append": lambda a: a.append([3]),
    "grow": lambda a: a.resize(80),
    "shrink": lambda a: a.resize(10),
    "attributes": lambda a: a.attrs.update(x=1),
}


@pytest.fixture(params=FORMATS)
def moved(request: pytest.FixtureRequest, tmp_path: Path) -> tegula.Array:
    """An open array whose store has been renamed, with one chunk written."""
    tegula.create_array(tmp_path / "x", path="g/a", shape=40, chunks=10, dtype="i4", format=request.param)
    array = tegula.open_array(tmp_path / "x", "r+", path="g/a")
    array[:10] = 1
    assert array[35] == 0
    (tmp_path / "x").rename(tmp_path / "y")
    return array


@pytest.mark.parametrize("how", READS)
def test_a_moved_array_is_not_read_as_fill_values(moved: tegula.Array, how: str) -> None:
    with pytest.raises(tegula.NotFoundError, match="deleted or moved since it was opened"):
        READS[how](moved)


@pytest.mark.parametrize("how", CHANGES)
def test_writing_does_not_create_the_old_directory_again(moved: tegula.Array, how: str, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(tegula.NotFoundError, match="deleted"):
        CHANGES[how](moved)
    assert files(tmp_path) == before


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", ["", "a", "g/a"])
def test_the_directory_of_the_array_alone(tmp_path: Path, format: str, path: str) -> None:
    tegula.create_array(tmp_path / "x", path=path, shape=40, chunks=10, dtype="i4", format=format)
    array = tegula.open_array(tmp_path / "x", "r+", path=path)
    (tmp_path / "x" / path).rename(tmp_path / "elsewhere")
    before = files(tmp_path)
    with pytest.raises(tegula.NotFoundError):
        array[...]
    with pytest.raises(tegula.NotFoundError):
        array[:10] = 1
    assert files(tmp_path) == before
    (tmp_path / "elsewhere").rename(tmp_path / "x" / path)
    array[:10] = 1
    assert array[:].tolist() == [1] * 10 + [0] * 30


def test_an_empty_directory_in_its_place(tmp_path: Path) -> None:
    """A mount point after the file system has been unmounted."""
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=10, dtype="i4")
    (tmp_path / "x").rename(tmp_path / "y")
    (tmp_path / "x").mkdir()
    with pytest.raises(tegula.NotFoundError):
        array[0]
    with pytest.raises(tegula.NotFoundError):
        array[:10] = 1
    assert not files(tmp_path / "x")


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1"])
def test_an_array_that_was_deleted_through_another_handle(format: str) -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, path="a", shape=40, chunks=10, dtype="i4", format=format)
    array[:10] = 1
    for key in [*store.list_prefix("a/")]:
        store.delete(key)
    for read in READS.values():
        with pytest.raises(tegula.NotFoundError):
            read(array)


def test_shards(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=40, chunks=5, shards=10, dtype="i4")
    array[:5] = 1
    assert array[:].tolist() == [1] * 5 + [0] * 35
    (tmp_path / "x").rename(tmp_path / "y")
    for read in READS.values():
        with pytest.raises(tegula.NotFoundError):
            read(array)
    with pytest.raises(tegula.NotFoundError):
        array[3] = 1


class Counting(tegula.MemoryStore):
    """A store that counts how often the document is read, and says nothing about changes."""

    looks = 0

    @property  # type: ignore[override]
    def changes(self) -> None:
        return None

    @changes.setter
    def changes(self, count: object) -> None:
        pass

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.looks += key == "zarr.json"
        return super().get(key, *args, **options)


@pytest.mark.parametrize("options", [{}, {"shards": (100,)}, {"dtype": str}])
def test_each_read_looks_at_the_document_once(options: dict[str, Any]) -> None:
    store = Counting()
    array = tegula.create_array(store, **{"shape": 1000, "chunks": 10, "dtype": "i4", "fill_value": None, **options})
    value = "x" if "dtype" in options else 7
    array[:500] = value
    for read in (
        lambda: array[:500],
        lambda: array[...],
        lambda: array.oindex[[1, 499]],
        lambda: array.oindex[[1, 501, 999]],
        lambda: array[7],
        lambda: array[777],
    ):
        store.looks = 0
        read()
        assert store.looks == 1


def test_members_from_consolidated_metadata_count_as_existing(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g", format="zarr2")
    group.create_array("a", shape=4, dtype="i4", fill_value=7)
    group.consolidate()
    (tmp_path / "g" / "a" / ".zarray").unlink()
    array = tegula.open_group(tmp_path / "g", "r+", consolidated=True)["a"]
    assert array[:].tolist() == [7] * 4
    array[:] = 8
    assert array[:].tolist() == [8] * 4
    (tmp_path / "g").rename(tmp_path / "h")
    with pytest.raises(tegula.NotFoundError):
        array[:]
    with pytest.raises(tegula.NotFoundError):
        array[:] = 9
    assert os.listdir(tmp_path) == ["h"]


@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_consolidated_metadata_describe_an_array_without_its_document(executor: Any, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g", format="zarr2")
    group.create_array("a", shape=8, chunks=4, dtype="i4", fill_value=7)
    group.consolidate()
    with config.configure(executor=executor):
        array = tegula.open_group(tmp_path / "g", "r+", consolidated=True)["a"]
        array[:4] = 8
        assert array[:].tolist() == [8] * 4 + [7] * 4
        (tmp_path / "g" / "a" / ".zarray").unlink()
        start = time.monotonic()
        for _ in range(3):
            assert array[:].tolist() == [8] * 4 + [7] * 4
            array[1:3] = 9
            assert array[:].tolist() == [8, 9, 9, 8] + [7] * 4
            array[1:3] = 8
            os.utime(tmp_path / "g" / ".zmetadata")  # the same description in another state
        assert time.monotonic() < start + 30
        (tmp_path / "g").rename(tmp_path / "h")
        with pytest.raises(tegula.NotFoundError):
            array[:]


def test_converting_an_array_that_was_deleted(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=40, chunks=10, dtype="i4")
    source = tegula.open_array(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "y")
    with pytest.raises(tegula.NotFoundError):
        tegula.convert(source, tmp_path / "z")


def test_anchored_store_makes_directories_while_its_document_exists(tmp_path: Path) -> None:
    store = tegula.LocalStore(tmp_path / "x")
    store.set("a/b/doc", b"1")
    anchored = store.anchored("a/b/doc")
    assert anchored == store
    anchored.set("a/b/c/0", b"1")
    anchored.set("a/b/1", b"1")
    assert anchored.prepare("a/b/e") is True
    store.delete("a/b/doc")
    anchored.set("a/b/c/1", b"1")  # makes none
    for key in ("a/b/d/0", "z/0"):
        with pytest.raises(tegula.NotFoundError, match="deleted or moved"):
            anchored.set(key, b"1")
    with pytest.raises(tegula.NotFoundError):
        anchored.make_prefix("a/b/d/")
    with pytest.raises(tegula.NotFoundError):
        anchored.prepare("a/b/d")
    store.set("a/b/d/0", b"1")
    with pytest.raises(tegula.StoreError):
        store.anchored("../x")
