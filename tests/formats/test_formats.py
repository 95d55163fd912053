"""Formats: conversion of documents to metadata and back, for valid and for damaged documents."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import FORMATS, find_format, parse
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata

Documents = dict[str, bytes]
MAIN = {"zarr1": "meta", "zarr2": ".zarray", "zarr3": "zarr.json"}
BCOLZ = "meta/storage"
N5 = "attributes.json"
ATTRIBUTES = {"zarr1": "attrs", "zarr2": ".zattrs"}


def created(format: str, **options: Any) -> Documents:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, format=format, attributes={"a": [1, {"b": None}]}, **options)
    return {key: store.get(key) or b"" for key in store.list() if key in find_format(array.format).keys}


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {"shape": (5, 4), "chunks": (2, 3), "dtype": "<f4", "fill_value": np.nan}) for name in MAIN],
    *[(name, {"shape": (5, 4), "chunks": (2, 3), "dtype": ">i2", "order": "F"}) for name in MAIN],
    *[(name, {"shape": 7, "chunks": 3, "dtype": "U3", "codecs": {"id": "zlib", "level": 1}}) for name in MAIN],
    *[(name, {"shape": 7, "chunks": 3, "dtype": "M8[ms]", "codecs": None, "fill_value": None}) for name in MAIN],
    *[(name, {"shape": 3, "dtype": [("a", "i1"), ("b", "<f8")], "codecs": "zstd"}) for name in ("zarr2", "zarr3")],
    *[(name, {"shape": (), "dtype": "c16", "fill_value": 1 - 2j}) for name in ("zarr2", "zarr3")],
    *[(name, {"shape": (4, 0), "dtype": str, "fill_value": "x"}) for name in ("zarr2", "zarr3")],
    ("zarr2", {"shape": 4, "dtype": object, "codecs": [{"id": "json2"}, {"id": "gzip"}], "fill_value": None}),
    ("zarr2", {"shape": 4, "dtype": "i4", "codecs": [{"id": "delta", "dtype": "<i4"}, {"id": "lzma"}]}),
    ("zarr3", {"shape": (8, 8), "chunks": (2, 4), "shards": (4, 8), "dtype": "u2", "dimension_names": ["x", None]}),
    ("zarr3", {"shape": (6, 4), "chunks": ([1, 2, 3], 4), "dtype": "?", "codecs": ["blosc", "crc32c"]}),
    ("zarr3", {"shape": 6, "chunks": 4, "dtype": "bfloat16", "chunk_key_encoding": {"name": "v2", "separator": "/"}}),
    ("bcolz", {"shape": (0, 2), "chunks": (3,), "dtype": ">f4", "fill_value": np.nan}),
    ("bcolz", {"shape": 0, "dtype": [("a", "i1"), ("b", "S3")], "codecs": {"id": "blosc", "cname": "zstd"}}),
    ("n5", {"shape": (5, 4), "chunks": (2, 3), "dtype": ">i2", "dimension_names": ["y", "x"]}),
    *[("n5", {"shape": (7, 0), "dtype": "f8", "codecs": codec}) for codec in (None, "zlib", "bz2", "zstd", "blosc")],
    *[("n5", {"shape": 7, "chunks": 3, "dtype": "u1", "codecs": codec}) for codec in ("gzip", "lzma", "lz4")],
]  # fmt: skip
SAMPLES = [(format, created(format, **options)) for format, options in VARIANTS]
GROUPS = {
    "zarr2": {".zgroup": b'{\n    "zarr_format": 2\n}', ".zattrs": b'{"x": 1}'},
    "zarr3": {"zarr.json": b'{"zarr_format":3,"node_type":"group","attributes":{"x":1}}'},
    "bcolz": {"__rootdirs__": b'{"names": ["b", "a"]}\n', "__attrs__": b'{"x": 1}\n'},
    "n5": {"attributes.json": b'{"x":1,"n5":"2.5.1"}'},
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_serializing_parsed_documents_changes_nothing(sample: tuple[str, Documents]) -> None:
    format, documents = sample
    item = find_format(format)
    metadata = item.parse(documents)
    assert isinstance(metadata, ArrayMetadata)
    assert item.serialize(metadata) == documents
    assert parse(documents) == metadata
    # a document that is written from the metadata alone has the same meaning
    fresh = item.adapt(metadata)
    assert item.serialize(fresh) == documents
    assert item.parse(item.serialize(fresh)) == metadata


@pytest.mark.parametrize("format", GROUPS)
def test_serializing_parsed_groups_changes_nothing(format: str) -> None:
    item, documents = find_format(format), GROUPS[format]
    metadata = item.parse(documents)
    assert isinstance(metadata, GroupMetadata)
    assert metadata.attributes == {"x": 1}
    assert item.serialize(metadata) == documents


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample[0] in MAIN])
@pytest.mark.parametrize("indent", [None, 2, 3])
def test_unknown_members_survive_a_change(sample: tuple[str, Documents], indent: int | None) -> None:
    format, documents = sample
    key = MAIN[format]
    content = json.loads(documents[key])
    extra = {"must_understand": False, "name": "später", "x": [1.0, 1]}
    content = {"zz": extra, **content, "aa": extra}
    store = tegula.MemoryStore({**documents, key: json.dumps(content, indent=indent).encode() + b"\n"})
    before = {key: store.get(key) for key in documents}
    array = tegula.open_array(store, mode="r+")
    array.resize(*[size + 1 for size in array.shape])
    array.attrs["new"] = 1
    content["shape"] = [size + 1 for size in content["shape"]]
    raw = store.get(key) or b""
    now = json.loads(raw)
    if format == "zarr3":
        content["attributes"] = {**content["attributes"], "new": 1}
        if content["chunk_grid"]["name"] == "rectilinear":
            content["chunk_grid"] = now["chunk_grid"]
    else:
        other = ATTRIBUTES[format]
        assert json.loads(store.get(other) or b"") == {**json.loads(before[other] or b""), "new": 1}
    assert now == content
    assert [*now] == [*content]
    assert raw.endswith(b"}\n")
    assert (b"\n" + b" " * (indent or 0) + b'"zz"' in raw) is (indent is not None)


# --- detection


def kind_of(*parts: Documents) -> tuple[str, str]:
    documents: Documents = {}
    for part in parts:
        documents |= part
    node = parse(documents)
    return (type(node).__name__, node.format) if node is not None else ("", "")


def test_the_keys_that_are_present_determine_the_format() -> None:
    arrays = dict(SAMPLES[:3])
    for format, documents in arrays.items():
        assert kind_of(documents) == ("ArrayMetadata", format)
    assert kind_of(arrays["zarr1"], arrays["zarr2"], arrays["zarr3"]) == ("ArrayMetadata", "zarr3")
    assert kind_of(arrays["zarr1"], arrays["zarr2"]) == ("ArrayMetadata", "zarr2")
    # some libraries left groups in the directories of older arrays
    assert kind_of(arrays["zarr1"], GROUPS["zarr2"]) == ("ArrayMetadata", "zarr1")
    assert kind_of(arrays["zarr1"], GROUPS["zarr3"]) == ("ArrayMetadata", "zarr1")
    assert kind_of(arrays["zarr2"], GROUPS["zarr3"]) == ("ArrayMetadata", "zarr2")
    assert kind_of(GROUPS["zarr2"], GROUPS["zarr3"]) == ("GroupMetadata", "zarr3")
    assert kind_of({"attrs": b"{}"}, {".zattrs": b"{}"}) == ("", "")
    assert kind_of({}) == ("", "")


def test_an_unknown_format_is_an_error() -> None:
    for name in ("zarr4", "", None, []):
        with pytest.raises(MetadataError, match="zarr3"):
            find_format(name)


def test_the_capabilities_of_each_format() -> None:
    store = tegula.MemoryStore()
    with pytest.raises(UnsupportedError):
        tegula.create_group(store, format="zarr1")
    with pytest.raises(UnsupportedError):
        tegula.create_array(store, shape=3, dtype="i1", format="zarr0.4")
    assert [*store.list()] == []
    assert [*FORMATS] == ["zarr3", "zarr2", "zarr1", "zarr0.4", "bcolz", "n5", "zarr3_draft"]


# --- hostile documents


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


leaves = st.one_of(
    st.none(), st.booleans(), st.floats(), st.text(max_size=3),
    st.sampled_from([0, 1, -1, 2, 3, 7, 255, 2**20, 2**31, 2**32, 2**60, 2**63 - 1, 2**63, 10**30, -(2**63)]),
    st.sampled_from(["NaN", "\ud800", "<i4", "|S5", "|V3", "|O", "<M8[0s]", "<M8[s]", "V0", "S0", "|S2000000000", "|b1",
                     "<c16", "bytes", "zstd", "blosc", "C", "F", "/", ".", "0x7f", "int4", "float8_e4m3fn", "string"]),
    st.sampled_from([
        {"id": "pickle"}, {"id": "zstd"}, {"id": "nothing"}, {"name": "bytes"}, {"name": "gzip", "configuration": {}},
        {"name": "transpose", "configuration": {"order": [0]}}, {"name": "crc32c"}, {"name": "vlen-utf8"},
        {"name": "regular", "configuration": {"chunk_shape": [0]}},
        {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 2**40]]]}},
        {"name": "struct", "configuration": {"fields": []}}, ["x", "|u1", [2**30, 2**30]], [["x", "<f4", [2]]],
    ]),
)  # fmt: skip
junk = leaves | st.lists(leaves, max_size=3) | st.dictionaries(st.text(max_size=3), leaves, max_size=2)


@st.composite
def damaged(draw: st.DrawFn) -> Documents:
    """Draw the documents of a valid node, with a few members replaced, left out or repeated."""
    _, documents = draw(st.sampled_from([*SAMPLES, *GROUPS.items()]))
    out = dict(documents)
    for _ in range(draw(st.integers(1, 2))):
        key = draw(st.sampled_from(sorted(out)))
        content = json.loads(out[key])
        path = draw(st.sampled_from([*places(content)]))
        if not path:
            content = draw(junk)
        else:
            parent: Any = content
            for step in path[:-1]:
                parent = parent[step]
            action = draw(st.sampled_from(["replace", "replace", "replace", "delete", "add"]))
            if action == "replace":
                parent[path[-1]] = draw(junk)
            elif action == "delete":
                del parent[path[-1]]
            elif isinstance(parent, list):
                parent.append(copy.deepcopy(parent[path[-1]]))
            else:
                parent[draw(st.sampled_from(["filters", "must_understand", "x", "configuration"]))] = draw(junk)
        out[key] = json.dumps(content).encode()
        if not isinstance(content, dict):
            break
    return out


def use(documents: Documents) -> None:
    """Use a node as users do; a `TegulaError` is a valid outcome."""
    store = tegula.MemoryStore(documents)
    node = tegula.open(store, mode="r+")
    repr(node)
    node._repr_html_()
    if isinstance(node, tegula.Group):
        node.attrs["y"] = 2
        node.create_group("inner")
        assert "inner" in [*node]
        return
    if isinstance(node, tegula.Table):
        node.attrs["y"] = 2
        len(node)
        node.append({name: [] for name in node.names})
        return
    str(node.info)
    if node.size < 10_000:
        assert node[...].shape == node.shape
    if node.size:
        first = (0,) * node.ndim
        value = node[first]
        node[first] = value
        node[tuple(slice(0, 2) for _ in node.shape)] = value
    node.attrs["y"] = 2
    assert tegula.open_array(store).attrs["y"] == 2
    if max(node.shape, default=0) < 2**31:
        node.resize(*[size + 3 for size in node.shape])
        node.resize(*[size // 2 for size in node.shape])


@settings(max_examples=400)
@given(damaged())
def test_a_damaged_document_is_read_or_rejected(documents: Documents) -> None:
    tracemalloc.start()
    try:
        with config.configure(max_chunk_bytes=2**24, threads=1):
            use(documents)
    except TegulaError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 100 * 2**20


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_missing_required_member_is_an_error(sample: tuple[str, Documents]) -> None:
    format, documents = sample
    key = MAIN.get(format, N5 if format == "n5" else BCOLZ)
    content = json.loads(documents[key])
    optional = {"expectedlen", "dflt", "attributes", "dimension_names", "storage_transformers", "dimension_separator"}
    if format == "zarr2":  # without them zarr-python uses none; an array of objects needs one
        optional |= {"compressor"} if content["dtype"] == "|O" else {"compressor", "filters"}
    if format == "n5":  # without dimensions or a data type it is a group
        optional |= {"n5", "axes", "a", "blockSize", "dimensions", "dataType"}
    for name in content:
        rest = {member: value for member, value in content.items() if member != name}
        changed = {**documents, key: json.dumps(rest).encode()}
        if name in optional:
            assert find_format(format).parse(changed) is not None
            continue
        with pytest.raises(MetadataError) as caught:
            find_format(format).parse(changed)
        assert name in str(caught.value)
        assert caught.value.key == key


@pytest.mark.parametrize("fill", [0, "", "AAAA", [], None])
def test_a_small_document_can_not_demand_a_large_element(fill: Any) -> None:
    cases = [
        (0, "|S2000000000"), (0, "|V2000000000"), (1, "<U500000000"), (1, [["a", "<i4", [10**8]]]), (2, "r16000000000"),
        (2, {"name": "null_terminated_bytes", "configuration": {"length_bytes": 2 * 10**9}}),
        (2, {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "r16000000000"}]}}),
    ]  # fmt: skip
    tracemalloc.start()
    try:
        for sample, dtype in cases:
            format, documents = SAMPLES[sample]
            content = json.loads(documents[MAIN[format]])
            content |= {"data_type" if format == "zarr3" else "dtype": dtype, "fill_value": fill}
            with pytest.raises(TegulaError):
                find_format(format).parse({**documents, MAIN[format]: json.dumps(content).encode()})
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_small_document_can_not_demand_a_large_grid() -> None:
    content = json.loads(SAMPLES[2][1]["zarr.json"])
    content["shape"] = [2**40] * 2
    for shapes in ([[[1, 2**40]]] * 2, [[[2**20, 2**20]]] * 2, [[[1, 2**40], 1], 2**40]):
        content["chunk_grid"] = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
        with pytest.raises(MetadataError, match="more than"):
            find_format("zarr3").parse({"zarr.json": json.dumps(content).encode()})
    store = tegula.MemoryStore()
    with pytest.raises(UnsupportedError):
        tegula.create_array(store, shape=2**21, chunks=[[1] * 2**21], dtype="u1")
    assert [*store.list()] == []


@pytest.mark.parametrize(
    "dtype",
    [
        "<M8[0s]", [["a", "|i1"], ["b", "<M8[0s]"]], "<M8[s", "<i3", "i", "", "<f4 ", "(2,)i4", "i4,f4", "O8", [], [[]],
        [["a"]], [["a", "<i4", [0]]], [["a", "<i4", [2**40]]], [["a", "<i4"], ["a", "<i4"]], [[5, "<i4"]], {"a": "<i4"},
        None,
        [["a", "|O"]], "|S99999999999", "<U999999999", "nothing", "bfloat17",
    ],
)  # fmt: skip
def test_invalid_type_strings_are_rejected(dtype: Any) -> None:
    for format, documents in SAMPLES[:2]:
        key = MAIN[format]
        content = {**json.loads(documents[key]), "dtype": dtype}
        with pytest.raises((MetadataError, UnsupportedError)) as caught:
            find_format(format).parse({**documents, key: json.dumps(content).encode()})
        assert caught.value.key == key
        assert caught.value.field == "dtype"


@pytest.mark.parametrize("name", ["zz", "must_understand", "consolidated"])
def test_unknown_v3_members_must_state_that_they_may_be_ignored(name: str) -> None:
    document = json.loads(SAMPLES[2][1]["zarr.json"])
    for extra in (1, None, {}, {"must_understand": True}, {"must_understand": "no"}, []):
        with pytest.raises(UnsupportedError) as caught:
            find_format("zarr3").parse({"zarr.json": json.dumps({**document, name: extra}).encode()})
        assert caught.value.field == name
    metadata = find_format("zarr3").parse(
        {"zarr.json": json.dumps({**document, name: {"must_understand": False}}).encode()}
    )
    assert metadata is not None


@pytest.mark.parametrize("codec", ["pcodec", {"id": "zfpy", "mode": 4, "tolerance": 0.1}])
def test_numbers_of_the_other_byte_order_that_numcodecs_does_not_compress(codec: Any) -> None:
    swapped = np.dtype("f4").newbyteorder()
    options: dict[str, Any] = {"shape": 4, "dtype": swapped, "codecs": [codec]}
    store = tegula.MemoryStore()
    with pytest.raises(UnsupportedError, match="byte order") as caught:
        tegula.create_array(store, format="zarr2", **options)
    assert caught.value.field == "dtype"
    assert [*store.list()] == []
    values = [1.5, 2.5, 3.5, 4.5]
    array = tegula.create_array(store, format="zarr3", **options)  # there the elements have the machine's byte order
    array[...] = values
    np.testing.assert_allclose(array[...], values, atol=0.1)
    report = tegula.convert(tegula.array(np.array(values, swapped), format="zarr2"), target := tegula.MemoryStore(),
                            dtype="f4", codecs=[codec])  # fmt: skip
    assert report.ok
    np.testing.assert_allclose(tegula.open_array(target)[...], values, atol=0.1)


@pytest.mark.parametrize("name", ["default", "v2"])
def test_unknown_options_of_a_key_encoding_are_refused(name: str) -> None:
    encoding = {"name": name, "configuration": {"separator": "/", "prefix": "x"}}
    document = {**json.loads(SAMPLES[2][1]["zarr.json"]), "chunk_key_encoding": encoding}
    with pytest.raises(UnsupportedError, match="no option 'prefix'") as caught:
        find_format("zarr3").parse({"zarr.json": json.dumps(document).encode()})
    assert caught.value.field == "chunk_key_encoding"


@pytest.mark.parametrize(
    "change",
    [
        {"codecs": ["bytes"]}, {"codecs": [{"name": "bytes"}], "data_type": {"name": "int8"}, "fill_value": 0},
        {"chunk_key_encoding": "default"}, {"chunk_key_encoding": {"name": "v2"}},
        {"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[2, 3]], 3]}}},
        {"chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4, 9], [3, 1]]}}},
        {"storage_transformers": [{"name": "x", "must_understand": False}]},
        {"codecs": ["bytes", {"name": "unknown", "must_understand": False}]},
    ],
)  # fmt: skip
def test_forms_of_the_v3_specification(change: dict[str, Any]) -> None:
    document = {**json.loads(SAMPLES[2][1]["zarr.json"]), "data_type": "int8", "fill_value": 3, **change}
    raw = json.dumps(document).encode()
    store = tegula.MemoryStore({"zarr.json": raw})
    array = tegula.open_array(store, mode="r+")
    assert (array[...] == array.fill_value).all()
    values = np.arange(20, dtype="i1").reshape(5, 4)
    array[...] = values
    assert store.get("zarr.json") == raw
    np.testing.assert_array_equal(tegula.open_array(store)[...], values)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", {"name": "blosc", "configuration": {"cname": "lz4"}}])
def test_a_codec_of_zarr3_needs_no_options(codec: Any) -> None:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": {"name": "int32"},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": "default",
        "fill_value": 0,
        "codecs": ["bytes", codec],
    }
    store = {"zarr.json": json.dumps(document).encode()}
    tegula.open_array(store, mode="r+")[:] = [1, 2, 3, 4]
    assert tegula.open(store)[...].tolist() == [1, 2, 3, 4]
    assert json.loads(store["zarr.json"]) == document


@pytest.mark.parametrize(
    ("dtype", "fill"), [("<i4", "x"), ("<i4", 1.5), ("<u4", -1), ("<M8[s]", "q"), ("|V4", "@@"), ("<c8", [1])]
)
def test_an_invalid_fill_value_names_its_document(dtype: str, fill: Any) -> None:
    rest = {"compressor": None, "order": "C", "filters": None}
    document = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "fill_value": fill, **rest}
    store = tegula.MemoryStore()
    store.set("g/.zarray", json.dumps(document).encode())
    with pytest.raises(MetadataError) as raised:
        tegula.open_array(store, path="g")
    assert (raised.value.key, raised.value.field) == ("g/.zarray", "fill_value")


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ([("a", "<i4"), ("t", "<M8[s]"), ("b", [("c", "?")])], 0),
        ([("a", "<i4"), ("b", "S2")], None),  # zarr 1 fills the text with "0"
        ("V3", None),  # and fills no raw bytes
    ],
)
def test_zero_fields_in_zarr1(dtype: Any, stored: int | None) -> None:
    store: dict[str, bytes] = {}
    array = tegula.create_array(store, shape=3, dtype=dtype, format="zarr1")
    assert json.loads(store["meta"])["fill_value"] == stored
    assert array[:].tobytes() == bytes(array.nbytes)


def test_lzma_with_filters_and_without_a_preset_in_zarr1() -> None:
    codec = {"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]}
    stores: list[dict[str, bytes]] = [{}, {}]
    tegula.create_array(stores[0], shape=3, dtype="i4", codecs=codec, format="zarr2")[:] = [1, 2, 3]
    tegula.convert(stores[0], stores[1], format="zarr1")
    meta = json.loads(stores[1]["meta"])
    assert meta["compression_opts"] == {"check": 0, "format": 3, "preset": None, "filters": codec["filters"]}
    del meta["compression_opts"]["preset"]
    stores[1]["meta"] = json.dumps(meta).encode()
    assert tegula.open_array(stores[1])[:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["|V3", [["a", "<i4"], ["b", "|V2"]]])
def test_the_fill_value_0_of_raw_bytes_in_zarr1(dtype: Any) -> None:
    store: dict[str, bytes] = {}
    tegula.create_array(store, shape=4, chunks=2, dtype="V3", format="zarr1")
    store["meta"] = json.dumps({**json.loads(store["meta"]), "dtype": dtype, "fill_value": 0}).encode()
    array = tegula.open_array(store, mode="r+")
    array[1] = np.frombuffer(bytes(range(1, 1 + array.dtype.itemsize)), array.dtype)[0]
    assert array.fill_value is None
    assert array[:2].tobytes() == bytes(array.dtype.itemsize) + bytes(range(1, 1 + array.dtype.itemsize))
    assert json.loads(store["meta"])["fill_value"] == 0


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_lzma_that_numcodecs_can_not_decode(format: str) -> None:
    codec = {"id": "lzma", "format": 1, "preset": None, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]}
    with pytest.raises(UnsupportedError, match="raw"):
        tegula.create_array({}, shape=3, dtype="i4", codecs=codec, format=format)
    store: dict[str, bytes] = {}
    tegula.create_array(store, shape=3, dtype="i4", codecs=codec, format="zarr1")[:] = [1, 2, 3]
    report = tegula.convert(store, target := tegula.MemoryStore(), format=format, verify=True)
    assert report.ok
    assert "numcodecs" in report.arrays[0].notes[0]
    assert tegula.open_array(target)[:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_differences_of_booleans_are_refused_for_new_arrays(format: str) -> None:
    for codecs in (["delta", "zstd"], [{"id": "delta", "dtype": "?"}], [{"id": "delta", "dtype": None}]):
        with pytest.raises(UnsupportedError, match="differences"):
            tegula.create_array({}, shape=3, dtype="?", codecs=codecs, format=format)
    a = tegula.create_array({}, shape=3, dtype="?", codecs=[{"id": "delta", "dtype": "|i1"}], format=format)
    a[:] = [True, False, True]
    assert a[:].tolist() == [True, False, True]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_differences_of_booleans_in_an_array_that_exists(format: str) -> None:
    store: dict[str, Any] = {}
    tegula.create_array(store, shape=3, dtype="?", codecs=[], format="zarr2")[:] = [True, False, False]
    store[".zarray"] = json.dumps(
        json.loads(store[".zarray"]) | {"filters": [{"id": "delta", "dtype": "|b1"}]}
    ).encode()
    report = tegula.convert(store, target := tegula.MemoryStore(), format=format, verify=True)
    assert report.ok
    assert "differences" in report.arrays[0].notes[0]
    assert tegula.open_array(target)[:].tolist() == [True, True, True]  # what zarr-python reads
    with pytest.raises(UnsupportedError, match="differences"):
        tegula.open_array(store, mode="r+")[:] = [True, False, True]
