"""Shrinking and growing: elements that were cut off never reappear, and no append of another process is lost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.walks import within
from waves import WaveStore

import tegula
from tegula import CodecError, LocalStore, MemoryStore, StoreError, config
from tegula.engine.lengths import resizing


class Interfering(MemoryStore):
    """A store that runs another action when its keys are listed or a chunk is read."""

    interfere: Callable[[], None] | None = None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        found = [*super().list_prefix(prefix)]
        self._interfere()
        return iter(found)

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        found = super().get(key, *args, **options)
        if key[-1].isdigit():
            self._interfere()
        return found

    def _interfere(self) -> None:
        if self.interfere is not None:
            action, self.interfere = self.interfere, None
            action()


LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr1": {"format": "zarr1", "chunks": 4},
    "zarr2": {"format": "zarr2", "chunks": 4},
    "zarr3": {"format": "zarr3", "chunks": 4},
    "shards": {"format": "zarr3", "chunks": 2, "shards": 4},
    "varying": {"format": "zarr3", "chunks": [[3, 1, 5, 3]]},
}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    return LAYOUTS[request.param]


@pytest.mark.parametrize("length", [3, 4, 5, 8])
def test_an_append_during_a_shrink_is_kept(layout: dict[str, Any], length: int) -> None:
    store = Interfering()
    a = tegula.create_array(store, shape=12, dtype="i4", **layout)
    a[:] = 7
    other = tegula.open_array(store, mode="r+")
    store.interfere = lambda: other.append([1, 2, 3]) and None
    a.resize(length)
    assert tegula.open(store)[...].tolist() == [7] * length + [1, 2, 3]


@pytest.mark.parametrize("length", [3, 4, 5])
def test_leftovers_of_an_interrupted_shrink_are_cleared_on_growing(layout: dict[str, Any], length: int) -> None:
    store = Interfering()
    a = tegula.create_array(store, shape=12, dtype="i4", **layout)
    a[:] = 7

    def die() -> None:
        raise KeyboardInterrupt

    store.interfere = die
    with pytest.raises(KeyboardInterrupt):
        a.resize(length)
    again = tegula.open_array(store, mode="r+")
    assert again.shape == (length,)
    again.resize(12)
    assert again[...].tolist() == [7] * length + [0] * (12 - length)


@pytest.mark.parametrize("element", [(3, 0), (0, 3), (3, 3)])
@pytest.mark.parametrize("place", [MemoryStore, WaveStore, Path])
@pytest.mark.parametrize("chunks", [(4, 4), (2, 4), (8, 8)])
def test_old_elements_on_any_side_of_the_corner_are_cleared_on_growing(
    tmp_path: Path, place: Any, chunks: tuple[int, int], element: tuple[int, int]
) -> None:
    store = tmp_path if place is Path else place()
    array = tegula.create_array(store, shape=(4, 4), chunks=chunks, dtype="i4", format="zarr2")
    array[element] = 7
    with pytest.MonkeyPatch.context() as patch:  # as if the shrink had been interrupted
        patch.setattr(resizing, "cut_off", lambda *args: None)
        array.resize(2, 2)
    expected = np.zeros((4, 4), "i4")
    expected[:2, :2] = array[...]
    again = tegula.open_array(store, mode="r+")
    again.resize(4, 4)
    np.testing.assert_array_equal(again[...], expected)


def test_writes_of_a_stale_handle_beyond_the_edge_are_cleared_on_growing(layout: dict[str, Any]) -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=12, dtype="i4", **layout)
    stale = tegula.open_array(store, mode="r+")
    before = {key: store.get(key) or b"" for key in store.list()}
    tegula.open_array(store, mode="r+")[:] = 8
    chunks = {key: store.get(key) or b"" for key in store.list() if before.get(key) != store.get(key)}
    a.resize(5)
    with pytest.raises(tegula.SelectionError, match="resized to"):
        stale[:] = 8
    for key, value in chunks.items():  # of another library, which has not seen the new shape
        store.set(key, value)
    a.resize(12)
    assert a[...].tolist() == [8] * 5 + [0] * 7


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_growing_by_few_chunks_does_not_list_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: Any, separator: str
) -> None:
    with config.configure(executor=executor):
        options: dict[str, Any] = {"chunks": (2, 4), "dtype": "i4", "format": "zarr2", "chunk_key_encoding": separator}
        longer = tegula.create_array(tmp_path / "a", shape=(40, 40), **options)
        longer[...] = 7
        array = tegula.create_array(tmp_path / "b", shape=(21, 38), **options)
        array[...] = 1
        for path in (tmp_path / "a").rglob("*"):  # as if a shrink had been interrupted at once
            target = tmp_path / "b" / path.relative_to(tmp_path / "a")
            if path.is_file() and path.name[0].isdigit():
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
        expected = np.zeros((40, 40), "i4")
        expected[:21, :38] = 7
        monkeypatch.setattr(LocalStore, "list_prefix", None)
        for shape in [(22, 38), (23, 39), (23, 40), (26, 40), (40, 40)]:
            if shape == (40, 40):  # not by little any more
                monkeypatch.undo()
            array.resize(shape)
            np.testing.assert_array_equal(array[...], expected[: shape[0], : shape[1]])
            assert tegula.open(tmp_path / "b").shape == shape


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_shrinking_deletes_what_is_outside_and_nothing_else(tmp_path: Path, executor: Any, separator: str) -> None:
    with config.configure(executor=executor):
        array = tegula.create_array(
            tmp_path, shape=(9, 8), chunks=(2, 2), dtype="i4", format="zarr2", chunk_key_encoding=separator
        )
        array[...] = 7
        (tmp_path / "3.9").mkdir()  # no chunk
        (tmp_path / "4.x").touch()
        array.resize(5, 8)
        array.resize(5, 3)
        assert sorted(key for _, key in array.stored.stored_chunks()) == sorted(
            f"{i}{separator}{j}" for i in range(3) for j in range(2)
        )
        assert (tmp_path / "3.9").is_dir()
        assert (tmp_path / "4.x").is_file()
        if separator == "/":  # directories that fall empty are removed
            assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"0", "1", "2", "3.9"}
        array.resize(9, 8)
        assert array[...].sum() == 7 * 5 * 3


@pytest.fixture
def by_the_kernel(kernel: ModuleType) -> Iterator[None]:
    with config.configure(executor="kernel"):
        yield


@pytest.mark.usefixtures("by_the_kernel")
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_append_while_files_are_deleted_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    array = tegula.create_array(tmp_path, shape=600, chunks=1, dtype="i4")
    array[:] = 7
    other = tegula.open_array(tmp_path, mode="r+")
    appending = threading.Thread(target=lambda: other.append([1, 2, 3]))
    read_present = vars(resizing)["_read_present"]

    def look(*args: Any) -> Any:
        known = read_present(*args)
        if appending.ident is None:
            appending.start()  # which waits for as long as the directory is locked
            deadline = time.monotonic() + 1
            while tegula.open(tmp_path).shape == (5,) and time.monotonic() < deadline:
                time.sleep(0.01)
            return known if when == "before" else read_present(*args)
        return known

    monkeypatch.setattr(resizing, "_read_present", look)
    array.resize(5)
    appending.join(30)
    found = tegula.open(tmp_path)
    assert found[...].tolist() == [7] * 5 + [1, 2, 3]
    assert found.nchunks_initialized() == 8


def test_growing_during_a_shrink_shows_no_old_values() -> None:
    store = Interfering()
    a = tegula.create_array(store, shape=12, chunks=4, dtype="i4")
    a[:] = 7
    other = tegula.open_array(store, mode="r+")
    store.interfere = lambda: other.resize(9)
    a.resize(3)
    found = tegula.open(store)[...]
    assert set(found[3:].tolist()) <= {0}


def test_a_damaged_chunk_does_not_stop_a_shrink() -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=(9, 9), chunks=(4, 4), dtype="i4")
    a[...] = 7
    store.set("c/1/1", b"damaged")
    a.resize(6, 6)
    assert sorted(key for key in store.list() if key != "zarr.json") == ["c/0/0", "c/0/1", "c/1/0", "c/1/1"]
    with pytest.raises(CodecError):
        a[5, 5]
    assert a[:4, :4].min() == 7


class Failing(MemoryStore):
    """A store that can be set to refuse chunks."""

    broken = False

    def set(self, key: str, value: Any, **options: Any) -> Any:
        if self.broken and not key.endswith(".json"):
            raise StoreError("no space is left", key=key)
        return super().set(key, value, **options)


def test_an_append_that_fails_takes_its_growth_back() -> None:
    store = Failing()
    a = tegula.create_array(store, shape=3, chunks=2, dtype="i4")
    a[:] = 1
    store.broken = True
    with pytest.raises(StoreError, match="no space"):
        a.append([2, 2, 2])
    store.broken = False
    assert a.shape == tegula.open(store).shape == (3,)
    a.append([3])
    assert tegula.open(store)[...].tolist() == [1, 1, 1, 3]


def test_the_fill_value_of_an_array_that_was_replaced_is_noticed() -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=4, chunks=2, dtype="i4", fill_value=7)
    tegula.create_array(store, shape=4, chunks=2, dtype="i4", fill_value=9, overwrite=True)
    with pytest.raises(tegula.NotFoundError, match="replaced"):
        a[:] = 7
    a.refresh()
    a.attrs["x"] = 1
    a[:] = 7
    assert a[...].tolist() == tegula.open(store)[...].tolist() == [7] * 4


@pytest.mark.slow
def test_a_write_in_the_background_is_done_when_the_interpreter_ends(tmp_path: Any) -> None:
    path = str(tmp_path / "a")
    script = f"""
        import numpy as np, tegula
        a = tegula.create_array({path!r}, shape=2_000_000, chunks=250_000, dtype="i4")
        a.write(slice(None), np.arange(1, 2_000_001, dtype="i4"))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    assert np.array_equal(tegula.open(path)[...], np.arange(1, 2_000_001))


DOCUMENTS = {"zarr1": "meta", "zarr2": ".zarray", "zarr3": "zarr.json"}


@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_new_shape_changes_the_numbers_of_the_document_only(format: str) -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=(4, 3), chunks=(2, 3), dtype="i4", format=format)
    key = DOCUMENTS[format]
    text = (store.get(key) or b"").decode()
    odd = text.replace(": ", " :\t").replace("\n", "\r\n") + "\n"  # as no writer of ours has it
    store.set(key, odd.encode())
    array.refresh()
    array.append(np.ones((3, 3)))
    assert (store.get(key) or b"").decode().replace("7", "4") == odd
    array.resize(4, 3)
    assert (store.get(key) or b"").decode() == odd
    assert tegula.open_array(store).metadata == array.metadata


def test_a_second_resize_sees_changes_by_other_processes() -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=4, chunks=2, dtype="i4")
    other = tegula.open_array(store, mode="r+")
    other.attrs["x"] = 1
    other.resize(6)
    array.append([1])
    assert (array.shape, array.attrs["x"]) == ((7,), 1)
    tegula.create_array(store, shape=4, chunks=3, dtype="i4", overwrite=True)
    with pytest.raises(tegula.NotFoundError, match="replaced"):
        array.resize(7)
    array.refresh()
    array.resize(7)
    assert array.chunks == (3,)
    tegula.create_array(store, shape=(4, 4), dtype="i4", overwrite=True)
    with pytest.raises(tegula.NotFoundError, match="replaced"):
        array.resize(9)


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
@pytest.mark.parametrize("place", ["memory", "local"])
def test_each_change_starts_from_the_present_documents(format: str, place: str, tmp_path: Path) -> None:
    store = MemoryStore() if place == "memory" else LocalStore(tmp_path)
    one = tegula.create_array(store, shape=(4,), chunks=(2,), dtype="i4", format=format)
    other = tegula.open_array(store, "r+")
    one.resize(5)
    other.resize(9)
    other.attrs["unit"] = "K"
    assert one.append([7]) == (10,)
    assert one.attrs["unit"] == "K"
    other.append([8])
    one.resize(12)
    other.attrs["unit"] = "m"
    one.resize(12)  # which stores nothing
    assert one.attrs["unit"] == "m"
    one.resize(13)
    tegula.create_array(store, shape=(4, 4), dtype="i4", format=format, overwrite=True)
    with pytest.raises(tegula.NotFoundError, match="replaced"):
        one.resize(20)
    tegula.delete(store)
    with pytest.raises(tegula.NotFoundError):
        one.resize(21)
    with pytest.raises(tegula.NotFoundError):
        one.resize(21)


OTHER_PROCESS = """
import sys, numpy as np, tegula
from tegula.engine.lengths import resizing
from tests.walks import within
cut_off = resizing.cut_off
for line in sys.stdin:
    try:
        a = tegula.open_array(sys.argv[1], "r+")
        rows, more = len(a), np.full((9, 6), 7, "i4")
        exec(line)
    except (ZeroDivisionError, tegula.SelectionError) as error:
        print(type(error).__name__, flush=True)
    else:
        print("done", flush=True)
    resizing.cut_off = cut_off
"""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_growing_shows_no_old_values_beside_another_process(format: str, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=(2, 6), chunks=(4, 2), dtype="i4", format=format)
    actions = {
        "pass": "done",
        "a.append(more); a.resize(rows, 6)": "done",
        # it ends before it deletes the chunks that it has cut off
        "resizing.cut_off = lambda *_: 1 / 0; a.append(more); a.resize(rows, 6)": "ZeroDivisionError",
        "a.append(more); b = tegula.open_array(a.store, 'r+'); a.resize(rows, 6); b[rows:] = 7": "SelectionError",
        "a.resize(1, 6); a.resize(rows, 6)": "done",
        "a.append(more); a.resize(rows, 6); a.attrs['unit'] = 'K'": "done",
    }
    command = [sys.executable, "-c", OTHER_PROCESS, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for action, answer in [*actions.items(), *actions.items()]:
            array[:2] = 7
            print(action, file=other.stdin, flush=True)
            assert other.stdout.readline() == answer + "\n"
            for _ in range(3):
                array.resize(len(array) + 1, 6)
                assert array[2:].max() == 0
                assert array[0].min() == 7
        other.stdin.close()
    assert array.attrs["unit"] == "K"


@pytest.mark.usefixtures("by_the_kernel")
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_growing_again_takes_few_calls(format: str, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=(4, 6), chunks=(600, 6), dtype="i4", format=format)
    for length in range(5, 300):  # functions are compiled for values that are often copied
        array.resize(length, 6)
    assert within(85, lambda: array.resize(len(array) + 1, 6))


def test_growing_from_length_0_gives_chunks_a_length() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=0, chunks=1, dtype="i4", format="zarr2")
    text = (store.get(".zarray") or b"").decode()
    store.set(".zarray", text.replace("1\n", "0\n", 1).encode())
    assert b"0\n" in (store.get(".zarray") or b"")
    array = tegula.open_array(store, mode="r+")
    array.append([3, 4])
    assert tegula.open_array(store)[...].tolist() == [3, 4]


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("shape", [(2**63 - 5, 3), (3, 2**63 - 5), (10, 3), (3, 10)])
def test_growing_to_the_largest_shape(shape: tuple[int, ...], executor: Any, tmp_path: Path) -> None:
    axis = shape.index(max(shape))
    largest = tuple(2**63 - 1 if n == axis else size for n, size in enumerate(shape))
    with config.configure(executor=executor):
        for store in (MemoryStore(), LocalStore(tmp_path)):
            # the last chunk ends beyond the largest index
            array = tegula.create_array(store, shape=shape, chunks=(2, 1000) if axis else (1000, 2), dtype="u1")
            array.resize(largest)
            assert array.shape == largest
            last = tuple(slice(size - 6, size - 1) if n == axis else -1 for n, size in enumerate(largest))
            array[last] = 5
            array.resize(shape)
            array.resize(largest)
            assert array[last].tolist() == ([5, 5, 0, 0, 0] if shape[axis] > 10 else [0] * 5)


@pytest.mark.usefixtures("by_the_kernel")
def test_a_new_array_goes_to_the_kernel_at_once(tmp_path: Path) -> None:
    for format in DOCUMENTS:
        array = tegula.create_array(tmp_path / format, shape=(4, 4), chunks=2, dtype="i4", format=format)
        array[...] = 1
        assert array.stored.kernel


class Killed(BaseException):
    """The end of a process, after which it does nothing any more."""


class StoreOfAKilledProcess(tegula.MemoryStore):
    """A store whose process is killed after the next change of a document."""

    armed = dead = False

    def get(self, *args: Any, **options: Any) -> Any:
        if self.dead:
            raise Killed
        return super().get(*args, **options)

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        if self.dead:
            raise Killed
        done = super().set(key, *args, **options)
        self.dead = self.armed and key.endswith("zarr.json")
        return done


def test_killed_append_shows_nothing_of_another_interrupted_shrink() -> None:
    store = StoreOfAKilledProcess()
    array = tegula.create_array(store, shape=4, chunks=2, dtype="i4")
    array.append([1, 1])
    # another process appends, and is killed when it has stored the length of a shrink
    other = tegula.open_array(store, mode="r+")
    other.append([7] * 8)
    kept = {key: store.get(key) for key in store.list() if key.startswith("c/")}
    other.resize(8)
    for key, value in kept.items():
        store.set(key, value)
    store.armed = True
    with pytest.raises(Killed):
        array.append([5] * 4)
    store.armed = store.dead = False
    assert tegula.open_array(store)[...].tolist() == [0] * 4 + [1] * 2 + [7] * 2 + [0] * 4


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("grow", ["resize", "append"])
def test_growing_a_column_shows_nothing_of_a_killed_table_append(format: str, grow: str) -> None:
    store = MemoryStore()
    tegula.create_table(store, {"a": np.arange(5), "b": np.arange(5) / 2}, path="t", format=format, chunks=8)
    a = tegula.open_array(store, path="t/a", mode="r+")
    a.resize(6)
    if grow == "append":
        a.append([6])
    else:
        a.resize(7)
    # the chunks as an append of 11 rows leaves them if it is killed before it stores a length
    chunks = {key: store.get(key) for key in store.list_prefix("t/a/") if key[-1].isdigit()}
    document = {key: store.get(key) for key in store.list_prefix("t/a/") if key not in chunks}
    other = MemoryStore({**chunks, **document})
    tegula.open_array(other, path="t/a", mode="r+").append(np.full(11, 9))
    for key in other.list_prefix("t/a/"):
        if key not in document:
            store.set(key, other.get(key))
    before = a[...].tolist()
    for length in (8, 9, 12, 18):
        a.resize(length)
        assert a[...].tolist() == [*before, *[0] * (length - 7)]
