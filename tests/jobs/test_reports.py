"""Reports of conversions and checks: totals, time, and short texts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.codecs.compressors.checksums import notices_changes
from tegula.errors import TegulaError
from tegula.jobs.checking.check import CheckReport
from tegula.jobs.converting.convert import ConvertedArray, ConvertReport
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.quantities import counted, human_seconds
from tegula.stores import MemoryStore

SHARDED: dict[str, Any] = {"chunks": (2, 5), "shards": (4, 10)}
CODECS: list[Any] = [
    None, ["zstd"], [{"name": "zstd", "configuration": {"checksum": True}}], ["gzip"], ["numcodecs.zlib"], ["crc32c"],
    ["numcodecs.bz2"], ["numcodecs.lzma"], [{"id": "lzma", "check": 0}], ["blosc"],
    ["numcodecs.lz4"], ["numcodecs.adler32"], ["numcodecs.crc32"], ["numcodecs.fletcher32"],
    ["numcodecs.jenkins_lookup3"], ["zstd", "numcodecs.crc32"],
]  # fmt: skip


def hierarchy(store: MemoryStore) -> tegula.Group:
    """Make three arrays, of which one is half stored and one not at all."""
    group = tegula.create_group(store)
    for name, rows in (("full", 40), ("half", 20), ("empty", 0)):
        array = group.create_array(name, shape=(40, 6), dtype="i4", chunks=(10, 6))
        array[:rows] = np.arange(rows * 6).reshape(rows, 6) + 1
    return group


@pytest.mark.parametrize("options", [{}, {"chunks": (4, 6)}, {"codecs": "gzip"}, {"chunks": (5, 6), "shards": (20, 6)}])
def test_the_totals_of_a_conversion_are_what_is_stored(options: dict[str, Any]) -> None:
    source, target = MemoryStore(), MemoryStore()
    hierarchy(source)
    report = tegula.convert(source, target, **options)
    chunks = [key for key in target.list() if "/c/" in key]
    assert report.chunks_stored == len(chunks) > 0
    assert report.nbytes_after == sum(target.size(key) or 0 for key in chunks)
    assert report.nbytes_before == sum(source.size(key) or 0 for key in source.list() if "/c/" in key)
    assert report.nbytes == 3 * 40 * 6 * 4
    assert report.chunks_copied == (0 if options else 6)
    assert 0 < report.seconds < 60
    assert report.summary.startswith("3 arrays and 1 group converted to zarr3, ")
    assert f"in {len(chunks)} chunks" in report.summary
    totals = json.loads(json.dumps(report.as_dict()))["totals"]
    assert totals == {name: getattr(report, name) for name in totals}


class Page(HTMLParser):
    """The text of an HTML document, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag not in ("script", "link", "img", "style")
        if tag != "meta":
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def test_a_report_as_json_and_as_a_page() -> None:
    source, target = MemoryStore(), MemoryStore()
    hierarchy(source)
    tegula.open_group(source, "r+").create_array("<b>f", data=np.array([1.5, 0.1]))
    report = tegula.convert(source, target, bitround=3, verify=True)
    found = json.loads(report.to_json())
    assert found == json.loads(json.dumps(report.as_dict()))
    assert (found["source"], found["target"], found["ok"]) == (source.url, target.url, True)
    (line,) = (item for item in found["arrays"] if item["path"] == "<b>f")
    assert (line["max_error"], line["dtype"]) == (abs(0.1015625 - 0.1), "float64")
    assert line["digest"] == tegula.checksum(target, path="<b>f")
    page = Page(report.to_html())
    assert page.opened == []
    for text in ("/<b>f", "Largest error", line["digest"], source.url, target.url, "float64"):
        assert text in page.found, text
    # everything is on the page; a notebook shows the beginning
    many = ConvertReport("zarr3", arrays=[ConvertedArray(f"a{number}", (1,), (1,), 8, 9, 9) for number in range(300)])
    many.failed = {f"b{number}": "no" for number in range(300)}
    page = Page(many.to_html())
    assert {f"/a{number}" for number in range(300)} | {f"/b{number}" for number in range(300)} <= {*page.found}
    assert "/a299" not in Page(many._repr_html_()).found
    assert "Largest error" not in page.found


def test_a_dry_run_stores_nothing() -> None:
    source = MemoryStore()
    hierarchy(source)
    report = tegula.convert(source, MemoryStore(), dry_run=True)
    assert (report.chunks_stored, report.nbytes_after) == (0, 0)
    assert report.nbytes_before > 0
    assert "would be converted" in report.summary


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))
def test_texts_are_short_and_in_the_right_number(arrays: int, groups: int, failed: int) -> None:
    done = [ConvertedArray(f"a{number}", (1,), (1,), 8, 9, 9, chunks_stored=1) for number in range(arrays)]
    report = ConvertReport("zarr3", False, done, ["g"] * groups, {f"f{number}": "no" for number in range(failed)})
    for text in (report.summary, str(report), repr(report)):
        assert ("1 array " in text) == (arrays == 1)
        assert ("1 group " in text) == (groups == 1)
        assert ("1 chunk " in text) == (arrays == 1)
        assert len(text) < 300
    assert str(report).count("failed: ") == failed
    assert repr(report).count("\n") == 0
    check = CheckReport("memory:", arrays=arrays, chunks=arrays, errors=failed)
    assert ("1 chunk:" in check.summary) == (arrays == 1)
    assert ("1 error" in check.summary) == (failed == 1)


def test_reports_in_lists_are_short() -> None:
    store = MemoryStore()
    hierarchy(store)
    store.set("full/c/0/0", b"damaged")
    report = tegula.check(store)
    assert repr(report.findings).startswith("[<tegula.Finding error: damaged-chunk: full/c/0/0: ")
    assert len(repr(report)) < 200
    assert 0 < report.seconds < 60
    assert "CheckReport(" not in repr(report)
    store.delete("full/c/0/0")
    arrays = tegula.convert(store, MemoryStore(), verify=True).arrays
    assert "ConvertedArray(" not in repr(arrays)
    assert ", verified>" in repr(arrays)


@pytest.mark.slow
@pytest.mark.sampled(one_in=12)
@pytest.mark.parametrize("codecs", CODECS, ids=str)
@pytest.mark.parametrize("layout", [{"chunks": (4, 10)}, SHARDED], ids=["chunks", "shards"])
def test_a_chain_with_a_checksum_notices_every_changed_bit(codecs: Any, layout: dict[str, Any]) -> None:
    store = MemoryStore()
    values = np.arange(40, dtype="u1").reshape(4, 10)
    array = tegula.create_array(store, shape=(4, 10), dtype="u1", codecs=codecs, **layout)
    array[...] = values
    raw = store.get("c/0/0")
    assert raw is not None
    unnoticed = 0
    for position in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[position // 8] ^= 1 << position % 8
        store.set("c/0/0", bytes(damaged))
        try:
            unnoticed += not np.array_equal(array[...], values)
        except TegulaError:
            continue
    sound = notices_changes(array.metadata.codecs)
    assert sound == (not unnoticed)
    store.set("c/0/0", raw)
    assert tegula.check(store).arrays_without_checksum == (not sound)


def test_a_container_without_a_checksum_is_not_taken_for_one() -> None:
    # though hardly a changed bit decodes
    assert not notices_changes([CodecSpec("bytes"), CodecSpec("numcodecs.lzma", {"format": 2})])


def test_arrays_without_checksums_are_counted_once_they_store_something() -> None:
    store = MemoryStore()
    group = hierarchy(store)
    group.create_array("safe", shape=4, dtype="i4", checksum=True)[...] = 1
    report = tegula.check(store)
    assert report.arrays_without_checksum == 2
    assert report.checksum_note == "2 of 4 arrays have no checksums"
    assert report.as_dict()["arrays_without_checksum"] == 2
    assert tegula.check(store, path="safe").checksum_note == ""


@given(st.floats(0, 10**6))
def test_human_seconds(seconds: float) -> None:
    text = human_seconds(seconds)
    units = {"h": 3600, "min": 60, "s": 1, "ms": 0.001}
    words = text.split()
    total = sum(float(number) * units[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    assert abs(total - seconds) <= max(0.0006, seconds * 0.06)
    assert len(words) in (2, 4)


def test_counted() -> None:
    assert [counted(number, "array") for number in (0, 1, 2)] == ["0 arrays", "1 array", "2 arrays"]
