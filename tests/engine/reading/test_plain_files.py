"""Where the kernel has no store of files, it reads those of most chunks by their paths, and Python does the rest.

Where it has one, but the file system ignores case, that store asks for the names of directories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import StoreError, TegulaError
from tegula.runtime import system
from tegula.stores import LocalStore
from tegula.stores.local.root import Root

VALUES = np.arange(96, dtype="i4").reshape(8, 12)


@pytest.fixture(params=["heeds case", "ignores case", "ignores case, own store"])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kernel: object) -> Iterator[list[str]]:
    """The keys whose values Python has read."""
    if request.param != "ignores case, own store":
        monkeypatch.setattr(system, "KERNEL_STORES", False)
    if request.param != "heeds case":
        monkeypatch.setattr(Root, "ignores_case", property(lambda _: True, lambda *_: None), raising=False)
    keys: list[str] = []
    get = LocalStore.get

    def noting(self: LocalStore, key: str, *args: Any, **options: Any) -> Any:
        keys.append(key)
        return get(self, key, *args, **options)

    monkeypatch.setattr(LocalStore, "get", noting)
    with config.configure(executor="kernel"):
        yield keys


def chunks_of(keys: list[str]) -> list[str]:
    """Return the keys that end in a number."""
    return [key for key in keys if key[-1:].isdigit()]


@pytest.mark.parametrize("options", [{}, {"shards": (8, 6)}, {"format": "zarr2"}], ids=["zarr3", "shards", "zarr2"])
def test_the_kernel_reads_the_files_of_chunks(tmp_path: Path, asked: list[str], options: dict[str, Any]) -> None:
    array = tegula.create_array(tmp_path / "a", data=VALUES, chunks=(2, 3), **options)
    asked.clear()
    array = tegula.open_array(tmp_path / "a", mode="r+")
    assert np.array_equal(array[...], VALUES)
    assert array[3, 5] == VALUES[3, 5]
    assert array.vindex[[1, 7], [2, 11]].tolist() == VALUES[[1, 7], [2, 11]].tolist()
    assert chunks_of(asked) == []
    array[:3, :4] = -1
    array.append(VALUES[:3])
    changed = VALUES.copy()
    changed[:3, :4] = -1
    assert np.array_equal(array[...], np.concatenate([changed, VALUES[:3]]))


def test_missing_chunks_are_the_fill_value(tmp_path: Path, asked: list[str]) -> None:
    array = tegula.create_array(tmp_path / "a", shape=(8, 12), chunks=(2, 3), dtype="i4", fill_value=7)
    assert (array[...] == 7).all()
    array[2:4, 3:6] = 1
    array = tegula.open_array(tmp_path / "a")
    assert (array[...] == 7).sum() == 96 - 6


@pytest.mark.posix("symbolic links")
def test_what_is_unusual_is_read_or_refused_by_python(tmp_path: Path, asked: list[str]) -> None:
    tegula.create_array(tmp_path / "a", data=VALUES, chunks=(2, 12), codecs=None)
    folder = tmp_path / "a/c"
    (folder / "0").rename(tmp_path / "a/c/kept")
    (folder / "0").symlink_to("kept")
    array = tegula.open_array(tmp_path / "a")
    (folder / "0/0").rename(folder / "0/kept")
    (folder / "0/0").symlink_to("kept")
    assert np.array_equal(array[...], VALUES)
    assert chunks_of(asked) == ["c/0/0"]
    (folder / "1/0").unlink()
    (folder / "1/0").mkdir()
    with pytest.raises(StoreError, match="is a directory"):
        array[2]
    (folder / "2/0").unlink()
    (folder / "2").rmdir()
    (folder / "2").write_bytes(b"")
    with pytest.raises(TegulaError):
        array[4]


@pytest.mark.posix("symbolic links")
def test_a_directory_that_leads_out_of_the_store_is_refused(tmp_path: Path, asked: list[str]) -> None:
    tegula.create_array(tmp_path / "a", data=VALUES, chunks=(2, 12), codecs=None)
    (tmp_path / "a/c/0").rename(tmp_path / "outside")
    (tmp_path / "a/c/0").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="leads out of the store"):
        tegula.open_array(tmp_path / "a")[...]


def test_where_case_is_ignored_the_kernel_writes_the_files_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: object
) -> None:
    monkeypatch.setattr(Root, "ignores_case", property(lambda _: True, lambda *_: None), raising=False)
    keys: list[str] = []
    write = LocalStore.set

    def noting(self: LocalStore, key: str, *args: Any, **options: Any) -> Any:
        keys.append(key)
        return write(self, key, *args, **options)

    monkeypatch.setattr(LocalStore, "set", noting)
    with config.configure(executor="kernel"):
        array = tegula.create_array(tmp_path / "a", data=VALUES, chunks=(2, 3), codecs=None)
        array[1:5, 2:8] = -1
        array.append(VALUES[:3])
        assert chunks_of(keys) == []
        folder = (tmp_path / "a/c").rename(tmp_path / "a/moved")
        folder = folder.rename(tmp_path / "a/C")  # the same on such a file system, but not the name of the key
        with suppress(StoreError):  # where it really is the same, an error says so
            assert not tegula.open_array(tmp_path / "a")[...].any()
        folder.rename(tmp_path / "a/moved").rename(tmp_path / "a/c")
        assert (array[1:5, 2:8] == -1).all()
        array = tegula.create_array(tmp_path / "b", data=VALUES, chunks=(8, 12), format="zarr2", codecs=None)
        assert np.array_equal(array[...], VALUES)
