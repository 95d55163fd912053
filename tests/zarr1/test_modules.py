"""The modules of zarr 1.1: their members, with the results of zarr 1.1."""

from __future__ import annotations

import importlib
import json
import lzma
import pickle
import subprocess
import sys
import threading
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tegula
from tegula import TegulaError, config
from tegula import zarr1 as zarr
from tegula.errors import CodecError, MetadataError, ReadOnlyError
from tegula.zarr1 import blosc, compressors, meta, sync, util
from tegula.zarr1.attributes import write_lock
from tegula.zarr1.attrs import Attributes

MODULES: dict[str, list[str]] = {
    "attrs": ["Attributes"],
    "blosc": ["compress", "decompress", "get_nthreads", "list_compressors", "set_nthreads", "use_threads", "version"],
    "compressors": ["BloscCompressor", "LZMACompressor", "get_compressor_cls", "registry"],
    "core": ["Array"],
    "creation": ["array", "create", "empty", "full", "full_like", "ones", "open", "open_like", "zeros"],
    "errors": ["MetadataError", "ReadOnlyError"],
    "meta": ["decode_dtype", "decode_metadata", "encode_dtype", "encode_metadata"],
    "storage": ["DirectoryStore", "init_store"],
    "sync": ["ProcessSynchronizer", "SynchronizedArray", "SynchronizedAttributes", "ThreadSynchronizer"],
    "util": ["human_readable_size", "normalize_chunks", "normalize_shape"],
    "version": ["version"],
}


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_imported_before_anything_else(name: str) -> None:
    code = (
        f"from tegula.zarr1.{name} import {', '.join(MODULES[name])}\n"
        f"import tegula.zarr1 as zarr, tegula.zarr1.{name} as module\n"
        f"assert zarr.{name} is module\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=300)
    subprocess.run(
        [sys.executable, "-c", f"import tegula.zarr1 as zarr; zarr.{name}, zarr.__version__"], check=True, timeout=300
    )
    module = importlib.import_module(f"tegula.zarr1.{name}")
    for public in {*module.__all__} - {"version"}:
        assert getattr(zarr, public, None) in (None, getattr(module, public))


# --- attributes


KINDS = [Attributes, lambda store, **options: sync.SynchronizedAttributes(store, zarr.ThreadSynchronizer(), **options)]


@pytest.mark.parametrize("make", KINDS)
def test_attributes_of_a_store(make: Any) -> None:
    store: dict[str, bytes] = {}
    attrs = make(store)
    assert store == {"attrs": b"{}"}
    attrs["b"] = 42
    attrs.update(a="x", c=[1])
    del attrs["c"]
    assert {**attrs} == attrs.asdict() == json.loads(store["attrs"]) == {"a": "x", "b": 42}
    assert store["attrs"] == b'{\n    "a": "x",\n    "b": 42\n}'
    assert pickle.loads(pickle.dumps(attrs)).asdict() == attrs.asdict()
    attrs.put({})
    assert store["attrs"] == b"{}"
    with pytest.raises(KeyError):
        del attrs["a"]
    with pytest.raises(MetadataError):
        attrs["bad"] = object()
    assert make({"mine": b'{"a": 1}'}, key="mine")["a"] == 1


@pytest.mark.parametrize("make", KINDS)
def test_read_only_attributes(make: Any) -> None:
    store = {"attrs": b'{"a": 1}'}
    attrs = make(store, readonly=True)
    assert attrs["a"] == 1
    for change in (lambda: attrs.update(b=2), lambda: attrs.put({}), lambda: attrs.pop("a")):
        with pytest.raises(ReadOnlyError):
            change()
    empty: dict[str, bytes] = {}
    assert len(make(empty, readonly=True)) == 0
    assert (store, empty) == ({"attrs": b'{"a": 1}'}, {})


def test_invalid_attributes() -> None:
    for raw in (b"[]", b"", b"{", b"\xff"):
        with pytest.raises(MetadataError):
            Attributes({"attrs": raw})["a"]


def test_threads_lose_no_attributes(tmp_path: Path) -> None:
    for store in ({}, UserDict(), zarr.DirectoryStore(tmp_path)):
        attrs = sync.SynchronizedAttributes(store, zarr.ProcessSynchronizer(tmp_path / "sync"))
        with ThreadPoolExecutor(4) as pool:
            [*pool.map(lambda n, attrs=attrs: attrs.update({f"a{n}": n}), range(20))]
        assert len(attrs) == 20


# --- synchronizers


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_locks_keep_others_out(kind: str, tmp_path: Path) -> None:
    synchronizer = zarr.ThreadSynchronizer() if kind == "thread" else zarr.ProcessSynchronizer(tmp_path)
    synchronizer = synchronizer if kind == "thread" else pickle.loads(pickle.dumps(synchronizer))
    inside, order = threading.Event(), []

    def second() -> None:
        inside.wait(10)
        with synchronizer.chunk_lock("0.0"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with synchronizer.chunk_lock("0.0"), synchronizer.chunk_lock("0.1"), synchronizer.attrs_lock:
        inside.set()
        thread.join(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert pickle.loads(pickle.dumps(zarr.ThreadSynchronizer())).chunk_lock("0").__class__ is type(threading.Lock())


# --- compressors


@given(
    name=st.sampled_from(["blosc", "zlib", "gzip", "bz2", "lzma", "none", None, "default"]),
    values=hnp.arrays(st.sampled_from(["i4", ">f4", "S3", "?"]), hnp.array_shapes(max_dims=3), fill=st.nothing()),
    transposed=st.booleans(),
)
def test_compressors(name: str | None, values: np.ndarray[Any, Any], transposed: bool) -> None:
    cls = compressors.get_compressor_cls(name)
    compressor = cls(cls.normalize_opts(None))
    if transposed:
        values = values.T
    stored = compressor.compress(values)
    out = np.empty_like(values)
    compressor.decompress(stored, out)
    assert out.tobytes() == values.tobytes()
    store: dict[str, bytes] = {}
    order = "F" if transposed else "C"
    zarr.array(values, values.shape, compression=name, store=store, order=order)
    if name in ("zlib", "none", "bz2"):
        assert store[".".join("0" * values.ndim)] == stored


def test_options_of_compressors() -> None:
    found = compressors.get_compressor_cls("lzma")
    assert found.normalize_opts({"filters": [{"id": lzma.FILTER_LZMA2, "preset": 9}]})["preset"] is None
    for name, options in (
        *(("blosc", {"clevel": 10}), ("blosc", {"shuffle": 3}), ("zlib", 10), ("bz2", 0), ("lzma", {"preset": 10})),
        ("none", 9),
    ):
        with pytest.raises(ValueError, match=r"must be|no options"):
            compressors.get_compressor_cls(name).normalize_opts(options)
    with pytest.raises(ValueError, match="compressor"):
        compressors.get_compressor_cls("nonesuch")
    zlib = compressors.ZlibCompressor(1)
    with pytest.raises(TegulaError):
        zlib.decompress(b"garbage", np.empty(3))


# --- blosc


def test_blosc_compresses_bytes() -> None:
    values = np.arange(1000, dtype="i4")
    out = np.empty_like(values)
    for cname in blosc.list_compressors():
        assert blosc.compname_to_compcode(cname) >= 0
        frame = blosc.compress(values, cname.encode(), 5, 1)
        blosc.decompress(frame, out)
        np.testing.assert_array_equal(out, values)
    with pytest.raises(MetadataError):
        blosc.compress(values, "nonesuch", 5, 1)
    with pytest.raises(MetadataError):
        blosc.compress(object(), "lz4", 5, 1)
    with pytest.raises(CodecError):
        blosc.decompress(b"", out)
    with pytest.raises(CodecError):
        blosc.decompress(frame, np.empty(3, "i4"))


def test_threads_of_blosc() -> None:
    before = blosc.get_nthreads()
    try:
        assert blosc.set_nthreads(3) == before
        assert blosc.get_nthreads() == config.current().threads == 3
        with pytest.raises(ValueError, match="threads"):
            blosc.set_nthreads(0)
    finally:
        blosc.set_nthreads(before)
    blosc.init()
    blosc.destroy()
    assert len(blosc.version()) == 2


# --- documents


@pytest.mark.parametrize("dtype", ["<f8", ">i2", "S3", [("a", "i4"), ("b", [("c", "S3"), ("d", "f4", (2, 2))])]])
def test_documents_round_trip(dtype: Any) -> None:
    store: dict[str, bytes] = {}
    fill = None if isinstance(dtype, list) else 0
    zarr.create((100, 20), 10, dtype, "blosc", {"clevel": 3}, fill, "F", store)
    found = meta.decode_metadata(store["meta"])
    assert found["dtype"] == np.dtype(dtype)
    assert (found["zarr_format"], found["shape"], found["chunks"], found["order"]) == (1, (100, 20), (10, 20), "F")
    assert meta.encode_metadata(found) == store["meta"]
    assert meta.decode_dtype(json.loads(json.dumps(meta.encode_dtype(found["dtype"])))) == np.dtype(dtype)


def test_invalid_documents() -> None:
    good = json.loads(zarr.zeros(10, 5).store["meta"])
    bad = [b"", b"[]", b"{}", "{}", *(json.dumps({k: v for k, v in good.items() if k != name}) for name in good)]
    bad += [json.dumps({**good, "zarr_format": 2}), json.dumps({**good, "dtype": "|O"})]
    for document in bad:
        with pytest.raises(MetadataError):
            meta.decode_metadata(document)
    with pytest.raises(MetadataError, match="order"):
        meta.encode_metadata({name: good[name] for name in good if name != "order"})
    with pytest.raises(MetadataError):
        meta.decode_dtype([["a"]])


# --- shapes and selections


@given(data=st.data(), shape=hnp.array_shapes(max_dims=3, max_side=9))
def test_normalized_selections_select_the_same(data: st.DataObject, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    axes = [st.integers(-n, n - 1) | st.builds(slice, st.integers(-n, n - 1), st.none()) for n in shape]
    selection = data.draw(st.tuples(*axes[: data.draw(st.integers(0, len(shape)))]) | st.just(...))
    found = util.normalize_array_selection(selection, shape)
    np.testing.assert_array_equal(values[found], values[selection])
    assert len(found) == len(shape)
    chunks = data.draw(st.tuples(*[st.integers(1, 9)] * len(shape)))
    visited = np.zeros([-(-n // c) for n, c in zip(shape, chunks)], bool)
    visited[np.ix_(*util.get_chunk_range(found, chunks))] = True
    needed = np.zeros_like(visited)
    for index in np.argwhere(np.isin(values, values[selection])):
        needed[tuple(index // chunks)] = True
    np.testing.assert_array_equal(visited, needed)
    total = util.is_total_slice(selection, shape)
    assert not total or values[selection].size == values.size


def test_shapes_and_chunks() -> None:
    assert util.normalize_chunks((10, None), (100, 20)) == (10, 20)
    assert util.normalize_resize_args((3, 4), (None, 5)) == (3, 5)
    assert [util.human_readable_size(2**n) for n in (0, 10, 25, 40, 51)] == ["1", "1.0K", "32.0M", "1.0T", "2.0P"]
    for wrong, kind in (
        (lambda: util.normalize_shape(None), TypeError),
        (lambda: util.normalize_shape("foo"), ValueError),
        (lambda: util.normalize_chunks(None, (100,)), TypeError),
        (lambda: util.normalize_chunks("foo", (100,)), ValueError),
        (lambda: util.normalize_chunks((1, 2), (100,)), ValueError),
        (lambda: util.normalize_resize_args((1, 2), 3), ValueError),
        (lambda: util.normalize_order("K"), ValueError),
        (lambda: util.is_total_slice("foo", (1,)), TypeError),
        (lambda: util.normalize_axis_selection("foo", 1), TypeError),
        (lambda: util.normalize_axis_selection(10, 10), IndexError),
        (lambda: util.normalize_axis_selection(slice(10, 20), 10), IndexError),
        (lambda: util.normalize_axis_selection(slice(0, 9, 2), 10), NotImplementedError),
    ):
        with pytest.raises(TegulaError) as caught:
            wrong()
        assert isinstance(caught.value, kind)


def test_a_process_synchronizer_locks_stores_with_a_single_writer(tmp_path):
    synchronizer = zarr.ProcessSynchronizer(tmp_path / "sync")
    for store, locks in [
        (tegula.store_of({}), True),
        (tegula.store_of("memory://synchronized.zarr"), True),
        (tegula.LocalStore(tmp_path), False),
    ]:
        assert (type(write_lock(synchronizer, store)) is not nullcontext) is locks, store
