"""Indexes of shards in local files, which the kernel keeps: no stale one is used, however a file is changed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.stores import MemoryStore

pytestmark = pytest.mark.once(executors="both")

SIDE, INNER = 64, 8
KEY = "c/0/0"
LAYOUT: dict[str, Any] = {"chunks": (INNER, INNER), "shards": (SIDE, SIDE), "codecs": []}


@cache
def states() -> list[tuple[bytes, Any]]:
    """Return shards of one size that differ in which inner chunks they have, and what they hold."""
    found = []
    store = MemoryStore()
    array = tegula.create_array(store, shape=(SIDE, SIDE), dtype="u2", **LAYOUT)
    for number in range(1, 6):
        data = np.zeros((SIDE, SIDE), "u2")
        for place in (number, number + 7, 40 - number):
            row, column = (INNER * each for each in divmod(place, SIDE // INNER))
            data[row : row + INNER, column : column + INNER] = 10 * number + place
        array[...] = data
        found.append((bytes(store.get(KEY) or b""), data))
    assert len({len(raw) for raw, _ in found}) == 1
    return found


def replace_by_the_store(file: Path, raw: bytes) -> None:
    tegula.LocalStore(file.parents[2]).set(KEY, raw)


def rename_over(file: Path, raw: bytes) -> None:
    other = file.with_name("other")
    other.write_bytes(raw)
    other.rename(file)


def remove_and_write(file: Path, raw: bytes) -> None:
    """Most file systems give the new file the inode number of the old one."""
    file.unlink()
    file.write_bytes(raw)


def write_in_place(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)


def write_in_secret(file: Path, raw: bytes) -> None:
    """Change the bytes and set the time of the change back."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(raw)
        opened.truncate()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchange_directories(file: Path, raw: bytes) -> None:
    other = file.parent.with_name("other")
    shutil.copytree(file.parent, other)
    (other / file.name).write_bytes(raw)
    file.parent.rename(file.parent.with_name("away"))
    other.rename(file.parent)
    shutil.rmtree(file.parent.with_name("away"))


WAYS = [
    replace_by_the_store,
    rename_over,
    remove_and_write,
    write_in_place,
    write_in_secret,
    exchange_directories,
]
SETTLED = 20_000_000_000
"""How far the clock is ahead, so that a file has not changed for long, in nanoseconds."""


@pytest.fixture
def late(kernel: Any) -> Iterator[None]:
    """Let the kernel keep the index of each file, since its last change seems to be long ago."""
    kernel.faults(clock=time.time_ns() + SETTLED)
    yield
    kernel.faults()


def new_array(root: Path) -> tegula.Array:
    return tegula.create_array(str(root), shape=(SIDE, SIDE), dtype="u2", format="zarr3", **LAYOUT)


@settings(max_examples=30, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    steps=st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 4), st.integers(0, SIDE - 20)), max_size=8),
    change=st.booleans(),
)
def test_reads_return_what_is_stored(late: None, tmp_path: Path, steps: list[Any], change: bool) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    array = new_array(root)
    replace_by_the_store(root / KEY, states()[0][0])
    expected = states()[0][1].copy()
    for way, number, corner in steps:
        window = (slice(corner, corner + 20), slice(corner, None))
        for _ in range(2):
            assert np.array_equal(array[window], expected[window])
        time.sleep(0.02)  # the clock of the system has moved on, as the kernel's has
        raw, expected = states()[number]
        way(root / KEY, raw)
        expected = expected.copy()
        if change:
            array[corner, corner] = expected[corner, corner] = 9
    for place in [*np.ndindex(8, 8)]:
        row, column = (INNER * each for each in place)
        assert array[row, column] == expected[row, column]
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_has_just_changed_may_change_again_at_the_same_time(way: Any, kernel: Any, tmp_path: Path) -> None:
    array = new_array(tmp_path)
    for number in [0, 1, 2, 3, 4] * 4:
        raw, expected = states()[number]
        way(tmp_path / KEY, raw) if (tmp_path / KEY).exists() else replace_by_the_store(tmp_path / KEY, raw)
        for place in [(0, 8), (8, 0), (16, 16)]:
            assert array[place] == expected[place]
        assert np.array_equal(array[...], expected)


def reads(kernel: Any, array: tegula.Array, clock: int) -> int:
    calls = []
    kernel.faults(lambda call, path: calls.append(call), clock)
    try:
        assert array[8, 0] == states()[0][1][8, 0] != 0
    finally:
        kernel.faults()
    return calls.count("read")


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_is_read_once(kernel: Any, tmp_path: Path, location: str) -> None:
    array = tegula.create_array(
        str(tmp_path),
        shape=(SIDE, SIDE),
        dtype="u2",
        **{**LAYOUT, "codecs": [sharding(location)], "shards": None, "chunks": (SIDE, SIDE)},
    )
    array[...] = states()[0][1]
    if (tmp_path / KEY).stat().st_ctime_ns % 1000 == 0:
        pytest.skip("the file system keeps no fine times")
    soon, late = time.time_ns(), time.time_ns() + SETTLED
    with config.configure(executor="kernel"):
        assert [reads(kernel, array, soon) for _ in range(3)] == [2, 2, 2]
        assert [reads(kernel, array, late) for _ in range(3)] == [2, 1, 1]
        assert reads(kernel, array, soon) == 1
        assert reads(kernel, tegula.open_array(str(tmp_path)), soon) == 1  # the object does not matter


def sharding(location: str) -> dict[str, Any]:
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    configuration = {
        "chunk_shape": [INNER, INNER],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": index,
        "index_location": location,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def test_indexes_of_shards_in_shards_are_told_apart(tmp_path: Path, kernel: object) -> None:
    """The first inner shard begins where the outer one does, and both have as many inner chunks."""
    array = tegula.create_array(
        tmp_path / "a", shape=(SIDE,), dtype="u2", chunks=(16,), shards=(SIDE,), codecs=[
            {"name": "sharding_indexed", "configuration": {"chunk_shape": [4], "codecs": [{"name": "bytes"}]}}
        ],
    )  # fmt: skip
    array[...] = np.arange(SIDE)
    time.sleep(1.1)  # younger files may change without another time
    again = tegula.open_array(tmp_path / "a")
    for _ in range(3):
        assert np.array_equal(again[...], np.arange(SIDE))
        assert again[5] == 5
