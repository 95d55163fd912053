import struct

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula import config
from tegula.codecs.compressors.blosc import check_frame
from tegula.errors import CodecError, UnsupportedError

pytestmark = pytest.mark.once(executors="none")

CNAMES = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
# eight int32 0..7 as c-blosc 1.10 wrote them: one block, compressed with zstd 0.7 (first bytes only)
ZSTD_07 = bytes.fromhex("02018104 00020000 00020000 30000000 14000000 18000000 27b52ffd".replace(" ", "")) + bytes(20)
SNAPPY = bytes([*ZSTD_07[:2], 2 << 5, *ZSTD_07[3:]])


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(CNAMES),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([0, 512, 4096]),
    st.sampled_from(["u1", "<i2", "<f8", "S10", "S300", [("a", "<i4"), ("b", "<f8")]]),
    st.integers(1, 3000),
)
def test_the_same_bytes_as_numcodecs(build, cname, clevel, shuffle, blocksize, dtype, count):
    options = {"cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": blocksize}
    dtype = np.dtype(dtype)
    chunk = np.resize(np.arange(300, dtype="u2").view("u1"), count * dtype.itemsize).view(dtype)
    data = build(["bytes", ("numcodecs.blosc", options)], dtype).encode(chunk)
    assert data == numcodecs.Blosc(**options).encode(chunk)
    name = ["noshuffle", "shuffle", "bitshuffle"][shuffle]
    core = {**options, "shuffle": name, "typesize": dtype.itemsize}
    chain = build(["bytes", ("blosc", core)], dtype)
    assert chain.encode(chunk) == data
    assert chain.decode(data, (count,)).tobytes() == chunk.tobytes()


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
def test_the_same_bytes_as_zarr_python(build, shuffle):
    stored = {}
    codec = zarr.codecs.BloscCodec(typesize=8, cname="zstd", clevel=3, shuffle=shuffle)
    chunk = np.arange(500.0)
    array = zarr.create_array(
        zarr.storage.MemoryStore(stored), shape=(500,), dtype="f8", compressors=codec, chunks=(500,)
    )
    array[...] = chunk
    spec = codec.to_dict()
    chain = build(["bytes", (spec["name"], spec["configuration"])], "f8")
    assert chain.encode(chunk) == stored["c/0"].to_bytes()
    assert np.array_equal(chain.decode(stored["c/0"].to_bytes(), (500,)), chunk)


def test_automatic_shuffle_goes_by_the_element_size(build):
    for dtype, flag in (("u1", 4), ("<i4", 1)):
        data = build(["bytes", ("numcodecs.blosc", {"shuffle": -1})], dtype).encode(np.zeros(1000, dtype))
        assert data[2] & 5 == flag


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, b"\x01"),  # version
        (0, b"\x03"),
        (3, b"\x00"),  # typesize
        (2, b"\x09"),  # a flag of Blosc 2
        (2, b"\x02"),  # stored as it is, but of the wrong length
        (4, (4001).to_bytes(4, "little")),  # nbytes
        (4, b"\xff\xff\xff\x7f"),
        (8, bytes(4)),  # blocksize
        (8, b"\x01\0\0\0"),
        (8, (4001).to_bytes(4, "little")),
        (12, bytes(4)),  # cbytes
        (12, b"\xff\xff\xff\x7f"),
        (16, bytes(4)),  # start of the first block
        (16, b"\xff\xff\xff\x7f"),
        (16, b"\xff\xff\xff\xff"),
    ],
)
def test_invalid_headers(build, offset, value):
    chain = build(["bytes", ("numcodecs.blosc", {"blocksize": 0})], "<i4")
    data = bytearray(chain.encode(np.arange(1000, dtype="<i4")))
    data[offset : offset + len(value)] = value
    with pytest.raises(CodecError) as caught:
        chain.decode(bytes(data), (1000,))
    assert caught.value.codec == "numcodecs.blosc"


def test_many_blocks(build):
    chain = build(["bytes", ("numcodecs.blosc", {"clevel": 1})], "<i4")
    data = bytearray(chain.encode(np.arange(2**20, dtype="<i4")))
    assert chain.decode(bytes(data), (2**20,))[-1] == 2**20 - 1
    blocks = -(-(2**22) // int.from_bytes(data[8:12], "little"))
    assert blocks > 16
    data[16 + 4 * blocks - 4 : 16 + 4 * blocks] = (len(data) - 3).to_bytes(4, "little")
    with pytest.raises(CodecError, match="outside"):
        chain.decode(bytes(data), (2**20,))


def test_a_stored_frame_needs_no_library():
    frame = numcodecs.Blosc(clevel=0).encode(b"abcdefgh")
    assert check_frame(frame, 8, 8)
    assert not check_frame(numcodecs.Blosc().encode(bytes(1000)), 1000, 1000)


@pytest.mark.parametrize("clevel", [0, 5])
def test_only_zeros_may_follow_a_frame(build, clevel):
    chain = build(["bytes", ("numcodecs.blosc", {"clevel": clevel})], "<i4")
    chunk = np.arange(1000, dtype="<i4")
    data = chain.encode(chunk)
    for zeros in (1, 16, 10_000):
        assert np.array_equal(chain.decode(data + bytes(zeros), (1000,)), chunk)
        assert chain.excess(data + bytes(zeros), (1000,)) == zeros
    with pytest.raises(CodecError, match="the frame has"):
        chain.decode(data + bytes(15) + b"x", (1000,))


@pytest.mark.parametrize("frame", [ZSTD_07, SNAPPY])
def test_frames_that_need_the_kernel(build, frame):
    with pytest.raises(UnsupportedError, match=r"kernel reads it; .* pip install"):
        build(["bytes", "numcodecs.blosc"], "<i4").decode(frame, (128,))


def test_the_size_of_decoded_strings_is_limited(build):
    chain = build(["vlen-utf8", "numcodecs.blosc"], str)
    chunk = np.array(["x" * 1000] * 3, object)
    data = chain.encode(chunk)
    assert chain.decode(data, (3,)).tolist() == chunk.tolist()
    with config.configure(max_chunk_bytes=1000), pytest.raises(CodecError):
        chain.decode(data, (3,))


def test_match_lengths_that_overflow_in_the_library():
    """c-blosc adds up the length of a match in 32 bits from bytes of 255, and does not check for overflow."""
    stream = b"\x00" + b"A" + b"\xff" * (9 << 20)
    head = struct.pack("<BBBBIII", 2, 1, 0x10, 1, 1000, 1000, 24 + len(stream))
    frame = head + struct.pack("<ii", 20, len(stream)) + stream
    with pytest.raises(CodecError, match="larger than its block"):
        check_frame(frame, 1000, 1000)


def test_a_document_without_a_shuffle_need_not_state_the_typesize(build):
    options = {"cname": "lz4", "clevel": 5, "blocksize": 0}
    for shuffle, typesize in (("noshuffle", 1), ("shuffle", 8)):
        chain = build([("bytes", {"endian": "little"}), ("blosc", {**options, "shuffle": shuffle})], "<f8")
        assert bytes(chain.encode(np.zeros(100)))[3] == typesize
