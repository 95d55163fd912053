import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError, MetadataError

pytestmark = pytest.mark.once(executors="none")

WIDTHS = {
    "bool": 1,
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
WHOLE = ["i1", "u1", "<i2", ">u2", "<i4", "<u8", ">f4", "<f8", "<c8", ">c16", "bfloat16"]


def few_bits(name, count, seed):
    raw = np.random.default_rng(seed).integers(0, 2 ** WIDTHS[name], count, dtype="u1")
    return raw.astype(bool) if name == "bool" else raw.view(getattr(ml_dtypes, name))


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([*WIDTHS]),
    st.integers(1, 40),
    st.sampled_from([None, "none", "first_byte", "last_byte"]),
    st.integers(0, 99),
)
def test_elements_of_few_bits(build, name, count, padding, seed):
    chunk = few_bits(name, count, seed)
    chain = build([("packbits", {"padding_encoding": padding})], name if name != "bool" else "?", 1, None)
    data = chain.encode(chunk)
    extra = padding in ("first_byte", "last_byte")
    assert len(data) == chain.encoded_size((count,)) == -(-count * WIDTHS[name] // 8) + extra
    bits = 0
    for number, value in enumerate(chunk.view("u1").tolist()):
        bits |= value << number * WIDTHS[name]
    packed = bits.to_bytes(len(data) - extra, "little")
    spare = bytes([-count * WIDTHS[name] % 8])
    assert bytes(data) == {"first_byte": spare + packed, "last_byte": packed + spare}.get(padding, packed)
    found = chain.decode(bytes(data), (count,))
    assert (found.dtype, found.tobytes()) == (chunk.dtype, chunk.tobytes())


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(WHOLE), st.data())
def test_a_range_of_bits(build, dtype, data):
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    parts = 2 if dtype.kind == "c" else 1
    bits = 8 * dtype.itemsize // parts
    first = data.draw(st.integers(0, bits - 1))
    last = data.draw(st.integers(first, bits - 1))
    chain = build([("packbits", {"first_bit": first, "last_bit": last})], dtype, 1, None)
    raw = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, 5 * dtype.itemsize, dtype="u1")
    found = chain.decode(bytes(chain.encode(raw.view(dtype))), (5,))

    def patterns(array):
        order = ">" if array.dtype.byteorder == ">" else "<"
        return array.view(f"{order}u{dtype.itemsize // parts}").tolist()

    mask = (1 << last + 1) - (1 << first)
    for before, after in zip(patterns(raw.view(dtype)), patterns(found)):
        expected = before & mask
        if dtype.kind == "i" and before >> last & 1:
            expected |= (1 << bits) - (1 << last + 1)
        assert after == expected


@pytest.mark.parametrize(
    ("dtype", "options", "values", "stored"),
    [  # recorded from zarrs 0.2.3 (Python)
        ("?", {}, [True, False, True, True, False, False, False, False, True], "0d01"),
        ("?", {"padding_encoding": "first_byte"}, [True, False, True], "0505"),
        ("?", {"padding_encoding": "last_byte"}, [True, False, True], "0505"),
        ("u1", {"first_bit": 2, "last_bit": 5}, [4, 8, 60], "210f"),
        ("<i2", {"last_bit": 10}, [-1, 1, -1024], "ff0f000001"),
        ("i1", {"last_bit": 3}, [-1, 7, -8], "7f08"),
    ],
)
def test_recorded(build, dtype, options, values, stored):
    chain = build([("packbits", options)], dtype, 1, None)
    assert bytes(chain.encode(np.array(values, dtype))).hex() == stored
    assert chain.decode(bytes.fromhex(stored), (len(values),)).tolist() == values


def test_padding_that_contradicts_the_shape(build):
    for padding, data in (("first_byte", b"\x04\x05"), ("last_byte", b"\x05\x04")):
        with pytest.raises(CodecError, match="padding"):
            build([("packbits", {"padding_encoding": padding})], "?").decode(data, (3,))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_wrong_sizes(build, size):
    with pytest.raises(CodecError):
        build(["packbits"], "?").decode(bytes(size), (9,))


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("S3", {}),
        (str, {}),
        ("<M8[s]", {}),
        ("V2", {}),
        ("?", {"first_bit": 1}),
        ("u1", {"last_bit": 8}),
        ("u1", {"first_bit": 3, "last_bit": 2}),
        ("u1", {"first_bit": -1}),
        ("u1", {"first_bit": True}),
        ("u1", {"padding_encoding": "middle"}),
    ],
)
def test_invalid_configurations(build, dtype, options):
    with pytest.raises(MetadataError):
        build([("packbits", options)], dtype, 1, None)
