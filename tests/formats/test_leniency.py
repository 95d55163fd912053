"""Documents that other writers make: read as zarr-python reads them, and noted by `check`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.core.buffer.cpu import Buffer

import tegula
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import FORMATS, oddities, parse

ZARRAY: dict[str, Any] = {
    "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i2", "compressor": None, "fill_value": 7, "order": "C",
    "filters": None,
}  # fmt: skip
ZARR3: dict[str, Any] = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int16", "fill_value": 7, "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}  # fmt: skip
CHUNK = np.array([1, 2], "<i2").tobytes()
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
Encode = Callable[[str], bytes]
ENCODINGS: dict[str, Encode] = {
    "utf-8-sig": lambda text: text.encode("utf-8-sig"),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
}


def without(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def sharded(**inner: Any) -> dict[str, Any]:
    codecs = [*ZARR3["codecs"], {"name": "blosc", "configuration": {**without(BLOSC, "id"), "typesize": 2, **inner}}]
    codecs[1]["configuration"]["shuffle"] = "shuffle"
    index = [{"name": "endian", "configuration": {"endian": "little"}}]
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": codecs, "index_codecs": index}}


# what is unusual, and the fields that are noted
CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "2: no filters": (without(ZARRAY, "filters"), {"filters"}),
    "2: no compressor": (without(ZARRAY, "compressor"), {"compressor"}),
    "2: neither": (without(ZARRAY, "filters", "compressor"), {"filters", "compressor"}),
    "2: scalar shape": ({**ZARRAY, "shape": 4}, {"shape"}),
    "2: scalar chunks": ({**ZARRAY, "chunks": 2}, {"chunks"}),
    "2: scalars": ({**ZARRAY, "shape": 4, "chunks": 2}, {"shape", "chunks"}),
    "3: attributes null": ({**ZARR3, "attributes": None}, {"attributes"}),
    "3: attributes []": ({**ZARR3, "attributes": []}, {"attributes"}),
    "3: transformers null": ({**ZARR3, "storage_transformers": None}, {"storage_transformers"}),
    "3: transformers {}": ({**ZARR3, "storage_transformers": {}}, {"storage_transformers"}),
    "3: scalar shape": ({**ZARR3, "shape": 4}, {"shape"}),
    "3: scalar chunks": (
        {**ZARR3, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": 2}}}, {"chunk_grid"}
    ),
    "3: fill text": ({**ZARR3, "fill_value": "7"}, {"fill_value"}),
}  # fmt: skip
BY_TEGULA_ALONE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "2: blosc": ({**ZARRAY, "compressor": {**BLOSC, "nthreads": 4, "typesize": 2}}, {"compressor"}),
    "2: floats": ({**ZARRAY, "compressor": {**BLOSC, "clevel": 5.0, "blocksize": 0.0}}, {"compressor"}),
    "2: blosc filter": ({**ZARRAY, "filters": [{**BLOSC, "nthreads": 4}]}, {"filters"}),
    "3: endian": (
        {**ZARR3, "codecs": [{"name": "endian", "configuration": {"endian": "little"}}]}, {"codecs"}
    ),
    "3: blosc in shards": ({**ZARR3, "codecs": [sharded(nthreads=1)]}, {"codecs"}),
    "3: floats in shards": ({**ZARR3, "codecs": [sharded(clevel=5.0)]}, {"codecs"}),
}  # fmt: skip


def key_of(document: Mapping[str, Any]) -> str:
    return "zarr.json" if "node_type" in document else ".zarray"


def stored(document: Mapping[str, Any], encode: Encode = str.encode) -> dict[str, bytes]:
    key = key_of(document)
    return {key: encode(json.dumps(document)), "c/0" if key == "zarr.json" else "0": CHUNK}


def by_zarr_python(store: Mapping[str, bytes]) -> Any:
    return zarr.open_array(zarr.storage.MemoryStore({key: Buffer.from_bytes(raw) for key, raw in store.items()}))


def noted(store: Any) -> list[tuple[str, str]]:
    report = tegula.check(store)
    assert {found.kind for found in report.findings} <= {"unusual-document"}, str(report)
    assert report.ok
    return [(found.key, found.message) for found in report.findings]


@pytest.mark.parametrize("case", CASES)
def test_read_as_zarr_python_reads_it(case: str) -> None:
    document, fields = CASES[case]
    store = stored(document)
    array = tegula.open(store, mode="r+")
    theirs = by_zarr_python(store)
    assert (array.shape, array.chunks, array.dtype) == (theirs.shape, theirs.chunks, theirs.dtype)
    assert array[...].tolist() == theirs[...].tolist() == [1, 2, 7, 7]
    assert dict(array.attrs) == dict(theirs.attrs) == {}
    messages = noted(store)
    assert {key for key, _ in messages} == {key_of(document)}
    assert len(messages) == len(fields)
    assert all(any(f"field {field!r}" in text for _, text in messages) or field == "" for field in fields)


@pytest.mark.parametrize("case", BY_TEGULA_ALONE)
def test_what_no_other_reader_needs(case: str) -> None:
    document, fields = BY_TEGULA_ALONE[case]
    array = tegula.open(stored(document))
    assert all("nthreads" not in str(codec) for codec in array.metadata.codecs)
    assert noted(without(stored(document), "0", "c/0"))
    (item,) = [item for item in FORMATS.values() if item.name == array.metadata.format]
    assert {found.field for found in oddities(item, stored(document))} == fields


@pytest.mark.parametrize("case", [*CASES, *BY_TEGULA_ALONE])
def test_such_a_document_can_be_changed(case: str) -> None:
    document, _ = (CASES | BY_TEGULA_ALONE)[case]
    store = stored(document)
    key = key_of(document)
    node = parse({key: store[key]})
    assert node is not None
    assert FORMATS[node.format].serialize(node)[key] == store[key]  # nothing has changed
    array = tegula.open({key: store[key]}, mode="r+")
    array.resize(6)
    array.attrs["a"] = 1
    assert (array.shape, dict(array.attrs)) == ((6,), {"a": 1})
    again = tegula.open(array.store)
    assert (again.shape, dict(again.attrs)) == ((6,), {"a": 1})


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("document", [ZARRAY, ZARR3], ids=["zarr2", "zarr3"])
def test_a_byte_order_mark(encoding: str, document: dict[str, Any]) -> None:
    encode = ENCODINGS[encoding]
    store = stored({**document, **({"attributes": {"é": 1}} if document is ZARR3 else {})}, encode)
    if document is ZARRAY:
        store[".zattrs"] = encode('{\n    "\\u00e9": 1\n}')
    array = tegula.open(store, mode="r+")
    assert array[...].tolist() == by_zarr_python(store)[...].tolist() == [1, 2, 7, 7]
    assert dict(array.attrs) == dict(by_zarr_python(store).attrs) == {"é": 1}
    assert len(noted(store)) == len(store) - 1
    # a change leaves UTF-8 without a mark
    array.attrs["x"] = 2
    array.resize(8)
    assert (array.shape, dict(by_zarr_python(store).attrs)) == ((8,), {"é": 1, "x": 2})
    assert noted(store) == []


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_byte_order_mark_before_consolidated_metadata(format: str) -> None:
    for attributes in ({}, {"text": "x" * 2**16}):  # in a large document, members are located first
        store: dict[str, bytes] = {}
        group = tegula.create_group(store, format=format, attributes=attributes)
        group.create_array("a", shape=3, dtype="i4")[...] = 1
        group.consolidate()
        for key in [key for key in store if key.endswith(("zarr.json", ".zmetadata", ".zgroup", ".zattrs", ".zarray"))]:
            store[key] = b"\xef\xbb\xbf" + store[key]
        group = tegula.open_group(store, "r+")
        assert group["a"][...].tolist() == [1, 1, 1]
        group["a"].attrs["x"] = 1
        group.attrs["y"] = 2
        group.consolidate()
        assert tegula.open_group(store)["a"].attrs["x"] == 1
        assert tegula.open_group(store).attrs["y"] == 2


@pytest.mark.parametrize("empty", [b"null", b"[]", b" null\n"])
@pytest.mark.parametrize("format", ["zarr2", "zarr1", "bcolz"])
def test_attributes_in_a_document_of_their_own(format: str, empty: bytes) -> None:
    key = {"zarr2": ".zattrs", "zarr1": "attrs", "bcolz": "__attrs__"}[format]
    store: dict[str, bytes] = {}
    tegula.create_array(store, shape=3, dtype="i4", format=format)[...] = 1
    store[key] = empty
    array = tegula.open(store, mode="r+")
    assert dict(array.attrs) == {}
    array[0] = 2
    assert store[key] == empty
    array.attrs["a"] = 1
    assert json.loads(store[key]) == {"a": 1}
    assert dict(tegula.open(store).attrs) == {"a": 1}


def test_attributes_of_a_group() -> None:
    for documents in ({".zgroup": b'{"zarr_format": 2}', ".zattrs": b"null"},
                      {"zarr.json": b'{"zarr_format": 3, "node_type": "group", "attributes": null}'}):  # fmt: skip
        group = tegula.open_group(dict(documents), "r+")
        assert dict(group.attrs) == {}
        group.attrs["a"] = 1
        assert dict(tegula.open_group(group.store).attrs) == {"a": 1}


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("int16", ["5", "-5", " 5", "+5", 5.0]),
        ("uint8", ["200"]),
        ("uint64", [str(2**64 - 1)]),
        ("float32", ["5", "5.5", "1e3", "nan", "inf", "-inf", "infinity", " 1 ", "0x7fc00000"]),
        ("float64", ["-1E-300"]),
        ("bool", [0, 1, 2.5, ""]),
    ],
)
def test_fill_values_as_zarr_python_reads_them(data_type: str, values: list[Any]) -> None:
    for value in values:
        store = stored({**ZARR3, "data_type": data_type, "fill_value": value})
        del store["c/0"]
        found, theirs = tegula.open(store)[...], by_zarr_python(store)[...]
        assert found.tobytes() == theirs.tobytes(), value
        assert [key for key, _ in noted(store)] == ["zarr.json"] * (value != "0x7fc00000"), value


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("int16", ["5.0", "0x5", "NaN", "abc", "1e2", "", None, [5], "9" * 5000, 5.5, "40000", True, False]),
        ("float32", ["abc", "", None, "1" * 200 + "x", "0x", True]),
        ("bool", ["true", "false", "1", None]),
        ("complex64", ["1", ["1", "2"], 3, None]),
        ("numpy.datetime64", ["5"]),
    ],
)
def test_other_fill_values_are_refused(data_type: str, values: list[Any]) -> None:
    name: Any = data_type
    if "time" in data_type:
        name = {"name": data_type, "configuration": {"unit": "s", "scale_factor": 1}}
    for value in values:
        with pytest.raises(MetadataError) as caught:
            tegula.open(stored({**ZARR3, "data_type": name, "fill_value": value}))
        assert (caught.value.field, caught.value.key) == ("fill_value", "zarr.json")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("changes", [{"zarr_format": "2" * 10**6}, {"order": "C" * 10**6}, {"dtype": "x" * 10**6},
                                     {"dimension_separator": "." * 10**6}, {"compressor": "x" * 10**6}])  # fmt: skip
def test_messages_quote_the_beginning_of_a_value(changes: dict[str, Any]) -> None:
    with pytest.raises(TegulaError) as caught:
        tegula.open(stored({**ZARRAY, **changes}))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["node_type", "data_type", "chunk_grid", "chunk_key_encoding", "storage_transformers"])
def test_messages_about_zarr_3_quote_the_beginning_of_a_value(name: str) -> None:
    huge = "x" * 10**6
    with pytest.raises(TegulaError) as caught:
        tegula.open(stored({**ZARR3, name: [huge] if name == "storage_transformers" else huge}))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("codecs", "kind", "message"),
    [
        (["foo"], UnsupportedError, "unknown codec 'foo'"),
        (
            [{"name": "transpose", "configuration": {"order": [0]}}, "foo", "zstd"],
            UnsupportedError,
            "unknown codec 'foo'",
        ),
        (["foo", "bar"], UnsupportedError, "unknown codec 'foo', 'bar'"),
        ([f"c{i}" for i in range(100)], UnsupportedError, "'c4', …"),
        (["foo", "bytes"], UnsupportedError, "unknown codec 'foo'"),
        (["zstd"], MetadataError, r"such as 'bytes', but there is none in \['zstd'\]"),
        ([], MetadataError, r"but there is none in \[\]"),
        (["bytes", "vlen-utf8"], MetadataError, "not 2: 'bytes', 'vlen-utf8'"),
    ],
)
def test_codecs_that_turn_no_array_into_bytes_are_named(codecs: Any, kind: type[TegulaError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        tegula.open(stored({**ZARR3, "codecs": codecs}))
    assert caught.value.field == "codecs"
    shard = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": codecs}}
    with pytest.raises(kind):
        tegula.open(stored({**ZARR3, "codecs": [shard]}))


def test_blosc_frames_of_such_documents_are_read() -> None:
    document = {**ZARRAY, "compressor": {**BLOSC, "nthreads": 4, "typesize": 2}}
    store = {**stored(document), "0": bytes(numcodecs.Blosc().encode(np.array([1, 2], "<i2")))}
    assert tegula.open(store)[...].tolist() == [1, 2, 7, 7]
    copy = tegula.MemoryStore()
    tegula.convert(store, copy, format="zarr3", verify=True)
    assert b"nthreads" not in (copy.get("zarr.json") or b"")
