"""Pyramids as jobs: they continue after an interruption, are shared, and refuse what would spoil the result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.interrupting import Interrupting, contents

import tegula
from tegula import MemoryStore
from tegula.jobs.owners import Owner, new_claim

VALUES = np.random.default_rng(2).integers(0, 99, (70, 60)).astype("i4")
pytestmark = pytest.mark.usefixtures("small_units")
UNITS = 42 + 12 + 4 + 1  # of chunks of 10 x 10, in four levels


def a_source(**options: Any) -> Interrupting:
    store = Interrupting()
    options = {"data": VALUES, "chunks": (10, 10), "dimension_names": ["y", "x"], **options}
    tegula.create_group(store, attributes={"title": "cells"}).create_array("image", **options)
    return store


def image(store: Any) -> Any:
    return tegula.open(store, "r+")["image"]


def interrupted(source: Interrupting, *target: Any, after: int, **options: Any) -> None:
    source.left = after
    with pytest.raises(KeyboardInterrupt):
        tegula.downsample(image(source), *target, **{"resume": True, **options})
    source.left = 10**9


def plain() -> dict[str, Any]:
    store = MemoryStore()
    tegula.downsample(image(a_source()), store)
    return contents(store)


EXPECTED = plain()


@pytest.mark.slow
@settings(max_examples=12)
@given(after=st.lists(st.integers(0, 41), min_size=1, max_size=3), parts=st.integers(1, 3))
def test_a_pyramid_that_is_interrupted_again_and_again_is_the_same(after: list[int], parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tegula.jobs.units.BLOCK_BYTES", 1)
        source, target = a_source(), MemoryStore()
        for number, left in enumerate(after):
            source.left = left
            try:
                tegula.downsample(image(source), target, resume=True, part=(number % parts + 1, parts))
            except KeyboardInterrupt:
                assert "zarr.json" not in contents(target)
        source.left = 10**9
        found = [tegula.downsample(image(source), target, resume=True, part=(n + 1, parts)) for n in range(parts)]
        assert found[-1].units_left == 0
        got = contents(target)
        assert got.pop("s0/.tegula_complete")
        assert got == EXPECTED


@pytest.mark.slow
def test_only_units_without_a_record_are_done() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target, after=5)
    with pytest.raises(tegula.NotFoundError):
        tegula.open(target)
    with pytest.raises(tegula.NotFoundError):
        tegula.open(target, path="s0")
    state = tegula.jobs.show_job(target)
    assert (state.operation, state.units, state.units_done, state.state) == ("downsample", UNITS, 5, "interrupted")
    outlined = tegula.downsample(image(source), target, resume=True, dry_run=True)
    assert (outlined.dry_run, outlined.estimate.units) == (True, UNITS - 5)
    assert tegula.downsample(image(source), target, dry_run=True).estimate.units == UNITS
    source.reads = 0
    tegula.downsample(image(source), target, resume=True)
    assert source.reads == 42 - 5
    # the same command once more finds it complete
    source.reads = 0
    assert len(tegula.downsample(image(source), target, resume=True).levels) == 4
    assert tegula.downsample(image(source), target, resume=True, dry_run=True).estimate.units == 0
    assert source.reads == 0
    image(source).attrs["unit"] = "m"
    with pytest.raises(tegula.AlreadyExistsError, match=r"the source has changed since: .* of the array 's0'"):
        tegula.downsample(image(source), target, resume=True)
    with pytest.raises(tegula.AlreadyExistsError, match="overwrite=True"):
        tegula.downsample(image(source), target)
    tegula.downsample(image(source), target, overwrite=True, resume=False)
    assert tegula.check(target).ok


@pytest.mark.slow
def test_beside_the_array() -> None:
    source = a_source()
    before = contents(source)
    for after in (7, 30):
        interrupted(source, after=after)
    assert tegula.jobs.list_jobs(source)[0].operation == "downsample"
    tegula.jobs.clean_job(source)
    assert contents(source) == before
    interrupted(source, after=20)
    source.reads = 0
    found = tegula.downsample(image(source), resume=True)
    edges = 6  # chunks that are looked up before they are written
    assert source.reads <= 42 + 12 + 4 - 20 + edges  # a chunk of the level before is read once
    group = tegula.open(source)
    assert [*group] == ["image", "s1", "s2", "s3"]
    assert group.attrs["title"] == "cells"
    assert [level.path for level in found.levels] == ["image", "s1", "s2", "s3"]
    for name in ("s1", "s2", "s3"):
        assert source.get(f"{name}/c/0/0") == EXPECTED[f"{name}/c/0/0"]
    with pytest.raises(tegula.AlreadyExistsError, match="has a pyramid"):
        tegula.downsample(image(source), resume=False)


def test_what_has_changed_is_refused() -> None:
    for change, message in (
        (lambda array: array.attrs.update(unit="m"), "zarr.json of the array 's0'"),
        (lambda array: array.resize((80, 60)), r"shape \[70, 60\] then"),
    ):
        source, target = a_source(), MemoryStore()
        interrupted(source, target, after=5)
        change(image(source))
        before = contents(target)
        with pytest.raises(tegula.MetadataError, match=message):
            tegula.downsample(image(source), target, resume=True)
        assert contents(target) == before
    source, target = a_source(), MemoryStore()
    interrupted(source, target, after=5)
    for other in ({"method": "mode"}, {"factors": 3}, {"codecs": "gzip"}, {"levels": 1}):
        with pytest.raises(tegula.MetadataError, match=r"other metadata or units|other levels"):
            tegula.downsample(image(source), target, resume=True, **other)


def test_a_target_that_another_process_works_on_is_refused() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target, after=5)
    target.set(".tegula_job/owners/1of1", json.dumps(Owner.here(new_claim())).encode())
    for options in ({"resume": True}, {"resume": False}, {}, {"overwrite": True}, {"part": (1, 2)}):
        with pytest.raises(tegula.AlreadyExistsError, match="another job works on it"):
            tegula.downsample(image(source), target, **options)
    target.delete(".tegula_job/owners/1of1")
    for options in ({"resume": False}, {}):
        with pytest.raises(tegula.AlreadyExistsError, match="a job was interrupted here"):
            tegula.downsample(image(source), target, **options)
    tegula.jobs.clean_job(target)
    assert contents(target) == {}


def test_parts_that_run_at_the_same_time_share_all_levels() -> None:
    source, target = a_source(), MemoryStore()
    found: list[tegula.Pyramid] = []

    def run(number: int) -> None:
        found.append(tegula.downsample(image(source), target, part=(number, 3)))

    threads = [Thread(target=run, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one.units_left for one in found].count(0) >= 1
    # a part that had not begun when the others ended finds its units left
    last = [tegula.downsample(image(source), target, part=(number, 3)).units_left for number in (1, 2, 3)]
    assert last == [0, 0, 0]
    got = contents(target)
    assert got.pop("s0/.tegula_complete")
    assert got == EXPECTED


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("runner", ["threads", "processes", "dask"])
def test_each_runner(runner: str, tmp_path: Path) -> None:
    if runner == "dask":
        pytest.importorskip("distributed")
    tegula.create_array(tmp_path / "a", data=VALUES, chunks=(10, 10), dimension_names=["y", "x"])
    options: dict[str, Any] = {} if runner == "threads" else {"runner": runner, "workers": 2}
    tegula.downsample(tmp_path / "a", tmp_path / "b", resume=True, max_memory="64MB", **options)
    (tmp_path / "b/s0/.tegula_complete").unlink()
    assert contents(tegula.LocalStore(tmp_path / "b")) == EXPECTED


def test_an_error_that_would_come_again_leaves_nothing() -> None:
    source = a_source()
    source.set("image/c/3/3", b"damaged")
    for resume in (None, False):
        target = MemoryStore()
        with pytest.raises(tegula.CodecError):
            tegula.downsample(image(source), target, resume=resume)
        assert contents(target) == {}


def test_arrays_are_seen_early_if_that_is_asked_for() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target, after=5, visible_early=True)
    assert tegula.open(target)["s0"][:10, :10].tolist() == VALUES[:10, :10].tolist()
    assert "ome" not in tegula.open(target).attrs
    tegula.downsample(image(source), target, resume=True, visible_early=True)
    assert tegula.open(target).attrs["ome"]
    group = tegula.open(target)
    assert [group[f"s{number}"].shape for number in range(4)] == [(70, 60), (35, 30), (18, 15), (9, 8)]
    assert target.get("s3/c/0/0") == EXPECTED["s3/c/0/0"]


def test_an_archive_is_written_in_one_go(tmp_path: Path) -> None:
    tegula.downsample(image(a_source()), tmp_path / "a.zip")
    assert tegula.check(tmp_path / "a.zip").ok
    with pytest.raises(tegula.UnsupportedError, match="archive"):
        tegula.downsample(image(a_source()), tmp_path / "b.zip", resume=True)


MEASURE = """
import sys, tegula
array = tegula.open(sys.argv[1])
small = tegula.create_array({}, data=array[:40, :40], chunks=(9, 9))
tegula.downsample(small, {}, levels=2, method=sys.argv[4], max_memory=2**24)  # loads everything
def peak():
    with open("/proc/self/status") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    return int(facts["VmHWM"].split()[0]) * 1024
before = peak()
tegula.downsample(array, sys.argv[2], max_memory=int(sys.argv[3]), method=sys.argv[4])
print(peak() - before)
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
@pytest.mark.parametrize(("method", "shards", "most"), [("mean", None, 2**25), ("mode", (1000, 1000), 2**26)])
def test_memory_is_kept(tmp_path: Path, method: str, shards: Any, most: int) -> None:
    options: dict[str, Any] = {"chunks": (500, 500), "shards": shards, "dtype": "f4", "codecs": "zstd"}
    array = tegula.create_array(tmp_path / "a", shape=(5000, 5000), **options)
    for row in range(0, 5000, 1000):
        array[row : row + 1000] = np.random.default_rng(row).integers(0, 9, (1000, 5000))
    arguments = [str(tmp_path / "a"), str(tmp_path / "b"), str(most), method]
    command = [sys.executable, "-c", MEASURE, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(found.stdout) <= most
    with pytest.raises(tegula.UnsupportedError, match="max_memory"):
        tegula.downsample(array, MemoryStore(), max_memory="2MB")
