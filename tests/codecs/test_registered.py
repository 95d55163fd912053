"""Codecs of the Zarr extensions registry: `bitround`, `reshape`, `conditional`, `zfp`; complex numbers of few bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.codecs import build_chain
from tegula.codecs.chain import CodecChain
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import CodecSpec
from tegula.runtime import executors

NAMES = ["reference", "kernel"] if executors.kernel() is not None else ["reference"]


def chain_of(codecs: list[Any], dtype: Any, shape: tuple[int, ...]) -> CodecChain:
    specs = [CodecSpec(name) if isinstance(name, str) else CodecSpec(*name) for name in codecs]
    return build_chain(specs, as_data_type(dtype), None, ndim=len(shape), chunk_shape=shape)


def through_both(values: Any, codecs: list[Any], dtype: Any = None, **options: Any) -> Any:
    """Write and read an array with each executor; the results must be the same."""
    read, stored = [], []
    for executor in NAMES:
        with config.configure(executor=executor):
            store = tegula.MemoryStore()
            array = tegula.create_array(
                store, shape=values.shape, dtype=values.dtype if dtype is None else dtype, codecs=codecs, **options
            )
            array[...] = values
            read.append(tegula.open_array(store)[...])
            stored.append({key: store.get(key) for key in store.list()})
    assert all(each.tobytes() == read[0].tobytes() for each in read)
    assert all(each == stored[0] for each in stored)
    return read[0]


# --- bitround


@pytest.mark.parametrize(
    "dtype", ["i1", "u2", "<i4", ">u4", "<i8", ">f2", "<f4", "f8", ">c8", "c16", "M8[s]", "m8[ms]"]
)
def test_bitround_keeps_the_highest_bits(dtype: str) -> None:
    values = np.arange(-60, 60).astype(dtype)
    found = through_both(values, [{"name": "bitround", "keepbits": 3}, "bytes", "zstd"], chunks=50)
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(found[60:69], values[60:69])  # 0 to 8 have no more than 3 bits, or 4 with the implied one
    assert len({*found.tolist()}) < len(values)
    again = through_both(found, [{"name": "bitround", "keepbits": 3}, "bytes"])
    assert np.array_equal(again, found)


def test_bitround_is_that_of_numcodecs_for_floating_point_numbers() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    values = np.random.default_rng(1).normal(size=100).astype("f4")
    for keepbits in (0, 1, 7, 22, 23):
        found = through_both(values, [{"name": "bitround", "keepbits": keepbits}, "bytes"])
        assert found.tobytes() == numcodecs.BitRound(keepbits).encode(values).tobytes()
    assert np.array_equal(through_both(values, [{"name": "bitround", "keepbits": 40}, "bytes"]), values)


def test_bitround_of_types_that_numpy_lacks() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.linspace(-3, 3, 20).astype("f4").astype(ml_dtypes.bfloat16)
    found = through_both(values, [{"name": "bitround", "keepbits": 2}, "bytes"], dtype="bfloat16")
    assert {*(found.view("u2") & 0b11111)} == {0}
    pairs = values.view("u2").reshape(10, 2).copy().view("V4").reshape(10).view(as_data_type("complex_bfloat16").numpy)
    both = through_both(pairs, [{"name": "bitround", "keepbits": 2}, "bytes"], dtype="complex_bfloat16")
    assert both.tobytes() == found.tobytes()


def test_bitround_in_zarr2_is_that_of_numcodecs() -> None:
    store = tegula.MemoryStore()
    tegula.create_array(store, shape=3, dtype="f4", format="zarr2", codecs=[{"name": "bitround", "keepbits": 3}])
    assert b'"id": "bitround"' in (store.get(".zarray") or b"")
    with pytest.raises(UnsupportedError):
        tegula.create_array({}, shape=3, dtype="i4", format="zarr2", codecs=[{"name": "bitround", "keepbits": 3}])


@pytest.mark.parametrize(
    ("dtype", "options"),
    [("f4", {}), ("f4", {"keepbits": -1}), ("f4", {"keepbits": 1.5}), ("i4", {"keepbits": 0}), ("S3", {"keepbits": 3}),
     ("bool", {"keepbits": 1}), (str, {"keepbits": 1}), ("float8_e5m2", {"keepbits": 1}),
     ("f4", {"keepbits": 1, "x": 1})],
)  # fmt: skip
def test_bitround_that_is_not_valid(dtype: Any, options: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        chain_of([("bitround", options), "bytes" if dtype is not str else "vlen-utf8"], dtype, (4,))


# --- reshape


VALUES = np.arange(4 * 6 * 5, dtype="<i4").reshape(4, 6, 5)


@pytest.mark.parametrize(
    ("rule", "shape"),
    [([[0, 1], [2]], (24, 5)), ([-1], (120,)), ([[0], 3, 2, [2]], (4, 3, 2, 5)), ([2, -1], (2, 60)),
     ([[0, 1, 2]], (120,)), ([1, [0], [1, 2], 1], (1, 4, 30, 1)), ([[0, 1], -1], (24, 5))],
)  # fmt: skip
def test_reshape(rule: list[Any], shape: tuple[int, ...]) -> None:
    chain = chain_of([("reshape", {"shape": rule}), "bytes"], "i4", VALUES.shape)
    assert chain.array_codecs[0].shape(VALUES.shape) == shape
    for rest in (["bytes"], ["bytes", "zstd"], [{"name": "numcodecs.delta", "dtype": "<i4"}, "bytes"]):
        assert np.array_equal(through_both(VALUES, [{"name": "reshape", "shape": rule}, *rest]), VALUES)


@pytest.mark.parametrize("codecs", [
    [{"name": "reshape", "shape": [[0, 1], [2]]}, {"name": "transpose", "order": [1, 0]}, "bytes"],
    [{"name": "transpose", "order": [2, 0, 1]}, {"name": "reshape", "shape": [[0, 1], [2]]}, "bytes", "crc32c"],
    [{"name": "reshape", "shape": [[0, 1], [2]]},
     {"name": "sharding_indexed", "chunk_shape": [3, 5], "codecs": ["bytes", "crc32c"]}],
])  # fmt: skip
def test_reshape_beside_other_codecs(codecs: list[Any]) -> None:
    assert np.array_equal(through_both(VALUES, codecs, fill_value=-1), VALUES)
    part = VALUES.copy()
    part[1:3] = -1
    assert np.array_equal(through_both(part, codecs, fill_value=-1), part)


@pytest.mark.parametrize(
    ("chunk", "shape"), [((1, 6, 1), (6,)), ((4, 1, 5), (4, 5)), ((1, 1, 1), (1,)), ((4, 6, 5), (4, 6, 5))]
)
def test_squeeze(chunk: tuple[int, ...], shape: tuple[int, ...]) -> None:
    chain = chain_of(["zarrs.squeeze", "bytes"], "i4", chunk)
    assert chain.array_codecs[0].shape(chunk) == shape
    inner = {"name": "sharding_indexed", "chunk_shape": [1] * len(shape), "codecs": ["bytes", "crc32c"]}
    turn = {"name": "transpose", "order": [*range(len(shape))][::-1]}
    for rest in (["bytes"], ["bytes", "zstd"], [inner], [turn, "bytes"]):
        values = through_both(VALUES, [{"name": "zarrs.squeeze"}, *rest], chunks=chunk, fill_value=-1)
        assert np.array_equal(values, VALUES)
    with pytest.raises(UnsupportedError, match="different shapes"):
        through_both(VALUES, [{"name": "zarrs.squeeze"}, "bytes"], chunks=([1, 3], 6, 5))
    with pytest.raises(MetadataError):
        chain_of([("zarrs.squeeze", {"axis": 0}), "bytes"], "i4", chunk)


def test_reshape_of_chunks_of_varying_shapes() -> None:
    codecs = [{"name": "reshape", "shape": [[0, 1], [2]]}, "bytes"]
    assert np.array_equal(through_both(VALUES, codecs, chunks=([1, 3], 6, [2, 3])), VALUES)


@pytest.mark.parametrize("rule", [
    [[1], [0], [2]], [[0, 0], [1], [2]], [[3]], [-1, -1], [0, -1], [-2], [1.5], ["a"], [[0, 1]], [7, -1],
    [[0], 6, [2], 2], [[-1]], [[True]], [True, -1], None, 3, {},
])  # fmt: skip
def test_reshape_that_is_not_valid(rule: Any) -> None:
    with pytest.raises(MetadataError):
        chain_of([("reshape", {"shape": rule}), "bytes"], "i4", VALUES.shape)


# --- conditional


NESTED = [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, {"name": "zstd"}]


def test_conditional_codecs_are_applied_where_they_make_a_chunk_smaller() -> None:
    values = np.concatenate([np.zeros(500, "i4"), np.random.default_rng(1).integers(0, 2**31, 500).astype("i4")])
    found = through_both(values, ["bytes", {"name": "conditional", "codecs": ["zstd"]}, "crc32c"], chunks=500)
    assert np.array_equal(found, values)
    chain = chain_of(["bytes", ("conditional", {"codecs": NESTED})], "i4", (500,))
    small, large = (bytes(chain.encode(part)) for part in (values[:500], values[500:]))
    assert small[0] in (0b10, 0b11)
    assert len(small) < 100
    assert large[0] in (0, 0b11)
    assert len(large) <= 2001
    for part in (values[:500], values[500:]):
        assert np.array_equal(chain.decode(chain.encode(part), (500,)), part)


@pytest.mark.parametrize(("bits", "size"), [(None, 1), (8, 1), (24, 3)])
def test_the_bits_of_conditional_codecs(bits: int | None, size: int) -> None:
    options: dict[str, Any] = {"codecs": [{"name": "gzip"}, {"name": "crc32c"}], "header_bits": bits}
    if bits is None:
        del options["header_bits"]
    chain = chain_of(["bytes", ("conditional", options)], "u1", (3,))
    plain = np.array([1, 2, 3], "u1")
    assert bytes(chain.encode(plain)) == bytes(size) + b"\1\2\3"
    for mask in (0b00, 0b01, 0b10, 0b11):
        data: Any = plain.tobytes()
        for number, name in enumerate(("gzip", "crc32c")):
            if mask >> number & 1:
                data = bytes(chain_of(["bytes", name], "u1", (len(data),)).encode(np.frombuffer(data, "u1")))
        assert chain.decode(mask.to_bytes(size, "little") + data, (3,)).tolist() == [1, 2, 3]
    for wrong in (b"", b"\4" + bytes(size - 1) + b"\1\2\3", bytes(size) + b"\1\2", bytes(size) + b"\1\2\3\4", b"\1"):
        with pytest.raises(CodecError):
            chain.decode(wrong, (3,))


@pytest.mark.parametrize("options", [
    {}, {"codecs": 3}, {"codecs": ["bytes"]}, {"codecs": [{"name": "transpose"}]}, {"codecs": [3]},
    {"codecs": [{"name": "gzip", "configuration": 3}]}, {"codecs": ["gzip"], "header_bits": 4},
    {"codecs": ["gzip"] * 9, "header_bits": 8}, {"codecs": ["gzip"], "x": 1}, {"codecs": ["gzip"] * 65},
])  # fmt: skip
def test_conditional_codecs_that_are_not_valid(options: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        chain_of(["bytes", ("conditional", options)], "i4", (4,))


def test_conditional_codecs_do_not_unpickle_unasked() -> None:
    with pytest.raises(UnsupportedError):
        chain_of(["bytes", ("conditional", {"codecs": [{"name": "numcodecs.pickle"}]})], "i4", (4,))


# --- zfp


@pytest.fixture
def zfpy() -> Any:
    return pytest.importorskip("zfpy")


@pytest.mark.usefixtures("zfpy")
@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "<i4", ">i4", "u4", "i8", "u8", "f2", "<f4", ">f8", "bfloat16", "M8[s]", "m8[ms]"]
)
def test_zfp_without_loss(dtype: str) -> None:
    values = np.arange(7 * 9).reshape(7, 9).astype(as_data_type(dtype).numpy)
    found = through_both(values, [{"name": "zfp", "mode": "reversible"}], dtype=dtype, chunks=(4, 9))
    assert np.array_equal(found, values)


@pytest.mark.usefixtures("zfpy")
@pytest.mark.parametrize("shape", [(), (5,), (4, 4), (3, 5, 2), (2, 3, 4, 5)])
def test_zfp_of_every_number_of_dimensions(shape: tuple[int, ...]) -> None:
    values = np.sin(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    assert np.array_equal(through_both(values, [{"name": "zfp", "mode": "reversible"}], chunks=shape), values)
    close = through_both(values, [{"name": "zfp", "mode": "fixed_accuracy", "tolerance": 1e-3}], chunks=shape)
    assert np.abs(close - values).max() <= 1e-3


def test_zfp_writes_what_the_library_does_without_a_header(zfpy: Any) -> None:
    values = np.sin(np.arange(40.0)).reshape(5, 8)
    modes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"mode": "reversible"}, {}), ({"mode": "fixed_rate", "rate": 16}, {"rate": 16.0}),
        ({"mode": "fixed_precision", "precision": 20}, {"precision": 20}),
        ({"mode": "fixed_accuracy", "tolerance": 0.03125}, {"tolerance": 0.03125}),
    ]  # fmt: skip
    for options, theirs in modes:
        chain = chain_of([("zfp", options)], "f8", values.shape)
        data = bytes(chain.encode(values))
        assert data == zfpy.compress_numpy(values, write_header=False, **theirs)
        assert np.allclose(chain.decode(data, values.shape), values, atol=0.05)
    # the last of these modes is an expert mode, which is stated by all of its numbers
    expert = chain_of(
        [("zfp", {"mode": "expert", "minbits": 1, "maxbits": 16658, "maxprec": 64, "minexp": -5})], "f8", values.shape
    )
    assert np.array_equal(expert.decode(data, values.shape), chain.decode(data, values.shape))
    with pytest.raises(UnsupportedError, match="expert"):
        expert.encode(values)


@pytest.mark.usefixtures("zfpy")
def test_zfp_of_unsigned_integers_that_it_lacks() -> None:
    chain = chain_of([("zfp", {"mode": "reversible"})], "u4", (4,))
    with pytest.raises(CodecError, match="no values above"):
        chain.encode(np.array([1, 2, 3, 2**32 - 1], "u4"))


@pytest.mark.usefixtures("zfpy")
@pytest.mark.parametrize(
    ("dtype", "shape", "options"),
    [("f8", (4,), {}), ("f8", (4,), {"mode": "other"}), ("f8", (4,), {"mode": "fixed_rate"}),
     ("f8", (4,), {"mode": "fixed_rate", "rate": -1}), ("f8", (4,), {"mode": "fixed_rate", "rate": float("nan")}),
     ("f8", (4,), {"mode": "fixed_accuracy", "tolerance": 10**400}),
     ("f8", (4,), {"mode": "fixed_precision", "precision": 0}), ("f8", (4,), {"mode": "reversible", "rate": 3}),
     ("f8", (1,) * 5, {"mode": "reversible"}), ("c8", (4,), {"mode": "reversible"}),
     ("S3", (4,), {"mode": "reversible"}),
     ("f8", (4,), {"mode": "expert", "minbits": 1, "maxbits": 3, "maxprec": 4})],
)  # fmt: skip
def test_zfp_that_is_not_valid(dtype: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        chain_of([("zfp", options)], dtype, shape)


# --- complex numbers that NumPy lacks

COMPLEX = [
    "complex_bfloat16", "complex_float16", "complex_float4_e2m1fn", "complex_float6_e2m3fn", "complex_float6_e3m2fn",
    "complex_float8_e3m4", "complex_float8_e4m3", "complex_float8_e4m3b11fnuz", "complex_float8_e4m3fnuz",
    "complex_float8_e5m2", "complex_float8_e5m2fnuz", "complex_float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("last", [
    lambda part: {"name": "bytes", "endian": "little"}, lambda part: {"name": "bytes", "endian": "big"},
    lambda part: {"name": "packbits"},
])  # fmt: skip
def test_complex_numbers_of_small_parts(name: str, last: Callable[[Any], Any]) -> None:
    pytest.importorskip("ml_dtypes")
    dtype = as_data_type(name).numpy
    values = np.zeros((3, 4), dtype)
    values["real"], values["imag"] = np.array([1, 2, 0.5, 4]).astype(dtype["real"]), np.ones((), dtype["imag"])
    found = through_both(values, [last(dtype["real"]), "zstd"], dtype=name, chunks=(2, 4), fill_value=2 - 0j)
    assert found.tobytes() == values.tobytes()
