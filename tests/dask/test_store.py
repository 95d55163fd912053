"""`tegula.dask.store`: new arrays, regions, and blocks that do not match chunks, from every scheduler."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.crude_s3 import crude_s3

import tegula
import tegula.dask
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    SelectionError,
    StoreError,
    TegulaError,
)
from tegula.testing import Fault, FaultyStore

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A client of two worker processes."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s", "distributed.worker.daemon": True}),
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers, timeout="60s", set_as_default=False) as client,
    ):
        yield client


def computed(written: Any, how: str, request: pytest.FixtureRequest) -> tegula.Array:
    """Compute a result of `tegula.dask.store` with some scheduler."""
    if how != "distributed":
        return written.compute(scheduler=how, **({"num_workers": 2} if how == "processes" else {}))
    future = request.getfixturevalue("cluster").compute(written)
    found: tegula.Array = future.result(timeout=120)
    return found


# --- laws


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[slice | int, ...], tuple[Any, ...], dict[str, Any]]:
    """Draw the shape of an array, a region of it, blocks of the values to write there, and options."""
    ndim = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(0, 9)] * ndim))
    region: list[slice | int] = []
    blocks = []
    for size in shape:
        if size and draw(st.booleans()):
            region.append(draw(st.integers(-size, size - 1)))
            continue
        ends = st.integers(-size, size) | st.none()
        region.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        length = len(range(size)[region[-1]])
        cuts = sorted(draw(st.sets(st.integers(1, max(1, length - 1)), max_size=3))) if length > 1 else []
        edges = [0, *cuts, length]
        blocks.append(tuple(b - a for a, b in pairwise(edges)))
    chunks = draw(st.tuples(*[st.integers(1, 4)] * ndim))
    options: dict[str, Any] = {"chunks": chunks}
    if ndim and draw(st.booleans()):
        options["shards"] = [n * draw(st.integers(1, 2)) for n in chunks]
    return shape, tuple(region), tuple(blocks), options


@settings(max_examples=150)
@given(cases())
def test_a_region_gets_the_values_and_nothing_else_changes(case: tuple[Any, Any, Any, dict[str, Any]]) -> None:
    shape, region, blocks, options = case
    a = tegula.create_array({}, shape=shape, dtype="i4", fill_value=-1, **options)
    expected = np.arange(100, 100 + a.size, dtype="i4").reshape(shape)
    a[...] = expected
    values = np.arange(expected[region].size).reshape(expected[region].shape)
    expected[region] = values
    d = da.from_array(values, chunks=blocks)
    with dask.config.set(scheduler="threads", num_workers=4):
        assert tegula.dask.store(d, a, region=region) is a
    assert np.array_equal(a[...], expected)


@pytest.mark.parametrize("format", FORMATS)
def test_new_arrays_in_all_formats(tmp_path: Path, format: str) -> None:
    values = np.arange(600, dtype="i4").reshape(30, 20)
    d = da.from_array(values, chunks=(7, 6))
    attributes = {"units": "K"}
    a = tegula.dask.store(d, tmp_path / "a", format=format, chunks=(4, 20), attributes=attributes)
    assert (a.format, a.dtype, a.attrs.asdict()) == (format, "i4", attributes)
    assert np.array_equal(a[...], values)
    with pytest.raises(AlreadyExistsError):
        tegula.dask.store(d, tmp_path / "a", format=format)
    tegula.dask.store(d + 1, tmp_path / "a", format=format, overwrite=True, dtype="f4")
    assert np.array_equal(tegula.open(tmp_path / "a")[...], values + 1.0)
    tegula.dask.store(d[:3], tmp_path / "a", region=slice(5, 8))
    assert np.array_equal(tegula.open(tmp_path / "a")[5:8], values[:3])


# --- schedulers


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize(
    ("how", "shards"), [("threads", None), ("threads", (32, 32)), ("processes", (32, 32)), ("distributed", None)]
)
def test_tasks_that_write_parts_of_one_chunk_lose_nothing(
    tmp_path: Path, how: str, shards: Any, request: pytest.FixtureRequest
) -> None:
    source = tegula.create_array(tmp_path / "source", data=np.arange(64 * 64).reshape(64, 64), chunks=(9, 64))
    d = source.to_dask(chunks=(5, 7)) + 1
    written = tegula.dask.store(d, tmp_path / "out", chunks=(16, 16), shards=shards, path="x/y", compute=False)
    a = tegula.open(tmp_path / "out", path="x/y")
    assert not a[...].any()
    found = computed(written, how, request)
    assert found == a
    assert np.array_equal(a[...], source[...] + 1)


def test_arrays_in_a_bucket_from_processes(s3_server: Any, request: pytest.FixtureRequest) -> None:
    bucket = s3_server.bucket()
    d = da.arange(120, chunks=7, dtype="i8")
    options = {"storage_options": bucket.options, "chunks": 16}
    written = tegula.dask.store(d, f"s3://{bucket.name}/a.zarr", compute=False, **options)
    assert computed(written, "distributed", request)[...].tolist() == [*range(120)]


@pytest.mark.parametrize("kind", ["memory", "dict", "zip", "fsspec"])
def test_what_other_processes_can_not_write_is_refused(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    fsspec = pytest.importorskip("fsspec")
    targets: dict[str, Any] = {
        "memory": tegula.MemoryStore(),
        "dict": {},
        "zip": tmp_path / "a.zip",
        "fsspec": tegula.FsspecStore(fsspec.filesystem("memory"), "/tegula-dask"),
    }
    written = tegula.dask.store(da.ones(6, chunks=4), targets[kind], chunks=3, compute=False)
    with pytest.raises(StoreError, match="threads"):
        computed(written, "distributed", request)
    assert computed(written, "threads", request)[...].tolist() == [1] * 6


@pytest.mark.parametrize("library", ["fsspec", "obstore"])
def test_without_conditional_writes_processes_write_whole_chunks(
    tmp_path: Path, library: str, request: pytest.FixtureRequest
) -> None:
    if library == "fsspec":
        store: tegula.Store = tegula.FsspecStore(pytest.importorskip("fsspec").filesystem("file"), str(tmp_path))
    else:
        store = tegula.ObjectStore(pytest.importorskip("obstore.store").LocalStore(str(tmp_path)))
    d = da.ones(20, chunks=6)
    tegula.create_array(tmp_path, shape=20, chunks=3, dtype="f8")
    a = tegula.open(store, mode="r+")
    assert computed(tegula.dask.store(d, a, compute=False), "distributed", request)[...].sum() == 20
    with pytest.raises(StoreError, match="rechunk the dask array to multiples of"):
        computed(tegula.dask.store(d.rechunk(4) * 2, a, compute=False), "distributed", request)


def test_bucket_is_untested_until_a_process_writes_part_of_a_chunk() -> None:
    pytest.importorskip("obstore")
    with crude_s3() as server:
        for number, size in enumerate((4, 3)):  # whole chunks, and parts of them
            path = f"s3://bucket/{number}"
            tegula.create_array(memory := tegula.MemoryStore(), shape=12, chunks=4, dtype="f8")
            server.values[f"/bucket/{number}/zarr.json"] = memory.get("zarr.json") or b"", {}
            a = tegula.open(path, "r+", storage_options=server.options)
            written = tegula.dask.store(da.ones(12, chunks=size), a, compute=False)
            assert not any("probe" in key for _, key, _ in server.seen)
            with dask.config.set(scheduler="threads"):
                written.compute()
            assert any("probe" in key for _, key, _ in server.seen) == bool(number)
            assert a[...].sum() == 12


def test_a_second_write_is_carried_out_again() -> None:
    d = da.ones(6, chunks=2)
    a = tegula.dask.store(d, {})
    a[...] = 0
    writes = [tegula.dask.store(d, a, compute=False) for _ in range(2)]
    assert writes[0].key != writes[1].key
    dask.compute(*writes)
    assert a[...].sum() == 6


# --- failures


def test_a_new_array_that_can_not_be_written_is_deleted() -> None:
    store = FaultyStore(tegula.MemoryStore(), Fault(errno.EIO, on="set", keys="^x/c/2$"))
    with dask.config.set(scheduler="sync"), pytest.raises(StoreError):
        tegula.dask.store(da.ones(8, chunks=2), store, path="x", chunks=2)
    with pytest.raises(NotFoundError):
        tegula.open(store, path="x")


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("how", ["sync", "distributed", "later"])
def test_an_array_may_be_replaced_by_what_is_computed_from_it(
    how: str, format: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "a"
    tegula.create_array(path, data=np.arange(20), chunks=3, format=format)
    if how == "distributed":
        request.getfixturevalue("cluster")
    with dask.config.set(scheduler="sync") if how == "sync" else nullcontext():
        later = how == "later"
        made = tegula.dask.store(
            tegula.open(path).to_dask().rechunk(7) * 2, path, overwrite=True, format=format, compute=not later
        )
        if later:
            assert tegula.open(path)[:].tolist() == [*range(20)]
            made = made.compute()
    assert made[:].tolist() == tegula.open(path)[:].tolist() == [*range(0, 40, 2)]
    made[0] = 7
    assert tegula.open(path)[0] == 7
    assert [*tmp_path.iterdir()] == [path]


def test_what_is_replaced_later_is_untouched_if_a_task_fails(tmp_path: Path) -> None:
    def fails(block: Any) -> Any:
        raise ValueError("no block")

    for store in (tmp_path / "a", tegula.MemoryStore()):
        tegula.create_array(store, data=np.arange(20), chunks=3)
        d = tegula.open(store).to_dask().map_blocks(fails, meta=np.empty(0))
        for compute in (True, False):
            with pytest.raises(ValueError, match="no block"), dask.config.set(scheduler="sync"):
                tegula.dask.store(d, store, overwrite=True, compute=compute).compute()
            assert tegula.open(store)[:].tolist() == [*range(20)]


@pytest.mark.slow
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    d = da.ones((4, 4), chunks=2)
    a = tegula.create_array(tmp_path / "a", shape=(4, 4), dtype="f8")
    read = tegula.open(tmp_path / "a")
    cases: list[tuple[type[TegulaError], Any, Any, dict[str, Any]]] = [
        (MetadataError, np.ones(3), {}, {}),
        (MetadataError, d[d > 0], {}, {}),
        (MetadataError, d, {}, {"shape": (4, 4)}),
        (MetadataError, d, {}, {"compressor": None}),
        (MetadataError, d, a, {"chunks": 2}),
        (MetadataError, d, a, {"path": "x"}),
        (MetadataError, d, tmp_path / "a", {"region": ..., "fill_value": 2}),
        (ReadOnlyError, d, read, {}),
        (NotFoundError, d, tmp_path / "nothing", {"region": ...}),
        (SelectionError, d, a, {"region": slice(0, 3)}),
        (SelectionError, d, a, {"region": (0, 0, 0)}),
        (SelectionError, d, a, {"region": [0, 1, 2, 3]}),
        (SelectionError, d, a, {"region": (None, ...)}),
        (SelectionError, d, a, {"region": slice("a", 3)}),
        (SelectionError, d, a, {"region": slice(None, None, 0)}),
        (SelectionError, d[0], a, {}),
    ]
    for error, array, target, options in cases:
        with pytest.raises(error):
            tegula.dask.store(array, target, **options)
        if isinstance(target, dict):
            assert not target
    assert not (tmp_path / "nothing").exists()
    assert not a[...].any()
