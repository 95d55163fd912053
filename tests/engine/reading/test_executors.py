"""The kernel against the reference executor: the same operations on two stores, in turns, with the same outcome.

Each operation is carried out by one executor on one store and by the other on the other one. Which of them gets which
store is drawn anew every time, so that each reads and changes what the other one has written.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import ml_dtypes
import numcodecs.zstd
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tegula
from tegula import codecs, config
from tegula.errors import CodecError, MetadataError, TegulaError, UnsupportedError
from tegula.stores import LocalStore, MemoryStore, Store

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.usefixtures("kernel")]

NUMBERS = ["i1", ">i2", "<i4", ">u8", "<f4", ">f8", "<f8", "f2", "<c8", ">c16"]
OTHERS = ["?", "S3", "<U2", ">U2", "V5", "<M8[s]", ">m8[ms]"]
RECORDS = [
    [("a", "i1"), ("b", ">f4")],
    [("a", "<i2"), ("b", "<f8", (2,)), ("c", "S2")],
    [("t", "<U2"), ("n", [("x", "<i4"), ("y", "u1")])],
]
EXTENDED = [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4]

# --- codecs: what they are called by, and whether both executors make the same bytes

BLOSC = [
    ({"cname": "lz4", "clevel": 5, "shuffle": 1}, True),
    ({"cname": "lz4", "clevel": 1, "shuffle": -1, "blocksize": 256}, True),
    ({"cname": "lz4hc", "clevel": 3, "shuffle": 2}, False),
    ({"cname": "zstd", "clevel": 1, "shuffle": 2}, False),
    ({"cname": "zlib", "clevel": 9, "shuffle": 0}, False),
    ({"cname": "blosclz", "clevel": 5, "shuffle": 1}, False),
    ({"cname": "lz4", "clevel": 0, "shuffle": 1}, True),
]
NUMCODECS = [
    *(({"id": "blosc", **options}, exact) for options, exact in BLOSC),
    ({"id": "zlib", "level": 1}, False),
    ({"id": "gzip", "level": 6}, False),
    ({"id": "bz2", "level": 1}, False),
    ({"id": "lzma", "preset": 0}, False),
    ({"id": "lz4", "acceleration": 1}, True),
    ({"id": "zstd", "level": 1}, None),
]
SUMS = [{"id": name} for name in ("crc32", "crc32c", "adler32", "fletcher32")]
SHUFFLES = {"shuffle": 1, "bitshuffle": 2, "noshuffle": 0}


def filters(dtype: np.dtype[Any]) -> list[list[dict[str, Any]]]:
    """Draw filters of numcodecs for elements of `dtype`."""
    found: list[list[dict[str, Any]]] = [[], []]
    if dtype.kind in "iufc" and dtype.type.__module__ == "numpy":
        found.append([{"id": "shuffle", "elementsize": dtype.itemsize}])
    if dtype.kind in "iu":
        found.append([{"id": "delta", "dtype": dtype.str}])
        found.append([{"id": "delta", "dtype": dtype.str}, {"id": "shuffle", "elementsize": dtype.itemsize}])
    if dtype.kind == "f" and dtype.str in ("<f4", "<f8", ">f8"):
        options = {"offset": -3, "scale": 4, "dtype": dtype.str}
        found.append([{"id": "fixedscaleoffset", **options, "astype": "<i4"}])
        found.append([{"id": "quantize", "digits": 2, "dtype": dtype.str}])
        found.append([{"id": "delta", "dtype": dtype.str}])
    if dtype.str in ("<f4", "<f8", "<f2"):
        found.append([{"id": "bitround", "keepbits": 4}])
    if dtype.kind == "b":
        found.append([{"id": "packbits"}])
    return found


def as_v3(item: dict[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Spell a codec as in Zarr v3."""
    name, options = item["id"], {key: value for key, value in item.items() if key != "id"}
    if name == "blosc":
        shuffles = {number: word for word, number in SHUFFLES.items()}
        options = {"blocksize": 0, "typesize": dtype.itemsize, **options}
        return {"name": name, "configuration": {**options, "shuffle": shuffles[max(0, options["shuffle"])]}}
    if name in ("gzip", "zstd", "crc32c"):
        return {"name": name, "configuration": {**options, "checksum": True} if name == "zstd" else options}
    return {"name": f"numcodecs.{name}", "configuration": options}


def same_library(module: ModuleType | None, exact: bool | None) -> bool:
    """Return whether both executors use the same encoder; for zstd, if the versions are equal."""
    if exact is None:
        theirs = [getattr(numcodecs.zstd, f"{part}_VERSION_NUMBER") for part in ("MAJOR", "MINOR", "MICRO")]
        return module is not None and module.versions().get("zstd") == ".".join(map(str, theirs))
    return exact


# --- arrays


@st.composite
def n5_arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of `create_array` for N5."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    dtype = draw(st.sampled_from(["u1", "<u2", ">i4", "<i8", ">f4", "<f8"]))
    codecs = draw(st.sampled_from([None, "gzip", "zlib", "bz2", "lzma", "lz4", "zstd", {"id": "blosc", "shuffle": 2}]))
    return {"format": "n5", "shape": shape, "chunks": chunks, "dtype": np.dtype(dtype), "codecs": codecs}


@st.composite
def arrays(draw: st.DrawFn) -> tuple[dict[str, Any], bool | None]:
    """Draw the arguments of `create_array`, and whether both executors store the same bytes."""
    format = draw(st.sampled_from(["zarr1", "zarr2", "zarr2", "zarr3", "zarr3", "zarr3", "bcolz", "n5"]))
    if format == "n5":
        return draw(n5_arrays()), False
    kinds: list[Any] = [*NUMBERS, *OTHERS, *(RECORDS if format != "zarr1" else [])]
    dtype = np.dtype(draw(st.sampled_from([*kinds, *(EXTENDED if format == "zarr3" else [])])))
    smallest = 0 if format in ("zarr2", "zarr3") else 1
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=smallest, max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    options: dict[str, Any] = {"format": format, "shape": shape, "chunks": chunks, "dtype": dtype}
    fills = fill_values(dtype)
    if fills and format != "bcolz":
        options["fill_value"] = draw(st.sampled_from(fills))
    if format == "bcolz":
        blosc, exact = draw(st.sampled_from(BLOSC[:2]))
        return {**options, "chunks": chunks[0], "codecs": {"id": "blosc", **blosc}}, exact
    if format != "zarr3" or len(shape) < 2:
        options["order"] = draw(st.sampled_from("CF"))
    compressor, exact = draw(st.sampled_from([(None, True), *NUMCODECS]))
    if format == "zarr1":
        allowed = compressor is None or compressor["id"] in ("blosc", "zlib", "bz2", "lzma")
        return {**options, "codecs": compressor if allowed else None}, exact or not allowed
    items = draw(st.sampled_from(filters(dtype))) if dtype.names is None else []
    items = [*items, *([] if compressor is None else [compressor]), *draw(st.lists(st.sampled_from(SUMS), max_size=1))]
    if format == "zarr2":
        return {**options, "codecs": items}, exact
    named = [as_v3(item, dtype) for item in items if item["id"] != "fletcher32"]
    if dtype.kind in "iufcUmM" and not items and draw(st.booleans()):
        named.insert(0, {"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["big", "little"]))}})
    if len(shape) > 1 and draw(st.booleans()):
        named.insert(0, {"name": "transpose", "configuration": {"order": draw(st.permutations(range(len(shape))))}})
    if shape and draw(st.booleans()):
        options["shards"] = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks)
    return {**options, "codecs": named}, exact


def fill_values(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "f" and dtype.type.__module__ == "numpy":
        return [0.0, -0.0, 1.0, np.nan, np.inf]
    if dtype.kind == "c":
        return [0, complex(-0.0, np.nan)]
    return {"i": [0, 1], "u": [0, 1], "b": [False, True], "S": ["", "a"], "U": ["", "é"]}.get(dtype.kind, [])


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Make values: mostly zeros at low seeds, so that some chunks are empty."""
    random = np.random.default_rng(seed)
    if dtype.names is not None:
        out = np.zeros(shape, dtype)
        for name in dtype.names:
            inner = dtype[name]
            out[name] = values_of(inner.base, (*shape, *inner.shape), seed)
        return out
    numbers = random.integers(0, 1 + seed % 9, shape)
    if dtype.kind == "V" and dtype.type is np.void:
        return (numbers.astype("u1")[..., None] * np.ones(dtype.itemsize, "u1")).view(dtype).reshape(shape)
    if dtype.kind in "SU":
        return numbers.astype("U3").astype(dtype)
    if dtype.kind in "iumM" and seed % 2:
        return random.integers(-(2**62), 2**62, shape).astype("i8").astype(dtype)
    return numbers.astype(dtype)


# --- selections


def slices(size: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(-3, 3).filter(bool))


def numbers(size: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(-size, size - 1), max_size=6) if size else st.just([])


def bits(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    count = int(np.prod(shape, dtype=int))
    return st.lists(st.booleans(), min_size=count, max_size=count).map(lambda v: np.array(v, bool).reshape(shape))


@st.composite
def selections(draw: st.DrawFn, array: tegula.Array) -> tuple[str, Any]:
    """Draw the way to select, and the selection."""
    shape = array.shape
    kind = draw(st.sampled_from(["basic", "basic", "basic", "oindex", "vindex", "mask", "blocks", "field"]))
    if kind == "field" and array.dtype.names is not None:
        return "basic", draw(st.sampled_from([*array.dtype.names, [*array.dtype.names[:1]]]))
    if kind == "oindex" and shape:
        axes = [slices(n) | numbers(n) | bits((n,)) | (st.integers(-n, n - 1) if n else slices(n)) for n in shape]
        return kind, draw(st.tuples(*axes))
    if kind == "vindex" and shape and all(shape):
        count = draw(st.integers(0, 6))
        lists = [st.lists(st.integers(-n, n - 1), min_size=count, max_size=count) for n in shape]
        return kind, tuple(np.array(axis, int) for axis in draw(st.tuples(*lists)))
    if kind == "mask" and shape:
        return "vindex", draw(bits(shape))
    if kind == "blocks" and shape and all(shape):
        counts = [-(-size // step) for size, step in zip(shape, array.shards or array.chunks)]
        inside = [slices(n).filter(lambda s, n=n: s.step in (None, 1) and -n <= (s.start or 0) < n) for n in counts]
        return kind, draw(st.tuples(*(parts | st.integers(0, n - 1) for parts, n in zip(inside, counts))))
    axes = [slices(n) | (st.integers(-n, n - 1) if n else slices(n)) for n in shape]
    return "basic", draw(st.just(...) | st.tuples(*axes))


def target(array: tegula.Array, kind: str) -> Any:
    return array if kind == "basic" else getattr(array, kind)


# --- operations: each is a function of an array, drawn before either executor does it

Operation = Callable[[tegula.Array], Any]


@st.composite
def operations(draw: st.DrawFn, array: tegula.Array) -> Operation:
    kind, selection = draw(selections(array))
    action = draw(st.sampled_from(["read", "read", "write", "write", "write", "into", "erase", "append", "resize"]))
    seed = draw(st.integers(0, 60))
    if action in ("append", "resize") and array.ndim:
        axis = 0 if array.format == "bcolz" else draw(st.integers(0, array.ndim - 1))
        shape = list(array.shape)
        shape[axis] = draw(st.integers(0, 9))
        if action == "resize":
            return lambda array: array.resize(tuple(shape))
        values = values_of(array.dtype, tuple(shape), seed)
        return lambda array: array.append(values, axis)
    if action == "read" or action in ("append", "resize"):
        return lambda array: target(array, kind)[selection]
    found = target(array, kind)[selection]
    if action == "into" and kind == "basic" and isinstance(found, np.ndarray):
        backwards = draw(st.booleans())

        def into(array: tegula.Array) -> Any:
            out = np.zeros(found.shape[::-1], found.dtype).T
            out = out[..., ::-1] if backwards and out.ndim else out
            return array.read(selection, out).result()

        return into
    dtype, shape = np.asarray(found).dtype, np.shape(found)
    values = values_of(dtype, shape, 0 if action == "erase" else seed)
    if draw(st.booleans()) and len(shape) > 1:
        values = np.asfortranarray(values)
    elif draw(st.booleans()) and shape:
        values = values[:1]  # broadcast, where there are several

    def write(array: tegula.Array) -> None:
        target(array, kind)[selection] = values

    return write


def outcome(store: Store, executor: str, operation: Operation) -> Any:
    """Return the outcome of an operation: the bytes that it returned, or the error."""
    with config.configure(executor=executor), warnings.catch_warnings():
        # NumPy says it where a number has no place in the filter's type; both then store the same
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        try:
            found = operation(tegula.open_array(store, mode="r+"))
        except (TegulaError, ValueError) as error:
            return type(error), getattr(error, "key", None)
        if found is None:
            return None
        value = np.asarray(found)
        return type(found), value.dtype, value.shape, value.tobytes()


def everything(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in sorted(store.list())}


def stores(stack: ExitStack, local: bool) -> Iterator[Store]:
    for _ in range(2):
        yield LocalStore(stack.enter_context(tempfile.TemporaryDirectory())) if local else MemoryStore()


def create(store: Store, options: dict[str, Any]) -> tegula.Array | None:
    with config.configure(executor="reference"):
        try:
            return tegula.create_array(store, **options)
        except (MetadataError, UnsupportedError):  # not every format has every codec for every type
            return None


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_operations_have_the_same_outcome(kernel: ModuleType, data: st.DataObject) -> None:
    options, exact = data.draw(arrays())
    local, keep = data.draw(st.booleans()), data.draw(st.booleans())
    with ExitStack() as stack:
        stack.enter_context(config.configure(threads=data.draw(st.sampled_from([1, 3])), write_empty_chunks=keep))
        both = [*stores(stack, local)]
        assume(all(create(store, options) is not None for store in both))
        for _ in range(data.draw(st.integers(1, 6))):
            first, second = data.draw(st.permutations(["reference", "kernel"]))
            with config.configure(executor="reference"):
                operation = data.draw(operations(tegula.open_array(both[0])))
            assert outcome(both[0], first, operation) == outcome(both[1], second, operation)
        left, right = map(everything, both)
        assert [*left] == [*right]
        if same_library(kernel, exact):
            assert left == right
        whole = {outcome(store, executor, lambda a: a[...]) for store in both for executor in ("reference", "kernel")}
        assert len(whole) == 1


# --- chunks large enough for several blocks and threads

SHAPE = (200, 300)
LARGE: list[tuple[str, list[Any], bool | None]] = [
    ("zarr3", [], True),
    ("zarr3", [{"name": "bytes", "configuration": {"endian": "big"}}], True),
    ("zarr3", [{"name": "transpose", "configuration": {"order": [1, 0]}}, "gzip"], False),
    *(("zarr2", [{"id": "blosc", **options}], exact) for options, exact in BLOSC),
    *(("zarr2", [item], exact) for item, exact in NUMCODECS[len(BLOSC) :]),
    *(("zarr2", items, True) for items in filters(np.dtype("<f8"))[2:]),
    *(("zarr2", [item], True) for item in SUMS),
]
PARTS: list[Operation] = [
    lambda a: a[...],
    lambda a: a[::-1, 3],
    lambda a: a[7, ::-5],
    lambda a: a[90:103, 140:170],
    lambda a: a[-1, -1],
    lambda a: a.oindex[[5, 0, 199, 5], ::7],
    lambda a: a.vindex[[0, 150, 199, 151], [0, 250, 299, 0]],
    lambda a: a.blocks[1, :1],
]


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize(
    ("format", "items", "exact", "shards"),
    [*((*case, False) for case in LARGE), *((*case, True) for case in LARGE if case[0] == "zarr3")],
)
def test_large_chunks(
    kernel: ModuleType, tmp_path: Any, format: str, items: list[Any], exact: bool | None, shards: bool
) -> None:
    places = [LocalStore(tmp_path / "a"), MemoryStore()]
    options = {"format": format, "shape": SHAPE, "chunks": (50, 50) if shards else (150, 160), "dtype": "<f8"}
    values = np.sin(np.arange(np.prod(SHAPE))).reshape(SHAPE).round(2)
    values[150:, :170] = 0  # a chunk that is not stored
    for store, executor in zip(places, ("kernel", "reference")):
        assert create(store, {**options, "codecs": items, "shards": (150, 200) if shards else None}) is not None
        with config.configure(executor=executor):
            array = tegula.open_array(store, mode="r+")
            array[...] = values
            array[33:190:3, ::-2] = values[33:190:3, ::-2] + 1
    left, right = map(everything, places)
    assert [*left] == [*right]
    if same_library(kernel, exact):
        assert left == right
    for part in PARTS:
        found = {outcome(store, executor, part) for store in places for executor in ("reference", "kernel")}
        assert len(found) == 1


@pytest.mark.parametrize("codec", [None, "zstd", "blosc", "gzip", "crc32c"])
@pytest.mark.parametrize("shards", [None, 40])
@pytest.mark.parametrize("local", [True, False])
def test_the_kernel_does_the_work(tmp_path: Any, monkeypatch: Any, codec: str | None, shards: Any, local: bool) -> None:
    """Where it is in use no chunk goes through Python's codecs."""

    def fail(*args: Any, **options: Any) -> Any:
        raise AssertionError("the reference executor was at work")

    store: Store = LocalStore(tmp_path) if local else MemoryStore()
    array = tegula.create_array(store, shape=100, chunks=10, shards=shards, dtype="<i4", codecs=codec)
    with config.configure(executor="kernel"):
        array = tegula.open_array(store, mode="r+")
        monkeypatch.setattr(codecs.CodecChain, "encode", fail)
        monkeypatch.setattr(codecs.CodecChain, "decode", fail)
        array[3:97] = np.arange(3, 97)
        assert array[...].tolist() == [0] * 3 + [*range(3, 97)] + [0] * 3
        assert array.oindex[[50, 4]].tolist() == [50, 4]


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("damage", ["truncated", "empty", "longer", "zeroed"])
@pytest.mark.parametrize("codec", [None, "zstd", "blosc", "gzip", "crc32c", "numcodecs.lz4", "numcodecs.bz2"])
@pytest.mark.parametrize("shards", [None, 40])
def test_damaged_chunks(tmp_path: Any, codec: str | None, damage: str, shards: int | None) -> None:
    store = LocalStore(tmp_path)
    array = tegula.create_array(store, shape=100, chunks=20, shards=shards, dtype="<i4", codecs=codec)
    array[...] = np.arange(100) // 3
    data = store.get("c/1")
    assert data is not None
    changed = {"truncated": data[:-3], "empty": b"", "longer": data + b"xyz", "zeroed": bytes(len(data))}[damage]
    store.set("c/1", changed)
    found = {outcome(store, executor, lambda a: a[...]) for executor in ("reference", "kernel")}
    assert len(found) == 1
    if (codec, damage) != (None, "zeroed") or shards:
        ((kind, key, *_),) = found
        assert (kind, key) == (CodecError, "c/1")


@pytest.mark.slow
@pytest.mark.sampled(one_in=29)
@pytest.mark.parametrize("side", [40, 200])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    ("codec", "reads"),
    [
        *((spec, True) for spec, _ in BLOSC[::3]),
        ("zlib", True),
        ("gzip", True),
        ("bz2", True),
        ("lzma", True),
        ("zstd", False),
        ("lz4", False),
    ],
    ids=str,
)
def test_zeros_after_the_compressed_data(tmp_path: Any, codec: Any, reads: bool, local: bool, side: int) -> None:
    """Both executors read them where numcodecs does, and nothing else in their place; a write leaves none behind."""
    spec = {"id": "blosc", **codec} if isinstance(codec, dict) else {"id": codec}
    store: Store = LocalStore(tmp_path) if local else MemoryStore()
    values = (np.arange(side * side, dtype="<i4") // 3).reshape(side, side)
    tegula.create_array(store, shape=values.shape, chunks=values.shape, dtype="<i4", format="zarr2", codecs=[spec])
    frame = bytes(numcodecs.get_codec(spec).encode(values))
    for executor in ("reference", "kernel"):
        with config.configure(executor=executor):
            array = tegula.open_array(store, mode="r+")
            for tail in (bytes(16), bytes(side)):
                store.set("0.0", frame + tail)
                if not reads:
                    with pytest.raises(CodecError):
                        array[...]
                    continue
                for part in (..., (7, slice(3, 9)), (slice(0, side, 5), slice(1, 3)), [[5, 1], [2, 2]]):
                    np.testing.assert_array_equal(array[part], values[part])
                array[0, 0] = 9
                assert np.array_equal(array[...], [[9, *values[0, 1:]], *values[1:]])
                assert array.stored.chain.excess(store.get("0.0"), values.shape) == 0
            for tail in (b"\0\0\0x", b"x" * 16):
                store.set("0.0", frame + tail)
                with pytest.raises(CodecError):
                    array[...]
                if side > 100:
                    with pytest.raises(CodecError):
                        array[7, 3:9]


@pytest.mark.parametrize("location", ["start", "end"])
def test_an_index_entry_that_ends_behind_its_shard(location: str) -> None:
    options = {"chunk_shape": [10], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}
    shard = {"name": "sharding_indexed", "configuration": {**options, "index_location": location}}
    store = MemoryStore()
    array = tegula.create_array(store, shape=20, chunks=20, dtype="u1", codecs=[shard])
    array[...] = np.arange(20) + 1
    data = store.get("c/0")
    index = np.array([[0, 10], [10, 10]] if location == "end" else [[32, 10], [42, 10]], "<u8").tobytes()
    lying = np.array([[0, 10], [10, 99]] if location == "end" else [[32, 10], [42, 99]], "<u8").tobytes()
    assert data is not None
    assert index in data
    store.set("c/0", data.replace(index, lying))
    for executor in ("kernel", "reference"):
        with config.configure(executor=executor):
            assert array[:10].tolist() == [*range(1, 11)]
            for selection in (slice(15, 17), ..., 19):
                with pytest.raises(CodecError, match="shard"):
                    array[selection]
