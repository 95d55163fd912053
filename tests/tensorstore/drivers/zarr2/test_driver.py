"""The `zarr` driver against TensorStore itself: the meaning of specs, the stored values, and what tegula adds."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

import tegula
import tegula.tensorstore as ts
from tegula.formats import zarr2
from tegula.stores import Store

LAW = settings(deadline=None, max_examples=200)
BASE = {"driver": "zarr", "kvstore": {"driver": "memory"}}
STRUCT = [["x", "<u2", [2]], ["y", ">f4"]]
DTYPES = ["<u2", "|u1", ">f4", "|b1", "<c8", "bfloat16", ">i8", "|S3", STRUCT, [["x", "<i4"]]]
FLAT = ["<u2", "|u1", ">f4", ">i8", "<f8"]
COMPRESSORS = [None, {"id": "zlib"}, {"id": "blosc", "cname": "zstd"}, {"id": "bz2"}, {"id": "gzip", "level": 3}]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return "ok", call()
    except Exception as error:
        return "error", kind_and_code(error)


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(0, 3))
    sizes = st.lists(st.sampled_from([0, 1, 5, 10]), min_size=rank, max_size=rank)
    chunks = st.lists(st.sampled_from([1, 2, 20]), min_size=rank, max_size=rank + (rank == 1))
    axes = st.permutations(range(rank))
    metadata = draw(
        some(
            shape=sizes,
            chunks=chunks,
            dtype=st.sampled_from(DTYPES),
            compressor=st.sampled_from(COMPRESSORS),
            filters=st.sampled_from([None, []]),
            dimension_separator=st.sampled_from(["/", "."]),
            fill_value=st.sampled_from([None, 1, 3.5, "NaN", True, [1, 2], "AQACAD+AAAA="]),
            **({"order": st.sampled_from("CF")} if rank > 1 else {}),
        )
    )
    cut = st.lists(st.sampled_from([1, 2, 5, -1]), min_size=rank, max_size=rank)
    grid = some(shape=cut, shape_soft_constraint=cut, elements=st.sampled_from([5, 100])) if rank else st.just({})
    parts = {"chunk": grid, "write_chunk": grid, "inner_order": axes, "inner_order_soft_constraint": axes}
    layout = some(**parts) if rank > 1 else st.just({})
    schema = some(
        domain=sizes.map(lambda shape: {"shape": shape}),
        chunk_layout=layout,
        codec=st.sampled_from([{"driver": "zarr"}, {"driver": "zarr", "compressor": {"id": "zlib"}}]),
        dimension_units=st.sampled_from([[None] * rank, ["4nm"] * rank]),
    )
    members = some(
        schema=schema,
        dtype=st.sampled_from(["uint16", "float32"]),
        rank=st.sampled_from([rank, rank, rank + 1]),
        field=st.sampled_from(["x", "y"]),
        metadata_key=st.just("m"),
        recheck_cached_data=st.sampled_from([True, False, "open", 5]),
        store_data_equal_to_fill_value=st.booleans(),
        create=st.booleans(),
        open=st.booleans(),
    )
    return {**BASE, "metadata": metadata, **draw(members)}


PROPERTIES = ("rank", "dtype", "domain", "chunk_layout", "codec", "open_mode", "transform", "dimension_units", "url")


@given(specs())
@LAW
def test_specs_mean_the_same(json: dict[str, Any]) -> None:
    theirs, ours = outcome(lambda: tensorstore.Spec(json)), outcome(lambda: ts.Spec(json))
    assert (ours[0], ours[1] if ours[0] != "ok" else repr(ours[1])) == (
        theirs[0],
        theirs[1] if theirs[0] != "ok" else repr(theirs[1]),
    )
    if ours[0] == "ok":
        assert ours[1].to_json(include_defaults=True) == theirs[1].to_json(include_defaults=True)
        for name in PROPERTIES:
            assert repr(outcome(partial(getattr, ours[1], name))) == repr(outcome(partial(getattr, theirs[1], name)))


@pytest.mark.parametrize("dtype", ["<i2", "<f4", "|b1", "<c8", "|S3", "|V3", "int4"])
@pytest.mark.parametrize("value", [0, 1, 2.0, True, "1", "", "YWJj", "0x01", "AQACAD+AAAA", [1, 2], [], None], ids=repr)
def test_fill_values_in_specs_mean_the_same(dtype: str, value: Any) -> None:
    if (dtype, value) == ("<f4", "0x01"):  # these are the bits, as in Zarr v3
        return

    def read(library: Any) -> Any:
        return library.Spec({**BASE, "metadata": {"dtype": dtype, "fill_value": value}}).to_json()["metadata"]

    assert outcome(partial(read, ts)) == outcome(partial(read, tensorstore))


def files(store: Any) -> dict[str, bytes]:
    return {key.decode(): bytes(store[key]) for key in store.list().result()}


def created(library: Any, json: dict[str, Any]) -> Any:
    return library.open(json, create=True, open=False, context=library.Context()).result()


@pytest.mark.slow
@given(specs())
@LAW
def test_arrays_are_created_the_same(json: dict[str, Any]) -> None:
    theirs, ours = outcome(lambda: created(tensorstore, json)), outcome(lambda: created(ts, json))
    if theirs[0] != "ok":
        assert ours == theirs
        return
    assert ours[0] == "ok", ours[1]
    assert files(ours[1].kvstore) == files(theirs[1].kvstore)
    assert repr(ours[1]) == repr(theirs[1])
    if ours[1].dtype != ts.char:  # whose fill values TensorStore can't show
        assert repr(ours[1].schema) == repr(theirs[1].schema)


@st.composite
def filled(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    rank = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank))
    metadata = {
        "shape": shape,
        "chunks": draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)),
        "dtype": draw(st.sampled_from(FLAT)),
        "fill_value": draw(st.sampled_from([None, 0, 7])),
        "order": draw(st.sampled_from("CF")) if rank > 1 else "C",
        # the others use the default level of their library
        "compressor": draw(st.sampled_from([None, {"id": "blosc"}, {"id": "blosc", "shuffle": 0}])),
        "dimension_separator": draw(st.sampled_from("./")),
    }
    writes = []
    for _ in range(draw(st.integers(1, 3))):
        starts = [draw(st.integers(0, size - 1)) for size in shape]
        part = tuple(slice(start, draw(st.integers(start, size))) for start, size in zip(starts, shape, strict=True))
        writes.append((part, draw(st.sampled_from([0, 7, "count"]))))
    equal = draw(st.booleans())
    return {**BASE, "metadata": metadata, "store_data_equal_to_fill_value": equal}, writes


@given(filled())
@LAW
def test_the_same_bytes_are_stored(case: tuple[dict[str, Any], list[Any]]) -> None:
    spec, writes = case
    arrays = [created(tensorstore, spec), created(ts, spec)]
    for array in arrays:
        for part, value in writes:
            view = array[part]
            values = np.arange(1, view.size + 1).reshape(view.shape) if value == "count" else np.full(view.shape, value)
            view.write(values.astype(view.dtype.numpy_dtype)).result()
    theirs, ours = arrays
    assert files(ours.kvstore) == files(theirs.kvstore)
    np.testing.assert_array_equal(ours.read().result(), theirs.read().result())


@given(filled(), st.data())
@LAW
def test_resizing_does_the_same(case: tuple[dict[str, Any], list[Any]], data: st.DataObject) -> None:
    spec, _ = case
    bounds = [data.draw(st.none() | st.integers(0, 9)) for _ in spec["metadata"]["shape"]]
    options = data.draw(some(expand_only=st.booleans(), shrink_only=st.booleans(), resize_metadata_only=st.booleans()))
    results = []
    for library in (tensorstore, ts):
        array = created(library, spec)
        array.write(np.arange(1, array.size + 1).reshape(array.shape).astype(array.dtype.numpy_dtype)).result()
        result = outcome(lambda array=array: repr(array.resize(exclusive_max=bounds, **options).result().domain))
        results.append((result, json.loads(files(array.kvstore)[".zarray"]), sorted(files(array.kvstore))))
    assert results[1] == results[0]


def test_what_was_cut_off_does_not_come_back() -> None:
    array = created(ts, {**BASE, "metadata": {"shape": [5], "chunks": [2], "dtype": "|u1", "fill_value": 9}})
    array[...] = 1
    again = array.resize(exclusive_max=[3]).result().resize(exclusive_max=[5]).result()
    assert again.read().result().tolist() == [1, 1, 1, 9, 9]


def test_nothing_is_deleted_for_an_array_that_can_not_be_created() -> None:
    context = ts.Context()
    array = ts.open(BASE, create=True, dtype=ts.uint8, shape=[3], context=context).result()
    array[...] = 1
    with pytest.raises(ValueError, match="Data type not supported"):
        ts.open(BASE, create=True, delete_existing=True, dtype=ts.json, shape=[3], context=context).result()
    assert ts.open(BASE, context=context).result().read().result().tolist() == [1, 1, 1]


@pytest.mark.parametrize("bound", [-1, 2**62 - 1])
def test_shapes_that_can_not_be_are_refused(bound: int) -> None:
    array = created(ts, {**BASE, "metadata": {"shape": [5], "chunks": [2], "dtype": "|u1"}})
    array[...] = 1
    with pytest.raises(ValueError, match="extent"):
        array.resize(exclusive_max=[bound]).result()
    assert array.resolve().result().read().result().tolist() == [1] * 5


@pytest.mark.parametrize("flags", [{"open": True}, {}, {"delete_existing": True}], ids=repr)
def test_of_many_creators_one_wins(tmp_path: Path, flags: dict[str, bool]) -> None:
    def create(number: int) -> Any:
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
        return outcome(lambda: ts.open(spec, create=True, dtype=ts.uint8, shape=[3], **flags).result().shape)

    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(create, range(16))]
    won = [result for result in results if result[0] == "ok"]
    assert len(won) == (16 if flags else 1)
    assert all("ALREADY_EXISTS" in result[1] for result in results if result[0] != "ok")


def test_nothing_is_left_of_an_array_with_too_large_chunks() -> None:
    context = ts.Context()
    with tegula.config.configure(max_chunk_bytes=100), pytest.raises(ValueError, match="max_chunk_bytes"):
        ts.open(BASE, create=True, dtype=ts.uint8, shape=[1000], context=context).result()
    assert ts.KvStore.open("memory://", context=context).result().list().result() == []


@pytest.mark.parametrize("rank", [0, 1])
def test_order_is_kept_where_it_does_not_matter(rank: int) -> None:
    array = created(ts, {**BASE, "metadata": {"shape": [3] * rank, "dtype": "|u1", "order": "F"}})
    array[...] = 5
    assert json.loads(array.kvstore[".zarray"])["order"] == "F"
    assert np.all(array.read().result() == 5)


def opened(store: Store, **members: Any) -> ts.TensorStore:
    context = ts.Context()
    memory = ts.KvStore.open("memory://", context=context).result()
    for key in store.list():
        memory[key] = store.get(key)
    return ts.open({**BASE, **members}, context=context).result()


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.arange(5).astype("M8[s]"), {}),
        (np.array(["ab", "", "cde", "f", "ghij"]), {}),
        (np.arange(5), {"codecs": [{"id": "delta", "dtype": "<i8"}, {"id": "lz4"}]}),
        (np.arange(5.0), {"codecs": {"id": "lzma"}}),
        (np.array(["a", "bb", "", "x", "y"], object), {"dtype": str}),
    ],
    ids=["dates", "text", "filters", "lzma", "strings"],
)
def test_more_than_tensorstore_reads(values: Any, options: dict[str, Any]) -> None:
    store = tegula.MemoryStore()
    options = {"dtype": values.dtype, "codecs": None, **options}
    if options["dtype"] is str:
        del options["codecs"]
    array = tegula.create_array(store, shape=values.shape, chunks=2, format="zarr2", **options)
    array[:] = values
    result = opened(store)
    np.testing.assert_array_equal(result.read().result(), values)
    result[1:3] = values[3:5]
    assert result.read().result().tolist() == [values.tolist()[position] for position in (0, 3, 4, 3, 4)]


def test_fields_and_bytes_of_structures() -> None:
    store = tegula.MemoryStore()
    dtype = np.dtype([("n", ">u2"), ("s", "S3"), ("m", "<f4", (2,))])
    values = np.array([(1, b"ab", (1, 2)), (2, b"xyz", (3, 4)), (3, b"", (5, 6))], dtype)
    tegula.create_array(store, shape=3, chunks=2, dtype=dtype, format="zarr2", codecs=None)[:] = values
    assert opened(store, field="n").read().result().tolist() == [1, 2, 3]
    text = opened(store, field="s")
    assert text.dtype == ts.char
    assert text[1].read().result().tolist() == [b"x", b"y", b"z"]
    pairs = opened(store, field="m")
    assert pairs[1:, 1].read().result().tolist() == [4, 6]
    pairs[0, 1] = 9
    assert pairs.read().result().tolist() == [[1, 9], [3, 4], [5, 6]]
    raw = opened(store, open_as_void=True).read().result()
    assert raw.tobytes() == values.tobytes()
    assert ts.Spec(opened(store, open_as_void=True).spec().to_json()).domain is not None


def test_whole_records_are_read_and_written() -> None:
    context = ts.Context()
    spec = {**BASE, "open_as_records": True}
    dtype = np.dtype([("n", "<u2"), ("s", "S3"), ("m", "<f4", (2,))])
    fill = np.array((1, b"ab", (2, 3)), dtype)
    records = ts.open(spec, create=True, dtype=dtype, shape=[5], fill_value=fill, context=context).result()
    assert (records.dtype.numpy_dtype, records.shape) == (dtype, (5,))
    records[1] = (7, b"xyz", (4, 5))
    expected = np.full(5, fill)
    expected[1] = (7, b"xyz", (4, 5))
    np.testing.assert_array_equal(records.read().result(), expected)
    np.testing.assert_array_equal(records[[1, 4, 1]].read().result(), expected[[1, 4, 1]])
    assert ts.open({**BASE, "field": "n"}, context=context).result().read().result().tolist() == [1, 7, 1, 1, 1]
    again = ts.open(ts.Spec(records.spec().to_json()), context=context, schema=records.schema).result()
    assert again.schema.to_json()["fill_value"] == again.spec().to_json()["metadata"]["fill_value"]
    assert ts.Schema(again.schema.to_json()) == again.schema
    grown = again.resize(exclusive_max=[6]).result()
    np.testing.assert_array_equal(grown.read().result(), [*expected, fill])
    with pytest.raises(ValueError, match='Must specify a "field" that is one of: '):
        ts.open(BASE, context=context).result()
    for other in ({"field": "n"}, {"open_as_void": True}):
        with pytest.raises(ValueError, match='and "open_as_records" are mutually exclusive'):
            ts.Spec({**spec, **other})


def test_a_member_of_old() -> None:
    assert ts.Spec({**BASE, "allow_metadata_mismatch": False}) == ts.Spec(BASE)
    for package in (ts, tensorstore):
        with pytest.raises(ValueError, match='"allow_metadata_mismatch" no longer supported'):
            package.Spec({**BASE, "allow_metadata_mismatch": True})


def test_the_number_for_unchanged_bounds() -> None:
    spec = {**BASE, "metadata": {"shape": [4, 5], "dtype": "|i1"}}
    for package in (ts, tensorstore):
        array = package.open(spec, create=True).result()
        assert array.resize(exclusive_max=[2, -(2**63)]).result().shape == (2, 5)


@given(st.binary(max_size=40) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
@LAW
def test_no_document_breaks_out(raw: bytes | str) -> None:
    context = ts.Context()
    store = ts.KvStore.open("memory://", context=context).result()
    store[".zarray"] = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    with pytest.raises(tegula.TegulaError):
        ts.open(BASE, context=context).result()


MEMBERS = {
    "zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<i4", "compressor": None, "fill_value": 0,
    "order": "C", "filters": None,
}  # fmt: skip
ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0.0, 1.5, 2.0, -3.25, 1e20])
    | st.text()
    | st.lists(st.integers() | st.text())
)


@given(st.sampled_from(sorted(MEMBERS)), ODD | st.dictionaries(st.sampled_from(["id", "level"]), ODD))
@LAW
def test_odd_members_are_refused_the_same(name: str, value: Any) -> None:
    document = json.dumps({**MEMBERS, name: value})
    assume("NaN" not in document and "Infinity" not in document and (name, value) != ("dtype", []))
    results = []
    for library in (tensorstore, ts):
        context = library.Context()
        store = library.KvStore.open("memory://", context=context).result()
        store[".zarray"] = document.encode()
        kind, text = outcome(lambda library=library, context=context: library.open(BASE, context=context).result())
        results.append((kind, text if kind != "ok" else repr(text)))
    if results[1][0] != "ok" or results[0][0] == "ok":
        assert results[1] == results[0]
    elif name != "fill_value":  # more documents are read than by TensorStore, and reported
        assert zarr2.oddities({".zarray": document.encode()})


def test_cached_documents_cannot_be_changed(tmp_path: Path) -> None:
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path)}}
    store = ts.open(spec, create=True, dtype="uint8", shape=[3]).result()
    store.spec().to_json()["metadata"]["compressor"]["id"] = "other"
    codec, layout = store.codec, store.chunk_layout
    assert codec is not None
    codec.to_json()["compressor"]["id"] = "other"
    again = ts.open(spec).result()
    assert (again.codec, again.chunk_layout) == (codec, layout)
    assert again.spec().to_json() == ts.open(spec).result().spec().to_json()
    again.resize(exclusive_max=[5]).result()
    assert (again.shape, ts.open(spec).result().shape) == ((3,), (5,))
    assert ts.open(spec).result().read().result().tolist() == [0] * 5
