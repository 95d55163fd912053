"""Documents of drafts of Zarr v3 (2019 to 2022)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import FORMATS, parse, zarr3_draft
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata

VERSION = "https://purl.org/zarr/spec/protocol/core/3.0"
ENTRY = {
    "zarr_format": VERSION, "metadata_encoding": VERSION, "metadata_key_suffix": ".json", "extensions": [],
}  # fmt: skip
ARRAY: dict[str, Any] = {
    "zarr_format": VERSION, "node_type": "array", "shape": [5, 4], "data_type": "<i4", "fill_value": 7,
    "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"}, "chunk_memory_layout": "C",
    "attributes": {"units": "K"}, "extensions": [],
}  # fmt: skip
OPTIONAL = {"extension": "https://example.org/x", "must_understand": False, "configuration": {}}
NEEDED = {"extension": "https://example.org/x", "must_understand": True}


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"codec": f"https://purl.org/zarr/spec/codec/{name}/1.0", "configuration": configuration}


def read(**changes: Any) -> ArrayMetadata:
    node = parse({"zarr.json": json.dumps({**ARRAY, **changes}).encode()})
    assert isinstance(node, ArrayMetadata)
    return node


def entry(**changes: Any) -> zarr3_draft.EntryPoint | None:
    return zarr3_draft.entry_point(json.dumps({**ENTRY, **changes}).encode())


def test_an_array() -> None:
    array = read()
    assert (array.format, array.shape, array.grid.largest_chunk()) == ("zarr3_draft", (5, 4), (2, 3))
    assert array.fill_value is not None
    assert (array.fill_value[()], array.attributes, array.dimension_names) == (7, {"units": "K"}, None)
    assert [spec.name for spec in array.codecs] == ["bytes"]
    assert array.keys.encode((1, 0)) == "c1/0"
    assert array.keys.decode("c1/0", 2) == (1, 0)
    assert array.keys.encode(()) == "c0"


def test_a_group() -> None:
    document = {"zarr_format": VERSION, "node_type": "group", "attributes": {"a": 1}}
    node = parse({"zarr.json": json.dumps(document).encode()})
    assert isinstance(node, GroupMetadata)
    assert (node.format, node.attributes) == ("zarr3_draft", {"a": 1})


def test_members_that_decide_how_chunks_are_stored() -> None:
    dots = read(chunk_grid={"type": "regular", "chunk_shape": [2, 3], "separator": "."})
    assert dots.keys.encode((1, 0)) == "c1.0"
    assert [spec.name for spec in read(chunk_memory_layout="F").codecs] == ["transpose", "bytes"]
    for name, options in {"gzip": {"level": 1}, "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1}}.items():
        assert read(compressor=codec(name, **options)).codecs[1].name == f"numcodecs.{name}"
    filtered = read(attributes={"filters": [{"id": "delta", "dtype": "<i4"}], "a": 1})
    assert [spec.name for spec in filtered.codecs] == ["bytes", "numcodecs.delta"]
    assert filtered.attributes == {"a": 1}
    assert read(attributes={"_ARRAY_DIMENSIONS": ["y", "x"]}).dimension_names == ("y", "x")


@pytest.mark.parametrize(
    ("data_type", "numpy"),
    [("bool", "?"), ("i1", "i1"), ("u1", "u1"), (">f8", ">f8"), ("r24", "V3"), ("|b1", "?"),
     ({"extension": "https://example.org/datetime", "type": "<M8[s]", "fallback": None}, "<M8[s]")],
)  # fmt: skip
def test_data_types(data_type: Any, numpy: str) -> None:
    assert read(data_type=data_type, fill_value=None).data_type.numpy == np.dtype(numpy)


@pytest.mark.parametrize("fill", ["NaN", "Infinity", "-Infinity", 1.5])
def test_fill_values(fill: Any) -> None:
    value = read(data_type="<f4", fill_value=fill).fill_value
    assert value is not None
    assert np.array_equal(value[()], np.float32(fill), equal_nan=True)
    assert read(fill_value=None).fill_value is None


def test_shards() -> None:
    url = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"
    transformer = {"extension": url, "type": "indexed", "configuration": {"chunks_per_shard": [2, 1]}}
    array = read(storage_transformers=[transformer, OPTIONAL], compressor=codec("gzip", level=1))
    assert array.grid.largest_chunk() == (4, 3)
    assert [spec.name for spec in array.codecs] == ["sharding_indexed"]
    configuration = array.codecs[0].configuration
    assert [inner["name"] for inner in configuration["codecs"]] == ["bytes", "numcodecs.gzip"]
    for wrong in ([0, 1], [1, 1, 1], "x", [True, 1], None, [2**40, 1]):
        with pytest.raises(MetadataError, match=r"no numbers of chunks|must be an object"):
            read(storage_transformers=[{**transformer, "configuration": {"chunks_per_shard": wrong}}])
    for unknown in ([{**transformer, "type": "other"}], [transformer] * 2, [{**transformer, "extension": 1}]):
        with pytest.raises(UnsupportedError, match="unknown storage transformer"):
            read(storage_transformers=unknown)


def test_extensions_and_members_that_may_be_ignored_are() -> None:
    assert read(extensions=[OPTIONAL], note=OPTIONAL).shape == (5, 4)
    assert entry(extensions=[OPTIONAL], note=OPTIONAL) is not None


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"extensions": [NEEDED]}, "extensions"), ({"extensions": ["https://example.org/x"]}, "extensions"),
     ({"extensions": {}}, "extensions"), ({"note": 1}, "note"), ({"note": NEEDED}, "note"),
     ({"compressor": codec("other")}, "compressor"), ({"compressor": {"codec": "gzip"}}, "compressor"),
     ({"compressor": {}}, "codec"), ({"compressor": "gzip"}, "compressor"),
     ({"chunk_grid": {"type": "rectangular", "chunk_shape": [2, 3]}}, "chunk_grid"), ({"chunk_grid": 3}, "chunk_grid"),
     ({"chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "-"}}, "chunk_grid"),
     ({"chunk_grid": {"type": "regular", "chunk_shape": [0, 3]}}, "chunk_grid"),
     ({"data_type": "<q9"}, "data_type"), ({"data_type": {"extension": "x"}}, "type"),
     ({"data_type": "r7"}, "data_type"),
     ({"shape": [-1, 2]}, "shape"), ({"shape": None}, "shape"), ({"chunk_memory_layout": "K"}, "chunk_memory_layout"),
     ({"fill_value": "x"}, "fill_value"), ({"attributes": []}, "attributes"),
     ({"attributes": {"filters": 3}}, "attributes"), ({"storage_transformers": 3}, "storage_transformers"),
     ({"node_type": "table"}, "zarr_format")],
)  # fmt: skip
def test_refusals_name_the_member_of_the_draft(changes: dict[str, Any], field: str) -> None:
    with pytest.raises((MetadataError, UnsupportedError)) as raised:
        read(**changes)
    assert (raised.value.key, raised.value.field) == ("zarr.json", field)


def test_the_entry_point() -> None:
    assert entry() == (VERSION, ".json")
    assert entry(metadata_key_suffix="") == (VERSION, "")
    assert entry(metadata_encoding="application/json", zarr_format=VERSION.replace("https", "http")) is not None
    for changes, field in (
        ({"zarr_format": "https://purl.org/zarr/spec/protocol/core/4.0"}, "zarr_format"),
        ({"metadata_encoding": "https://example.org/cbor"}, "metadata_encoding"),
        ({"metadata_key_suffix": "/../x"}, "metadata_key_suffix"), ({"metadata_key_suffix": 3}, "metadata_key_suffix"),
        ({"extensions": [NEEDED]}, "extensions"), ({"other": {}}, "other"),
    ):  # fmt: skip
        with pytest.raises((MetadataError, UnsupportedError)) as raised:
            entry(**changes)
        assert raised.value.field == field
    for other in (b"", b"[]", b"purl.org", b'{"zarr_format": 3, "node_type": "group"}', json.dumps(ARRAY).encode()):
        assert zarr3_draft.entry_point(other) is None


def test_an_entry_point_is_no_node() -> None:
    with pytest.raises(UnsupportedError, match="open the hierarchy"):
        parse({"zarr.json": json.dumps(ENTRY).encode()})


def test_documents_of_zarr_v3_are_left_to_it() -> None:
    assert zarr3_draft.parse({"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'}) is None
    assert zarr3_draft.parse({}) is None
    node = FORMATS["zarr3"].parse({"zarr.json": json.dumps(ARRAY).encode()})
    assert node is None


def test_nothing_is_written() -> None:
    array = read()
    for refused in (zarr3_draft.adapt, zarr3_draft.serialize):
        with pytest.raises(UnsupportedError, match="read-only; convert"):
            refused(array)
