"""Replacing nodes: the new one is complete before it takes the place of the old one, in every store and format."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from waves import RevalidatingWaveStore

import tegula
import tegula.dask
import tegula.references
from tegula import config
from tegula.arrays.filling import new_array_from
from tegula.errors import AlreadyExistsError, ConflictError, TegulaError
from tegula.runtime import system
from tegula.stores import LocalStore, MemoryStore, ObjectStore, ZipStore
from tegula.stores.wrapping import WrappingStore

FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz")
OLD = np.arange(40, dtype="i4").reshape(10, 4)


def a_directory(folder: Path) -> Any:
    return str(folder / "nodes")


def a_bucket(folder: Path) -> Any:
    return ObjectStore(pytest.importorskip("obstore").store.MemoryStore())


def a_file_system(folder: Path) -> Any:
    system = pytest.importorskip("fsspec").filesystem("dir", path=str(folder / "fs"), target_protocol="local")
    (folder / "fs").mkdir()
    return tegula.store_of(system)


STORES: dict[str, Callable[[Path], Any]] = {
    "directory": a_directory,
    "durable": lambda folder: LocalStore(folder / "nodes", durability="fsync"),
    "memory": lambda _: MemoryStore(),
    "mapping": lambda _: {},
    "archive": lambda folder: ZipStore(folder / "a.zip", mode="a"),
    "bucket": a_bucket,
    "fsspec": a_file_system,
    "wrapped": lambda folder: WrappingStore(LocalStore(folder / "nodes")),
}


def files(store: Any, folder: Path) -> dict[str, bytes | None]:
    """All that is stored, with hidden names; in an archive, which is written anew, by key."""
    if isinstance(store, ZipStore):
        assert {path.name for path in folder.iterdir()} <= {"a.zip"}
        return {key: store.get(key) for key in store.list()}
    found = {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
    if found:
        return found
    opened = tegula.store_of(store)
    return {key: opened.get(key) for key in opened.list()}


class View:
    """An array of another library, which reads its source when it is asked for elements."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.shape, self.dtype, self.chunks = source.shape, source.dtype, (3, 4)

    def __getitem__(self, selection: Any) -> Any:
        return self._source[selection]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._source[...], dtype)


class Interrupted(View):
    """A view that fails when most elements have been read."""

    error: type[BaseException] = RuntimeError

    def __getitem__(self, selection: Any) -> Any:
        if selection[0].start >= 6:
            raise self.error("no more")
        return super().__getitem__(selection)


class InterruptedByUser(Interrupted):
    error = KeyboardInterrupt


def views(store: Any, path: str, array: Any) -> Iterator[Any]:
    yield array
    yield View(array)
    yield array.to_dask()
    yield array.to_dask().rechunk((4, 2)) + 0


@pytest.fixture(params=["", "a/x"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """The path of a node; below a group the reference executor reads and writes it."""
    name: str = request.param
    with config.configure(**({"executor": "reference"} if name else {})):
        yield name


@pytest.mark.slow
@pytest.mark.sampled(one_in=18)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", sorted({*STORES} - {"durable"}))
def test_a_node_is_made_from_the_one_that_it_replaces(kind: str, format: str, path: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    where: dict[str, Any] = {"path": path, "format": format}
    tegula.create_array(store, data=OLD, chunks=(3,), **where)
    for number in range(4):
        old = tegula.open(store, path=path)
        data = [*views(store, path, old)][number]
        made = tegula.create_array(
            store, data=data, dtype=["f8", "i4"][number % 2], chunks=(4,), overwrite=True, **where
        )
        assert np.array_equal(made[...], OLD)
        assert np.array_equal(tegula.open(store, path=path)[...], OLD)
        made[0] = OLD[0]
        made = tegula.dask.store(tegula.open(store, path=path).to_dask() + 0, store, overwrite=True, **where)
        assert np.array_equal(made[...], OLD)
        tegula.save(store, View(tegula.open(store, path=path)), overwrite=True, **where)
        assert np.array_equal(tegula.open(store, path=path)[...], OLD)
    assert not any("tegula-" in name for name in files(store, tmp_path))


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_arrays_of_other_libraries_of_the_node_that_is_replaced(format: str, tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    tegula.create_array(path, data=OLD, chunks=(3, 2), format=format, dimension_names=None)
    references = tmp_path / "x.json"
    tegula.references.write(path, references)
    sources: list[Callable[[], Any]] = [
        lambda: zarr.open_array(path, mode="r"),
        lambda: da.from_zarr(path),
        lambda: xr.Variable(("a", "b"), da.from_zarr(path)),
        lambda: tegula.open(references),
        lambda: View(tegula.open(references)),
    ]
    for source in sources:
        tegula.references.write(path, references, overwrite=True)
        made = tegula.create_array(path, data=source(), chunks=(4, 4), format=format, overwrite=True)
        assert np.array_equal(made[...], OLD)


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", sorted({*STORES} - {"durable"}))
def test_what_fails_leaves_the_old_node_as_it_was(kind: str, format: str, path: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    where: dict[str, Any] = {"path": path, "format": format}
    tegula.create_array(store, data=OLD, chunks=(3,), attributes={"a": 1}, **where)
    before = files(store, tmp_path)
    old = tegula.open(store, path=path)

    def fails(block: Any) -> Any:
        raise RuntimeError("no block")

    failing: list[tuple[type[BaseException], Callable[[], Any]]] = [
        (TegulaError, lambda: tegula.create_array(store, data=["a", 1], dtype="i4", overwrite=True, **where)),
        (TegulaError, lambda: tegula.create_array(store, data=OLD, shape=3, overwrite=True, **where)),
        (TegulaError, lambda: tegula.create_array(store, data=OLD, codecs="nothing", overwrite=True, **where)),
        (TegulaError, lambda: tegula.create_array(store, data=OLD, chunks=(1, 2, 3), overwrite=True, **where)),
        (RuntimeError, lambda: tegula.create_array(store, data=Interrupted(old), chunks=(3,), overwrite=True, **where)),
        (
            KeyboardInterrupt,
            lambda: tegula.create_array(store, data=InterruptedByUser(old), chunks=(3,), overwrite=True, **where),
        ),
        (
            RuntimeError,
            lambda: tegula.dask.store(old.to_dask().map_blocks(fails, meta=OLD[:0]), store, overwrite=True, **where),
        ),
        (TegulaError, lambda: tegula.create_table(store, {"a": [1], "b": [1, 2]}, overwrite=True, path=path)),
    ]
    for error, act in failing:
        with pytest.raises(error):
            act()
        assert files(store, tmp_path) == before
        assert np.array_equal(tegula.open(store, path=path)[...], OLD)


def test_a_parent_of_another_format_is_noticed_before_anything_is_deleted(tmp_path: Path) -> None:
    for store in (str(tmp_path / "s"), MemoryStore()):
        tegula.create_array(store, data=OLD, path="a/x", format="zarr3")
        before = files(store, tmp_path)
        for data in (None, OLD, View(OLD)):
            with pytest.raises(TegulaError, match="can't be a member"):
                tegula.create_array(
                    store, path="a/x", data=data, shape=(10, 4), dtype="i4", format="zarr2", overwrite=True
                )
            assert files(store, tmp_path) == before


@pytest.mark.parametrize("kind", ["directory", "memory", "archive", "bucket", "wrapped"])
def test_whole_groups_and_tables_are_replaced(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    for path in ("", "g"):
        for _ in range(2):
            group = tegula.create_group(store, path=path, overwrite=True)
            group.create_array("x", data=OLD)
            group.create_group("sub").create_array("y", data=OLD, chunks=(3,))
            array = tegula.create_array(
                store, data=View(tegula.open(store, path=f"{path}/sub/y")), path=path, overwrite=True
            )
            assert np.array_equal(array[...], OLD)
            table = tegula.create_table(
                store, {"a": array[:, 0], "b": OLD[:, 1]}, path=path, format="zarr3", overwrite=True
            )
            assert table.names == ("a", "b")
            tegula.save(store, x=OLD, y=View(table["a"][:][:, None]), path=path, overwrite=True)
            assert sorted(tegula.load(store, path=path)) == ["x", "y"]
            assert np.array_equal(tegula.load(store, path=path)["y"][:, 0], OLD[:, 0])


def test_other_files_of_a_folder_stay(tmp_path: Path) -> None:
    for data in (None, OLD, View(OLD)):
        folder = tmp_path / f"{data is None}{type(data).__name__}"
        tegula.create_array(folder / "x", data=OLD)
        (folder / "notes.txt").write_text("mine")
        (folder / "c").mkdir()
        (folder / "c" / "mine").write_text("mine")
        array = tegula.create_array(folder, data=data, shape=(10, 4), dtype="i4", chunks=(3,), overwrite=True)
        assert not (folder / "x").exists()
        assert (folder / "notes.txt").read_text() == (folder / "c" / "mine").read_text() == "mine"
        assert np.array_equal(array[...], OLD if data is not None else OLD * 0)
        assert [*folder.rglob(".tegula*")] == [*tmp_path.glob(".tegula*")] == []


@pytest.mark.parametrize("case", ["link", "current", "no exchange", "link to node"])
def test_directories_that_can_not_simply_be_renamed(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real"
    tegula.create_array(real, data=OLD, chunks=(3,))
    target: Any = real
    if case == "link":
        target = tmp_path / "link"
        target.symlink_to(real)
    elif case == "current":
        monkeypatch.chdir(real)
    elif case == "no exchange":
        monkeypatch.setattr(system, "_swap", lambda: None)
    else:
        (tmp_path / "link").symlink_to(real)
        array = tegula.create_array(tmp_path, path="link", data=View(tegula.open(real)), chunks=(4,), overwrite=True)
        assert not (tmp_path / "link").is_symlink()
        assert np.array_equal(array[...], OLD)
        assert np.array_equal(tegula.open(real)[...], OLD)  # of a link only the link is deleted
        return
    before, held = real.stat().st_ino, os.open(real, os.O_RDONLY)  # while it is open, its number is not given anew
    for dtype in ("f4", "i2"):
        array = tegula.create_array(target, data=View(tegula.open(target)), dtype=dtype, chunks=(4,), overwrite=True)
        assert np.array_equal(array[...], OLD)
        assert tegula.open(target).dtype == dtype
        tegula.create_array(target, shape=(10, 4), dtype="i1", overwrite=True)[...] = OLD
    assert target.is_symlink() == (case == "link")
    assert (real.stat().st_ino == before) == (case != "no exchange")
    os.close(held)
    assert [*tmp_path.rglob(".tegula*")] == []


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_the_new_directory_has_the_mode_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    tegula.create_array(path, data=OLD)
    path.chmod(0o2750)
    tegula.create_array(path, data=OLD, overwrite=True)
    assert path.stat().st_mode & 0o7777 == 0o2750


def test_open_files_of_the_old_node_stay_readable_until_it_is_deleted(tmp_path: Path) -> None:
    """No directory of the old node is emptied before the new one is in its place."""
    store = LocalStore(tmp_path / "x")
    tegula.create_array(store, data=OLD, chunks=(3,))
    seen = []

    class Watching(View):
        def __getitem__(self, selection: Any) -> Any:
            seen.append(np.array_equal(tegula.open(tmp_path / "x")[...], OLD))
            return super().__getitem__(selection)

    tegula.create_array(store, data=Watching(OLD), dtype="f8", overwrite=True)
    assert seen
    assert all(seen)


CODECS: list[dict[str, Any]] = [
    {"dtype": "i4", "codecs": "gzip"},
    {"dtype": "f4", "codecs": "zstd"},
    {"dtype": "i4", "codecs": "none"},
    {"dtype": "i8", "codecs": "zstd"},
]


def replace_again_and_again(path: str, count: int, same: bool) -> None:
    for number in range(count):
        how = CODECS[0] if same else CODECS[number % len(CODECS)]
        tegula.create_array(path, data=np.full((10, 4), number + 1), chunks=(3,), overwrite=True, **how)


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="looks into directories that are held by /proc")
@pytest.mark.parametrize("same", [True, False])
def test_a_reader_that_opens_anew_beside_a_replacing_writer(same: bool, tmp_path: Path) -> None:
    """A directory that is held shows one node: all of its chunks or, once it is being deleted, no document."""
    path = str(tmp_path / "x")
    tegula.create_array(path, data=np.full((10, 4), 1), chunks=(3,), **CODECS[0])
    writer = multiprocessing.get_context("spawn").Process(target=replace_again_and_again, args=(path, 60, same))
    writer.start()
    looks = 0
    while writer.is_alive() or not looks:
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            pytest.fail("the place of the node was empty for a moment")
        try:
            looks += 1
            chunks = set(os.listdir(f"/proc/self/fd/{fd}/c"))
            assert chunks == {"0", "1", "2", "3"} or "zarr.json" not in os.listdir(fd)
        except FileNotFoundError:
            assert "zarr.json" not in os.listdir(fd)
        finally:
            os.close(fd)
    writer.join()
    assert writer.exitcode == 0
    assert (tegula.open(path)[...] == 60).all()
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "durable"])
def test_one_of_two_writers_wins(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    tegula.create_array(store, data=OLD, path="x")
    problems: list[BaseException] = []

    def write(number: int) -> None:
        for _ in range(10):
            try:
                data = np.full((10, 4), number)
                tegula.create_array(store, data=View(data), path="x", chunks=(3, 4), overwrite=True)
            except (AlreadyExistsError, ConflictError):
                pass
            except BaseException as error:
                problems.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    found = tegula.open(store, path="x")[...]
    assert found.min() == found.max() in (1, 2, 3)
    assert not any("tegula-" in name for name in files(store, tmp_path))


class Overtaken(RevalidatingWaveStore):
    """A remote store in which another process replaces an array when its first chunk is written."""

    overtaken = 0

    def passing(self, request: str) -> None:
        if request.startswith("set x/c/") and not self.overtaken:
            self.overtaken += 1
            other = RevalidatingWaveStore()
            other.values = self.values
            tegula.create_array(other, path="x", data=np.arange(40.0), chunks=4, overwrite=True)


@pytest.mark.parametrize("there", [True, False])
def test_array_replaced_while_being_filled_is_stored_again_completely(there: bool) -> None:
    store = Overtaken()
    if there:
        tegula.create_array(store.values, path="x", data=np.arange(3))
    array = tegula.create_array(store, path="x", data=np.arange(30, dtype="i2"), chunks=10, overwrite=True)
    assert store.overtaken
    assert array.dtype == "i2"
    found = tegula.open_array(store.values, path="x")
    assert found.dtype == "i2"
    assert np.array_equal(found[...], np.arange(30))


def test_failed_fill_leaves_the_array_that_replaced_it() -> None:
    store = Overtaken()
    with suppress(KeyboardInterrupt), new_array_from(store, "x", "memory", shape=(30,), dtype="i2", chunks=10) as new:
        new[0][...] = 1
        raise KeyboardInterrupt
    assert tegula.open_array(store.values, path="x").dtype == "f8"
