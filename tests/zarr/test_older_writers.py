"""Documents by older writers whose chunk lengths no specification allows: read as by zarr-python, and repaired."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer.cpu import Buffer

import tegula
from tegula.errors import MetadataError
from tegula.formats.chunk_grids import grid_to_json

NEWER = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}


def array2(shape: list[int], chunks: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i4", "compressor": None, "fill_value": 7,
        "order": "C", "filters": None,
    }  # fmt: skip


def array3(shape: list[int], lengths: Any, *codecs: Any, name: str = "regular") -> dict[str, Any]:
    varying = {"kind": "inline", "chunk_shapes": lengths}
    return {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int32", "fill_value": 7,
        "chunk_grid": {"name": name, "configuration": varying if name == "rectilinear" else {"chunk_shape": lengths}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "attributes": {"a": [1, 2.0]},
        "codecs": list(codecs or [ENDIAN]),
    }  # fmt: skip


def varying3(shape: list[int], lengths: Any) -> dict[str, Any]:
    return array3(shape, lengths, name="rectilinear")


def shards(lengths: Any, *codecs: Any) -> dict[str, Any]:
    options = {"chunk_shape": lengths, "codecs": list(codecs or [ENDIAN]), "index_codecs": [ENDIAN]}
    return {"name": "sharding_indexed", "configuration": options}


# the document, and the lengths of the grid that are written
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "2: 0, empty": (array2([0], [0]), [1]),
    "2: 0": (array2([4], [0]), [1]),
    "2: false": (array2([4, 0], [False, 2]), [1, 2]),
    "2: true": (array2([4], [True]), [1]),
    "3: 0, empty": (array3([0], [0]), [1]),
    "3: 0": (array3([4], [0]), [1]),
    "3: true and false": (array3([4, 0], [True, False]), [1, 1]),
    "3: 0 of shards": (array3([0, 4], [0, 4], shards([2, 2])), [2, 4]),
    "3: false of shards": (array3([6, 4], [False, 4], shards([2, 2])), [2, 4]),
    "3: true in shards": (array3([4], [2], shards([True])), [2]),
    "3: true and 0 of shards": (array3([4], [0], shards([True])), [1]),
    "3: true in shards in shards": (array3([4], [4], shards([2], shards([True]))), [4]),
    "3: a list": (array3([4, 6], [2, [1, 2, 3]]), [2, [1, 2, 3]]),
    "3: a list, 0": (array3([0, 6], [0, [1, True, 4.0]]), [1, [1, 1, 4]]),
    "3: a list of shards": (array3([4, 6], [2, [2, 4]], shards([1, 2])), [2, [2, 4]]),
    "3: floats": (varying3([4, 6], [2, [1.0, 2.0, 3.0]]), [2, [1, 2, 3]]),
    "3: true among lengths": (varying3([4], [[True, 3]]), [[1, 3]]),
    "3: floats of runs": (varying3([4], [[[1.0, 4]]]), [[[1, 4]]]),
    "3: true of runs": (varying3([4], [[[True, 4]]]), [[[1, 4]]]),
}
REFUSED: dict[str, dict[str, Any]] = {
    "0 in shards": array3([4], [4], shards([0])),
    "runs": array3([4, 6], [2, [[1, 6]]]),
    "lists alone": array3([4, 6], [[2, 2], [1, 2, 3]]),
    "floats": array3([4], [2.0]),
    "half": varying3([4], [[1.5, 2.5]]),
    "a float alone": varying3([4], [2.0]),
    "0.0": varying3([4], [[0.0, 4]]),
    "floats as counts": varying3([4], [[[1, 4.0]]]),
    "text": array3([4], ["1"]),
    "null": array2([4], [None]),
    "negative": array2([4], [-1]),
}


def stored(document: Mapping[str, Any]) -> dict[str, bytes]:
    key = "zarr.json" if "node_type" in document else ".zarray"
    return {key: json.dumps(document, indent=3).replace('"zarr_format": ', '"zarr_format":\t').encode()}


def by_zarr_python(store: Mapping[str, bytes]) -> Any:
    with warnings.catch_warnings(), zarr.config.set({"array.rectilinear_chunks": True}):
        warnings.simplefilter("ignore")
        return zarr.open_array(
            zarr.storage.MemoryStore({key: Buffer.from_bytes(raw) for key, raw in store.items()}), mode="r+"
        )


@pytest.mark.parametrize("case", CASES)
def test_they_are_read_and_repaired(case: str) -> None:
    document, lengths = CASES[case]
    store = stored(document)
    (key,) = store
    before = store[key]
    array = tegula.open(store, "r+")
    array[...] = 3
    assert (array[...] == 3).all()
    chunks = {name: raw for name, raw in store.items() if name != key}

    # the check says what it would write
    report = tegula.check(store, repair=True, dry_run=True)
    assert store[key] == before
    assert {found.kind for found in report.findings if "instead" in found.message or "lists" in found.message} == {
        "unusual-document"
    }
    assert all(json.dumps(lengths) in (found.repair or "") or "shards" in case for found in report.findings)

    # and writes it: no other byte changes
    report = tegula.check(store, repair=True)
    assert not report.failed_repairs
    assert report.findings
    assert all(found.repaired for found in report.findings)
    assert tegula.check(store).findings == []
    assert {name: raw for name, raw in store.items() if name != key} == chunks
    new = json.loads(store[key])
    grid = new["chunks"] if key == ".zarray" else new["chunk_grid"]["configuration"]
    assert json.dumps(lengths) in json.dumps(grid)
    changed = {name for name in new if json.dumps(new[name]) != json.dumps(document[name])}
    assert changed <= {"chunks", "chunk_grid", "codecs"}
    old_lines, new_lines = before.splitlines(), store[key].splitlines()
    kept = [line for line in new_lines if b"\t" in line or b"2.0" in line or b'"int32"' in line]
    assert kept
    assert all(line in old_lines for line in kept)
    again = tegula.open(store)
    assert again.metadata.grid == array.metadata.grid
    assert again.metadata.codecs == array.metadata.codecs
    assert (again[...] == 3).all()

    # other readers agree
    if "rectilinear" not in json.dumps(new) or NEWER:
        np.testing.assert_array_equal(by_zarr_python(store)[...], again[...])
    if NEWER:
        theirs = by_zarr_python({**store, key: before})
        np.testing.assert_array_equal(theirs[...], again[...])
        if key == "zarr.json":
            shown = json.loads(json.dumps(theirs.metadata.to_dict()["chunk_grid"]))
            assert shown == new["chunk_grid"] or shown == grid_to_json(again.metadata.grid)


@pytest.mark.parametrize("case", REFUSED)
def test_others_are_refused(case: str) -> None:
    store = stored(REFUSED[case])
    before = dict(store)
    with pytest.raises(MetadataError):
        tegula.open(store)
    report = tegula.check(store, repair=True)
    assert not report.ok
    assert store == before
    if NEWER:
        with pytest.raises((TypeError, ValueError)):
            by_zarr_python(store)


@pytest.mark.parametrize("case", ["2: 0, empty", "3: 0, empty", "3: 0 of shards", "3: a list, 0"])
def test_an_array_that_grows_gets_a_document_that_all_read(case: str) -> None:
    store = stored(CASES[case][0])
    array = tegula.open(store, "r+")
    array.append(np.full((2, *array.shape[1:]), 5))
    assert tegula.check(store).findings == []
    if "list" not in case or NEWER:
        assert (by_zarr_python(store)[...] == 5).all()


def test_copies_in_consolidated_metadata_are_repaired() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store)
    group.create_array("a/b", shape=0, chunks=2, dtype="i4")
    document = json.loads(store.get("a/b/zarr.json") or b"")
    document["chunk_grid"]["configuration"]["chunk_shape"] = [0]
    store.set("a/b/zarr.json", json.dumps(document).encode())
    group.consolidate()
    report = tegula.check(store, repair=True)
    assert [(found.key, found.repaired) for found in report.findings] == [("a/b/zarr.json", True)]
    assert tegula.check(store).findings == []
    assert b"[0]" not in (store.get("zarr.json") or b"")


def test_a_document_that_another_process_changes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = tegula.MemoryStore()
    ((key, raw),) = stored(array3([4], [0])).items()
    store.set(key, raw)
    changed = raw.replace(b"2.0", b"3.0")
    report = tegula.check(store, repair=True, announce=lambda found: store.set(key, changed))
    assert [*report.failed_repairs] == [key]
    assert store.get(key) == changed
