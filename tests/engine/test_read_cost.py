"""The number of Python functions in a read, and of their files: few enough to follow it from top to bottom."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.walks import ROOT, calls

import tegula
from tegula import config


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tegula.Store:
    return tegula.MemoryStore() if request.param == "memory" else tegula.LocalStore(tmp_path)


def four_chunks(store: tegula.Store, format: str) -> tegula.Array:
    array = tegula.create_array(store, shape=(20, 20), chunks=(10, 10), dtype="i4", format=format)
    array[...] = np.arange(400).reshape(20, 20)
    return tegula.open_array(store, mode="r")


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_reference_executor_reads_four_chunks_with_few_calls(store: Any, format: str) -> None:
    array = four_chunks(store, format)
    with config.configure(executor="reference", threads=1):
        expected = array[...]  # a first read imports libraries
        found = calls(lambda: array[...], ROOT)
    assert np.array_equal(expected, np.arange(400).reshape(20, 20))
    # a directory is opened for the whole read, and the document is looked at after it; the store says if it is remote
    most, files = (110, 17) if isinstance(store, tegula.LocalStore) else (70, 10)
    assert 10 < len(found) <= most, "\n".join(map(str, found))
    assert len({file for file, _ in found}) <= files, sorted({file for file, _ in found})


def test_the_kernel_reads_four_chunks_at_one_call(store: Any, kernel: Any) -> None:
    array = four_chunks(store, "zarr3")
    with config.configure(executor="kernel"):
        array[...]
        found = calls(lambda: array[...])
    assert 0 < len(found) <= 10, "\n".join(map(str, found))


def test_an_array_follows_the_setting_from_call_to_call(store: Any, kernel: Any) -> None:
    array = four_chunks(store, "zarr3")
    for executor in ("kernel", "reference", "kernel"):
        with config.configure(executor=executor):
            array[...]
            files = {file for file, _ in calls(lambda: array[...])}
            planned = {file for file, _ in calls(lambda: array.oindex[[3, 1], :])}
        by_reference = str(Path("engine", "reading", "reference.py"))
        assert (by_reference in files, by_reference in planned) == (executor == "reference",) * 2


def reads_of(kernel: Any, act: Callable[[], Any]) -> int:
    """Return how often the kernel reads from files during an operation."""
    seen: list[str] = []
    kernel.faults(lambda call, path: seen.append(call))
    try:
        act()
    finally:
        kernel.faults()
    return seen.count("read")


@pytest.mark.skipif(sys.platform != "linux", reason="local files are opened by the kernel on Linux")
def test_a_column_reads_rows_that_are_cached_and_otherwise_the_whole_chunk(kernel: Any, tmp_path: Path) -> None:
    rows = 512
    with config.configure(executor="kernel", threads=1):
        array = tegula.create_array(
            tmp_path / "a", shape=(rows, 4096), chunks=(rows, 4096), dtype="u2", format="zarr2", codecs=None
        )
        values = np.arange(rows * 4096, dtype="u2").reshape(rows, 4096)
        array[...] = values
        np.testing.assert_array_equal(array[:, 7], values[:, 7])
        assert rows <= reads_of(kernel, lambda: array[:, 7]) < rows + 8
        # the same after the system has dropped the file, which file systems in memory do not
        with open(tmp_path / "a" / "0.0", "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        number = reads_of(kernel, lambda: np.testing.assert_array_equal(array[:, 7], values[:, 7]))
        assert number < 8 or number >= rows
