"""The ``zarr3`` driver: arrays made by it and by others, next to TensorStore."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

import tegula
import tegula.tensorstore as ts

STRUCT = {
    "name": "struct",
    "configuration": {"fields": [{"name": "x", "data_type": "int32"}, {"name": "y", "data_type": "int8"}]},
}
TYPES = ["bool", "int4", "uint8", "int16", "uint64", "float8_e5m2", "float16", "bfloat16", "float64", "complex64"]
CODECS = st.lists(st.sampled_from(["zstd", "blosc", "crc32c"]), max_size=2)
SIZES = st.sampled_from([1, 2, 3])


def where(path: Path) -> dict[str, Any]:
    return {"driver": "file", "path": str(path)}


def keys_of(array: Any) -> dict[str, bytes]:
    return {key.decode(): bytes(array.kvstore[key]) for key in array.kvstore.list().result()}


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_same_bytes_are_stored(data: st.DataObject) -> None:
    draw = data.draw
    name = draw(st.sampled_from(TYPES))
    shape = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3))
    rank = len(shape)
    read = [draw(SIZES) for _ in shape]
    write = [size * draw(SIZES) for size in read]
    codecs: list[Any] = [*draw(CODECS)]
    if draw(st.booleans()):
        codecs.insert(0, {"name": "transpose", "configuration": {"order": draw(st.permutations(range(rank)))}})
    layout = {"read_chunk": {"shape": read}, "write_chunk": {"shape": write}}
    schema = {"chunk_layout": layout, "codec": {"driver": "zarr3", "codecs": codecs}}
    encoding = draw(st.sampled_from([{"name": "default"}, {"name": "v2", "configuration": {"separator": "/"}}]))
    spec = {"driver": "zarr3", "kvstore": "memory://", "schema": schema, "metadata": {"chunk_key_encoding": encoding}}
    options: dict[str, Any] = {"dtype": name, "shape": shape, "fill_value": draw(st.sampled_from([0, 1])) and True}
    box = tuple(slice(*sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))) for n in shape)
    seed = draw(st.integers(0, 99))
    results = []
    for package in (ts, tensorstore):
        array = package.open(spec, create=True, context=package.Context(), **options).result()
        values = np.random.default_rng(seed).integers(0, 2, array[box].shape)
        array[box] = values.astype(array.dtype.numpy_dtype)
        count = array[box].storage_statistics(query_not_stored=True, query_fully_stored=True).result()
        stored = (count.not_stored, count.fully_stored)
        values = array.read().result().tolist()
        results.append((keys_of(array), values, array.spec().to_json(), array.schema.to_json(), stored))
    assert results[0] == results[1]


@pytest.mark.parametrize("field", ["x", "y"])
def test_fields_are_read_and_written_the_same(field: str) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://", "field": field}
    metadata = {"data_type": STRUCT, "fill_value": {"x": 5, "y": 6}, "shape": [3]}
    results = []
    for package in (ts, tensorstore):
        context = package.Context()
        array = package.open({**spec, "metadata": metadata}, create=True, context=context).result()
        array[1] = 9
        results.append((keys_of(array), array.read().result().tolist(), array.spec().to_json(), array.dtype.name))
        assert package.Spec(array.spec().to_json()).to_json() == array.spec().to_json()
    assert results[0] == results[1]


def test_records_as_bytes() -> None:
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    metadata = {"data_type": STRUCT, "fill_value": {"x": 1, "y": 2}, "shape": [3]}
    array = ts.open({**spec, "metadata": metadata, "field": "x"}, create=True, context=context).result()
    array[0] = 0x01020304
    void = ts.open({**spec, "open_as_void": True}, context=context).result()
    assert (void.dtype, void.shape, void.domain.implicit_upper_bounds) == (ts.byte, (3, 5), (True, False))
    assert void.read().result().tobytes() == b"\4\3\2\1\2" + b"\1\0\0\0\2" * 2
    assert void.spec().to_json()["open_as_void"] is True
    again = ts.open(ts.Spec(void.spec().to_json()), context=context).result()
    assert again.schema == void.schema
    void[2] = np.frombuffer(b"\7\0\0\0\1", "V1")
    assert array.read().result().tolist() == [0x01020304, 1, 7]


def test_whole_records_are_read_and_written() -> None:
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://", "open_as_records": True}
    metadata = {"data_type": STRUCT, "fill_value": {"x": 1, "y": 2}, "shape": [3]}
    records = ts.open({**spec, "metadata": metadata}, create=True, context=context).result()
    records[1] = (5, 6)
    assert records.read().result().tolist() == [(1, 2), (5, 6), (1, 2)]
    again = ts.open(ts.Spec(records.spec().to_json()), context=context).result()
    assert again.schema == records.schema
    assert ts.Schema(again.schema.to_json()) == again.schema


def test_raw_bits_are_shown_as_bytes() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"data_type": "r16", "shape": [2]}}
    array = ts.open(spec, create=True).result()
    assert (array.dtype, array.shape) == (ts.byte, (2, 2))
    array[1] = np.frombuffer(b"ab", "V1")
    assert keys_of(array)["c/0"] == b"\0\0ab"
    assert array.read().result().tobytes() == b"\0\0ab"


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("M8[s]", np.array(["2020-01-02", "NaT"], "M8[s]")),
        ("m8[ms]", np.array([1, 2], "m8[ms]")),
        ("U3", np.array(["ab", "cde"])),
        ("S3", np.array([b"ab", b"cde"])),
        ("str", np.array(["é", ""], object)),
    ],
)
def test_what_tensorstore_does_not_know(dtype: Any, values: Any, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a", shape=2, dtype=dtype, chunks=1)
    array[:] = values
    opened = ts.open({"driver": "zarr3", "kvstore": where(tmp_path / "a")}).result()
    read = opened.read().result()
    if dtype == "S3":
        assert (opened.dtype, opened.shape) == (ts.char, (2, 3))
        read = np.ascontiguousarray(read).view("S3")[..., 0]
    np.testing.assert_array_equal(read, values)
    opened[0] = opened[1]
    np.testing.assert_array_equal(array[:], np.array([values[1], values[1]], values.dtype))
    again = ts.open(ts.Spec(opened.spec().to_json())).result()
    assert again.schema.to_json() == opened.schema.to_json()
    created = ts.open(
        {"driver": "zarr3", "kvstore": "memory://", "metadata": opened.spec().to_json()["metadata"]}, create=True
    ).result()
    assert created.dtype == opened.dtype


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_arrays_of_zarr_python(shards: Any, tmp_path: Path) -> None:
    values = np.arange(30, dtype="f4").reshape(6, 5)
    created = zarr.create_array(
        tmp_path / "a", shape=(6, 5), chunks=(2, 2), shards=shards, dtype="f4", fill_value=np.nan, attributes={"a": 1},
        dimension_names=["x", None],
    )  # fmt: skip
    created[:4] = values[:4]
    opened = ts.open({"driver": "zarr3", "kvstore": where(tmp_path / "a")}).result()
    real = tensorstore.open({"driver": "zarr3", "kvstore": where(tmp_path / "a")}).result()
    np.testing.assert_array_equal(opened.read().result(), real.read().result())
    assert json.dumps(opened.schema.to_json()) == json.dumps(real.schema.to_json())
    assert opened.domain.labels == ("x", "")
    assert dict(opened.attributes) == {"a": 1}
    opened[4:] = values[4:]
    np.testing.assert_array_equal(created[:], values)


def test_growing_after_shrinking_shows_the_fill_value() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    options: dict[str, Any] = {"dtype": ts.uint8, "shape": [5], "fill_value": 7}
    array = ts.open(spec, create=True, chunk_layout=ts.ChunkLayout(chunk_shape=[2]), **options).result()
    array[...] = 1
    array = array.resize(exclusive_max=[3]).result()
    assert sorted(keys_of(array)) == ["c/0", "c/1", "zarr.json"]
    assert array.resize(exclusive_max=[5]).result().read().result().tolist() == [1, 1, 1, 7, 7]


@pytest.mark.parametrize(
    "term", [slice(2, 6), slice(6, 8), 5, (slice(6, 8), slice(0, 0)), (6, slice(0, 0)), slice(1, 9, 3), slice(-6, -1)]
)
def test_what_is_out_of_bounds(term: Any) -> None:
    results = []
    for package in (ts, tensorstore):
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        array = package.open(spec, create=True, dtype="uint8", shape=[4, 3], context=package.Context()).result()
        outcomes: list[Any] = []
        for act in (lambda view: view.read().result().shape, lambda view: view.write(1).result()):
            try:
                view = array[term]
                outcomes.append(act(view))
            except (ValueError, IndexError) as error:
                outcomes.append(kind_and_code(error))
        results.append((outcomes, array.read().result().tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("part", ["rank", "codec", "fill_value", "dimension_units", "dtype", "domain"])
@pytest.mark.parametrize(
    "members",
    [
        {"schema": {"rank": 2}, "open_as_void": True},
        {"metadata": {"data_type": "int16"}, "field": "a"},
        {"metadata": {"shape": [4, 6]}},
        {"metadata": {"dimension_names": ["a", None]}, "schema": {"dimension_units": ["4 nm", None]}},
        {"metadata": {"attributes": {"dimension_units": ["nm"]}}},
        {"metadata": {"attributes": {"dimension_units": ["nm"]}, "data_type": "uint8"}},
        {"metadata": {"attributes": {"dimension_units": ["nm", None]}}, "schema": {"rank": 2}},
        {"metadata": {"attributes": {"dimension_units": ["nm", "s"]}, "shape": [4, 6]}},
        {"metadata": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}}}},
    ],
    ids=str,
)
def test_parts_of_a_spec_do_not_need_each_other(members: dict[str, Any], part: str) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://", **members}
    assert repr(getattr(ts.Spec(spec), part)) == repr(getattr(tensorstore.Spec(spec), part))


def test_a_minimal_spec_names_the_field() -> None:
    results = []
    for package in (ts, tensorstore):
        spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"data_type": STRUCT}, "field": "y"}
        array = package.open(spec, create=True, shape=[3], context=package.Context()).result()
        results.append(array.spec(minimal_spec=True).to_json())
    assert results[0] == results[1]
    assert results[0]["field"] == "y"


def test_units_with_many_digits() -> None:
    spec = {
        "driver": "zarr3",
        "kvstore": "memory://",
        "metadata": {"attributes": {"dimension_units": ["0.123456789 nm"]}},
    }
    context = ts.Context()
    options: dict[str, Any] = {"dtype": "uint8", "shape": [3], "open": True, "create": True, "context": context}
    for _ in range(2):  # a document holds fewer of them
        array = ts.open(spec, dimension_units=["0.123456789 nm"], **options).result()
        assert array.spec().to_json()["metadata"]["attributes"] == {"dimension_units": ["0.123457 nm"]}
