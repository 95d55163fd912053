"""Each kind of finding: damage made by hand is found once, under the right key, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numcodecs.checksum32 import CRC32C

import tegula
from tegula.jobs.checking.check import KINDS
from tegula.stores import MemoryStore

VALUES = np.random.default_rng(1).integers(0, 1000, (10, 10)).astype("i4")
Damage = Callable[[MemoryStore], Any]
CASES: list[Any] = []
FOUND: set[str] = set()


def array(format: str, codecs: Any = "auto", **options: Any) -> MemoryStore:
    store = MemoryStore()
    chunks = (5, 10) if format == "bcolz" else (5, 5)
    options = {"chunks": chunks, **options}
    tegula.create_array(store, shape=(10, 10), dtype="i4", format=format, codecs=codecs, **options)[...] = VALUES
    return store


def hierarchy(format: str = "zarr3") -> MemoryStore:
    store = MemoryStore()
    group = tegula.create_group(store, format=format)
    for path in ("a", "b/c"):
        group.create_array(path, shape=4, chunks=2, dtype="i4")[...] = [1, 2, 3, 4]
    return store


def table(format: str = "bcolz") -> MemoryStore:
    store = MemoryStore()
    columns = {"x": np.arange(25), "y": np.arange(25) / 4, "z": np.arange(25)}
    tegula.create_table(store, columns, format=format, chunks=10)
    return store


def sharded(**shard: Any) -> MemoryStore:
    store = MemoryStore()
    configuration: dict[str, Any] = {
        "chunk_shape": [2], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        **shard,
    }  # fmt: skip
    configuration["index_codecs"] = configuration["codecs"]
    codecs = {"name": "sharding_indexed", "configuration": configuration}
    tegula.create_array(store, shape=8, chunks=8, dtype="u1", codecs=codecs)[...] = np.arange(1, 9)
    return store


def put(key: str, value: bytes) -> Damage:
    return lambda store: store.set(key, value)


def cut(key: str, size: int) -> Damage:
    return lambda store: store.set(key, store.get(key)[:size])


def extend(key: str, more: bytes) -> Damage:
    return lambda store: store.set(key, store.get(key) + more)


def flip(key: str, at: int) -> Damage:
    def act(store: MemoryStore) -> None:
        raw = bytearray(store.get(key) or b"")
        raw[at] ^= 0x5A
        store.set(key, raw)

    return act


def drop(key: str) -> Damage:
    return lambda store: store.delete(key)


def edit(key: str, **changes: Any) -> Damage:
    return lambda store: store.set(key, json.dumps({**json.loads(store.get(key) or b""), **changes}).encode())


def without(key: str, name: str, inside: str = "codecs") -> Damage:
    """Take an option out of the configurations of codecs, wherever it stands in one member of a document."""

    def taken(value: Any) -> Any:
        if isinstance(value, list):
            return [taken(item) for item in value]
        return {k: taken(v) for k, v in value.items() if k != name} if isinstance(value, dict) else value

    def act(store: MemoryStore) -> None:
        document = json.loads(store.get(key) or b"")
        store.set(key, json.dumps({**document, inside: taken(document[inside])}).encode())

    return act


def rename(key: str, old: str, new: str) -> Damage:
    return lambda store: store.set(key, (store.get(key) or b"").replace(old.encode(), new.encode()))


def pad_inner(key: str) -> Damage:
    """Put zeros after each of the four inner chunks of a shard, whose index is at the end."""

    def act(store: MemoryStore) -> None:
        raw = store.get(key) or b""
        index = np.frombuffer(raw[-68:-4], "<u8").reshape(-1, 2).copy()
        chunks = [raw[start : start + size] + bytes(16) for start, size in index.tolist()]
        index[:, 1] = [*map(len, chunks)]
        index[:, 0] = np.cumsum([0, *index[:-1, 1]])
        store.set(key, b"".join(chunks) + bytes(CRC32C().encode(index)))

    return act


def consolidated(change: Damage) -> Damage:
    def act(store: MemoryStore) -> None:
        tegula.open_group(store, "r+").consolidate()
        change(store)

    return act


def point_inner(offset: int, length: int) -> Damage:
    """Let the second inner chunk of a shard lie elsewhere, in an index that is valid by its checksum."""

    def act(store: MemoryStore) -> None:
        sharding = tegula.open_array(store).stored.chain.sharding
        raw = store.get("c/0")
        assert sharding is not None
        assert raw is not None
        size = sharding.index_nbytes((8,))
        index = sharding.decode_index(raw[-size:], (8,)).copy()
        index[1] = (offset, length)
        store.set("c/0", raw[:-size] + bytes(sharding.encode_index(index, (8,))))

    return act


def both(*changes: Damage) -> Damage:
    return lambda store: [change(store) for change in changes]


def case(kind: str, key: str, make: Callable[[], MemoryStore], damage: Damage, severity: str | None = None) -> None:
    CASES.append(pytest.param(kind, key, make, damage, severity, id=f"{kind}-{len(CASES)}"))
    FOUND.add(kind)


NODE = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
ZARRAY = {
    "zarr_format": 2, "shape": [10, 10], "chunks": [5, 5], "dtype": "<i4", "compressor": None, "filters": None,
    "order": "C", "fill_value": 0,
}  # fmt: skip

for name, key, document in [("zarr3", "c/1/0", "zarr.json"), ("zarr2", "1.0", ".zarray"), ("zarr1", "1.0", "meta"),
                            ("bcolz", "data/__1.blp", "meta/storage")]:  # fmt: skip
    make = partial(array, name)
    case("damaged-chunk", key, make, cut(key, 20))
    case("damaged-chunk", key, make, put(key, b""))
    case("metadata", document, make, put(document, b"\xff{"))
    case("foreign-lock", f"{document}.__lock", make, put(f"{document}.__lock", b""), "note")
    temporary = f"{key}.0123456789abcdef0123456789abcdef.partial"
    case("foreign-temporary", temporary, make, put(temporary, b"half"))
    case("interrupted-job", ".tegula_job/plan.json", make, put(".tegula_job/plan.json", b"{}"))
    case("stray-key", "notes.txt", make, put("notes.txt", b"hello"))
    case("metadata", {"zarr3": "zarr.json", "zarr2": ".zattrs", "zarr1": "attrs", "bcolz": "__attrs__"}[name], make,
         put({"zarr2": ".zattrs", "zarr1": "attrs", "bcolz": "__attrs__"}[name], b"[1]") if name != "zarr3"
         else edit("zarr.json", attributes=[1]))  # fmt: skip
for name, key in [("zarr3", "c/2/0"), ("zarr2", "0.7"), ("zarr1", "2.2")]:
    case("chunk-outside", key, lambda name=name: array(name), put(key, b"old"))
for codec, at in [("crc32c", 3), ("gzip", 30), ({"name": "zstd", "configuration": {"level": 1, "checksum": True}}, 30),
                  ("numcodecs.adler32", 9), ("numcodecs.crc32", 9), ("numcodecs.fletcher32", 9),
                  ("numcodecs.zlib", 30)]:  # fmt: skip
    case("damaged-chunk", "c/0/0", lambda codec=codec: array("zarr3", codec), flip("c/0/0", at))
case("damaged-chunk", "c/0/0", lambda: array("zarr3", None), extend("c/0/0", b"\0"))
case("obstructed-chunk", "c/0/0", lambda: array("zarr3"), both(drop("c/0/0"), put("c/0/0/x", b"")))
case(
    "unsupported",
    "zarr.json",
    lambda: array("zarr3"),
    edit("zarr.json", codecs=[{"name": "bytes"}, {"name": "quux"}]),
    "warning",
)
case("unsupported", "zarr.json", lambda: array("zarr3"), edit("zarr.json", data_type="int33"), "warning")
for names in (["bytes"], ["bytes", {"name": "zstd", "configuration": {"level": 0}}]):
    case("unstated-option", "zarr.json", lambda names=names: array("zarr3", names), without("zarr.json", "endian"))
for codec in ("zstd", "gzip", "blosc"):
    case("unstated-option", "zarr.json", lambda codec=codec: array("zarr3", codec),
         without("zarr.json", {"blosc": "typesize"}.get(codec, "level")))  # fmt: skip
case("unstated-option", "zarr.json", lambda: array("zarr3", shards=(10, 10)), without("zarr.json", "index_codecs"))
case("unstated-option", ".zarray", lambda: array("zarr2", ["delta", "zlib"]), without(".zarray", "dtype", "filters"))
case("unusual-document", "zarr.json", lambda: array("zarr3"), edit("zarr.json", storage_transformers=None))
case("unusual-document", ".zattrs", lambda: array("zarr2"), put(".zattrs", b"null"))
case("unusual-document", "b/c/zarr.json", hierarchy, edit("b/c/zarr.json", fill_value="0"))
case("unusual-document", ".zgroup", lambda: hierarchy("zarr2"), put(".zgroup", b'\xef\xbb\xbf{"zarr_format": 2}'))
case("contradicting-documents", ".zgroup", lambda: array("zarr2"), put(".zgroup", b'{"zarr_format": 2}'))
case("several-formats", ".zarray", lambda: array("zarr3"), put(".zarray", json.dumps(ZARRAY).encode()), "note")
case("contradicting-documents", ".zarray", lambda: array("zarr3"),
     put(".zarray", json.dumps({**ZARRAY, "shape": [10, 9]}).encode()))  # fmt: skip
case("missing-document", ".zgroup", MemoryStore, put(".zattrs", b"{}"))

case("misplaced-chunks", ".zarray", lambda: array("zarr2"), edit(".zarray", dimension_separator="/"))
case("damaged-chunk", "c/0", sharded, flip("c/0", 0))
case("damaged-index", "c/0", sharded, flip("c/0", -10))
case("damaged-index", "c/0", sharded, cut("c/0", 10))
case("damaged-index", "c/0", lambda: sharded(index_location="start"), flip("c/0", 5))
case("damaged-chunk", "c/0", sharded, point_inner(10_000, 6))
case("overlapping-chunks", "c/0", sharded, point_inner(0, 6), "warning")

case("missing-chunk", "data/__0.blp", lambda: array("bcolz"), drop("data/__0.blp"))
case("missing-document", "meta/storage", lambda: array("bcolz"), drop("meta/storage"))
case("metadata", "meta/sizes", lambda: array("bcolz"), drop("meta/sizes"))
case("trailing-zeros", "", lambda: array("zarr2", "zlib"), both(*(extend(f"0.{i}", bytes(16)) for i in (0, 1))))
case("trailing-zeros", "", lambda: array("zarr3", "blosc", shards=(10, 10), chunks=(5, 5)), pad_inner("c/0/0"))
case("trailing-bytes", "data/__0.blp", lambda: array("bcolz"), extend("data/__0.blp", b"more"))
case("chunk-outside", "data/__2.blp", lambda: array("bcolz"), put("data/__2.blp", b"old"), "note")
case("wrong-counts", "meta/sizes", lambda: array("bcolz"), edit("meta/sizes", nbytes=7))
case("wrong-counts", "meta/sizes", lambda: array("bcolz"), edit("meta/sizes", cbytes=7), "note")
case("missing-column", "y/", table, lambda store: store.delete_prefix("y/"))
case("unlisted-column", "y/", table, edit("__rootdirs__", names=["x", "z"]))
case("missing-column", "y/", lambda: table("zarr3"), lambda store: store.delete_prefix("y/"))
case("unequal-columns", "b/meta/sizes", lambda: unequal(30, 20), lambda store: None, "error")
case("unequal-columns", "a/meta/sizes", lambda: unequal(20, 30), lambda store: None, "warning")

case("implicit-group", "b/", hierarchy, drop("b/zarr.json"), "note")
case("implicit-group", "b/", lambda: hierarchy("zarr2"), drop("b/.zgroup"), "note")
case("stray-prefix", "x/", hierarchy, both(put("x/c/0", b""), put("x/c/1", b"")))
case("stray-key", "README", hierarchy, put("README", b""), "note")
case("system-files", ".DS_Store", hierarchy, put(".DS_Store", b""), "note")
case("system-files", "b/c/._0", hierarchy, both(put("b/c/._0", b""), put("b/c/._zarr.json", b"")), "note")
case("system-files", "__MACOSX/b/._c", hierarchy, put("__MACOSX/b/._c", b""), "note")
for key in ["Thumbs.db", "b/thumbs.db", "b/c/desktop.ini", "b/c/c/Thumbs.db", "__MACOSX/b/c/0", "a/@eaDir/x/y"]:
    case("system-files", key, hierarchy, put(key, b""), "note")
    case("system-files", key, lambda: hierarchy("zarr2"), put(key, b""), "note")
case("foreign-temporary", "x/0.0123456789abcdef0123456789abcdef.partial", hierarchy,
     put("x/0.0123456789abcdef0123456789abcdef.partial", b""))  # fmt: skip
case("other-format", "x/", hierarchy, put("x/.zgroup", b'{"zarr_format": 2}'), "note")
case("metadata", "b/c/zarr.json", hierarchy, cut("b/c/zarr.json", 40))
case("metadata", "zarr.json", hierarchy, cut("zarr.json", 10))
for name, key in [("zarr3", "zarr.json"), ("zarr2", ".zmetadata")]:
    make = partial(hierarchy, name)
    differ = edit("b/c/zarr.json", attributes={"new": 1}) if name == "zarr3" else put("b/c/.zattrs", b'{"new": 1}')
    case("consolidated-differs", key, make, consolidated(differ))
    case("consolidated-gone", key, make, consolidated(lambda store: store.delete_prefix("a/")))
    case("consolidated-missing", key, make,
         consolidated(lambda store: tegula.open_group(store, "r+").create_group("late")))  # fmt: skip
    old, new = ('"b/c"', '"../c"') if name == "zarr3" else ("b/c/.zarray", "../c/.zarray")
    case("consolidated-gone", key, make, both(consolidated(drop("b/c/zarr.json" if name == "zarr3" else "b/c/.zarray")),
         lambda store: store.delete_prefix("b/c/"), rename(key, old, new)))  # fmt: skip
case("metadata", ".zmetadata", lambda: hierarchy("zarr2"), put(".zmetadata", b"{}"))


def unequal(first: int, second: int) -> MemoryStore:
    store = table()
    store.delete_prefix("")
    tegula.create_table(store, {"a": np.arange(20), "b": np.arange(20)}, chunks=10)
    for name, rows in (("a", first), ("b", second)):
        tegula.open_array(store, "r+", path=name).resize(rows)
    return store


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(("kind", "key", "make", "damage", "severity"), CASES)
def test_damage_is_found_once(
    kind: str, key: str, make: Callable[[], MemoryStore], damage: Damage, severity: str | None
) -> None:
    store = make()
    if kind not in ("unequal-columns", "missing-document") or [*store.list()]:
        before = tegula.check(store)
        assert kind == "unequal-columns" or before.findings == [], str(before)
    damage(store)
    contents = dict(snapshot(store))
    report = tegula.check(store)
    assert [(found.kind, found.key) for found in report.findings] == [(kind, key)], str(report)
    assert report.findings[0].severity == (severity or KINDS[kind].severity)
    assert report.counts == {kind: 1}
    assert report.ok == (report.findings[0].severity != "error")
    assert report.findings[0].remedy
    assert dict(snapshot(store)) == contents  # it only looks


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/x#1", "foreign-temporary"), ("a/c/0#x", "stray-key"), ("a/c/0.partial", "stray-key"),
        ("a/Thumbs.db/0", "stray-key"), ("__MACOSX", "stray-key"), ("a/__MACOSX", "stray-key"),
        ("a/.tegula_job/units/7", None), ("a/.tegula_job-7/plan.json", None), ("a/.tegula_complete", None),
        (".tegula_complete", None), (".tegula_job/plan.json", "interrupted-job"), ("x.tegula_complete", "stray-key"),
    ],
)  # fmt: skip
def test_keys_that_programs_leave_are_known_by_their_names(key: str, kind: str | None) -> None:
    store = hierarchy()
    store.set(key, b"")
    assert tegula.check(store).counts == ({kind: 1} if kind else {})


def snapshot(store: MemoryStore) -> Iterator[tuple[str, Any]]:
    for key in store.list():
        yield key, store.get(key, with_generation=True)


def test_every_kind_is_covered() -> None:
    """All kinds except those of file systems, archives and web servers.

    These are in test_files.py, stores/test_zip.py and test_unlisted.py.
    """
    elsewhere = {"not-listed", "odd-name", "unreadable", "temporary-file", "missing-directory", "leftover-rows"}
    assert {*KINDS} - elsewhere == FOUND
