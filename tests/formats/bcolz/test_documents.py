"""Documents of bcolz: reading of every form that bcolz wrote, without executing or trusting anything in them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.formats.bcolz.chunks import automatic_chunklen, automatic_chunks
from tegula.formats.bcolz.defaults import default_from_json
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata

BCOLZ = find_format("bcolz")
STORAGE = {
    "dtype": "int32",
    "cparams": {"clevel": 5, "shuffle": 1, "cname": "lz4", "quantize": 0},
    "chunklen": 10,
    "expectedlen": 25,
    "dflt": 0,
}
SIZES = {"shape": [25], "nbytes": 100, "cbytes": 152}


def documents(storage: dict[str, Any] | None = None, sizes: dict[str, Any] | None = None) -> dict[str, bytes]:
    return {
        "meta/storage": (json.dumps({**STORAGE, **(storage or {})}) + "\n").encode(),
        "meta/sizes": (json.dumps({**SIZES, **(sizes or {})}) + "\n").encode(),
        "__attrs__": b"{}\n",
    }


def parsed(storage: dict[str, Any] | None = None, sizes: dict[str, Any] | None = None) -> ArrayMetadata:
    metadata = BCOLZ.parse(documents(storage, sizes))
    assert isinstance(metadata, ArrayMetadata)
    return metadata


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        *[(name, name) for name in ("bool", "int8", "uint64", "float16", "complex128", ">i4", ">f8", "|S7", "<U5")],
        *[(name, name) for name in (">U4", "datetime64[ns]", "timedelta64[25us]", ">M8[ns]", "datetime64", "|V5")],
        ("<i8", "i8"),
        ("[('a', '<i4'), ('b', '>f8', (2, 3))]", [("a", "<i4"), ("b", ">f8", (2, 3))]),
        ("[(('title', 'a'), 'S3'), ('b', [('c', '<M8[D]')])]", [(("title", "a"), "S3"), ("b", [("c", "<M8[D]")])]),
        (
            "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16, 'aligned': True}",
            np.dtype([("a", "i1"), ("b", "f8")], align=True),
        ),
    ],
)
def test_data_types(text: str, dtype: Any) -> None:
    dflt = [0] * len(np.dtype(dtype).names or ()) if text[0] in "[{" else 0
    metadata = parsed({"dtype": text, "dflt": 0 if text[0] in "[{" else dflt})
    assert metadata.data_type.numpy == np.dtype(dtype)
    assert str(metadata.data_type.numpy) in (text, str(np.dtype(dtype)))


@pytest.mark.parametrize(
    "text",
    [
        "", "i4,i4", "(2,)i4", "()", "[", "[(", "[]", "{}", "S", "U0", "V", 7, None, ["i4"], "__import__('os')",
        "[('a', __import__('os').system('true'))]", "[('a', 'O')]", "[('a', '<i4'), ('a', '<i4')]", "[('a', 2.5)]",
        "{'names': ['a'], 'formats': ['<i4'], 'offsets': [-4]}", "{'names': ['a'], 'formats': ['<i4'], 'x': 1}",
        "{'names': ['a'], 'formats': ['<i4'], 'itemsize': 99999999999}", "[" * 1000, "[('a', " + "(" * 100 + ")" * 100,
        "[('a', '<i4', (1000000, 1000000))]", "[('a','<i4')," * 9000, "S99999999999", "U16777216", "[lambda: 0]",
        "i4\0", "T", "datetime64[fortnight]", "{**{}}", "[f'{1}']", "[('a', '<i4', -1)]",
    ],
)  # fmt: skip
def test_invalid_data_types_are_rejected(text: Any) -> None:
    with pytest.raises((MetadataError, UnsupportedError)) as raised:
        parsed({"dtype": text})
    assert raised.value.key == "meta/storage"
    assert raised.value.field == "dtype"


@pytest.mark.parametrize(
    ("dtype", "dflt", "value"),
    [
        ("int32", 7, 7), ("int32", 7.0, 7), ("float64", 3, 3.0), ("float64", float("-inf"), -np.inf),
        ("bool", True, True), ("bool", 1, True), ("|S3", "ab", b"ab"), ("|S3", "é", b"\xe9"), ("<U3", "€", "€"),
        ("|V2", "\0\1", b"\0\1"),
        ("|V2", 0, b"\0\0"), ("|S3", 0, b""), ("complex64", 2, 2), (">c16", "(1-2j)", 1 - 2j),
        ("datetime64[ns]", 5, np.datetime64(5, "ns")),
        ("timedelta64[D]", 0, np.timedelta64(0, "D")), ("int32", [[3, 3], [3, 3]], 3),
        ("float64", [[0.0, 0.0], [0.0, 0.0]], 0),
    ],
)  # fmt: skip
def test_defaults(dtype: str, dflt: Any, value: Any) -> None:
    sizes = {"shape": [25, 2, 2]} if isinstance(dflt, list) else {}
    fill = parsed({"dtype": dtype, "dflt": dflt}, sizes).fill_value
    assert fill is not None
    assert fill.dtype == np.dtype(dtype)
    assert fill[()] == (np.void(value) if dtype == "|V2" else value)


def test_nan_and_nat_as_defaults() -> None:
    for dtype, dflt in (("float32", float("nan")), ("datetime64", None), ("datetime64[ns]", -(2**63))):
        fill = parsed({"dtype": dtype, "dflt": dflt}).fill_value
        assert fill is not None
        assert np.isnan(fill)


@pytest.mark.parametrize(
    ("fields", "value", "dflt"),
    [
        ([("t", "M8[s]"), ("d", "m8[D]")], (5, "NaT"), [5, None]),
        ([("z", "c8"), ("s", "S2", (2,))], (1.5, [b"\xff", b"a"]), [1.5, ["ÿ", "a"]]),
        ([("z", "c8"), ("w", ">c16", (2,))], (2j, [complex(-np.inf, -0.0), 1]), ["2j", ["(-inf-0j)", 1.0]]),
        ([("m", ">i4", (1, 2)), ("n", [("v", "V2")])], ([[1, 2]], (b"\0\1",)), [[[1, 2]], ["\0\1"]]),
    ],
)
def test_defaults_of_structures_survive_a_round_trip(fields: Any, value: Any, dflt: Any) -> None:
    fill = np.array(value, fields)
    a = tegula.create_array({}, shape=2, dtype=fields, fill_value=fill, format="bcolz")
    assert json.loads(a.store.get("meta/storage") or b"")["dflt"] == dflt
    assert a.metadata.fill_value is not None
    assert a.metadata.fill_value.tobytes() == fill.tobytes()
    assert a[:].tobytes() == 2 * fill.tobytes()


@pytest.mark.parametrize("dflt", [[5], [[1]], [[1, 2, 3]], [3], ["x"]])
def test_defaults_that_do_not_fit_their_fields_are_rejected(dflt: Any) -> None:
    with pytest.raises(MetadataError, match="dflt"):
        parsed({"dtype": "[('m', '<i4', (2,))]", "dflt": dflt})


def test_the_default_of_a_time_without_a_unit_is_not_written_as_zero() -> None:
    a = tegula.create_array({}, shape=2, dtype="M8", format="bcolz")
    assert json.loads(a.store.get("meta/storage") or b"")["dflt"] is None


def test_default_that_differs_within_a_row_is_kept_without_fill_value() -> None:
    metadata = parsed({"dflt": [1, 2]}, {"shape": [25, 2]})
    assert metadata.fill_value is None
    assert BCOLZ.serialize(metadata) == metadata.documents


@pytest.mark.parametrize("dflt", ["x", [1, 2], {}, 1.5, 2**40, None, float("nan")])
def test_invalid_defaults_are_rejected(dflt: Any) -> None:
    with pytest.raises(MetadataError, match="dflt"):
        parsed({"dflt": dflt})


@pytest.mark.parametrize(
    ("cparams", "codec"),
    [
        ({"clevel": 5, "shuffle": True}, {"cname": "blosclz", "clevel": 5, "shuffle": 1}),
        ({"clevel": 0, "shuffle": False}, {"cname": "blosclz", "clevel": 0, "shuffle": 0}),
        ({"clevel": 9, "shuffle": 2, "cname": "zstd", "quantize": None}, {"cname": "zstd", "clevel": 9, "shuffle": 2}),
    ],
)
def test_compression_parameters(cparams: dict[str, Any], codec: dict[str, Any]) -> None:
    metadata = parsed({"cparams": cparams})
    assert metadata.codecs[-2].configuration == {**codec, "typesize": 4}


@pytest.mark.parametrize(
    ("dtype", "typesize"),
    [("bool", 1), ("float64", 8), (">i2", 2), ("|S7", 1), ("<U5", 4), ("|V5", 5), ("|V300", 1), ("complex128", 16),
     ("datetime64[ns]", 8), ("[('a', '<i4'), ('b', 'S3')]", 7), ("object", 1)],
)  # fmt: skip
def test_the_type_size_of_frames(dtype: str, typesize: int) -> None:
    assert parsed({"dtype": dtype}).codecs[-2].configuration["typesize"] == typesize


@pytest.mark.parametrize(
    ("storage", "sizes"),
    [
        ({"chunklen": 0}, {}), ({"chunklen": True}, {}), ({"chunklen": 2.5}, {}), ({"chunklen": "10"}, {}),
        ({"cparams": 5}, {}), ({"cparams": {"quantize": "2"}}, {}),
        ({}, {"shape": [-1]}), ({}, {"shape": []}), ({}, {"shape": 25}), ({}, {"shape": [2.0]}), ({}, {"shape": None}),
        ({}, {"shape": [2**63]}), ({}, {"shape": [1] * 40}), ({"dtype": "object"}, {"shape": [3, 2]}),
    ],
)  # fmt: skip
def test_invalid_documents_are_rejected(storage: dict[str, Any], sizes: dict[str, Any]) -> None:
    with pytest.raises(TegulaError):
        parsed(storage, sizes)


def test_missing_members() -> None:
    for name in ("dtype", "cparams", "chunklen"):
        broken = {key: value for key, value in STORAGE.items() if key != name}
        with pytest.raises(MetadataError, match=name):
            BCOLZ.parse({**documents(), "meta/storage": json.dumps(broken).encode()})
    with pytest.raises(MetadataError, match="meta/sizes"):
        BCOLZ.parse({"meta/storage": documents()["meta/storage"]})
    bare = json.dumps({"dtype": "int32", "cparams": {}, "chunklen": 3}).encode()
    assert BCOLZ.parse({"meta/storage": bare, "meta/sizes": b'{"shape": [4]}'}) is not None
    assert BCOLZ.parse({**documents(), "__attrs__": b" \n"}) is not None
    assert BCOLZ.parse({"meta/sizes": b"{}", "__attrs__": b"{}"}) is None


@settings(deadline=None)
@given(
    dtype=st.sampled_from(["?", "i2", ">u4", "f8", "S3", "U2", "M8[ns]", "m8[s]", "V4", "c8"]),
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    chunklen=st.integers(1, 9),
    quantize=st.integers(0, 4),
    shuffle=st.integers(0, 2),
)
def test_metadata_survives_a_round_trip(
    dtype: str, shape: list[int], chunklen: int, quantize: int, shuffle: int
) -> None:
    codecs: list[Any] = [{"id": "blosc", "cname": "zlib", "clevel": 3, "shuffle": shuffle}]
    if dtype == "f8" and quantize:
        codecs.insert(0, {"id": "quantize", "digits": quantize, "dtype": "<f8"})
    store = tegula.MemoryStore()
    a = tegula.create_array(
        store, shape=shape, chunks=(chunklen,), dtype=dtype, codecs=codecs, attributes={"é": [1]}, format="bcolz"
    )
    found = {key: store.get(key) or b"" for key in store.list() if not key.startswith("data/")}
    metadata = BCOLZ.parse(found)
    assert metadata == a.metadata
    assert BCOLZ.serialize(metadata) == found
    assert found["__attrs__"] == b'{"\\u00e9": [1]}\n'
    storage = json.loads(found["meta/storage"])
    assert [*storage] == ["dtype", "cparams", "chunklen", "expectedlen", "dflt"]
    assert storage["cparams"]["quantize"] == (quantize if dtype == "f8" else 0)
    assert sorted(key for key in store.list() if key.startswith("data/")) == sorted(
        f"data/__{n}.blp" for n in range(-(-shape[0] // chunklen)) if 0 not in shape
    )


@pytest.mark.parametrize("ending", ["", "\n", " \t\n"])
@pytest.mark.parametrize("inner", [(), (3, 2), (0,)])
@pytest.mark.parametrize("nbytes", [None, 0, 7])
def test_sizes_are_written_as_bcolz_writes_them(inner: tuple[int, ...], nbytes: int | None, ending: str) -> None:
    sizes = {"shape": [25, *inner], "nbytes": 1, "cbytes": 2}
    raw = {**documents(), "meta/sizes": (json.dumps(sizes) + ending).encode()}
    metadata = BCOLZ.parse(raw)
    assert isinstance(metadata, ArrayMetadata)
    assert BCOLZ.serialize(metadata) == raw
    row = 4 * int(np.prod(inner))
    for rows in (0, 24, 10**12):
        changed = dataclasses.replace(metadata, shape=(rows, *inner), stored_nbytes=nbytes)
        expected = {"shape": [rows, *inner], "nbytes": rows * row, "cbytes": 10 * row if nbytes is None else nbytes}
        assert BCOLZ.serialize(changed)["meta/sizes"] == (json.dumps(expected) + ending).encode()


def test_unknown_members_are_kept() -> None:
    raw = {**documents({"mine": 1}, {"yours": [2]}), "__attrs__": b'{"x": 1}\n'}
    metadata = BCOLZ.parse(raw)
    assert metadata is not None
    assert BCOLZ.serialize(metadata) == raw
    store = tegula.MemoryStore({**raw, **{f"data/__{n}.blp": b"" for n in range(3)}})
    tegula.open(store, "r+").resize(20)
    assert json.loads(store.get("meta/sizes") or b"")["yours"] == [2]
    assert store.get("meta/storage") == raw["meta/storage"]
    assert [*store.list_prefix("data/")] == ["data/__0.blp", "data/__1.blp"]


@pytest.mark.parametrize("value", [None, "25", [25], 1e400, True])
def test_an_expected_length_that_is_no_number_is_ignored(value: Any) -> None:
    metadata = parsed({"expectedlen": value})
    assert "expectedlen" not in metadata.extra
    assert BCOLZ.serialize(metadata) == documents({"expectedlen": value})


def test_the_columns_of_a_ctable() -> None:
    raw = {"__rootdirs__": b'{"names": ["z", "a", "\\u00fc b"], "dirs": {"z": "/old/place"}}\n', "__attrs__": b"{}\n"}
    metadata = BCOLZ.parse(raw)
    assert isinstance(metadata, GroupMetadata)
    assert metadata.members == ("z", "a", "ü b")
    assert BCOLZ.serialize(metadata) == raw
    for names in (["a/b"], ["../x"], [".."], [""], ["a", "a"], [1], "ab", None, ["a\0"], ["__attrs__"], ["\ud800"]):
        with pytest.raises(MetadataError, match="__rootdirs__"):
            BCOLZ.parse({"__rootdirs__": json.dumps({"names": names}).encode()})


@pytest.mark.parametrize(
    "options",
    [
        {"shape": ()}, {"shape": (4, 4), "chunks": (2, 2)}, {"shape": 4, "dtype": "bfloat16"},
        {"shape": 4, "dtype": str},
        {"shape": 4, "codecs": "zstd"}, {"shape": 4, "codecs": {"id": "blosc", "blocksize": 16}},
        {"shape": 4, "codecs": {"id": "blosc", "cname": "snappy"}},
        {"shape": (4, 4), "order": "F"}, {"shape": (4,), "chunks": ([1, 3],)},
        {"shape": 4, "dtype": object},
        {"shape": 4, "shards": 2, "chunks": 2},
        {"shape": 4, "dtype": "i4", "codecs": [{"id": "delta", "dtype": "<i4"}, {"id": "blosc"}]},
    ],
)  # fmt: skip
def test_adapt_rejects_what_bcolz_can_not_express(options: dict[str, Any]) -> None:
    store = tegula.MemoryStore()
    with pytest.raises((UnsupportedError, MetadataError)):
        tegula.create_array(store, format="bcolz", **{"dtype": "i4", **options})
    assert [*store.list()] == []


def test_no_compression_is_level_0() -> None:
    a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype="i4", codecs=None, format="bcolz")
    a[...] = [1, 2, 3, 4]
    assert a.metadata.codecs[-2].configuration["clevel"] == 0
    assert a.nbytes_stored() == 16 + 16 + 16


def test_the_length_of_automatic_chunks() -> None:
    # recorded from bcolz 1.13: expected length, bytes of a row, chunk length
    for expected, nbytes, rows in (
        (-1, 4, 4096), (0, 8, 2048), (25, 4, 4096), (10**6, 8, 32768), (10**9, 4, 524288), (10**11, 600, 6990),
        (300, 800, 327), (13_107, 8, 16384), (13_108, 8, 32768), (1_310_719, 8, 32768), (1_310_720, 8, 65536),
    ):  # fmt: skip
        assert automatic_chunklen(expected, nbytes) == rows
    assert automatic_chunks((300, 20, 10), 4) == (327, 20, 10)
    assert automatic_chunks((), 4) == ()


def test_bcolz_and_zarr_v1_are_told_apart(tmp_path: Any) -> None:
    """A file named `meta` is the document of Zarr v1, a directory of that name belongs to bcolz."""
    tegula.save(tmp_path / "one", np.arange(4), format="zarr1")
    tegula.save(tmp_path / "two", np.arange(5), format="bcolz")
    assert tegula.open(tmp_path / "one").format == "zarr1"
    assert tegula.open(tmp_path / "two").format == "bcolz"
    group = tegula.open(tmp_path)
    assert {name: node.format for name, node in group.members(implicit=True)} == {"one": "zarr1", "two": "bcolz"}
    with pytest.raises(tegula.NotFoundError):
        tegula.open(tmp_path / "one", format="bcolz")
    with pytest.raises(tegula.NotFoundError):
        tegula.open(tmp_path / "two", format="zarr1")


def test_the_padding_of_a_default_is_zero() -> None:
    """Otherwise two readings of one document differ, and `check` takes the array for a replaced one."""
    dtype = np.dtype([("a", "i1"), ("b", "f8"), ("c", "S2")], align=True)
    for _ in range(5):
        np.full(dtype.itemsize, 0xA5, "u1")  # NumPy uses its memory again
        found = default_from_json([1, 2.0, "ab"], DataType(dtype), ())
        assert found is not None
        assert found.tobytes() == b"\x01" + bytes(7) + np.float64(2).tobytes() + b"ab" + bytes(6)
