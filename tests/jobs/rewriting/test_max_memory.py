"""Conversions within an amount of memory: in units that fit, and in two passes where that is cheaper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, UnsupportedError
from tegula.jobs.ledger import COMPLETE, is_ledger_key
from tegula.jobs.rewriting import temporary as temporaries
from tegula.jobs.rewriting.memory import memory_of
from tegula.stores import LocalStore, MemoryStore, Store, ZipStore

MIB = 2**20


def maps(store: Any, shape: tuple[int, ...] = (64, 256, 256), **options: Any) -> tegula.Array:
    """Store maps, one after the other; series lie across them."""
    options = {"chunks": (1, *shape[1:]), "dtype": "i4", "codecs": "zstd", **options}
    array = tegula.create_array(store, shape=shape, format="zarr3", **options)
    array[...] = np.arange(array.size, dtype="i4").reshape(shape)
    return array


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if ".tegula" in path.name]


def make(kind: str, folder: Path) -> Store:
    if kind == "local":
        return LocalStore(folder / "new")
    return ZipStore(folder / "new.zip", "a") if kind == "zip" else MemoryStore()


@pytest.mark.slow
@pytest.mark.sampled(one_in=21)
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("kind", ["local", "memory", "zip"])
def test_values_go_through_a_temporary_array_which_is_removed(tmp_path: Path, kind: str, recorded: bool) -> None:
    source = maps(tmp_path / "old")
    if kind == "zip" and recorded:
        pytest.skip("an archive is written in one go")
    store = make(kind, tmp_path)
    seen: list[int] = []
    options: dict[str, Any] = {"chunks": (64, 8, 8), "max_memory": 4 * MIB, "resume": False if recorded else None}
    outline = tegula.convert(source, store, path="a/x", dry_run=True, **{**options, "resume": None})
    assert outline.passes[""].temporary is not None
    assert "2 passes" in str(outline)
    report = tegula.convert(
        source, store, path="a/x", verify=True, progress=lambda _, done, __: seen.append(done), **options
    )
    assert report.ok
    assert seen == sorted(seen)
    assert seen[-1] == 2 * source.nbytes
    assert not [key for key in store.list() if ".tegula" in key and not key.endswith(COMPLETE)]
    assert not [name for name in leftovers(tmp_path) if not name.endswith(COMPLETE)]
    np.testing.assert_array_equal(tegula.open(store, path="a/x")[...], source[...])
    store.close()


@pytest.mark.slow
def test_the_temporary_array_is_put_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, scratch, used = maps(MemoryStore()), tmp_path / "scratch", []
    made = temporaries.new_array_of

    def note(store: Any, *args: Any, **options: Any) -> Any:
        used.append(store.root)
        return made(store, *args, **options)

    monkeypatch.setattr(temporaries, "new_array_of", note)
    tegula.convert(source, tmp_path / "new", chunks=(64, 8, 8), max_memory=4 * MIB, temporary=scratch)
    assert [Path(root).parent for root in used] == [scratch]
    assert not leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.sampled(one_in=21)
@pytest.mark.parametrize("change", ["select", "dtype", "fill", "edge"])
def test_selections_edges_and_types(tmp_path: Path, change: str) -> None:
    shape = (67, 203, 190) if change == "edge" else (64, 256, 256)
    source = maps(tmp_path / "old", shape)
    select: Any = (slice(60, 4, -1), slice(None, None, 2), slice(3, None)) if change == "select" else None
    values = source[...][::-1][3:59, ::2, 3:] if change == "select" else source[...]
    if change == "fill":
        source[3:9] = 0
        values = source[...]
    store = MemoryStore()
    chunks = (values.shape[0], 8, 8)
    outline = tegula.convert(source, store, chunks=chunks, max_memory=3 * MIB, select=select, dry_run=True)
    assert outline.passes[""].temporary is not None
    tegula.convert(source, store, chunks=chunks, max_memory=3 * MIB, select=select, verify=True)
    np.testing.assert_array_equal(tegula.open(store)[...], values)


@pytest.mark.slow
def test_units_are_whole_shards_and_a_shard_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    source = maps(tmp_path / "old")
    options: dict[str, Any] = {"chunks": (64, 8, 8), "shards": (64, 64, 64)}
    passes = tegula.convert(source, MemoryStore(), max_memory=8 * MIB, dry_run=True, **options).passes[""]
    assert all(n % m == 0 for n, m in zip(passes.passes[-1].unit, (64, 64, 64)))
    before = os.listdir(tmp_path)
    with pytest.raises(UnsupportedError, match="shard of shape") as caught:
        tegula.convert(source, tmp_path / "new", max_memory=2 * MIB, **options)
    assert caught.value.field == "max_memory"
    needed = int(str(caught.value).partition("takes ")[2].partition(" ")[0])
    assert sorted(os.listdir(tmp_path)) == sorted(before)
    store = MemoryStore()
    tegula.convert(source, store, max_memory=needed, **options)
    np.testing.assert_array_equal(tegula.open(store)[...], source[...])
    with pytest.raises(UnsupportedError, match="shard of shape"):
        tegula.convert(source, MemoryStore(), max_memory=needed - 1, **options)


def test_few_stored_chunks_take_one_pass() -> None:
    source = tegula.create_array(MemoryStore(), shape=(10**6, 10**4, 10**4), chunks=(1, 500, 500), dtype="i4")
    source[5, 7, 9] = 3
    store = MemoryStore()
    passes = tegula.convert(source, store, chunks=(100, 100, 100), max_memory=24 * MIB, dry_run=True).passes[""]
    assert passes.temporary is None
    tegula.convert(source, store, chunks=(100, 100, 100), max_memory=24 * MIB)
    assert tegula.open(store)[5, 7, 9] == 3


@pytest.mark.parametrize("value", ["2 apples", 17, -1, "", 2.5e9, True, "1kB"])
def test_what_is_no_amount_of_memory_is_refused(value: Any) -> None:
    with pytest.raises(MetadataError, match="max_memory"):
        tegula.convert(maps(MemoryStore(), (2, 3, 4)), MemoryStore(), max_memory=value)
    assert memory_of(" 2 GiB ") == 2**31
    with pytest.raises(MetadataError, match=r"1,048,576 bytes\), not '1MB'"):
        memory_of("1MB")


class Stop(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("after", [0.1, 0.4, 0.6, 0.9])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, kind: str, after: float) -> None:
    source, store = maps(MemoryStore()), make(kind, tmp_path)

    def stop(_: str, done: int, total: int) -> None:
        if done >= after * total:
            raise Stop

    with pytest.raises(Stop):
        tegula.convert(source, store, chunks=(64, 8, 8), max_memory=3 * MIB, progress=stop)
    assert not [*store.list()]
    assert not leftovers(tmp_path)


CONVERT = """
import signal, sys, tegula
def stop(_, done, total):
    if done >= {after} * total:
        print("there", flush=True)
        {action}
tegula.convert(sys.argv[1], sys.argv[2], chunks=(64, 8, 8), max_memory=3 * 2**20, progress=stop)
"""


def started(tmp_path: Path, after: float, action: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(CONVERT).format(after=after, action=action)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "old"), str(tmp_path / "new")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_ctrl_c_removes_the_temporary_array(tmp_path: Path) -> None:
    maps(tmp_path / "old")
    for delay in (0, 0.01, 0.05):
        process = started(tmp_path, 0.3, "import time; time.sleep(0.0)")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert not leftovers(tmp_path)
        if (tmp_path / "new/zarr.json").exists():  # it was done already
            np.testing.assert_array_equal(tegula.open(tmp_path / "new")[...], tegula.open(tmp_path / "old")[...])
            tegula.delete(tmp_path / "new")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_after_a_kill_the_temporary_array_is_found_and_reclaimed(tmp_path: Path) -> None:
    maps(tmp_path / "old")
    for way in ("reclaim", "again", "write"):
        process = started(tmp_path, 0.3, "import time; time.sleep(60)")
        assert process.stdout is not None
        process.stdout.readline()
        store = LocalStore(tmp_path / "new")
        assert leftovers(tmp_path)
        assert store.reclaim() == 0  # its owner lives
        assert leftovers(tmp_path)
        process.kill()
        process.communicate(timeout=60)
        (left,) = store.leftovers()
        assert left.startswith(".tegula-")
        assert left.endswith(".tmp")
        assert not [key for key in store.list() if ".tegula" in key and not is_ledger_key(key)]
        with pytest.raises(tegula.NotFoundError):  # it is not seen before it is complete
            tegula.open(tmp_path / "new")
        if way == "reclaim":
            assert store.reclaim() == 1
        elif way == "write":
            code = "import sys, tegula; tegula.stores.LocalStore(sys.argv[1]).set('note', b'1')"
            subprocess.run([sys.executable, "-c", code, str(tmp_path / "new")], check=True, timeout=60)
        else:
            tegula.convert(tmp_path / "old", tmp_path / "new", overwrite=True)
            assert tegula.compare(tmp_path / "old", tmp_path / "new")
        assert not [path for path in leftovers(tmp_path) if path.endswith(".tmp")]
        if (tmp_path / "new").exists():
            store.delete_prefix("")


@pytest.mark.slow
def test_a_kill_of_a_conversion_with_a_ledger_is_gone_on_with(tmp_path: Path) -> None:
    source = maps(tmp_path / "old")
    options: dict[str, Any] = {"chunks": (64, 8, 8), "max_memory": 3 * MIB}

    for after in (0.2, 0.7):

        def stop(_: str, done: int, total: int, after: float = after) -> None:
            if done >= after * total:
                raise Stop

        with pytest.raises(Stop):
            tegula.convert(source, tmp_path / "new", progress=stop, resume=True, **options)
        assert leftovers(tmp_path)
    report = tegula.convert(source, tmp_path / "new", resume=True, verify=True, **options)
    assert report.ok
    np.testing.assert_array_equal(tegula.open(tmp_path / "new")[...], source[...])
    left = [path for path in leftovers(tmp_path) if "temporary" in path]
    assert not left


MEASURE = """
import sys, numpy, tegula
small = tegula.create_array({}, shape=(9, 9), chunks=3, dtype="f4", codecs={"id": "lz4"})
small[...] = numpy.arange(81).reshape(9, 9)
tegula.convert(small, sys.argv[2] + "-small", chunks=(2, 9), max_memory=2**24)  # loads everything, keeps no buffers
def rss():
    with open("/proc/self/status") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    return int(facts["VmHWM"].split()[0]) * 1024
before = rss()
options = sys.modules["json"].loads(sys.argv[3])
tegula.convert(sys.argv[1], sys.argv[2], **options)
print(rss() - before)
"""


def most_memory(source: Path, target: Path, **options: Any) -> int:
    """Return the peak of the resident memory of a conversion above that of a process in which all is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", "import json\n" + MEASURE, str(source), str(target), json.dumps(options)],
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.sampled(one_in=22)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
@pytest.mark.parametrize(("limit", "back"), [(20 * MIB, False), (20 * MIB, True), (48 * MIB, False)])
def test_peak_memory_is_kept_where_chunks_lie_across(tmp_path: Path, limit: int, back: bool) -> None:
    shape = (800, 100, 200)  # 61 MiB
    chunks = ((2, 100, 200), (800, 20, 20))
    old, new = chunks[::-1] if back else chunks
    array = tegula.create_array(tmp_path / "old", shape=shape, chunks=old, dtype="f4", codecs={"id": "lz4"})
    array[...] = np.arange(array.size, dtype="f4").reshape(shape)
    assert most_memory(tmp_path / "old", tmp_path / "new", chunks=new, max_memory=limit) <= limit
    np.testing.assert_array_equal(tegula.open(tmp_path / "new")[::37], array[::37])
