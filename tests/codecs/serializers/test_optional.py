"""``zarrs.optional``: elements that may be missing, as records of a value and whether it is valid."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.data_types import as_data_type, data_type_from_json, data_type_to_json

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
INNER: list[Any] = [
    "uint8", "bool", "float64", "complex64", "bfloat16", "r24", "complex_float16",
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}},
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}},
    {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "int16"}]}},
]  # fmt: skip


def optional(inner: Any) -> dict[str, Any]:
    named = {"name": inner, "configuration": {}} if isinstance(inner, str) else inner
    return {"name": "zarrs.optional", "configuration": named}


@pytest.mark.parametrize("inner", [*INNER, optional("int32"), optional(optional("int8"))])
def test_types_are_read_and_written(inner: Any) -> None:
    data_type = data_type_from_json(optional(inner))
    assert data_type.numpy.names == ("value", "valid")
    assert data_type.inner == data_type_from_json(inner)
    assert json.loads(json.dumps(data_type_to_json(data_type))) == optional(inner)
    assert str(data_type) == f"optional {data_type.inner}"
    assert pickle.loads(pickle.dumps(data_type)) == data_type
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(5, 4), chunks=(2, 3), dtype=optional(inner))
    values = np.zeros((5, 4), data_type.numpy)
    if data_type.inner is not None and data_type.inner.numpy.kind == "U":
        values[1:, ::2] = "ab", True
    else:
        values.view("u1").reshape(5, 4, -1)[1:, ::2] = 1
    array[...] = values
    assert tegula.open(store)[...].tobytes() == values.tobytes()
    assert array[1:, ::2]["valid"].all()
    assert not array[0]["valid"].any()
    assert tegula.check(store).findings == []


@pytest.mark.parametrize(
    ("inner", "json_value", "value"),
    [("uint8", None, (0, False)), ("uint8", [42], (42, True)), ("float32", ["Infinity"], (np.inf, True)),
     (optional("uint8"), None, ((0, False), False)), (optional("uint8"), [None], ((0, False), True)),
     (optional("uint8"), [[42]], ((42, True), True))],
)  # fmt: skip
def test_fill_values(inner: Any, json_value: Any, value: Any) -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=2, dtype=optional(inner), fill_value=value)
    assert json.loads(store.get("zarr.json") or b"")["fill_value"] == json_value
    for each in (array, tegula.open(store)):
        assert each[0].item() == value
        assert each.fill_value.item() == value


@pytest.mark.parametrize("stated", [[], [1, 2], 1, "x", [300], ["x"], [None], {}])
def test_fill_values_that_are_not_valid(stated: Any) -> None:
    store = tegula.MemoryStore()
    tegula.create_array(store, shape=2, dtype=optional("uint8"))
    document = json.loads(store.get("zarr.json") or b"")
    store.set("zarr.json", json.dumps({**document, "fill_value": stated}).encode())
    with pytest.raises(MetadataError, match="value"):
        tegula.open(store)


def test_what_is_assigned() -> None:
    array = tegula.create_array({}, shape=(4, 4), dtype=optional("int32"))
    masked = np.ma.masked_greater(np.arange(4), 2)
    array[0] = masked
    array[1] = [1, None, 3.0, None]
    array[2] = np.arange(4)
    array[3, 0] = 9
    array[3, 1] = None
    array[3, 2:] = [(5, True), (6, False)]
    read = array[...]
    shown = np.ma.masked_array(read["value"], ~read["valid"])
    assert shown.tolist() == [[0, 1, 2, None], [1, None, 3, None], [0, 1, 2, 3], [9, None, 5, None]]
    array["value"] = 7
    assert array[1]["value"].tolist() == [7, 0, 7, 0]  # what is missing has no value
    assert array["valid"][0].tolist() == [True, True, True, False]
    for wrong in ("x", [1, 2, 3], [[1, "x", 2, 3]]):
        with pytest.raises((MetadataError, tegula.SelectionError)):
            array[...] = wrong
    nested = tegula.create_array({}, shape=3, dtype=optional(optional("int8")))
    nested[...] = [None, ((0, False), True), ((5, True), True)][:1] * 3
    assert not nested[...]["valid"].any()
    nested[1:] = [((0, False), True), ((5, True), True)]
    assert nested[...].tolist() == [((0, False), False), ((0, False), True), ((5, True), True)]


RECORDS = [("value", "<i4"), ("valid", "?")]
PARTLY: list[Any] = [
    np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, None], object, mask=[0, 0]), [1, None], [1, np.ma.masked],
    [(1, True), None], [1, (0, False)], np.ma.array([(1, True), (2, True)], RECORDS, mask=[0, 1]),
    np.ma.array([(1, True), (2, True)], RECORDS, mask=[(0, 0), (1, 0)]),
    np.ma.array([(1, True), (2, True)], RECORDS, mask=[(0, 0), (0, 1)]),
    np.ma.array([(1, True), (2, False)], RECORDS),
]  # fmt: skip


FOREIGN: dict[str, Callable[[Any], list[Any]]] = {
    "pandas": lambda pd: [
        pd.array([1, None], dtype="Int32"), pd.Series([1, None], dtype="Int64"), pd.Series([1, None]), [1, pd.NA],
        np.array([1, pd.NA], object), pd.DataFrame({"a": [1, None]}, dtype="Int32")["a"],
    ],
    "pyarrow": lambda pa: [pa.array([1, None]), pa.chunked_array([[1], [None]])],
    "polars": lambda pl: [pl.Series([1, None])],
    "dask.array": lambda da: [da.from_array(PARTLY[0], chunks=1, asarray=False)],
}  # fmt: skip


@pytest.mark.parametrize("library", ["numpy", *FOREIGN])
def test_what_is_missing_is_stored_as_missing(library: str) -> None:
    imported = pytest.importorskip(library)
    for values in FOREIGN[library](imported) if library in FOREIGN else PARTLY:
        assigned = tegula.create_array({}, shape=2, dtype=optional("int32"))
        assigned[:] = values
        grown = tegula.create_array({}, shape=0, chunks=4, dtype=optional("int32"))
        grown.append(values)
        created = tegula.create_array({}, data=values, dtype=optional("int32"))
        for array in (assigned, grown, created):
            assert array[:].tolist() == [(1, True), (0, False)], values


def test_large_integers_beside_missing_ones() -> None:
    large = 2**62 + 1
    for values in ([large, None], np.ma.array([large, 2], mask=[0, 1]), [(large, True), None]):
        array = tegula.create_array({}, data=values, dtype=optional("int64"))
        assert array[:].tolist() == [(large, True), (0, False)]
    pandas = pytest.importorskip("pandas")
    array[:] = pandas.Series([large, None], dtype="Int64")
    assert array[:].tolist() == [(large, True), (0, False)]


def test_missing_elements_of_nested_types() -> None:
    array = tegula.create_array({}, shape=2, dtype=optional(optional("int32")))
    array[:] = [0, ((5, False), True)]
    assert array[:].tolist() == [((0, True), True), ((0, False), True)]
    array[:] = np.ma.array([((1, True), True)] * 2, array.dtype, mask=[((1, 0), 0), ((0, 0), 1)])
    assert array[:].tolist() == [((0, False), True), ((0, False), False)]


@pytest.mark.parametrize(
    "wrong", [[None, (4,)], [(1, 2, 3), None], [1, "x"], [[1], [2, 3]], [[1, 2], None], object(), [None, ("x", True)]]
)
def test_values_that_do_not_fit(wrong: Any) -> None:
    array = tegula.create_array({}, shape=2, dtype=optional("int32"))
    for write in (partial(array.__setitem__, ...), array.append):
        with pytest.raises(MetadataError, match="can't be converted"):
            write(wrong)
    with pytest.raises(MetadataError, match="can't be converted"):
        tegula.create_array({}, data=wrong, dtype=optional("int32"))


def test_the_bytes_are_those_of_zarrs() -> None:
    """The elements and bytes are those of an example of zarrs."""
    codec = {"name": "zarrs.optional", "mask_codecs": ["packbits"], "data_codecs": [LITTLE]}
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(4, 4), chunks=(2, 2), dtype=optional("uint8"), codecs=[codec])
    array[...] = [[0, None, 2, 3], [None, 5, None, 7], [8, 9, None, None], [12, None, None, None]]
    keys = sorted(key for key in store.list() if key.startswith("c/"))
    assert keys == ["c/0/0", "c/0/1", "c/1/0"]
    stored = [(store.get(key) or b"").hex() for key in keys]
    lengths = ["01" + "00" * 7 + f"{count:02}" + "00" * 7 for count in (2, 3, 3)]
    assert stored == [lengths[0] + "090005", lengths[1] + "0b020307", lengths[2] + "0708090c"]


@pytest.mark.parametrize("codecs", [
    ["zstd", "crc32c"], [{"name": "transpose", "order": [1, 0]}],
    [{"name": "sharding_indexed", "chunk_shape": [2, 3], "codecs": [
        {"name": "zarrs.optional", "configuration": {"mask_codecs": [{"name": "bytes"}], "data_codecs": [
            {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "gzip"}]}}]}],
])  # fmt: skip
def test_beside_other_codecs(codecs: Any) -> None:
    array = tegula.create_array({}, shape=(6, 6), chunks=(4, 6), dtype=optional("int32"), codecs=codecs)
    values = np.ma.masked_equal(np.arange(36).reshape(6, 6) % 5, 3)
    array[...] = values
    for setting in ({}, {"executor": "reference"}, {"cache_bytes": 2**20}):
        with config.configure(**setting):
            read = array[1:, 2:]
            assert np.array_equal(read["valid"], ~values.mask[1:, 2:])
            assert np.ma.masked_array(read["value"], ~read["valid"]).tolist() == values[1:, 2:].tolist()


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
def test_other_formats_have_records(format: str) -> None:
    array = tegula.create_array({}, shape=9, chunks=4, dtype=optional("float32"))
    array[...] = [1, None, 3] * 3
    target = tegula.MemoryStore()
    tegula.convert(array, target, format=format, verify=True)
    assert np.array_equal(tegula.open(target)[...], array[...])
    assert tegula.compare(array, target).equal


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 15, b"\0" * 16, b"\1" + b"\0" * 15, b"\1" + b"\0" * 7 + b"\2" + b"\0" * 7 + b"\3\1",
        b"\1" + b"\0" * 7 + b"\1" + b"\0" * 7 + b"\3\1", b"\xff" * 16,
        b"\1" + b"\0" * 7 + b"\2" + b"\0" * 7 + b"\3\1\2\3",
    ],
)  # fmt: skip
def test_damaged_chunks(data: bytes) -> None:
    codec = {"name": "zarrs.optional", "mask_codecs": ["packbits"], "data_codecs": ["bytes"]}
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=4, dtype=optional("uint8"), codecs=[codec])
    store.set("c/0", data)
    with pytest.raises(CodecError):
        array[...]
    assert tegula.check(store).counts["damaged-chunk"] == 1


def test_what_is_not_valid() -> None:
    for inner in ("string", "bytes"):
        with pytest.raises(UnsupportedError, match=r"zarrs\.optional of .* not read: .* let zarrs"):
            as_data_type(optional(inner))
    deep = "int8"
    for _ in range(40):
        deep = optional(deep)  # type: ignore[assignment]
    for data_type in ({"name": "zarrs.optional"}, {"name": "zarrs.optional", "configuration": {}}, optional("x"), deep):
        with pytest.raises((MetadataError, UnsupportedError)):
            as_data_type(data_type)
    codec = {"name": "zarrs.optional", "mask_codecs": ["packbits"], "data_codecs": ["bytes"]}
    for wrong in ({**codec, "more": 1}, {"name": "zarrs.optional", "mask_codecs": ["packbits"]}, {
        **codec, "data_codecs": []}, {**codec, "data_codecs": ["zstd"]}):  # fmt: skip
        with pytest.raises(MetadataError):
            tegula.create_array({}, shape=4, dtype=optional("uint8"), codecs=[wrong])
    with pytest.raises(MetadataError, match="can't be missing"):
        tegula.create_array({}, shape=4, dtype="uint8", codecs=[codec])
