import numpy as np
import pytest
import zarr

from tegula.errors import CodecError, MetadataError


@pytest.mark.parametrize(
    ("dtype", "endian", "stored"),
    [
        ("<u2", "little", "0100"),
        ("<u2", "big", "0001"),
        (">u2", "little", "0100"),
        (">u2", None, "0001"),
        ("u1", None, "01"),
        ("bfloat16", "little", "803f"),
        ("bfloat16", "big", "3f80"),
        ("int4", "big", "01"),
        ("<c8", "big", "3f80000000000000"),
        ("<U1", "big", "00000031"),
        ("S2", "big", "3100"),
        ("<M8[s]", "big", "0000000000000001"),
        ("<M8", "big", "0000000000000001"),
        ("<m8", "big", "0000000000000001"),
        (">m8[s]", "little", "0100000000000000"),
        (">M8[s]", "big", "0000000000000001"),
        (">M8[s]", None, "0000000000000001"),
        ([("a", "<u2"), ("b", [("c", ">u4")]), ("d", "<u2", (2,))], "big", "000100000001" + "00010001"),
        ([("a", "<u2"), ("b", [("c", ">u4")]), ("d", "<u2", (2,))], "little", "010001000000" + "01000100"),
        ([("a", "<u2"), ("b", [("c", ">u4")]), ("d", "<u2", (2,))], None, "010000000001" + "01000100"),
    ],
)
def test_byte_order(build, dtype, endian, stored):
    chain = build([("bytes", {} if endian is None else {"endian": endian})], dtype, 0)
    chunk = chain.decode(bytes.fromhex(stored), ())
    assert bytes(chain.encode(chunk)).hex() == stored
    if not isinstance(dtype, list):
        assert chunk == np.ones((), "i8").astype(chunk.dtype)
    else:
        assert (chunk["a"], chunk["b"]["c"], chunk["d"].tolist()) == (1, 1, [1, 1])


def test_variable_length_strings_are_rejected(build):
    with pytest.raises(MetadataError):
        build(["bytes"], str)


@pytest.mark.parametrize("dtype", ["bool", "i1", "<u2", "<f2", "<f4", "<c16", "<M8[ns]"])
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_zarr_python_reads_and_writes_the_same(build, dtype, endian):
    values = np.arange(6).astype("i8").astype(dtype).reshape(2, 3)
    stored = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(stored),
        shape=(2, 3),
        dtype=dtype,
        serializer=zarr.codecs.BytesCodec(endian=endian),
        compressors=None,
        fill_value=None,
    )
    array[...] = values
    assert bytes(build([("bytes", {"endian": endian})], dtype, 2).encode(values)) == stored["c/0/0"].to_bytes()


def test_an_empty_chunk(build):
    chain = build(["bytes"], "<i4", 2)
    assert bytes(chain.encode(np.zeros((0, 3), "<i4"))) == b""
    assert chain.decode(b"", (0, 3)).shape == (0, 3)


TEXTS = ["<U1", ">U2", [("a", "u1"), ("b", "<U2")], [("a", [("b", ">U1"), ("c", "u1")], (2,))], [("a", "<U1", (2, 2))]]


@pytest.mark.parametrize("dtype", TEXTS, ids=str)
@pytest.mark.parametrize("endian", ["little", "big", None])
@pytest.mark.parametrize("code", [0, 0xD800, 0x10FFFF, 0x110000, 0xFFFFFFFF])
def test_invalid_code_points(build, dtype, endian, code):
    chain = build([("bytes", {} if endian is None else {"endian": endian})], dtype, 1, None)
    text = chunk = np.zeros(3, dtype)
    while text.dtype.names:
        text = text["b" if "b" in text.dtype.names else "a"]
    text[...] = "\U00010203"
    stored = bytes(chain.encode(chunk))
    order = "little" if b"\3\2\1\0" in stored else "big"
    damaged = code.to_bytes(4, order).join(stored.rsplit((0x10203).to_bytes(4, order), 1))
    assert damaged != stored
    if code <= 0x10FFFF:
        repr(chain.decode(damaged, (3,)).tolist())
    else:
        with pytest.raises(CodecError, match="code point") as caught:
            chain.decode(damaged, (3,))
        assert caught.value.codec == "bytes"


def test_strings_of_length_zero(build):
    assert build(["bytes"], [("a", "<U0"), ("b", "u1")], 1, None).decode(b"123", (3,))["a"].tolist() == ["", "", ""]
    assert build(["bytes"], "<U2", 1, None).decode(b"", (0,)).shape == (0,)
