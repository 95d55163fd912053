import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.codecs.compressors.zstd import content_size
from tegula.errors import CodecError

SKIPPABLE = bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"xyz"


def frame(content, blocks=None, checksum=False):
    """Return a frame without content size, of uncompressed blocks."""
    parts = [bytes.fromhex("28b52ffd0058")]
    blocks = blocks or [content]
    for number, block in enumerate(blocks):
        parts += [(len(block) << 3 | (number == len(blocks) - 1)).to_bytes(3, "little"), block]
    return b"".join(parts)


def repeated(byte, count):
    """Return a frame without content size, of one block that repeats a byte."""
    return bytes.fromhex("28b52ffd0058") + (count << 3 | 2 | 1).to_bytes(3, "little") + byte


@settings(deadline=None, max_examples=60)
@given(st.binary(min_size=1, max_size=2000), st.sampled_from([-100, -1, 0, 1, 3, 22]), st.booleans())
def test_the_same_bytes_as_numcodecs(build, content, level, checksum):
    chunk = np.frombuffer(content, "u1")
    for name in ("zstd", "numcodecs.zstd"):
        chain = build(["bytes", (name, {"level": level, "checksum": checksum})], "u1")
        data = chain.encode(chunk)
        assert data == numcodecs.Zstd(level, checksum).encode(chunk)
        assert content_size(data) == len(content)
        assert bytes(chain.decode(data, chunk.shape)) == content


def test_the_same_bytes_as_zarr_python(build):
    stored = {}
    array = zarr.create_array(zarr.storage.MemoryStore(stored), shape=(500,), dtype="<f8", chunks=(500,))
    array[...] = np.arange(500.0)
    chain = build(["bytes", ("zstd", {"level": 0, "checksum": False})], "<f8")
    assert chain.encode(np.arange(500.0)) == stored["c/0"].to_bytes()


@pytest.mark.parametrize("size", [1, 255, 256, 65791, 65792, 300000])
def test_content_sizes_of_all_widths(build, size):
    data = numcodecs.Zstd().encode(bytes(size))
    assert content_size(data) == size
    assert build(["bytes", ("zstd", {"level": 0})], "u1").decode(data, (size,)).size == size


def test_frames_without_a_size(build):
    chain = build(["bytes", ("zstd", {"level": 0})], "u1")
    assert content_size(frame(b"abc")) is None
    assert bytes(chain.decode(frame(b"abc"), (3,))) == b"abc"
    assert bytes(chain.decode(frame(b"", [b"ab", b"", b"c"]), (3,))) == b"abc"
    # a compressed block may hold up to 128 KiB
    compressed = bytearray(numcodecs.Zstd().encode(b"abcd" * 9))
    assert compressed[4:6] == b"\x20\x24"
    compressed[4:6] = b"\x00\x58"  # a window instead of a size
    assert content_size(compressed) is None
    assert bytes(chain.decode(bytes(compressed), (36,))) == b"abcd" * 9
    with pytest.raises(CodecError):
        chain.decode(bytes(compressed), (35,))
    assert bytes(chain.decode(repeated(b"a", 9), (9,))) == b"a" * 9
    for data in (frame(b"abcd"), frame(b"ab"), repeated(b"a", 131072), frame(b"abc")[:-1], frame(b"abc") + b"\0"):
        with pytest.raises(CodecError):
            chain.decode(data, (3,))


def test_several_frames(build):
    chain = build(["bytes", ("zstd", {"level": 0})], "u1")
    one = numcodecs.Zstd(checksum=True).encode(b"ab")
    assert bytes(chain.decode(SKIPPABLE + one + SKIPPABLE + frame(b"c"), (3,))) == b"abc"
    assert bytes(chain.decode(one + one + numcodecs.Zstd().encode(b""), (4,))) == b"abab"
    for data in (one + one, one + b"\0", one + SKIPPABLE[:-1], SKIPPABLE, b"", b"\0" * 20, one[:-2]):
        with pytest.raises(CodecError):
            chain.decode(data, (3,))


def test_the_size_of_decoded_strings_is_limited(build):
    chain = build(["vlen-utf8", ("zstd", {"level": 0})], str)
    chunk = np.array(["a" * 5000], object)
    data = chain.encode(chunk)
    assert chain.decode(data, (1,)).tolist() == chunk.tolist()
    with config.configure(max_chunk_bytes=5000):
        for bomb in (data, frame(b"x" * 5008), repeated(b"a", 100000), b"".join([repeated(b"a", 4000)] * 2)):
            with pytest.raises(CodecError):
                chain.decode(bomb, (1,))


def test_the_checksum_is_verified(build):
    chain = build(["bytes", ("zstd", {"level": 0, "checksum": True})], "u1")
    data = chain.encode(np.zeros(9, "u1"))
    with pytest.raises(CodecError):
        chain.decode(data[:-1] + bytes([data[-1] ^ 1]), (9,))


CONTENT = np.random.default_rng(3).integers(-3, 4, 700_000).cumsum().astype("u1")
_PIECES = [CONTENT[at : at + 100_000].tobytes() for at in range(0, 700_000, 100_000)]
STORED = {
    "one frame": numcodecs.Zstd(3).encode(CONTENT),
    "with a checksum": numcodecs.Zstd(3, True).encode(CONTENT),
    "without a size": frame(b"", _PIECES),
    "two frames": numcodecs.Zstd(1).encode(CONTENT[:300_000]) + numcodecs.Zstd(-3).encode(CONTENT[300_000:]),
    "behind a skippable frame": SKIPPABLE + numcodecs.Zstd(3).encode(CONTENT),
}


def array_of(data):
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=700_000, chunks=700_000, dtype="u1", format="zarr2", codecs="zstd")
    array.store.set("0", data)
    return array


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(STORED)), st.integers(0, 699_999), st.integers(1, 200_000), st.sampled_from([1, 7, -1]))
def test_part_of_a_chunk_is_the_same_as_in_the_whole(stored, start, length, step):
    array = array_of(STORED[stored])
    part = slice(start, start + length, step) if step > 0 else slice(start, None, step)
    np.testing.assert_array_equal(array[part], CONTENT[part])
    assert array[start] == CONTENT[start]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(STORED)), st.integers(0, 699_999), st.floats(0, 1, exclude_max=True))
def test_no_part_of_a_truncated_chunk_is_read(stored, place, cut):
    raw = STORED[stored]
    with pytest.raises(CodecError):
        array_of(raw[: int(cut * len(raw))])[place]
