"""Open arrays: their properties, the values that they accept, and those that they return."""

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

import tegula.tensorstore as ts
from tegula.tensorstore.constraints.casting import convertible, implicit

NUMBERS = (
    "bool int2 int4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e4m3fn float8_e5m2 bfloat16 float16"
    " float32 float64 complex64 complex128"
).split()


def zarr(package: Any = ts, **options: Any) -> Any:
    options = {"dtype": package.uint8, "shape": [3, 4], **options}
    return package.open({"driver": "zarr", "kvstore": "memory://"}, create=True, **options).result()


def outcome(package: Any, source: Any, target: Any) -> Any:
    try:
        target.write(source(package)).result()
    except (ValueError, TypeError, OverflowError) as error:
        return next(kind for kind in (OverflowError, TypeError, ValueError) if isinstance(error, kind))
    return target.read().result().tolist()


SOURCES = [
    lambda p: 3,
    lambda p: 1.5,
    lambda p: 300,
    lambda p: -1,
    lambda p: True,
    lambda p: "a",
    lambda p: None,
    lambda p: 1j,
    lambda p: np.float32(5),
    lambda p: np.array(3),
    lambda p: np.zeros((3, 4), "i8"),
    lambda p: np.ones(4, bool),
    lambda p: np.zeros(4, object),
    lambda p: np.zeros(4, "S1"),
    lambda p: [1, 2, 3, 4],
    lambda p: [[1], [2], [3]],
    lambda p: [[[1]]],
    lambda p: [1.0, 2, 3, 4],
    lambda p: [1, 2, 3, 300],
    lambda p: [],
    lambda p: range(4),
    lambda p: memoryview(b"abcd"),
    lambda p: np.zeros((2, 4), "u1"),
    lambda p: np.ones((3, 1), "u1"),
    lambda p: np.zeros((1, 3, 4), "u1"),
    lambda p: p.array(np.arange(12, dtype="u1").reshape(3, 4)),
    lambda p: p.array(np.zeros((3, 4), "f4")),
    lambda p: p.array(np.ones(4, bool)),
    lambda p: p.array(np.zeros((3, 3), "u1")),
    lambda p: p.array(np.arange(4, dtype="u1"))[None],
    lambda p: p.array(np.arange(12, dtype="u1").reshape(3, 4)).translate_to[5],
    lambda p: p.array(np.arange(12, dtype="u1").reshape(4, 3)).label["y", "x"],
    lambda p: p.array(np.arange(12, dtype="u1").reshape(3, 4)).label["x", "z"],
    lambda p: p.array(np.arange(3, dtype="u1")).label["x"],
    lambda p: p.array(["a"], dtype=p.ustring),
]


@pytest.mark.parametrize("source", SOURCES)
def test_what_can_be_written(source: Any) -> None:
    theirs, ours = (outcome(p, source, zarr(p).label["x", "y"]) for p in (tensorstore, ts))
    assert ours == theirs


def test_the_mode_allows_reading_or_writing() -> None:
    context = ts.Context()
    spec = {"driver": "zarr", "kvstore": "memory://"}
    writer = ts.open(spec, context=context, create=True, write=True, dtype=ts.uint8, shape=[3]).result()
    reader = ts.open(spec, context=context, read=True).result()
    assert (writer.mode, writer.readable, writer.writable) == ("w", False, True)
    assert (reader.mode, reader.readable, reader.writable) == ("r", True, False)
    assert str(writer.read().exception()) == "Source does not support reading."
    assert str(reader.write(1).exception()) == "Destination does not support writing."
    with pytest.raises(ValueError, match="Destination does not support writing"):
        reader[0] = 1
    assert str(ts.array([1], dtype=ts.uint8).write(writer[:1]).exception()) == "Source does not support reading."


def test_arrays_of_numpy() -> None:
    store = zarr()
    store[1:, 2] = 7
    assert np.asarray(store[1]).tolist() == [0, 0, 7, 0]
    assert np.array(store, dtype=float).sum() == 14
    assert store[1, 2].read().result().shape == ()
    assert store.read(order="F").result().flags.f_contiguous
    with pytest.raises(TypeError, match="`order` must be specified"):
        store.read(order="X")
    with pytest.raises(TypeError):
        iter(store)
    assert bool(store)


def test_results_are_the_callers_own() -> None:
    values = np.arange(6).reshape(2, 3)
    store = ts.array(values)
    for view in (store, store.T, store[ts.newaxis], store[:, 0], store[[0, 0]], store.astype(ts.int64)):
        result = view.read().result()
        result[...] = -1
        assert values.min() == 0
    store[0, 0] = 9
    assert values[0, 0] == 9


def test_labels_and_shortcuts() -> None:
    store = zarr().label["x", "y"]
    assert str(store.domain) == '{ "x": [0, 3*), "y": [0, 4*) }'
    assert store[ts.d["y"][1:2]].domain.shape == (3, 1)
    assert str(store.T.domain) == '{ "y": [0, 4*), "x": [0, 3*) }'
    assert store.translate_to[5, 6].origin == (5, 6)
    assert store.translate_by[1].translate_backward_by[1].domain == store.domain
    assert store.transpose(["y", "x"]).domain == store.T.domain
    assert (store.rank, store.ndim, store.size) == (2, 2, 12)
    store.oindex[[0, 2], [1]] = 4
    store.vindex[[0, 1], [0, 0]] = [1, 2]
    assert store.read().result().tolist() == [[1, 4, 0, 0], [2, 0, 0, 0], [0, 4, 0, 0]]


def test_schema_of_a_view() -> None:
    for expression in ("z", "z[1]", "z[:, ::2]", "z.T", "z[::-1]", "z[[0, 1]]", "z[ts.newaxis]", "z.translate_by[3]"):
        options: dict[str, Any] = {"fill_value": 7}
        theirs, ours = (
            eval(expression, {"z": zarr(p, chunk_layout=p.ChunkLayout(chunk_shape=[2, 3]), **options), "ts": p})
            for p in (tensorstore, ts)
        )
        assert ours.schema.to_json() == theirs.schema.to_json(), expression
        assert repr(ours.schema) == repr(theirs.schema)
        assert ours.spec().to_json() == theirs.spec().to_json()
        assert repr(ours) == repr(theirs)


def test_views_survive_pickling(tmp_path: Path) -> None:
    store = ts.open(
        {"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}},
        create=True,
        dtype=ts.int16,
        shape=[4],
    ).result()
    store[...] = [1, 2, 3, 4]
    view = pickle.loads(pickle.dumps(store[1:3].astype(ts.float32)))
    assert view.domain == store[1:3].domain
    assert view.read().result().tolist() == [2, 3]
    for array in (np.array([1.5, np.nan]), np.zeros(2, "c8"), np.array([b"a"], "S1"), np.array(["a", None], object)):
        result = pickle.loads(pickle.dumps(ts.array(array))).read().result()
        assert str(result) == str(array)
    assert copy.copy(store).read().result().tolist() == [1, 2, 3, 4]


def test_reads_and_writes_are_awaited() -> None:
    async def act() -> Any:
        store = zarr()
        await store[0].write([1, 2, 3, 4])
        small, large = await store[0].read(), await ts.array(np.zeros((2000, 1000))).read()
        return small.tolist(), large.shape

    assert asyncio.run(act()) == ([1, 2, 3, 4], (2000, 1000))


def test_reads_in_a_batch_wait_for_its_end() -> None:
    store = zarr()
    with ts.Batch() as batch:
        futures = [store[row].read(batch=batch) for row in range(3)]
        assert not futures[0].done()
    assert [future.result().tolist() for future in futures] == [[0] * 4] * 3


def test_resolve_takes_the_stored_bounds() -> None:
    store = zarr()
    view = store.label["x", "y"][1:].translate_by[10, 0]
    store.resize(exclusive_max=[6, 2]).result()
    assert str(view.domain) == '{ "x": [11, 13*), "y": [0, 4*) }'
    assert str(view.resolve().result().domain) == '{ "x": [11, 16*), "y": [0, 2*) }'
    assert str(view.resolve(fix_resizable_bounds=True).result().domain) == '{ "x": [11, 16), "y": [0, 2) }'
    assert str(store.T[::-1].resolve().result().domain) == "{ [-1*, 1), [0, 6*) }"


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_views_are_resized_the_same(data: Any) -> None:
    expression = data.draw(
        st.sampled_from(
            "z z[1:] z[:2] z.T z[::-1] z[::2] z[2] z[[1,2]] z[:,[1]] z[ts.newaxis] z.translate_by[-3,-4]"
            " z[ts.d[0,1].diagonal] z[ts.d[0].mark_bounds_implicit[True]]"
            " z[1:][ts.d[0,1].mark_bounds_implicit[True]] z[::-1][ts.d[0].mark_bounds_implicit[True]]".split()
        )
    )
    rank = {"z[2]": 1, "z[ts.d[0,1].diagonal]": 1, "z[ts.newaxis]": 3}.get(expression, 2)
    bounds = st.lists(st.one_of(st.none(), st.integers(0, 7)), min_size=rank, max_size=rank)
    options: dict[str, Any] = {"exclusive_max": data.draw(bounds)}
    if data.draw(st.booleans()):
        options["inclusive_min"] = data.draw(st.lists(st.sampled_from([None, 0, -6]), min_size=rank, max_size=rank))
    for name in ("resize_tied_bounds", "expand_only", "shrink_only"):
        options[name] = data.draw(st.sampled_from([False, False, True]))
    results = []
    for package in (tensorstore, ts):
        store = zarr(package)
        view = eval(expression, {"z": store, "ts": package})
        try:
            resized = view.resize(**options).result()
            results.append((str(resized.domain), str(store.resolve().result().domain)))
        except ValueError as error:
            results.append((kind_and_code(error), str(store.resolve().result().domain)))
    assert results[0] == results[1], (expression, options)


def test_conversions_agree_with_the_real_package() -> None:
    def made(name: str) -> Any:
        return tensorstore.array(np.ones(1, tensorstore.dtype(name).numpy_dtype), dtype=tensorstore.dtype(name))

    targets = {name: made(name) for name in NUMBERS}
    for first in NUMBERS:
        for other, target in targets.items():
            error = target.write(targets[first]).exception()
            if error is None or "Explicit" in str(error):
                assert convertible(first, other)
                assert implicit(first, other) == (error is None), (first, other)
            else:
                assert not convertible(first, other)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(NUMBERS), st.sampled_from([*NUMBERS, "json", "string", "ustring"]), st.data())
def test_converted_values(one: str, other: str, data: Any) -> None:
    if not convertible(one, other):
        return
    number = st.integers(-8, 7) if "int" in one or one == "bool" else st.integers(-64, 64).map(lambda n: n / 4)
    values = np.array(data.draw(st.lists(number, min_size=1, max_size=4)))
    values = values.astype(tensorstore.dtype(one).numpy_dtype)
    theirs, ours = (
        p.cast(p.array(values, dtype=p.dtype(one)), p.dtype(other)).read().result() for p in (tensorstore, ts)
    )
    assert ours.dtype == theirs.dtype
    assert [str(value) for value in ours] == [str(value) for value in theirs]


def test_numpys_own_types() -> None:
    days = np.array(["2020-01-01", "NaT"], "M8[D]")
    store = ts.array(days)
    assert store.dtype.name == "<M8[D]"
    assert store.astype(ts.int64).read().result()[0] == 18262
    store[1] = np.datetime64("2020-01-03")
    assert store.read().result()[1] == np.datetime64("2020-01-03")
    assert ts.array(np.array(["a", "bc"])).astype(ts.ustring).read().result().tolist() == ["a", "bc"]
    assert ts.array(np.array([b"ab", b"c"])).read().result().tolist() == [[b"a", b"b"], [b"c", b""]]
