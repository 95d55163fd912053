"""Stores of references: what they read, in how many requests, and references that are wrong."""

from __future__ import annotations

import base64
import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.config.budget import Budget
from tegula.errors import NotFoundError, ReadOnlyError, StoreError
from tegula.stores import FsspecStore, LocalStore, MemoryStore, Store
from tegula.stores.arguments import ByteRange
from tegula.stores.references.parquet import INDEX, ParquetReferences
from tegula.stores.references.sets import JsonReferences, Reference
from tegula.stores.references.store import ReferenceStore
from tegula.stores.references.templates import render

pytestmark = pytest.mark.once(executors="none")

FILES = {"a.bin": bytes(range(200)), "b/c.bin": b"0123456789", "empty": b""}


class Counted(MemoryStore):
    """A remote store that records requests."""

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
def test_it_is_a_store_of_the_parts(refs: dict[str, Any], ranges: list[ByteRange | None], remote: bool) -> None:
    """Reading by references gives what a store of the values gives, alone and many at once."""
    store = store_of({"version": 1, "refs": refs}, Counted(FILES) if remote else None)
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


@pytest.mark.slow
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
        (b"[" * 100_000, "nested too deeply|max_input_bytes"),
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


def fanning(width: int, depth: int, inner: str, call: str = "{{t%d}}") -> dict[str, str]:
    """Return templates each of which names the next one `width` times."""
    names = {f"t{level}": (call % (level + 1) if "%" in call else call) * width for level in range(depth)}
    return {**names, f"t{depth}": inner}


COSTLY: dict[str, tuple[dict[str, str], str]] = {
    "an empty text, 8**15 times": (fanning(8, 15, ""), "{{t0}}f"),
    "arguments that differ each time": (fanning(4, 15, "", "{{t%d(a=a * 2)}}"), "{{t0(a=1)}}f"),
    "a long text": ({"t": "y" * 60_000}, "{{t}}" * 13_000),
    "wide characters": ({"t": "\U0001f600" * 60_000}, "{{t}}" * 13_000),
    "many expressions": ({"t": ""}, "{{1 - 1}}" * 100_000),
    "many names": ({"t": ""}, "{{t}}" * 100_000),
}


@pytest.mark.parametrize("case", COSTLY)
def test_templates_end_at_the_budget(case: str) -> None:
    templates, url = COSTLY[case]
    document = {
        "version": 1,
        "templates": {**templates, "u": "a.bin"},
        "refs": {"x": [url, 0, 1], "y": ["a.bin", 1, 1]},
    }
    with config.configure(max_input_bytes=2**16):
        store = store_of(document)
        tracemalloc.start()
        try:
            for _ in range(2):  # what is used up stays so
                with pytest.raises(StoreError, match="max_input_bytes") as caught:
                    store.get("x")
            assert tracemalloc.get_traced_memory()[1] < 2**21
        finally:
            tracemalloc.stop()
        assert (caught.value.key, caught.value.path) == ("x", "reference::test")
        assert store.get("y") == b"\1"


def test_unclosed_braces_are_text_and_take_no_longer_than_others() -> None:
    found = JsonReferences({"version": 1, "templates": {"t": "y"}, "refs": {"x": ["{{" * 30_000 + "}{{t}", 0, 1]}})
    assert found.find("x") == Reference("{{" * 30_000 + "}{{t}", 0, 1)


def test_an_ordinary_lookup_costs_nothing() -> None:
    document = {"version": 1, "templates": {"u": "{{v}}", "v": "a.bin"}, "refs": {"x": ["{{u}}", 1, 1]}}
    with config.configure(max_input_bytes=2**16):
        store = store_of(document)
        assert {store.get("x") for _ in range(1000)} == {b"\1"}


NAMES = ["a", "b", "c", "d"]


@given(st.lists(st.lists(st.sampled_from(["x", "}}", "{ ", *NAMES]), max_size=4), min_size=4, max_size=4))
def test_templates_are_replaced_by_their_texts(texts: list[list[str]]) -> None:
    """Templates that refer to later templates only, so that every reference can be replaced."""
    plain: dict[str, str] = {}
    templates: dict[str, str] = {}
    for place in reversed(range(4)):
        words = [word for word in texts[place] if word not in NAMES or word > NAMES[place]]
        templates[NAMES[place]] = "".join(f"{{{{ {word} }}}}" if word in NAMES else word for word in words)
        plain[NAMES[place]] = "".join(plain.get(word, word) for word in words)
    assert render("{{a}}", templates, Budget()) == plain["a"]


# --- generators

DIMENSIONS = st.one_of(
    st.lists(st.integers(-3, 3) | st.sampled_from(["p", "q"]), max_size=3),
    st.builds(
        lambda start, stop, step: {"start": start, "stop": stop, "step": step},
        st.integers(-4, 4),
        st.integers(-4, 4),
        st.sampled_from([-3, -1, 1, 2]),
    ),
)


@given(st.lists(DIMENSIONS, max_size=3), st.sampled_from(["", "{{u}}", "%s{{ u }}%", "{{f(w='z')}}"]))
def test_a_generator_makes_all_combinations(dimensions: list[Any], text: str) -> None:
    names = [f"d{number}" for number in range(len(dimensions))]
    entry = {
        "key": text + ".".join(f"{{{{{name}}}}}" for name in names),
        "url": "{{u}}/" + "-".join(f"{{{{{name}}}}}" for name in names),
        "dimensions": dict(zip(names, dimensions)),
    }
    if names and isinstance(dimensions[0], dict):
        entry |= {"offset": "{{ d0 * 10 + 50 }}", "length": 7}
    templates = {"u": "host", "f": "<{{w}}>"}
    shown = {"": "", "{{u}}": "host", "%s{{ u }}%": "%shost%", "{{f(w='z')}}": "<z>"}[text]
    values = [d if isinstance(d, list) else range(d["start"], d["stop"], d["step"]) for d in dimensions]
    wanted = {}
    for row in product(*values):
        part = [row[0] * 10 + 50, 7] if "offset" in entry else []
        wanted[shown + ".".join(map(str, row))] = Reference("host/" + "-".join(map(str, row)), *part)
    found = JsonReferences({"version": 1, "templates": templates, "gen": [entry], "refs": {}})
    assert {key: found.find(key) for key in found._made} == wanted
    assert found.some_url() == next((item.url for item in wanted.values()), None)
    again = pickle.loads(pickle.dumps(found))
    assert {key: again.find(key) for key in wanted} == wanted


def several(count: int, **entry: Any) -> list[dict[str, Any]]:
    return [{"key": "x/{{i}}", "url": "a.bin", "dimensions": {"i": {"stop": 10**12}}, **entry} for _ in range(count)]


ENDLESS: dict[str, list[dict[str, Any]]] = {
    "one": several(1),
    "more than can be counted": several(1, dimensions={"i": {"stop": 2**62}, "j": {"stop": 2**62}}),
    "many of which each is allowed": several(50, dimensions={"i": {"stop": 100}}),
    "always the same key": several(1, key="x/0"),
    "long keys": several(1, key="{{t}}{{i}}", dimensions={"i": {"stop": 20}}),
    "long values": several(1, key="{{w}}{{i}}", dimensions={"w": ["y" * 4000], "i": {"stop": 20}}),
    "long keys of templates": several(1, key="{{f(w=1)}}{{i}}", dimensions={"i": {"stop": 20}}),
    "two to the power of many": several(1, dimensions={f"i{number}": [0, 1] for number in range(5000)}, key="{{i0}}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ENDLESS)
def test_a_generator_is_bounded(case: str) -> None:
    templates = {"t": "y" * 4000, "f": "{{t}}{{w}}"}
    with config.configure(max_input_bytes=2**16), pytest.raises(StoreError, match="max_input_bytes"):
        JsonReferences({"version": 1, "templates": templates, "gen": ENDLESS[case], "refs": {}})


@pytest.mark.parametrize(
    "dimension",
    [
        {"stop": 10**30},
        {"start": -(10**30), "stop": 0},
        {"stop": 5, "step": 0},
        {"stop": 5, "step": 2**70},
        {"stop": 5.5},
        {"stop": "5"},
        {"stop": True},
        {"start": 1},
        [1.5],
        [[1]],
        7,
        None,
    ],
)
def test_wrong_dimensions_name_the_field(dimension: Any) -> None:
    entry = {"key": "x/{{i}}", "url": "a.bin", "dimensions": {"i": dimension}}
    with pytest.raises(StoreError, match="are not the values of the dimension 'i'") as caught:
        JsonReferences({"version": 1, "gen": [entry], "refs": {}})
    assert caught.value.field == "gen"


def test_no_combinations_are_looked_for_where_a_dimension_is_empty() -> None:
    entry = {"key": "x/{{i}}", "url": "a.bin", "dimensions": {"i": {"stop": 2**62}, "j": []}}
    assert JsonReferences({"version": 1, "gen": [entry], "refs": {}})._made == {}


def test_white_space_in_a_value_takes_no_memory() -> None:
    value = "base64:" + "Y W\nJ\tj" + " " * 10**6
    found = JsonReferences({"x": value})
    tracemalloc.start()
    try:
        assert found.find("x") == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 4 * 10**6
    finally:
        tracemalloc.stop()


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
        (lambda: MemoryStore({INDEX: b"{"}), "not valid JSON"),
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


def written(rows: Any, **options: Any) -> bytes:
    """Return a Parquet file."""
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    files.write_table(arrow.table(rows), sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def with_rows(raw: bytes | None, shape: int, record_size: int = 1000) -> MemoryStore:
    array = {"zarr_format": 2, "shape": [shape], "chunks": [1], "dtype": "|u1", "compressor": None, "fill_value": 0}
    index = {"metadata": {".zgroup": {"zarr_format": 2}, "x/.zarray": array}, "record_size": record_size}
    store = MemoryStore({INDEX: json.dumps(index).encode()})
    if raw is not None:
        store.set("x/refs.0.parq", raw)
    return store


class Unlisted(MemoryStore):
    """A store like a web server."""

    listable = False


@pytest.mark.parametrize("record_size", [1, 2**31 - 1])
def test_a_grid_of_any_size_costs_what_is_stored(record_size: int) -> None:
    pytest.importorskip("pyarrow")
    empty = of_parquet(with_rows(None, 10**15, record_size))
    assert sorted(empty.list()) == [".zgroup", "x/.zarray"]
    store = of_parquet(with_rows(written({"path": ["a.bin"], "offset": [3], "size": [2]}), 10**15, record_size))
    assert sorted(store.list()) == [".zgroup", "x/.zarray", "x/0"]
    assert store.list_dir("x/") == (["x/.zarray", "x/0"], [])
    assert store.get("x/0") == b"\3\4"
    assert store.get(f"x/{10**15 - 1}") is None


def test_unlisted_store_requests_rows_up_to_the_budget() -> None:
    raw = written({"path": ["a.bin"] * 2})
    small, large = (with_rows(raw, shape, 2) for shape in (5, 10**15))
    assert sorted(of_parquet(Unlisted({key: small.get(key) for key in small.list()})).list())[2:] == ["x/0", "x/1"]
    store = of_parquet(Unlisted({key: large.get(key) for key in large.list()}))
    with pytest.raises(StoreError, match="rows of references that are not there"):
        [*store.list()]


def test_parquet_files_with_similar_names_are_not_references() -> None:
    store = with_rows(written({"path": ["a.bin"]}), 9, 1)
    for name in ("x/refs.00.parq", "x/refs.9.parq", "x/refs.x.parq", "y/refs.0.parq", "refs.0.parq", "x/refs.1.parq.x"):
        store.set(name, written({"path": ["b/c.bin"]}))
    assert sorted(of_parquet(store).list()) == [".zgroup", "x/.zarray", "x/0"]


def repeated(value: bytes, times: int) -> Any:
    arrow = pytest.importorskip("pyarrow")
    return arrow.DictionaryArray.from_arrays(arrow.array([0] * times, arrow.int32()), arrow.array([value]))


WHOLE = {"data_page_size": 2**30, "dictionary_pagesize_limit": 2**30, "store_schema": False}


def test_a_value_that_all_rows_share_is_in_memory_once() -> None:
    arrow = pytest.importorskip("pyarrow")
    raw = written({"raw": repeated(b"z" * 2**20, 2500)}, compression="zstd", **WHOLE)
    references = ParquetReferences(with_rows(raw, 2500, 2500))
    assert references.find("x/2499") == b"z" * 2**20
    assert references._taken < 2**23
    assert sum(1 for _ in references.keys("x/")) == 2501
    assert arrow.total_allocated_bytes() < 2**28


BOMBS: dict[str, Callable[[], bytes]] = {
    "a page": lambda: written({"raw": [bytes(2**22)]}, compression="zstd", use_dictionary=False, **WHOLE),
    "a dictionary": lambda: written({"raw": repeated(bytes(2**22), 3)}, compression="zstd", **WHOLE),
    "texts that share their beginning": lambda: written(
        {"raw": [bytes(2**16) + b"%d" % row for row in range(200)]},
        use_dictionary=False,
        column_encoding={"raw": "DELTA_BYTE_ARRAY"},
        compression="zstd",
        **WHOLE,
    ),
    "rows": lambda: written({"raw": repeated(b"a", 10**5)}, **WHOLE),
    "missing rows": lambda: written({"offset": [None] * 10**5}, **WHOLE),
    "row groups": lambda: written({"path": ["a.bin"] * 200}, row_group_size=1),
}


@pytest.mark.slow
@pytest.mark.sampled(one_in=7)
@pytest.mark.parametrize("case", BOMBS)
def test_rows_end_at_the_budget(case: str) -> None:
    raw = BOMBS[case]()
    assert [*ParquetReferences(with_rows(raw, 10**6, 10**6)).keys("x/")]
    with config.configure(max_input_bytes=2**21), pytest.raises(StoreError, match="max_input_bytes") as caught:
        of_parquet(with_rows(raw, 10**6, 10**6)).get("x/0")
    assert caught.value.key in ("x/refs.0.parq", "x/0")


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "dictionary"])
@pytest.mark.parametrize("row_group_size", [3, None])
@pytest.mark.parametrize("kind", ["binary", "string", "large_string"])
def test_rows_in_every_encoding(encoding: str, row_group_size: int | None, kind: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    texts = ["a.bin", None, "b/c.bin", "a.bin", "empty", None, "a.bin"]
    paths = arrow.array([text and text.encode() for text in texts], arrow.binary()).cast(getattr(arrow, kind)())
    how = {"use_dictionary": True} if encoding == "dictionary" else {"use_dictionary": False}
    how |= {} if encoding == "dictionary" else {"column_encoding": {"path": encoding}}
    raw = written({"path": paths, "offset": list(range(7)), "size": [1] * 7}, row_group_size=row_group_size, **how)
    store = ParquetReferences(with_rows(raw, 7))
    if kind == "binary":
        with pytest.raises(StoreError, match="names no file"):
            store.find("x/0")
        return
    wanted = [None if text is None else Reference(text, row, 1) for row, text in enumerate(texts)]
    wanted[0] = Reference("a.bin", 0, 1)
    assert [store.find(f"x/{row}") for row in range(7)] == wanted


def test_nested_columns_are_refused() -> None:
    raw = written({"raw": [[None] * 1000] * 3, "path": ["a.bin"] * 3})
    with pytest.raises(StoreError, match="nested"):
        ParquetReferences(with_rows(raw, 3)).find("x/0")


def test_large_tables_do_not_stay_in_memory() -> None:
    store = with_rows(None, 10, 1)
    for record in range(10):
        store.set(f"x/refs.{record}.parq", written({"raw": [bytes([record]) * 10**5]}))
    with config.configure(max_input_bytes=250_000):
        references = ParquetReferences(store)
        assert [references.find(f"x/{record}") for record in range(10)] == [bytes([n]) * 10**5 for n in range(10)]
        assert references._taken <= 250_000
        assert sum(size for _, size in references._tables.values()) == references._taken


@pytest.mark.parametrize(
    "document", ['{"shape": [5], "chunks": [1]', "[]", {"shape": [2**62] * 40, "chunks": [1] * 40}]
)
def test_arrays_that_have_no_grid(document: Any) -> None:
    store = with_rows(written({"path": ["a.bin"]}), 1)
    store.set(INDEX, json.dumps({"metadata": {"x/.zarray": document}, "record_size": 1}).encode())
    with pytest.raises(StoreError) as caught:
        of_parquet(store).get("x/0")
    assert caught.value.key == "x/.zarray" or "x/0" in str(caught.value)


def test_a_check_of_hostile_references_ends(tmp_path: Path) -> None:
    array = {"zarr_format": 2, "shape": [50], "chunks": [1], "dtype": "|u1", "compressor": None, "fill_value": 0}
    more = {"filters": None, "order": "C"}
    refs = {f"x/{number}": ["{{t0}}f", 0, 1] for number in range(50)}
    document = {"version": 1, "templates": fanning(8, 15, ""), "refs": {"x/.zarray": json.dumps(array | more), **refs}}
    (tmp_path / "r.json").write_text(json.dumps(document))
    with config.configure(max_input_bytes=2**18):
        report = tegula.check(tmp_path / "r.json", path="x")
    assert len(report.findings) == 50
