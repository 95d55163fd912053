"""Extensions of Zarr v3 in documents: chunk key encodings, chunk grids, data types, and what may be ignored."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.key_encodings import keys_from_json, keys_to_json

DEFAULT = {"name": "default", "configuration": {"separator": "/"}}
OPTIONAL = {"name": "example", "must_understand": False}


def document(**changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "chunk_key_encoding": DEFAULT,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], **changes,
    }  # fmt: skip


def store_of(**changes: Any) -> tegula.MemoryStore:
    return tegula.MemoryStore({"zarr.json": json.dumps(document(**changes)).encode()})


# --- chunk key encodings


@pytest.mark.parametrize(
    ("encoding", "key", "scalar"),
    [
        ({"name": "suffix", "configuration": {"suffix": ".tiff", "base-encoding": DEFAULT}}, "c/2/0.tiff", "c.tiff"),
        ({"name": "suffix", "configuration": {"suffix": ".tiff", "base_encoding": "v2"}}, "2.0.tiff", "0.tiff"),
        ({"name": "suffix", "configuration": {"suffix": ".bin"}}, "c/2/0.bin", "c.bin"),
        ({"name": "zarrs.default_suffix", "configuration": {"separator": ".", "suffix": ".x"}}, "c.2.0.x", "c.x"),
        ({"name": "suffix", "configuration": {"suffix": ".b", "base-encoding": {
            "name": "suffix", "configuration": {"suffix": ".a"}}}}, "c/2/0.a.b", "c.a.b"),
    ],
)  # fmt: skip
def test_keys_with_a_suffix(encoding: Any, key: str, scalar: str) -> None:
    keys = keys_from_json(encoding)
    assert (keys.encode((2, 0)), keys.encode(())) == (key, scalar)
    assert (keys.decode(key, 2), keys.decode(key.rpartition(".")[0], 2)) == ((2, 0), None)
    assert keys_from_json(keys_to_json(keys)) == keys
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(5, 3), chunks=2, dtype="u1", chunk_key_encoding=encoding)
    array[...] = np.arange(15).reshape(5, 3)
    assert key in [*store.list()]
    assert np.array_equal(tegula.open_array(store)[...], array[...])
    assert tegula.check(store).findings == []
    array.resize((2, 3))
    assert key not in [*store.list()]


@pytest.mark.parametrize("configuration", [
    {}, {"suffix": ""}, {"suffix": 3}, {"suffix": "/../x"}, {"suffix": "x" * 101}, {"suffix": ".x", "other": 1},
    {"suffix": ".x", "base-encoding": "unknown"}, {"suffix": ".x", "base-encoding": 3},
])  # fmt: skip
def test_suffixes_that_are_not_valid(configuration: Any) -> None:
    with pytest.raises((MetadataError, UnsupportedError)):
        keys_from_json({"name": "suffix", "configuration": configuration})


FANOUT = {"name": "fanout", "configuration": {"max_children": 1000}}


@pytest.mark.parametrize(
    ("coords", "key"),  # the examples of the proposal
    [
        ((), "c"),
        ((0,), "c/0/000"),
        ((12,), "c/0/012"),
        ((1234, 5, 0, 6789012), "c/1/001/234/0/005/0/000/2/006/789/012"),
    ],
)
def test_keys_in_short_directories(coords: tuple[int, ...], key: str) -> None:
    keys = keys_from_json(FANOUT)
    assert keys.encode(coords) == key
    assert keys.decode(key, len(coords)) == coords
    assert keys.decode(key, len(coords) + 1) is None
    assert keys_from_json(keys_to_json(keys)) == keys == keys_from_json("fanout")
    with_suffix = keys_from_json({"name": "suffix", "configuration": {"suffix": ".b", "base-encoding": FANOUT}})
    assert with_suffix.encode(coords) == f"{key}.b"
    assert with_suffix.decode(f"{key}.b", len(coords)) == coords
    assert keys_from_json(keys_to_json(with_suffix)) == with_suffix


@pytest.mark.parametrize(
    "key",
    ["c/0", "c/0/12", "c/0/0012", "c/1/000/012", "c/1/012", "c/00/012", "c/0/012/", "c/0/01a", "c/-1/012", "c/0/ 12"],
)
def test_keys_that_belong_to_no_chunk(key: str) -> None:
    assert keys_from_json(FANOUT).decode(key, 1) is None


@pytest.mark.parametrize("before", ["", "a{0}/b"])
def test_an_array_in_short_directories(before: str) -> None:
    encoding = {"name": "fanout", "configuration": {"max_children": 100}}
    store = tegula.MemoryStore()
    array = tegula.create_array(
        store, path=before, shape=(12345, 2), chunks=(10, 2), dtype="i4", chunk_key_encoding=encoding
    )
    values = np.arange(12345 * 2).reshape(12345, 2) + 1
    array[...] = values
    keys = sorted(key.removeprefix(f"{before}/") for key in store.list() if "zarr.json" not in key)
    assert len(keys) == 1235
    assert keys == [array.metadata.keys.encode((number, 0)) for number in range(1235)]  # in the order of the numbers
    folders: dict[str, set[str]] = {}
    for key in keys:
        parts = key.split("/")
        for depth in range(1, len(parts)):
            folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    assert max(map(len, folders.values())) == 100
    opened = tegula.open_array(store, "r+", path=before)
    assert np.array_equal(opened[...], values)
    assert np.array_equal(opened.oindex[[12344, 3], [1]], values[np.ix_([12344, 3], [1])])
    assert opened.nchunks_initialized() == 1235
    assert tegula.check(store).findings == []
    opened.resize((1000, 2))
    opened.append(values[:5])
    assert np.array_equal(opened[...], np.concatenate([values[:1000], values[:5]]))
    assert sum("zarr.json" not in key for key in store.list()) == 101
    for name in ("zarr2", "zarr3"):
        converted = tegula.MemoryStore()
        tegula.convert(opened, converted, format=name, verify=True)
        assert np.array_equal(tegula.open(converted)[...], opened[...])


@pytest.mark.parametrize("most", [101, 1001, 1234, 3, 10, 99, 10**19, 10**100, pytest.param(10**5000, id="huge")])
def test_an_older_draft_is_refused_with_advice(most: int) -> None:
    with pytest.raises(UnsupportedError, match="older draft"):
        keys_from_json({"name": "fanout", "configuration": {"max_children": most}})


@pytest.mark.parametrize("most", ["100", 1, True, pytest.param(-(10**5000), id="huge")])
def test_short_directories_that_are_not_valid(most: Any) -> None:
    with pytest.raises(MetadataError):
        keys_from_json({"name": "fanout", "configuration": {"max_children": most}})


def test_other_encodings_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="'template'"):
        tegula.open(store_of(chunk_key_encoding={"name": "template", "configuration": {}}))
    with pytest.raises(UnsupportedError, match="no option 'more'"):
        tegula.open(store_of(chunk_key_encoding={"name": "fanout", "configuration": {"more": 1}}))


# --- chunk grids


BOUNDED = {"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": [4]}}


def test_regular_chunks_that_end_where_the_array_does() -> None:
    store = store_of(chunk_grid=BOUNDED)
    array = tegula.open_array(store, mode="r+")
    assert array.metadata.grid.lengths == ((4, 4, 2),)
    array[...] = range(10)
    assert [store.size(f"c/{number}") for number in range(3)] == [16, 16, 8]
    array.attrs["a"] = 1
    assert json.loads(store.get("zarr.json") or b"")["chunk_grid"] == BOUNDED
    assert tegula.check(store).findings == []


@pytest.mark.parametrize("size", [2, 8, 9, 11, 12, 20])
def test_their_chunks_stay_when_the_array_is_resized(size: int) -> None:
    store = store_of(chunk_grid=BOUNDED)
    array = tegula.open_array(store, mode="r+")
    array[...] = range(10)
    array.resize(size)
    expected = [*range(min(size, 10)), *[0] * (size - 10)]
    for opened in (array, tegula.open_array(store, mode="r+")):
        assert opened[...].tolist() == expected
    assert json.loads(store.get("zarr.json") or b"")["chunk_grid"]["name"] == "rectilinear"
    array[...] = 7
    assert tegula.open_array(store)[...].tolist() == [7] * size


@pytest.mark.parametrize(("size", "lengths"), [(0, (4,)), (3, (3,)), (4, (4,)), (8, (4, 4))])
def test_bounded_chunks_of_other_lengths(size: int, lengths: tuple[int, ...]) -> None:
    store = store_of(chunk_grid=BOUNDED, shape=[size])
    array = tegula.open_array(store, mode="r+")
    assert array.metadata.grid.lengths == (lengths,)
    array[...] = range(size)
    assert array[...].tolist() == [*range(size)]


def test_a_document_does_not_make_more_chunks_than_memory_holds() -> None:
    with pytest.raises(MetadataError, match="more than"):
        tegula.open(store_of(chunk_grid=BOUNDED, shape=[2**62]))


# --- data types


@pytest.mark.parametrize(
    "name", ["complex_bfloat16", "complex_float16", "complex_float8_e5m2", "complex_float4_e2m1fn"]
)
def test_complex_numbers_in_documents(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    store = store_of(data_type=name, fill_value=[1, "-Infinity" if "16" in name or "e5m2" in name else -2.0])
    array = tegula.open_array(store)
    assert (str(array.metadata.data_type), array.dtype.names) == (name, ("real", "imag"))
    assert float(array[0]["real"]) == 1
    assert f"{name}" in str(array.info)
    made = tegula.MemoryStore()
    tegula.create_array(made, shape=3, dtype=name, fill_value=1 - 2j)
    written = json.loads(made.get("zarr.json") or b"")
    assert (written["data_type"], written["fill_value"]) == (name, [1.0, -2.0])
    endian = {"endian": "little"} if "16" in name else None
    assert written["codecs"][0].get("configuration") == endian
    copied = tegula.MemoryStore()
    assert tegula.convert(made, copied, verify=True).ok
    assert json.loads(copied.get("zarr.json") or b"")["data_type"] == name
    assert tegula.compare(made, copied).equal


@pytest.mark.parametrize("fill", [3, [1], [1, 2, 3], "AAAA", None, ["x", 1], {"real": 1}])
def test_fill_values_that_are_no_complex_numbers(fill: Any) -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(MetadataError):
        tegula.open(store_of(data_type="complex_float16", fill_value=fill))


def test_formats_without_these_numbers_say_so() -> None:
    pytest.importorskip("ml_dtypes")
    for format in ("zarr1", "zarr2", "bcolz"):
        with pytest.raises((MetadataError, UnsupportedError)):
            tegula.create_array({}, shape=3, dtype="complex_bfloat16", format=format)


def test_a_struct_of_a_type_that_numpy_can_not_swap() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype([("a", "i2"), ("b", ml_dtypes.bfloat16)])
    store = tegula.MemoryStore()
    values = np.array([(1, 1.5), (2, -3)], dtype)
    tegula.create_array(store, data=values, codecs=[{"name": "bytes", "endian": "big"}])
    assert (store.get("c/0") or b"").hex() == "00013fc00002c040"
    assert tegula.open_array(store)[...].tobytes() == values.tobytes()


# --- what may be ignored


@pytest.mark.parametrize("changes", [
    {"example": OPTIONAL}, {"storage_transformers": [OPTIONAL]},
    {"codecs": [*document()["codecs"], OPTIONAL]}, {"codecs": [OPTIONAL, *document()["codecs"]]},
])  # fmt: skip
def test_extensions_that_need_not_be_understood_are_ignored(changes: dict[str, Any]) -> None:
    store = store_of(**changes)
    array = tegula.open_array(store, mode="r+")
    array[...] = range(10)
    array.attrs["a"] = 1
    assert tegula.open_array(store)[...].tolist() == [*range(10)]
    written = json.loads(store.get("zarr.json") or b"")
    assert {name: written[name] for name in changes} == changes


@pytest.mark.parametrize("changes", [
    {"example": {"name": "example"}}, {"storage_transformers": [{"name": "example"}]},
    {"codecs": [*document()["codecs"], {"name": "example"}]}, {"chunk_grid": OPTIONAL},
    {"chunk_key_encoding": OPTIONAL}, {"data_type": OPTIONAL},
])  # fmt: skip
def test_extensions_that_must_be_understood_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        tegula.open(store_of(**changes))[...]


GZIP = {"name": "gzip", "configuration": {"level": 1}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BLOCK = [
    {"name": "transpose", "configuration": {"order": [0]}}, {"name": "bytes", "configuration": {"endian": "big"}}, GZIP,
]  # fmt: skip
NESTING: dict[str, Any] = {
    "sharding_indexed": lambda *more: [{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2], "codecs": [LITTLE, GZIP, *more], "index_codecs": [LITTLE, *more]}}],
    "conditional": lambda *more: [LITTLE, {"name": "conditional", "configuration": {"codecs": [*more, GZIP]}}],
    "n5_default": lambda *more: [{"name": "n5_default", "configuration": {"codecs": [*BLOCK, *more]}}],
}  # fmt: skip


@pytest.mark.parametrize("executor", ["kernel", "reference"])
@pytest.mark.parametrize("outer", NESTING)
def test_nested_codecs_that_need_not_be_understood_are_ignored(outer: str, executor: str) -> None:
    values = np.repeat(np.arange(2, dtype="i4"), 5)
    with tegula.config.configure(executor=executor):
        store = store_of(codecs=NESTING[outer](OPTIONAL))
        array = tegula.open(store, "r+")
        array[...] = values
        assert np.array_equal(tegula.open(store)[...], values)
        array.attrs["kept"] = 1
        assert json.loads(store.get("zarr.json"))["codecs"] == NESTING[outer](OPTIONAL)
        assert tegula.check(store).findings == []
        if outer != "conditional":  # whose bits count the ignored codec, too
            plain = store_of(codecs=NESTING[outer]())
            tegula.open(plain, "r+")[...] = values
            assert [plain.get(key) for key in plain.list() if key != "zarr.json"] == [
                store.get(key) for key in store.list() if key != "zarr.json"
            ]
        with pytest.raises((UnsupportedError, MetadataError), match=r"unknown codec .example.|at most one compressor"):
            tegula.open(store_of(codecs=NESTING[outer]({"name": "example"})))[...]
