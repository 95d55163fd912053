import threading

import ml_dtypes
import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.abc import Codec
from numcodecs.registry import codec_registry, register_codec
from tests.waiting import run_threads

from tegula import config
from tegula.errors import CodecError, MetadataError, UnsupportedError

pytestmark = pytest.mark.once(executors="none")

LITTLE = ("bytes", {"endian": "little"})
COMPRESSORS = [
    ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}),
    ("blosc", {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "typesize": 3}),
    ("gzip", {"level": 1}),
    ("zstd", {"level": 1, "checksum": True}),
    ("crc32c", {}),
    ("numcodecs.blosc", {"cname": "zlib", "shuffle": -1}),
    ("numcodecs.gzip", {"level": 2}),
    ("numcodecs.zlib", {"level": 1}),
    ("numcodecs.bz2", {"level": 1}),
    ("numcodecs.lzma", {"preset": 0}),
    ("numcodecs.lz4", {"acceleration": 1}),
    ("numcodecs.zstd", {"level": 1}),
    ("numcodecs.crc32", {}),
    ("numcodecs.crc32c", {"location": "start"}),
    ("numcodecs.adler32", {}),
    ("numcodecs.fletcher32", {}),
    ("numcodecs.jenkins_lookup3", {}),
    ("numcodecs.base64", {}),
    ("numcodecs.shuffle", {"elementsize": 1}),
]
DTYPES = [
    "?",
    "u1",
    "<i2",
    ">i4",
    "<u8",
    "<f2",
    ">f8",
    "<c16",
    "S3",
    "<U2",
    ">U2",
    "V5",
    "<M8[s]",
    ">m8[ms]",
    "bfloat16",
    "int4",
]
DTYPES += ["float8_e5m2", [("a", "<i4"), ("b", ">f8"), ("c", "S3")], [("t", "<M8[s]"), ("x", "<i2", (2,))]]


def noise(dtype, shape, seed):
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype="u1")
    if dtype.kind == "b":
        raw &= 1
    if dtype.kind == "U":  # no code point has all bits
        raw = (raw.view("u4") % 128).astype(np.dtype("u4").newbyteorder(dtype.byteorder))
    return raw.view(dtype).reshape(shape) if raw.size else np.zeros(shape, dtype)


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=4)))
    codecs = [(("bytes", {"endian": draw(st.sampled_from(["little", "big"]))}))]
    codecs += draw(st.lists(st.sampled_from(COMPRESSORS), max_size=3))
    if draw(st.booleans()):
        codecs.insert(0, ("transpose", {"order": draw(st.permutations(range(len(shape))))}))
    return draw(st.sampled_from(DTYPES)), shape, codecs, draw(st.integers(0, 2**32))


@settings(deadline=None, max_examples=300)
@given(cases())
def test_decoding_reverses_encoding(build, case):
    dtype, shape, codecs, seed = case
    chain = build(codecs, dtype, len(shape), None, shape)
    chunk = noise(
        np.dtype(dtype) if not isinstance(dtype, str) or dtype[0] not in "bfi" else _dtype(dtype), shape, seed
    )
    before = chunk.tobytes()
    data = chain.encode(chunk)
    assert len(data) == memoryview(data).nbytes
    found = chain.decode(bytes(data), shape)
    assert (found.shape, found.dtype) == (chunk.shape, chunk.dtype)
    assert found.tobytes() == before == chunk.tobytes()
    assert chain.encoded_size(shape) in (None, len(data))
    # memory layout does not matter
    turned = np.asfortranarray(chunk)[..., ::-1][..., ::-1] if chunk.ndim else chunk
    assert bytes(chain.encode(turned)) == bytes(data)
    # neither does the kind of buffer
    assert chain.decode(memoryview(bytearray(data)), shape).tobytes() == before
    assert chain.decode(np.frombuffer(data, "u1"), shape).tobytes() == before


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name))


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(-9, 9).filter(bool))
def test_data_of_another_length_are_rejected(build, case, change):
    dtype, shape, codecs, _ = case
    chain = build(codecs[:2] if codecs[0][0] == "transpose" else codecs[:1], dtype, len(shape), None)
    size = chain.encoded_size(shape)
    with pytest.raises(CodecError):
        chain.decode(bytes(max(0, size + change)) if size + change >= 0 else b"" if size else b"x", shape)


@pytest.mark.parametrize(
    "codecs",
    [
        [],
        ["crc32c"],
        [LITTLE, LITTLE],
        ["crc32c", LITTLE],
        [LITTLE, ("transpose", {"order": [0]})],
        [LITTLE, "vlen-utf8"],
        [("transpose", {"order": [0]})],
        [("gzip", {"level": 1}), LITTLE],
        ["numcodecs.delta"],
        [LITTLE, ("gzip", {"level": 10})],
        [LITTLE, ("gzip", {"level": True})],
        [LITTLE, ("gzip", {"level": 1, "speed": 2})],
        [LITTLE, ("zstd", {"level": 23})],
        [LITTLE, ("zstd", {"level": 1, "checksum": "yes"})],
        [LITTLE, ("blosc", {"cname": "lz5", "clevel": 5, "shuffle": "shuffle", "typesize": 4})],
        [LITTLE, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": [], "typesize": 4})],
        [LITTLE, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 0})],
        [LITTLE, ("crc32c", {"location": "start"})],
        [LITTLE, ("numcodecs.crc32", {"location": "middle"})],
        [("bytes", {"endian": "middle"})],
        ["vlen-utf8"],
        [("numcodecs.delta", {"dtype": "i8"}), LITTLE],
        [("numcodecs.quantize", {"digits": 2}), LITTLE],
        [LITTLE, ("numcodecs.bz2", {"level": 0})],
        [LITTLE, ("numcodecs.shuffle", {"elementsize": "4"})],
        [LITTLE, ("numcodecs.jenkins_lookup3", {"nonsense": 1})],
    ],
    ids=str,
)
def test_invalid_chains(build, codecs):
    with pytest.raises(MetadataError) as caught:
        build(codecs, "<i4")
    assert caught.value.field.startswith("codecs")


def test_unknown_codecs(build):
    with pytest.raises(UnsupportedError, match="quux") as caught:
        build([LITTLE, "quux"], "<i4")
    assert caught.value.codec == "quux"
    with pytest.raises(UnsupportedError, match="quux") as caught:
        build([LITTLE, "numcodecs.quux"], "<i4")
    assert caught.value.codec == "numcodecs.quux"


def test_a_codec_that_need_not_be_understood(build):
    data = build([LITTLE, ("quux", {}, False), ("numcodecs.quux", {}, False)], "<i4").encode(np.arange(2, dtype="<i4"))
    assert bytes(data) == np.arange(2, dtype="<i4").tobytes()
    with pytest.raises(MetadataError):
        build([LITTLE, ("gzip", {"level": 99}, False)], "<i4")


@pytest.mark.parametrize(
    "codecs",
    [
        ["numcodecs.pickle"],
        ["numcodecs.vlen-utf8", "numcodecs.pickle"],
        ["numcodecs.vlen-utf8", ("numcodecs.other", {"inner": [{"id": "pickle"}]})],
        [("sharding_indexed", {"chunk_shape": [1], "codecs": [{"name": "numcodecs.pickle"}]})],
    ],
)
def test_unpickling_must_be_allowed(build, codecs):
    with pytest.raises(UnsupportedError, match="allow_pickle=True"):
        build(codecs, object)


def test_pickle_under_another_name(build):
    class Harmless(numcodecs.Pickle):
        codec_id = "tegula_harmless"

    register_codec(Harmless)
    try:
        with pytest.raises(UnsupportedError, match="allow_pickle=True"):
            build(["numcodecs.vlen-utf8", "numcodecs.tegula_harmless"], str)
    finally:
        del codec_registry["tegula_harmless"]


def test_a_third_party_codec(build):
    class Inverse(Codec):
        codec_id = "tegula_inverse"

        def encode(self, buf):
            return np.frombuffer(buf, "u1") ^ 255

        def decode(self, buf, out=None):
            return np.frombuffer(buf, "u1") ^ 255

    register_codec(Inverse)
    try:
        chain = build([LITTLE, "numcodecs.tegula_inverse", ("gzip", {"level": 1})], "<i4")
        chunk = np.arange(3, dtype="<i4")
        assert chain.decode(chain.encode(chunk), (3,)).tolist() == [0, 1, 2]
        with pytest.raises(CodecError, match="where the chunk takes"):
            chain.decode(chain.encode(chunk), (4,))
    finally:
        del codec_registry["tegula_inverse"]


def test_errors_name_the_codec_and_keep_their_cause(build):
    chain = build([LITTLE, ("numcodecs.lzma", {}), "crc32c"], "<i4")
    damaged = build([LITTLE, "crc32c"], "u1").encode(np.zeros(30, "u1"))
    with pytest.raises(CodecError) as caught:
        chain.decode(damaged, (3,))
    assert caught.value.codec == "numcodecs.lzma"
    assert type(caught.value.__cause__).__name__ == "LZMAError"
    with pytest.raises(CodecError) as caught:
        chain.decode(b"12345678", (3,))
    assert caught.value.codec == "crc32c"
    with pytest.raises(CodecError) as caught:
        build([("numcodecs.bitround", {"keepbits": 99}), LITTLE], "<f4").encode(np.zeros(1, "<f4"))
    assert caught.value.codec == "numcodecs.bitround"


def test_chunks_that_are_too_large(build):
    chain = build([LITTLE], "<i4")
    with config.configure(max_chunk_bytes=100), pytest.raises(UnsupportedError, match="max_chunk_bytes"):
        chain.decode(b"", (26,))
    assert chain.encoded_size((26,)) == 104


def test_one_chain_in_several_threads(build):
    chains = [build([LITTLE, codec], "<i4", 2) for codec in COMPRESSORS]
    chunks = [np.random.default_rng(n).integers(0, 99, (20, n + 1)).astype("<i4") for n in range(8)]
    failures = []

    def work(number):
        for chain in chains * 5:
            for chunk in (chunks[number], chunks[-1]):
                found = chain.decode(bytes(chain.encode(chunk)), chunk.shape)
                failures.extend([number] if found.tobytes() != chunk.tobytes() else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    run_threads(threads)
    assert not failures


def test_many_shapes(build):
    chain = build([LITTLE], "u1")
    for length in range(1, 600):
        assert chain.decode(bytes(length), (length,)).shape == (length,)
