"""Data types and fill values: round trips through JSON, bit by bit, and rejection of invalid JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.metadata.data_types import (
    BYTES,
    EXTENDED,
    OBJECT,
    STRING,
    DataType,
    as_data_type,
    data_type_from_json,
    data_type_to_json,
    packed,
)
from tegula.metadata.fill_value_json import fill_from_json, fill_to_json
from tegula.metadata.fill_values import default_fill, scalar_array

pytestmark = pytest.mark.once(executors="none")

PLAIN = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
UNITS = "Y M W D h m s ms us ns ps fs as".split()

simple = st.one_of(
    st.sampled_from(PLAIN).map(np.dtype),
    st.integers(0, 9).map(lambda n: np.dtype(f"V{n}")),
    st.integers(1, 9).map(lambda n: np.dtype(f"S{n}")),
    st.integers(1, 5).map(lambda n: np.dtype(f"U{n}")),
    st.builds(
        lambda kind, scale, unit: np.dtype(f"{kind}[{scale}{unit}]"),
        st.sampled_from(["M8", "m8"]), st.integers(1, 1000), st.sampled_from(UNITS),
    ),
    st.sampled_from(["M8", "m8"]).map(np.dtype),
)  # fmt: skip
extended = st.sampled_from([*EXTENDED.values()])


def structs(parts: st.SearchStrategy[np.dtype[Any]]) -> st.SearchStrategy[np.dtype[Any]]:
    names = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
    return names.flatmap(
        lambda found: st.tuples(*[parts for _ in found]).map(lambda types: np.dtype([*zip(found, types)]))
    )


fixed = st.recursive(simple | extended, structs, max_leaves=6)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(fixed)
def test_a_data_type_is_read_back_from_its_name(dtype: np.dtype[Any]) -> None:
    data_type = DataType(dtype)
    assert data_type_from_json(through_json(data_type_to_json(data_type))) == data_type
    assert as_data_type(dtype) == data_type


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bool", "?"), ("int8", "i1"), ("uint64", "u8"), ("float16", "f2"), ("complex64", "c8"),
        ("complex_float64", "c16"),
        ("r16", "V2"), ({"name": "int32"}, "i4"), ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "V3"),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "U2"),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 8}}, "S8"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "μs", "scale_factor": 3}}, "M8[3us]"),
        (
            {"name": "structured", "configuration": {"fields": [["a", "int8"], ["b", "bool"]]}},
            [("a", "i1"), ("b", "?")],
        ),
    ],
)  # fmt: skip
def test_names_of_the_registry(value: Any, expected: Any) -> None:
    found = data_type_from_json(value)
    assert found.numpy == np.dtype(expected)
    again = data_type_to_json(found)
    assert data_type_from_json(again) == found


@pytest.mark.parametrize("name", ["r16", "complex_float64", "string", "bytes", "variable_length_bytes"])
def test_an_alias_is_kept(name: str) -> None:
    assert data_type_to_json(data_type_from_json(name)) == name


def test_variable_length_types() -> None:
    assert as_data_type(str) == as_data_type("string") == as_data_type(np.dtypes.StringDType()) == STRING
    assert as_data_type(bytes) == as_data_type("bytes") == BYTES
    assert as_data_type(object) == OBJECT
    with pytest.raises(UnsupportedError):
        data_type_to_json(OBJECT)
    with pytest.raises(UnsupportedError):
        as_data_type([("a", "O")])


def test_packed_removes_padding() -> None:
    aligned = np.dtype([("a", "u1"), ("b", np.dtype("u1,f8", align=True), (2,))], align=True)
    assert packed(aligned).itemsize == 1 + 2 * 9
    assert packed(aligned).names == aligned.names


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "int8", "r8", "r7", "r999999999999", "raw_bytes", "null_terminated_bytes", "fixed_length_utf32", "numpy.datetime64",
    "numpy.timedelta64", "struct", "structured", "string", "bytes", "bfloat16", "int4", "nothing", "",
]  # fmt: skip
hostile = json_values | st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES) | json_values},
    optional={
        "configuration": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "length_bytes": json_values | st.sampled_from([-4, 0, 4, 2**31, 2**40]),
                "unit": json_values | st.sampled_from([*UNITS, "generic"]),
                "scale_factor": json_values | st.sampled_from([0, 1, 2**31]),
                "fields": json_values | st.lists(st.lists(st.sampled_from(NAMES), min_size=2, max_size=2), max_size=3),
            },
        )
    },
)


@given(hostile)
@example({"name": "numpy.datetime64", "configuration": {"unit": []}})
@example({"name": "struct", "configuration": {"fields": [["a", "r17179869176"], ["b", "r17179869176"]]}})
def test_invalid_data_types_are_rejected(value: Any) -> None:
    try:
        found = data_type_from_json(value)
    except TegulaError:
        return
    assert found.itemsize < 2**31


def test_nesting_is_limited() -> None:
    value: Any = "int8"
    for _ in range(60):
        value = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": value}]}}
    with pytest.raises(MetadataError):
        data_type_from_json(value)


# --- fill values


def element_of(dtype: np.dtype[Any]) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Draw a 0-d array with any bit pattern that is valid for the type."""
    if dtype == np.dtype(bool):
        return st.booleans().map(np.array)
    if dtype.names is not None:

        def build(parts: tuple[Any, ...]) -> np.ndarray[Any, Any]:
            out = np.zeros((), dtype)
            for name, part in zip(dtype.names or (), parts):
                out[name] = part[()]
            return out

        return st.tuples(*[element_of(dtype[name]) for name in dtype.names]).map(build)
    if dtype.kind == "U":
        return st.text(max_size=dtype.itemsize // 4).map(lambda text: np.array(text, dtype))
    if dtype in EXTENDED.values():
        bits = 4 if "4" in dtype.name[:6] else 2 if "int2" in dtype.name else 6 if "float6" in dtype.name else 8
        if "int" in dtype.name:
            unsigned = dtype.name.startswith("u")
            low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            return st.integers(low, high).map(lambda value: np.array(value).astype(dtype))
        if dtype.itemsize == 1:
            return st.integers(0, 2**bits - 1).map(lambda value: np.array(value, "u1").view(dtype))
    size = dtype.itemsize
    special = [
        np.array(value, dtype).tobytes() for value in (0.0, -0.0, np.inf, -np.inf, np.nan)
    ] if dtype.kind in "fc" else []  # fmt: skip
    raw = st.binary(min_size=size, max_size=size)
    raw = raw | st.sampled_from(special) if special else raw
    return raw.map(lambda data: np.frombuffer(data, dtype).reshape(()).copy() if size else np.zeros((), dtype))


@given(fixed.flatmap(lambda dtype: st.tuples(st.just(dtype), element_of(dtype))))
def test_a_fill_value_survives_a_round_trip_bit_by_bit(drawn: tuple[np.dtype[Any], np.ndarray[Any, Any]]) -> None:
    dtype, fill = drawn
    data_type = DataType(dtype)
    again = fill_from_json(through_json(fill_to_json(fill, data_type)), data_type)
    assert again.dtype == dtype
    assert again.shape == ()
    assert again.tobytes() == fill.tobytes()


@pytest.mark.parametrize(
    ("dtype", "bits", "spelling"),
    [
        ("f4", 0x7FC00000, "NaN"), ("f4", 0x7F800001, "0x7f800001"), ("f4", 0xFFC00000, "0xffc00000"),
        ("f8", 0x7FF8000000000000, "NaN"), ("f8", 0x7FF0000000000001, "0x7ff0000000000001"), ("f2", 0x7E01, "0x7e01"),
        ("f8", 0xFFF0000000000000, "-Infinity"),
    ],
)  # fmt: skip
def test_nan_payloads_are_written_in_hexadecimal(dtype: str, bits: int, spelling: str) -> None:
    data_type = as_data_type(dtype)
    fill = np.array(bits, f"u{data_type.itemsize}").view(dtype)
    assert fill_to_json(fill, data_type) == spelling
    assert int(fill_from_json(spelling, data_type).view(f"u{data_type.itemsize}")) == bits
    other = DataType(data_type.numpy.newbyteorder())
    assert fill_from_json(spelling, other).tobytes() == fill.tobytes()[::-1]


def test_negative_zero_is_kept() -> None:
    for dtype in ("f2", "f4", "f8", "c8", "c16", "bfloat16"):
        data_type = as_data_type(dtype)
        zero = np.zeros((), data_type.numpy)
        fill = -zero
        again = fill_from_json(through_json(fill_to_json(fill, data_type)), data_type)
        assert again.tobytes() == fill.tobytes() != zero.tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("i4", 1.0), ("i4", "1"), ("i4", True), ("i4", None), ("i4", 2**31), ("u1", -1), ("u1", 256), ("int4", 8),
        ("uint2", 4), ("?", 1), ("?", "true"), ("f4", True), ("f4", "nan"), ("f4", "0x1ffffffff"), ("f4", "0x"),
        ("f4", []),
        ("c8", 1), ("c8", [1]), ("c8", [1, 2, 3]), ("c8", "NaN"), ("c8", [1, "x"]), ("M8[s]", 1.5), ("M8[s]", 2**63),
        ("m8[s]", "soon"), ("U2", 5), ("r16", [1]), ("r16", [1, 256]), ("r16", [1, True]), ("S2", "!!"),
        ("S2", "YWJjZA=="),
        ("V2", "YQ=="), ([("a", "i1")], {"b": 1}), ([("a", "i1")], {"a": 1, "b": 1}), ([("a", "i1")], {"a": 300}),
        ([("a", "i1")], "YWI="), ([("a", "i1")], 1), ("string", 0), ("string", None), ("bytes", 5), ("bytes", "!"),
        ("bytes", [256]),
    ],
)  # fmt: skip
def test_json_of_the_wrong_type_is_rejected(dtype: Any, value: Any) -> None:
    with pytest.raises(MetadataError) as caught:
        fill_from_json(value, as_data_type(dtype))
    assert caught.value.field == "fill_value"


@given(fixed | st.sampled_from([STRING, BYTES]), json_values)
def test_any_json_value_is_a_fill_value_or_rejected(dtype: Any, value: Any) -> None:
    data_type = dtype if isinstance(dtype, DataType) else DataType(dtype)
    try:
        fill = fill_from_json(value, data_type)
    except TegulaError:
        return
    assert fill.shape == ()
    assert fill.dtype == data_type.numpy


python_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=4),
    st.binary(max_size=4), st.lists(st.integers(0, 3), max_size=2), st.builds(object), st.just(np.float64("nan")),
    st.sampled_from([np.int64(3), np.bool_(True), np.datetime64("2001-01-01"), np.array(3), np.array([1, 2])]),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@given(fixed | st.sampled_from([STRING, BYTES]), python_values)
@example(np.dtype([("0", "S1")]), np.datetime64("2001-01-01"))
@example(BYTES, 10**12)
def test_any_python_value_is_converted_or_rejected(dtype: Any, value: Any) -> None:
    data_type = dtype if isinstance(dtype, DataType) else DataType(dtype)
    try:
        fill = scalar_array(value, data_type)
    except TegulaError:
        return
    assert fill.shape == ()
    assert fill.dtype == data_type.numpy


@given(fixed)
def test_the_default_fill_value_is_zero(dtype: np.dtype[Any]) -> None:
    assert not any(default_fill(DataType(dtype)).tobytes())
    assert default_fill(STRING)[()] == ""
    assert default_fill(BYTES)[()] == b""


@pytest.mark.parametrize("name", ["numpy.datetime64", "numpy.timedelta64"])
def test_times_without_a_unit_keep_their_scale(name: str) -> None:
    document = {"name": name, "configuration": {"unit": "generic", "scale_factor": 2}}
    assert data_type_to_json(data_type_from_json(document)) == document
    kind = "M" if "date" in name else "m"
    assert data_type_to_json(as_data_type(f"{kind}8[2generic]")) == document
