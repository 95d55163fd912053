"""Repairs: they do what the report says, and lose nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import NotFoundError, ReadOnlyError
from tegula.jobs.checking.check import CheckReport, Finding
from tegula.stores import LocalStore, MemoryStore, Store
from tegula.stores.local.open_files import acquire


def contents(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def edit(store: Store, key: str, **changes: Any) -> None:
    store.set(key, json.dumps({**json.loads(store.get(key) or b""), **changes}).encode())


def repaired(source: Any, *kinds: str, changes: set[str], **options: Any) -> CheckReport:
    """Check, repair without writing, repair, and check again; only the named keys may change."""
    store = source if isinstance(source, Store) else LocalStore(source)
    before = contents(store)
    first = tegula.check(source, repair=True, dry_run=True, **options)
    assert [found.kind for found in first.findings if found.repair] == [*kinds], str(first)
    assert not any(found.repaired for found in first.findings)
    assert contents(store) == before
    announced: list[Finding] = []
    report = tegula.check(source, repair=True, announce=announced.append, **options)
    assert [found.kind for found in report.findings if found.repaired] == [*kinds], str(report)
    assert {found.kind for found in announced} == {*kinds}
    assert report.failed_repairs == {}
    after = contents(store)
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} == changes
    second = tegula.check(source, **options)
    assert not {found.kind for found in second.findings} & {*kinds}, str(second)
    assert (second.errors, second.warnings) == (report.errors, report.warnings)
    return report


def test_two_repairs_of_one_document(tmp_path: Path) -> None:
    document = {"zarr_format": 2, "shape": [4, 4], "chunks": [2.0, 2.0], "dtype": "<i4", "compressor": None,
                "fill_value": 0, "order": "C", "filters": None}  # fmt: skip
    chunks = {f"{i}/{j}": b"\1\0\0\0" * 4 for i in (0, 1) for j in (0, 1)}
    tegula.create_group(tmp_path / "2", format="zarr2")
    for name, raw in {".zarray": json.dumps(document).encode(), **chunks}.items():
        LocalStore(tmp_path / "2").set(f"a/{name}", raw)
    tegula.create_array(tmp_path / "3", path="a", shape=(4, 4), chunks=(2, 2), dtype="i4")[:] = 1
    encoding = {"name": "v2", "configuration": {"separator": "."}}
    edit(LocalStore(tmp_path / "3"), "a/zarr.json", chunk_key_encoding=encoding, storage_transformers=None)
    for root, key in ((tmp_path / "2", "a/.zarray"), (tmp_path / "3", "a/zarr.json")):
        repaired(root, "unusual-document", "misplaced-chunks", changes={key})
        assert tegula.open(root)["a"][:].tolist() == [[1] * 4] * 4


def test_repairs_of_a_document_and_of_its_consolidated_copy(tmp_path: Path) -> None:
    root = tegula.create_group(tmp_path / "x")
    root.create_array("a", shape=4, chunks=2, dtype="i4")[:] = 1
    root.consolidate()
    edit(LocalStore(tmp_path / "x"), "a/zarr.json", storage_transformers=None, attributes={"new": 1})
    kinds = "consolidated-differs", "unusual-document"
    report = tegula.check(tmp_path / "x", repair=True)
    assert report.failed_repairs == {}, str(report)
    assert {found.kind for found in report.findings if found.repaired} == {*kinds}
    assert tegula.check(tmp_path / "x").findings == []


# --- temporary files


def test_temporary_files_of_dead_writers(tmp_path: Path) -> None:
    a = tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4")
    a[...] = 1
    for name in (".tegula-99999999-0a.tmp", "c/.tegula-99999999-0b.tmp"):
        (tmp_path / "x" / name).write_bytes(b"half")
    report = repaired(tmp_path / "x", "temporary-file", "temporary-file", changes=set())
    assert sorted(found.key for found in report.findings) == [
        ".tegula-99999999-0a.tmp",
        "c/.tegula-99999999-0b.tmp",
    ]
    assert not [*(tmp_path / "x").rglob("*.tmp")]
    assert a[:].tolist() == [1] * 4


def test_temporary_files_of_writers_at_work_are_left_alone(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=4, dtype="i4")
    path = tmp_path / "x" / ".tegula-1-0a.tmp"
    with path.open("wb") as file:
        acquire(file.fileno(), str(path), wait=False)
        assert tegula.check(tmp_path / "x", repair=True).findings == []
        assert path.exists()
    assert tegula.check(tmp_path / "x", repair=True).warnings == 0
    assert not path.exists()


# --- consolidated metadata


@pytest.mark.parametrize(("format", "key"), [("zarr2", ".zmetadata"), ("zarr3", "zarr.json")])
def test_consolidated_metadata_is_written_again(format: str, key: str) -> None:
    store = MemoryStore()
    group = tegula.create_group(store, format=format)
    for name in ("a", "b", "c/d"):
        group.create_array(name, shape=2, dtype="u1")
    group.consolidate()
    group["a"].attrs["unit"] = "m"
    group["b"].resize(3)
    del group["c/d"]
    group.create_group("late")
    kinds = ["consolidated-differs"] * 2 + ["consolidated-missing", "consolidated-gone"]
    repaired(store, *kinds, changes={key})
    copy = tegula.open_group(store, consolidated=True)
    assert sorted(copy) == ["a", "b", "c", "late"]
    assert copy["a"].attrs["unit"] == "m"
    assert copy["b"].shape == (3,)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_copy_that_may_be_the_last_one_is_kept(format: str) -> None:
    for damage in ("gone", "torn"):
        store = MemoryStore()
        group = tegula.create_group(store, format=format)
        for name in ("a", "b"):
            group.create_array(name, shape=2, dtype="u1")[...] = 1
        group.consolidate()
        group["a"].attrs["unit"] = "m"
        document = "b/zarr.json" if format == "zarr3" else "b/.zarray"
        if damage == "gone":
            store.delete(document)
            store.delete("b/.zattrs")
        else:
            store.set(document, b"{")
        before = contents(store)
        report = tegula.check(store, repair=True)
        assert not any(found.repair for found in report.findings), str(report)
        assert "consolidated-differs" in report.counts
        assert ("consolidated-gone" in report.counts) == (damage == "gone")
        assert contents(store) == before


# --- what bcolz counts


@pytest.mark.parametrize("wrong", [{"nbytes": 1}, {"cbytes": 1}, {"nbytes": 3, "cbytes": "many"}])
def test_counts_are_corrected(wrong: dict[str, Any]) -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=25, chunks=10, dtype="i4", format="bcolz")
    a[...] = np.arange(25)
    edit(store, "meta/sizes", **wrong)
    repaired(store, "wrong-counts", changes={"meta/sizes"})
    sizes = json.loads(store.get("meta/sizes") or b"")
    assert sizes["shape"] == [25]
    assert sizes["nbytes"] == 100
    assert tegula.open_array(store)[:].tolist() == [*range(25)]


def test_counts_are_kept_where_the_length_is_uncertain() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=25, chunks=10, dtype="i4", format="bcolz")[...] = np.arange(25)
    edit(store, "meta/sizes", shape=[13])
    report = tegula.check(store, repair=True)
    assert {found.kind: found.repair for found in report.findings} == {
        "chunk-outside": None, "leftover-rows": None, "wrong-counts": None,
    }  # fmt: skip
    assert json.loads(store.get("meta/sizes") or b"")["nbytes"] == 100


def test_a_repair_gives_way_to_another_writer() -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=25, chunks=10, dtype="i4", format="bcolz")
    edit(store, "meta/sizes", nbytes=1)
    report = tegula.check(store, repair=True, announce=lambda found: a.append([7]) and None)
    assert [*report.failed_repairs] == ["meta/sizes"]
    assert "changed" in report.failed_repairs["meta/sizes"]
    assert not report.findings[0].repaired
    assert report.warnings == 1
    assert tegula.open_array(store).shape == (26,)


# --- directories


def test_the_directory_of_an_empty_array_is_made(tmp_path: Path) -> None:
    path = tmp_path / "x"
    tegula.create_array(path, shape=0, dtype="i4", format="bcolz")
    (path / "data").rmdir()
    repaired(path, "missing-directory", changes=set())
    assert (path / "data").is_dir()


# --- tables


def table(store: Any) -> Any:
    columns = {"x": np.arange(25), "y": np.arange(25) / 4, "z": np.arange(25)}
    return tegula.create_table(store, columns, chunks=10)


class Killed(BaseException):
    """An exception that ends a writer as a kill would."""


class Mortal(MemoryStore):
    """A store that fails after some writes, as if its process had been killed."""

    left = 10**9

    def set(self, key: str, value: Any, *, if_generation: Any = None) -> Any:
        self._step()
        return super().set(key, value, if_generation=if_generation)

    def delete(self, key: str, *, if_generation: Any = None) -> None:
        self._step()
        super().delete(key, if_generation=if_generation)

    def _step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


def killed_after(steps: int, act: Callable[[Any], Any]) -> tuple[Mortal, bool]:
    store = Mortal()
    found = table(store)
    store.left = steps
    try:
        act(found)
    except Killed:
        done = False
    else:
        done = True
    store.left = 10**9
    return store, done


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("act", "rows"),
    [
        (lambda t: t.append({name: np.arange(12) for name in "xyz"}), 37),
        (lambda t: t.resize(40), 40),
        (lambda t: t.resize(4), 4),
    ],
    ids=["append", "grow", "shrink"],
)
def test_whenever_a_table_is_killed_repair_gives_all_columns_its_length(act: Any, rows: int) -> None:
    old = table(MemoryStore())[:]
    steps, unequal, done = 0, 0, False
    while not done:
        store, done = killed_after(steps, act)
        before, chunks = tegula.open_table(store)[:], contents(store)
        report = tegula.check(store, repair=True)
        unequal += report.counts.get("unequal-columns", 0)
        assert (report.errors, report.warnings, report.failed_repairs) == (0, 0, {}), f"{steps}: {report}"
        found = tegula.open_table(store, "r+")
        assert found.is_consistent
        assert len(found) in (25, rows)
        assert found[:].tobytes() == before.tobytes()
        assert found[: min(25, rows)].tobytes() == old[: min(25, rows)].tobytes()
        after = contents(store)  # no chunk has changed
        assert {k: v for k, v in after.items() if "data/" in k} == {k: v for k, v in chunks.items() if "data/" in k}
        assert {*tegula.check(store).counts} <= {"leftover-rows", "chunk-outside", "wrong-counts"}
        found.append({name: [1] for name in "xyz"})
        assert found[:-1].tobytes() == before.tobytes()
        steps += 1
    assert unequal >= 2  # some of these deaths left the columns unequal
    assert steps > 6


def test_an_append_of_bcolz_that_did_not_reach_all_columns() -> None:
    store = MemoryStore()
    found = table(store)
    tegula.open_array(store, "r+", path="x").append([25, 26])
    before = found[:]
    report = repaired(store, "unequal-columns", changes={"x/meta/sizes"})
    assert report.findings[0].severity == "error"
    assert report.ok
    again = tegula.open_table(store)
    assert again.is_consistent
    assert again[:].tobytes() == before.tobytes()


def test_a_short_length_is_not_believed_against_the_chunks() -> None:
    store = MemoryStore()
    table(store)
    for rows in (20, 17, 3, 0):
        edit(store, "y/meta/sizes", shape=[rows], nbytes=rows * 8)
        before = contents(store)
        report = tegula.check(store, repair=True)
        found = [item for item in report.findings if item.kind == "unequal-columns"]
        assert len(found) == 1
        assert found[0].repair is None
        assert not report.ok
        assert contents(store) == before


def test_an_append_before_the_repair_wins() -> None:
    store = MemoryStore()
    found = table(store)
    tegula.open_array(store, "r+", path="z").append([25, 26])  # as an append that was killed

    def append(_: Finding) -> None:
        found.refresh()
        found.append({name: [7, 8] for name in "xyz"})

    tegula.check(store, repair=True, announce=append)
    again = tegula.open_table(store)
    assert again.is_consistent
    assert again["z"][-3:].tolist() == [24, 7, 8]


def test_tables_of_zarr() -> None:
    store = MemoryStore()
    tegula.create_table(store, {"x": np.arange(5), "y": np.arange(5)}, format="zarr3", chunks=2)
    tegula.open_array(store, "r+", path="y").append([5])
    report = tegula.check(store, repair=True)
    assert report.ok
    assert report.findings[0].repaired
    assert tegula.open_table(store).lengths() == {"x": 5, "y": 5}
    tegula.open_array(store, "r+", path="x").append([5])
    report = tegula.check(store, repair=True)  # nothing shows which of them is right
    assert not report.ok
    assert report.findings[0].repair is None


# --- who may repair


def test_read_only_nodes_are_not_repaired(tmp_path: Path) -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    group.consolidate()
    group.create_group("late")
    with pytest.raises(ReadOnlyError, match="r\\+"):
        tegula.check(tegula.open(store), repair=True)
    assert tegula.check(tegula.open(store), repair=True, dry_run=True).warnings == 1
    assert tegula.check(tegula.open(store, "r+"), repair=True).warnings == 0
    with pytest.raises(ReadOnlyError):
        tegula.check(LocalStore(tmp_path, read_only=True), repair=True)
    with pytest.raises(NotFoundError):
        tegula.check(tmp_path / "none", repair=True)
    assert os.listdir(tmp_path) == []


def test_damaged_chunks_are_never_deleted() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=4, chunks=2, dtype="u1")[...] = 1
    for key in ("c/0", "c/7", "stray"):
        store.set(key, b"x")
    before = contents(store)
    report = tegula.check(store, repair=True)
    assert len(report.findings) == 3
    assert not any(found.repair for found in report.findings)
    assert contents(store) == before


def test_a_repair_of_findings_that_are_not_kept_is_done() -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    group.consolidate()
    for name in "abcd":
        group.create_group(name)
    report = tegula.check(store, repair=True, max_findings=1)
    assert report.counts == {"consolidated-missing": 4}
    assert report.warnings == 0
    assert tegula.check(store).findings == []


def test_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with tegula.store_of(path) as store:
        group = tegula.create_group(store)
        group.create_array("a", shape=4, chunks=2, dtype="u1")[...] = 1
        group.consolidate()
        group["a"].attrs["unit"] = "m"
    before = path.read_bytes()
    assert tegula.check(path, repair=True, dry_run=True).warnings == 1
    assert path.read_bytes() == before
    assert tegula.check(path, repair=True).warnings == 0
    assert tegula.check(path).findings == []
    assert tegula.open(path)["a"][:].tolist() == [1] * 4


def test_a_table_with_damage_keeps_its_lengths() -> None:
    for damaged in ("x/data/__0.blp", "z/meta/storage"):
        store = MemoryStore()
        table(store)
        tegula.open_array(store, "r+", path="z" if damaged.startswith("x") else "y").append([25.0])
        store.set(damaged, b"{")
        before = contents(store)
        report = tegula.check(store, repair=True)
        assert not report.ok
        assert "unequal-columns" in report.counts
        assert contents(store) == before
