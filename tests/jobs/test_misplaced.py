"""Chunks under the keys of another chunk key encoding: found, repaired, and not taken for missing chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tegula
from tegula.errors import MetadataError
from tegula.metadata.chunk_keys import ENCODINGS, ChunkKeyEncoding
from tegula.stores import LocalStore, MemoryStore, Store, ZipStore

VALUES = np.arange(1, 37, dtype="i4").reshape(6, 6)
DOCUMENTS = {"zarr2": ".zarray", "zarr3": "zarr.json"}
FIELDS = {"zarr2": "dimension_separator", "zarr3": "chunk_key_encoding"}
ALL = [
    (format, stated, found)
    for format in FIELDS
    for stated in ENCODINGS
    for found in ENCODINGS
    if stated != found and not (format == "zarr2" and stated.prefix)
]


def misplaced(
    format: str, stated: ChunkKeyEncoding, found: ChunkKeyEncoding, store: Store, path: str = "", values: Any = VALUES
) -> Store:
    """Return a store with an array whose chunks have the keys of `found`, and whose document states `stated`."""
    name = ("v2", "default")[bool(stated.prefix)]
    keys = {"name": name, "separator": stated.separator} if format == "zarr3" else stated.separator
    chunks = tuple(2 for _ in values.shape)
    array = tegula.create_array(
        store, path=path, shape=values.shape, chunks=chunks, dtype="i4", format=format, chunk_key_encoding=keys
    )
    array[...] = values
    prefix = f"{path}/" if path else ""
    for coords in np.ndindex(*(3 for _ in values.shape)):
        raw = store.get(prefix + stated.encode(coords))
        if stated.encode(coords) != found.encode(coords):
            store.delete(prefix + stated.encode(coords))
            store.set(prefix + found.encode(coords), raw or b"")
    return store


def as_stated(keys: ChunkKeyEncoding) -> str:
    return f"{keys.prefix}0{keys.separator}0"


@pytest.mark.parametrize(("format", "stated", "found"), ALL, ids=lambda keys: getattr(keys, "template", str)(2))
def test_check_names_the_field_and_repairs_it(format: str, stated: Any, found: Any) -> None:
    store = misplaced(format, stated, found, MemoryStore())
    assert not tegula.open(store)[...].any()
    report = tegula.check(store)
    (finding,) = report.findings
    assert (finding.kind, finding.key, finding.severity, report.ok) == (
        "misplaced-chunks", DOCUMENTS[format], "error", False,
    )  # fmt: skip
    text = f"9 chunks under keys such as '{as_stated(found)}', where the document means '{as_stated(stated)}'"
    assert text in finding.message
    if format == "zarr2" and found.prefix:  # no field of Zarr v2 names these keys
        assert finding.repair is None
        assert "zarr2 can't name them" in finding.message
        return
    assert FIELDS[format] in finding.message
    assert finding.repair
    report = tegula.check(store, repair=True)
    assert report.ok, str(report)
    assert [finding.repaired for finding in report.findings] == [True]
    assert tegula.check(store).findings == []
    np.testing.assert_array_equal(tegula.open(store)[...], VALUES)


@pytest.mark.parametrize("kind", ["local", "zip"])
@pytest.mark.parametrize("format", FIELDS)
def test_the_repair_of_files_is_read_by_zarr_python(format: str, kind: str, tmp_path: Path) -> None:
    """The document is repaired in place: other members, their order and the layout are as before."""
    place = tmp_path / ("a.zip" if kind == "zip" else "a")
    store: Store = ZipStore(place, mode="w") if kind == "zip" else LocalStore(place)
    misplaced(format, ENCODINGS[0], ENCODINGS[1], store)
    before = json.loads(store.get(DOCUMENTS[format]) or b"")
    store.close()
    report = tegula.check(place, repair=True)
    assert report.ok, str(report)
    opened = zarr.storage.ZipStore(place) if kind == "zip" else place
    np.testing.assert_array_equal(np.asarray(zarr.open_array(opened, mode="r")[...]), VALUES)
    again: Store = ZipStore(place) if kind == "zip" else LocalStore(place)
    after = json.loads(again.get(DOCUMENTS[format]) or b"")
    field = FIELDS[format]
    assert {**before, field: after[field]} == after


@pytest.mark.parametrize("format", FIELDS)
@pytest.mark.parametrize("size", [0, 2**16])
def test_consolidated_metadata_are_repaired_too(format: str, size: int) -> None:
    store = MemoryStore()
    outer = tegula.create_group(store, format=format, attributes={"text": "x" * size})
    outer.create_group("g").create_array("other", shape=3, dtype="i4")[...] = 1
    misplaced(format, ENCODINGS[0], ENCODINGS[1], store, path="g/a")
    tegula.open_group(store, "r+", path="g").consolidate()
    tegula.open_group(store, "r+").consolidate()
    report = tegula.check(store)
    assert [(found.kind, found.key) for found in report.findings] == [("misplaced-chunks", f"g/a/{DOCUMENTS[format]}")]
    assert tegula.check(store, repair=True).ok
    assert tegula.check(store).findings == []
    for root, name in [("", "g/a"), ("g", "a")]:
        group = tegula.open_group(store, path=root, consolidated=True)
        np.testing.assert_array_equal(group[name][...], VALUES)


def test_one_dimension() -> None:
    store = misplaced("zarr3", ENCODINGS[2], ENCODINGS[0], MemoryStore(), values=np.arange(1, 7, dtype="i4"))
    assert tegula.check(store, repair=True).ok
    assert tegula.open(store)[...].tolist() == [*range(1, 7)]


def test_the_chunk_of_an_array_without_dimensions() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=(), dtype="i4", format="zarr3")[...] = 7
    store.set("0", store.get("c") or b"")
    store.delete("c")
    assert tegula.check(store, repair=True).ok
    assert tegula.open(store)[()] == 7


def test_chunks_under_both_keys() -> None:
    """What the document states stays: which of the chunks are right is for the user to say."""
    store = misplaced("zarr2", ENCODINGS[0], ENCODINGS[1], MemoryStore())
    tegula.open(store, mode="r+")[:2, :2] = 5
    (finding,) = tegula.check(store).findings
    assert (finding.kind, finding.severity, finding.repair) == ("misplaced-chunks", "error", None)
    tegula.open(store, mode="r+")[...] = 5
    report = tegula.check(store, repair=True)
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.repair, report.ok) == ("misplaced-chunks", "warning", None, True)


def test_keys_outside_the_grid_are_stray() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=(6, 6), chunks=(2, 2), dtype="i4", format="zarr2")[...] = VALUES
    for key in ("3/0", "0/0/0", "c/0", "01/0", "x/0"):
        store.set(key, b"")
    assert tegula.check(store).counts == {"stray-key": 5}


def test_a_repair_does_not_overwrite_a_change() -> None:
    store = misplaced("zarr2", ENCODINGS[0], ENCODINGS[1], MemoryStore())

    def change(finding: Any) -> None:
        store.set(".zarray", (store.get(".zarray") or b"") + b"\n")

    report = tegula.check(store, repair=True, announce=change)
    assert not report.ok
    assert "another process has changed the document" in report.failed_repairs[".zarray"]


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("workers", [None, 2])
def test_a_conversion_takes_no_misplaced_chunks_for_missing_ones(workers: int | None, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "source")
    tegula.create_group(store, format="zarr2")
    misplaced("zarr2", ENCODINGS[0], ENCODINGS[1], store, path="a")
    tegula.create_array(store, path="b", shape=3, dtype="i4", format="zarr2")[...] = 1
    with pytest.raises(MetadataError, match=r"dimension_separator.*check --repair") as caught:
        tegula.convert(tmp_path / "source" / "a", tmp_path / "alone", format="zarr3", workers=workers)
    assert (caught.value.key, caught.value.field) == (".zarray", "dimension_separator")
    report = tegula.convert(tmp_path / "source", tmp_path / "target", format="zarr3", verify=True, workers=workers)
    assert not report.ok
    assert [array.verified for array in report.arrays] == [True]
    assert "dimension_separator" in report.failed["a"]
    assert tegula.check(store, repair=True).ok
    assert tegula.convert(tmp_path / "source", tmp_path / "again", format="zarr3", verify=True).ok
    np.testing.assert_array_equal(tegula.open(tmp_path / "again" / "a")[...], VALUES)


@pytest.mark.parametrize(
    "job",
    [
        tegula.statistics,
        tegula.checksum,
        lambda source: tegula.downsample(source, MemoryStore()),
        lambda source: tegula.convert(source, MemoryStore()),
        lambda source: tegula.convert(source, MemoryStore(), resume=True),
        lambda source: tegula.convert(source, MemoryStore(), dry_run=True),
    ],
)
def test_jobs_take_no_misplaced_chunks_for_missing_ones(job: Any) -> None:
    store = misplaced("zarr2", ENCODINGS[0], ENCODINGS[1], MemoryStore(), path="a")
    before = [*store.list()]
    with pytest.raises(MetadataError, match=r"dimension_separator.*check --repair"):
        job(tegula.open(store, "r+", path="a"))
    assert [*store.list()] == before
    assert tegula.check(store, path="a", repair=True).ok
    job(tegula.open(store, "r+", path="a"))


def test_a_comparison_takes_no_misplaced_chunks_for_missing_ones() -> None:
    store = misplaced("zarr2", ENCODINGS[0], ENCODINGS[1], MemoryStore())
    empty = tegula.create_array(
        {}, shape=VALUES.shape, chunks=tegula.open(store).chunks, dtype="i4", format="zarr2", fill_value=0
    )
    for report in (tegula.compare(store, empty), tegula.compare(empty, store)):
        assert not report.equal
        assert "dimension_separator" in report.failed[""]
    assert tegula.check(store, repair=True).ok
    assert not tegula.compare(store, empty).failed


def test_a_conversion_of_an_empty_array_is_no_error() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=(6, 6), chunks=(2, 2), dtype="i4", format="zarr2", fill_value=3)
    store.set("note.txt", b"")
    assert tegula.convert(store, MemoryStore(), format="zarr3", verify=True).ok
