"""Shards on a file system where files share blocks: an update writes what changed, and nothing else is different."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mounting import mounted

import tegula
from tegula import config
from tegula.errors import StoreError

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="the file system is one of Linux"), pytest.mark.slow]
SIDE = 1024
KEY = "c/0/0"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mount a file system whose files can share blocks."""
    with mounted(tmp_path_factory.mktemp("shared"), "btrfs") as top:
        yield top


@pytest.fixture
def array(kernel: Any, place: Path) -> Iterator[tegula.Array]:
    path = place / "array"
    made = tegula.create_array(path, shape=(SIDE, SIDE), dtype="u4", chunks=(64, 64), shards=(SIDE, SIDE), codecs=[])
    made[...] = values()
    with config.configure(executor="kernel"):
        yield made
    kernel.faults()
    shutil.rmtree(path)


def values() -> Any:
    return np.arange(SIDE * SIDE, dtype="u4").reshape(SIDE, SIDE)


def read_by_all(array: tegula.Array, expected: Any) -> None:
    assert np.array_equal(array[...], expected)
    with config.configure(executor="reference"):
        assert np.array_equal(tegula.open_array(array.store)[...], expected)


def test_updates_append_to_a_copy_until_half_of_it_is_unused(kernel: Any, array: tegula.Array, place: Path) -> None:
    calls: list[str] = []
    kernel.faults(lambda call, path: calls.append(call))
    expected, file = values(), place / "array" / KEY
    whole, sizes = file.stat().st_size, []
    draw = np.random.default_rng(1)
    for number in range(60):
        row, column = draw.integers(0, SIDE - 200, 2).tolist()
        window = (slice(row, row + 200), slice(column, column + 100))
        array[window] = expected[window] = number
        sizes.append(file.stat().st_size)
    kernel.faults()
    assert 40 < calls.count("ficlone") < 60
    assert max(sizes) <= 2 * whole + 2**16
    assert min(sizes[20:]) == whole  # written anew
    read_by_all(array, expected)
    array[:64, :64] = expected[:64, :64] = 0  # an inner chunk that is no longer there
    read_by_all(array, expected)
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_an_update_that_fails_leaves_the_old_values(kernel: Any, array: tegula.Array, place: Path) -> None:
    steps = ["ficlone", "write", "futimens", "renameat"]
    for step in steps:
        calls: list[str] = []

        def hook(call: str, path: str, calls: list[str] = calls, step: str = step) -> Any:
            calls.append(call)
            # what can't share blocks is written anew, and that fails, too
            fails = call == step or (step == "ficlone" and call == "write")
            return SimpleNamespace(errno=28) if fails else None

        kernel.faults(hook)
        with pytest.raises(StoreError, match="No space left"):
            array[5, 5] = 1
        kernel.faults()
        assert "ficlone" in calls
        read_by_all(array, values())
    assert [entry.name for entry in (place / "array" / KEY).parent.iterdir()] == ["0"]


def test_shard_is_rewritten_if_blocks_turn_out_not_to_be_shareable(kernel: Any, array: tegula.Array) -> None:
    kernel.faults(lambda call, path: SimpleNamespace(errno=95) if call == "ficlone" else None)
    array[5, 5] = 1
    expected = values()
    expected[5, 5] = 1
    kernel.faults()
    read_by_all(array, expected)
