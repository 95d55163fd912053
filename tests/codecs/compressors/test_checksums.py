import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError

pytestmark = pytest.mark.once(executors="none")

CODECS = [
    ("crc32c", {}),
    ("numcodecs.crc32c", {}),
    ("numcodecs.crc32c", {"location": "start"}),
    ("numcodecs.crc32", {}),
    ("numcodecs.crc32", {"location": "end"}),
    ("numcodecs.adler32", {}),
    ("numcodecs.adler32", {"location": "end"}),
    ("numcodecs.fletcher32", {}),
    ("numcodecs.jenkins_lookup3", {"initval": 7}),
]


@pytest.mark.parametrize("codec", CODECS, ids=str)
@settings(deadline=None, max_examples=30)
@given(
    content=st.binary(min_size=2, max_size=300).filter(lambda content: len(content) % 2 == 0), bit=st.integers(0, 10**6)
)
def test_a_flipped_bit_is_detected(build, codec, content, bit):
    chunk = np.frombuffer(content, "u1")
    chain = build(["bytes", codec], "u1")
    data = bytes(chain.encode(chunk))
    name, options = codec
    oracle = numcodecs.get_codec({"id": name.removeprefix("numcodecs."), **options})
    assert data == bytes(oracle.encode(chunk))
    assert chain.encoded_size(chunk.shape) == len(data)
    assert bytes(chain.decode(data, chunk.shape)) == content
    damaged = bytearray(data)
    damaged[bit // 8 % len(data)] ^= 1 << bit % 8
    try:
        found = bytes(chain.decode(bytes(damaged), chunk.shape))
    except CodecError as error:
        caught = error.codec
    else:  # Fletcher's sum can't tell words of all zeros from words of all ones
        caught = name if name == "numcodecs.fletcher32" and found != content else None
    assert caught == name


def test_the_same_bytes_as_zarr_python(build):
    stored = {}
    store = zarr.storage.MemoryStore(stored)
    array = zarr.create_array(store, shape=(5,), dtype="<i4", compressors=zarr.codecs.Crc32cCodec(), chunks=(5,))
    array[...] = np.arange(5)
    assert build(["bytes", "crc32c"], "<i4").encode(np.arange(5, dtype="<i4")) == stored["c/0"].to_bytes()


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_too_short_for_a_checksum(build, codec):
    fixed, free = build(["bytes", codec], "u1"), build(["vlen-bytes", codec], bytes)
    for size in range(4):
        for chain, shape in ((fixed, (0,)), (free, (0,))):
            with pytest.raises(CodecError):
                chain.decode(bytes(size), shape)
