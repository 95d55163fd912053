import itertools
import random
import tracemalloc

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula import config
from tegula.codecs import EMPTY, Sharding
from tegula.errors import CodecError, MetadataError, UnsupportedError

pytestmark = pytest.mark.once(executors="none")

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
CRC = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 1}}


def shards(chunk_shape, codecs=(LITTLE,), **options):
    return ("sharding_indexed", {"chunk_shape": list(chunk_shape), "codecs": [*codecs], **options})


def as_json(codec):
    return {"name": codec[0], "configuration": codec[1]}


@st.composite
def cases(draw):
    inner = tuple(draw(st.lists(st.integers(1, 3), min_size=0, max_size=3)))
    grid = tuple(draw(st.integers(1, 3)) for _ in inner)
    shape = tuple(i * g for i, g in zip(inner, grid))
    codecs = draw(st.sampled_from([[LITTLE], [BIG, GZIP], [LITTLE, CRC], [GZIP and LITTLE, GZIP, CRC]]))
    index = draw(st.sampled_from([None, [LITTLE], [BIG, CRC]]))
    options = {"index_location": draw(st.sampled_from(["start", "end"]))}
    if index:
        options["index_codecs"] = index
    return shape, inner, codecs, options, draw(st.integers(0, 99))


@settings(deadline=None, max_examples=150)
@given(cases())
def test_decoding_reverses_encoding(build, case):
    shape, inner, codecs, options, seed = case
    chunk = np.random.default_rng(seed).integers(0, 2, shape).astype("<i4")
    chain = build([shards(inner, codecs, **options)], "<i4", len(shape), 0, shape)
    data = bytes(chain.encode(chunk))
    assert np.array_equal(chain.decode(data, shape), chunk)
    # inner chunk by inner chunk
    sharding = chain.sharding
    assert isinstance(sharding, Sharding)
    size = sharding.index_nbytes(shape)
    raw = data[:size] if sharding.index_at_start else data[len(data) - size :]
    index = sharding.decode_index(raw, shape, len(data))
    assert index.shape == (*sharding.grid_shape(shape), 2)
    assert bytes(sharding.encode_index(index, shape)) == raw
    entries = {}
    for coords in np.ndindex(*sharding.grid_shape(shape)):
        part = chunk[tuple(slice(c * i, (c + 1) * i) for c, i in zip(coords, inner))]
        offset, length = index[coords].tolist()
        if offset == EMPTY:
            assert length == EMPTY
            assert not part.any()
        else:
            entries[coords] = data[offset : offset + length]
            assert np.array_equal(sharding.inner.decode(entries[coords], inner), part)
    assert sharding.assemble(entries, shape) == (data if entries else None)
    assert sharding.assemble({**dict.fromkeys(np.ndindex(*sharding.grid_shape(shape))), **entries}, shape) == (
        data if entries else None
    )


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("compressors", [None, zarr.codecs.GzipCodec(level=1)])
def test_zarr_python_reads_and_writes_the_same(build, location, compressors):
    chunk = np.random.default_rng(0).integers(0, 99, (8, 6)).astype("<i4")
    chunk[:4, :3] = 7
    stored = {}
    codec = zarr.codecs.ShardingCodec(
        chunk_shape=(4, 3),
        index_location=location,
        codecs=[zarr.codecs.BytesCodec(), *([compressors] if compressors else [])],
    )
    array = zarr.create_array(
        zarr.storage.MemoryStore(stored),
        shape=(8, 6),
        chunks=(8, 6),
        dtype="<i4",
        serializer=codec,
        compressors=None,
        fill_value=7,
    )
    array[...] = chunk
    spec = codec.to_dict()
    spec["configuration"]["codecs"] = [inner.to_dict() for inner in codec.codecs]
    spec["configuration"]["index_codecs"] = [inner.to_dict() for inner in codec.index_codecs]
    spec["configuration"]["index_location"] = location
    chain = build([(spec["name"], spec["configuration"])], "<i4", 2, 7, (8, 6))
    assert np.array_equal(chain.decode(stored["c/0/0"].to_bytes(), (8, 6)), chunk)
    stored["c/0/0"] = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(bytes(chain.encode(chunk)))
    assert np.array_equal(array[...], chunk)


def test_the_same_bytes_as_zarr_python(build):
    # recorded from zarr-python 3.4.2, with a fill value that the inner codecs change
    stored = "0102030400000000000000000400000000000000ffffffffffffffffffffffffffffffff8a0729c5"
    inner = [{"name": "cast_value", "configuration": {"data_type": "uint8"}}, {"name": "bytes"}]
    chain = build([shards((4,), inner)], "<f8", 1, 9, (8,))
    chunk = np.array([1.0, 2, 3, 4, 9, 9, 9, 9])
    assert bytes(chain.encode(chunk)).hex() == stored
    assert np.array_equal(chain.decode(bytes.fromhex(stored), (8,)), chunk)


def test_the_fill_value_is_encoded_by_the_codecs_before(build):
    chain = build([("cast_value", {"data_type": "uint8"}), shards((4,))], "<f8", 1, 9)
    chunk = np.array([1.0, 2, 3, 4, 9, 9, 9, 9])
    data = bytes(chain.encode(chunk))
    assert len(data) == 4 + 32 + 4
    assert np.array_equal(chain.decode(data, (8,)), chunk)
    turned = build([("transpose", {"order": [1, 0]}), shards((1, 4))], "<f8", 2, 9, (4, 2))
    assert np.array_equal(turned.decode(turned.encode(chunk.reshape(4, 2)), (4, 2)), chunk.reshape(4, 2))


def test_empty_inner_chunks_on_demand(build):
    chain = build([shards((2,))], "u1", 1, 5)
    chunk = np.full(6, 5, "u1")
    assert len(chain.encode(chunk)) == 3 * 16 + 4
    with config.configure(write_empty_chunks=True):
        assert len(chain.encode(chunk)) == 6 + 3 * 16 + 4
    assert np.array_equal(chain.decode(chain.encode(chunk), (6,)), chunk)
    negative = build([shards((1,))], "f8").encode(np.array([0.0, -0.0]))
    assert len(negative) == 8 + 2 * 16 + 4
    assert len(build([shards((1,))], "f8", 1, None).encode(np.zeros(2))) == 16 + 2 * 16 + 4


@pytest.mark.parametrize("codecs", [["vlen-utf8"], ["vlen-utf8", GZIP]])
def test_strings(build, codecs):
    chunk = np.array([["a", "", "bb", "fill"], ["ü", "x" * 99, "fill", "fill"]], object)
    chain = build([shards((1, 2), codecs)], str, 2, "fill", (2, 4))
    assert chain.decode(chain.encode(chunk), (2, 4)).tolist() == chunk.tolist()
    assert (chain.sharding.decode_index(bytes(chain.encode(chunk))[-68:], (2, 4))[..., 0] == EMPTY).tolist() == [
        [False, False],
        [False, True],
    ]


def test_nested(build):
    inner = as_json(shards((5, 2), [LITTLE], index_location="start"))
    middle = as_json(shards((5, 10), [inner]))
    chain = build([shards((10, 10), [middle])], "<i4", 2, 0, (20, 20))
    chunk = np.zeros((20, 20), "<i4")
    chunk[3, 4] = 7
    chunk[15:, :] = 3
    data = bytes(chain.encode(chunk))
    assert np.array_equal(chain.decode(data, (20, 20)), chunk)
    assert chain.sharding.inner.sharding.inner.sharding.inner_shape == (5, 2)
    assert chain.sharding.inner.sharding.inner.sharding.inner.sharding is None


def test_inner_chunks_are_read_alone_only_if_sharding_is_the_only_codec(build):
    assert build([shards((2,)), ("gzip", {"level": 1})], "u1").sharding is None
    assert build([("transpose", {"order": [1, 0]}), shards((2, 2))], "u1", 2).sharding is None
    assert build([("transpose", {"order": [0, 1]}), shards((2, 2))], "u1", 2).sharding is not None
    chain = build([shards((2,)), ("gzip", {"level": 1}), "crc32c"], "u1")
    chunk = np.arange(6, dtype="u1")
    assert np.array_equal(chain.decode(chain.encode(chunk), (6,)), chunk)


@pytest.mark.parametrize(
    ("offset", "length", "valid"),
    [
        (0, 2, True),
        (4, 2, True),
        (EMPTY, EMPTY, True),
        (EMPTY, 0, False),
        (0, EMPTY, False),
        (5, 2**63, False),
        (2**64 - 2, 2, False),
        (2**64 - 2, 4, False),
        (39, 2, False),
        (41, 0, False),
    ],
)
def test_entries(build, offset, length, valid):
    sharding = build([shards((2,))], "u1").sharding
    raw = sharding.encode_index(np.array([[0, 2], [offset, length]], "u8"), (4,))
    if valid:
        assert sharding.decode_index(raw, (4,), 40)[1].tolist() == [offset, length]
        sharding.decode_index(raw, (4,), None)
    else:
        with pytest.raises(CodecError) as caught:
            sharding.decode_index(raw, (4,), 40)
        assert caught.value.codec == "sharding_indexed"
    if offset < 64 or length == 0:
        return
    if not valid:
        with pytest.raises(CodecError):
            sharding.decode_index(raw, (4,), None)


def test_damaged_indexes(build):
    chain = build([shards((2,))], "u1", 1, 0, (8,))
    plain = build([shards((2,), [LITTLE], index_codecs=[LITTLE])], "u1", 1, 0, (8,))
    chunk = np.arange(1, 9, dtype="u1")
    source = random.Random(1)
    for one in (chain, plain):
        data = bytes(one.encode(chunk))
        for size in range(len(data)):
            with pytest.raises(CodecError):
                one.decode(data[:size], (8,))
        for _ in range(2000):
            damaged = bytearray(data)
            for _ in range(source.randint(1, 3)):
                damaged[source.randrange(8, len(data))] = source.choice([0, 255, source.randrange(256)])
            try:
                found = one.decode(bytes(damaged), (8,))
            except CodecError:
                continue
            assert found.shape == (8,)
            if one is chain:
                assert bytes(damaged) == data


def test_inner_chunks_may_share_bytes(build):
    sharding = build([shards((2,))], "u1").sharding
    data = b"ab" + bytes(sharding.encode_index(np.array([[0, 2]] * 3, "u8"), (6,)))
    assert build([shards((2,))], "u1").decode(data, (6,)).tobytes() == b"ababab"


@pytest.mark.parametrize(
    "codec",
    [
        ("sharding_indexed", {}),
        ("sharding_indexed", {"chunk_shape": [2]}),
        shards((3,)),
        shards((2, 2)),
        shards((0,)),
        shards((-2,)),
        shards((True,)),
        ("sharding_indexed", {"chunk_shape": 2, "codecs": [LITTLE]}),
        shards((2,), [LITTLE, LITTLE]),
        shards((2,), []),
        shards((2,), [5]),
        shards((2,), [{"configuration": {}}]),
        shards((2,), [{"name": "bytes", "configuration": []}]),
        shards((2,), index_codecs=[LITTLE, GZIP]),
        shards((2,), index_codecs=[]),
        shards((2,), index_location="middle"),
        shards((2,), extra=1),
    ],
    ids=str,
)
def test_invalid_configurations(build, codec):
    with pytest.raises(MetadataError):
        build([codec], "u1", 1, 0, (8,))


def test_indivisible_shards_of_a_varying_grid(build):
    chain = build([shards((3,))], "u1")
    for call in (lambda: chain.decode(bytes(100), (8,)), lambda: chain.encode(np.zeros(8, "u1"))):
        with pytest.raises(MetadataError, match="don't fill"):
            call()


def test_endless_nesting(build):
    codec = as_json(shards((1,)))
    for _ in range(500):
        codec = as_json(shards((1,), [codec]))
    with pytest.raises(MetadataError, match="too deeply"):
        build([(codec["name"], codec["configuration"])], "u1")


def test_an_index_larger_than_any_chunk(build):
    chain = build([shards((1,))], "u1")
    with config.configure(max_chunk_bytes=1000), pytest.raises((UnsupportedError, CodecError)):
        chain.decode(bytes(2000), (900,))


def test_order_of_inner_chunks(build):
    chain = build([shards((1, 1))], "u1", 2, None)
    data = bytes(chain.encode(np.arange(6, dtype="u1").reshape(2, 3)))
    assert data[:6] == bytes(range(6))
    index = chain.sharding.decode_index(data[6:], (2, 3))
    assert [index[c][0] for c in itertools.product(range(2), range(3))] == [*range(6)]


def test_keep_empty_overrides_the_setting(build):
    chunk = np.full(6, 5, "u1")
    for codecs, extra in [([shards((2,)), "crc32c"], 4), ([shards((6,), [as_json(shards((2,)))])], 20)]:
        for keep in (True, False, None):
            chain = build(codecs, "u1", 1, 5, keep_empty=keep)
            for setting in (True, False):
                with config.configure(write_empty_chunks=setting):
                    size = len(chain.encode(chunk))
                kept = setting if keep is None else keep
                # an outer shard without inner shards has no inner index
                inner = 0 if extra == 20 and not kept else 3 * 16 + 4
                assert size == 6 * kept + inner + extra


def test_too_many_inner_chunks_are_rejected_once_the_shape_is_known(build):
    for codecs in ([shards((1,))], [shards((1,)), "crc32c"], [shards((2**25,), [as_json(shards((1,)))])]):
        with pytest.raises(MetadataError, match="index") as caught:
            build(codecs, "u1", 1, 0, (2**25,))
        assert caught.value.codec == "sharding_indexed"
    build([shards((1,))], "u1", 1, 0, (2**24,))
    with config.configure(max_chunk_bytes=999), pytest.raises(MetadataError, match="larger than 999"):
        build([shards((1,))], "u1", 1, 0, (63,))


def test_a_truncated_shard_of_many_inner_chunks_is_rejected_cheaply(build):
    chain = build([shards((1,)), "crc32c"], "u1", 1, 0, (2**18,))
    data = bytes(build([("bytes", {}), "crc32c"], "u1", 1).encode(np.zeros(8, "u1")))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="shorter than its index"):
            chain.decode(data, (2**18,))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
