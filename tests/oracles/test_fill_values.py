"""Fill values of any JSON type for any data type: what zarr-python reads is read as it does."""

import itertools
import json
import warnings
from typing import Any

import numpy as np
import pytest
import zarr

import tegula
from tegula import LocalStore
from tegula.errors import MetadataError

FILLS = [0, 1, -1, None, "", "0", "1.5", "text", False, True, 0.0, 1.5, 1e20, "NaN", "nan", "-inf", "+Infinity",
         "AAAA", "YWJj", "MA==", [0, 0], [1.5, "NaN"], {}]  # fmt: skip
V2: list[Any] = ["|b1", "<i4", ">u2", "<f4", ">f8", "<c8", "|S4", "<U4", ">U4", "|V4", "<M8[s]", "<m8[s]",
                 [["a", "<i4"], ["b", "|S2"]], "vlen-utf8", "vlen-bytes"]  # fmt: skip
V3: list[Any] = [
    "bool", "int32", "uint16", "float32", "complex64", "string", "variable_length_bytes",
    {"name": "null_terminated_bytes", "configuration": {"length_bytes": 4}},
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}},
    {"name": "raw_bytes", "configuration": {"length_bytes": 4}},
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
    {"name": "numpy.timedelta64", "configuration": {"unit": "s", "scale_factor": 1}},
]  # fmt: skip


def document_v2(dtype: Any, fill: Any) -> dict[str, Any]:
    filters = [{"id": dtype}] if str(dtype).startswith("vlen") else None
    return {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O" if filters else dtype, "compressor": None,
        "fill_value": fill, "order": "C", "filters": filters,
    }  # fmt: skip


def document_v3(data_type: Any, fill: Any) -> dict[str, Any]:
    special = {"string": "vlen-utf8", "variable_length_bytes": "vlen-bytes"}.get(str(data_type))
    codec = {"name": special} if special else {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": data_type, "fill_value": fill,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "codecs": [codec], "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }  # fmt: skip


CASES = [
    pytest.param(key, document, id=f"{key}-{types if isinstance(types, str) else 'type'}-{json.dumps(fill)}")
    for key, make, all_types in ((".zarray", document_v2, V2), ("zarr.json", document_v3, V3))
    for types, fill in itertools.product(all_types, FILLS)
    for document in [make(types, fill)]
]


def with_zarr(store: LocalStore) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return zarr.open_array(store.root, mode="r")[:]
        except Exception:  # of any kind, since few are chosen
            return None


@pytest.mark.slow
@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize(("key", "document"), CASES)
def test_what_zarr_python_reads_is_read_alike(key: str, document: dict[str, Any], tmp_path: Any) -> None:
    raw = json.dumps(document).encode()
    (store := LocalStore(tmp_path)).set(key, raw)
    dtype, fill = document.get("dtype", document.get("data_type")), document["fill_value"]
    expected = with_zarr(store)
    not_numbers = key == "zarr.json" and type(fill) in (bool, str)  # which v3 core requires of number types
    text_for_bool = dtype in ("|b1", "bool") and fill != "" and isinstance(fill, (str, list, dict, type(None)))
    try:
        found = tegula.open_array(store)[:]
    except MetadataError as error:
        refused = error.field
    else:
        refused = None
    if refused is not None:
        assert (refused, expected is None or text_for_bool or not_numbers) == ("fill_value", True)
        return
    if expected is None or (dtype == "|O" and not isinstance(fill, str)):
        return  # more is read; and zarr 2 returned what is no text as it is
    if expected.dtype.kind == "T":
        expected = expected.astype(object)
    if isinstance(dtype, list) and fill is None:
        return  # the elements of text are "0" in some versions
    np.testing.assert_array_equal(found.astype(expected.dtype), expected)


@pytest.mark.parametrize(("dtype", "fill", "expected"), [  # as zarr 2.18.7 reads them
    ("<U4", 0, "0"), ("<U4", 1, "1"), ("<U4", False, "Fals"), ("<U4", True, "True"), ("<U4", 0.0, "0.0"),
    ("<U4", -1, "-1"), (">U4", 1.5, "1.5"), ("<U4", "0", "0"), ("<U4", "", ""), ("<U4", None, ""),
    ("|S4", 0, b"0"), ("|S4", 1, b"1"), ("|S4", False, b"Fals"), ("|S4", True, b"True"), ("|S4", 1.5, b"1.5"),
    ("|S4", "0", b"0"), ("|S4", "", b""), ("|S4", "MA==", b"0"), ("|S4", "abc!", b"abc!"),
    ("|b1", 0, False), ("|b1", 1, True), ("|b1", "", False), ("|b1", 2, True), ("|b1", 0.0, False),
    ("<i4", "0", 0), ("<i4", True, 1), ("<f4", "0", 0.0), ("<f4", False, 0.0), ("|V4", "", b"\0\0\0\0"),
    ("|V4", "YWJj", b"abc\0"), ([["a", "<i4"], ["b", "|S2"]], "MA==", (48, b"")),
])  # fmt: skip
def test_numbers_for_text_are_read_as_zarr_2_does(dtype: Any, fill: Any, expected: Any) -> None:
    raw = json.dumps(document_v2(dtype, fill), indent=4).encode()
    store = tegula.MemoryStore()
    store.set(".zarray", raw)
    array = tegula.open_array(store, "r+")
    assert array[:].tolist() == [expected]
    array.attrs["x"] = 1
    assert store.get(".zarray") == raw  # a document that is written back keeps its bytes
    array.resize(5)
    written = json.loads(store.get(".zarray") or b"")
    assert (written["shape"], written["fill_value"]) == ([5], fill)
    tegula.convert(store, new := tegula.MemoryStore(), verify=True)
    assert tegula.open_array(new)[:].tolist() == [expected] * 5


@pytest.mark.parametrize(("data_type", "fill", "expected"), [
    ("bool", 0, False), ("bool", 1, True), ("bool", "", False), ("bool", 0.0, False), ("int32", 0.0, 0),
    ("string", 0, "0"), ("string", False, "False"), ("string", 1.5, "1.5"),
])  # fmt: skip
def test_numbers_for_booleans_and_text_are_read_in_v3(data_type: str, fill: Any, expected: Any) -> None:
    raw = json.dumps(document_v3(data_type, fill)).encode()
    store = tegula.MemoryStore()
    store.set("zarr.json", raw)
    array = tegula.open_array(store, "r+")
    assert array[:].tolist() == [expected]
    array.resize(2)
    assert json.loads(store.get("zarr.json") or b"")["fill_value"] == fill
    tegula.convert(store, new := tegula.MemoryStore(), format="zarr2", codecs="auto", verify=True)
    assert tegula.open_array(new)[:].tolist() == [expected] * 2


@pytest.mark.parametrize("fill", ["0", "1.5"])
@pytest.mark.parametrize("data_type", ["int8", "uint64", "float32"])
def test_numbers_may_be_text_in_v3(data_type: str, fill: Any) -> None:
    store = tegula.MemoryStore()
    store.set("zarr.json", json.dumps(document_v3(data_type, fill)).encode())
    if fill == "1.5" and data_type != "float32":
        with pytest.raises(MetadataError, match="fill_value"):
            tegula.open_array(store)
    else:
        assert tegula.open_array(store).fill_value == float(fill)


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("data_type", ["int8", "uint64", "float32"])
def test_booleans_are_no_numbers_in_v3(data_type: str, fill: bool) -> None:
    store = tegula.MemoryStore()
    store.set("zarr.json", json.dumps(document_v3(data_type, fill)).encode())
    with pytest.raises(MetadataError, match="fill_value"):
        tegula.open_array(store)
