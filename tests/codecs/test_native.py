"""Descriptions of codec chains for the compiled kernel."""

from dataclasses import asdict, fields

import numcodecs
import numcodecs.abc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.codecs.native import NativeChain, NativeElements, NativeShards, NativeStrings

pytestmark = pytest.mark.once(executors="none")

LITTLE = ("bytes", {"endian": "little"})
BIG = ("bytes", {"endian": "big"})
U1 = ("bytes", 1, 0, False)
KINDS = {NativeElements: "bytes", NativeStrings: "vlen", NativeShards: "sharding"}


def plain(native):
    """Return the description for the kernel as tuples."""
    if native is None:
        return None
    serializer, kind = native.serializer, KINDS[type(native.serializer)]
    parts = [getattr(serializer, field.name) for field in fields(serializer)]
    parts = [plain(part) if isinstance(part, NativeChain) else part for part in parts]
    return native.order, (kind, *parts), tuple(map(options, native.buffers))


def options(codec):
    """Return the name of a codec and its options as a tuple."""
    return (codec.name, *(value for name, value in asdict(codec).items() if name != "name"))


def only_buffers(build, codecs, dtype="u1"):
    order, serializer, buffers = plain(build(["bytes", *codecs], dtype).native)
    assert order is None
    assert serializer[0] == "bytes"
    return buffers


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (("zstd", {"level": 3, "checksum": True}), ("zstd", 3, True)),
        ("numcodecs.zstd", ("zstd", 1, False)),
        (("gzip", {"level": 9}), ("gzip", 9)),
        ("numcodecs.gzip", ("gzip", 1)),
        (("numcodecs.zlib", {"level": 0}), ("zlib", 0)),
        (("numcodecs.bz2", {"level": 2}), ("bz2", 2)),
        (("numcodecs.lz4", {"acceleration": 7}), ("lz4", 7)),
        (("numcodecs.lzma", {"format": 2, "preset": 4}), ("lzma", 2, -1, 4)),
        ("numcodecs.lzma", ("lzma", 1, -1, None)),
        ("crc32c", ("crc32c", False)),
        (("numcodecs.crc32c", {"location": "start"}), ("crc32c", True)),
        ("numcodecs.crc32", ("crc32", True)),
        (("numcodecs.adler32", {"location": "end"}), ("adler32", False)),
        ("numcodecs.fletcher32", ("fletcher32",)),
        (("numcodecs.shuffle", {"elementsize": 2}), ("shuffle", 2)),
        ("blpk", ("blpk",)),
    ],
)
def test_bytes_codecs(build, codec, expected):
    assert only_buffers(build, [codec]) == (expected,)


@pytest.mark.parametrize(
    ("dtype", "codec", "expected"),
    [
        ("<i4", ("numcodecs.delta", {"dtype": "<i4"}), ("delta", "<i4", "<i4")),
        (">i4", ("numcodecs.delta", {"dtype": ">i4", "astype": "i1"}), ("delta", ">i4", "|i1")),
        ("<f8", ("numcodecs.delta", {"dtype": "<f8"}), ("delta", "<f8", "<f8")),
        (
            "<f8",
            ("numcodecs.fixedscaleoffset", {"offset": 1, "scale": 2.5, "dtype": "<f8", "astype": "<u2"}),
            ("fixedscaleoffset", 1, 2.5, "<f8", "<u2"),
        ),
        (
            "<f4",
            ("numcodecs.quantize", {"digits": 2, "dtype": "<f4", "astype": "<f8"}),
            ("quantize", 2, "<f4", "<f8"),
        ),
        ("<f4", ("numcodecs.bitround", {"keepbits": 3}), ("bitround", 3, "<f4")),
        ("?", "numcodecs.packbits", ("packbits",)),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_filters_are_the_same_before_and_after_bytes(build, dtype, codec, expected, before):
    chain = build([codec, "bytes"] if before else ["bytes", codec], dtype)
    assert plain(chain.native) == (None, ("bytes", np.dtype(dtype).itemsize, 0, False), (expected,))


@pytest.mark.parametrize(
    ("dtype", "codec", "expected"),
    [
        ("<i4", ("bytes", {}), ("bytes", 4, 0, False)),
        ("<i4", BIG, ("bytes", 4, 4, False)),
        (">i4", BIG, ("bytes", 4, 0, False)),
        (">i4", LITTLE, ("bytes", 4, 4, False)),
        ("u1", BIG, ("bytes", 1, 0, False)),
        ("<c16", BIG, ("bytes", 16, 8, False)),
        ("<U3", BIG, ("bytes", 12, 4, True)),
        ("<U3", LITTLE, ("bytes", 12, 0, True)),
        ("S3", BIG, ("bytes", 3, 0, False)),
        ("<M8[s]", BIG, ("bytes", 8, 8, False)),
        ("bfloat16", BIG, ("bytes", 2, 2, False)),
        ("int4", BIG, ("bytes", 1, 0, False)),
        ([("a", "<i4"), ("b", "<c16", (2,))], LITTLE, ("bytes", 36, 0, False)),
    ],
)
def test_elements(build, dtype, codec, expected):
    assert plain(build([codec], dtype, fill=None).native) == (None, expected, ())


@pytest.mark.parametrize(
    ("dtype", "codecs"),
    [
        ([("a", "<i4"), ("b", ">i4")], [LITTLE]),
        ([("a", "<i4"), ("b", "<U2")], [LITTLE]),
        ([("a", "<i4"), ("b", [("c", "<U2", (2,))])], [LITTLE]),
        (np.dtype("u1,f8", align=True), ["bytes"]),
        ("V0", ["bytes"]),
        ("string", ["numcodecs.json2"]),
        ("bool", ["packbits"]),
        ("<f4", [("scale_offset", {"offset": 1}), LITTLE]),
        ("<f4", [("cast_value", {"data_type": "int8"}), "bytes"]),
        # a filter takes elements, the codec of the kernel bytes
        ("<i4", [("numcodecs.delta", {"dtype": "<i4"}), BIG]),
        ("<i4", [("numcodecs.shuffle", {}), ("sharding_indexed", {"chunk_shape": [2], "codecs": [{"name": "bytes"}]})]),
        ("<U2", [("numcodecs.shuffle", {"elementsize": 4}), LITTLE]),
        ("u1", ["numcodecs.fletcher32", "bytes"]),
        # only NumPy computes these exactly
        ("<i4", ["bytes", "numcodecs.packbits"]),
        ("<f8", ["bytes", ("numcodecs.delta", {"dtype": "<f8", "astype": "<i4"})]),
        ("?", ["bytes", ("numcodecs.delta", {"dtype": "?"})]),
        ("<f8", ["bytes", ("numcodecs.fixedscaleoffset", {"offset": 2**63, "scale": 1, "dtype": "<f8"})]),
        ("<f8", ["bytes", ("numcodecs.fixedscaleoffset", {"offset": True, "scale": 1, "dtype": "<f8"})]),
        ("<f8", ["bytes", ("numcodecs.quantize", {"digits": 1.5, "dtype": "<f8"})]),
        ("<f4", ["bytes", ("numcodecs.bitround", {"keepbits": 24})]),
        (">f4", ["bytes", ("numcodecs.bitround", {"keepbits": 2})]),
        ("<i4", ["bytes", ("numcodecs.bitround", {"keepbits": 2})]),
        ("<f4", ["bytes", ("numcodecs.shuffle", {"elementsize": 4}), ("numcodecs.bitround", {"keepbits": 2})]),
        ("<f4", ["bytes", ("numcodecs.shuffle", {"elementsize": 0})]),
        ("<f4", ["bytes", "numcodecs.base64"]),
        ("<f4", ["bytes", "numcodecs.jenkins_lookup3"]),
        ("u1", ["bytes", ("numcodecs.lzma", {"filters": [{"id": 33}]})]),
    ],
)
def test_chains_that_the_kernel_does_not_have(build, dtype, codecs):
    assert plain(build(codecs, dtype, fill=None).native) is None


@pytest.mark.parametrize(("dtype", "codec", "text"), [("string", "vlen-utf8", True), ("bytes", "vlen-bytes", False)])
def test_variable_length_elements(build, dtype, codec, text):
    chain = build([("transpose", {"order": [1, 0]}), codec, ("gzip", {"level": 1})], dtype, 2, fill=None)
    assert plain(chain.native) == ((1, 0), ("vlen", text), (("gzip", 1),))


def test_a_filter_is_before_bytes_only_without_a_transpose_between_them(build):
    delta, turn = ("numcodecs.delta", {"dtype": "<i4"}), ("transpose", {"order": [1, 0]})
    assert plain(build([delta, turn, LITTLE], "<i4", 2).native) is None
    assert plain(build([turn, delta, LITTLE, "crc32c"], "<i4", 2).native) == (
        (1, 0),
        ("bytes", 4, 0, False),
        (("delta", "<i4", "<i4"), ("crc32c", False)),
    )


def test_a_filter_of_another_size_before_bytes(build):
    codecs = [("numcodecs.fixedscaleoffset", {"offset": 0, "scale": 10, "dtype": "<f8", "astype": "u1"}), "bytes"]
    codecs += ["numcodecs.blosc"]
    order, serializer, buffers = plain(build(codecs, "<f8").native)
    assert (order, serializer) == (None, ("bytes", 8, 0, False))
    assert [name for name, *_ in buffers] == ["fixedscaleoffset", "blosc"]
    assert buffers[1][-1] == 1


def test_a_codec_of_another_package_under_a_name_of_numcodecs(build):
    class Delta(numcodecs.abc.Codec):
        codec_id = "delta"

        def __init__(self, dtype):
            self.dtype = self.astype = np.dtype(dtype)

        def encode(self, buf):
            return buf

        def decode(self, buf, out=None):
            return buf

    theirs = numcodecs.registry.codec_registry["delta"]
    numcodecs.register_codec(Delta)
    try:
        assert plain(build(["bytes", ("numcodecs.delta", {"dtype": "<i4"})], "<i4").native) is None
    finally:
        numcodecs.register_codec(theirs)


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(4)), st.permutations(range(4)), st.permutations(range(4)))
def test_transposes_become_one(build, first, second, third):
    chain = build([*(("transpose", {"order": order}) for order in (first, second, third)), LITTLE], "<i2", 4)
    order, serializer, buffers = plain(chain.native)
    chunk = np.arange(120, dtype="<i2").reshape(2, 3, 4, 5)
    turned = chunk if order is None else chunk.transpose(order)
    assert turned.tobytes() == bytes(chain.encode(chunk))
    assert (serializer, buffers) == (("bytes", 2, 0, False), ())


def test_shards(build):
    inner = [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd", "configuration": {"level": 1}}]
    options = {"chunk_shape": [2, 3], "codecs": inner, "index_location": "start"}
    chain = build([("transpose", {"order": [1, 0]}), ("sharding_indexed", options), "crc32c"], "<i2", 2)
    index = (None, ("bytes", 8, 0, False), (("crc32c", False),))
    assert plain(chain.native) == (
        (1, 0),
        ("sharding", (2, 3), (None, ("bytes", 2, 2, False), (("zstd", 1, False),)), index, True),
        (("crc32c", False),),
    )
    options["codecs"] = [{"name": "packbits"}]
    assert plain(build([("sharding_indexed", options)], "<i2", 2).native) is None
    options["codecs"] = inner
    options["index_codecs"] = [{"name": "packbits"}]
    assert plain(build([("sharding_indexed", options)], "<i2", 2).native) is None


BITROUND = ("numcodecs.bitround", {"keepbits": 5})
FILTERS = {
    "<f8": [
        [],
        [("numcodecs.delta", {"dtype": "<f8"})],
        [("numcodecs.fixedscaleoffset", {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "<i2"})],
        [BITROUND],
        [("numcodecs.quantize", {"digits": 1, "dtype": "<f8", "astype": "<f4"}), BITROUND],
        [("numcodecs.shuffle", {"elementsize": 8})],
        ["crc32c"],
    ],
    "<c16": [[]],
    "<U3": [[]],
    "S7": [[]],
    "u1": [[]],
    "?": [[], ["numcodecs.packbits"]],
    "V300": [[]],
    "<M8[s]": [[]],
    "bfloat16": [[]],
}


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [-1, 0, 1, 2])
@pytest.mark.parametrize("typesize", [None, 1, 4, 300])
@pytest.mark.parametrize(("dtype", "filters"), [(dtype, f) for dtype, lists in FILTERS.items() for f in lists])
def test_blosc_gets_the_element_size_of_the_buffer(build, dtype, filters, shuffle, typesize):
    options = {"cname": "lz4", "clevel": 5, "shuffle": shuffle}
    options |= {} if typesize is None else {"typesize": typesize}
    chain = build(["bytes", *filters, ("numcodecs.blosc", options)], dtype, fill=None)
    name, cname, clevel, shuffle, blocksize, found = plain(chain.native)[2][-1]
    assert (name, cname, clevel, blocksize) == ("blosc", "lz4", 5, 0)
    dtype = build([LITTLE], dtype, fill=None).decode(b"", (0,)).dtype
    frame = bytes(chain.encode(np.zeros(4000, dtype)))
    # the library writes both into the header
    assert (frame[3], {0: 0, 1: 1, 4: 2}[frame[2] & 5]) == (found, shuffle)


def test_blosc_of_zarr_3(build):
    chain = build([LITTLE, ("blosc", {"cname": "zstd", "shuffle": "bitshuffle", "blocksize": 512})], "<c8")
    assert plain(chain.native)[2] == (("blosc", "zstd", 5, 2, 512, 8),)


@pytest.mark.parametrize(
    "codec",
    [
        ("numcodecs.quantize", {"digits": 2**65, "dtype": "<f4"}),
        ("numcodecs.quantize", {"digits": -(2**65), "dtype": "<f4"}),
        ("numcodecs.shuffle", {"elementsize": 2**65}),
    ],
)
def test_options_beyond_64_bits_are_left_to_the_reference_executor(build, codec):
    assert plain(build([LITTLE, codec], "<f4").native) is None
