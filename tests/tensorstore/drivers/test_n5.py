"""The `n5` driver against TensorStore itself: the meaning of specs, stored values, and what tegula adds."""

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import outcome

import tegula
import tegula.tensorstore as ts

LAW = settings(deadline=None, max_examples=200)
FIXTURES = Path(__file__).parents[2] / "fixtures"
BASE = {"driver": "n5", "kvstore": {"driver": "memory"}}
MEMBERS = {"dimensions": [3, 4], "blockSize": [2, 2], "dataType": "uint16", "compression": {"type": "raw"}}
DTYPES = [*(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64"]
BLOSC = {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
COMPRESSIONS = [
    *({"type": name} for name in ("raw", "gzip", "bzip2", "xz", "zstd")),
    *({"type": "gzip", "level": 3, "useZlib": True}, {"type": "gzip", "level": 3.0}, {"type": "zstd", "level": -5}),
    *(
        {"type": "xz", "preset": 1},
        {"type": "bzip2", "blockSize": 2},
        BLOSC,
        {**BLOSC, "blocksize": 64, "cname": "zstd"},
    ),
]


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


def per_axis(rank: int, values: list[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=rank, max_size=rank + (rank == 2))


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    metadata = draw(
        some(
            dimensions=per_axis(rank, [0, 1, 5, 10]),
            blockSize=per_axis(rank, [1, 2, 20]),
            dataType=st.sampled_from(DTYPES),
            compression=st.sampled_from(COMPRESSIONS),
            axes=per_axis(rank, ["x", "y", "z", "", ""]),
            units=per_axis(rank, ["nm", "", "4um"]),
            resolution=per_axis(rank, [1, 2.5]),
            other=st.sampled_from([None, 3, {"a": [1, "b"]}]),
            n5=st.just("2.0.0"),
        )
    )
    cut = st.lists(st.sampled_from([1, 2, 5, -1]), min_size=rank, max_size=rank)
    grid = some(shape=cut, shape_soft_constraint=cut, elements=st.sampled_from([5, 100]))
    axes = st.permutations(range(rank))
    domain = some(shape=per_axis(rank, [1, 5, 10]), labels=per_axis(rank, ["x", "y", ""]))
    schema = some(
        domain=domain.filter(bool),
        chunk_layout=some(chunk=grid, write_chunk=grid, inner_order=axes, inner_order_soft_constraint=axes),
        codec=st.sampled_from(
            [{"driver": "n5"}, {"driver": "n5", "compression": {"type": "gzip"}}, {"driver": "zarr"}]
        ),
        dimension_units=per_axis(rank, [None, None, "nm", "2.5nm"]),
        fill_value=st.sampled_from([0, 0, 1]) if draw(st.integers(0, 9)) == 0 else st.nothing(),
    )
    if draw(st.integers(0, 9)):
        schema = schema.map(lambda members: {n: v for n, v in members.items() if n != "fill_value"})
    members = some(
        schema=schema,
        dtype=st.sampled_from(["uint16", "float32", "bool", "json"]),
        rank=st.sampled_from([rank, rank, rank + 1]),
        recheck_cached_data=st.sampled_from([True, False, "open", 5]),
        store_data_equal_to_fill_value=st.booleans(),
        create=st.booleans(),
        open=st.booleans(),
    )
    return {**BASE, "metadata": metadata, **draw(members)}


PROPERTIES = (
    *("rank", "dtype", "domain", "chunk_layout", "codec", "open_mode", "transform", "dimension_units", "url"),
    *("fill_value", "schema"),
)


@given(specs())
@example({**BASE, "metadata": {"resolution": [1]}, "schema": {"dimension_units": ["2.5nm"]}})
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


def files(store: Any) -> dict[str, bytes]:
    return {key.decode(): bytes(store[key]) for key in store.list().result()}


def created(library: Any, json: dict[str, Any]) -> Any:
    return library.open(json, create=True, open=False, context=library.Context()).result()


def shown(array: Any) -> tuple[Any, ...]:
    return (
        array.domain,
        array.schema.to_json(),
        array.spec().to_json(),
        array.url,
        array.dimension_units,
        array.fill_value,
    )


@given(specs())
@LAW
def test_arrays_are_created_the_same(json: dict[str, Any]) -> None:
    theirs, ours = outcome(lambda: created(tensorstore, json)), outcome(lambda: created(ts, json))
    if theirs[0] != "ok":
        assert ours == theirs
        return
    assert ours[0] == "ok", ours[1]
    assert files(ours[1].kvstore) == files(theirs[1].kvstore)
    assert repr(shown(ours[1])) == repr(shown(theirs[1]))


@given(specs(), specs())
@example({**BASE, "metadata": {}}, {"metadata": {"compression": {"type": "gzip", "level": 3.0}}})
@example({**BASE, "schema": {"domain": {"shape": [1]}}}, {"metadata": {"dimensions": [0], "blockSize": [1]}})
@LAW
def test_arrays_are_opened_the_same(wanted: dict[str, Any], stored: dict[str, Any]) -> None:
    spec: dict[str, Any] = {**wanted, "create": False, "open": True}
    document = json.dumps({**MEMBERS, **stored["metadata"]})
    results = []
    for library in (tensorstore, ts):
        context = library.Context()
        library.KvStore.open("memory://", context=context).result()["attributes.json"] = document.encode()
        kind, found = outcome(lambda library=library, context=context: library.open(spec, context=context).result())
        results.append((kind, found if kind != "ok" else repr(shown(found))))
    assert results[1] == results[0]


@st.composite
def filled(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    rank = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank))
    metadata = {
        "dimensions": shape,
        "blockSize": draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)),
        "dataType": draw(st.sampled_from(DTYPES)),
        # the others use the default level of their library
        "compression": draw(st.sampled_from([{"type": "raw"}, BLOSC])),
    }
    writes = []
    for _ in range(draw(st.integers(1, 3))):
        starts = [draw(st.integers(0, size - 1)) for size in shape]
        part = tuple(slice(start, draw(st.integers(start, size))) for start, size in zip(starts, shape, strict=True))
        writes.append((part, draw(st.sampled_from([0, 7, "count"]))))
    return {**BASE, "metadata": metadata, "store_data_equal_to_fill_value": draw(st.booleans())}, writes


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
def test_views_select_the_same(case: tuple[dict[str, Any], list[Any]], data: st.DataObject) -> None:
    spec, _ = case
    shape = spec["metadata"]["dimensions"]
    points = st.lists(st.integers(0, min(shape) - 1), min_size=2, max_size=2)
    terms = st.sampled_from([slice(None), slice(None, None, 2), 0, [0, 0], "points"])
    chosen = [data.draw(terms) for _ in shape]
    selection = tuple(data.draw(points) if term == "points" else term for term in chosen)
    order = data.draw(st.permutations(range(len(shape))))
    how = data.draw(st.sampled_from(["vindex", "oindex", None]))
    results = []
    for library in (tensorstore, ts):
        array = created(library, spec)
        array.write(np.arange(array.size).reshape(array.shape).astype(array.dtype.numpy_dtype)).result()
        turned = array[library.d[tuple(order)].transpose[:]] if len(shape) > 1 else array
        view = (turned if how is None else getattr(turned, how))[selection]
        read = view.read().result()
        new = np.arange(100, 100 + read.size).reshape(read.shape).astype(read.dtype)
        if len({json.dumps(term) for term in selection if isinstance(term, list)}) == 0:
            view.write(new).result()
        statistics = view.storage_statistics(query_fully_stored=True).result().fully_stored
        results.append((read.tolist(), read.shape, statistics, array.read().result().tolist()))
    assert results[1] == results[0]


@given(filled(), st.data())
@LAW
def test_resizing_does_the_same(case: tuple[dict[str, Any], list[Any]], data: st.DataObject) -> None:
    spec, _ = case
    bounds = [data.draw(st.none() | st.integers(0, 9)) for _ in spec["metadata"]["dimensions"]]
    options = data.draw(some(expand_only=st.booleans(), shrink_only=st.booleans(), resize_metadata_only=st.booleans()))
    results = []
    for library in (tensorstore, ts):
        array = created(library, spec)
        array.write(np.arange(1, array.size + 1).reshape(array.shape).astype(array.dtype.numpy_dtype)).result()
        result = outcome(lambda array=array: repr(array.resize(exclusive_max=bounds, **options).result().domain))
        stored = files(array.kvstore)
        values = array.resolve().result().read().result().tolist()
        results.append((result, json.loads(stored["attributes.json"]), sorted(stored), values))
    assert results[1] == results[0]


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=json.dumps)
@pytest.mark.parametrize(("writer", "reader"), [(tensorstore, ts), (ts, tensorstore)], ids=["read", "written"])
def test_both_ways(writer: Any, reader: Any, compression: dict[str, Any], tmp_path: Path) -> None:
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    values = np.arange(3 * 5 * 4, dtype="i4").reshape(3, 5, 4)
    metadata = {"blockSize": [2, 2, 3], "compression": compression, "axes": ["x", "y", "z"], "other": 1}
    domain = {"shape": [3, 5, 4], "dtype": "int32", "dimension_units": ["4nm", None, "2 um"]}
    written = writer.open({**spec, "metadata": metadata}, create=True, **domain).result()
    written.write(values).result()
    read = reader.open(spec).result()
    np.testing.assert_array_equal(read.read().result(), values)
    assert repr(shown(read)[:3]) == repr(shown(written)[:3])
    np.testing.assert_array_equal(tegula.open(tmp_path / "a")[...], values.T)
    assert tegula.open(tmp_path / "a").dimension_names == ("z", "y", "x")
    read[1:, ::2, 1] = 7
    values[1:, ::2, 1] = 7
    np.testing.assert_array_equal(writer.open(spec).result().read().result(), values)


def test_stored_examples(tmp_path: Path) -> None:
    opened = 0
    for name in ("java-n5-3.1.3", "tensorstore-n5-0.1.86", "zarr-n5-2.18.7"):
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        for document in sorted((tmp_path / name).rglob("attributes.json")):
            spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(document.parent)}}
            theirs = outcome(lambda spec=spec: tensorstore.open(spec).result())
            if theirs[0] != "ok":
                continue
            opened += 1
            ours = ts.open(spec).result()
            assert repr(shown(ours)) == repr(shown(theirs[1])), document
            np.testing.assert_array_equal(ours.read().result(), theirs[1].read().result())
    assert opened > 10


def test_the_format_is_detected(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    tegula.create_array(path, data=np.arange(6).reshape(2, 3), format="n5", dimension_names=["y", "x"])
    for url in (path, f"file://{path}/|n5:", f"file://{path}/|auto:", f"file://{tmp_path}/|n5:a"):
        array = ts.open(url).result()
        assert array.spec().to_json()["driver"] == "n5"
        assert array.domain.labels == ("x", "y")
        assert array.read().result().tolist() == [[0, 3], [1, 4], [2, 5]]
    Path(path, "zarr.json").write_text("{}")
    with pytest.raises(ValueError, match="Multiple possible formats detected"):
        ts.open(path).result()


def test_lz4_of_java_and_z5_is_read(tmp_path: Path) -> None:
    values = np.arange(12, dtype="u2").reshape(3, 4)
    tegula.create_array(tmp_path / "a", data=values, format="n5", codecs="lz4")
    array = ts.open({"driver": "n5", "kvstore": f"file://{tmp_path}/a"}).result()
    assert array.codec == ts.CodecSpec({"driver": "n5", "compression": {"type": "lz4"}})
    np.testing.assert_array_equal(array.read().result(), values.T)
    array = created(ts, {**BASE, "metadata": {**MEMBERS, "compression": {"type": "lz4", "blockSize": 6}}})
    array[...] = 7
    assert b"LZ4Block" not in bytes(array.kvstore["0/0"])
    assert (array.read().result() == 7).all()


def test_attributes_are_kept_and_changed() -> None:
    array = created(ts, {**BASE, "metadata": {**MEMBERS, "other": 1}})
    array.attributes["more"] = [2]
    grown = array.resize(exclusive_max=[5, 5]).result()
    document = json.loads(bytes(grown.kvstore["attributes.json"]))
    assert document == {**MEMBERS, "dimensions": [5, 5], "other": 1, "more": [2]}


@pytest.mark.parametrize(("bounds", "axis"), [([9, None], 0), ([None, 9], 1)])
def test_errors_name_the_axis_of_the_document(bounds: list[int | None], axis: int) -> None:
    array = created(ts, {**BASE, "metadata": MEMBERS})
    with pytest.raises(ValueError, match=f"output dimension {axis} "):
        array.resize(exclusive_max=bounds, shrink_only=True).result()


def test_errors_name_the_chunk_of_the_document() -> None:
    array = created(ts, {**BASE, "metadata": MEMBERS, "fill_missing_data_reads": False})
    with pytest.raises(ValueError, match=r'chunk \{0, 1\} stored at "0/1" is missing'):
        array[0, 2].read().result()


@pytest.mark.parametrize(
    "wrong", [{"blockSize": [2**16, 2**15]}, {"blockSize": None}, {"compression": None}, {"axes": 3}]
)
def test_documents_that_are_refused(wrong: dict[str, Any]) -> None:
    document = {name: value for name, value in {**MEMBERS, **wrong}.items() if value is not None}
    results = []
    for library in (tensorstore, ts):
        context = library.Context()
        store = library.KvStore.open("memory://", context=context).result()
        store["attributes.json"] = json.dumps(document).encode()
        found = outcome(lambda library=library, context=context: library.open(BASE, context=context).result())
        assert found[0] == "error"
        results.append(found)
    assert results[1] == results[0]


def test_the_example_of_the_documentation() -> None:
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "memory", "path": "path/to/array"},
        "metadata": {
            "dimensions": [1000, 2000, 3000],
            "blockSize": [100, 100, 100],
            "dataType": "uint16",
            "compression": {"type": "blosc", "cname": "lz4", "clevel": 9, "shuffle": 1},
            "axes": ["x", "y", "z"],
            "units": ["nm", "nm", "um"],
            "resolution": [4, 4, 0.04],
        },
    }
    arrays = [created(library, spec) for library in (tensorstore, ts)]
    for array in arrays:
        array[10:12, 500, 7] = 3
    assert repr(shown(arrays[1])) == repr(shown(arrays[0]))
    assert files(arrays[1].kvstore) == files(arrays[0].kvstore)
    assert sorted(files(arrays[1].kvstore)) == ["0/5/0", "attributes.json"]
