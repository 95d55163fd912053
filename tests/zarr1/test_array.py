"""The array of zarr 1.x: NumPy as the oracle, and the faults of zarr 1.1."""

import copy
import multiprocessing
import pickle
import sys
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tegula import MemoryStore, SelectionError
from tegula import zarr1 as zarr
from tegula.errors import MetadataError, NotFoundError, StoreError

DTYPES = st.sampled_from(["u1", "<i4", ">i2", "f8", ">f4", "c16", "?", "S3", "M8[ms]"])


@settings(max_examples=60)
@given(data=st.data(), dtype=DTYPES, order=st.sampled_from("CF"), compression=st.sampled_from(["blosc", "zlib"]))
def test_behaves_as_numpy(data: st.DataObject, dtype: str, order: str, compression: str) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=7))
    chunks = data.draw(st.tuples(*[st.integers(1, 8)] * len(shape)))
    expected = np.full(shape, 0, dtype)  # which is not np.zeros: it fills text with "0"
    store: dict[str, bytes] = {}
    z = zarr.zeros(shape, chunks, dtype, compression, order=order, store=store)
    for step in range(4):
        selection = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
        value = np.asarray(step + 1).astype("i4").astype(dtype)
        z[selection] = value
        expected[selection] = value
        np.testing.assert_array_equal(z[selection], expected[selection])
    lengths = tuple(data.draw(st.integers(0, 9)) for _ in shape)
    z.resize(*lengths)
    resized = np.full(lengths, 0, dtype)
    common = tuple(slice(min(a, b)) for a, b in zip(lengths, shape))
    resized[common] = expected[common]
    np.testing.assert_array_equal(z[:], resized)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    z.append(resized, axis=axis)
    doubled = np.concatenate([resized, resized], axis=axis)
    np.testing.assert_array_equal(zarr.Array(store)[:], doubled)
    np.testing.assert_array_equal(np.asarray(z), doubled)


def test_properties() -> None:
    store: dict[str, bytes] = {}
    z = zarr.zeros((20, 30), (10, 20), "i4", store=store)
    assert (z.ndim, z.size, z.itemsize, z.nbytes, len(z)) == (2, 600, 4, 2400, 20)
    assert (z.cdata_shape, z.initialized, z.cbytes, z.readonly, z.synchronizer) == ((2, 2), 0, 0, False, None)
    assert z.store is store
    z[0] = 1
    assert z.initialized == 2
    assert z.nbytes_stored == sum(map(len, store.values())) == z.cbytes + len(store["meta"]) + len(store["attrs"])
    assert [row.sum() for row in z][:2] == [30, 0]
    assert np.asarray(z, dtype="f4").dtype == np.dtype("f4")


def test_every_written_chunk_is_stored() -> None:
    z = zarr.zeros(10, 5)
    z[:5] = 0
    assert z.initialized == 1
    assert zarr.Array(z.store).initialized == 1
    again = zarr.Array(z.store)
    again[:] = 0
    assert z.initialized == 2


def test_repr(tmp_path: Path) -> None:
    z = zarr.open(tmp_path, shape=(10000, 10000), chunks=(1000, 1000), synchronizer=zarr.ThreadSynchronizer())
    assert repr(z) == (
        "tegula.zarr1.SynchronizedArray((10000, 10000), float64, chunks=(1000, 1000), order=C)\n"
        "  compression: blosc; compression_opts: {'clevel': 5, 'cname': 'lz4', 'shuffle': 1}\n"
        "  nbytes: 762.9 MiB; nbytes_stored: 313 B; ratio: 2555910.5; initialized: 0/100\n"
        "  store: tegula.zarr1.stores.DirectoryStore; synchronizer: tegula.zarr1.synchronizers.ThreadSynchronizer"
    )
    assert str(z) == repr(z)


@pytest.mark.parametrize("edge", [3, 7])
def test_elements_that_were_cut_off_do_not_come_back(edge: int) -> None:
    z = zarr.zeros(10, 5, "i4")
    z[:] = 9
    z.resize(edge)
    z.resize((10,))
    assert z[:].tolist() == [9] * edge + [0] * (10 - edge)


def test_resize_with_none_and_invalid_shapes() -> None:
    z = zarr.zeros((4, 6), (2, 2))
    z.resize(None, 3)
    assert z.shape == (4, 3)
    z.resize((5, None))
    assert z.shape == (5, 3)
    for bad in ((1,), (1, 2, 3), (-1, 2), ("a", 1), ((1, 2), 3)):
        with pytest.raises(MetadataError):
            z.resize(*bad)
    assert z.shape == (5, 3)


def test_append_returns_none_and_checks_shapes() -> None:
    z = zarr.zeros((4, 6), (2, 2))
    assert z.append(np.ones((1, 6))) is None
    for bad, axis in ((np.ones(6), 0), (np.ones((1, 5)), 0), (np.ones((1, 6)), 1), (np.ones((1, 6)), 2)):
        with pytest.raises(SelectionError):
            z.append(bad, axis=axis)
    assert z.shape == (5, 6)


def test_elements_without_a_value_are_zero() -> None:
    z = zarr.empty((7, 7), (4, 4), "i8", compression="none")
    z[1, 1] = 5
    assert z[:].sum() == 5
    assert not any(z.store["0.0"].replace(b"\5", b""))


def test_attributes_are_those_in_the_store() -> None:
    store: dict[str, bytes] = {}
    first = zarr.zeros(10, 5, store=store)
    second = zarr.Array(store)
    held = second.attrs
    first.attrs["b"] = [1, {"x": None}]
    first.attrs["a"] = "é"
    assert held["a"] == "é"
    assert dict(second.attrs) == {"a": "é", "b": [1, {"x": None}]}
    second.attrs["c"] = 3
    del first.attrs["b"]
    assert store["attrs"] == b'{\n    "a": "\\u00e9",\n    "c": 3\n}'
    second.attrs.clear()
    assert store["attrs"] == b"{}"
    assert "a" not in first.attrs
    with pytest.raises(MetadataError):
        first.attrs["bad"] = object()
    with pytest.raises(KeyError):
        first.attrs["missing"]


def test_reading_does_not_create_a_missing_attrs_key() -> None:
    store: dict[str, bytes] = {}
    zarr.zeros(10, 5, store=store)
    del store["attrs"]
    z = zarr.Array(store)
    assert len(z.attrs) == 0
    assert sorted(store) == ["meta"]
    z.attrs["a"] = 1
    assert sorted(store) == ["attrs", "meta"]


def test_a_deleted_array() -> None:
    store: dict[str, bytes] = {}
    z = zarr.zeros(10, 5, store=store)
    store.clear()
    with pytest.raises(NotFoundError):
        z.attrs["a"]
    with pytest.raises(NotFoundError):
        zarr.Array(store)
    with pytest.raises(StoreError):
        zarr.Array(5)


def test_assigning_arrays_of_zarr1() -> None:
    z = zarr.array(np.arange(10), chunks=3)
    copied = zarr.empty_like(z)
    copied[:] = z
    np.testing.assert_array_equal(copied, z)


@pytest.mark.parametrize("synchronizer", [None, zarr.ThreadSynchronizer()])
@pytest.mark.parametrize("kind", ["mapping", "directory", "tegula"])
def test_pickling(kind: str, synchronizer: Any, tmp_path: Path) -> None:
    store: Any = {"mapping": {}, "directory": zarr.DirectoryStore(tmp_path), "tegula": MemoryStore()}[kind]
    z = zarr.array(np.arange(10), chunks=3, store=store, synchronizer=synchronizer)
    for other in (pickle.loads(pickle.dumps(z)), copy.deepcopy(z)):
        assert type(other) is type(z)
        np.testing.assert_array_equal(other, z)
        assert not other.readonly
    reader = pickle.loads(pickle.dumps(zarr.Array(store, readonly=True)))
    assert reader.readonly


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("kind", ["mapping", "directory"])
def test_threads_lose_nothing(kind: str, locked: bool, tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    store: Any = {} if kind == "mapping" else zarr.DirectoryStore(tmp_path / "z")
    synchronizer = zarr.ProcessSynchronizer(tmp_path / "sync") if locked else zarr.ThreadSynchronizer()
    z = zarr.zeros(64, 16, "i4", store=store, synchronizer=synchronizer)

    def work(number: int) -> None:
        z[number:64:8] = number + 1
        z.attrs[f"a{number}"] = number
        z.append([number])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            [*pool.map(work, range(8))]
    finally:
        sys.setswitchinterval(interval)
    assert z[:64].tolist() == [*range(1, 9)] * 8
    assert sorted(z[64:].tolist()) == [*range(8)]
    assert dict(zarr.Array(store).attrs) == {f"a{n}": n for n in range(8)}
    assert (tmp_path / "sync").exists() == (locked and kind == "mapping")


class Files(zarr.DirectoryStore):
    """A mapping that is not a dict."""


def write(path: Path, kind: type, number: int) -> None:
    z = zarr.SynchronizedArray(kind(path / "z"), zarr.ProcessSynchronizer(path / "sync"))
    for start in range(0, 16, 4):
        z[start + number] = number + 1
    z.attrs[f"a{number}"] = number


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("kind", [zarr.DirectoryStore, Files])
def test_processes_lose_nothing(kind: type, tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    zarr.init_store(kind(tmp_path / "z"), 16, 16, "i4", fill_value=0)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write, args=(tmp_path, kind, number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    z = zarr.open(tmp_path / "z", "r")
    assert z[:].tolist() == [1, 2, 3, 4] * 4
    assert len(z.attrs) == 4


def test_a_lock_that_can_not_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    z = zarr.zeros(10, 5, synchronizer=zarr.ProcessSynchronizer(tmp_path / "file"))
    with pytest.raises(StoreError, match="lock"):
        z[0] = 1


@settings(max_examples=60)
@given(data=st.data(), order=st.sampled_from("CF"))
def test_results_have_the_order_of_the_array(data: st.DataObject, order: str) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=6))
    chunks = data.draw(st.tuples(*[st.integers(1, 7)] * len(shape)))
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    z = zarr.array(values, chunks, order=order)
    selection = data.draw(hnp.basic_indices(shape, allow_newaxis=False) | st.just(values > 3))
    for found, expected in ((z[selection], values[selection]), (np.asarray(z), values), (np.array(z), values)):
        np.testing.assert_array_equal(found, expected)
        assert np.shape(found) == np.shape(expected)
        if isinstance(found, np.ndarray):
            assert found.flags.f_contiguous if order == "F" else found.flags.c_contiguous
            assert found.flags.writeable
    assert np.asarray(z, "f8").dtype == np.dtype("f8")


@settings(max_examples=80)
@given(data=st.data())
def test_values_need_the_shape_of_the_selection(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    selection = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    given_shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=5))
    z, expected = zarr.zeros(shape, shape, "i4"), np.zeros(shape, "i4")
    wanted = expected[selection].shape
    if given_shape in ((), wanted):
        z[selection] = expected[selection] = np.ones(given_shape)
    else:
        with pytest.raises(SelectionError) as caught:
            z[selection] = np.ones(given_shape)
        assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(z[:], expected)


def test_values_without_a_shape() -> None:
    z = zarr.empty(4, 2, [("a", "i4"), ("b", "S3")])
    z[0] = (1, b"x")
    z[1:3] = [(2, b"y"), (3, b"z")]
    assert z[:3].tolist() == [(1, b"x"), (2, b"y"), (3, b"z")]
    plain = zarr.zeros((2, 2), 2)
    plain[:] = [[1, 2], [3, 4]]
    for ragged in ([[1], [2, 3]], [1, 2], [[[1]]]):
        with pytest.raises(ValueError, match=r"shape|convert"):
            plain[:] = ragged
    assert plain[:].tolist() == [[1, 2], [3, 4]]


def test_selecting_from_a_huge_array_takes_no_memory() -> None:
    z = zarr.zeros((10**9, 10**8), chunks=(1, 10), dtype="f8", order="F")
    z[10**8, -3:] = [1, 2, 3]
    assert z[10**8, -4:].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="shape"):
        z[:] = np.ones(5)
    with pytest.raises(ValueError, match=r"fit|shape|dimension"):
        z.append(np.ones(3))


def test_counting_stored_bytes_reads_no_values() -> None:
    read: list[str] = []

    class Remote(UserDict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            read.append(key)
            return super().__getitem__(key)

    z = zarr.zeros(10, 5, store=Remote())
    z[:] = 1
    read.clear()
    assert z.nbytes_stored == -1
    assert "ratio" not in repr(z)
    assert not {"0", "1"} & {*read}
    Remote.size = property(lambda self: 7)
    assert z.nbytes_stored == 7
