"""Copies that continue after an interruption, and that several workers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.interrupting import Interrupting, contents

import tegula
from tegula import MemoryStore

VALUES = np.arange(600, dtype="i4").reshape(20, 30)
pytestmark = [pytest.mark.once(executors="both"), pytest.mark.usefixtures("small_units")]


def fill(store: Any) -> Any:
    group = tegula.create_group(store)
    group.create_array("g/a", data=VALUES, chunks=(5, 10))
    group.create_array("b", data=VALUES[0], chunks=10)
    kept = tegula.store_of(store)
    kept.set("notes.txt", b"mine")
    kept.set("b/notes.txt", b"mine, too")
    return store


def test_an_interrupted_copy_goes_on() -> None:
    source, target = fill(Interrupting()), MemoryStore()
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        tegula.copy(source, target, path="x", resume=True)
    with pytest.raises(tegula.NotFoundError):
        tegula.open(target, path="x/b")
    source.left, source.reads = 10**9, 0
    report = tegula.copy(source, target, path="x", resume=True)
    assert source.reads == 15 - 5
    assert (report.arrays, report.groups) == (2, 2)
    found = contents(target)
    assert found.pop("x/b/.tegula_complete")
    assert (report.values, report.nbytes) == (len(found) - 1, sum(map(len, found.values())) - len(found["zarr.json"]))
    assert {key[2:]: value for key, value in found.items() if key != "zarr.json"} == contents(source)
    source.reads = 0
    tegula.copy(source, target, path="x", resume=True)  # complete already
    assert not source.reads


def test_a_source_that_has_changed_is_refused() -> None:
    source, target = fill(Interrupting()), MemoryStore()
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        tegula.copy(source, target, resume=True)
    source.left = 10**9
    tegula.open(source, "r+")["b"].attrs["unit"] = "m"
    with pytest.raises(tegula.MetadataError, match="of the array 'b'"):
        tegula.copy(source, target, resume=True)
    assert "copy" in str(tegula.jobs.clean_job(target))
    assert not [key for key in target.list() if "tegula" in key or "c/" in key]


@pytest.mark.slow
def test_parts_and_processes_make_the_same_copy(tmp_path: Path) -> None:
    fill(tmp_path / "s.zarr")
    expected = contents(tegula.LocalStore(tmp_path / "s.zarr"))
    for number, several in enumerate(([{"workers": 2}], [{"part": (1, 2)}, {"part": (2, 2)}])):
        target = tmp_path / f"{number}.zarr"
        reports = [tegula.copy(tmp_path / "s.zarr", target, **options) for options in several]
        assert [bool(report.units_left) for report in reports] == [True] * (len(several) - 1) + [False]
        found = contents(tegula.LocalStore(target))
        found.pop("b/.tegula_complete", None)
        assert found == expected


def test_what_exists_is_not_overwritten() -> None:
    source, target = fill(MemoryStore()), MemoryStore()
    tegula.save(target, [1, 2])
    before = contents(target)
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.copy(source, target, resume=True)
    assert contents(target) == before
    tegula.copy(source, target, runner="threads", overwrite=True)
    assert contents(target) == contents(source)
    with pytest.raises(tegula.NotFoundError):
        tegula.copy(MemoryStore(), MemoryStore(), resume=True)


def test_few_chunks_of_a_huge_grid_are_copied() -> None:
    source, target = MemoryStore(), MemoryStore()
    array = tegula.create_array(source, shape=(10**6, 10**6), chunks=(30, 30), dtype="u1")
    array[5, 5] = array[999_999, 3] = 1
    report = tegula.copy(source, target, resume=True)
    assert report.values == 3
    assert tegula.compare(source, target)
