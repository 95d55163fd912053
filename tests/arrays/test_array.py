"""Arrays against NumPy: reading, writing, growing and shrinking, over formats, types, codecs, chunks and shards."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tegula
from tegula import config
from tegula.arrays.node import Node
from tegula.errors import (
    MetadataError,
    ReadOnlyError,
    SelectionError,
    TegulaError,
    UnsupportedError,
)
from tegula.stores import MemoryStore

DTYPES = [
    "?", "i1", ">i2", "u4", "<i8", "f2", ">f4", "f8", "c8", "S3", "U2", ">U2", "V3", "M8[s]", "m8[ms]",
    [("a", "i1"), ("b", ">f4")], ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4,
]  # fmt: skip
CODECS: dict[str, list[Any]] = {
    "zarr1": [None, "auto", {"id": "zlib", "level": 1}, {"id": "bz2", "level": 1}, {"id": "lzma", "preset": 0}],
    "zarr2": [None, "auto", {"id": "zstd"}, [{"id": "crc32"}, {"id": "zlib", "level": 1}]],
    "zarr3": [None, "auto", "blosc", ["gzip", "crc32c"]],
}


def same(got: Any, expected: Any) -> None:
    """Compare bit by bit, in any byte order."""
    got = np.asarray(got)
    assert got.shape == expected.shape
    if got.dtype != expected.dtype:
        expected = expected.astype(got.dtype)
    assert got.tobytes() == expected.tobytes()


def noise(seed: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Values of any type: mostly zeros at low seeds, so that some chunks are empty."""
    numbers = np.random.default_rng(seed).integers(0, 1 + seed % 7, size=shape)
    if dtype.names is not None:
        out = np.zeros(shape, dtype)
        for name in dtype.names:
            out[name] = numbers
        return out
    if dtype.kind in "SU":
        return numbers.astype("U3").astype(dtype)
    if dtype.kind == "V" and dtype.type is np.void:
        raw = numbers.astype("u1")[..., None] * np.ones(dtype.itemsize, "u1")
        return raw.view(dtype).reshape(shape)
    return numbers.astype(dtype)


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of `create_array`."""
    format = draw(st.sampled_from(["zarr1", "zarr2", "zarr3", "zarr3"]))
    shape = tuple(draw(st.lists(st.integers(0, 6), min_size=1 if format == "zarr1" else 0, max_size=3)))
    chunks: list[Any] = [draw(st.integers(1, 4)) for _ in shape]
    dtypes = DTYPES if format != "zarr1" else DTYPES[:-3]
    options: dict[str, Any] = {
        "format": format, "shape": shape, "dtype": draw(st.sampled_from(dtypes)), "order": draw(st.sampled_from("CF")),
        "codecs": draw(st.sampled_from(CODECS[format])), "write_empty_chunks": draw(st.sampled_from([None, True])),
    }  # fmt: skip
    if format == "zarr3" and draw(st.booleans()):
        options["shards"] = tuple(chunk * draw(st.integers(1, 2)) for chunk in chunks)
    elif format == "zarr3" and shape and draw(st.booleans()):
        for axis, size in enumerate(shape):
            if size and draw(st.booleans()):
                cuts = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
                count = next(n for n, end in enumerate(accumulate(cuts), 1) if end >= size)
                chunks[axis] = cuts[:count]
    return {**options, "chunks": tuple(chunks)}


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-7, 7)
    step = st.none() | st.integers(-3, 3).filter(bool)
    one = st.builds(slice, bound, bound, step)
    return st.tuples(*[one if not size else one | st.integers(-size, size - 1) for size in shape])


class ArrayMachine(RuleBasedStateMachine):
    """Any sequence of changes leaves the array equal to a NumPy array with the same changes."""

    @initialize(layout=layouts(), fill=st.sampled_from([0, 0, 1]))
    def create(self, layout: dict[str, Any], fill: int) -> None:
        dtype = np.dtype(layout["dtype"])
        plain = dtype.names is None and dtype.kind != "V"
        if fill and plain:
            layout["fill_value"] = str(fill) if dtype.kind in "SU" else fill
        self.store = MemoryStore()
        self.array = tegula.create_array(self.store, **layout)
        value = self.array.fill_value
        self.fill = np.zeros((), dtype) if value is None else np.asarray(value).astype(dtype)
        self.model = np.full(layout["shape"], self.fill, dtype)

    @rule(data=st.data(), seed=st.integers(0, 99))
    def write(self, data: st.DataObject, seed: int) -> None:
        selection = data.draw(selections(self.model.shape))
        values = noise(seed, self.model[selection].shape, self.model.dtype)
        self.array[selection] = values
        self.model[selection] = values

    @rule(data=st.data(), seed=st.integers(0, 99))
    def write_broadcast(self, data: st.DataObject, seed: int) -> None:
        selection = data.draw(selections(self.model.shape))
        values = noise(seed, self.model[selection].shape[1:], self.model.dtype)
        self.array[selection] = values
        self.model[selection] = values

    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        selection = data.draw(selections(self.model.shape))
        self.array[selection] = self.fill
        self.model[selection] = self.fill

    @precondition(lambda self: self.model.ndim)
    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        shape = tuple(data.draw(st.integers(0, 8)) for _ in self.model.shape)
        model = np.full(shape, self.fill, self.model.dtype)
        kept = tuple(slice(0, min(old, new)) for old, new in zip(self.model.shape, shape))
        model[kept] = self.model[kept]
        self.array.resize(shape)
        self.model = model

    @precondition(lambda self: self.model.ndim and self.model.size < 2000)
    @rule(data=st.data(), seed=st.integers(0, 99))
    def append(self, data: st.DataObject, seed: int) -> None:
        axis = data.draw(st.integers(-self.model.ndim, self.model.ndim - 1))
        shape = list(self.model.shape)
        shape[axis] = data.draw(st.integers(0, 3))
        values = noise(seed, tuple(shape), self.model.dtype)
        self.model = np.concatenate([self.model, values], axis)
        assert self.array.append(values, axis) == self.model.shape

    @rule()
    def reopen(self) -> None:
        self.array = tegula.open_array(self.store, mode="r+")

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        selection = data.draw(selections(self.model.shape))
        same(self.array[selection], self.model[selection])

    @invariant()
    def equal(self) -> None:
        if hasattr(self, "array"):
            assert self.array.shape == self.model.shape
            same(self.array[...], self.model)
            assert stored(self.array) <= (self.array.nchunks if self.array.nshards is None else self.array.nshards)


TestArrayMachine = ArrayMachine.TestCase
TestArrayMachine.settings = settings(deadline=None, max_examples=120, stateful_step_count=12)


# --- the fill value


def stored(array: tegula.Array) -> int:
    count = array.nshards_initialized()
    return array.nchunks_initialized() if count is None else count


@pytest.mark.parametrize("shards", [None, 4])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_chunks_are_left_out_only_if_they_are_the_fill_value_to_the_bit(format: str, shards: int | None) -> None:
    if format == "zarr2" and shards:
        return
    options = {"shape": 4, "chunks": 2, "shards": shards, "format": format}
    payload = np.array(0x7FC00001, "u4").view("f4")
    signalling = np.array(0x7F800001, "u4").view("f4")
    for fill, others in [
        (0.0, [np.float32(-0.0)]),
        (-0.0, [np.float32(0.0)]),
        (np.nan, [payload, signalling, -np.float32(np.nan)]),
        (payload, [np.float32(np.nan)]),
    ]:
        # Zarr v2 has no spelling for payloads
        if format == "zarr2" and fill is payload:
            continue
        array = tegula.create_array(MemoryStore(), dtype="f4", fill_value=fill, **options)
        array[...] = np.full(4, fill, "f4")
        assert stored(array) == 0
        for other in others:
            values = np.full(4, other, "f4")
            array[...] = values
            assert array[...].tobytes() == values.tobytes()
            assert stored(array) == (1 if shards else 2)
            array[:] = np.full(4, fill, "f4")
            assert stored(array) == 0
        array[1:3] = np.full(2, others[0], "f4")
        array[1:3] = np.full(2, fill, "f4")
        assert stored(array) == 0


def test_empty_chunks_are_kept_on_request() -> None:
    for shards in (None, 4):
        store = MemoryStore()
        array = tegula.create_array(store, shape=8, chunks=2, shards=shards, dtype="i4", write_empty_chunks=True)
        array[0] = 0
        assert stored(array) == 1
        array[...] = 0
        assert stored(array) == (4 if not shards else 2)
        sizes = array.nbytes_stored()
        plain = tegula.open_array(store, mode="r+")  # the option is of the object, not stored
        plain[0:2] = 0
        assert stored(plain) == (3 if not shards else 2)
        assert plain.nbytes_stored() < sizes
        plain[...] = 0
        assert stored(plain) == 0
        with config.configure(write_empty_chunks=True):
            plain[5] = 0
        assert stored(plain) == 1


@pytest.mark.parametrize("format", ["zarr1", "zarr2"])
def test_zeros_are_stored_if_the_fill_value_is_undefined(format: str) -> None:
    array = tegula.create_array(MemoryStore(), shape=8, chunks=2, dtype="i4", fill_value=None, format=format)
    assert (array[...].tolist(), stored(array)) == ([0] * 8, 0)
    array[:3] = 0
    assert stored(array) == 2
    copies = [MemoryStore(), MemoryStore()]
    tegula.copy(array, copies[0])
    tegula.convert(array, copies[1], format=format, chunks=4)
    assert [stored(tegula.open_array(store)) for store in copies] == [2, 2]


def test_a_shard_of_kept_empty_chunks_holds_them_all() -> None:
    array = tegula.create_array(
        MemoryStore(), shape=(4, 4), chunks=(1, 2), shards=(4, 4), dtype="i2", codecs=None, write_empty_chunks=True
    )
    array[0, 0] = 0
    assert array.nbytes_stored() == 32 + 8 * 16 + 4


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_that_were_cut_off_never_reappear(format: str, axis: int) -> None:
    for options in ({}, {"shards": (4, 4)}, {"chunks": ([1, 3, 2], [2, 2, 2])}) if format == "zarr3" else ({},):
        array = tegula.create_array(
            MemoryStore(),
            **{"shape": (6, 6), "chunks": (2, 2), "dtype": "i4", "fill_value": 9, "format": format, **options},
        )
        for size in range(6, -1, -1):
            array.resize(6, 6)
            array[...] = 1
            shape = tuple(size if a == axis else 6 for a in range(2))
            array.resize(shape)
            assert (array[...] == 1).all()
            array.resize(6, 6)
            expected = np.full((6, 6), 9)
            expected[tuple(slice(n) for n in shape)] = 1
            np.testing.assert_array_equal(array[...], expected)
            np.testing.assert_array_equal(tegula.open_array(array.store)[...], expected)


class CountingStore(MemoryStore):
    """A store that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.calls.append(f"get {key}")
        return super().get(key, *args, **options)

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        self.calls.append(f"set {key}")
        return super().set(key, *args, **options)

    def delete(self, key: str, *args: Any, **options: Any) -> None:
        self.calls.append(f"delete {key}")
        super().delete(key, *args, **options)

    def size(self, key: str) -> int | None:
        self.calls.append(f"size {key}")
        return super().size(key)


@pytest.mark.parametrize("shards", [None, (4, 2000)])
def test_shrinking_visits_stored_chunks_only(shards: Any) -> None:
    store = CountingStore()
    size = 2**60
    array = tegula.create_array(store, shape=(size, size), chunks=(2, 1000), shards=shards, dtype="u1")
    places = [0, 1, 5, 10**6, 2**40, size - 1]
    for number in places:
        array[number, number] = 7
    store.calls.clear()
    array.resize(2**41, 10**6 + 1)
    assert len(store.calls) < 30
    assert [array[number, number] for number in places[:4]] == [7] * 4
    array.resize(size, size)
    assert [array[number, number] for number in places] == [7, 7, 7, 7, 0, 0]
    assert stored(array) <= 4
    store.calls.clear()
    array.resize(0, 0)
    assert len(store.calls) < 20
    assert array.nchunks_initialized() == 0
    assert [*store.list()] == ["zarr.json"]


def test_selections_larger_than_memory_are_refused() -> None:
    for shape, chunks in [((2**62,), 2**20), ((2**62,), 1), ((2**31, 2**31), (2**10, 2**10)), ((2**40,), 2**20)]:
        array = tegula.create_array(MemoryStore(), shape=shape, chunks=chunks, dtype="u1")
        with pytest.raises(SelectionError, match="memory"):
            array[...]
        assert array[(0,) * array.ndim] == 0
    with pytest.raises(MetadataError) as caught:
        tegula.create_array(MemoryStore(), shape=2**40, chunks=2**40, dtype="u1")
    assert caught.value.field == "chunks"


# --- shapes without elements, and without dimensions


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_an_array_without_dimensions(format: str) -> None:
    for options in ({}, {"shards": ()}) if format == "zarr3" else ({},):
        array = tegula.create_array(MemoryStore(), shape=(), dtype="f8", fill_value=2.5, format=format, **options)
        assert (array.ndim, array.size, array.nchunks, array.nbytes) == (0, 1, 1, 8)
        assert array[()] == 2.5
        assert isinstance(array[()], np.float64)
        assert array[...].shape == ()
        array[()] = 7
        assert array[()] == float(np.asarray(array)) == 7
        array[...] = 8
        assert tegula.open_array(array.store)[()] == 8
        assert array.nchunks_initialized() == 1
        with pytest.raises(TypeError):
            len(array)
        with pytest.raises(TypeError):
            iter(array).__next__()
        with pytest.raises(SelectionError):
            array[0]
        with pytest.raises(SelectionError):
            array.append(1)
        array.resize(())
        assert array[()] == 8
    with pytest.raises(UnsupportedError):
        tegula.create_array(MemoryStore(), shape=(), dtype="f8", format="zarr1")


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_arrays_without_elements(format: str) -> None:
    for shape in ((0,), (0, 3), (3, 0), (0, 0)):
        array = tegula.create_array(MemoryStore(), shape=shape, dtype="i4", format=format)
        assert array.size == array.nchunks == array.nbytes == 0
        same(array[...], np.zeros(shape, "i4"))
        array[...] = 5
        array[...] = np.zeros(shape, "i4")
        assert len([*array]) == shape[0]
        assert len(array) == shape[0]
        assert array.nchunks_initialized() == 0
        with pytest.raises(SelectionError):
            array[(0,) * len(shape)]
        array.resize([size + 2 for size in shape])
        assert (array[...] == 0).all()
        repr(array)
        array._repr_html_()
        str(array.info)


# --- reading into an array


@given(layouts(), st.data(), st.sampled_from(["same", "f8", ">f4", "c16"]), st.integers(0, 99))
@settings(max_examples=60)
def test_out_may_have_any_layout(layout: dict[str, Any], data: st.DataObject, kind: str, seed: int) -> None:
    dtype = np.dtype(layout["dtype"])
    array = tegula.create_array(MemoryStore(), **layout)
    values = noise(seed, array.shape, dtype)
    array[...] = values
    selection = data.draw(selections(array.shape))
    expected = values[selection]
    target = dtype if kind == "same" or dtype.kind not in "iufb" else np.dtype(kind)
    order = data.draw(st.permutations(range(expected.ndim)))
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in order]
    base = np.zeros([expected.shape[axis] * 2 for axis in order], target)
    out = base.transpose(np.argsort(order)) if order else base
    out = out[(..., *[slice(0, size * abs(step), abs(step)) for size, step in zip(expected.shape, steps)])]
    out = out[(..., *[slice(None, None, -1 if step < 0 else 1) for step in steps])]
    assert out.shape == expected.shape
    assert array.read(selection, out=out).result() is out
    same(out, np.asarray(expected).astype(target))


def test_out_that_does_not_fit_is_refused() -> None:
    array = tegula.create_array(MemoryStore(), shape=(3, 4), dtype="i4")
    with pytest.raises(SelectionError):
        array.read(out=np.zeros((4, 3))).result()
    frozen = np.zeros((3, 4))
    frozen.flags.writeable = False
    with pytest.raises(SelectionError):
        array.read(out=frozen).result()
    with pytest.raises(TegulaError):
        array.read(out=[[0] * 4] * 3).result()


# --- fields


def test_fields_are_read_and_written_on_their_own() -> None:
    dtype = np.dtype([("a", "i4"), ("b", ">f8"), ("s", "S2")])
    for options in ({"format": "zarr2"}, {}, {"shards": (4, 4)}):
        array = tegula.create_array(MemoryStore(), shape=(5, 4), chunks=(2, 2), dtype=dtype, **options)
        model = np.zeros((5, 4), dtype)
        model["a"] = np.arange(20).reshape(5, 4)
        array["a"] = model["a"]
        model["b"][1:3, ::2] = 0.5
        array["b", 1:3, ::2] = 0.5
        model[["a", "s"]][4] = (7, b"xy")
        array[["a", "s"], 4] = np.array((7, b"xy"), [("a", "i4"), ("s", "S2")])
        for name in ("a", "b", "s"):
            np.testing.assert_array_equal(array[name], model[name])
            np.testing.assert_array_equal(array[name, 1:, 2], model[name][1:, 2])
        assert (array[...] == model).all()
        assert (array[["s", "a"]] == model[["s", "a"]]).all()
        assert array[2, 3] == model[2, 3]
        with pytest.raises(SelectionError):
            array["nothing"]
        with pytest.raises(SelectionError):
            array["nothing"] = 1


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
def test_a_field_without_bytes_can_be_written(format: str) -> None:
    array = tegula.create_array({}, shape=3, dtype=[("text", "S0"), ("n", "i1")], format=format)
    array[...] = [(b"", 1), (b"", 2), (b"", 3)]
    array["text"] = b""
    array["text", 1] = [b"ignored"]
    assert array["n"].tolist() == [1, 2, 3]
    assert array["text"].tolist() == [b"", b"", b""]


# --- elements of any length


@pytest.mark.parametrize(
    ("format", "dtype", "codecs", "values"),
    [
        ("zarr2", str, "auto", ["", "a", "é" * 300, "🦉"]),
        ("zarr3", str, "auto", ["", "a", "é" * 300, "🦉"]),
        ("zarr2", bytes, "auto", [b"", b"a", bytes(range(256)), b"\0"]),
        ("zarr3", bytes, "auto", [b"", b"a", bytes(range(256)), b"\0"]),
        ("zarr2", object, [{"id": "json2"}], [{"a": [1, None]}, "text", 3, [1, 2]]),
        ("zarr2", object, [{"id": "json2"}, {"id": "zstd"}], [None, True, 1.5, "x"]),
        ("zarr2", object, [{"id": "msgpack2"}], [{"a": 1}, "text", 3, None]),
        ("zarr2", object, [{"id": "vlen-array", "dtype": "<i4"}], [np.arange(n, dtype="i4") for n in (0, 1, 5, 2)]),
    ],
)
def test_objects(format: str, dtype: Any, codecs: Any, values: list[Any]) -> None:
    if "msgpack2" in str(codecs):
        pytest.importorskip("msgpack")
    array = tegula.create_array(MemoryStore(), shape=4, chunks=3, dtype=dtype, codecs=codecs, format=format)
    model = np.empty(4, object)
    for position, value in enumerate(values):
        model[position] = value
    array[...] = model
    for got in (array, tegula.open_array(array.store)):
        for a, b in zip(got[...], model):
            assert type(a) is type(b)
            assert np.array_equal(a, b) if isinstance(b, np.ndarray) else a == b
    array[1] = values[2]
    assert np.array_equal(array[1], values[2])
    array.resize(2)
    array.resize(4)
    assert np.array_equal(array[1], values[2])
    assert array.append(model[:2]) == (6,)
    assert array.dtype == object


def test_text_in_more_dimensions() -> None:
    for format in ("zarr2", "zarr3"):
        array = tegula.create_array(MemoryStore(), shape=(2, 3), chunks=(2, 2), dtype=str, format=format)
        array[...] = [["a", "bb", ""], ["c", "", "ddd"]]
        assert array[...].tolist() == [["a", "bb", ""], ["c", "", "ddd"]]
        array[:, 1] = "x"
        assert array[:, 1].tolist() == ["x", "x"]
        array[...] = np.array([["é"]])
        assert set(array[...].flat) == {"é"}
        with pytest.raises(TegulaError):
            array[0, 0] = 5
        assert array[0, 0] == "é"


def test_a_shard_may_hold_text() -> None:
    array = tegula.create_array(MemoryStore(), shape=(4, 4), chunks=(2, 2), shards=(4, 4), dtype=str)
    array[1:3, 0] = ["a", "b"]
    assert array[:, 0].tolist() == ["", "a", "b", ""]
    array[...] = ""
    assert array.nchunks_initialized() == 0


def test_pickle_needs_allow_pickle() -> None:
    options: dict[str, Any] = {"shape": 2, "dtype": object, "codecs": [{"id": "pickle"}], "format": "zarr2"}
    with pytest.raises(UnsupportedError, match="allow_pickle"):
        tegula.create_array(MemoryStore(), **options)
    array = tegula.create_array(MemoryStore(), allow_pickle=True, **options)
    array[...] = np.array([{1}, (2,)], object)
    with pytest.raises(UnsupportedError, match="allow_pickle"):
        tegula.open(array.store)
    assert tegula.open_array(array.store, allow_pickle=True)[0] == {1}


# --- values


def test_scalars_and_broadcasting() -> None:
    array = tegula.create_array(MemoryStore(), shape=(4, 5), chunks=(3, 2), dtype="i4")
    model = np.zeros((4, 5), "i4")
    cases: list[tuple[Any, Any]] = [
        (..., 3), (slice(None), [1, 2, 3, 4, 5]), ((slice(None), 1), 7), ((1, 2), np.int8(-1)), (..., np.array(True)),
        ((slice(None), slice(1, 3)), [[8], [9], [1], [2]]), ((0, slice(None)), np.arange(5.0)),
        (slice(0, 2), np.full((1, 2, 5), 5)), ((..., None), np.arange(4).reshape(4, 1, 1)),
        ((slice(None, None, -2), slice(3, None, -1)), np.arange(8).reshape(2, 4)),
    ]  # fmt: skip
    for selection, values in cases:
        array[selection] = values
        model[selection] = values
        np.testing.assert_array_equal(array[...], model)
    array[...] = tegula.create_array(MemoryStore(), shape=5, dtype="u1", fill_value=6)
    assert (array[...] == 6).all()
    with pytest.raises(SelectionError):
        array[...] = np.zeros((4, 4))
    with pytest.raises(SelectionError):
        array[0] = np.zeros((2, 5))


def snapshot(store: MemoryStore) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize("options", [{"format": "zarr1"}, {"format": "zarr2"}, {}, {"shards": (4, 4)}])
def test_an_error_leaves_the_data_unchanged(options: dict[str, Any]) -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=(6, 4), chunks=(2, 2), dtype="u1", **options)
    array[...] = np.arange(24).reshape(6, 4)
    before = snapshot(store)
    reader = tegula.open_array(store)
    changes = [
        lambda: array.__setitem__(..., "text"),
        lambda: array.__setitem__(..., [[1, 2], [3]]),
        lambda: array.__setitem__(..., 300),
        lambda: array.__setitem__(..., object()),
        lambda: array.__setitem__(..., np.zeros((5, 5))),
        lambda: array.__setitem__(9, 1),
        lambda: array.__setitem__((0, 0, 0), 1),
        lambda: array.__setitem__("x", 1),
        lambda: array.oindex.__setitem__(([0, 99], 0), 1),
        lambda: array.vindex.__setitem__(([0, 1], [0]), np.zeros((7,))),
        lambda: array.blocks.__setitem__((7, 0), 1),
        lambda: array.append(np.zeros((2, 3))),
        lambda: array.append([["a"] * 4]),
        lambda: array.append(np.zeros((2, 4)), axis=2),
        lambda: array.append(np.zeros((2, 4)), axis=None),
        lambda: array.resize(3),
        lambda: array.resize(-1, 4),
        lambda: array.resize("a", 4),
        lambda: array.resize(2**70, 4),
        lambda: array.attrs.update(x={1, 2}),
        lambda: array.write(99, 1).result(),
        lambda: tegula.create_array(store, shape=3, dtype="i1"),
        lambda: reader.__setitem__(0, 1),
        lambda: reader.resize(1, 1),
        lambda: reader.append(np.zeros((1, 4))),
        reader.attrs.clear,
    ]
    for number, change in enumerate(changes):
        with pytest.raises(TegulaError) as caught:
            change()
        assert snapshot(store) == before, number
        if isinstance(caught.value, SelectionError):
            assert caught.value.path == array.store.url
        if number > len(changes) - 5:
            assert isinstance(caught.value, ReadOnlyError)
    assert array.shape == (6, 4)
    assert array.attrs.asdict() == {}


# --- Python's protocols


def test_iterating_and_len_go_along_the_first_axis() -> None:
    array = tegula.create_array(MemoryStore(), shape=(5, 2), chunks=(2, 2), dtype="i4")
    values = np.arange(10).reshape(5, 2)
    array[...] = values
    assert len(array) == 5
    np.testing.assert_array_equal([*array], values)
    np.testing.assert_array_equal(np.asarray(array), values)
    assert np.asarray(array, "f4").dtype == "f4"
    np.testing.assert_array_equal(np.array(array) + 1, values + 1)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, copy=False)
    assert array.attrs is not None
    assert eval(repr(array.shape)) == (5, 2)
    assert "i4" in repr(array) or "int32" in repr(array)


def test_equal_arrays_have_one_path_and_equal_metadata() -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=3, dtype="f4", fill_value=np.nan)
    again = tegula.open_array(store)
    assert array == again
    assert hash(array) == hash(again)
    array.resize(4)
    assert array != again
    again.refresh()
    assert array == again
    assert array != tegula.create_array(MemoryStore(), shape=4, dtype="f4", fill_value=np.nan)
    assert array != "x"
    for other in (1, 1.5, np.float64(1), np.ones(4)):
        with pytest.raises(tegula.UnsupportedError, match="read the elements first"):
            bool(array == other)


@pytest.mark.parametrize("layout", [{"chunks": 2}, {"chunks": 2, "shards": 4}])
@pytest.mark.parametrize(("dtype", "empty"), [(str, ""), (bytes, b"")])
def test_a_missing_element_of_variable_length_is_the_fill_value_itself(
    layout: dict[str, Any], dtype: type, empty: Any
) -> None:
    a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype=dtype, **layout)
    a[0] = dtype() if dtype is bytes else "x"
    assert type(a[3]) is dtype
    assert a[3] == a.vindex[[3]][0] == empty
    assert type(tegula.create_array({}, shape=(), dtype=dtype)[()]) is dtype


def test_each_element_gets_its_own_copy_of_a_mutable_fill_value() -> None:
    options: dict[str, Any] = {"format": "zarr2", "codecs": {"id": "json2"}, "fill_value": {}}
    a = tegula.create_array(tegula.MemoryStore(), shape=4, chunks=2, dtype=object, **options)
    part = a[0:2]
    part[0]["x"] = 1
    a[1] = {"y": 2}
    assert a[...].tolist() == [{}, {"y": 2}, {}, {}]


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_aligned_records_are_stored_without_their_padding(format: str) -> None:
    aligned = np.dtype([("a", "i1"), ("b", "f8"), ("c", [("d", "u1"), ("e", "i4")])], align=True)
    values = np.zeros(3, aligned)
    values["a"], values["b"] = [1, 2, 3], [0.5, 1.5, 2.5]
    store = tegula.MemoryStore()
    tegula.save(store, values, format=format)
    a = tegula.open(store)
    assert a.dtype.names == aligned.names
    assert a[...].tolist() == values.tolist()


@pytest.mark.parametrize("values", [["a", "", "ccc"], [b"x", b"", b"zz"]], ids=["str", "bytes"])
def test_single_objects_in_nested_shards(values: list[Any]) -> None:
    codec = "vlen-utf8" if isinstance(values[0], str) else "vlen-bytes"
    for _ in range(2):
        codec = {"name": "sharding_indexed", "configuration": {"chunk_shape": [3], "codecs": [codec]}}
    a = tegula.create_array(tegula.MemoryStore(), shape=3, chunks=3, dtype=type(values[0]), codecs=[codec])
    a[:] = values
    assert [a[0], a[-1], a.vindex[1], a.read(2).result()] == [values[0], values[2], values[1], values[2]]
    assert a[1, None].tolist() == [values[1]]
    a[1] = values[0]
    assert (a[1], a[:].tolist()) == (values[0], [values[0], values[0], values[2]])


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    ndim = draw(st.integers(1, 3))
    chunks = draw(st.tuples(*[st.integers(1, 4)] * ndim))
    times = draw(st.one_of(st.none(), st.tuples(*[st.integers(1, 3)] * ndim)))
    shards = None if times is None else tuple(n * chunk for n, chunk in zip(times, chunks))
    return {"shape": draw(st.tuples(*[st.integers(0, 9)] * ndim)), "chunks": chunks, "shards": shards}


@given(grids(), st.data())
def test_chunks_are_counted_as_by_zarr(layout: dict[str, Any], data: st.DataObject) -> None:
    store: dict[str, Any] = {}
    a = tegula.create_array(store, **layout, dtype="u1")
    if all(a.shape):
        a[tuple(data.draw(st.integers(0, n - 1)) for n in a.shape)] = 1
    memory = zarr.storage.MemoryStore()
    z = zarr.create_array(memory, **layout, dtype="u1")
    z[...] = a[...]
    assert a.nchunks == z.nchunks
    assert a.cdata_shape == z.cdata_shape
    assert (a.shards is None) == (a.nshards is None) == (a.nshards_initialized() is None)
    assert a.itemsize == a.dtype.itemsize == 1
    if hasattr(z, "_nshards_initialized"):  # versions that count as they do now
        assert a.nchunks_initialized() == z.nchunks_initialized
        if a.nshards is not None:
            assert a.nshards_initialized() == z._nshards_initialized
            assert a.nshards == int(np.prod(z._shard_grid_shape))


def test_an_array_is_one_class_beside_operators_and_other_names() -> None:
    classes = [cls for cls in tegula.Array.__mro__ if cls.__name__ not in ("ArrayAliases", "Operand")]
    assert classes == [tegula.Array, *Node.__mro__]
