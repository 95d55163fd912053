"""The number of Python functions in a read, and of their files: few enough to follow it from top to bottom."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config

ROOT = os.path.dirname(tegula.__file__) + os.sep


def calls(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return the file and the function of each call of tegula's Python code."""
    seen = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            seen.append((code.co_filename.removeprefix(ROOT), code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return seen


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tegula.Store:
    return tegula.MemoryStore() if request.param == "memory" else tegula.LocalStore(tmp_path)


def four_chunks(store: tegula.Store, format: str) -> tegula.Array:
    array = tegula.create_array(store, shape=(20, 20), chunks=(10, 10), dtype="i4", format=format)
    array[...] = np.arange(400).reshape(20, 20)
    return tegula.open_array(store, mode="r")


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_the_reference_executor_reads_four_chunks_with_few_calls_in_few_files(store: Any, format: str) -> None:
    array = four_chunks(store, format)
    with config.configure(executor="reference", threads=1):
        expected = array[...]  # a first read imports libraries
        found = calls(lambda: array[...])
    assert np.array_equal(expected, np.arange(400).reshape(20, 20))
    assert 10 < len(found) <= 60, "\n".join(map(str, found))
    assert len({file for file, _ in found}) <= 6, sorted({file for file, _ in found})


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
        by_reference = str(Path("engine", "reference.py"))
        assert (by_reference in files, by_reference in planned) == (executor == "reference",) * 2
