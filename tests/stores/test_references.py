"""Stores of references: what they read, in how many requests, and references that are wrong."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import NotFoundError, ReadOnlyError, StoreError
from tegula.stores import FsspecStore, LocalStore, MemoryStore, Store
from tegula.stores.arguments import ByteRange
from tegula.stores.reference_parquet import INDEX, ParquetReferences
from tegula.stores.reference_sets import JsonReferences
from tegula.stores.references import ReferenceStore

FILES = {"a.bin": bytes(range(200)), "b/c.bin": b"0123456789", "empty": b""}


class Counted(MemoryStore):
    """A far store that records requests."""

    concurrency = 8

    def __init__(self, values: Any = ()) -> None:
        super().__init__(values)
        self.asked: list[list[tuple[str, ByteRange | None]]] = []

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        self.asked.append([*requests])
        return super().get_many(self.asked[-1])


def store_of(refs: Any, files: Store | None = None) -> ReferenceStore:
    files = MemoryStore(FILES) if files is None else files
    return ReferenceStore(JsonReferences(refs), lambda url: (files, url), "reference::test")


RANGES = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 250), st.one_of(st.none(), st.integers(0, 250))),
    st.tuples(st.integers(-250, -1), st.one_of(st.none(), st.integers(0, 250))),
)
PARTS = st.sampled_from(sorted(FILES)).flatmap(
    lambda name: st.one_of(
        st.just([name]),
        st.integers(0, len(FILES[name])).flatmap(
            lambda start: st.integers(0, len(FILES[name]) - start).map(lambda length: [name, start, length])
        ),
    )
)
VALUES = st.one_of(PARTS, st.binary(max_size=20).map(lambda raw: f"base64:{base64.b64encode(raw).decode()}"))


def expected(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value[7:])
    name, *part = value
    return FILES[name][part[0] : sum(part)] if part else FILES[name]


@given(
    st.dictionaries(st.sampled_from(["a", "b/0", "b/1", "c/d/e"]), VALUES), st.lists(RANGES, max_size=6), st.booleans()
)
@settings(max_examples=150)
def test_it_is_a_store_of_the_parts(refs: dict[str, Any], ranges: list[ByteRange | None], far: bool) -> None:
    """Reading by references gives what a store of the values gives, alone and many at once."""
    store = store_of({"version": 1, "refs": refs}, Counted(FILES) if far else None)
    model = MemoryStore({key: expected(value) for key, value in refs.items()})
    assert sorted(store.list()) == sorted(model.list())
    assert store.list_dir("b/") == model.list_dir("b/")
    requests = [(key, part) for key in (*refs, "none") for part in (None, *ranges)]
    assert store.get_many(requests) == model.get_many(requests)
    for key, part in requests:
        assert store.get(key, part) == model.get(key, part)
        assert store.get(key, part, with_generation=True)[0] == model.get(key, part)
        assert store.size(key) == model.size(key)
        assert store.exists(key) == model.exists(key)


def test_parts_that_lie_close_together_are_one_request() -> None:
    files = Counted({f"{name}.bin": bytes(range(256)) * 20_000 for name in "ab"})  # 5 MB
    refs: dict[str, Any] = {f"x/{number}": ["a.bin", 100 * number, 50] for number in range(20)}
    refs |= {"x/20": ["a.bin", 4_000_000, 10], "x/21": ["b.bin", 256, 3], "x/22": "base64:eA=="}
    store = store_of({"version": 1, "refs": refs}, files)
    values = store.get_many([(f"x/{number}", None) for number in range(23)])
    assert files.asked == [[("a.bin", (0, 1950)), ("a.bin", (4_000_000, 10)), ("b.bin", (256, 3))]]
    assert values[1] == bytes(range(100, 150))
    assert values[21:] == [b"\0\1\2", b"x"]
    assert store.concurrency == 8


def test_a_generation_is_that_of_the_file() -> None:
    files = MemoryStore(FILES)
    store = store_of({"version": 1, "refs": {"a": ["a.bin", 1, 2], "b": "text"}}, files)
    before = store.get("a", with_generation=True)[1]
    assert store.get("a", (0, 1), with_generation=True)[1] == before
    files.set("a.bin", bytes(100))
    assert store.get("a", with_generation=True) != (b"\1\2", before)
    assert store.get("b", with_generation=True)[0] == b"text"


def test_a_generation_of_a_part_does_not_take_the_whole_file() -> None:
    fsspec = pytest.importorskip("fsspec")
    files = FsspecStore(fsspec.filesystem("memory"), "tests-references-generation")
    read: list[Any] = []
    original = files.read
    files.read = lambda key, part=None: read.append(part) or original(key, part)
    try:
        files.set("a.bin", bytes(range(200)))
        store = store_of({"x": ["a.bin", 10, 100]}, files)
        value, generation = store.get("x", (0, 5), with_generation=True)
        assert value == bytes(range(10, 15))
        assert store.get("x", (50, 5), with_generation=True)[1] == generation
        assert None not in read
    finally:
        files.delete_prefix("")


def test_it_is_read_only_and_pickles(tmp_path: Path) -> None:
    LocalStore(tmp_path).set("a.bin", b"abc")
    store = ReferenceStore(JsonReferences({"x": ["a.bin", 1, 2]}), Resolve(tmp_path), "reference::test")
    again = pickle.loads(pickle.dumps(store))
    assert again.get("x") == b"bc"
    for change in (lambda: store.set("a", b""), lambda: store.delete("x"), lambda: store.delete_prefix("")):
        with pytest.raises(ReadOnlyError):
            change()


class Resolve:
    """The files of a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, url: str) -> tuple[Store, str]:
        return LocalStore(self.root), url


# --- what references say


def test_the_versions_of_the_specification() -> None:
    assert store_of({"x/0": ["a.bin", 1, 2], ".zgroup": '{"zarr_format": 2}'}).get("x/0") == b"\1\2"
    one = {
        "version": 1,
        "templates": {"u": "a.bin", "f": "b/{{c}}"},
        "gen": [
            {
                "key": "x/{{i}}.{{j}}",
                "url": "{{f(c='c.bin')}}",
                "offset": "{{i * 4 + j}}",
                "length": "1",
                "dimensions": {"i": {"stop": 2}, "j": [0, 3]},
            }
        ],
        "refs": {"y": ["{{u}}", 3, 1], "z": {"zarr_format": 2}, "t": "{{u}}"},
    }
    store = store_of(one)
    assert store.get_many([(key, None) for key in ("x/0.0", "x/0.3", "x/1.0", "x/1.3")]) == [b"0", b"3", b"4", b"7"]
    assert (store.get("y"), store.get("t"), json.loads(store.get("z") or b"")) == (b"\3", b"{{u}}", {"zarr_format": 2})
    replaced = JsonReferences(one, {"u": "b/c.bin"})
    assert ReferenceStore(replaced, lambda url: (MemoryStore(FILES), url), "").get("y") == b"3"


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (["a.bin", 1], "is not a reference"),
        ([], "is not a reference"),
        (7, "is not a reference"),
        ([3, 1, 2], "names no file"),
        (["", 1, 2], "names no file"),
        (["a.bin", -1, 2], "offset and length"),
        (["a.bin", 1.5, 2], "offset and length"),
        (["a.bin", True, 2], "offset and length"),
        (["a.bin", 1, 2**70], "offset and length"),
        (["a.bin", 199, 2], "names 2 bytes at 199, and the file has 1"),
        (["none.bin", 0, 2], "does not exist"),
        (["none.bin"], "does not exist"),
        (["../etc/passwd"], "segment"),
        (["https://me:secret@host/x?token=secret", 0], "is not a reference"),
        ("base64:!", "base64"),
    ],
)
def test_wrong_references_name_the_key(value: Any, match: str) -> None:
    store = store_of({"version": 1, "refs": {"x/0": value, "y": "fine"}})
    for read in (lambda: store.get("x/0"), lambda: store.get_many([("y", None), ("x/0", None)])):
        with pytest.raises(StoreError, match=match) as caught:
            read()
        assert caught.value.key == "x/0"
        assert caught.value.path == "reference::test"
        assert "secret" not in str(caught.value)
    assert store.get("y") == b"fine"


@pytest.mark.parametrize(
    ("document", "match"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON|not a JSON"),
        (b'{"version": 2, "refs": {}}', "version 0 or 1"),
        (b'{"version": 1, "refs": []}', "must be JSON objects"),
        (b'{"version": 1, "gen": {}, "refs": {}}', "must be a JSON list"),
    ],
)
def test_wrong_documents(document: bytes, match: str) -> None:
    with pytest.raises(StoreError, match=match):
        JsonReferences.parse(document)


HOSTILE = [
    "{{().__class__}}",
    "{{open('x')}}",
    "{{1 / 0}}",
    "{{1 // 0}}",
    "{{9 ** 9 ** 9}}",
    "{{'a' * 1000000000}}",
    "{{none}}",
    "{{" + "(" * 10_000 + "}}",
    "{{" + "+".join(["1"] * 100_000) + "}}",
    "{{loop}}",
    "{{f(**{})}}",
    "{{9223372036854775807 * 9223372036854775807}}",
]


@pytest.mark.parametrize("template", HOSTILE, ids=range(len(HOSTILE)))
def test_templates_evaluate_nothing_but_arithmetic(template: str) -> None:
    document = {"version": 1, "templates": {"loop": "{{loop}}", "f": "x"}, "refs": {"x": [template, 0, 1]}}
    with pytest.raises(StoreError):
        store_of(document).get("x")


def test_a_generator_is_bounded() -> None:
    entry = {"key": "x/{{i}}", "url": "a.bin", "dimensions": {"i": {"stop": 10**12}}}
    with pytest.raises(StoreError, match="max_chunks"):
        JsonReferences({"version": 1, "gen": [entry], "refs": {}})


def test_keys_that_cannot_be_keys_are_left_out() -> None:
    store = store_of({"version": 1, "refs": {"../x": "1", "a//b": "2", "/c": "3", "d": "4"}})
    assert [*store.list()] == ["d"]
    with pytest.raises(StoreError):
        store.get("../x")


# --- Parquet

ARRAY = {"zarr_format": 2, "shape": [5, 4], "chunks": [2, 2], "dtype": "<i4"}


def parquet(rows: dict[str, list[Any]], array: Any = ARRAY, record_size: Any = 4) -> MemoryStore:
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    files.write_table(arrow.table(rows), sink)
    index = {"metadata": {".zgroup": {"zarr_format": 2}, "x/.zarray": array}, "record_size": record_size}
    return MemoryStore({INDEX: json.dumps(index).encode(), "x/refs.0.parq": sink.getvalue().to_pybytes()})


def of_parquet(store: Store) -> ReferenceStore:
    return ReferenceStore(ParquetReferences(store), lambda url: (MemoryStore(FILES), url), "reference::test")


def test_rows_in_the_order_of_the_grid() -> None:
    rows = {
        "path": ["a.bin", None, "b/c.bin", None],
        "offset": [3, 0, 0, 0],
        "size": [2, 0, 0, 0],
        "raw": [None, b"raw", None, None],
    }
    store = of_parquet(parquet(rows))
    wanted = ["x/0.0", "x/0.1", "x/1.0", "x/1.1", "x/2.0", "x/2.2", "x/00.0", "x/-1.0", "x/0", "y/0.0", "x/.zattrs"]
    values = [b"\3\4", b"raw", b"0123456789"]
    assert store.get_many([(key, None) for key in wanted]) == values + [None] * 8
    assert sorted(store.list()) == [".zgroup", "x/.zarray", "x/0.0", "x/0.1", "x/1.0"]
    assert store.list_dir("") == ([".zgroup"], ["x/"])
    assert store.list_dir("x/")[0] == ["x/.zarray", "x/0.0", "x/0.1", "x/1.0"]
    assert json.loads(store.get("x/.zarray") or b"") == ARRAY
    again = pickle.loads(pickle.dumps(store.references))
    assert again.find("x/0.1") == b"raw"


@pytest.mark.parametrize(
    ("store", "match"),
    [
        (MemoryStore, "there is no .zmetadata"),
        (lambda: MemoryStore({INDEX: b"{"}), "not the document"),
        (lambda: MemoryStore({INDEX: b'{"metadata": {}, "record_size": 0}'}), "record_size"),
        (lambda: parquet({"path": ["a.bin"] * 9}), "9 rows"),
        (lambda: parquet({"path": [7]}), "names no file"),
        (lambda: parquet({"path": ["a.bin"], "offset": [-1], "size": [2]}), "offset and length"),
        (lambda: parquet({"path": [None], "raw": [3]}), "no bytes in the column raw"),
        (lambda: parquet({}, array={"shape": [3], "chunks": [0]}), "shape and chunks"),
        (lambda: parquet({}, array={"shape": "3", "chunks": [1]}), "shape and chunks"),
    ],
)
def test_wrong_parquet(store: Callable[[], Store], match: str) -> None:
    with pytest.raises((StoreError, NotFoundError), match=match):
        of_parquet(store()).get("x/0.0" if "shape and" not in match else "x/0")


def test_a_damaged_file_of_rows() -> None:
    store = parquet({"path": ["a.bin"]})
    store.set("x/refs.0.parq", b"PAR1 and nothing else")
    with pytest.raises(StoreError, match="can't be read") as caught:
        of_parquet(store).get("x/0.0")
    assert caught.value.path == "reference::test"
