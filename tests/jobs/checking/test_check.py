"""`tegula.check`: its arguments, data of other libraries, and memory."""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allocations import peak
from tests.waiting import join

import tegula
from tegula import config
from tegula.errors import MetadataError, NotFoundError, StoreError, UnsupportedError
from tegula.jobs.checking.check import KINDS, CheckReport
from tegula.runtime import executors
from tegula.stores import LocalStore, MemoryStore, ZipStore

TESTS = Path(__file__).parents[2]
FIXTURES = TESTS / "fixtures"
NO_DIRECTORY = {"len_0", "nd_0x3", "ct_no_rows", "objects_none"}
"""An archive has no empty directories, so these have lost one."""

TRUE_OF = {
    "group": {"consolidated-missing"}, "mut_trim_to_boundary": {"chunk-outside"},
    "mut_trim_to_nothing": {"chunk-outside"}, "ct_changed": {"unlisted-column"}, "ct_unequal": {"unequal-columns"},
    "ct_unequal_first": {"unequal-columns"}, "hand_nbytes_wrong": {"wrong-counts"},
    "hand_cbytes_wrong": {"wrong-counts"}, "hand_last_chunk_padded": {"leftover-rows"},
    "hand_last_chunk_longer": {"leftover-rows"}, "killed_before_flush": {"chunk-outside", "leftover-rows"},
    "hand_foreign_files": {"system-files"}, "hand_foreign_files_table": {"system-files"},
    "hand_header_of_blp_unusual": {"trailing-bytes"}, **{name: {"missing-directory"} for name in NO_DIRECTORY},
}  # fmt: skip
"""The expected findings in fixtures that are read without an error."""

NOT_DAMAGE = {
    "err_huge", "err_dtype_huge", "err_dtype_no_bytes", "err_dtype_object_inside", "err_shape_9", "err_compression",
    "err_must_understand", "err_data_type", "err_storage_transformers", "err_codec", "err_entry_extension",
    "err_entry_version", "err_extension", "zarr3draft-2.18.7/err_grid",
}  # fmt: skip
"""Fixtures that are refused for what tegula can't do, or does not want to."""


SNAPPY = {"blosc_snappy", "hand_snappy"}


def kinds(report: CheckReport) -> set[str]:
    return {found.kind for found in report.findings}


def cases(root: Path, archive: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    folder = root / archive.stem
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
        index = json.loads(opened.read("index.json"))
    for name, original in index.get("copies", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / original, folder / name)
    for case in index["cases"]:
        yield case, folder / case["case"] / "store" / case.get("store", "")


@pytest.mark.parametrize("sharded", [False, True])
def test_squeezed_chunks_are_checked(sharded: bool) -> None:
    store = MemoryStore()
    codecs: Any = ["zarrs.squeeze", "zstd"]
    codecs = {"name": "sharding_indexed", "chunk_shape": [1, 1], "codecs": codecs} if sharded else codecs
    array = tegula.create_array(store, shape=(4, 1), chunks=(2, 1), dtype="i4", codecs=codecs)
    array[:] = 5
    report = tegula.check(store)
    assert report.findings == []
    assert report.chunks == (4 if sharded else 2)
    store.set("c/0/0", b"damaged")
    assert [finding.kind for finding in tegula.check(store).findings] == [
        "damaged-index" if sharded else "damaged-chunk"
    ]


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("archive", sorted(FIXTURES.glob("*.zip")), ids=lambda path: path.stem)
def test_files_of_other_libraries_are_clean_and_damaged_ones_are_not(archive: Path, tmp_path: Path) -> None:
    for case, store in cases(tmp_path, archive):
        report = tegula.check(store, path=case["path"], allow_pickle=True)
        name = case["case"]
        if case["kind"] in ("array", "group", "table", "pickle", "hierarchy") and name not in SNAPPY:
            expected = set() if case["path"] else TRUE_OF.get(name, set())
            assert kinds(report) == expected, f"{name}: {report}"
            assert report.ok or name == "ct_unequal_first"
        elif case["kind"] == "unsupported" or name in SNAPPY:  # the kernel alone can read it
            needs = set() if config.current().executor != "reference" and executors.kernel() else {"unsupported"}
            assert kinds(report) == needs, f"{name}: {report}"
        elif not NOT_DAMAGE.isdisjoint({name, f"{archive.stem}/{name}"}):
            assert not report.errors, f"{name}: {report}"
            assert report.counts["unsupported"] == 1
        else:
            assert not report.ok, f"{name}: {report}"


def test_the_examples_are_clean() -> None:
    for path in sorted((TESTS.parent / "examples" / "legacy").glob("*.*")):
        if path.is_dir():
            assert tegula.check(path).findings == []


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("corpus", ["zarr04", "zarr1", "zarr2", "zarr3", "zarr3draft"])
def test_the_arrays_of_the_corpora_are_clean(corpus: str, unpacked_sample: Callable[[str], Path]) -> None:
    folder = unpacked_sample(corpus)
    for case in json.loads((folder / "index.json").read_text())["cases"]:
        if case["kind"] == "array":
            report = tegula.check(folder / case["path"], allow_pickle=True)
            allowed = {"implicit-group", "chunk-outside", "missing-directory", "leftover-rows", "unsupported"}
            assert kinds(report) <= allowed, f"{case['case']}: {report}"


# --- sources


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_any_source(format: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    tegula.create_array(path, shape=9, chunks=4, dtype="i4", format=format, path="a/b")[...] = range(9)
    archive = tmp_path / "x.zip"
    tegula.create_array(archive, shape=9, chunks=4, dtype="i4", format=format, path="a/b")[...] = range(9)
    mapping: dict[str, bytes] = {}
    tegula.create_array(mapping, shape=9, chunks=4, dtype="i4", format=format, path="a/b")[...] = range(9)
    for source in (path, str(path), path.as_uri(), archive, mapping, LocalStore(path), ZipStore(archive, mode="r")):
        report = tegula.check(source)
        assert (report.arrays, report.chunks, report.findings) == (1, 3, []), str(report)
        assert report.nbytes_decoded == (36 if format == "bcolz" else 48)
    array = tegula.open_array(path, path="a/b")
    assert tegula.check(array).arrays == tegula.check(path, path="a/b").arrays == 1
    assert tegula.check(array).groups == 0
    if format.startswith("zarr"):
        assert tegula.check(tegula.open(path)).ok


def test_the_old_layout_of_zarr_0_4() -> None:
    document = {
        "zarr_format": 0, "shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": 0, "cname": "lz4", "clevel": 1,
        "shuffle": 1,
    }  # fmt: skip
    store = MemoryStore()
    store.set("__zmeta__", json.dumps(document).encode())
    report = tegula.check(store)
    assert report.arrays == 1 or kinds(report) == {"metadata"}
    store.set("__zdata__/0.blosc", b"damaged")
    assert not tegula.check(store).ok


def test_counts() -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    group.create_array("x", shape=(10, 10), chunks=(5, 5), shards=(10, 10), dtype="i4", codecs=None)[:5] = 1
    group.create_array("y", shape=100, chunks=10, dtype="u1", codecs=None)[:25] = 1
    tegula.create_table(store, {"a": [1, 2]}, path="t", format="zarr3")
    report = tegula.check(store)
    assert (report.groups, report.tables, report.arrays, report.ok) == (1, 1, 3, True)
    assert (report.chunks, report.missing_chunks) == (2 + 3 + 1, 7)
    assert report.nbytes_decoded == 2 * 25 * 4 + 30 + 16
    assert report.nbytes_stored == sum(store.size(key) or 0 for key in store.list() if not key.endswith("zarr.json"))


@pytest.mark.parametrize("shape", [(700, 0), (0, 3), (0,)])
def test_an_array_without_elements_lacks_no_chunk(shape: tuple[int, ...]) -> None:
    array = tegula.create_array({}, shape=shape, chunks=(100,), dtype="i4", format="bcolz")
    assert not tegula.check(array).findings


def test_nothing_there(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "none", tmp_path / "none.zip", MemoryStore(), {"README": b"hello"}):
        with pytest.raises(NotFoundError):
            tegula.check(source)
        with pytest.raises(NotFoundError):
            tegula.check(source, repair=True)
    assert [*tmp_path.iterdir()] == []
    store = MemoryStore()
    tegula.create_group(store)
    with pytest.raises(NotFoundError):
        tegula.check(store, path="x")
    with pytest.raises(MetadataError):
        tegula.check(store, max_findings=-1)


def test_a_damaged_root_hides_nothing_below() -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    for name in ("a", "b", "c"):
        group.create_array(name, shape=4, chunks=1, dtype="u1", codecs=["bytes", "crc32c"])[...] = 1
    store.set("zarr.json", b"{")
    store.set("a/zarr.json", b"{")
    store.set("b/c/0", b"x")
    store.set("b/c/2", b"y")
    report = tegula.check(store)
    found = sorted((found.kind, found.key) for found in report.findings)
    assert found == [
        ("damaged-chunk", "b/c/0"), ("damaged-chunk", "b/c/2"), ("metadata", "a/zarr.json"), ("metadata", "zarr.json"),
    ]  # fmt: skip
    assert report.chunks == 2 + 4


def test_every_damaged_inner_chunk_is_reported() -> None:
    store = MemoryStore()
    a = tegula.create_array(store, shape=64, chunks=4, shards=32, dtype="i4", codecs=["bytes", "crc32c"])
    a[...] = np.arange(1, 65)
    raw = bytearray(store.get("c/1") or b"")
    for number in (0, 3, 7):
        raw[number * 20 + 5] ^= 1
    store.set("c/1", raw)
    report = tegula.check(store)
    assert [found.message.partition(":")[0] for found in report.findings] == [
        f"inner chunk ({number},)" for number in (0, 3, 7)
    ]
    assert report.chunks == 16 - 3


@pytest.mark.parametrize("dtype", [str, bytes])
def test_texts(dtype: Any) -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=4, chunks=2, dtype=dtype, codecs=None)[...] = [dtype()] * 3 + [
        b"e" if dtype is bytes else "e"
    ]
    assert tegula.check(store).ok
    store.set("c/1", (store.get("c/1") or b"")[:-1])
    assert kinds(tegula.check(store)) == {"damaged-chunk"}


def test_pickles_are_not_run_unasked() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=2, dtype=object, format="bcolz", allow_pickle=True)[...] = [{}, 1]
    report = tegula.check(store)
    assert kinds(report) == {"unsupported"}
    assert report.ok
    assert not report.chunks
    assert tegula.check(store, allow_pickle=True).findings == []


def test_chunks_beyond_the_limit_are_not_damage() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=1000, chunks=1000, dtype="u1")
    with config.configure(max_chunk_bytes=100):
        assert kinds(tegula.check(store)) == {"unsupported"}


# --- bounds


def test_only_so_many_findings_are_kept_but_all_are_counted() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=50, chunks=1, dtype="u1", codecs=None)[...] = 1
    for number in range(50):
        store.set(f"c/{number}", b"too long")
    report = tegula.check(store, max_findings=7)
    assert len(report.findings) == 7
    assert report.counts == {"damaged-chunk": 50}
    assert report.errors == 50
    assert str(report).endswith("... and 43 more of the kind damaged-chunk")
    assert tegula.check(store, max_findings=0).errors == 50


def test_many_missing_chunks_are_one_finding() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=10, chunks=1, dtype="u1", format="bcolz")[...] = 1
    sizes = json.loads(store.get("meta/sizes") or b"")
    store.set("meta/sizes", json.dumps({**sizes, "shape": [10**15], "nbytes": 10**15}).encode())
    report = tegula.check(store)
    missing = [found for found in report.findings if found.kind == "missing-chunk"]
    assert len(missing) == 101
    assert missing[-1].message == f"{10**15 - 110} more chunks are missing"


class Endless(MemoryStore):
    """A store of very many chunks, which it generates."""

    def __init__(self, chunks: int, value: bytes) -> None:
        super().__init__()
        self.chunks = chunks
        self.value = value

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        if not key.startswith("c/"):
            return super().get(key, byte_range, with_generation=with_generation)
        value = bytes(bytearray(self.value))  # a new one each time
        return (value, 1) if with_generation else value

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from super().list_prefix(prefix)
        yield from (f"c/{number}" for number in range(self.chunks))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_chunks() -> None:
    def peak_of_chunks(chunks: int) -> int:
        store = Endless(chunks, b"\1" * 8)
        tegula.create_array(store, shape=chunks * 8, chunks=8, dtype="u1", codecs=None)
        tegula.check(store)  # what is imported and remembered on the way
        return peak(lambda: tegula.check(store))

    assert peak_of_chunks(10_000) < peak_of_chunks(100) + 100_000


def test_few_chunks_are_in_memory_at_a_time() -> None:
    size, threads = 2**20, 2
    store = Endless(40, b"\1" * size)
    tegula.create_array(store, shape=40 * size, chunks=size, dtype="u1", codecs=None)
    with config.configure(threads=threads):
        assert peak(lambda: tegula.check(store)) < 3 * size * threads


def test_progress() -> None:
    store = MemoryStore()
    for name in ("x", "y"):
        tegula.create_array(store, shape=100, chunks=10, dtype="u1", path=name)[...] = 1
    told: list[tuple[str, int, int]] = []
    tegula.check(store, progress=lambda *found: told.append(found))
    assert {name for name, _, _ in told} == {"x", "y"}
    for name in ("x", "y"):
        mine = [(done, total) for found, done, total in told if found == name]
        assert mine[0] == (0, 100)
        assert mine[-1] == (100, 100)
        assert sorted(mine) == mine
        assert len(mine) > 10


# --- stores that fail, and others at work


class Failing(MemoryStore):
    """A store that can't read some keys."""

    lost: frozenset[str] = frozenset()

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        if key in self.lost:
            raise StoreError("the disk is broken", key=key)
        return super().get(key, byte_range, with_generation=with_generation)


def test_unreadable_files_are_found_and_hide_nothing() -> None:
    store = Failing()
    group = tegula.create_group(store)
    for name in ("a", "b", "c"):
        group.create_array(name, shape=4, chunks=1, dtype="u1")[...] = 1
    store.lost = frozenset({"a/zarr.json", "b/c/1", "b/c/3"})
    report = tegula.check(store)
    assert sorted(found.key for found in report.findings) == ["a/zarr.json", "b/c/1", "b/c/3"]
    assert kinds(report) == {"unreadable"}
    assert report.chunks == 6
    assert not report.ok


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("kind", ["memory", "files"])
def test_active_writers_are_not_findings(format: str, kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "x")
    table = {"x": np.arange(50), "y": np.arange(50) / 4}
    tegula.create_table(store, table, format=format, chunks=16, path="t" if format == "bcolz" else "")
    if format == "zarr3":
        tegula.create_array(store, shape=64, chunks=2, shards=16, dtype="i4", path="s")[...] = 1
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        mine = tegula.open_table(store, "r+", path="t" if format == "bcolz" else "")
        try:
            while not stop.is_set():
                mine.append({"x": [1, 2, 3], "y": [1, 2, 3]})
                mine["x"][5:20] = 7
                mine.attrs["n"] = len(mine)
                if format == "zarr3":
                    tegula.open_array(store, "r+", path="s")[:] = len(mine)
                if len(mine) > 300:
                    mine.resize(50)
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reports = [tegula.check(store) for _ in range(8)]
    finally:
        stop.set()
        join([writer])
    assert not failed
    for report in reports:
        assert report.ok, str(report)
        assert kinds(report) <= {"leftover-rows", "chunk-outside", "wrong-counts"}, str(report)
    final = tegula.check(store)
    assert kinds(final) <= {"leftover-rows", "wrong-counts"}, str(final)


class Interrupted(MemoryStore):
    """A store that runs another action between the reading of a document and a listing."""

    between: Callable[[], Any] | None = None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        act, self.between = self.between, None
        if act is not None:
            act()
        return super().list_prefix(prefix)


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("rows", [0, 3, 12, 20, 26, 95])
def test_a_length_that_changes_during_the_check_is_not_a_finding(format: str, rows: int) -> None:
    store = Interrupted()
    array = tegula.create_array(store, shape=25, chunks=10, dtype="i4", format=format)
    array[...] = 1

    def act() -> None:
        array.resize(rows)
        if rows:
            array[...] = 2

    store.between = act
    report = tegula.check(store)
    assert kinds(report) <= {"wrong-counts"}, str(report)
    assert report.chunks == -(-rows // 10)
    assert report.missing_chunks == 0


def test_a_deletion_during_the_check_is_not_a_finding() -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=20, chunks=1, dtype="u1", format="bcolz", path="x")
    array[...] = 1

    def delete(name: str, done: int, total: int) -> None:
        if done == 5:
            store.delete_prefix("x/")

    assert tegula.check(store, progress=delete).findings == []


def test_every_kind_is_described_in_the_guide() -> None:
    guide = (TESTS.parent / "docs" / "how-to" / "check-and-repair.md").read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.severity}" in guide, name


def test_a_codec_whose_package_is_missing_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=4, dtype="u1", codecs=None)[...] = 1

    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedError("install it", codec="bytes")

    monkeypatch.setattr("tegula.codecs.chain.CodecChain.decode", refuse)
    with config.configure(executor="reference"):  # the kernel reads it by itself
        report = tegula.check(store)
    assert kinds(report) == {"unsupported"}
    assert report.ok
