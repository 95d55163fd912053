"""Codecs as users write them, and the options that documents must state."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr.codecs
from numcodecs.abc import Codec
from numcodecs.registry import codec_registry, register_codec

import tegula
from tegula.codecs import codec_specs, complete, lacking
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import CodecSpec


def written(format: str = "zarr3", **options: Any) -> list[Any]:
    """Return the codecs in the document of a new array."""
    store: dict[str, bytes] = {}
    given = {"shape": (4, 6), "chunks": (4, 6), "dtype": "i4", **options}
    tegula.create_array(store, format=format, **given)
    document = json.loads(bytes(store["zarr.json" if format == "zarr3" else ".zarray"]))
    codecs = document["codecs"] if format == "zarr3" else [*(document["filters"] or []), document["compressor"]]
    return [codec for codec in codecs if codec is not None]


def v3(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


LITTLE = v3("bytes", endian="little")
INDEX = [LITTLE, {"name": "crc32c"}]


# --- a user's argument


@pytest.mark.parametrize(
    "value",
    [
        {"id": "lz4", "acceleration": 10},
        {"name": "lz4", "acceleration": 10},
        {"name": "lz4", "configuration": {"acceleration": 10}},
        {"name": "numcodecs.lz4", "configuration": {"acceleration": 10}},
        numcodecs.LZ4(10),
        [numcodecs.LZ4(10)],
        CodecSpec("numcodecs.lz4", {"acceleration": 10}),
    ],
)
def test_equivalent_forms_of_one_codec(value: Any) -> None:
    assert codec_specs(value) == [CodecSpec("numcodecs.lz4", {"acceleration": 10})]


def test_codec_objects_of_zarr_python() -> None:
    spec = codec_specs([zarr.codecs.BytesCodec(), zarr.codecs.ZstdCodec(level=3)])
    assert [codec.name for codec in spec] == ["bytes", "zstd"]
    assert spec[1].configuration == {"level": 3, "checksum": False}
    found = written(codecs=[zarr.codecs.BloscCodec(cname="zstd")])[1]["configuration"]
    assert (found["cname"], found["typesize"], found["shuffle"]) == ("zstd", 4, "shuffle")
    inner = zarr.codecs.ShardingCodec(chunk_shape=(2, 3), codecs=[zarr.codecs.BytesCodec(), zarr.codecs.Crc32cCodec()])
    assert written(codecs=inner)[0]["configuration"] == {
        "chunk_shape": [2, 3], "codecs": INDEX, "index_codecs": INDEX, "index_location": "end",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["none", None, False, [], ()])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_no_codecs(value: Any, format: str) -> None:
    array = tegula.create_array({}, shape=3, dtype="i4", codecs=value, format=format)
    assert [codec.name for codec in array.metadata.codecs] == ["bytes"]


@pytest.mark.parametrize(
    ("codec", "missing"),
    [
        ("bitround", "keepbits"),
        ("quantize", "digits"),
        ("fixedscaleoffset", "offset"),
        ({"id": "fixedscaleoffset", "offset": 0}, "scale"),
        ("astype", "encode_dtype"),
        ("categorize", "labels"),
        ({"id": "vlen-array"}, "dtype"),
        ("transpose", "order"),
        ({"name": "sharding_indexed", "codecs": ["bytes"]}, "chunk_shape"),
        ("cast_value", "data_type"),
    ],
)
def test_a_missing_required_option_is_named(codec: Any, missing: str) -> None:
    for format in ("zarr2", "zarr3"):
        store = tegula.MemoryStore()
        with pytest.raises(MetadataError, match=f"needs the option '{missing}'") as caught:
            tegula.create_array(store, shape=3, dtype="f4", codecs=["zstd", codec], format=format)
        assert caught.value.field == f"codecs.{missing}"
        assert [*store.list()] == []


@pytest.mark.parametrize(
    "value",
    ["foo", ["zstd", "none"], [3], 3, {"level": 3}, {"name": 3}, {"name": "zstd", "configuration": 3},
     {"name": "zstd", "configuration": {}, "level": 3}],
)  # fmt: skip
def test_invalid_codecs(value: Any) -> None:
    with pytest.raises(TegulaError) as caught:
        codec_specs(value)
    assert caught.value.field == "codecs"


class Registered(Codec):
    """A codec that a user has registered."""

    codec_id = "tegula-test-registered"

    def __init__(self, key: int, times: int = 1) -> None:
        self.key = key
        self.times = times

    def encode(self, buf: Any) -> bytes:
        return bytes(byte ^ self.key for byte in np.asarray(buf).tobytes())

    def decode(self, buf: Any, out: Any = None) -> bytes:
        return bytes(byte ^ self.key for byte in bytes(buf))


def test_a_registered_codec_is_known_by_its_name() -> None:
    name = Registered.codec_id
    with pytest.raises(UnsupportedError, match="registered"):
        codec_specs(name)
    register_codec(Registered)
    try:
        with pytest.raises(MetadataError, match="needs the option 'key'"):
            codec_specs(name)
        array = tegula.create_array({}, shape=3, dtype="i4", codecs={"name": name, "key": 7})
        array[...] = [1, 2, 3]
        assert array[...].tolist() == [1, 2, 3]
        assert written(codecs={"name": name, "key": 7})[-1] == v3(f"numcodecs.{name}", key=7)
    finally:
        del codec_registry[name]


# --- the codecs of a document


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "S3", "V3", "int4", "float8_e5m2"])
def test_elements_of_one_byte_have_no_byte_order(dtype: str) -> None:
    assert written(dtype=dtype, codecs=["bytes"]) == [{"name": "bytes"}]


@pytest.mark.parametrize("dtype", ["i2", ">u8", "f4", "c8", "U2", "M8[s]", "m8[s]", "i2,u1", "bfloat16"])
def test_the_byte_order_is_stated(dtype: str) -> None:
    assert written(dtype=dtype, codecs=["bytes", "crc32c"]) == INDEX
    assert written(dtype=dtype, codecs=v3("bytes")) == [LITTLE]
    assert written(dtype=dtype, codecs=v3("bytes", endian="big")) == [v3("bytes", endian="big")]


def test_the_data_type_is_that_at_the_position_of_the_codec() -> None:
    wider = v3("cast_value", data_type="int16")
    assert written(dtype="i1", codecs=[wider, "bytes"]) == [wider, LITTLE]
    packed = written(dtype="?", codecs={"id": "packbits"})
    assert packed == [v3("numcodecs.packbits"), {"name": "bytes"}]
    narrow = written(codecs=[{"id": "astype", "encode_dtype": "i2"}, "delta", "shuffle"])
    assert [codec["configuration"] for codec in narrow] == [
        {"encode_dtype": "<i2", "decode_dtype": "<i4"},
        {"dtype": "<i2", "astype": "<i2"},
        {"endian": "little"},
        {"elementsize": 2},
    ]


@pytest.mark.parametrize(("format", "dtype"), [("zarr3", "<i4"), ("zarr2", "<i4"), ("zarr2", ">i4")])
def test_filters_state_their_input_type(format: str, dtype: str) -> None:
    def options(codec: Any) -> dict[str, Any]:
        found = written(format, dtype=dtype, codecs=codec)[0]
        return found["configuration"] if format == "zarr3" else {k: v for k, v in found.items() if k != "id"}

    assert options("delta") == {"dtype": dtype, "astype": dtype}
    assert options({"id": "delta", "dtype": dtype}) == {"dtype": dtype}  # what is enough stays as it is
    assert options({"name": "fixedscaleoffset", "offset": 1, "scale": 2, "astype": "u1"}) == {
        "offset": 1, "scale": 2, "dtype": dtype, "astype": "|u1",
    }  # fmt: skip
    assert options({"name": "astype", "encode_dtype": "u1"}) == {"encode_dtype": "|u1", "decode_dtype": dtype}


def test_the_element_size_that_blosc_gets() -> None:
    assert written(codecs=["blosc"])[1]["configuration"]["typesize"] == 4
    assert written(dtype="U80", codecs=["blosc"])[1]["configuration"]["typesize"] == 1
    assert written(dtype=str, codecs=["blosc"])[1]["configuration"]["typesize"] == 1
    assert written(codecs=["zstd", "blosc"])[2]["configuration"]["typesize"] == 1
    given = v3("blosc", cname="zstd", clevel=1, shuffle="bitshuffle", typesize=2, blocksize=0)
    assert written(codecs=given)[1] == given


def test_shards_state_their_own_codecs() -> None:
    def shards(**options: Any) -> dict[str, Any]:
        [found] = written(codecs={"name": "sharding_indexed", "chunk_shape": (2, 3), **options})
        assert [*found["configuration"]] == ["chunk_shape", "codecs", "index_codecs", "index_location"]
        return dict(found["configuration"])

    usual = {"chunk_shape": [2, 3], "codecs": [LITTLE], "index_codecs": INDEX, "index_location": "end"}
    assert shards() == usual
    zstd, delta = v3("zstd", level=0, checksum=False), v3("numcodecs.delta", dtype="<i4", astype="<i4")
    assert shards(codecs=["delta", "zstd"]) == {**usual, "codecs": [delta, LITTLE, zstd]}
    assert shards(codecs="zstd", index_codecs=["bytes"], index_location="start") == {
        **usual, "codecs": [LITTLE, zstd], "index_codecs": [LITTLE], "index_location": "start",
    }  # fmt: skip
    inner = {"name": "sharding_indexed", "chunk_shape": [1, 3]}
    assert shards(codecs=inner)["codecs"] == [v3("sharding_indexed", **{**usual, "chunk_shape": [1, 3]})]
    assert shards(codecs=[v3("transpose", order="F"), "bytes"])["codecs"] == [v3("transpose", order=[1, 0]), LITTLE]


def test_fortran_order_applies_to_inner_chunks() -> None:
    [found] = written(codecs={"name": "sharding_indexed", "chunk_shape": (2, 6)}, order="F")
    assert found["configuration"]["codecs"] == [v3("transpose", order=[1, 0]), LITTLE]


def test_packbits_by_name_is_the_codec_of_the_format() -> None:
    assert written(dtype="?", codecs="packbits") == [{"name": "packbits"}]
    assert written("zarr2", dtype="?", codecs="packbits") == [{"id": "packbits"}]
    with pytest.raises(UnsupportedError, match="packbits"):
        written("zarr2", dtype="?", codecs={"name": "packbits", "last_bit": 0})
    for codec, error in (("packbits", UnsupportedError), ({"id": "packbits"}, MetadataError)):
        with pytest.raises(error, match="packbits"):  # which would make 1 of every number but 0
            written("zarr2", dtype="i4", codecs=codec)


def test_an_order_of_early_drafts_is_written_as_a_permutation() -> None:
    assert written(codecs=v3("transpose", order="F"))[0] == v3("transpose", order=[1, 0])
    assert written(codecs=v3("transpose", order="C"))[0] == v3("transpose", order=[0, 1])
    array = tegula.create_array({}, shape=(2, 3), dtype="i4", codecs=v3("transpose", order="F"), format="zarr2")
    assert json.loads(array.metadata.documents[".zarray"])["order"] == "F"


def test_a_document_without_byte_order_is_read() -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=3, dtype="<i4", codecs="none")
    array[...] = [1, 2, 3]
    document = json.loads(store.get("zarr.json") or b"")
    store.set("zarr.json", json.dumps({**document, "codecs": ["bytes"]}).encode())
    old = tegula.open_array(store)
    assert old[...].tolist() == [1, 2, 3]
    assert lacking(old.metadata.codecs, old.metadata.data_type, ndim=1) == [("bytes", "endian")]
    copy = tegula.MemoryStore()
    assert tegula.convert(store, copy, verify=True).arrays[0].chunks_copied == 1
    assert json.loads(copy.get("zarr.json") or b"")["codecs"] == [LITTLE]


def test_codecs_of_elements_that_may_be_missing_are_completed() -> None:
    dtype = {"name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}}
    codec = {"name": "zarrs.optional", "mask_codecs": "packbits", "data_codecs": ["bytes", "zstd"]}
    store = tegula.MemoryStore()
    metadata = tegula.create_array(store, shape=8, chunks=4, dtype=dtype, codecs=codec).metadata
    document = json.loads(store.get("zarr.json") or b"")
    zstd = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
    options = document["codecs"][0]["configuration"]
    assert options == {"mask_codecs": [{"name": "packbits"}], "data_codecs": [LITTLE, zstd]}
    assert lacking(metadata.codecs, metadata.data_type, ndim=1) == []
    options |= {"mask_codecs": ["bytes"], "data_codecs": ["bytes", "zstd"]}
    store.set("zarr.json", json.dumps(document).encode())
    metadata = tegula.open_array(store).metadata
    missing = [("bytes", "endian"), ("zstd", "level")]
    assert lacking(metadata.codecs, metadata.data_type, ndim=1) == missing
    assert [finding.kind for finding in tegula.check(store).findings] == ["unstated-option"]


def test_a_complete_chain_stays_as_it_is() -> None:
    for codecs in (["delta", "zstd"], ["blosc"], ["gzip"], {"name": "sharding_indexed", "chunk_shape": [2]}):
        metadata = tegula.create_array({}, shape=8, chunks=4, dtype="u2", codecs=codecs).metadata
        assert lacking(metadata.codecs, metadata.data_type, ndim=1) == []
        assert complete(metadata.codecs, metadata.data_type, ndim=1) == metadata.codecs
    assert complete((), as_data_type("i4"), ndim=1) == ()


# --- conversions


def test_converted_arrays_state_the_same_options() -> None:
    source = tegula.create_array({}, shape=(4, 6), dtype=">f4", format="zarr2", codecs="zlib")
    source[...] = np.arange(24).reshape(4, 6)
    for codecs in ("none", ["bytes", "zstd"], [{"name": "quantize", "digits": 2}, "blosc"], "delta"):
        for format in ("zarr2", "zarr3"):
            target = tegula.MemoryStore()
            assert tegula.convert(source, target, format=format, codecs=codecs, verify=True).ok
            metadata = tegula.open_array(target).metadata
            found = lacking(metadata.codecs, metadata.data_type, ndim=2)
            assert {codec for codec, _ in found} <= ({"bytes"} if format == "zarr2" else set())
    group = tegula.create_group({})
    group.create_array("x", shape=3, dtype="f4")
    target = tegula.MemoryStore()
    with pytest.raises(MetadataError, match="keepbits"):
        tegula.convert(group, target, codecs="bitround")
    assert [*target.list()] == []


@pytest.mark.parametrize(
    ("text", "option", "level"),
    [
        ("zstd:9", "level", 9),
        ("gzip:1", "level", 1),
        ("blosc:7", "clevel", 7),
        ("zlib:2", "level", 2),
        ("zstd:-3", "level", -3),
    ],
)
def test_a_name_may_have_a_level(text: str, option: str, level: int) -> None:
    (spec,) = codec_specs(text)
    assert spec.configuration[option] == level
    assert spec.name == codec_specs(text.partition(":")[0])[0].name


@pytest.mark.parametrize("text", ["bytes:1", "zstd:", "zstd:high", "crc32c:1"])
def test_no_level(text: str) -> None:
    with pytest.raises(MetadataError, match="level"):
        codec_specs(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zst:9", "no codec 'zst' is known; did you mean 'zstd'"),
        ("some:1", "no codec 'some'"),
        (":1", "no codec ''"),
    ],
)
def test_an_unknown_name_with_a_level(text: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(words)):
        codec_specs(text)


@pytest.mark.parametrize(
    ("codec", "known"),
    [
        ("zstd:99", "99 is not a value of the option 'level'; it takes a whole number from -131072 to 22"),
        ({"name": "blosc", "shuffle": "all"}, "it takes 'noshuffle' or 'shuffle' or 'bitshuffle'"),
        ({"name": "blosc", "cname": "lzma"}, "it takes 'blosclz' or 'lz4' or"),
    ],
)
def test_errors_say_which_values_an_option_takes(codec: Any, known: str) -> None:
    with pytest.raises(MetadataError, match=re.escape(known)):
        tegula.create_array({}, shape=3, dtype="f4", codecs=codec)


def test_a_wrong_option_for_all_arrays_is_one_error(tmp_path: Path) -> None:
    group = tegula.create_group({})
    group["a"], group["b"] = [1], [2.5]
    with pytest.raises(MetadataError, match="'level'") as caught:
        tegula.convert(group, tmp_path / "new.zarr", codecs="zstd:99")
    assert caught.value.field == "codecs.level"
    assert not (tmp_path / "new.zarr").exists()
    # an array that one rule is for is left out, as others that can't be converted
    report = tegula.convert(group, tmp_path / "new.zarr", codecs={"b": "zstd:99"})
    assert [*report.failed] == ["b"]
    assert [array.path for array in report.arrays] == ["a"]


def test_several_codecs_in_one_text_are_refused_with_their_list() -> None:
    with pytest.raises(MetadataError, match=re.escape("a list: ['shuffle', 'zstd:9'], not as 'shuffle,zstd:9'")):
        codec_specs("shuffle,zstd:9")


@pytest.mark.parametrize("codec", ["vlen-array", "zarrs.vlen_v2", {"name": "vlen-array", "configuration": {}}])
@pytest.mark.parametrize("values", [["a", "é"], [b"", b"cc"]], ids=["string", "bytes"])
def test_names_of_zarrs_for_text_and_bytes(codec: Any, values: list[Any]) -> None:
    dtype = "string" if isinstance(values[0], str) else "bytes"
    store = tegula.MemoryStore()
    a = tegula.create_array(store, shape=2, dtype=dtype, fill_value=values[0][:0], codecs=[codec, "zstd"])
    a[...] = values
    name = codec if isinstance(codec, str) else codec["name"]
    assert [spec.name for spec in tegula.open(store).metadata.codecs] == [name, "zstd"]
    converted = tegula.MemoryStore()
    tegula.convert(store, converted, format="zarr2")
    filters = json.loads(converted.get(".zarray"))["filters"]
    assert filters == [{"id": "vlen-utf8" if dtype == "string" else "vlen-bytes"}]
    assert tegula.open(store)[...].tolist() == tegula.open(converted)[...].tolist() == values


@pytest.mark.parametrize("codec", [{"id": "vlen-array", "dtype": "<i4"}, {"id": "pickle"}])
def test_object_codecs_are_refused_for_numbers(codec: Any) -> None:
    store = tegula.MemoryStore()
    with pytest.raises(MetadataError, match="can't encode int32"):
        tegula.create_array(store, shape=2, dtype="i4", codecs=[codec], allow_pickle=True)
    assert [*store.list()] == []
