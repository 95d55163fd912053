import numcodecs
import numpy as np
import pytest
import zarr

from tegula.errors import CodecError, MetadataError, UnsupportedError

pytestmark = pytest.mark.once(executors="none")

ARRAYS = [
    ("<i4", ("numcodecs.delta", {"dtype": "<i4"})),
    ("<i4", ("numcodecs.delta", {"dtype": "<i4", "astype": "<i8"})),
    ("<f8", ("numcodecs.fixedscaleoffset", {"offset": 1, "scale": 8, "dtype": "<f8", "astype": "<i4"})),
    ("<f8", ("numcodecs.fixedscaleoffset", {"offset": 1, "scale": 8})),
    ("<f4", ("numcodecs.quantize", {"digits": 2, "dtype": "<f4"})),
    ("<f4", ("numcodecs.quantize", {"digits": 2})),
    ("<i4", ("numcodecs.astype", {"encode_dtype": "<i2", "decode_dtype": "<i4"})),
    ("<i4", ("numcodecs.astype", {"encode_dtype": ">f8"})),
    ("<f4", ("numcodecs.bitround", {"keepbits": 5})),
    ("?", ("numcodecs.packbits", {})),
]
BUFFERS = [
    ("<i4", {"id": "delta", "dtype": "<i4"}),
    ("<i4", {"id": "delta", "dtype": "<i4", "astype": "<i8"}),
    ("<f8", {"id": "fixedscaleoffset", "offset": 1, "scale": 8, "dtype": "<f8", "astype": "<i4"}),
    ("<f4", {"id": "quantize", "digits": 2, "dtype": "<f4"}),
    ("<f8", {"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}),
    ("<i4", {"id": "astype", "encode_dtype": "<i8", "decode_dtype": "<i4"}),
    ("<f4", {"id": "bitround", "keepbits": 5}),
    ("?", {"id": "packbits"}),
    ("<i4", {"id": "shuffle", "elementsize": 4}),
    ("<i4", {"id": "base64"}),
    ("<i4", {"id": "fletcher32"}),
    ("<i4", {"id": "jenkins_lookup3"}),
    ("<U3", {"id": "categorize", "labels": ["0", "1", "2"], "dtype": "<U3"}),
    ("<M8[s]", {"id": "delta", "dtype": "<i8"}),
]


def values(dtype, shape=(3, 4)):
    numbers = np.arange(12).reshape(shape)
    return numbers % 2 == 0 if dtype == "?" else (numbers % 3).astype(dtype)


@pytest.mark.parametrize(("dtype", "codec"), ARRAYS, ids=str)
def test_filters_before_the_array_to_bytes_codec(build, dtype, codec):
    chunk = values(dtype)
    chain = build([codec, "bytes", ("gzip", {"level": 1})], dtype, 2, 0, (3, 4))
    plain = build([codec, "bytes"], dtype, 2)
    for layout in ("C", "F"):
        data = chain.encode(np.asarray(chunk, order=layout))
        found = chain.decode(data, (3, 4))
        assert (found.dtype, found.tolist()) == (chunk.dtype, chunk.tolist())
        assert len(plain.encode(np.asarray(chunk, order=layout))) == plain.encoded_size((3, 4))
    with pytest.raises(CodecError):
        plain.decode(bytes(plain.encode(chunk))[:-1], (3, 4))


@pytest.mark.parametrize(
    "codecs", [[("numcodecs.delta", {}), "bytes"], ["bytes", ("numcodecs.delta", {"dtype": "|b1"})]]
)
def test_booleans_are_not_encoded_as_differences(build, codecs):
    chain = build(codecs, "?", 1)
    with pytest.raises(UnsupportedError, match="booleans"):
        chain.encode(np.array([True, False, True]))
    assert chain.decode(b"\1\0\0", (3,)).all()  # as numcodecs decodes what it has encoded


@pytest.mark.parametrize(("dtype", "codec"), ARRAYS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_the_same_bytes_as_zarr_python(build, dtype, codec):
    if "astype" in str(codec) and codec[0] == "numcodecs.astype" and "decode_dtype" not in codec[1]:
        codec = (codec[0], {**codec[1], "decode_dtype": dtype, "encode_dtype": "<f8"})
    theirs = zarr.registry.get_codec_class(codec[0]).from_dict({"name": codec[0], "configuration": codec[1]})
    stored = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(stored),
        shape=(3, 4),
        chunks=(3, 4),
        dtype=dtype,
        filters=[theirs],
        compressors=None,
        fill_value=None,
    )
    array[...] = values(dtype)
    raw = stored["c/0/0"].to_bytes()
    chain = build([codec, ("bytes", {"endian": "little"})], dtype, 2)
    assert bytes(chain.encode(values(dtype))) == raw
    assert chain.decode(raw, (3, 4)).tolist() == array[...].tolist()


@pytest.mark.parametrize(("dtype", "config"), BUFFERS, ids=str)
@pytest.mark.parametrize("compressor", [None, ("numcodecs.blosc", {}), ("numcodecs.zlib", {"level": 1})], ids=str)
def test_filters_after_the_array_to_bytes_codec(build, dtype, config, compressor):
    oracle = numcodecs.get_codec(dict(config))
    name = f"numcodecs.{config['id']}"
    codec = (name, {key: value for key, value in config.items() if key != "id"})
    chunk = values(dtype)
    chain = build([("bytes", {}), codec, *([compressor] if compressor else [])], dtype, 2, None, (3, 4))
    expected = oracle.encode(chunk)
    if compressor:
        expected = numcodecs.get_codec({"id": compressor[0].removeprefix("numcodecs."), **compressor[1]}).encode(
            expected
        )
    data = bytes(chain.encode(chunk))
    assert data == numcodecs.compat.ensure_bytes(expected)
    found = chain.decode(data, (3, 4))
    assert (found.dtype, found.tolist()) == (chunk.dtype, chunk.tolist())
    if not compressor:
        assert chain.encoded_size((3, 4)) == len(data)


def test_two_filters_and_a_compressor(build):
    chain = build(["bytes", ("numcodecs.delta", {"dtype": "<i4"}), "numcodecs.shuffle", "numcodecs.zlib"], "<i4", 1)
    chunk = np.arange(9, dtype="<i4")
    delta = numcodecs.Delta("<i4").encode(chunk)
    assert chain.encode(chunk) == numcodecs.Zlib().encode(numcodecs.Shuffle(4).encode(delta))
    assert np.array_equal(chain.decode(chain.encode(chunk), (9,)), chunk)


def test_categories_of_objects(build):
    options = {"labels": ["a", "b"], "dtype": "|O", "astype": "u1"}
    chunk = np.array([["a", "b"], ["", "a"]], object)
    chain = build([("numcodecs.categorize", options), ("numcodecs.zlib", {"level": 1})], object, 2)
    data = chain.encode(chunk)
    assert data == numcodecs.Zlib(1).encode(numcodecs.Categorize(["a", "b"], object).encode(chunk))
    assert chain.decode(data, (2, 2)).tolist() == chunk.tolist()
    with pytest.raises(CodecError):
        chain.decode(data, (2, 3))


@pytest.mark.parametrize(
    ("dtype", "codec"),
    [
        ("<i4", ("numcodecs.delta", {"dtype": "nonsense"})),
        ("<i4", ("numcodecs.astype", {})),
        ("<i4", ("numcodecs.bitround", {"keepbits": -1})),
        ("<i4", ("numcodecs.packbits", {})),
        (str, ("numcodecs.delta", {"dtype": "<i4"})),
    ],
)
def test_invalid_configurations(build, dtype, codec):
    with pytest.raises(MetadataError):
        build([codec, "bytes"], dtype)


@pytest.mark.parametrize(
    "codec",
    [
        ("numcodecs.quantize", {"digits": 2, "dtype": ">f4"}),
        ("numcodecs.fixedscaleoffset", {"offset": 1, "scale": 8, "dtype": ">f4", "astype": "<i2"}),
    ],
)
def test_filters_that_would_round_bytes_in_another_order(build, codec):
    """zarr-python stores other numbers, and reads back others still."""
    with pytest.raises(UnsupportedError, match="in another order, as >f4") as caught:
        build([codec, "bytes"], "<f4")
    assert (caught.value.codec, caught.value.field) == (codec[0], "codecs.dtype")
    build([("numcodecs.astype", {"encode_dtype": ">f4"}), codec, "bytes"], "<i4")
