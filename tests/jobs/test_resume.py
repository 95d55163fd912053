"""Conversions with a ledger: they continue after an interruption, and refuse what would spoil the result."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.interrupting import VALUES, Interrupting, a_source
from tests.servers.buckets import Server
from tests.waiting import until

import tegula
from tegula import MemoryStore
from tegula.errors import StoreError
from tegula.formats import find_format
from tegula.jobs.ledger import DIRECTORY, Ledger
from tegula.jobs.owners import Owner, new_claim
from tegula.jobs.plans import Piece, Plan
from tegula.jobs.rewriting.array_job import Run
from tegula.jobs.rewriting.planning import Conversion
from tegula.jobs.rewriting.rules import rules_of
from tegula.jobs.rewriting.targets import Layout
from tegula.metadata.chunk_grids import regular_grid
from tegula.testing import Fault, FaultyStore

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.usefixtures("small_units")]


def interrupted(source: Interrupting, target: Any, after: int = 5, **options: Any) -> None:
    source.left = after
    with pytest.raises(KeyboardInterrupt):
        tegula.convert(source, target, **{"codecs": "zstd", "resume": True, **options})
    source.left = 10**9


def test_an_interrupted_conversion_goes_on_with_the_units_that_are_left() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    assert "a" not in tegula.open(target)  # not seen before it is complete
    state = tegula.jobs.list_jobs(target)[0]
    assert (state.units_done, state.units, state.state) == (5, 15, "interrupted")
    source.reads = 0
    report = tegula.convert(source, target, codecs="zstd", resume=True, verify=True)
    assert source.reads == 10 + 15  # the verification reads all
    assert report.ok
    assert report.arrays[0].digest == tegula.checksum(target, path="a")
    assert tegula.compare(source, target)
    assert tegula.jobs.list_jobs(target) == []
    assert not [key for key in target.list_prefix("") if ".tegula_job" in key]
    assert tegula.check(target).ok


def test_job_killed_while_making_a_group_writes_attributes_on_resume() -> None:
    for name in ("", "g"):
        source, target = a_source(), MemoryStore()
        tegula.open(source, "r+").create_group("g", attributes={"b": 2}).create_array("y", shape=3, dtype="i4")
        tegula.open(source, "r+").attrs["title"] = "x"
        interrupted(source, target, format="zarr2")
        target.delete(f"{name}/.zattrs".lstrip("/"))
        tegula.convert(source, target, codecs="zstd", format="zarr2", resume=True)
        assert tegula.compare(source, target)


class Stopping(MemoryStore):
    """Raises Ctrl-C instead of storing one of the values."""

    left = 10**9

    def set(self, *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().set(*args, **options)


def test_job_interrupted_between_two_documents_writes_both_on_resume() -> None:
    source, clean = tegula.create_array({}, data=np.arange(6), chunks=3), MemoryStore()
    tegula.convert(source, clean, format="zarr1", resume=True)
    for number in range(1, 50):
        target = Stopping()
        target.left = number
        with suppress(KeyboardInterrupt):
            tegula.convert(source, target, format="zarr1", resume=True)
        tegula.convert(source, target, format="zarr1", resume=True)
        assert {*target.list()} == {*clean.list()}
        if target.left > 0:
            return
    raise AssertionError("the conversion stores values without end")


def test_the_same_command_after_the_end_finds_the_target_complete() -> None:
    source, target = a_source(), MemoryStore()
    tegula.convert(source, target, resume=True)
    before = dict(target._values)
    source.reads = 0
    report = tegula.convert(source, target, resume=True)
    assert report.notes[""] == ["the target was complete already"]
    assert source.reads == 0
    assert target._values == before
    assert tegula.convert(source, target, resume=True, dry_run=True).estimate.units == 0
    with pytest.raises(tegula.AlreadyExistsError, match=r"complete, but the options would give the array 'a' other"):
        tegula.convert(source, target, resume=True, codecs="gzip")
    tegula.open(source, "r+")["a"].attrs["unit"] = "m"
    with pytest.raises(tegula.AlreadyExistsError, match=r"the source has changed since: .*'a'.*overwrite=True"):
        tegula.convert(source, target, resume=True)


@pytest.mark.parametrize("kind", ["convert", "downsample"])
def test_to_resume_where_no_job_is_left_says_so(kind: str) -> None:
    source, target = MemoryStore(), MemoryStore()
    tegula.save(source, np.arange(64).reshape(8, 8))
    compares = "" if kind == "downsample" else ": tegula compare shows whether it has"

    run = partial(getattr(tegula, kind), source, target, **({"axes": "yx"} if kind == "downsample" else {}))
    run()
    before = dict(target._values)
    told = (
        f"no interrupted job to resume (an earlier run may have completed the target{compares}), and something already"
    )
    with pytest.raises(
        tegula.AlreadyExistsError, match=f"{re.escape(told)} exists .*; pass overwrite=True to replace it"
    ):
        run(resume=True)
    with pytest.raises(tegula.AlreadyExistsError, match=r"^something already exists"):
        run()
    assert target._values == before


def test_a_target_that_was_complete_is_compared_if_that_is_asked_for() -> None:
    source, target = a_source(), MemoryStore()
    tegula.convert(source, target, codecs="zstd", resume=True)
    report = tegula.convert(source, target, codecs="zstd", resume=True, verify=True)
    assert [item.verified for item in report.arrays] == [True, True]
    assert report.arrays[0].digest == tegula.checksum(target, path="a")
    tegula.open(target, "r+")["b"][3] = -1
    report = tegula.convert(source, target, codecs="zstd", resume=True, verify=True)
    assert report.different == ["b"]


def test_a_job_that_had_to_leave_arrays_out_is_found_complete() -> None:
    source, target = a_source(), MemoryStore()
    source.set("a/c/1/1", b"damaged")
    tegula.open(source, "r+").create_array("c", data=np.full(3, "x"), dtype="U1")
    failed = tegula.convert(source, target, codecs="zstd", resume=True).failed
    assert [*failed] == ["a"]
    before = dict(target._values)
    report = tegula.convert(source, target, codecs="zstd", resume=True)
    assert report.failed == failed
    assert [item.path for item in report.arrays] == ["b", "c"]
    assert target._values == before


@pytest.mark.parametrize("keys", ["^a/c/1/1$", "^b/"])
@pytest.mark.parametrize("skip", range(4))
def test_same_command_converts_later_what_was_unreadable_at_first(keys: str, skip: int) -> None:
    store, target = a_source(), MemoryStore()
    tegula.save(target, VALUES)
    options: dict[str, Any] = {"codecs": "zstd", "resume": True, "overwrite": True}
    with suppress(StoreError):  # documents are read before anything is written
        report = tegula.convert(FaultyStore(store, Fault(errno.EIO, on="get", keys=keys, skip=skip)), target, **options)
        if not report.ok:
            assert [*report.failed] == [keys[1]]
            assert report.units_left > 0
            assert "left to a resumed job" in report.summary
            assert tegula.open(target).shape == VALUES.shape  # what is replaced stays until all has been converted
    report = tegula.convert(FaultyStore(store), target, **options)
    assert (report.ok, report.units_left) == (True, 0)
    assert tegula.compare(store, target)


def test_a_dry_run_of_an_interrupted_conversion_estimates_what_is_left() -> None:
    source, target = a_source(), MemoryStore()
    options: dict[str, Any] = {"codecs": "zstd", "dry_run": True}
    whole = tegula.convert(source, target, **options).estimate
    assert tegula.convert(source, target, resume=True, **options).estimate == whole
    interrupted(source, target)
    before = dict(target._values)
    report = tegula.convert(source, target, resume=True, **options)
    assert (report.estimate.units, whole.units) == (10, 15)
    assert report.estimate.bytes_written < whole.bytes_written
    assert report.notes[""] == ["5 of 15 units are done; the estimate is for the others"]
    assert target._values == before
    with pytest.raises(tegula.MetadataError, match="other metadata"):
        tegula.convert(source, target, resume=True, codecs="gzip", dry_run=True)


def test_records_of_a_late_part_count_for_no_other_job() -> None:
    source, target = a_source(), MemoryStore()
    for part in ((1, 2), (2, 2)):
        tegula.convert(source, target, codecs="zstd", part=part)
    late = ".tegula_job/arrays/0"
    target.set(late, b'{"read": 3000, "written": 780}')  # as another part may do in between
    tegula.convert(source, target, codecs="zstd", part=(1, 2))
    assert not [key for key in target.list() if ".tegula_job" in key]
    for name in ("a", "b"):
        tegula.delete(target, path=name)
    target.delete(".tegula_complete")
    target.delete("zarr.json")
    target.set(late, b'{"read": 3000, "written": 780}')
    tegula.convert(source, target, codecs="gzip", resume=True)
    assert tegula.compare(source, target)
    assert not [key for key in target.list() if ".tegula_job" in key]


def test_a_dry_run_with_overwrite_promises_what_the_command_does() -> None:
    source, target = a_source(), MemoryStore()
    options: dict[str, Any] = {"resume": True, "overwrite": True}
    whole = tegula.convert(source, target, codecs="zstd", dry_run=True).estimate
    interrupted(source, target)
    assert tegula.convert(source, target, codecs="zstd", dry_run=True, **options).estimate.units == 10
    assert tegula.convert(source, target, codecs="gzip", dry_run=True, **options).estimate.units == whole.units
    tegula.convert(source, target, codecs="zstd", resume=True)
    assert tegula.convert(source, target, codecs="zstd", dry_run=True, **options).estimate.units == 0
    outline = tegula.convert(source, target, codecs="gzip", dry_run=True, **options)
    assert outline.estimate.units == whole.units
    tegula.convert(source, target, codecs="gzip", **options)
    assert "gzip" in str(tegula.open(target)["a"].info)


def test_an_owner_gives_signs_of_life_while_a_unit_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.jobs.owners._RENEWED", 0.01)
    source, target, seen = a_source(), MemoryStore(), list[float]()

    def last_sign() -> float:
        return float(json.loads(target.get(".tegula_job/owners/1of1") or b"")["seen"])

    class Slow(Interrupting):
        def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
            if "c/" in key and len(seen) < 3:
                before = last_sign()
                until(lambda: last_sign() > before)
                seen.append(before)
            return super().get(key, byte_range, with_generation=with_generation)

    slow = Slow()
    for key in source.list():
        slow.set(key, source.get(key))
    seen.clear()
    tegula.convert(slow, target, codecs="zstd", resume=True)
    assert len(seen) == 3
    assert not [key for key in target.list() if ".tegula_job" in key]


def test_a_full_disk_is_what_the_error_is_about() -> None:
    """A new array of bcolz has no document with its length yet, which must not count as deleted."""
    source, target = tegula.create_array({}, data=np.arange(100.0), chunks=10), FaultyStore(MemoryStore())
    target.arm(Fault(errno.ENOSPC, on="set", keys=r"\.blp$", skip=2))
    with pytest.raises(StoreError, match="No space left"):
        tegula.convert(source, target, format="bcolz", resume=True)


def test_without_a_ledger_arrays_are_seen_when_they_are_complete(tmp_path: Path) -> None:
    source, target = a_source(), MemoryStore()
    early: list[bool] = []

    def look(path: str, done: int, total: int) -> None:
        if done < total:
            early.append(path in tegula.open(target))

    tegula.convert(source, target, codecs="zstd", progress=look)
    assert early
    assert not any(early)
    early.clear()
    tegula.convert(source, target, codecs="zstd", progress=look, visible_early=True, overwrite=True)
    assert all(early)
    # after an interruption nothing is left of the array, and of the target if it is one
    for node, place in ((tegula.open(source)["a"], ""), (source, "a/")):
        target = MemoryStore()
        source.left = 3
        with pytest.raises(KeyboardInterrupt):
            tegula.convert(node, target, codecs="zstd")
        source.left = 10**9
        assert not [key for key in target.list() if key.startswith(place) and not key.startswith("b/") and "c/" in key]
        tegula.convert(node, target, codecs="zstd", overwrite=True)
        assert tegula.compare(node, target)


def test_two_conversions_at_the_same_target_do_not_mix() -> None:
    source, target, refused = a_source(), MemoryStore(), list[str]()

    def begin_another(path: str, done: int, total: int) -> None:
        if done < total:
            for options in ({}, {"resume": True}, {"overwrite": True}, {"part": (1, 2)}):
                with pytest.raises(
                    tegula.AlreadyExistsError, match=r"another job works on it \([^()]*\) \(path|already exists"
                ) as caught:
                    tegula.convert(source, target, codecs="gzip", **options)
                refused.append(str(caught.value))

    tegula.convert(source, target, codecs="zstd", progress=begin_another)
    assert refused
    assert tegula.compare(source, target)
    assert not [key for key in target.list() if ".tegula" in key]


def test_interrupted_job_blocks_others_until_overwritten_or_cleaned() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    with pytest.raises(tegula.AlreadyExistsError, match="resume it"):
        tegula.convert(source, target, codecs="zstd", resume=False)
    assert "convert" in str(tegula.jobs.clean_job(target))
    assert [*target.list_prefix("")] == []
    interrupted(source, target)
    tegula.convert(source, target, resume=False, overwrite=True)
    assert tegula.compare(source, target)
    with pytest.raises(tegula.NotFoundError):
        tegula.jobs.clean_job(target)


CHANGES: dict[str, Any] = {
    r"shape \[20, 30\] then, shape \[25, 30\] now": lambda group: group["a"].resize((25, 30)),
    "zarr.json of the array 'a'": lambda group: group["a"].attrs.update(unit="m"),
    "the array 'c' has been added": lambda group: group.create_array("c", data=[1]),
    "the array 'b' is gone": lambda group: tegula.delete(group, path="b"),
    "the group or its attributes": lambda group: group.attrs.update(title="x"),
    "stored chunks of 240 bytes in all now": lambda group: group["a"].__setitem__(slice(None), 7),
}


@pytest.mark.parametrize("message", CHANGES)
def test_a_source_that_has_changed_is_refused_and_the_error_says_what(message: str) -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    CHANGES[message](tegula.open(source, "r+"))
    before = dict(target._values)
    with pytest.raises(tegula.MetadataError, match=message):
        tegula.convert(source, target, codecs="zstd", resume=True)
    assert target._values == before


def test_other_options_are_refused() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    with pytest.raises(tegula.MetadataError, match="other metadata or units"):
        tegula.convert(source, target, codecs="gzip", resume=True)


@pytest.mark.slow
def test_a_target_that_a_living_process_works_on_is_refused() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    owner = ".tegula_job/owners/1of1"
    elsewhere = {"host": "elsewhere", "pid": 1, "began": "", "seen": time.time() - 60}
    for facts in (Owner.here(new_claim()), elsewhere):
        target.set(owner, json.dumps(facts).encode())
        for options in ({"resume": True}, {"resume": False}, {"resume": False, "overwrite": True}):
            with pytest.raises(tegula.AlreadyExistsError, match="another job works on it"):
                tegula.convert(source, target, codecs="zstd", **options)
        with pytest.raises(tegula.AlreadyExistsError, match="another job works on it"):
            tegula.convert(source, target, codecs="zstd", part=(1, 2))
        for overwrite in (False, True):
            with pytest.raises(tegula.AlreadyExistsError, match="another job works on it"):
                tegula.copy(source, target, overwrite=overwrite)
        assert tegula.jobs.show_job(target).state == "running"
        with pytest.raises(tegula.AlreadyExistsError):
            tegula.jobs.clean_job(target)
    # one that is dead, or was not seen for long
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(60)
    for facts in ({**Owner.here(""), "pid": process.pid}, {"host": "elsewhere", "pid": 1, "seen": time.time() - 3600}):
        target.set(owner, json.dumps(facts).encode())
        assert tegula.jobs.show_job(target).state == "interrupted"
    tegula.convert(source, target, codecs="zstd", resume=True)
    assert tegula.compare(source, target)


def test_an_array_is_visible_early_if_that_is_asked_for() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target, visible_early=True)
    seen = tegula.open(target)["a"]
    assert (seen[:5, :10] == VALUES[:5, :10]).all()
    assert (seen[10:] == 0).all()
    tegula.convert(source, target, codecs="zstd", resume=True, visible_early=True)
    assert tegula.compare(source, target)
    with pytest.raises(tegula.UnsupportedError, match="before it is complete"):
        tegula.convert(source, MemoryStore(), format="bcolz", visible_early=True)


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_each_format_is_resumed(format: str, tmp_path: Path) -> None:
    source = Interrupting()
    array = tegula.create_array(source, data=VALUES, chunks=(5, 30))
    interrupted(source, tmp_path / "t", after=2, format=format, codecs="auto")
    with pytest.raises(tegula.NotFoundError):
        tegula.open(tmp_path / "t")
    tegula.convert(source, tmp_path / "t", codecs="auto", format=format, resume=True)
    plain = tmp_path / "plain"
    tegula.convert(array, plain, codecs="auto", format=format)
    (tmp_path / "t/.tegula_complete").unlink()
    files = [{str(f.relative_to(top)): f.read_bytes() for f in top.rglob("*") if f.is_file()}
             for top in (plain, tmp_path / "t")]  # fmt: skip
    assert files[0] == files[1]


@pytest.mark.parametrize("fill", [complex(np.inf, -0.0), np.array(0xFFF8_0000_0000_0123, "u8").view("f8")[()]], ids=str)
def test_fill_values_that_a_format_stores_without_all_their_bits(fill: Any) -> None:
    source = tegula.create_array({}, shape=6, chunks=2, dtype=np.array(fill).dtype, fill_value=fill)
    source[2:4] = 1
    for format in ("zarr1", "zarr2", "bcolz"):
        target = MemoryStore()
        report = tegula.convert(source, target, format=format, codecs="auto", resume=True, verify=True)
        assert report.ok
        assert tegula.checksum(target) == tegula.checksum(source)
        plain = tegula.convert(source, MemoryStore(), format=format, codecs="auto")
        assert report.arrays[0].chunks_stored == plain.arrays[0].chunks_stored


def test_a_table_is_resumed(tmp_path: Path) -> None:
    source = Interrupting()
    tegula.create_table(source, {"x": np.arange(50), "y": np.arange(50.0)}, format="zarr3", chunks=10)
    interrupted(source, tmp_path / "t", after=7, format="bcolz", codecs="auto")
    report = tegula.convert(source, tmp_path / "t", codecs="auto", format="bcolz", resume=True)
    assert report.ok
    assert tegula.open_table(tmp_path / "t").names == ("x", "y")
    assert tegula.compare(source, tmp_path / "t")


def test_parts_share_the_units_and_the_last_completes() -> None:
    source, target = a_source(), MemoryStore()
    for number in (2, 3):
        report = tegula.convert(source, target, codecs="zstd", part=(number, 3))
        assert report.units_left
        assert "a" not in tegula.open(target)
    source.reads = 0
    report = tegula.convert(source, target, codecs="zstd", part=(1, 3), verify=True)
    assert not report.units_left
    assert report.ok
    assert source.reads == 5 + 15
    assert tegula.compare(source, target)
    for number in (1, 2):  # started again by the batch system
        again = tegula.convert(source, target, codecs="zstd", part=(number, 3))
        assert again.notes[""] == ["the target was complete already"]


@pytest.mark.parametrize("part", [(0, 2), (3, 2), (1, 2, 3), "1/2", (1.0, 2)])
def test_wrong_parts_are_refused(part: Any) -> None:
    with pytest.raises(tegula.MetadataError, match="is not a part"):
        tegula.convert(a_source(), MemoryStore(), part=part)


def test_what_other_processes_can_not_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tegula.UnsupportedError, match="memory of this process"):
        tegula.convert(a_source(), tmp_path / "t", workers=2)
    with pytest.raises(tegula.UnsupportedError, match="archive"):
        tegula.convert(a_source(), tmp_path / "t.zip", resume=True)
    assert not (tmp_path / "t.zip").exists()
    for runner in ("nobody", 7, object()):
        with pytest.raises(tegula.MetadataError, match="is not a runner"):
            tegula.convert(a_source(), MemoryStore(), runner=runner)
    with pytest.raises(tegula.MetadataError, match="number of processes"):
        tegula.convert(a_source(), MemoryStore(), workers=0)


def test_an_array_that_can_not_be_read_leaves_nothing_behind() -> None:
    source, target = a_source(), MemoryStore()
    source.set("a/c/1/1", b"damaged")
    report = tegula.convert(source, target, codecs="zstd", resume=True)
    assert [*report.failed] == ["a"]
    assert not [key for key in target.list_prefix("") if key.startswith("a/") or "tegula_job" in key]
    assert (tegula.open(target)["b"][:] == VALUES[0]).all()
    # a single array: what was done is kept for --resume, else removed
    for resume in (True, False):
        target = MemoryStore()
        with pytest.raises(tegula.CodecError):
            tegula.convert(tegula.open(source)["a"], target, codecs="zstd", resume=resume)
        assert bool(tegula.jobs.list_jobs(target)) is resume


@pytest.mark.slow
def test_a_job_in_a_bucket_is_resumed_and_its_ledger_has_no_secret(s3_server: Server) -> None:
    bucket = s3_server.bucket()
    url, options = f"{bucket.url}/t.zarr", bucket.storage_options
    source = a_source()
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        tegula.convert(source, url, codecs="zstd", resume=True, target_storage_options=options)
    source.left = 10**9
    state = tegula.jobs.show_job(url, storage_options=options)
    assert 0 < state.units_done <= 5
    store = tegula.store_of(url, storage_options=options)
    ledger = b"".join(store.get(key) or b"" for key in store.list_prefix(".tegula_job/"))
    assert b"operation" in ledger
    assert str(options["secret_access_key"]).encode() not in ledger
    source.reads = 0
    tegula.convert(source, url, codecs="zstd", resume=True, target_storage_options=options)
    assert source.reads == 15 - state.units_done
    assert tegula.compare(source, url, second_storage_options=options)


DAMAGES: dict[str, bytes] = {
    ".tegula_job/plan.json": b"{}", ".tegula_job/units/3": b"[]", ".tegula_job/arrays/0": b"\xff",
    ".tegula_job/runs/0-2-0of1": b"{",
}  # fmt: skip


@pytest.mark.parametrize("key", DAMAGES)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_record_that_can_not_be_read_counts_as_absent(key: str, overwrite: bool) -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    target.set(key, DAMAGES[key])
    assert tegula.jobs.show_job(target).state == "interrupted"
    tegula.convert(source, target, codecs="zstd", resume=True, overwrite=overwrite)
    assert tegula.compare(source, target)
    assert not [one for one in target.list() if DIRECTORY in one]


def test_documents_of_a_hostile_ledger_are_damaged() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    key = ".tegula_job/plan.json"
    plan = json.loads(target.get(key) or b"")
    (array, *_), deep = plan["arrays"], {"x": json.loads("[" * 900 + "]" * 900)}
    for change in (
        {"begun": 1e30}, {"begun": float("nan")}, {"units": 10**1000}, {"options": deep},
        {"arrays": [{**array, "source": {"documents": []}}]}, {"arrays": [{**array, "units": -1}]},
    ):  # fmt: skip
        target.set(key, json.dumps({**plan, **change}).encode())
        for found in (tegula.jobs.show_job(target), *tegula.jobs.list_jobs(target)):
            assert "whose plan can't be read" in str(found)
    target.set(key, json.dumps(plan).encode())
    for record in ({"units": "x"}, {"read": float("inf")}, {"largest error": 2**64}, deep):
        target.set(".tegula_job/units/3", json.dumps(record).encode())
        assert tegula.jobs.show_job(target).units_done < 5
    for seen in (10**400, float("inf"), deep):
        target.set(".tegula_job/owners/1of1", json.dumps({"host": "elsewhere", "seen": seen}).encode())
        assert tegula.jobs.show_job(target).state == "interrupted"
        assert "dead" in str(tegula.jobs.show_job(target))


@pytest.mark.parametrize("change", [{"arrays": 1}, {"arrays": [{}]}, {"groups": []}, {"x": [[]] * 3}], ids=str)
def test_documents_show_completeness_if_the_note_is_damaged(change: Any) -> None:
    source, target = a_source(), MemoryStore()
    tegula.convert(source, target, codecs="zstd", resume=True)
    key = next(key for key in target.list() if key.endswith(".tegula_complete"))
    facts = json.loads(target.get(key) or b"")
    target.set(key, json.dumps({**facts, **change}).encode())
    if "x" in change:
        assert tegula.convert(source, target, codecs="zstd", resume=True).ok
        return
    assert tegula.convert(source, target, codecs="zstd", resume=True).notes[""] == ["the target was complete already"]
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.convert(source, target, codecs="gzip", resume=True)


def test_strange_values_in_a_ledger_do_no_harm() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    for name in ("units/x", "units/-1", "runs/1-2", "owners/1of9", "notes", "owners/2of2"):
        target.set(f".tegula_job/{name}", b'{"read": "x", "pid": [], "seen": {}, "host": 1}')
    target.set(".tegula_job/units/4", b'{"read": "much", "written": null}')
    tegula.convert(source, target, codecs="zstd", resume=True)
    assert "a" in tegula.open(target)


def test_a_million_chunks_are_planned_in_little_time_and_memory() -> None:
    source = MemoryStore()
    array = tegula.create_array(source, shape=(10_000, 10_000), chunks=(10, 10), dtype="f8")
    layout = Layout(find_format("zarr3"), chunks=rules_of("chunks", (20, 5), True))
    conversion = Conversion(array, None, MemoryStore(), "", layout, Run())
    tracemalloc.start()
    start = time.perf_counter()
    plan = conversion.plan()
    seconds, memory = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.units == 10**6
    assert seconds < 10
    assert memory < 200 * 2**20
    assert plan.pieces[""].unit(999_999).box == (slice(9980, 10_000), slice(9995, 10_000))


def test_the_ledger_is_small() -> None:
    store = MemoryStore()
    ledger, plan = Ledger(store, ""), Plan("convert", {}, "a", "b")
    count, nbytes = 4096, 2**20  # units of a MiB, which is little
    plan.add(Piece("x", (count,), regular_grid((1,))))
    ledger.begin(plan, resume=False)
    for first in range(0, count, 256):
        for number in range(first, first + 256):
            ledger.record(number, {"read": nbytes, "written": nbytes, "checksum": 2**64 - 1 - number})
        assert ledger.nbytes() < count * nbytes * 0.001
        ledger.merge(deque(range(first, first + 256)))
    assert ledger.nbytes() < 4096 * 2
    again = Ledger(store, "")
    again.read()
    assert all(number in again for number in range(count))
    assert count not in again
    assert again.sum_of(plan.pieces["x"])["read"] == count * nbytes


@pytest.mark.parametrize("how", ["complete", "merge"])
def test_units_count_as_done_while_their_records_are_merged(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.jobs.ledger.RUN", 8)

    class Slow(MemoryStore):
        after_listing: Any = None  # called once, when the keys have been listed: what another part of the job does

        def list_prefix(self, prefix: str) -> Any:
            found = [*super().list_prefix(prefix)]
            other_part, self.after_listing = self.after_listing, None
            if other_part is not None:
                other_part()
            return iter(found)

    store = Slow()
    ledger, plan = Ledger(store, ""), Plan("convert", {}, "a", "b")
    plan.add(Piece("x", (8,), regular_grid((1,))))
    ledger.begin(plan, resume=False)
    for number in range(8):
        ledger.record(number, {"read": 1})
    other = Ledger(store, "")
    store.after_listing = {
        "complete": partial(ledger.complete, plan.pieces["x"]),
        "merge": partial(ledger.merge, deque(range(8))),
    }[how]
    other.read()
    assert other.left_of(plan.pieces["x"]) == 0


def test_a_sparse_array_of_a_billion_chunks_is_resumed() -> None:
    source = Interrupting()
    array = tegula.create_array(source, shape=(10**6, 10**6), chunks=(30, 30), dtype="u1")
    places = [(0, 0), (31, 900_000), (500_000, 5), (999_999, 999_999)]
    for number, place in enumerate(places):
        array[place] = number + 1
    for options in ({}, {"chunks": (60, 30)}):
        target = MemoryStore()
        source.left = 2
        with pytest.raises(KeyboardInterrupt):
            tegula.convert(array, target, resume=True, **options)
        source.left, source.reads = 10**9, 0
        tegula.convert(array, target, resume=True, **options)
        assert source.reads <= 6  # two source chunks in a unit of the second
        new = tegula.open(target)
        assert [int(new[place]) for place in places] == [1, 2, 3, 4]
        assert sum(1 for key in target.list_prefix("c/")) == 4


@pytest.mark.slow
def test_a_program_that_is_interrupted_by_ctrl_c_can_be_resumed(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "s.zarr", data=VALUES, chunks=(1, 1))
    code = (
        "import sys, time, tegula\n"
        "from tegula.jobs import units\n"
        "from tegula.jobs.rewriting import work\n"
        "units.BLOCK_BYTES = 1\n"
        "done = work.Converting.do\n"
        "def slowly(self, unit):\n"
        "    if unit.number == 5: print('under way', flush=True)\n"
        "    time.sleep(0.01)\n"
        "    return done(self, unit)\n"
        "work.Converting.do = slowly\n"
        "tegula.convert(sys.argv[1], sys.argv[2], codecs='zstd', resume=True)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "s.zarr"), str(tmp_path / "t.zarr")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.send_signal(2)
        assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    state = tegula.jobs.show_job(tmp_path / "t.zarr")
    assert (state.state, state.owners) == ("interrupted", {})
    assert 5 <= state.units_done < state.units
    tegula.convert(tmp_path / "s.zarr", tmp_path / "t.zarr", codecs="zstd", resume=True)
    assert tegula.compare(tmp_path / "s.zarr", tmp_path / "t.zarr")


def test_a_claim_that_could_not_be_given_up_does_not_stop_this_process() -> None:
    class Failing(MemoryStore):
        fails = False

        def delete(self, key: str, *, if_generation: Any = None) -> None:
            if self.fails and "owners" in key:
                raise StoreError("the disk is gone", key=key)
            super().delete(key, if_generation=if_generation)

    source, target = tegula.create_array(MemoryStore(), data=np.arange(4)), Failing()
    target.fails = True
    with pytest.raises(StoreError, match="gone"):
        tegula.convert(source, target)
    assert [*target.list_prefix(".tegula_job/owners/")]
    target.fails = False
    tegula.convert(source, target, overwrite=True)
    assert np.array_equal(tegula.open(target)[:], np.arange(4))
    assert not [*target.list_prefix(".tegula_job/")]


def test_ctrl_c_while_ownership_changes_leaves_no_note() -> None:
    class Pressed(MemoryStore):
        at = ""

        def press(self, operation: str, key: str) -> None:
            if self.at == operation and "/owners/" in key:
                self.at = ""
                raise KeyboardInterrupt

        def set(self, key: str, value: Any, *, if_generation: Any = None) -> Any:
            generation = super().set(key, value, if_generation=if_generation)
            self.press("set", key)
            return generation

        def delete(self, key: str, *, if_generation: Any = None) -> None:
            self.press("delete", key)
            super().delete(key, if_generation=if_generation)

    source = tegula.create_array(MemoryStore(), data=np.arange(4))
    for at, resume in (("set", None), ("set", True), ("delete", None)):
        target = Pressed()
        target.at = at
        with pytest.raises(KeyboardInterrupt):
            tegula.convert(source, target, resume=resume)
        assert not [*target.list_prefix(".tegula_job/owners/")]
        tegula.convert(source, target, overwrite=True)
        assert np.array_equal(tegula.open(target)[:], np.arange(4))


@pytest.mark.slow
def test_ctrl_c_while_the_ledger_is_removed_leaves_no_owner() -> None:
    class Pressed(MemoryStore):
        left = 10**9

        def delete(self, key: str, *, if_generation: Any = None) -> None:
            self.left -= DIRECTORY in key
            if not self.left:
                raise KeyboardInterrupt
            super().delete(key, if_generation=if_generation)

    source, moments = a_source(), 0
    while True:
        target, moments = Pressed(), moments + 1
        target.left = moments
        with suppress(KeyboardInterrupt):
            tegula.convert(source, target, resume=True)
        if target.left > 0:
            break
        assert not [*target.list_prefix(f"{DIRECTORY}/owners/")]
        tegula.convert(source, target, resume=True)
        assert tegula.compare(source, target)
    assert moments > 10


def test_a_node_that_another_program_creates_at_the_target_of_a_job_stays() -> None:
    source, target = a_source(), MemoryStore()

    def create(path: str, done: int, total: int) -> None:
        if not target.exists("a/zarr.json"):
            tegula.create_group(target, path="a", attributes={"mine": 1})

    with pytest.raises(tegula.AlreadyExistsError, match="another process has created a node here"):
        tegula.convert(source, target, codecs="zstd", resume=True, progress=create)
    assert tegula.open(target)["a"].attrs["mine"] == 1
    # documents of the array itself, of which the last was not written
    for format in ("zarr2", "zarr3"):
        source, target = a_source(), MemoryStore()
        tegula.open(source, "r+")["a"].attrs["unit"] = "m"
        tegula.convert(source, target, codecs="zstd", format=format, resume=True)
        half = ("a/.zattrs", target.get("a/.zattrs")) if format == "zarr2" else ("a/zarr.json", b"{")
        whole = {key: target.get(key) for key in target.list() if key.startswith("a/") and "tegula" not in key}
        target = MemoryStore()
        interrupted(source, target, format=format)
        for key, value in whole.items():
            if not key.startswith("a/c") and "/0" not in key:
                target.set(key, value)
        target.delete(half[0]) if format == "zarr2" else target.set(*half)
        tegula.convert(source, target, codecs="zstd", format=format, resume=True)
        assert tegula.compare(source, target)
