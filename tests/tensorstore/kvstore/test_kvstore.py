"""The same operations on TensorStore's key-value stores and on these give the same answers."""

import copy
import os
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.context import Context
from tegula.tensorstore.kvstore.kvstore import KvStore

pytestmark = pytest.mark.once(executors="none")

KEYS = st.sampled_from(["a", "b", "c", "d/e", "d/f/g", "d0", "é", "D"])
ANY_KEYS = st.one_of(KEYS, st.sampled_from(["", "/x", "x/", "a//b", "../x", "k.__lock", b"n\0l"]))
VALUES = st.one_of(st.none(), st.sampled_from([b"", b"0123456789", "text", b"\0" * 3000]))
CONDITIONS = st.sampled_from(["none", "none", "missing", "current", "bogus"])
BOUNDS = st.one_of(st.none(), st.integers(-12, 12))
EDGES = st.sampled_from(["", "a", "b", "d/", "d0", "d/f", "zz", "é"])


def operations(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(
        st.one_of(
            st.tuples(st.just("write"), keys, VALUES, CONDITIONS),
            st.tuples(st.just("read"), keys, st.one_of(st.none(), st.builds(slice, BOUNDS, BOUNDS)), CONDITIONS),
            st.tuples(st.just("list"), EDGES, EDGES, st.integers(0, 3), st.sampled_from(["", "d", "d/"])),
            st.tuples(st.just("delete"), EDGES, EDGES),
            st.tuples(st.just("in"), keys),
        ),
        max_size=14,
    )


def condition(store: Any, key: Any, name: str) -> bytes | None:
    if name == "current":
        token: bytes = store.read(key).result().stamp.generation
        return token
    return {"none": None, "missing": b"\2", "bogus": b"bogus"}[name]


def perform(package: Any, store: Any, operation: tuple[Any, ...]) -> Any:
    name, *arguments = operation
    if name == "write":
        key, value, wanted = arguments
        token = store.write(key, value, if_equal=condition(store, key, wanted)).result().generation
        return len(token), token == b"\2"
    if name == "read":
        key, part, wanted = arguments
        actual = store.read(key, byte_range=part, if_not_equal=condition(store, key, wanted)).result()
        return actual.state, actual.value, len(actual.stamp.generation)
    if name == "list":
        low, high, strip, path = arguments
        return sorted((store + path).list(package.KvStore.KeyRange(low, high), strip).result())
    if name == "delete":
        return store.delete_range(package.KvStore.KeyRange(*arguments)).result()
    return arguments[0] in store


def outcome(package: Any, store: Any, operation: tuple[Any, ...]) -> Any:
    try:
        return perform(package, store, operation)
    except ValueError as error:
        return kind_and_code(error)


class Own:
    Context, KvStore = Context, KvStore


@settings(deadline=None, max_examples=300)
@given(operations(ANY_KEYS))
def test_memory_stores_behave_the_same(steps: list[tuple[Any, ...]]) -> None:
    stores = [(package, package.KvStore.open("memory://p/").result()) for package in (Own, tensorstore)]
    for step in steps:
        if step[0] == "list" and step[2] and step[1] >= step[2]:
            continue  # makes TensorStore allocate all memory
        actual, wanted = (outcome(package, store, step) for package, store in stores)
        assert actual == wanted, step


@settings(deadline=None, max_examples=120)
@given(operations(ANY_KEYS))
def test_file_stores_behave_the_same(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        stores = []
        for package in (Own, tensorstore):
            directory = Path(root, package.__name__)
            context = package.Context({"file_io_sync": False})
            stores.append(
                (package, package.KvStore.open(f"file://{directory}/", context=context).result(), str(directory))
            )
        for step in steps:
            if step[0] == "list" and (step[3] or (step[2] and step[1] >= step[2])):
                continue  # which may end the process, in TensorStore
            if step[0] == "delete" and step[1:] in {("d/", "d0"), ("", "")}:
                for _, _, path in stores:
                    shutil.rmtree(path, ignore_errors=True)  # one of the two leaves empty directories behind
            actual, wanted = (
                outcome(package, store, step) if path is None else _without(path, outcome(package, store, step))
                for package, store, path in stores
            )
            assert actual == wanted, step


def _without(path: str, answer: Any) -> Any:
    return answer.replace(path, "<ROOT>").split(" [")[0] if isinstance(answer, str) else answer


SPECS = [
    "memory://", "memory://a/b", "file:///tmp/x/", "file://localhost/tmp/a", "memory://a%20b", "memory:///a",
    "file:///x.zip|zip:a/b", "memory://x|zip", "file:///", "file:///a/../b/", "memory://~!@$&()*+,;=:[]^`{}\"<>\\'",
    {"driver": "memory", "path": "a\t"}, {"driver": "file", "path": "tmp/x/"}, {"driver": "memory", "atomic": False},
    {"driver": "memory", "context": {"memory_key_value_store": {}}}, {"driver": "file"},
    {"driver": "memory", "memory_key_value_store": "memory_key_value_store#a"},
    {"driver": "memory", "memory_key_value_store": ["memory_key_value_store"]},
    {"driver": "memory", "memory_key_value_store": {}},
    {"driver": "file", "path": "/x", "file_io_sync": False, "file_io_concurrency": {"limit": 3}},
    {"driver": "zip", "base": "memory://a", "compression": "store", "path": "q"},
]  # fmt: skip
REFUSED = [
    5, None, "", {}, "tmp/x", "file://tmp/x", "foo://x", "memory:", "memory:/a", "memory://a?q", "memory://a#f", ":",
    "memory://x|zarr2:", "memory://x|foo:", "zarr2:", "file:///a|memory:", "|memory:", "memory://|", "file://",
    "file:/tmp/x", "file:///x?y", "memory://a|zip://b", "memory://a|zip:?x", "memory://A/%2f%", "memory://%4",
    "MEMORY://x", "memory://a|x", {"driver": 5}, {"driver": "foo"}, {"driver": "memory", "path": 5}, {"driver": "zip"},
    {"driver": "memory", "x": 1, "y": 2}, {"driver": "memory", "context": 5}, {"driver": "memory", "atomic": 5},
    {"driver": "memory", "memory_key_value_store": None}, {"driver": "memory", "memory_key_value_store": 5},
    {"driver": "memory", "memory_key_value_store": {"a": 1}}, {"driver": "file", "path": "/tmp//x"},
    {"driver": "file", "path": "a\0b"}, {"driver": "file", "path": "/a/./b"}, {"driver": "file", "path": "//b//"},
    {"driver": "zip", "base": 5}, {"driver": "zip", "base": "memory://", "compression": "foo"},
]  # fmt: skip


@pytest.mark.parametrize("json", SPECS, ids=str)
def test_specs_mean_the_same(json: Any) -> None:
    actual, wanted = KvStore.Spec(json), tensorstore.KvStore.Spec(json)
    for _ in range(2):
        assert repr(actual) == repr(wanted)
        assert actual.to_json() == wanted.to_json()
        assert actual.to_json(include_defaults=True) == wanted.to_json(include_defaults=True)
        assert [*actual.to_json()] == [*wanted.to_json()]
        assert repr(actual.base) == repr(wanted.base)
        for more in ("abc", "/abc", "abc/", ""):
            assert repr(actual / more) == repr(wanted / more)
            assert repr(actual + more) == repr(wanted + more)
        if actual.path.startswith("/") or "file" not in repr(actual):
            assert actual.url == wanted.url
        assert repr(pickle.loads(pickle.dumps(actual))) == repr(actual)
        assert repr(copy.deepcopy(actual)) == repr(actual)
        if "#a" in repr(json):
            break
        actual.update(context=Context())
        wanted.update(context=tensorstore.Context())
    actual.update(unbind_context=True)
    wanted.update(unbind_context=True)
    assert repr(actual) == repr(wanted)
    actual.update(strip_context=True)
    wanted.update(strip_context=True)
    assert repr(actual) == repr(wanted)
    actual.path, wanted.path = "other", "other"
    assert repr(actual) == repr(wanted)


@pytest.mark.parametrize("json", REFUSED, ids=str)
def test_specs_are_refused_the_same(json: Any) -> None:
    with pytest.raises(ValueError) as wanted:
        tensorstore.KvStore.Spec(json)
    with pytest.raises(ValueError) as raised:
        KvStore.Spec(json)
    assert kind_and_code(raised.value) == kind_and_code(wanted.value)


def test_equality_is_that_of_resources() -> None:
    first, second = KvStore.Spec("memory://"), KvStore.Spec("memory://")
    context = Context()
    assert first == second
    first.update(context=context)
    assert first != second
    second.update(context=context)
    assert first == second
    second.update(unbind_context=True)
    assert first != second
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)


@pytest.mark.parametrize(
    "spec", ["memory://p/", {"driver": "file", "path": "/tmp/q/", "file_io_sync": False}, "file:///tmp/q.zip|zip:a"]
)
def test_open_stores_have_the_same_properties(spec: Any) -> None:
    actual, wanted = KvStore.open(spec).result(), tensorstore.KvStore.open(spec).result()
    for store, other in ((actual, wanted), (actual / "x", wanted / "x"), (actual + b"y", wanted + b"y")):
        assert repr(store) == repr(other)
        assert (store.path, store.url, repr(store.base)) == (other.path, other.url, repr(other.base))
        for options in ({}, {"retain_context": True}, {"unbind_context": True}):
            assert repr(store.spec(**options)) == repr(other.spec(**options))
        assert repr(pickle.loads(pickle.dumps(store))) == repr(store)
    again = KvStore.open(actual.spec(retain_context=True)).result()
    if actual.spec()._driver == "memory":
        actual["k"] = "v"
        assert again["k"] == b"v"
        moved = actual.copy()
        moved.path = "other/"
        assert "k" not in moved
        assert "k" in copy.copy(actual)


@pytest.mark.parametrize("spec", ["memory://", "file://{root}/k/", "file://{root}/k.zip|zip:"])
def test_copying_and_errors(spec: str, tmp_path: Path) -> None:
    store = KvStore.open(spec.format(root=tmp_path), context=Context({"file_io_sync": False})).result()
    for key in ("a/1", "a/2", "b"):
        store[key] = key
    with pytest.raises(NotImplementedError, match="CopyRange not supported"):
        (store / "a/").experimental_copy_range_to(store / "c/").result()
    assert store.list().result() == [b"a/1", b"a/2", b"b"]
    with pytest.raises(KeyError, match="'missing'"):
        store["missing"]
    del store["a/1"], store["a/1"]
    store["a/2"] = None
    assert store.list(KvStore.KeyRange("a", "b")).result() == []
    token = store.read("b").result().stamp.generation
    for part in (None, slice(0, 100), slice(-100, None)):
        assert store.read("b", if_not_equal=token, byte_range=part).result().state == "unspecified"
    assert store.write("b", b"new", if_equal=token).result().generation
    assert store.write("b", b"newer", if_equal=token).result().generation == b""
    assert store.write("b", None, if_equal=token).result().generation == b""
    assert store["b"] == b"new"
    wrong: Any = 5
    for action in (store.__getitem__, store.list, store.delete_range):
        with pytest.raises(TypeError):
            action(wrong)
    with pytest.raises(TypeError):
        store.write("a", wrong)
    for part in (slice(0, 1, 1), wrong, slice("a")):
        with pytest.raises(TypeError):
            store.read("b", byte_range=part)


def test_files_in_the_way(tmp_path: Path) -> None:
    context = Context({"file_io_sync": False})
    store = KvStore.open(f"file://{tmp_path}/", context=context).result()
    store["f"] = b"1"
    below = store / "f/"
    assert store.read("f/x").result().state == "missing"
    assert below.read("x").result().state == "missing"
    for future in (below.list(), below.delete_range(KvStore.KeyRange())):
        with pytest.raises(ValueError, match=r'NOT_FOUND: Cannot list non-directory: ".*/f"'):
            future.result()
    for target, key in ((below, "x"), (store, "f/x"), (store, "f/x/y")):
        with pytest.raises(ValueError, match=r'FAILED_PRECONDITION: ".*/f'):
            target.write(key, b"").result()
    store["d/e"] = b"2"
    with pytest.raises(ValueError, match=r'FAILED_PRECONDITION: .*/d": Is a directory'):
        store.write("d", b"").result()
    os.symlink(tmp_path / "d", tmp_path / "link")
    assert store["link/e"] == b"2"
    assert (store + "link/").list().result() == [b"e"]
