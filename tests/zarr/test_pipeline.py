"""Arrays of zarr-python have the same elements with tegula's codec pipeline and with zarr-python's own."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula

pytest.importorskip("zarr", minversion="3")
import zarr

import tegula.zarr
from tegula.zarr import Pipeline

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore")]
OURS, THEIRS = "tegula.zarr.Pipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"
DTYPES = ["u1", "<i2", ">i4", "f4", "f8", "c8", "bool", "M8[s]", "S3", "U2", "f2"]
V3: list[dict[str, Any]] = [
    {},
    {"compressors": None},
    {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
    {"compressors": [zarr.codecs.GzipCodec(level=1), zarr.codecs.Crc32cCodec()]},
    {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
    {"serializer": zarr.codecs.BytesCodec(endian="big")},
]


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Any]:
    """Draw a selection that both accept, and the method that takes it."""
    kind = draw(st.sampled_from(["basic", "basic", "oindex", "vindex", "mask"]))
    if kind == "basic":
        items = []
        for size in shape:
            start = draw(st.integers(0, size - 1))
            stop = draw(st.integers(start + 1, size))
            items.append(draw(st.sampled_from([start, slice(start, stop), slice(None), slice(start, stop, 2)])))
        return kind, tuple(items)
    if kind == "mask":
        seed = draw(st.integers(0, 9))
        return "vindex", np.random.default_rng(seed).random(shape) < 0.4
    count = draw(st.integers(1, 4))
    index = [draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count, unique=True)) for size in shape]
    if kind == "vindex":
        return kind, tuple(index)
    where = draw(st.integers(0, len(shape) - 1))
    other = draw(st.sampled_from([slice(None), 0, slice(1, 3)]))
    return kind, tuple(np.sort(item) if axis == where else other for axis, item in enumerate(index))


def pick(array: Any, kind: str, selection: Any) -> Any:
    return array[selection] if kind == "basic" else getattr(array, kind)[selection]


def put(array: Any, kind: str, selection: Any, values: Any) -> None:
    if kind == "basic":
        array[selection] = values
    else:
        getattr(array, kind)[selection] = values


def some(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return values, some of which are zero."""
    return (
        rng.integers(0, 3, shape).astype("i8").astype(dtype)
        if dtype.kind != "c"
        else rng.integers(0, 3, shape) * (1 + 1j)
    )


def same(one: Any, two: Any) -> bool:
    """Compare all bits, but not the byte order in memory, which zarr-python forgets when it opens an array."""
    return one.shape == two.shape and one.tobytes() == two.astype(one.dtype).tobytes()


@pytest.mark.slow
@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("make", [dict, "local", "wrapped"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_writes_and_reads_are_the_same(
    make: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both pipelines read the same elements, whichever of them has written."""
    zarr_format = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(st.tuples(st.integers(5, 12), st.integers(5, 12)))
    chunks = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dtype = data.draw(st.sampled_from(DTYPES))
    options: dict[str, Any] = {"config": {"write_empty_chunks": data.draw(st.booleans())}}
    if zarr_format == 3:
        options |= data.draw(st.sampled_from(V3))
        sharded = "filters" not in options and "serializer" not in options and data.draw(st.booleans())
        options["shards"] = tuple(2 * size for size in chunks) if sharded else None
    stores = {name: store_of(make, tmp_path_factory) for name in (OURS, THEIRS)}
    arrays = {}
    for name, store in stores.items():
        with zarr.config.set({"codec_pipeline.path": name}):
            arrays[name] = zarr.create_array(
                store, shape=shape, chunks=chunks, dtype=dtype, zarr_format=zarr_format, **options
            )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    expected = np.zeros(shape, arrays[OURS].dtype)
    expected[...] = arrays[THEIRS][...]
    for _ in range(3):
        kind, selection = data.draw(selections(shape))
        if kind != "oindex":  # zarr-python 3.1 can't write those to shards
            values = some(rng, pick_shape(expected, kind, selection), expected.dtype)
            for array in arrays.values():
                put(array, kind, selection, values)
            expected[selection] = values
        kind, selection = data.draw(selections(shape))
        ours, theirs = (np.asarray(pick(array, kind, selection)) for array in arrays.values())
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    for array in arrays.values():
        assert same(array[...], expected)
    # either reads what the other has written, also after a change of shape
    for array in arrays.values():
        array.resize((shape[0] + 3, shape[1]))
    for name, other in ((OURS, THEIRS), (THEIRS, OURS)):
        with zarr.config.set({"codec_pipeline.path": name}):
            found = zarr.open_array(stores[other], mode="r")[...]
        assert same(found[: shape[0]], expected)
        assert same(found, arrays[name][...])


def pick_shape(expected: Any, kind: str, selection: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = expected[selection].shape
    return shape


def store_of(make: Any, factory: pytest.TempPathFactory) -> Any:
    if make == "local":
        return zarr.storage.LocalStore(factory.mktemp("zarr"))
    if make == "wrapped":
        return zarr.storage.WrapperStore(zarr.storage.MemoryStore())
    return zarr.storage.MemoryStore({})


@pytest.fixture
def pipeline() -> Any:
    with zarr.config.set({"codec_pipeline.path": OURS}):
        yield


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each read and write whether tegula did it."""
    found: list[bool] = []

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any) -> bool:
            found.append(await method(*args))
            return found[-1]

        return call

    for name in ("_read", "_write"):
        monkeypatch.setattr(Pipeline, name, noted(getattr(Pipeline, name)))
    return found


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_tegula_reads_and_writes_every_kind_of_selection(
    shards: Any, tmp_path: Path, answers: list[bool], kernel: Any
) -> None:
    a = zarr.create_array(tmp_path / "a", shape=(10, 11), chunks=(4, 4), shards=shards, dtype="f4")
    for selection in (..., (slice(1, 7), slice(3, None)), (slice(None, None, 3), 5), (2, 3), slice(4, 8)):
        a[selection] = 1
        a[selection]
    a.oindex[[3, 1, 9], 2:5] = 1
    a.vindex[[3, 1, 9], [2, 2, 0]] = 2
    assert a.oindex[[3, 1, 9], [2, 2, 0]].shape == (3, 3)
    assert a.oindex[[3, 1, 9], 4].tolist() == [1, 1, 1]
    assert a.vindex[[3, 1, 9], [2, 2, 0]].tolist() == [2, 2, 2]
    assert a.blocks[1, 1].shape == ((2, 3) if shards else (4, 4))
    assert answers
    assert all(answers)


@pytest.mark.usefixtures("pipeline")
def test_views_are_read_from_their_own_chunks(answers: list[bool], kernel: Any) -> None:
    old = tegula.create_array({}, shape=(7, 3), dtype="f8", format="bcolz", chunks=(2, 3))
    old[...] = np.arange(21).reshape(7, 3)
    shown = zarr.open_array(tegula.zarr.store(old), mode="r")
    assert shown[1:, 2].tolist() == [5, 8, 11, 14, 17, 20]
    assert answers == [True]


@pytest.mark.usefixtures("pipeline")
def test_errors_are_those_of_zarr_python(tmp_path: Path) -> None:
    a = zarr.create_array(tmp_path / "a", shape=4, chunks=2, dtype="i4", compressors=zarr.codecs.Crc32cCodec())
    a[:] = 1
    file = tmp_path / "a" / "c" / "0"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with zarr.config.set({"codec_pipeline.path": THEIRS}), pytest.raises(Exception) as theirs:
        zarr.open_array(tmp_path / "a", mode="r")[:]
    with pytest.raises(type(theirs.value)):
        a[:]
    read_only = zarr.open_array(zarr.storage.LocalStore(tmp_path / "a", read_only=True), mode="r")
    with pytest.raises(ValueError, match="read-only"):
        read_only[:] = 1


@pytest.mark.usefixtures("pipeline")
def test_arrays_pickle(tmp_path: Path) -> None:
    a = zarr.create_array(tmp_path / "a", shape=4, chunks=2, dtype="i4")
    a[:] = [1, 2, 3, 4]
    copy = pickle.loads(pickle.dumps(a))
    assert copy[1:3].tolist() == [2, 3]


def test_an_array_that_has_been_resized_is_written_as_it_is_now() -> None:
    found = []
    for name in (OURS, THEIRS):
        with zarr.config.set({"codec_pipeline.path": name}):
            a = zarr.create_array({}, shape=6, chunks=4, dtype="i4")
            a[:] = 7
            a.resize((8,))
            a[7] = 2
            a[5:6] = 1  # the last index of the array as it was, but not of its last chunk
            a.append(np.arange(3, dtype="i4"))
            found.append(a[:].tolist())
    assert found[0] == found[1] == [7, 7, 7, 7, 7, 1, 0, 2, 0, 1, 2]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("order", "<>")
def test_times_without_a_unit_are_those_of_zarr_python(zarr_format: int, kind: str, order: str) -> None:
    counts = np.array([0, 1, -2, 100], f"{order}i8")
    found = []
    for path in (OURS, THEIRS):
        with zarr.config.set({"codec_pipeline.path": path}):
            array = zarr.create_array({}, data=counts.view(f"{order}{kind}"), chunks=2, zarr_format=zarr_format)
            array.resize((6,))
            found.append(np.asarray(array[:]).tobytes())
    assert found[0] == found[1]
