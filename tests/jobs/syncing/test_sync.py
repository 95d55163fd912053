"""`tegula.sync`: the target holds what the source holds, and what others have changed is not overwritten unasked."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.jobs import units
from tegula.jobs.plans import digest
from tegula.jobs.recording import claimed
from tegula.jobs.syncing import array_job
from tegula.jobs.syncing.array_job import SyncJob
from tegula.stores import LocalStore

pytestmark = pytest.mark.once(executors="both")


def new_source(target: Any, format: Any = "zarr3") -> tegula.Group:
    """A group with three arrays, of which one is in a group."""
    group = tegula.create_group(target, format=format, attributes={"title": "first"})
    group.create_array("x", data=np.arange(55).reshape(11, 5), chunks=(2, 2))
    group.create_array("y", data=np.linspace(0, 1, 10), chunks=(3,), attributes={"units": "m"})
    group.create_group("sub").create_array("z", data=np.arange(4), chunks=2)
    return group


def actions(report: tegula.SyncReport) -> dict[str, str]:
    return {array.path: array.action for array in report.arrays}


def check_same(source: Any, target: Any) -> None:
    assert tegula.compare(source, target).equal
    found = tegula.check(target)
    assert found.ok
    assert not found.findings


def check_arrays(source: Any, target: Any) -> None:
    """Check the arrays alone: bcolz has no groups, and so no attributes of one."""
    for path in ("x", "y", "sub/z"):
        assert tegula.compare(tegula.open(source)[path], tegula.open_array(target, path=path)).equal
    assert not [found for found in tegula.check(target).findings if found.severity != "note"]  # bytes are counted


@pytest.fixture
def mirror(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    new_source(source)
    assert tegula.sync(source, target).ok
    return source, target


def test_the_first_sync_copies_everything_and_the_second_nothing(mirror: tuple[Path, Path]) -> None:
    check_same(*mirror)
    again = tegula.sync(*mirror)
    assert again.is_same
    assert again.ok
    assert not any(array.requests for array in again.arrays)


def test_stored_values_of_a_mirror_are_those_of_the_source(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    found = {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    mine = {name: raw for name, raw in found.items() if ".tegula_sync" not in name.parts}
    assert mine == {path.relative_to(source): path.read_bytes() for path in source.rglob("*") if path.is_file()}


def test_only_changed_chunks_are_written(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    before = {path: path.stat().st_ino for path in (target / "x" / "c").rglob("*")}
    group = tegula.open_group(source, mode="r+")
    group["x"][3, 3] = 99
    group["x"].attrs["units"] = "K"
    report = tegula.sync(source, target)
    assert actions(report) == {"x": "changed", "y": "same", "sub/z": "same"}
    assert [array.chunks_written for array in report.arrays if array.path == "x"] == [1]
    check_same(source, target)
    after = {path: path.stat().st_ino for path in (target / "x" / "c").rglob("*")}
    assert {path.name for path in after if after[path] != before[path]} == {"1"}


def test_arrays_grow_shrink_and_lose_chunks(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    for change in (
        lambda: group["x"].append(np.ones((3, 5), int)),
        lambda: group["x"].resize(7, 9),
        lambda: group["x"].resize(3, 12),
        lambda: group["x"].__setitem__(..., 0),
        lambda: group["y"].resize(0),
        lambda: group["y"].append(np.arange(20.0)),
    ):
        change()
        tegula.sync(source, target)
        check_same(source, target)


def test_nodes_appear_and_are_deleted_if_that_is_wanted(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    group.create_group("new").create_array("a", data=[1, 2])
    group.attrs["title"] = "second"
    tegula.delete(source / "sub")
    report = tegula.sync(source, target)
    assert (report.extra, report.deleted, report.groups) == (["sub"], [], {"": "changed", "new": "new"})
    assert "sub" in tegula.open(target)
    assert tegula.sync(source, target, delete=True).deleted == ["sub"]
    check_same(source, target)


def test_an_array_that_takes_the_place_of_another_is_replaced_as_a_whole(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    group.create_array("x", data=np.random.default_rng(0).random((4, 4, 4)), chunks=(2, 3, 4), overwrite=True)
    assert actions(tegula.sync(source, target))["x"] == "replaced"
    check_same(source, target)
    del group["x"]
    group.create_group("x").create_array("inner", data=[1])
    tegula.sync(source, target)
    check_same(source, target)
    del group["x"]
    group.create_array("x", data=[1, 2])
    assert actions(tegula.sync(source, target))["x"] == "replaced"
    check_same(source, target)
    assert tegula.sync(source, target).is_same


def test_what_others_have_changed_is_named_and_overwritten_by_force_only(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    tegula.open_group(target, mode="r+")["x"][0, 4] = -1
    tegula.open_group(source, mode="r+")["y"][0] = 7
    with pytest.raises(tegula.ConflictError, match=r"the chunk \(0, 2\) that others have changed"):
        tegula.sync(source, target)
    assert tegula.open(target)["x"][0, 4] == -1
    assert tegula.open(target)["y"][0] == 7  # all others are in step
    report = tegula.diff(source, target)
    assert [*report.overwritten] == ["x"]
    assert tegula.sync(source, target, force=True).overwritten["x"]
    check_same(source, target)
    # attributes, chunks that are deleted or new, and arrays
    for spoil, what in (
        (lambda: tegula.open(target, mode="r+")["y"].attrs.update(units="km"), "documents"),
        ((target / "x" / "c" / "0" / "1").unlink, "the chunk (0, 1)"),
        (lambda: (target / "x" / "c" / "9").mkdir() or shutil.copy(target / "x/c/0/1", target / "x/c/9/0"), "(9, 0)"),
        (lambda: tegula.open(target, mode="r+").attrs.update(title="mine"), "attributes of the group"),
        ((target / "sub" / "z" / "zarr.json").unlink, "which others have deleted"),
        (lambda: tegula.delete(target / "y") or tegula.create_array(target / "y", data=[1]), "node that no sync"),
    ):
        spoil()
        with pytest.raises(tegula.ConflictError, match=re.escape(what)):
            tegula.sync(source, target)
        tegula.sync(source, target, force=True)
        assert tegula.compare(source, target).equal, what
        assert tegula.sync(source, target).is_same


def test_nodes_that_no_sync_has_made_are_deleted_by_force_only(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    tegula.create_group(target / "own").create_array("a", data=[1])
    with pytest.raises(tegula.ConflictError, match="no sync has made"):
        tegula.sync(source, target, delete=True)
    assert "own" in tegula.open(target)
    tegula.sync(source, target, delete=True, force=True)
    check_same(source, target)


def test_a_copy_made_by_other_means_becomes_a_mirror_if_it_is_equal(mirror: tuple[Path, Path], tmp_path: Path) -> None:
    source, copied = mirror[0], tmp_path / "copied.zarr"
    shutil.copytree(source, copied)
    assert tegula.sync(source, copied).is_same
    check_same(source, copied)
    moved = tmp_path / "moved.zarr"
    shutil.copytree(copied, moved)  # with what it remembers, which is about other files
    assert tegula.sync(source, moved).is_same
    tegula.open_group(source, mode="r+")["x"][5] = 1
    assert actions(tegula.sync(source, moved))["x"] == "changed"
    check_same(source, moved)
    tegula.sync(source, copied)
    other = tmp_path / "other.zarr"
    shutil.copytree(source, other)
    tegula.open(other, mode="r+")["x"][0, 0] = 5
    with pytest.raises(tegula.ConflictError, match=r"the chunk \(0, 0\)"):
        tegula.sync(source, other)
    tegula.sync(source, other, force=True)
    check_same(source, other)


@pytest.mark.parametrize(
    "options",
    [{"format": "zarr2", "codecs": "zstd"}, {"chunks": {"x": (3, 4), "y": (4,)}}, {"shards": {"x": (8, 4)}},
     {"format": "n5"}, {"format": "bcolz"}, {"checksum": True}],
    ids=str,
)  # fmt: skip
def test_other_encodings_are_kept_and_written_where_chunks_have_changed(tmp_path: Path, options: Any) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "target"
    group = new_source(source)
    tegula.sync(source, target, **options)
    check_arrays(source, target)
    made = tegula.open_array(target, path="x")
    group["x"][4:6, 1] = 88
    group["y"].append(np.ones(4))
    group["sub/z"].resize(1)
    report = tegula.sync(source, target, verify=True)  # the options are remembered
    assert actions(report) == {"x": "changed", "y": "changed", "sub/z": "changed"}
    assert [*report.failed] == ([""] if made.format == "bcolz" else [])  # the attributes of a group
    assert all(array.verified for array in report.arrays)
    check_arrays(source, target)
    now = tegula.open_array(target, path="x")
    assert (now.format, now.chunks, now.shards) == (made.format, made.chunks, made.shards)
    again = tegula.sync(source, target)
    assert actions(again) == {"x": "same", "y": "same", "sub/z": "same"}


def test_packed_values_are_packed_again(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    group = new_source(source)
    options: dict[str, Any] = {"dtype": {"y": "i2"}, "scale_offset": {"y": (0.001, 0.0)}}
    tegula.sync(source, target, **options)
    group["y"][2:4] = 0.5
    assert actions(tegula.sync(source, target))["y"] == "changed"
    made = tegula.open(target)["y"]
    assert made.dtype == "i2"
    assert made.attrs["scale_factor"] == 0.001
    np.testing.assert_allclose(made[:] * 0.001, group["y"][:], atol=0.0006)


def test_other_options_make_the_arrays_anew(mirror: tuple[Path, Path]) -> None:
    assert set(actions(tegula.sync(*mirror, codecs="gzip")).values()) == {"replaced"}
    check_same(*mirror)
    assert tegula.sync(*mirror).is_same


def test_tables_are_synced_with_their_rows_and_columns(tmp_path: Path) -> None:
    source, target, back = tmp_path / "s.bcolz", tmp_path / "t.zarr", tmp_path / "b.bcolz"
    tegula.create_table(source, columns={"a": np.arange(10), "b": np.arange(10.0)})
    for rows in range(3):
        table = tegula.open_table(source, mode="r+")
        table.append({"a": np.arange(rows), "b": np.ones(rows)})
        if rows == 2:
            table.resize(5)
        for one, other in ((source, target), (target, back)):
            tegula.sync(one, other)
            assert tegula.compare(one, other).equal
            assert tegula.check(other).ok
    assert len(tegula.open_table(back)) == 5


def test_a_dry_run_writes_nothing(mirror: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = mirror
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    tegula.open_group(source, mode="r+")["x"][0] = 3
    report = tegula.sync(source, target, dry_run=True, delete=True)
    assert report.dry_run
    assert actions(report)["x"] == "changed"
    assert report.arrays[1].requests == 3
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before
    assert tegula.sync(source, tmp_path / "none.zarr", dry_run=True).arrays[0].action == "new"
    assert not (tmp_path / "none.zarr").exists()


def test_consolidated_metadata_follow(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    tegula.open_group(source, mode="r+").consolidate()
    tegula.sync(source, target)
    assert tegula.open_group(target, consolidated=True)["x"].shape == (11, 5)
    group = tegula.open_group(source, mode="r+")
    group["x"].append(np.ones((3, 5), int))
    group.consolidate()
    tegula.sync(source, target)
    assert tegula.open_group(target, consolidated=True)["x"].shape == (14, 5)


def test_processes_do_the_units(mirror: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = mirror
    tegula.open_group(source, mode="r+")["x"][:4] = 1
    tegula.sync(source, target, workers=2)
    check_same(source, target)
    tegula.sync(source, tmp_path / "other.zarr", chunks={"x": (3, 3)}, workers=2)
    check_same(source, tmp_path / "other.zarr")


def test_two_syncs_into_one_target_are_refused(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    with claimed(LocalStore(target), ""), pytest.raises(tegula.AlreadyExistsError, match="another job works on it"):
        tegula.sync(source, target)
    assert tegula.sync(source, target).is_same


@pytest.mark.parametrize("place", ["files", "memory"])
def test_of_several_syncs_into_one_target_at_once_one_works(tmp_path: Path, place: str) -> None:
    source = tmp_path / "s.zarr"
    group = new_source(source)
    target: Any = tmp_path / "t.zarr" if place == "files" else tegula.MemoryStore()
    for number in range(3):
        group["x"][number:] = number
        done, errors = at_once(3, lambda _: tegula.sync(source, target))
        assert done
        assert all("another job works on it" in str(error) for error in errors), errors
        check_same(source, target)


def at_once(number: int, act: Any) -> tuple[list[Any], list[BaseException]]:
    """Call a function in several threads; return the results and the errors."""
    with ThreadPoolExecutor(number) as pool:
        futures = [pool.submit(act, one) for one in range(number)]
    errors = [future.exception() for future in futures]
    return [one.result() for one, error in zip(futures, errors) if error is None], [one for one in errors if one]


def test_parts_that_run_at_once_complete_the_target_together(
    mirror: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "BLOCK_BYTES", 1)  # a unit is one chunk
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    for number in range(5):
        group["x"][:] = number + 1
        group.create_array("y", data=np.full(20 + number, number), chunks=number + 1, overwrite=True)
        group.create_array(f"n{number}", data=np.arange(30), chunks=2)
        if number:
            del group[f"n{number - 1}"]
        done, errors = at_once(3, lambda part: tegula.sync(source, target, part=(part + 1, 3), delete=True))
        assert not errors
        assert all(report.ok for report in done), done
        assert not min(report.units_left for report in done)
        assert not [*target.glob(".tegula_job*")]
        check_same(source, target)


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_changes_while_the_clock_stands_still_is_found_by_verifying(tmp_path: Path, side: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    tegula.create_array(source, data=np.arange(30, dtype="u1"), chunks=10, codecs=False)
    tegula.sync(source, target)
    path = tmp_path / side / "c" / "1"
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tegula.sync(source, target).is_same  # as with every program that compares times and sizes
    report = tegula.sync(source, target, verify=True)
    assert not report.ok
    assert report.different == [""]
    assert tegula.sync(source, target, verify=True).ok
    check_same(source, target)
    assert tegula.sync(source, target).is_same


@pytest.mark.parametrize("target", ["s.zarr", "s.zarr/sub", "s.zarr/new"])
def test_the_source_is_no_target(tmp_path: Path, target: str) -> None:
    new_source(tmp_path / "s.zarr")
    with pytest.raises(tegula.MetadataError):
        tegula.sync(tmp_path / "s.zarr", tmp_path / target)


class Changing(LocalStore):
    """Calls a function before the first chunk is read or copied."""

    change: Any = None

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if self.change is not None and "/c/" in key:
            change, self.change = self.change, None
            change()
        return super().get(key, *args, **options)


@pytest.mark.parametrize("what", ["update", "append", "shrink", "replace", "delete"])
@pytest.mark.parametrize("options", [{}, {"chunks": {"x": (4, 3)}}], ids=["copied", "rewritten"])
def test_a_source_that_changes_meanwhile_is_synced_in_this_or_the_next_run(
    tmp_path: Path, what: str, options: Any
) -> None:
    group = new_source(tmp_path / "s.zarr")
    target = tmp_path / "t.zarr"

    def change() -> None:
        x = group["x"]
        if what == "update":
            x[:] = 5
        elif what == "append":
            x.append(np.ones((9, 5), int))
        elif what == "shrink":
            x.resize(4, 2)
        elif what == "replace":
            group.create_array("x", data=np.random.default_rng(0).random((4, 4)), chunks=(3, 3), overwrite=True)
        else:
            del group["x"]

    store = Changing(tmp_path / "s.zarr", read_only=True)
    store.change = change
    report = tegula.sync(store, target, **options)
    assert store.change is None
    kept = {"y": "new", "sub/z": "new", **({} if what == "delete" else {"x": "new"})}
    assert actions(report) == kept  # in whichever of two rounds
    assert report.groups == {"": "new", "sub": "new"}
    tegula.sync(store, target, delete=True)
    check_same(tmp_path / "s.zarr", target)


def test_archives_are_synced(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr.zip"
    group = new_source(source)
    tegula.sync(source, target)
    group["x"][0] = 1
    assert actions(tegula.sync(source, target))["x"] == "changed"
    assert tegula.compare(source, target).equal
    assert tegula.sync(target, tmp_path / "back.zarr").ok  # values are compared by their contents
    assert tegula.sync(target, tmp_path / "back.zarr").is_same
    assert tegula.compare(source, tmp_path / "back.zarr").equal


def test_a_damaged_memory_makes_the_node_one_that_no_sync_has_made(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    for damage in (b"", b"{}", b"[1]"):
        (target / "x" / ".tegula_sync" / "node.json").write_bytes(damage)
        assert tegula.sync(source, target).is_same  # it is equal
    next((target / "x" / ".tegula_sync").glob("sources-*")).write_bytes(b"cut")
    assert tegula.sync(source, target).is_same
    tegula.open_group(source, mode="r+")["x"][0] = 1
    tegula.sync(source, target)
    check_same(source, target)


def _piece(number: int, plain: bytes, itemsizes: bytes, rest: bytes = b"") -> bytes:
    return number.to_bytes(4, "little") + len(plain).to_bytes(4, "little") + itemsizes + plain + rest


@pytest.mark.parametrize(
    "piece",
    [b"", b"\1", _piece(1, zlib.compress(bytes(2)), b"\3\3", bytes(8)),
     _piece(2**32 - 1, zlib.compress(bytes(2)), b"\1\1"),
     _piece(1, b"abc", b"\1\1", bytes(8)), _piece(1, zlib.compress(bytes(2**24)), b"\1\1", bytes(8)),
     _piece(1, zlib.compress(b"\0"), b"\1\1", bytes(8)), _piece(1, zlib.compress(b"\xff\0"), b"\1\1", bytes(8))],
    ids=["empty", "cut", "width", "number", "compression", "bomb", "short", "negative"],
)  # fmt: skip
def test_a_memory_that_no_sync_has_written_counts_for_nothing(mirror: tuple[Path, Path], piece: bytes) -> None:
    source, target = mirror
    memory = target / "x" / ".tegula_sync"
    facts = json.loads((memory / "node.json").read_bytes())
    facts["targets"] = [{"digest": digest(piece), "first": [0, 0]}]
    (memory / f"targets-{digest(piece)}").write_bytes(piece)
    (memory / "node.json").write_text(json.dumps(facts))
    assert tegula.sync(source, target).is_same  # it is equal
    check_same(source, target)


def test_a_memory_of_other_dimensions_counts_for_nothing(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    document = target / "x" / ".tegula_sync" / "node.json"
    document.write_text(json.dumps(json.loads(document.read_bytes()) | {"shape": [3], "sources": [], "targets": []}))
    assert tegula.sync(source, target).is_same
    check_same(source, target)


@pytest.mark.parametrize("options", [{}, {"chunks": 3}], ids=["copied", "converted"])
def test_a_sync_that_is_interrupted_amid_all_chunks_is_continued(
    tmp_path: Path, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    array = tegula.create_array(source, data=np.arange(6), chunks=2)
    tegula.sync(source, target, **options)
    array[:] = 7

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    for name in ("_done", "_touched"):
        with monkeypatch.context() as patch:
            patch.setattr(SyncJob, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                tegula.sync(source, target)
    with monkeypatch.context() as patch:
        patch.setattr(array_job, "states_now", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tegula.sync(source, target)
    tegula.sync(source, target)
    check_same(source, target)


@pytest.mark.parametrize("how", ["deleted", "replaced by a group", "replaced by an array"])
@pytest.mark.parametrize("what", ["chunk", "attribute", "member"])
def test_what_others_have_changed_is_not_deleted_along_with_its_node(
    mirror: tuple[Path, Path], how: str, what: str
) -> None:
    source, target = mirror
    name = "x" if what == "chunk" else "sub"
    if how == "replaced by a group" and name == "sub":
        name = "sub/z"
        what = "chunk"
    other = tegula.open(target, mode="r+")[name]
    if what == "chunk":
        other[0] = 99
    elif what == "attribute":
        other.attrs["mine"] = 1
    else:
        other.create_array("mine", data=[1, 2])
    shutil.rmtree(source / name)
    group = tegula.open_group(source, mode="r+")
    if how == "replaced by a group":
        group.create_group(name)
    elif how == "replaced by an array":
        group.create_array(name, data=np.arange(3.0))
    with pytest.raises(tegula.ConflictError, match=r"others have|no sync has made"):
        tegula.sync(source, target, delete=True)
    assert name in tegula.open_group(target)
    tegula.sync(source, target, delete=True, force=True)
    check_same(source, target)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_consolidated_metadata_of_a_mirror_follow_whatever_the_source_has(tmp_path: Path, format: str) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    group = new_source(source, format)
    tegula.sync(source, target, consolidated=True)
    group["x"].append(np.ones((1, 5), int))
    shutil.rmtree(source / "sub")
    tegula.sync(source, target, delete=True)
    found = tegula.open_group(target, consolidated=True)
    assert found["x"].shape == (12, 5)
    assert sorted(found) == ["x", "y"]


def test_consolidated_metadata_come_after_a_sync_that_was_interrupted(
    mirror: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    group.consolidate()
    tegula.sync(source, target)
    group["x"].append(np.ones((1, 5), int))

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tegula.Group, "consolidate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tegula.sync(source, target)
    assert tegula.open_group(target)["x"].shape == (12, 5)
    tegula.sync(source, target)
    assert tegula.open_group(target, consolidated=True)["x"].shape == (12, 5)
    assert tegula.sync(source, target).is_same


def test_what_is_refused_does_not_keep_the_rest_from_being_synced(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    made, group = tegula.open_group(target, mode="r+"), tegula.open_group(source, mode="r+")
    made["y"][0], made["sub"].attrs["mine"] = -1, 1
    made.create_group("own")
    del group["y"]
    group.create_group("y").create_group("inner").create_array("a", data=[1])
    group["sub"].attrs["theirs"] = 2
    group["x"][0] = 8
    group.create_array("z", data=[1, 2])
    with pytest.raises(tegula.ConflictError) as caught:
        tegula.sync(source, target, delete=True)
    for what in (
        "the chunk (0,) that others have changed in ",
        "attributes of the group",
        "a node that no sync has made",
    ):
        assert what in caught.value.message
    report = caught.value.report  # type: ignore[attr-defined]
    assert not report.ok
    assert {*report.failed} == {"y", "sub", "own"}
    assert actions(report) == {"x": "changed", "z": "new", "sub/z": "same"}
    assert made["y"][0] == -1
    assert made["sub"].attrs.asdict() == {"mine": 1}
    assert "own" in made
    assert tegula.compare(source / "x", target / "x").equal
    wanted = tegula.diff(source, target, delete=True)
    assert {*wanted.overwritten} == {"y", "sub", "own"}
    assert tegula.sync(source, target, delete=True, force=True).overwritten == wanted.overwritten
    check_same(source, target)
    assert tegula.sync(source, target).is_same


def test_a_root_that_may_not_be_replaced_is_refused(mirror: tuple[Path, Path], tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "own.zarr", data=[1])
    with pytest.raises(tegula.ConflictError, match="a node that no sync has made"):
        tegula.sync(mirror[0], tmp_path / "own.zarr")
    assert tegula.open(tmp_path / "own.zarr")[:].tolist() == [1]
    tegula.sync(mirror[0], tmp_path / "own.zarr", force=True)
    check_same(mirror[0], tmp_path / "own.zarr")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1, 3)], ids=str)
def test_arrays_are_replaced_by_one_of_several_parts(
    mirror: tuple[Path, Path], order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "BLOCK_BYTES", 1)  # a unit is one chunk
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    for name in ("x", "y"):
        group.create_array(name, data=np.random.default_rng(0).random((4, 4, 4)), chunks=(2, 3, 4), overwrite=True)
    group.create_array("n", data=np.arange(60), chunks=2)
    del group["sub"]
    reports = [tegula.sync(source, target, part=(number, 3), delete=True) for number in order]
    assert all(report.ok for report in reports)
    assert [bool(report.units_left) for report in reports[:3]] == [True, True, False]
    assert not [*target.glob(".tegula_job*")]
    check_same(source, target)
    assert tegula.sync(source, target).is_same


def test_the_root_is_replaced_by_one_of_several_parts(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    for data in (np.arange(6), np.arange(12.0).reshape(3, 4)):
        tegula.create_array(source, data=data, chunks=(2,) * data.ndim, overwrite=True)
        reports = [tegula.sync(source, target, part=(number, 3)) for number in (2, 1, 3)]
        assert not reports[-1].units_left
        check_same(source, target)
        assert tegula.sync(source, target).is_same


def test_parts_leave_a_group_in_the_place_of_an_array_to_a_whole_sync(mirror: tuple[Path, Path]) -> None:
    source, target = mirror
    group = tegula.open_group(source, mode="r+")
    del group["x"]
    group.create_group("x").create_array("inner", data=[1])
    group["y"][0] = 9
    for number in (1, 2):
        report = tegula.sync(source, target, part=(number, 2))
        assert "sync once without part" in report.failed["x"]
    assert tegula.open(target)["y"][0] == 9
    assert tegula.open(target)["x"].ndim == 2
    tegula.sync(source, target)
    check_same(source, target)
