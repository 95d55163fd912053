"""bcolz to Zarr and back: chunks are copied where possible, and both libraries read the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bcolz
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.errors import StoreError, UnsupportedError
from tegula.stores import MemoryStore

ZARR = ["zarr1", "zarr2", "zarr3"]
DTYPES = ["?", "i1", "<u2", ">i4", "<i8", "<f4", ">f8", "S3", "<U5", "V5", "<M8[ns]", "<m8[ms]"]
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}

pytestmark = pytest.mark.filterwarnings("ignore:.*specification")  # some data types have none for Zarr v3


def values_of(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    raw = np.random.default_rng(seed).integers(0, 100, size=shape)
    kind = np.dtype(dtype)
    if kind.kind == "V":
        return (raw.astype("u1")[..., None] * np.ones(kind.itemsize, "u1")).view(kind)[..., 0]
    return raw.astype("U3" if kind.kind in "SU" else "i8").astype(kind)


def carray(values: np.ndarray[Any, Any], chunklen: int, **options: Any) -> tegula.Array:
    chunks = (chunklen, *(max(1, size) for size in values.shape[1:]))
    options = {"codecs": BLOSC, "store": MemoryStore(), **options}
    store = options.pop("store")
    array = tegula.create_array(store, shape=values.shape, chunks=chunks, dtype=values.dtype, format="bcolz", **options)
    array[...] = values
    return array


def converted(source: Any, format: str, target: Any = None, **options: Any) -> tuple[tegula.Array, Any]:
    target = MemoryStore() if target is None else target
    report = tegula.convert(source, target, format=format, verify=True, **options)
    assert report.ok
    return tegula.open_array(target, mode="r+", allow_pickle=True), report.arrays[0]


@settings(max_examples=60)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from(ZARR),
    st.integers(0, 40),
    st.integers(1, 15),
    st.lists(st.integers(0, 3), max_size=2),
    st.sampled_from(["lz4", "zlib", "zstd", "blosclz", "lz4hc"]),
    st.integers(0, 2),
)
def test_only_the_last_chunk_is_encoded_again(
    dtype: str, new: str, rows: int, chunklen: int, inner: list[int], cname: str, shuffle: int
) -> None:
    values = values_of(dtype, (rows, *inner))
    source = carray(values, chunklen, codecs={**BLOSC, "cname": cname, "shuffle": shuffle}, attributes={"n": [1, None]})
    array, line = converted(source, new)
    cells = 0 if 0 in values.shape else rows // chunklen
    assert line.chunks_copied == cells
    assert array.shape == values.shape
    np.testing.assert_array_equal(array[...], values)
    assert array.attrs.asdict() == {"n": [1, None]}
    assert new == "zarr1" or np.asarray(array.fill_value).astype(dtype) == np.asarray(source.fill_value)
    back, line = converted(array, "bcolz")
    # for text, bcolz needs another type size in Blosc's header than Zarr does
    ours = np.dtype(dtype).kind not in "SU"
    assert line.chunks_copied >= cells if ours else line.chunks_copied <= array.nchunks
    np.testing.assert_array_equal(back[...], values)
    assert back.dtype == values.dtype or new == "zarr3"
    assert back.attrs.asdict() == {"n": [1, None]}


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [">i2", ">i4", ">f8", ">U2", ">M8[ns]"])
def test_the_last_chunk_of_the_other_byte_order(dtype: str, executor: str) -> None:
    values = values_of(dtype, (11,))
    with config.configure(executor=executor):
        for new in ZARR:
            array, line = converted(carray(values, 4), new)
            assert line.chunks_copied == 2
            assert array[...].tolist() == values.tolist()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.sampled_from(["i1", "<i4", "<f8", "S3", "<U5", "?"]),
    st.sampled_from(ZARR),
    st.tuples(st.integers(1, 12), st.integers(1, 6)),
    st.tuples(st.integers(1, 12), st.integers(1, 6)),
    st.sampled_from(["C", "F"]),
    st.sets(st.integers(0, 11)),
)
def test_from_zarr_with_chunks_that_are_missing(
    dtype: str, old: str, shape: Any, chunks: Any, order: Any, rows: set[int]
) -> None:
    source = tegula.create_array(
        MemoryStore(), shape=shape, chunks=chunks, dtype=dtype, order=order, format=old,
        fill_value=values_of(dtype, ())[()], codecs=BLOSC,
    )  # fmt: skip
    for row in rows:
        if row < shape[0]:
            source[row] = values_of(dtype, shape[1:], row)
    array, line = converted(source, "bcolz")
    np.testing.assert_array_equal(array[...], source[...])
    assert array.nchunks_initialized() == array.nchunks
    assert array.chunks[1:] == shape[1:]
    notes = [note for note in line.notes if "first axis" in note]
    assert bool(notes) is (chunks[1] < shape[1])
    if chunks[1] == shape[1] and order == "C" and dtype not in ("S3", "<U5"):
        overhangs = shape[0] % chunks[0] != 0
        stored = {coords[0] for coords, _ in source.stored.stored_chunks()}
        assert line.chunks_copied == len(stored), (overhangs, stored)


@pytest.mark.parametrize("dtype", ["<i4", "<f8", "S7", "<U3", "<M8[ns]"])
def test_both_libraries_read_it(dtype: str, tmp_path: Path) -> None:
    values = values_of(dtype, (250, 3))
    theirs = bcolz.carray(values, rootdir=str(tmp_path / "theirs"), chunklen=100)
    theirs.flush()
    for new, copied in (("zarr2", 2), ("zarr3", 2)):
        _, line = converted(tmp_path / "theirs", new, tmp_path / new)
        assert line.chunks_copied == copied
        found = zarr.open_array(str(tmp_path / new), mode="r+")
        np.testing.assert_array_equal(found[...], values)
        found.resize((260, 3))
        np.testing.assert_array_equal(found[250:], np.zeros((10, 3), dtype))
        converted(tmp_path / new, "bcolz", tmp_path / f"{new}-back")
        back = bcolz.open(str(tmp_path / f"{new}-back"), mode="a")
        np.testing.assert_array_equal(back[:250], values)
        np.testing.assert_array_equal(back[105:130], values[105:130])  # reads a part of a frame
        back.append(values[:70])
        back.flush()
        np.testing.assert_array_equal(tegula.open(tmp_path / f"{new}-back")[260:], values[:70])


def test_given_codecs_are_applied() -> None:
    values = np.arange(2000).reshape(-1, 2)
    source = carray(values, 100)
    for new in ("zarr2", "bcolz"):
        same, line = converted(source, new, codecs={**BLOSC, "blocksize": 0} if new == "zarr2" else BLOSC)
        for asked in ({**BLOSC, "clevel": 9}, {**BLOSC, "cname": "zstd"}, {**BLOSC, "shuffle": 2}):
            array, line = converted(source, new, codecs=asked)
            assert line.chunks_copied == 0
            options = array.metadata.codecs[1].configuration
            assert {name: options[name] for name in ("cname", "clevel", "shuffle")} == {
                name: value for name, value in asked.items() if name != "id"
            }
        np.testing.assert_array_equal(same[...], values)
    assert converted(source, "bcolz", codecs=BLOSC)[1].chunks_copied == 10
    assert converted(source, "zarr2", codecs="auto")[1].chunks_copied in (0, 10)
    assert converted(source, "zarr3", codecs="auto")[1].chunks_copied == 0
    assert converted(source, "zarr3", chunks=(50, 2))[1].chunks_copied == 0
    assert converted(source, "zarr3", chunks=(100, 2))[1].chunks_copied == 10
    assert converted(source, "zarr3", shards=(200, 2))[1].chunks_copied == 0
    assert converted(source, "zarr3", select=slice(0, None))[1].chunks_copied == 10
    assert converted(source, "zarr3", select=slice(100, None))[1].chunks_copied == 0
    with pytest.raises(UnsupportedError):
        tegula.convert(source, MemoryStore(), format="bcolz", codecs="zstd")
    zipped = tegula.create_array(MemoryStore(), shape=9, chunks=3, dtype="i4", codecs="zstd")
    assert "usual" in converted(zipped, "bcolz")[1].notes[0]


def test_a_dry_run_promises_the_same() -> None:
    source = carray(np.arange(25), 10)
    target = MemoryStore()
    (line,) = tegula.convert(source, target, format="zarr3", dry_run=True).arrays
    assert (line.chunks, line.chunks_copied) == ((10,), 0)
    assert [*target.list()] == []


@pytest.mark.parametrize("dtype", ["<f8", ">f4"])
@pytest.mark.parametrize("new", ZARR)
def test_quantized_values_stay_so(dtype: str, new: str) -> None:
    values = np.linspace(0, 1, 25, dtype=dtype)
    quantize = {"id": "quantize", "digits": 2, "dtype": dtype}
    source = carray(values, 10, codecs=[quantize, BLOSC])
    rounded = source[...]
    assert (rounded != values).any()
    array, line = converted(source, new)
    assert array[...].astype("=f8").tolist() == rounded.tolist()
    assert line.chunks_copied == (2 if dtype == "<f8" or new != "zarr3" else 0) or new == "zarr1"
    quantizes = any(codec.name == "numcodecs.quantize" for codec in array.metadata.codecs)
    assert quantizes is (new != "zarr1")
    assert bool(line.notes) is (new == "zarr1")
    array[...] = values
    assert (array[...] == (values if new == "zarr1" else rounded)).all()
    if new != "zarr1":
        back, _ = converted(array, "bcolz")
        assert any(codec.name == "numcodecs.quantize" for codec in back.metadata.codecs)


def test_arrays_that_a_carray_can_not_hold() -> None:
    scalar = tegula.create_array(MemoryStore(), shape=(), dtype="i4", format="zarr2")
    text = tegula.create_array(MemoryStore(), shape=3, dtype=str, format="zarr2")
    for source, reason in ((scalar, "dimensions"), (text, "length")):
        target = MemoryStore()
        with pytest.raises(UnsupportedError, match=reason):
            tegula.convert(source, target, format="bcolz")
        assert [*target.list()] == []
    with pytest.raises(UnsupportedError, match="first axis"):  # the chunks were chosen by the caller
        tegula.convert(carray(np.ones((6, 6)), 2), MemoryStore(), format="bcolz", chunks=(3, 3))


def test_a_lost_chunk_is_an_error_and_leaves_nothing() -> None:
    source = carray(np.arange(25), 10)
    source.store.delete("data/__1.blp")
    target = MemoryStore()
    with pytest.raises(StoreError) as caught:
        tegula.convert(source, target, format="zarr3")
    assert caught.value.key == "data/__1.blp"
    assert [*target.list()] == []


def test_objects_in_bcolz_need_allow_pickle() -> None:
    values = np.array([None, "text", b"bytes", 5, [1, 2]] * 5, object)
    source = carray(values, 1, codecs=BLOSC, allow_pickle=True)
    array, line = converted(source, "zarr2", allow_pickle=True)
    assert array[...].tolist() == values.tolist()
    assert line.chunks_copied == 0
    assert array.nchunks < len(values)
    with pytest.raises(UnsupportedError, match="allow_pickle"):
        tegula.convert(source.store, MemoryStore(), format="zarr2")
    for new in ("zarr1", "zarr3"):
        with pytest.raises(UnsupportedError, match="object"):
            tegula.convert(source, MemoryStore(), format=new)
    back, _ = converted(array, "bcolz")
    assert back[...].tolist() == values.tolist()
    listed = tegula.create_array(MemoryStore(), shape=4, dtype=object, codecs=[{"id": "json2"}, BLOSC], format="zarr2")
    listed[...] = np.array([1, "b", None, 2.5], object)
    with pytest.raises(UnsupportedError, match="allow_pickle"):
        tegula.convert(listed, MemoryStore(), format="bcolz")
    assert converted(listed.store, "bcolz", allow_pickle=True)[0][...].tolist() == [1, "b", None, 2.5]


@pytest.mark.parametrize("dtype", [">f8", ">i4"])
@pytest.mark.parametrize(("old", "new"), [("zarr2", "zarr3"), ("zarr3", "zarr2")])
def test_filters_of_big_endian_elements(dtype: str, old: str, new: str) -> None:
    codecs: list[Any] = [{"id": "delta", "dtype": dtype if old == "zarr2" else f"<{dtype[1:]}"}]
    codecs += [{"name": "bytes", "configuration": {"endian": "big"}}, "zstd"] if old == "zarr3" else [BLOSC]
    source = tegula.create_array(MemoryStore(), shape=(6, 7), chunks=(3, 3), dtype=dtype, codecs=codecs, format=old)
    source[...] = np.arange(42).reshape(6, 7)
    array, _ = converted(source, new)
    assert array[...].tolist() == np.arange(42).reshape(6, 7).tolist()


@pytest.mark.parametrize("dtype", [">U2", ">i4", ">f8"])
def test_big_endian_elements_of_a_last_chunk_that_is_filled_up(dtype: str) -> None:
    values = np.array(["a", "b", "", "yz", "x"], dtype) if "U" in dtype else np.arange(5).astype(dtype)
    source, target = MemoryStore(), MemoryStore()
    tegula.create_array(source, shape=5, chunks=3, dtype=dtype, format="bcolz")[...] = values
    assert tegula.convert(source, target, format="zarr3", verify=True).arrays[0].verified
    np.testing.assert_array_equal(tegula.open(target)[...], values)
