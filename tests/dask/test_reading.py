"""dask arrays over arrays: names, blocks, pickles, and values."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.engine.documents import unpickled
from tegula.errors import MetadataError
from tegula.stores import MemoryStore
from tegula.stores.identity import unique_location

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]


def make(target: Any, **options: Any) -> tegula.Array:
    a = tegula.create_array(target, **{"shape": (6, 4), "chunks": (2, 4), "dtype": "i4", **options})
    a[...] = np.arange(24, dtype="i4").reshape(6, 4)
    return a


# --- names


@pytest.mark.parametrize("format", FORMATS)
def test_names_follow_the_documents(tmp_path: Path, format: str) -> None:
    a = make(tmp_path / "a", format=format)
    b = make(tmp_path / "b", format=format)
    handles = [tegula.open(tmp_path / "a"), tegula.open(tmp_path / "a", mode="r+"), pickle.loads(pickle.dumps(a))]
    assert {tokenize(handle) for handle in handles} == {tokenize(a)}
    assert tokenize(b) != tokenize(a)
    names = [tokenize(a)]
    a[0] = 99
    assert tokenize(a) == names[0]  # as documented: chunks do not count
    a.attrs["x"] = 1
    names.append(tokenize(a))
    a.append(np.zeros((1, 4), "i4"))
    names.append(tokenize(a))
    assert tokenize(handles[0]) not in names[1:]  # it has the old shape
    a = make(tmp_path / "a", format=format, overwrite=True)
    names.append(tokenize(a))  # documents are equal, but the array is another one
    assert len({*names}) == len(names)
    assert tokenize(tegula.open(tmp_path / "a")) == names[-1]


def test_a_member_of_a_group_has_the_name_of_the_array(tmp_path: Path) -> None:
    make(tmp_path, path="g/x")
    names = {tokenize(a) for a in (tegula.open(tmp_path)["g/x"], tegula.open(tmp_path, path="g/x"))}
    names.add(tokenize(tegula.open(tmp_path / "g" / "x")))
    assert len(names) == 1


@pytest.mark.slow
def test_names_are_the_same_in_all_processes(tmp_path: Path) -> None:
    a = make(tmp_path / "a")
    code = f"import tegula, dask.base; print(dask.base.tokenize(tegula.open({str(tmp_path / 'a')!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == tokenize(a)


@pytest.mark.slow
def test_names_of_arrays_in_memory_are_those_of_one_process() -> None:
    contents: dict[str, bytes] = {}
    a = make(contents)
    assert tokenize(a) == tokenize(tegula.open(contents))
    assert tokenize(a) != tokenize(make({}))
    store = MemoryStore()
    b = make(store)
    assert tokenize(b) == tokenize(tegula.open(store)) != tokenize(pickle.loads(pickle.dumps(b)))
    code = "import tegula, dask.base as b; a = tegula.zeros(3); print(b.tokenize(a))"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] != runs[1]


def test_names_of_conversions_differ() -> None:
    a = make({})
    names = [tokenize(view) for view in (a, a.astype("f4"), a.astype("f8"), a.astype("f8"))]
    assert names[2] == names[3]
    assert len({*names}) == 3


def test_two_services_with_one_bucket_name_differ() -> None:
    obstore = pytest.importorskip("obstore.store")
    options = {"bucket": "b", "skip_signature": True, "region": "x"}
    stores = [
        tegula.ObjectStore(obstore.S3Store(endpoint=f"https://{host}.example", **options)) for host in ("one", "two")
    ]
    assert unique_location(stores[0].identity, "x/") != unique_location(stores[1].identity, "x/")
    assert stores[0].url == stores[1].url


# --- pickles


@pytest.mark.parametrize("format", FORMATS)
def test_many_copies_of_a_node_open_it_once(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(unpickled, "KNOWN", {})
    real = unpickled.read_metadata
    monkeypatch.setattr(
        unpickled, "read_metadata", lambda *args, **options: read.append(args) or real(*args, **options)
    )
    a = make(tmp_path / "a", format=format)
    pickled = pickle.dumps(a)
    assert len(pickled) < 2048
    for _ in range(20):
        copy = pickle.loads(pickled)
        assert copy == a
        assert copy[5, 3] == 23
    assert len(read) == 1
    # what this process changes is read again
    a.append(np.zeros((1, 4), "i4"))
    assert pickle.loads(pickled).shape == (7, 4)
    assert len(read) == 2
    # a pickle of an older state opens as that state or as the present one
    b = tegula.open(tmp_path / "a", mode="r+")
    assert pickle.loads(pickle.dumps(b)).shape == (7, 4)
    unpickled.KNOWN.clear()
    del a, b
    tegula.delete(tmp_path / "a")
    gone = pickle.loads(pickle.dumps(pickle.loads(pickled)))  # it is passed on, and opened when it is used
    for _ in range(2):
        with pytest.raises(MetadataError, match="no longer exists"):
            gone[0]


def test_copies_have_the_options_of_their_own_stores(tmp_path: Path) -> None:
    make(tmp_path)
    stores = [tegula.LocalStore(tmp_path, read_only=read_only) for read_only in (True, False, True)]
    for store in stores:
        for _ in range(2):
            assert pickle.loads(pickle.dumps(tegula.open(store, mode="r"))).store.read_only is store.read_only


def test_copies_of_groups_and_tables_open_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(unpickled, "KNOWN", {})
    real = unpickled.read_metadata
    monkeypatch.setattr(
        unpickled, "read_metadata", lambda *args, **options: read.append(args) or real(*args, **options)
    )
    group = tegula.create_group(tmp_path / "g", attributes={"x": 1})
    table = tegula.create_table(tmp_path / "t", {"v": [1, 2, 3]})
    for node in (group, table):
        pickled = pickle.dumps(node)
        assert len(pickled) < 2048
        assert [pickle.loads(pickled) == node for _ in range(3)] == [True] * 3
    assert len(read) == 2
    group.attrs["x"] = 2
    assert pickle.loads(pickle.dumps(group)).attrs["x"] == 2
    old = pickle.dumps(table)
    table.append({"v": [4]})
    assert len(pickle.loads(old)) == 4


def test_pickles_of_arrays_in_a_bucket_are_small(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3_server.bucket()
    target = f"s3://{bucket.name}/deep/path/of/some/array.zarr"
    a = make(target, storage_options=bucket.options)
    monkeypatch.setattr(unpickled, "KNOWN", {})
    pickled = pickle.dumps(a)
    assert len(pickled) < 2048
    first = pickle.loads(pickled)
    assert int(first[1, 1]) == 5
    # further copies need no request
    monkeypatch.setattr(unpickled, "read_metadata", None)
    assert pickle.loads(pickled) == a
    assert tokenize(first) == tokenize(a)


# --- blocks and values


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"chunks": (7, 8)}, (7, 8)),
        ({"chunks": (7, 8), "shards": (14, 16)}, (14, 16)),
        ({"chunks": (7, 8), "format": "zarr1"}, (7, 8)),
    ],
)
def test_blocks_are_whole_shards_or_chunks(options: dict[str, Any], expected: tuple[int, ...]) -> None:
    a = tegula.create_array({}, shape=(100, 80), dtype="f8", **options)
    assert a.to_dask(chunks=None).chunksize == expected
    with dask.config.set({"array.chunk-size": "8 kiB"}):
        for d in (da.from_array(a), a.to_dask(), a.astype("f8").to_dask()):
            assert d.npartitions > 1
            assert all(
                sum(lengths[:n]) % chunk == 0 for lengths, chunk in zip(d.chunks, expected) for n in range(len(lengths))
            )
    assert a.to_dask(chunks=(50, -1)).chunksize == (50, 80)
    with pytest.raises(MetadataError, match="'chunks'"):
        a.to_dask(chunks=False)


def test_blocks_where_chunks_differ_or_sizes_are_unknown() -> None:
    varying = tegula.create_array({}, shape=(9, 6), chunks=([2, 3, 4], 5), dtype="i4")
    assert varying.to_dask(chunks=None).chunks == ((2, 3, 4), (5, 1))
    text = tegula.create_array({}, data=["a", "bc", "d"], dtype=str, chunks=2)
    assert text.to_dask().chunks == ((2, 1),)
    assert text.to_dask().compute().tolist() == ["a", "bc", "d"]
    point = tegula.create_array({}, data=np.float32(7))
    assert point.to_dask().compute() == 7
    assert tegula.zeros((0, 3)).to_dask(chunks=None).compute().shape == (0, 3)


@pytest.mark.parametrize("chunks", [(3,), "nonsense", (1, 2, 3), ((1, 2), (3, 3))])
def test_chunks_that_do_not_fit_are_refused(chunks: Any) -> None:
    with pytest.raises(MetadataError):
        make({}).to_dask(chunks=chunks)


def selections(size: int) -> st.SearchStrategy[Any]:
    ends = st.integers(-size, size + 2) | st.none()  # from an end further below, dask reverses what NumPy leaves out
    slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1, -3]))
    return slices | st.integers(-size, size - 1) | st.lists(st.integers(-size, size - 1), min_size=1, max_size=5)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.sampled_from([None, "auto", (4, 3)]), st.booleans())
def test_selections_of_a_dask_array_are_those_of_numpy(data: st.DataObject, chunks: Any, inline: bool) -> None:
    a = tegula.create_array({}, shape=(9, 7), chunks=(2, 2), shards=(4, 4), dtype="i4")
    a[...] = values = np.arange(63, dtype="i4").reshape(9, 7)
    d = a.to_dask(chunks, inline_array=inline)
    first, second = data.draw(selections(9)), data.draw(selections(7))
    if isinstance(first, list):
        second = slice(None)
    assert np.array_equal(d[first, second].compute(scheduler="sync"), values[first, second])
    assert np.array_equal((d + d[::-1]).T.compute(scheduler="sync"), (values + values[::-1]).T)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_group_with_consolidated_metadata_is_pickled_without_them(format: str, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g", format=format)
    below = group.create_group("below")
    for number in range(50):
        below.create_array(f"a{number}", shape=4, dtype="i4", fill_value=number)
    group.consolidate()
    opened = tegula.open_group(tmp_path / "g", consolidated=True)
    for node in (opened, opened["below"]):
        pickled = pickle.dumps(node)
        assert len(pickled) < 2000
        assert [*pickle.loads(pickled)] == [*node]
    copied = pickle.loads(pickle.dumps(opened["below"]))
    (tmp_path / "g" / "below" / "a7" / ("zarr.json" if format == "zarr3" else ".zarray")).unlink()
    assert copied["a7"][:].tolist() == [7] * 4  # its document is the one in the consolidated metadata
