import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.codecs.cast_value import cast
from tegula.errors import CodecError, MetadataError
from tegula.metadata.rounding import MODES

pytestmark = pytest.mark.once(executors="none")

INF, NAN = float("inf"), float("nan")
EVEN, ZERO, UP, DOWN, AWAY = MODES
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]

# recorded from cast-value-rs 0.5.1: source, target, rounding, out of range, values, result (None for an error)
RECORDED = [
    ("f8", "i2", EVEN, "error", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.7], [-2, -2, 0, 0, 2, 2, -2]),
    ("f8", "i2", ZERO, "error", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.7], [-2, -1, 0, 0, 1, 2, -1]),
    ("f8", "i2", UP, "error", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.7], [-2, -1, 0, 1, 2, 3, -1]),
    ("f8", "i2", DOWN, "error", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.7], [-3, -2, -1, 0, 1, 2, -2]),
    ("f8", "i2", AWAY, "error", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -1.7], [-3, -2, -1, 1, 2, 3, -2]),
    ("f8", "u1", EVEN, "error", [255.4, -0.4], [255, 0]),
    ("f8", "u1", EVEN, "error", [255.6], None),
    ("f8", "u1", EVEN, "error", [-0.6], None),
    ("f8", "u1", ZERO, "error", [255.6], [255]),
    ("f8", "u1", EVEN, "clamp", [255.4, 255.5, -0.6, 300, -300, 1e300], [255, 255, 0, 255, 0, 255]),
    ("f8", "u1", EVEN, "clamp", [INF], None),
    ("f8", "u1", EVEN, "wrap", [INF], None),
    ("f8", "i1", EVEN, "clamp", [NAN], None),
    ("f8", "u1", EVEN, "wrap", [256.0, -1.0, 1e20, -1e20, 1e300], [0, 255, 0, 0, 0]),
    ("f8", "i8", EVEN, "wrap", [2.0**63, 2.0**64 + 4096], [-(2**63), 4096]),
    ("f8", "i8", EVEN, "wrap", [1e20, -1e20], [7766279631452241920, -7766279631452241920]),
    ("f8", "u8", EVEN, "wrap", [2.0**64, -1.0, -1e20], [0, 2**64 - 1, 10680464442257309696]),
    ("f8", "i8", EVEN, "clamp", [2.0**63, -(2.0**64)], [2**63 - 1, -(2**63)]),
    ("f8", "i8", EVEN, "error", [2.0**63], None),
    ("f8", "u8", EVEN, "clamp", [2.0**64, -1, 1.844674407370955e19], [2**64 - 1, 0, 18446744073709549568]),
    ("i4", "u1", EVEN, "wrap", [300, -1, -129], [44, 255, 127]),
    ("i4", "i1", EVEN, "clamp", [300, -1, -129], [127, -1, -128]),
    ("i4", "u1", EVEN, "error", [300], None),
    ("u8", "i8", EVEN, "wrap", [2**64 - 1], [-1]),
    ("u8", "i8", EVEN, "clamp", [2**64 - 1], [2**63 - 1]),
    ("i8", "u8", EVEN, "clamp", [-5], [0]),
    ("f8", "f4", EVEN, "error", [0.1, 1 + 2**-24, 1 + 3 * 2**-24], [0.10000000149011612, 1, 1.000000238418579]),
    ("f8", "f4", EVEN, "error", [1e-46, -1e-46], [0, -0.0]),
    ("f8", "f4", ZERO, "error", [0.1, -0.1], [0.09999999403953552, -0.09999999403953552]),
    ("f8", "f4", ZERO, "error", [1 + 3 * 2**-24], [1.0000001192092896]),
    ("f8", "f4", UP, "error", [0.1, -0.1, 1e-46], [0.10000000149011612, -0.09999999403953552, 1.401298464324817e-45]),
    ("f8", "f4", AWAY, "error", [1 + 2**-24, -1 - 2**-24], [1.0000001192092896, -1.0000001192092896]),
    ("f8", "f4", EVEN, "clamp", [1e39, -1e39, INF, -INF, NAN, 3.4028235677973366e38], [INF, -INF, INF, -INF, NAN, INF]),
    ("f8", "f4", ZERO, "clamp", [1e39, 3.4028235677973366e38], [INF, 3.4028234663852886e38]),
    ("f8", "f4", EVEN, "error", [1e39], None),
    ("f8", "f4", EVEN, "error", [INF, NAN], [INF, NAN]),
    ("f8", "f2", EVEN, "clamp", [65519.0, 65520.0, 2**-25, 2**-25 * 1.1], [65504, INF, 0, 5.960464477539063e-08]),
    ("f8", "f2", DOWN, "clamp", [65520.0, -65504.1], [65504, -INF]),
    ("i8", "f4", EVEN, "error", [2**24 + 1, 2**24 + 3, 2**63 - 1], [2**24, 2**24 + 4, 2.0**63]),
    ("i8", "f4", ZERO, "error", [2**24 + 3, 2**63 - 1], [2**24 + 2, 9.223371487098962e18]),
    ("i8", "f8", UP, "error", [2**53 + 1, -(2**53 + 1)], [2**53 + 2, -(2**53)]),
    ("i8", "f8", AWAY, "error", [2**53 + 1, -(2**53 + 1)], [2**53 + 2, -(2**53 + 2)]),
    ("u8", "f8", DOWN, "error", [2**64 - 1], [1.844674407370955e19]),
    ("i4", "f2", EVEN, "error", [65519], [65504]),
    ("i4", "f2", EVEN, "error", [65520], None),
    ("i4", "f2", ZERO, "error", [65520], [65504]),
    ("i4", "f2", ZERO, "clamp", [70000, -70000], [INF, -INF]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "rounding", "rule", "values", "result"), RECORDED)
def test_recorded(source, target, rounding, rule, values, result):
    chunk = np.array(values, source)
    if result is None:
        with pytest.raises(CodecError):
            cast(chunk, np.dtype(target), rounding, rule, ())
    else:
        found = cast(chunk, np.dtype(target), rounding, rule, ())
        assert found.dtype == target
        assert found.tobytes() == np.array(result, target).tobytes()


@pytest.mark.parametrize(
    ("dtype", "filters", "values", "stored", "back"),
    [  # recorded from zarr-python 3.4.2
        (
            "f8",
            [
                ("scale_offset", {"scale": 2}),
                (
                    "cast_value",
                    {
                        "data_type": "uint8",
                        "rounding": "nearest-away",
                        "out_of_range": "clamp",
                        "scalar_map": {"encode": [["NaN", 255]], "decode": [[255, "NaN"]]},
                    },
                ),
            ],
            [1.25, -0.5, 300, NAN],
            "0300ffff",
            [1.5, 0.0, NAN, NAN],
        ),
        (
            "f8",
            [("cast_value", {"data_type": "int8", "rounding": "towards-negative", "out_of_range": "wrap"})],
            [1.25, -0.5, 300, -1],
            "01ff2cff",
            [1.0, -1.0, 44.0, -1.0],
        ),
        (
            "<i8",
            [("cast_value", {"data_type": "float32", "rounding": "towards-positive"})],
            [2**24 + 1, -5],
            "0100804b0000a0c0",
            [2**24 + 2, -5],
        ),
        (
            "f8",
            [("cast_value", {"data_type": "float16", "out_of_range": "clamp"})],
            [65519, 1e6, -1e6],
            "ff7b007c00fc",
            [65504.0, INF, -INF],
        ),
    ],
)
def test_arrays_of_zarr_python(build, dtype, filters, values, stored, back):
    chain = build([*filters, ("bytes", {"endian": "little"})], dtype)
    assert bytes(chain.encode(np.array(values, dtype))).hex() == stored
    np.testing.assert_array_equal(chain.decode(bytes.fromhex(stored), (len(values),)), back)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(INTEGERS),
    st.sampled_from(INTEGERS),
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5),
)
def test_integers_match_python(source, target, values):
    ours, theirs = np.iinfo(source), np.iinfo(target)
    values = [min(max(value, ours.min), ours.max) for value in values]
    chunk = np.array(values, source)
    clamped = [min(max(value, theirs.min), theirs.max) for value in values]
    assert cast(chunk, np.dtype(target), EVEN, "clamp", ()).tolist() == clamped
    wrapped = [(value - theirs.min) % 2**theirs.bits + theirs.min for value in values]
    assert cast(chunk, np.dtype(target), EVEN, "wrap", ()).tolist() == wrapped
    if clamped == values:
        assert cast(chunk, np.dtype(target), EVEN, "error", ()).tolist() == values
    else:
        with pytest.raises(CodecError):
            cast(chunk, np.dtype(target), EVEN, "error", ())


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4"])
def test_small_integers(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    values = np.arange(-40, 40)
    count = high - low + 1
    for chunk in (values, values.astype("f8"), values.astype("i1")):
        assert cast(chunk, dtype, EVEN, "clamp", ()).astype("i8").tolist() == np.clip(values, low, high).tolist()
        assert cast(chunk, dtype, EVEN, "wrap", ()).astype("i8").tolist() == ((values - low) % count + low).tolist()
        with pytest.raises(CodecError):
            cast(chunk, dtype, EVEN, "error", ())
    inside = np.arange(low, high + 1)
    for target in ("i1", "f4", "f8"):
        packed = cast(inside, dtype, EVEN, "error", ())
        assert cast(packed, np.dtype(target), EVEN, "error", ()).tolist() == inside.tolist()


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float6_e3m2fn", "float4_e2m1fn"]
)
def test_small_floats(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    largest = float(ml_dtypes.finfo(dtype).max)
    every = np.arange(
        16 if "4_" in name and "8" not in name else 64 if "6_" in name and "8" not in name else 256, dtype="u1"
    )
    values = every.view(dtype) if dtype.itemsize == 1 else (every.astype("u2") << 8).view(dtype)
    finite = values[np.isfinite(values.astype("f8"))]
    assert cast(finite.astype("f8"), dtype, EVEN, "error", ()).tobytes() == finite.tobytes()
    assert cast(finite, np.dtype("f8"), EVEN, "error", ()).tolist() == finite.astype("f8").tolist()
    with pytest.raises(CodecError):
        cast(np.array([largest * 2]), dtype, EVEN, "error", ())
    clamped = float(cast(np.array([largest * 2]), dtype, EVEN, "clamp", ())[0])
    assert clamped in (INF, largest)
    if np.isnan(np.array(NAN).astype(dtype).astype("f8")):
        assert np.isnan(cast(np.array([NAN]), dtype, EVEN, "error", ()).astype("f8")).all()
    else:
        with pytest.raises(CodecError, match="no NaN"):
            cast(np.array([NAN]), dtype, EVEN, "clamp", ())


def test_the_unsigned_float():
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    assert cast(np.array([3.0, 1.4, 2.0**-127]), dtype, EVEN, "error", ()).astype("f8").tolist() == [
        4.0,
        1.0,
        2.0**-127,
    ]
    for value in (0.0, -1.0):
        with pytest.raises(CodecError):
            cast(np.array([value]), dtype, EVEN, "error", ())
        assert float(cast(np.array([value]), dtype, EVEN, "clamp", ())[0]) == 2.0**-127


def test_scalar_maps(build):
    options = {"data_type": "uint8", "out_of_range": "clamp"}
    options["scalar_map"] = {
        "encode": [["NaN", 9], [0.0, 7], ["+Infinity", 8], [0.0, 6]],  # the registry's example has the plus
        "decode": [[9, "NaN"], [8, "-Infinity"]],
    }
    chain = build([("cast_value", options), "bytes"], "f8")
    data = bytes(chain.encode(np.array([NAN, 0.0, -0.0, INF, 3.0])))
    assert data == bytes([9, 7, 7, 8, 3])
    np.testing.assert_array_equal(chain.decode(data, (5,)), [NAN, 7, 7, -INF, 3])
    single = build([("cast_value", {"data_type": "uint8", "scalar_map": {"encode": [[0.1, 5]]}}), "bytes"], "f4")
    assert bytes(single.encode(np.array([0.1, 0.2], "f4"))) == bytes([5, 0])


def test_no_dimensions(build):
    for dtype, target in (("f8", "int8"), ("i8", "float16"), ("f4", "float64"), ("u1", "uint16")):
        for rule in ("error", "clamp"):
            chain = build([("cast_value", {"data_type": target, "out_of_range": rule}), "bytes"], dtype, 0)
            assert chain.decode(chain.encode(np.array(7, dtype)), ()) == 7
    assert (
        bytes(
            build([("cast_value", {"data_type": "int8", "out_of_range": "clamp"}), "bytes"], "f8", 0).encode(
                np.array(1e9)
            )
        )
        == b"\x7f"
    )


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("f8", {}),
        ("f8", {"data_type": "string"}),
        ("f8", {"data_type": "bool"}),
        ("c16", {"data_type": "float64"}),
        ("<M8[s]", {"data_type": "int64"}),
        ("f8", {"data_type": "float32", "out_of_range": "wrap"}),
        ("f8", {"data_type": "int8", "out_of_range": "panic"}),
        ("f8", {"data_type": "int8", "rounding": "up"}),
        ("f8", {"data_type": "int8", "scalar_map": {"both": []}}),
        ("f8", {"data_type": "int8", "scalar_map": {"encode": [[1]]}}),
        ("f8", {"data_type": "int8", "scalar_map": {"encode": [["x", 1]]}}),
        ("f8", {"data_type": "int8", "scalar_map": {"encode": [[1, 300]]}}),
        ("f8", {"data_type": "int8", "scalar_map": {"encode": 5}}),
        ("f8", {"data_type": "int8", "extra": 1}),
    ],
)
def test_invalid_configurations(build, dtype, options):
    with pytest.raises(MetadataError):
        build([("cast_value", options), "bytes"], dtype, 1, None)
