import warnings
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import CodecError, MetadataError
from tegula.stores import MemoryStore

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def objects(items, shape=None):
    return np.fromiter(items, object, len(items)).reshape(shape or len(items))


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXT, max_size=20))
def test_strings(build, items):
    for name in ("vlen-utf8", "numcodecs.vlen-utf8"):
        chain = build([name], str)
        data = chain.encode(objects(items))
        if items:
            assert data == numcodecs.VLenUTF8().encode(objects(items))
        assert chain.decode(data, (len(items),)).tolist() == items


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=20))
def test_byte_strings(build, items):
    for name in ("vlen-bytes", "numcodecs.vlen-bytes"):
        chain = build([name], bytes)
        data = chain.encode(objects(items))
        assert data == numcodecs.VLenBytes().encode(objects(items))
        assert chain.decode(data, (len(items),)).tolist() == items


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=5), min_size=1, max_size=8), st.sampled_from(["<i4", ">f8", "i1"])
)
def test_arrays(build, items, dtype):
    chunk = objects([np.array(item, dtype) for item in items])
    chain = build([("numcodecs.vlen-array", {"dtype": dtype})], object)
    data = chain.encode(chunk)
    assert data == numcodecs.VLenArray(dtype).encode(chunk)
    found = chain.decode(data, chunk.shape)
    assert [part.tolist() for part in found] == items
    assert {part.dtype for part in found} == {np.dtype(dtype)}


@pytest.mark.parametrize("order", ["C", "F"])
def test_two_dimensions(build, order):
    chunk = np.asarray(objects(["a", "bb", "", "dddd", "ü", "☃"], (2, 3)), order=order)
    chain = build(["vlen-utf8"], str, 2)
    assert chain.encode(chunk) == numcodecs.VLenUTF8().encode(np.ascontiguousarray(chunk))
    assert chain.decode(chain.encode(chunk), (2, 3)).tolist() == chunk.tolist()


def test_none_is_stored_as_an_empty_element(build):
    assert build(["vlen-utf8"], str).encode(objects([None, 0, "a"])) == build(["vlen-utf8"], str).encode(
        objects(["", "", "a"])
    )
    assert build(["vlen-bytes"], bytes).encode(objects([None, 0])) == build(["vlen-bytes"], bytes).encode(
        objects([b"", b""])
    )
    array = ("numcodecs.vlen-array", {"dtype": "<i4"})
    assert build([array], object).decode(build([array], object).encode(objects([None, 0])), (2,))[1].tolist() == []


@pytest.mark.parametrize(
    ("codec", "dtype", "item"),
    [
        ("vlen-utf8", str, b"a"),
        ("vlen-utf8", str, 1),
        ("vlen-utf8", str, "\ud800"),
        ("vlen-bytes", bytes, "a"),
        (("numcodecs.vlen-array", {"dtype": "<i4"}), object, [[1]]),
        (("numcodecs.vlen-array", {"dtype": "<i4"}), object, "x"),
    ],
)
def test_invalid_elements(build, codec, dtype, item):
    with pytest.raises(CodecError):
        build([codec], dtype).encode(objects([item]))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "010000",
        "01000000",
        "00000000",
        "02000000 01000000 61 00000000",
        "01000000 02000000 61",
        "01000000 00000000 61",
        "01000000 ffffffff 61",
        "01000000 00000080 61",
        "ffffffff 01000000 61",
        "01000000 01000000 ff",
        "01000000 02000000 c080",
        "01000000 03000000 eda080",
    ],
)
def test_damaged_strings(build, data):
    with pytest.raises(CodecError):
        build(["vlen-utf8"], str).decode(bytes.fromhex(data), (1,))


def test_the_same_bytes_as_zarr_python(build):
    stored = {}
    array = zarr.create_array(zarr.storage.MemoryStore(stored), shape=(3,), dtype=str, compressors=None, chunks=(3,))
    array[...] = np.array(["a", "", "ü☃"])
    raw = stored["c/0"].to_bytes()
    chain = build(["vlen-utf8"], str)
    assert chain.encode(objects(["a", "", "ü☃"])) == raw
    assert chain.decode(raw, (3,)).tolist() == ["a", "", "ü☃"]


@pytest.mark.parametrize(
    ("codec", "dtype", "values"),
    [
        ("utf8", "<U3", ["a", "", "ü☃x"]),
        ("utf8", ">U3", ["a", "", "ü☃x"]),
        ("bytes", "S3", [b"a", b"", b"a\0b"]),
        ("bytes", "V3", [b"a\0\0", b"\0\0\0", b"a\0b"]),
    ],
)
def test_elements_of_fixed_length_as_zarr_python_stores_them(build, codec, dtype, values):
    """Both write the same bytes, and each reads what the other has written."""
    stored: dict[str, Any] = {}
    expected = np.array(values, dtype)
    serializer = {"utf8": zarr.codecs.VLenUTF8Codec, "bytes": zarr.codecs.VLenBytesCodec}[codec]()
    with warnings.catch_warnings(action="ignore"):
        options = {"shape": (6,), "chunks": (3,), "dtype": dtype, "compressors": None, "serializer": serializer}
        store = zarr.storage.MemoryStore(stored)
        array = zarr.create_array(store, **options)
        array[:3] = expected
        chain = build([f"vlen-{codec}"], dtype, fill=None)
        assert chain.encode(expected) == stored["c/0"].to_bytes()
        store = {key: value.to_bytes() for key, value in stored.items()}
        opened = tegula.open(store, mode="r+")
        assert opened[:3].tolist() == expected.tolist()
        assert opened[3:].tolist() == np.zeros(3, dtype).tolist()
        opened[4:] = expected[1:]
        stored = {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in store.items()}
        assert zarr.open_array(zarr.storage.MemoryStore(stored))[3:].tolist() == opened[3:].tolist()
    for format in ("zarr2", "zarr3", "bcolz"):
        copy = MemoryStore()
        tegula.convert(store, copy, format=format, verify=True)
        assert tegula.open(copy)[...].tolist() == opened[...].tolist()


def test_an_element_that_is_too_long(build):
    data = build(["vlen-utf8"], "<U4").encode(np.array(["abcd"]))
    with pytest.raises(CodecError, match="an element has length 4, the data type 3"):
        build(["vlen-utf8"], "<U3").decode(data, (1,))


@pytest.mark.parametrize(
    ("codec", "dtype"),
    [
        ("vlen-utf8", "S3"),
        ("vlen-bytes", "<U3"),
        ("vlen-bytes", [("a", "S1")]),
        ("vlen-utf8", "i4"),
        ("numcodecs.vlen-array", object),
        (("numcodecs.vlen-array", {"dtype": "|O"}), object),
        (("numcodecs.vlen-array", {"dtype": "nonsense"}), object),
        (("numcodecs.vlen-array", {"dtype": "S0"}), object),
        (("vlen-utf8", {"encoding": "latin-1"}), str),
    ],
)
def test_invalid_configurations(build, codec, dtype):
    with pytest.raises(MetadataError):
        build([codec], dtype)
