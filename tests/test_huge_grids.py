"""Grids of any number of chunks: operations visit what is stored, or refuse; memory does not grow with the grid."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allocations import peak

import tegula
from tegula import config
from tegula.engine.lengths import resizing
from tegula.engine.stored import visiting
from tegula.jobs.ledger import Records
from tegula.jobs.plans import Piece
from tegula.jobs.publishing import Destination
from tegula.jobs.rewriting.work import Converting
from tegula.jobs.runners.runner import Threads, do_units
from tegula.jobs.units import block_grid
from tegula.stores import MemoryStore, Store

MIB = 2**20
GRIDS = [((10**6, 10**6), (5, 7)), ((2**62,), (2**61,)), ((10**12,), (10**11,))]


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else tegula.LocalStore(tmp_path / "x")


@pytest.fixture(params=GRIDS, ids=["10**6 x 10**6", "2**62", "10**12"])
def grid(request: pytest.FixtureRequest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found: tuple[tuple[int, ...], tuple[int, ...]] = request.param
    return found


@pytest.fixture
def vast(store: Store, grid: tuple[tuple[int, ...], tuple[int, ...]]) -> tegula.Array:
    """An array of one-byte chunks of which one is stored."""
    shape, place = grid
    array = tegula.create_array(store, shape=shape, chunks=1, dtype="i1", codecs=None)
    array[place] = 1
    return array


def test_looking_at_a_huge_grid_takes_what_is_stored(vast: tegula.Array) -> None:
    def look() -> None:
        assert vast.info["Chunks stored"] == f"1 of {vast.nchunks:,}"
        assert vast.nchunks_initialized() == 1
        assert "<svg" in vast._repr_html_()
        report = tegula.check(vast.store)
        assert report.ok
        assert report.missing_chunks == vast.nchunks - 1

    assert peak(look) < 8 * MIB


@pytest.mark.slow
@pytest.mark.sampled(one_in=14)
@pytest.mark.parametrize("options", [{}, {"chunks": 3}, {"codecs": "zstd"}, {"select": slice(None, None, -1)}], ids=str)
def test_converting_visits_what_is_stored(
    vast: tegula.Array, grid: tuple[tuple[int, ...], tuple[int, ...]], options: dict[str, Any]
) -> None:
    target = MemoryStore()
    done: list[tuple[int, int]] = []

    def convert() -> None:
        report = tegula.convert(
            vast, target, verify=True, progress=lambda _, so_far, total: done.append((so_far, total)), **options
        )
        assert report.arrays[0].verified

    assert peak(convert) < 64 * MIB
    assert done[-1] == (2 * vast.nbytes, 2 * vast.nbytes)  # written and read back
    copy = tegula.open_array(target)
    assert copy.nchunks_initialized() == 1
    place = grid[1] if "select" not in options else (grid[0][0] - 1 - grid[1][0], *grid[1][1:])
    assert copy[place] == 1


@pytest.mark.slow
def test_few_but_large_chunks_are_visited_where_they_are_stored() -> None:
    looked_for: set[str] = set()

    class Watched(MemoryStore):
        def get(self, key: str, *args: Any, **options: Any) -> Any:
            looked_for.add(key)
            return super().get(key, *args, **options)

    array = tegula.create_array(store := Watched(), shape=(64, 32 * MIB), chunks=(1, 32 * MIB), dtype="i1")
    array[40, :5] = 3
    looked_for.clear()
    report = tegula.convert(store, target := MemoryStore(), chunks=(2, 16 * MIB), verify=True)
    assert (report.arrays[0].verified, report.chunks_stored) == (True, 1)
    assert tegula.open_array(target)[40, 4:6].tolist() == [3, 0]
    assert {key for key in looked_for if key.startswith("c/")} <= {"c/40/0", "c/41/0"}
    assert (2 in array, 3 in array) == (False, True)


@pytest.mark.slow
def test_verifying_sees_what_only_the_target_has_stored(vast: tegula.Array) -> None:
    axes = tuple(map(range, vast.shape))
    copy = tegula.create_array(MemoryStore(), shape=vast.shape, chunks=1, dtype="i1", codecs=None)
    documents = {**copy.metadata.documents}

    def is_same() -> bool:
        work = Converting(
            "", vast, axes, Destination(copy.store, "", documents, "zarr3", {}, True), "verify", Records()
        )
        piece = Piece("", copy.shape, block_grid(vast, copy))
        total, _ = do_units(Threads(), work, piece, lambda done: None)
        return not total["different"]

    assert not is_same()
    copy[tuple(n // 2 for n in vast.shape)] = 0
    place = next(vast.stored.stored_chunks())[0]
    copy[place] = 1
    assert is_same()
    copy[tuple(n - 1 for n in vast.shape)] = 5
    assert not is_same()


def test_the_fill_value_is_written_where_something_is_stored(
    vast: tegula.Array, grid: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    part = tuple(slice(place + 1, None) for place in grid[1])
    assert peak(lambda: vast.__setitem__(part, 0)) < 4 * MIB
    assert vast[grid[1]] == 1
    assert peak(lambda: vast.__setitem__((slice(None, None, -1),), 0)) < 4 * MIB
    assert vast.nchunks_initialized() == 0


def test_parts_of_stored_chunks_keep_what_is_not_overwritten() -> None:
    array = tegula.create_array(MemoryStore(), shape=(10**9, 8), chunks=(4, 4), dtype="i4", fill_value=3)
    array[10:20] = np.arange(80).reshape(10, 8)
    array[13::2] = 3
    wanted = np.full((24, 8), 3, "i4")
    wanted[10:20] = np.arange(80).reshape(10, 8)
    wanted[13::2] = 3
    assert (array[:24] == wanted).all()


def test_values_that_are_the_fill_value_are_known_without_a_copy_of_them() -> None:
    array = tegula.create_array(MemoryStore(), shape=10**6, chunks=1, dtype="f8", codecs=None, fill_value=np.nan)
    array[7] = 1
    values = np.full(10**6, np.nan)
    assert peak(lambda: array.__setitem__(..., values)) < 3 * MIB
    assert array.nchunks_initialized() == 0


def test_more_chunks_than_the_limit_are_not_begun(vast: tegula.Array, tmp_path: Path) -> None:
    with pytest.raises(tegula.UnsupportedError, match=rf"{vast.nchunks} chunks, more than max_chunks, 10000000"):
        vast[...] = 1
    with config.configure(write_empty_chunks=True), pytest.raises(tegula.UnsupportedError, match="max_chunks"):
        vast[...] = 0
    target = tegula.LocalStore(tmp_path / "target")
    tegula.save(target, np.arange(3))
    with config.configure(write_empty_chunks=True), pytest.raises(tegula.UnsupportedError, match="max_chunks"):
        tegula.convert(vast, target, chunks=3, overwrite=True)
    if vast.ndim == 1:
        with pytest.raises(tegula.UnsupportedError, match="max_chunks"):
            tegula.convert(vast, target, format="bcolz", overwrite=True)
    assert (tegula.open(target)[:] == [0, 1, 2]).all()
    assert vast.nchunks_initialized() == 1


def test_estimating_takes_the_few_chunks_of_one_side() -> None:
    source = tegula.create_array({}, shape=2**33, chunks=1, dtype="u1")
    report = tegula.convert(source, {}, chunks=([2**29, *[2**30] * 7, 2**29],), dry_run=True)
    assert report.estimate.bytes_read == 2**33


def test_the_limit_can_be_set() -> None:
    array = tegula.create_array(MemoryStore(), shape=6000, chunks=1, dtype="i1", codecs=None)
    with config.configure(max_chunks=5999), pytest.raises(tegula.UnsupportedError, match="6000 chunks"):
        array[...] = 1
    with config.configure(max_chunks=6000):
        array[...] = 1
    assert array.nchunks_initialized() == 6000
    with pytest.raises(tegula.MetadataError, match="max_chunks"), config.configure(max_chunks=0):
        pass


@pytest.mark.slow
def test_rows_of_a_dense_array_are_counted_before_they_are_added() -> None:
    array = tegula.create_array(MemoryStore(), shape=5, chunks=1, dtype="i1", format="bcolz")
    with pytest.raises(tegula.UnsupportedError, match="999999999995 chunks"):
        array.resize(10**12)
    assert array.shape == (5,)
    with config.configure(max_chunks=4), pytest.raises(tegula.UnsupportedError, match="5 chunks"):
        array.append(np.zeros(5, "i1"))
    array.append(np.arange(9000) % 100)  # several batches
    assert (array[5:] == np.arange(9000) % 100).all()
    assert peak(lambda: array.append(np.ones(9000, "i1"))) < 12 * MIB


def test_resizing_visits_what_is_stored(vast: tegula.Array, grid: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, place = grid

    def change() -> None:
        vast.resize(tuple(size - 1 for size in shape))
        vast.resize(shape)
        assert vast[place] == 1
        vast.append(np.zeros((1, *shape[1:]), "i1") if len(shape) == 1 else np.zeros((1, shape[1]), "i1"))
        vast.resize(tuple(size // 10**6 for size in place))

    assert peak(change) < 24 * MIB
    assert vast.nchunks_initialized() == 0


def test_many_chunks_are_cut_off_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    array = tegula.create_array(MemoryStore(), shape=10**9, chunks=1, dtype="i1", codecs=None)
    array[:500] = 1
    array[10**8 : 10**8 + 500] = 1
    monkeypatch.setattr(resizing, "batches", partial(visiting.batches, size=64))
    array.resize(200)
    assert sorted(coords for coords, _ in array.stored.stored_chunks()) == [(n,) for n in range(200)]


# --- under a limit that the system keeps, which holds for the kernel's memory, too

_LIMITED = """
import resource, sys
import numpy as np, tegula
from tegula import config

def limit(more):
    size = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))

def array(shape, **options):
    return tegula.create_array(tegula.MemoryStore(), shape=shape, chunks=1, dtype="i1", codecs=None, **options)

MIB = 2**20
with config.configure(threads=1):
    small = array(100)
    small[...] = 1
    small[...], small[::-1], small.oindex[[3, 5]]
"""


def run_limited(body: str) -> None:
    """Run a script with a limit to its memory; what it prints at the end is ``done``."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    command = [sys.executable, "-c", f"{_LIMITED}{indented}    print('done')"]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert found.stdout == "done\n", f"it ended with {found.returncode}: {found.stderr[-2000:]}"


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells how large a process is")


@pytest.mark.slow
@pytest.mark.sampled(one_in=36)
@needs_proc
@pytest.mark.parametrize("selection", ["a[...]", "a[::-1]", "a[::2]", "a.read(out=np.empty(COUNT, 'i1')).result()"])
def test_reading_many_chunks_takes_what_is_returned(selection: str) -> None:
    run_limited(
        f"""
COUNT = 400_000
a = array(COUNT)
a[5] = 1
a[...] if COUNT < 0 else None
a.read(5).result()
limit(24 * MIB)
assert {selection}.sum() == {"0" if selection == "a[::2]" else "1"}
"""
    )


@pytest.mark.slow
@needs_proc
def test_writing_many_chunks_takes_no_memory_but_theirs() -> None:
    run_limited(
        """
a = array((2, 150_000))
a[0, :2] = 1
limit(24 * MIB)
a[...] = np.broadcast_to(np.int8(0), (2, 150_000))
values = np.zeros((1, 150_000), "i1")
values[0, ::50_000] = 5
a[1:] = values
a.append(values)
assert a[1].sum() == a[2].sum() == 15
assert a.nchunks_initialized() == 6
"""
    )


@pytest.mark.slow
@needs_proc
def test_shards_of_many_inner_chunks_take_their_index_and_little_more() -> None:
    run_limited(
        """
COUNT = 2**16
a = array(COUNT, shards=COUNT)
a[0] = 1
limit(64 * MIB)
a[...] = 3
assert (a[...] == 3).all()
assert (a[::-1] == 3).all()
a[::-7] = 4
assert (a[...] == 4).sum() == len(range(0, COUNT, 7))
"""
    )


@pytest.mark.nightly
@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("selection", ["...", "(slice(None, None, -1),)", "([0] * 20,)", "(0, None)"])
def test_what_does_not_fit_is_an_error_that_says_how_much_it_is(selection: str) -> None:
    run_limited(
        f"""
a = tegula.create_array(tegula.MemoryStore(), shape=(1, 2**28), chunks=(1, 2**20), dtype="i1", codecs=None)
limit(64 * MIB)
try:
    a[{selection}]
except tegula.SelectionError as error:
    assert "takes 268435456 bytes" in str(error) or "takes 5368709120 bytes" in str(error), error
else:
    raise SystemExit("it was read")
"""
    )


@pytest.mark.slow
@needs_proc
def test_a_chunk_that_does_not_fit_is_an_error() -> None:
    run_limited(
        """
a = tegula.create_array(tegula.MemoryStore(), shape=2**27, chunks=2**27, dtype="i1", codecs="zstd")
a[...] = 1
limit(32 * MIB)
for act in (lambda: a[5], lambda: a.__setitem__(5, 2), lambda: a.resize(2**27 - 1)):
    try:
        act()
    except tegula.StoreError as error:
        assert "memory" in str(error), error
    else:
        raise SystemExit("it was done")
"""
    )
