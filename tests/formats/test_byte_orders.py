"""Documents mean the same on machines of both byte orders; a type without a stated order is little-endian."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tegula
from tegula.codecs import build_chain, numcodecs_bridge
from tegula.codecs.serializers import vlen
from tegula.formats import find_format, numpy_types
from tegula.formats.numpy_types import dtype_from_json, dtype_from_text, dtype_to_json, dtype_to_text
from tegula.metadata import data_types
from tegula.metadata.data_types import DataType, data_type_from_json, dtype_of_text
from tegula.metadata.nodes import ArrayMetadata, CodecSpec
from tegula.zarr1.meta import decode_dtype, encode_dtype

MACHINES = ("little", "big")


class BigEndian:
    """NumPy of a big-endian machine, as far as it makes dtypes: types without an order are big-endian."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def dtype(self, value: Any, **options: Any) -> np.dtype[Any]:
        return np.dtype(self._stated(value), **options)

    def _stated(self, value: Any) -> Any:
        if isinstance(value, str) and value[0] not in "<>":
            return np.dtype(value).newbyteorder(">")
        if isinstance(value, list):
            return [(name, self._stated(kind), *rest) for name, kind, *rest in value]
        if isinstance(value, dict):
            return {**value, "formats": [self._stated(item) for item in value["formats"]]}
        return (self._stated(value[0]), *value[1:]) if isinstance(value, tuple) else value


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The byte order of the machine on which documents are read."""
    name: str = request.param
    if name == "big":
        for module in (data_types, numpy_types, vlen):
            monkeypatch.setattr(module, "np", BigEndian())
    return name


UNSTATED = [("f4", "<f4"), ("=f8", "<f8"), ("U3", "<U3"), ("|M8[s]", "<M8[s]"), ("c8", "<c8")]
STATED = ["<i4", ">i4", ">U3", ">m8[D]", "|S4", "|u1", "|b1", "|V3"]
PLAIN = [*UNSTATED, *((text, text) for text in STATED)]
NAMES = [("float64", "<f8"), ("int16", "<i2"), ("complex64", "<c8"), ("datetime64[ns]", "<M8[ns]"), ("bool", "|b1")]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("text", "meant"), [*PLAIN, *NAMES])
def test_a_type_without_an_order_is_little_endian(text: str, meant: str) -> None:
    assert dtype_of_text(text).str == meant
    if (text, meant) in PLAIN:
        assert dtype_from_json(text, ".zarray").numpy.str == meant
        assert dtype_from_json([["x", [["y", text]], [2]]], ".zarray").numpy["x"].base["y"].str == meant
        assert decode_dtype(text).str == decode_dtype([["x", text]])["x"].str == meant
    if text[0] != "|" or text[1] in "SV":
        assert dtype_from_text(text, "meta/storage").str == meant
    for fields in (
        f"[('x', '{text}')]",
        f"[('x', '{text}', (2,))]",
        f"{{'names': ['x'], 'formats': ['{text}'], 'offsets': [4], 'itemsize': 100}}",
        f"{{'names': ['x'], 'formats': [('{text}', (2,))], 'offsets': [4], 'itemsize': 100}}",
        f"(numpy.record, [('x', '{text}')])",
    ):
        assert dtype_from_text(fields, "meta/storage")["x"].base.str == meant
    nested = dtype_from_text(f"[('x', [('y', [('z', '{text}'), ('w', '>i8')])])]", "meta/storage")
    assert (nested["x"]["y"]["z"].str, nested["x"]["y"]["w"].str) == (meant, ">i8")


BCOLZ = {
    "meta/storage": {"dtype": "", "cparams": {"clevel": 5}, "chunklen": 10, "expectedlen": 25, "dflt": 0},
    "meta/sizes": {"shape": [25], "nbytes": 100, "cbytes": 152},
}
ZARR1 = {"meta": {
    "zarr_format": 1, "shape": [4], "chunks": [2], "dtype": "", "compression": None, "compression_opts": None,
    "fill_value": 0, "order": "C",
}}  # fmt: skip
ZARR2 = {".zarray": {
    "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "", "compressor": None, "fill_value": 0, "order": "C",
    "filters": None,
}}  # fmt: skip


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("format", "documents", "text"), [("bcolz", BCOLZ, "float64"), ("zarr1", ZARR1, "f8"), ("zarr2", ZARR2, "=f8")]
)
def test_stored_elements_are_little_endian_then_too(format: str, documents: dict[str, Any], text: str) -> None:
    raw = {key: json.dumps({k: text if k == "dtype" else v for k, v in d.items()}) for key, d in documents.items()}
    metadata = find_format(format).parse({key: document.encode() for key, document in raw.items()})
    assert isinstance(metadata, ArrayMetadata)
    assert metadata.data_type.numpy.str == "<f8"
    assert metadata.codecs[0] == CodecSpec("bytes", {"endian": "little"})


@pytest.mark.usefixtures("machine")
def test_zarr3_structs_are_little_endian_unless_the_codec_sets_endian() -> None:
    inner = {"name": "struct", "configuration": {"fields": [{"name": "y", "data_type": "float32"}]}}
    fields = [{"name": "x", "data_type": inner}, {"name": "z", "data_type": "int64"}]
    dtype = data_type_from_json({"name": "struct", "configuration": {"fields": fields}}).numpy
    assert (dtype["x"]["y"].str, dtype["z"].str) == ("<f4", "<i8")


def test_elements_without_a_stated_order_are_stored_little_endian() -> None:
    values = np.arange(6, dtype="f8")
    array = tegula.create_array({}, data=values, codecs=["bytes"], format="zarr3")
    key = next(key for key in array.store.list() if key.startswith("c/"))
    assert array.store.get(key) == values.astype("<f8").tobytes()
    document = json.loads(array.store.get("zarr.json"))
    document["codecs"] = [{"name": "bytes"}]
    array.store.set("zarr.json", json.dumps(document).encode())
    assert tegula.open(array.store)[...].tolist() == values.tolist()


# --- writing


def stored_types() -> st.SearchStrategy[np.dtype[Any]]:
    simple = arrays.scalar_dtypes() | arrays.byte_string_dtypes(min_len=1) | arrays.unicode_string_dtypes(min_len=1)
    return simple | arrays.array_dtypes(simple) | arrays.nested_dtypes(simple)


def normal(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.base if dtype.subdtype is not None else dtype


@given(stored_types().map(normal), st.sampled_from(MACHINES), st.sampled_from(MACHINES))
def test_types_as_text_mean_the_same_wherever_they_were_written(dtype: np.dtype[Any], writer: str, reader: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if reader == "big":
            patch.setattr(data_types, "np", BigEndian())
            patch.setattr(numpy_types, "np", BigEndian())
        if dtype.itemsize:
            assert dtype_from_text(dtype_to_text(dtype, writer), "meta/storage") == dtype
            assert dtype_from_json(json.loads(json.dumps(dtype_to_json(DataType(dtype)))), ".zarray").numpy == dtype
            assert decode_dtype(encode_dtype(dtype)) == dtype


@pytest.mark.parametrize("name", ["f8", "i4", "c16", "M8[s]", "m8"])
def test_a_big_endian_machine_states_the_order(name: str) -> None:
    for order in "<>":
        dtype = np.dtype(order + name)
        assert dtype_to_text(dtype, "big") == dtype.str
        assert dtype_to_text(dtype, "little") == str(dtype)  # as bcolz writes it


# --- options of numcodecs' filters


def filter_of(name: str, options: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the filter of numcodecs for elements of a type."""
    specs = [CodecSpec(f"numcodecs.{name}", options), CodecSpec("bytes", {"endian": "little"})]
    return build_chain(specs, DataType(dtype), np.zeros((), dtype), ndim=2).array_codecs[0]


def taken(options: dict[str, Any]) -> str:
    return next((str(options[key]).strip("=") for key in ("dtype", "decode_dtype") if key in options), "i4")


FILTERS = [
    ("delta", {"dtype": "i4"}),
    ("delta", {}),
    ("delta", {"dtype": "=i4", "astype": "i8"}),
    ("quantize", {"digits": 2, "dtype": "f4"}),
    ("fixedscaleoffset", {"offset": 1, "scale": 4, "dtype": "f8", "astype": "i4"}),
    ("astype", {"encode_dtype": "f8", "decode_dtype": "i4"}),
]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("name", "options"), FILTERS)
def test_types_in_options_of_filters_are_little_endian(name: str, options: dict[str, Any]) -> None:
    config = filter_of(name, options, np.dtype("<" + taken(options))).codec.get_config()
    assert all(config[key][0] == "<" for key in ("dtype", "astype", "encode_dtype", "decode_dtype") if key in config)


@pytest.mark.parametrize(("name", "options"), FILTERS)
def test_filters_of_elements_in_big_endian_memory(name: str, options: dict[str, Any]) -> None:
    """On a big-endian machine elements are big-endian in memory, and filters store the same all the same."""
    little, big = (np.dtype(order + taken(options)) for order in "<>")
    usual = filter_of(name, options, little)
    swapped = numcodecs_bridge._Filter(usual.name, usual.codec, DataType(big), usual.data_type, little)
    values = np.arange(12).reshape(3, 4)
    encoded = swapped.encode(values.astype(big))
    assert encoded.tobytes() == usual.encode(values.astype(little)).tobytes()
    decoded = swapped.decoder((3, 4))(encoded)
    assert decoded.dtype == big
    assert decoded.tolist() == usual.decoder((3, 4))(encoded).tolist()
    assert swapped.native is None


@pytest.mark.usefixtures("machine")
def test_ragged_arrays_of_a_type_without_an_order() -> None:
    chain = build_chain([CodecSpec("numcodecs.vlen-array", {"dtype": "i4"})], data_types.OBJECT, None, ndim=1)
    raw = struct.pack("<5i", 1, 12, 1, 2, 3)
    assert chain.decode(raw, (1,))[0].tolist() == [1, 2, 3]
