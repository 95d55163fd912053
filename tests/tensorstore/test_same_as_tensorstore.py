"""Small behaviours that programs rely on, each compared with TensorStore itself."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import subprocess
import sys
import types
import weakref
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tegula.tensorstore as ts
from tegula.errors import TegulaError

peer = pytest.importorskip("tensorstore")
ERRORS = (IndexError, KeyError, TypeError, OverflowError, NotImplementedError, ValueError)


def outcome(function: Any) -> Any:
    """Return what a call returns, or the built-in class of its error."""
    try:
        result = function()
    except ERRORS as error:
        return next(kind for kind in ERRORS if isinstance(error, kind))
    return (type(result), repr(result))


# --- flags inside of adapters

_BASE = {"driver": "zarr", "kvstore": "memory://", "metadata": {"shape": [3], "dtype": "<f4"}}
_FLAGS: tuple[dict[str, bool], ...] = (
    {},
    {"create": True},
    {"create": True, "open": True},
    {"create": True, "delete_existing": True},
)


def adapted(module: ModuleType, adapter: str, flags: dict[str, bool], keywords: dict[str, bool]) -> list[Any]:
    members: dict[str, Any] = {
        "cast": {"dtype": "int32"},
        "downsample": {"downsample_factors": [2], "downsample_method": "stride"},
    }[adapter]
    spec = {"driver": adapter, "base": {**_BASE, **flags}, **members}
    result = module.Spec(spec)
    result.update(**keywords)
    return [
        outcome(lambda: module.open(spec, **keywords).result().domain),
        repr(result.open_mode),
        outcome(lambda: module.Spec({**spec, **flags}).rank),
    ]


@pytest.mark.parametrize("adapter", ["cast", "downsample"])
@pytest.mark.parametrize("flags", _FLAGS)
@pytest.mark.parametrize("keywords", [{}, {"open": True}, {"create": True}, {"create": True, "delete_existing": True}])
def test_flags_of_the_base_of_an_adapter(adapter: str, flags: dict[str, bool], keywords: dict[str, bool]) -> None:
    assert adapted(ts, adapter, flags, keywords) == [
        each if not isinstance(each, tuple) else (ts.IndexDomain, each[1]) if "Domain" in str(each[0]) else each
        for each in adapted(peer, adapter, flags, keywords)
    ]


def test_a_cast_array_is_created_and_replaced(tmp_path: Path) -> None:
    base = {"driver": "zarr", "kvstore": f"file://{tmp_path}/", "metadata": {"shape": [3], "dtype": "<f4"}}
    spec = {"driver": "cast", "dtype": "int8", "base": {**base, "create": True, "delete_existing": True}}
    for value in (3, 4):
        array = ts.open(spec).result()
        assert array.read().result().tolist() == [0, 0, 0]
        array[...] = value
    assert ts.open(base).result().read().result().tolist() == [4.0] * 3


# --- constraints inside of adapters

_ZARR: dict[str, Any] = {"driver": "zarr", "kvstore": "memory://a/"}
_VIEW = {"input_rank": 1, "output": [{"input_dimension": 0}, {"offset": 1}]}
_IN_MEMORY = {"driver": "array", "array": [[1, 2], [3, 4]], "dtype": "int8"}
_CAST = {"driver": "cast", "dtype": "int32"}
_MEAN = {"driver": "downsample", "downsample_factors": [1, 2], "downsample_method": "mean"}


@pytest.mark.parametrize(
    "spec",
    [
        {**_CAST, "base": {**_ZARR, "rank": 2}},
        {**_CAST, "rank": 2, "base": _ZARR},
        {**_CAST, "rank": 2, "base": {**_ZARR, "rank": 3}},
        {**_CAST, "rank": 2, "base": {**_ZARR, "schema": {"domain": {"shape": [2, 3, 4]}}}},
        {**_CAST, "transform": {"input_rank": 2}, "base": _ZARR},
        {**_CAST, "transform": {"input_rank": 2}, "base": {**_ZARR, "rank": 3}},
        {**_CAST, "base": {**_ZARR, "transform": _VIEW}},
        {**_CAST, "rank": 1, "base": {**_ZARR, "transform": _VIEW}},
        {**_CAST, "rank": 2, "base": {**_ZARR, "transform": _VIEW}},
        {**_CAST, "schema": {"domain": {"shape": [2, 3]}}, "base": _ZARR},
        {**_CAST, "schema": {"fill_value": 3.5, "dimension_units": ["m"]}, "base": {**_ZARR, "dtype": "float32"}},
        {**_CAST, "rank": 1, "base": _IN_MEMORY},
        {**_MEAN, "rank": 3, "base": _ZARR},
        {**_MEAN, "base": {**_ZARR, "rank": 2}},
        {**_MEAN, "rank": 2, "base": {**_ZARR, "rank": 2}},
        {**_MEAN, "base": {**_ZARR, "rank": 3}},
        {"driver": "stack", "rank": 2, "layers": [{**_ZARR, "schema": {"domain": {"shape": [2]}}}]},
    ],
)
def test_ranks_and_constraints_of_adapters(spec: Any) -> None:
    assert outcome(lambda: ts.Spec(spec).to_json()) == outcome(lambda: peer.Spec(spec).to_json())


def updated(module: ModuleType, spec: Any, options: dict[str, Any]) -> Any:
    changed = module.Spec(spec)
    changed.update(**options)
    return changed.to_json()


def test_a_cast_takes_constraints_for_its_base() -> None:
    for options in ({"rank": 2}, {"rank": 3}, {"fill_value": 3}):
        for spec in ({**_CAST, "base": _ZARR}, {**_CAST, "rank": 2, "base": _ZARR}):
            mine, theirs = (outcome(partial(updated, module, spec, options)) for module in (ts, peer))
            assert mine == theirs, (options, spec)
    view = {"input_shape": [2], "output": [{"offset": 1, "input_dimension": 0, "stride": -1}]}
    column = {**_IN_MEMORY, "transform": {"input_shape": [2], "output": _VIEW["output"]}}
    for extra in ({}, {"transform": view}):
        mine, theirs = (module.open({**_CAST, **extra, "base": column}).result() for module in (ts, peer))
        assert mine.read().result().tolist() == theirs.read().result().tolist()
        assert repr(mine.domain) == repr(theirs.domain)


@pytest.mark.parametrize("units", [[], [None], ["m"], ["", None]])
def test_dimension_units_of_zarr_v3(units: list[str | None]) -> None:
    members = {"driver": "zarr3", "kvstore": "memory://a/"}
    partial_metadata = {"attributes": {"dimension_units": units}}
    whole = {**partial_metadata, "shape": [3] * len(units), "data_type": "int8"}
    grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * len(units)}}}
    for metadata in (partial_metadata, grid):
        mine, theirs = (module.Spec({**members, "metadata": metadata}) for module in (ts, peer))
        assert mine.to_json() == theirs.to_json()
        assert mine.schema.to_json() == theirs.schema.to_json()
        assert (mine.rank, repr(mine.dimension_units)) == (theirs.rank, repr(theirs.dimension_units))
    mine, theirs = (module.open({**members, "metadata": whole}, create=True).result() for module in (ts, peer))
    assert mine.spec().to_json() == theirs.spec().to_json()


# --- batches

_SOURCES: dict[str, Any] = {"number": 1, "list": [1, 2, 3], "array": np.zeros(3, np.int32)}


@pytest.mark.parametrize("module", [ts, peer])
def test_only_writes_from_an_array_can_be_batched(module: ModuleType) -> None:
    target, source = module.array(np.zeros(3, np.int32)), module.array(np.ones(3, np.int32))
    for value in _SOURCES.values():
        text = "Invalid batch: batch can only be specified when copying from a TensorStore source"
        with module.Batch() as batch, pytest.raises(ValueError, match=text):
            target.write(value, batch=batch)
    batch = module.Batch()
    futures = target.write(source, batch=batch)
    if module is ts:  # TensorStore may be faster
        assert (futures.copy.done(), futures.commit.done()) == (False, False)
    batch.submit()
    futures.result()
    assert target.read().result().tolist() == [1, 1, 1]
    wrong: Any = 3
    for action in (lambda: target.write(source, batch=wrong), lambda: target.read(batch=wrong)):
        with pytest.raises(TypeError):
            action()
    with pytest.raises(TypeError):
        target.resolve(batch=wrong)


@pytest.mark.parametrize("module", [ts, peer])
def test_functions_that_compute_chunks_see_the_batch(module: ModuleType) -> None:
    source = module.array(np.arange(20, dtype=np.int64).reshape(4, 5))
    batches = []

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        batches.append(isinstance(parameters.batch, module.Batch))
        chunk[...] = source[domain].read(batch=parameters.batch).result()

    array = module.virtual_chunked(read, dtype=np.int64, shape=[4, 5], context=module.Context({}))
    with module.Batch() as batch:
        future = array[1:3].read(batch=batch)
    assert future.result().tolist() == array[1:3].read().result().tolist() == source[1:3].read().result().tolist()
    assert batches == [True, False]


# --- reads that wait for a promise

_WAITING = """
import sys, time
import numpy as np
import tegula.tensorstore as ts
promises, threads = [], []

def read(domain, array, parameters):
    promise, future = ts.Promise.new()
    promises.append(promise)
    return future

a = ts.virtual_chunked(read, dtype=np.int32, shape=[2, 4], chunk_layout=ts.ChunkLayout(chunk_shape=[2, 2]))
pending = [a.read(), a.astype(ts.float32).read(), ts.stack([a, a]).read(), ts.downsample(a, [2, 1], "stride").read()]
pending.append(ts.array(np.zeros((2, 4), np.int32)).write(a))
with ts.Batch() as batch:
    pending.append(a.read(batch=batch))
while len(promises) < len(pending):
    time.sleep(0.01)
print(any(future.done() for future in pending))
"""


@pytest.mark.slow
def test_reads_that_wait_for_a_promise_do_not_keep_the_process() -> None:
    command = [sys.executable, "-c", _WAITING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


def test_many_reads_wait_for_promises_at_once() -> None:
    waiting: list[Any] = []

    def read(domain: Any, array: Any, parameters: Any) -> Any:
        promise, future = ts.Promise.new()
        waiting.append((promise, domain, array))
        return future

    layout = ts.ChunkLayout(chunk_shape=[2, 2])
    array = ts.virtual_chunked(read, dtype=np.int32, shape=[2, 4], chunk_layout=layout)
    futures = [array.read() for _ in range(100)]  # more than there are threads
    calls = 0
    while not all(future.done() for future in futures):
        while waiting:
            promise, domain, values = waiting.pop()
            values[...] = np.arange(8).reshape(2, 4)[:, domain.inclusive_min[1] : domain.exclusive_max[1]]
            promise.set_result(None)
            calls += 1
    assert calls == 200  # once for each chunk of each read
    assert all(future.result().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] for future in futures)


def test_writes_that_wait_call_each_function_once() -> None:
    calls: list[tuple[str, Any]] = []
    data = np.zeros(4, np.int32)

    def answer(kind: str, domain: Any) -> Any:
        calls.append((kind, domain.inclusive_min[0]))
        promise, future = ts.Promise.new()
        promises.append(promise)
        return future

    def read(domain: Any, array: Any, parameters: Any) -> Any:
        array[...] = data[domain.inclusive_min[0] : domain.exclusive_max[0]]
        return answer("read", domain)

    def write(domain: Any, array: Any, parameters: Any) -> Any:
        data[domain.inclusive_min[0] : domain.exclusive_max[0]] = array
        return answer("write", domain)

    promises: list[Any] = []
    layout = ts.ChunkLayout(chunk_shape=[2])
    array = ts.virtual_chunked(read, write, dtype=np.int32, shape=[4], chunk_layout=layout)
    future = array[1:4].write([5, 6, 7])
    while not future.done():
        while promises:
            promises.pop().set_result(None)
    assert calls == [("read", 0), ("write", 0), ("write", 2)]
    assert data.tolist() == [0, 5, 6, 7]
    failing = array.read()
    while not promises:
        pass
    promises.pop().set_exception(ValueError("no such chunk"))
    with pytest.raises(ValueError, match="no such chunk"):
        failing.result()


# --- JSON values

_VALUES: tuple[Any, ...] = (
    *((1, 2, 3), [1, (2,)], {"a": (1,)}, {1: 2}, {"a": np.int8(3)}, (), {}, [None], None, True, 3, 3.0, "abc"),
    *(np.array([1, 2]), np.array([[1], [2]]), np.float32(3), np.uint64(5), np.str_("x"), range(3)),
    *(-(2**63), 2**64 - 1, 2**64, 2**70, {1, 2}, object(), np.datetime64("2020")),
)


@pytest.mark.parametrize("value", _VALUES, ids=range(len(_VALUES)))
def test_values_of_the_json_type(value: Any) -> None:
    assert outcome(lambda: ts.json(value)) == outcome(lambda: peer.json(value))


# --- ranks

_RANKS: dict[str, Any] = {
    "domain": lambda m, r: m.IndexDomain(shape=[1] * r),
    "domain of a rank": lambda m, r: m.IndexDomain(rank=r),
    "domain of JSON": lambda m, r: m.IndexDomain(json={"shape": [1] * r}),
    "transform": lambda m, r: m.IndexTransform(input_shape=[1] * r),
    "transform of a rank": lambda m, r: m.IndexTransform(input_rank=r),
    "transform of JSON": lambda m, r: m.IndexTransform(json={"input_rank": r}),
    "outputs": lambda m, r: m.IndexTransform(input_shape=[1], output=[m.OutputIndexMap(0)] * r),
    "spec": lambda m, r: m.Spec({"driver": "zarr", "rank": r}),
    "metadata": lambda m, r: m.Spec({"driver": "zarr", "metadata": {"shape": [1] * r}}),
    "metadata of v3": lambda m, r: m.Spec({"driver": "zarr3", "metadata": {"shape": [1] * r}}),
    "schema": lambda m, r: m.Schema(rank=r),
    "schema with a shape": lambda m, r: m.Schema(shape=[1] * r),
    "schema of JSON": lambda m, r: m.Schema({"domain": {"shape": [1] * r}}),
    "units": lambda m, r: m.Schema(dimension_units=["m"] * r),
    "chunk layout": lambda m, r: m.ChunkLayout(rank=r),
    "chunk shape": lambda m, r: m.ChunkLayout(chunk_shape=[1] * r),
    "array": lambda m, r: m.array(np.zeros([1] * r, np.int32)),
    "stored array": lambda m, r: m.open({**_BASE, "metadata": {}}, create=True, dtype="int8", shape=[1] * r).result(),
    "computed array": lambda m, r: m.virtual_chunked(print, dtype=np.int32, shape=[1] * r),
    "new axes": lambda m, r: m.array(np.zeros([1] * 31, np.int32))[(None,) * (r - 31)],
    "new axes by number": lambda m, r: m.IndexTransform(input_shape=[1] * 31)[m.d[0 : r - 31][None]],
    "index array": lambda m, r: m.array(np.zeros([1] * 31, np.int32))[np.zeros([1] * (r - 30), int)],
    "outer index array": lambda m, r: m.array(np.zeros([1] * 31, np.int32)).oindex[np.zeros([1] * (r - 30), int)],
    "joint index array": lambda m, r: m.array(np.zeros([1] * 31, np.int32)).vindex[np.zeros([1] * (r - 30), int)],
    "large index array": lambda m, r: m.array(np.zeros([1], np.int32))[np.zeros([1] * r, int)],
    "stack": lambda m, r: m.stack([m.array(np.zeros([1] * (r - 1), np.int32))]),
}


@pytest.mark.parametrize("name", _RANKS)
def test_no_more_than_32_dimensions(name: str) -> None:
    make = _RANKS[name]
    assert outcome(partial(make, ts, 32)) not in ERRORS
    for rank in (33, 34, 40):
        for module in (ts, peer):
            assert outcome(partial(make, module, rank)) in (ValueError, IndexError)


# --- copies, names of types and other details


@pytest.mark.parametrize("module", [ts, peer])
def test_a_deep_copy_of_memory_has_its_own_values(module: ModuleType) -> None:
    store = module.KvStore.open("memory://").result()
    store["a"] = b"1"
    same, other = copy.copy(store), copy.deepcopy(store)
    assert (same.list().result(), other.list().result()) == ([b"a"], [])
    other["b"] = b"2"
    assert store.list().result() == [b"a"]
    first, second = copy.deepcopy([store, store.copy()])
    first["c"] = b"3"
    assert second.list().result() == [b"c"]
    with pytest.raises(ValueError, match="Cannot serialize bound transaction"):
        copy.deepcopy(store.with_transaction(module.Transaction()))


_NAMES = (
    *(
        "void",
        "bytes",
        "str",
        "S",
        "V",
        "|S4",
        "|V8",
        "V8",
        "void8",
        "void64",
        "bytes8",
        "object",
        "float",
        "int",
        "i4",
    ),
    *("byte", "char", "string", "ustring", "json", "bool", "int4", "bfloat16", "", "?"),
)
_WITHOUT_ORDER = ("V8", "i4", "?")  # documents of other programs have them
_TYPES = (np.void, np.bytes_, bytes, str, *map(np.dtype, ("S", "V", "S1", "V1", "S4", "V8", ">i4")), object)


@pytest.mark.parametrize("name", [*_NAMES, *_TYPES], ids=repr)
def test_names_of_data_types(name: Any) -> None:
    assert outcome(lambda: ts.dtype(name).name) == outcome(lambda: peer.dtype(name).name)
    if isinstance(name, str):
        for make in (
            lambda m: m.Spec({"driver": "zarr", "dtype": name}).to_json(),
            lambda m: m.Spec({"driver": "zarr", "metadata": {"dtype": name}}).to_json(),
            lambda m: m.Spec({"driver": "zarr", "metadata": {"dtype": [["x", name]]}}).to_json(),
            lambda m: m.open(_BASE | {"metadata": {"dtype": name}}, create=True, shape=[2]).result().dtype.name,
            lambda m: m.Schema(dtype=name).to_json(),
        ):
            ours, theirs = outcome(lambda make=make: make(ts)), outcome(lambda make=make: make(peer))
            assert ours == theirs or (name in _WITHOUT_ORDER and theirs is ValueError)


@pytest.mark.parametrize("text", ["|S0", "|V0"])
def test_elements_without_bytes(text: str) -> None:
    for fields in ([["x", text]], [["x", text], ["y", "<i2"]]):
        spec = {"driver": "zarr", "field": "x", "metadata": {"dtype": fields}}
        assert ts.Spec(spec).dtype.name == peer.Spec(spec).dtype.name
    with pytest.raises(TegulaError, match="dtype"):  # NumPy has no such type
        ts.Spec({"driver": "zarr", "metadata": {"dtype": [["x", text, [2]]]}})


@pytest.mark.parametrize("value", [b"x", np.bytes_(b"x"), 3, None, [b"a", b"b"], np.array([b"a", b"b"])], ids=repr)
def test_strings_are_not_made_of_bytes(value: Any) -> None:
    for module in (ts, peer):
        array = module.open({"driver": "array", "dtype": "ustring", "array": ["a", "b"], "rank": 1}).result()
        with pytest.raises(TypeError):
            array[...] = value
        array[...] = "x"
        assert array.read().result().tolist() == ["x", "x"]


def test_generic_aliases_and_references() -> None:
    assert ts.Promise[int] == types.GenericAlias(ts.Promise, (int,))
    assert ts.Future[int] == types.GenericAlias(ts.Future, (int,))

    def read(domain: Any, array: Any, parameters: Any) -> None:
        array[...] = 1

    spec = ts.virtual_chunked(read, dtype=np.int32, shape=[2]).spec()
    read.spec = spec
    reference = weakref.ref(spec)
    del spec, read
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("module", [ts, peer])
def test_messages_about_indices_and_arrays(module: ModuleType) -> None:
    labelled = module.IndexTransform(input_labels=["x", "y", "z"])
    with pytest.raises(IndexError, match="Target dimensions cannot be specified by label"):
        labelled[module.d["x", "y"].transpose["x"]]
    with pytest.raises(IndexError, match=r"is incompatible with|have different lengths"):
        module.d[:][slice((1, 2), (7, 8), (9, 10, 11))]
    fixed = np.zeros(3)
    fixed.setflags(write=False)
    with pytest.raises(ValueError, match="Unable to avoid copy while creating an array"):
        module.array(fixed, write=True, copy=False)
    store = module.KvStore.open("memory://").result()
    with pytest.raises(NotImplementedError, match="CopyRange not supported"):
        store.experimental_copy_range_to(store / "a/").result()


def test_listing_looks_only_where_keys_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ab/1", "ab/c/2", "abc", "b/3", "b/c/4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    store = ts.KvStore.open(f"file://{tmp_path}/a").result()
    assert store.list().result() == [b"b/1", b"b/c/2", b"bc"]
    listed = []
    result = type(store._store).list_prefix
    monkeypatch.setattr(
        type(store._store), "list_prefix", lambda self, prefix: listed.append(prefix) or result(self, prefix)
    )
    store.list().result()
    assert listed == ["ab/"]


def test_pickled_specs_of_adapters_keep_their_flags() -> None:
    spec = ts.Spec({"driver": "cast", "dtype": "int32", "base": {**_BASE, "create": True}})
    assert pickle.loads(pickle.dumps(spec)).open_mode == ts.OpenMode(create=True)


# --- transactions of objects


@pytest.mark.parametrize("state", ["open", "aborted", "committed"])
@pytest.mark.parametrize("target", ["none", "same", "other"])
@pytest.mark.parametrize("kind", ["kvstore", "array", "memory"])
def test_an_object_leaves_a_transaction_after_its_commit(kind: str, target: str, state: str) -> None:
    said = []
    for module in (ts, peer):
        context, first, second = module.Context(), module.Transaction(), module.Transaction()
        if kind == "kvstore":
            bound = module.KvStore.open("memory://", context=context, transaction=first).result()
        elif kind == "array":
            described = {"driver": "zarr", "kvstore": "memory://a/"}
            options = {"create": True, "dtype": "int8", "shape": [2], "context": context}
            bound = module.open(described, transaction=first, **options).result()
        else:
            bound = module.array(np.zeros(2)).with_transaction(first)
        if state != "open":
            first.abort() if state == "aborted" else first.commit_sync()
        wanted = {"none": None, "same": first, "other": second}[target]
        if target == "same" and state == "committed":
            continue  # no operation works on it, and only some raise an error
        said.append(outcome(lambda bound=bound, wanted=wanted: bound.with_transaction(wanted).transaction is wanted))
    assert said[:1] == said[1:]


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("function", ["stack", "concat", "overlay"])
@pytest.mark.parametrize("layers", list(itertools.product((0, 1, 2), repeat=2)))
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_arrays_in_one_transaction_are_combined(function: str, layers: tuple[int, int], wanted: int) -> None:
    said = []
    for module in (ts, peer):
        context, transactions = module.Context(), [None, module.Transaction(), module.Transaction()]
        described = [{"driver": "zarr", "kvstore": f"memory://{name}/"} for name in "xy"]
        stored = [
            module.open(spec, create=True, dtype=module.int8, shape=[2], context=context).result() for spec in described
        ]
        arguments = [
            array.with_transaction(transactions[number]) if number else array
            for array, number in zip(stored, layers, strict=True)
        ]

        def combined(module=module, arguments=arguments, transactions=transactions):
            axis = {} if function == "overlay" else {"axis": 0}
            return getattr(module, function)(arguments, **axis, transaction=transactions[wanted])

        results = [outcome(lambda combined=combined, all_=transactions: all_.index(combined().transaction))]
        if results[0] is not ValueError:
            combined().write(1).result()
            for transaction in (None, *transactions[1:]):
                if transaction is not None:
                    transaction.commit_sync()
                results.append([array.read().result().tolist() for array in stored])
        said.append(results)
    assert said[0] == said[1]


# --- wrong arguments


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: m.array(np.zeros(2, np.int32)).write(2**40).result(),
        lambda m: m.array(np.zeros(2, np.int32)).write("x").result(),
        lambda m: m.array(np.zeros(2, np.int32)).write([None, 1]).result(),
        lambda m: m.int32("x"),
        lambda m: m.int32(2**40),
        lambda m: m.int32(float("nan")),
        lambda m: m.Dim(3).hull("x"),
        lambda m: m.Dim(3).intersect(None),
        lambda m: m.IndexDomain(2).hull(m.Dim(3)),
        lambda m: m.IndexDomain(2).intersect("x"),
        lambda m: m.open({"driver": "zarr"}, kvstore="memory://x/"),
        lambda m: m.Spec({"driver": "zarr"}).update(kvstore=3),
        lambda m: m.array([1], context=m.Schema()),
        lambda m: m.stack([m.array([1])], context=1.5),
        lambda m: m.stack([m.array([1])], transaction=m.Schema()),
        lambda m: m.virtual_chunked(print, dtype=m.int32, shape=[1], context="x"),
        lambda m: m.virtual_chunked(print, dtype=m.int32, shape=[1], transaction="x"),
        lambda m: m.array([1]).with_transaction(m.Schema()),
    ],
)
def test_wrong_arguments_are_errors_of_both_libraries(wrong: Any) -> None:
    assert outcome(lambda: wrong(ts)) == outcome(lambda: wrong(peer))
    with pytest.raises(TegulaError):
        wrong(ts)


def test_a_store_and_an_array_are_in_one_transaction() -> None:
    for module in (ts, peer):
        store = module.KvStore.open("memory://", transaction=module.Transaction()).result()
        with pytest.raises(ValueError, match="Invalid kvstore: Inconsistent transactions specified"):
            module.open({"driver": "zarr"}, kvstore=store, transaction=module.Transaction())
