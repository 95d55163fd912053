"""`tegula.xarray.write`: nothing is lost where writers share chunks, and errors come before changes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import tegula
from tegula.xarray import write

pytestmark = pytest.mark.once(executors="both")

WAIT = 120


def days(start: int, stop: int, **values: float) -> xr.Dataset:
    """Return a data set of some days, whose values say which day it is."""
    numbers = np.arange(start, stop)
    return xr.Dataset(
        {"a": (("time", "x"), numbers[:, None] * np.ones(3)), "n": ("time", numbers)},
        {"time": np.datetime64("2000-01-01", "ns") + numbers.astype("m8[D]"), "x": [1, 2, 3]},
    )


def read(target: Any, **options: Any) -> xr.Dataset:
    with xr.open_dataset(target, engine="tegula", **options) as ds:
        return ds.load()


def run_together(scripts: list[str]) -> None:
    """Run Python programs at once."""
    running = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for script in scripts]
    try:
        for process in running:
            errors = process.communicate(timeout=WAIT)[1]
            assert process.returncode == 0, errors.decode()
    finally:
        for process in running:
            process.kill()


# --- writers that share chunks


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("scheduler", "shards"), [("threads", None), ("threads", (50, 50, 50)), ("processes", (50, 50, 50))]
)
def test_chunks_of_dask_need_not_be_those_of_the_store(scheduler: str, shards: Any, tmp_path: Path) -> None:
    values = np.arange(60.0**3).reshape(60, 60, 60)
    ds = xr.Dataset({"a": (("x", "y", "z"), da.from_array(values, chunks=(25, 25, 30)))})
    chunks = (25, 25, 25) if shards else (40, 40, 40)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        write(ds, tmp_path / "a.zarr", encoding={"a": {"chunks": chunks, "shards": shards}})
    np.testing.assert_array_equal(read(tmp_path / "a.zarr")["a"], values)


@pytest.mark.slow
@pytest.mark.sampled(one_in=28)
@pytest.mark.parametrize(("kind", "compute"), [("memory", True), ("dict", False), ("file", True)])
def test_what_other_processes_would_lose_is_refused(kind: str, compute: bool, tmp_path: Path) -> None:
    local = tegula.FsspecStore(pytest.importorskip("fsspec").filesystem("file"), str(tmp_path / "a"))
    target: Any = {"memory": tegula.MemoryStore(), "dict": {}, "file": local}[kind]
    ds = xr.Dataset({"a": ("x", da.ones(8, chunks=3))})
    processes = dask.config.set(scheduler="processes", num_workers=1)
    with processes, pytest.raises(tegula.StoreError, match="scheduler='threads'"):
        dask.compute(write(ds, target, encoding={"a": {"chunks": 4}}, compute=compute))
    write(ds, target, mode="a")  # by threads
    assert read(target)["a"].values.tolist() == [1] * 8


class Foreign:
    """A chunked array of a library other than dask."""

    shape, ndim, dtype, chunks = (4,), 1, np.dtype("f8"), ((2, 2),)

    def __array_function__(self, *_: Any) -> Any:
        return NotImplemented

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return NotImplemented


def test_foreign_chunked_arrays_are_refused_before_anything_is_deleted(tmp_path: Path) -> None:
    write(days(0, 2), tmp_path / "a.zarr")
    with pytest.raises(tegula.UnsupportedError, match="only those of dask"):
        write(xr.Dataset({"a": ("x", Foreign())}), tmp_path / "a.zarr", mode="w")
    xr.testing.assert_identical(read(tmp_path / "a.zarr"), days(0, 2))


def test_uneven_chunks_of_dask_are_stored(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": ("x", da.from_array(np.arange(20), chunks=((3, 7, 2, 8),)))})
    write(ds, tmp_path / "a.zarr")
    found = xr.open_dataset(tmp_path / "a.zarr", engine="tegula", chunks={})
    assert found["a"].encoding["chunks"] == (8,)
    assert found["a"].values.tolist() == [*range(20)]


@pytest.mark.slow
def test_regions_in_chunks_of_their_own_lose_nothing(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": (("a", "b", "c"), np.arange(120).reshape(4, 3, 10))}).chunk(2)
    for attempt in range(5):
        path = tmp_path / f"{attempt}.zarr"
        write(ds.chunk(5), path, compute=False)
        for row in range(4):
            write(ds.chunk(3).isel(a=[row]), path, region={"a": slice(row, row + 1)})
        xr.testing.assert_identical(read(path), ds.compute())


@pytest.mark.slow
def test_appends_in_chunks_of_their_own_lose_nothing(tmp_path: Path) -> None:
    for mode in ("a", "a-"):
        path = tmp_path / f"{mode}.zarr"
        write(days(0, 7).chunk(time=3), path, encoding={"a": {"chunks": (5, 2)}, "n": {"chunks": (4,)}})
        for start, stop, chunk in [(7, 9, 1), (9, 23, 4), (23, 24, 1), (24, 60, 7)]:
            write(days(start, stop).chunk(time=chunk), path, append_dim="time", mode=mode)
        xr.testing.assert_identical(read(path), days(0, 60))


@pytest.mark.parametrize("shards", [None, 8])
def test_threads_write_regions_of_one_chunk(shards: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    template = days(0, 48)
    template["a"][:] = np.nan
    write(template, path, encoding={"a": {"chunks": (4 if shards else 16, 3), "shards": shards and (16, 3)}})
    parts = [days(start, min(start + 5, 48)) for start in range(0, 48, 5)]
    with ThreadPoolExecutor(6) as pool:
        [*pool.map(lambda part: write(part.drop_vars("x"), path, region="auto"), parts, timeout=WAIT)]
    xr.testing.assert_identical(read(path), days(0, 48))


@pytest.mark.slow
def test_processes_write_regions_of_one_chunk(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    write(xr.Dataset({"a": ("x", np.zeros(3000))}), path, encoding={"a": {"chunks": (1000,)}})
    script = """
import numpy as np, xarray as xr
from tegula.xarray import write
for start in range({start}, 3000, 130):
    stop = min(start + 65, 3000)
    write(xr.Dataset({{"a": ("x", np.arange(start, stop))}}), {path!r}, region={{"x": slice(start, stop)}})
"""
    run_together([script.format(start=start, path=path) for start in (0, 65)])
    np.testing.assert_array_equal(read(path)["a"], np.arange(3000))


APPEND = """
import numpy as np, xarray as xr
from tegula.xarray import write
for number in range(8):
    value = 100 * {writer} + number
    size = 1 + number % 3
    ds = xr.Dataset({{name: ("x", np.full(size, value)) for name in ("x", "a", "b")}})
    write(ds, {path!r}, append_dim="x")
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=39)
@pytest.mark.parametrize("indexed", [True, False])
def test_each_append_gets_a_part_of_its_own_the_same_in_all_variables(indexed: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    names = ("x", "a", "b") if indexed else ("a", "b", "c")
    first = xr.Dataset({name: ("x", np.zeros(3, int)) for name in names})
    write(first, path, encoding={name: {"chunks": (10,)} for name in names})
    scripts = [APPEND.format(writer=writer, path=path) for writer in (1, 2)]
    run_together(scripts if indexed else [script.replace('("x", "a", "b")', '("a", "b", "c")') for script in scripts])
    for ds in (read(path), xr.open_zarr(path, consolidated=True, chunks=None)):
        assert ds.sizes == {"x": 3 + 2 * 15}
        for name in names:  # each append is in one piece, and at the same place
            np.testing.assert_array_equal(ds[name].values, ds["a"].values)
        found, counts = np.unique(ds["a"].values, return_counts=True)
        wanted = {100 * writer + number: 1 + number % 3 for writer in (1, 2) for number in range(8)}
        assert dict(zip(found.tolist(), counts.tolist())) == {0: 3, **wanted}
        assert np.count_nonzero(np.diff(ds["a"].values)) == len(wanted)


def test_an_append_refuses_variables_that_differ_in_length(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(days(0, 4), path)
    tegula.open_array(path, "r+", path="n").resize(9)
    with pytest.raises(tegula.MetadataError, match="'n' is longer than 'time'"):
        write(days(4, 5).assign(new=("x", [1, 2, 3])).assign_attrs(k=1), path, append_dim="time")
    assert tegula.open_array(path, path="time").shape == (4,)
    assert "new" not in read(path, decode_cf=False, drop_variables=["n"])
    assert tegula.open_group(path).attrs.asdict() == {}


# --- encoding


def test_times_are_appended_in_the_stored_units(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(
        days(0, 2), path, encoding={"time": {"units": "hours since 1999-12-31", "dtype": "i4", "calendar": "standard"}}
    )
    write(days(2, 4), path, append_dim="time")
    stored = tegula.open_array(path, path="time")
    assert stored[:].tolist() == [24, 48, 72, 96]
    assert stored.attrs["units"] == "hours since 1999-12-31"
    xr.testing.assert_identical(read(path), days(0, 4))


def test_packed_values_are_appended_as_they_are_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    ds = xr.Dataset({"t": ("x", [1.0, np.nan])})
    write(ds, path, encoding={"t": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10, "_FillValue": -1}})
    write(xr.Dataset({"t": ("x", [2.0, np.nan])}), path, append_dim="x")
    assert tegula.open_array(path, path="t")[:].tolist() == [-18, -1, -16, -1]
    assert read(path)["t"].values.tolist()[::2] == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType(), None])
@pytest.mark.parametrize("stored", ["U2", "S2"])
def test_text_is_never_cut(dtype: Any, stored: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(xr.Dataset({"t": ("x", np.array(["a", "bc"], stored))}), path)
    given: Any = dtype or f"{stored[0]}400"
    for text in ("abc" * 100, "a\0") if dtype else ("abc" * 100,):
        with pytest.raises(tegula.MetadataError, match=r"'t': text of the fixed length 2 .* can't hold b?'.{,40}:"):
            write(xr.Dataset({"t": ("x", np.array(["a", text], given))}), path, append_dim="x")
    write(xr.Dataset({"t": ("x", np.array(["de"], given))}), path, append_dim="x")
    write(xr.Dataset({"t": ("x", np.array(["f"], f"{stored[0]}1"))}), path, append_dim="x")
    assert read(path)["t"].values.tolist() == np.array(["a", "bc", "de", "f"], stored).tolist()


@pytest.mark.parametrize("value", [np.nan, None, b"ab", 1])
def test_what_is_no_text_is_not_stored_as_text(value: Any) -> None:
    store = tegula.MemoryStore()
    write(xr.Dataset({"t": ("x", np.array(["abc"]))}), store)
    for values in (np.array(["a", value], object), np.arange(2), np.array(["2000-01-01"], "M8[ns]")):
        with pytest.raises(tegula.MetadataError):
            write(xr.Dataset({"t": ("x", values)}), store, append_dim="x")
    assert tegula.open_array(store, path="t")[:].tolist() == ["abc"]


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType()])
def test_chunked_text_is_checked_when_it_is_computed(dtype: Any) -> None:
    computed: list[int] = []

    def block(values: Any) -> Any:
        computed.append(len(values))
        return values

    def chunked(values: list[str]) -> xr.Dataset:
        array = da.from_array(np.array(values, dtype), chunks=1).map_blocks(block, meta=np.empty(0, dtype))
        return xr.Dataset({"t": ("x", array)})

    store = tegula.MemoryStore()
    write(xr.Dataset({"t": ("x", np.array(["abc"]))}), store)
    delayed = write(chunked(["d", "e", "f", "ghi"]), store, append_dim="x", compute=False)
    assert not computed
    delayed.compute()
    assert len(computed) == 4
    with pytest.raises(tegula.MetadataError, match=r"'t': text of the fixed length 3 .* can't hold 'long'"):
        write(chunked(["j", "long"]), store, append_dim="x")
    assert tegula.open_array(store, path="t")[:5].tolist() == ["abc", "d", "e", "f", "ghi"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_codecs_are_given_in_every_form(tmp_path: Path) -> None:
    ds = xr.Dataset({name: ("x", np.arange(9)) for name in "abcd"})
    encoding: dict[Any, Any] = {
        "a": {"compressors": None},
        "b": {"compressors": {"name": "gzip", "configuration": {"level": 3}}},
        "c": {"filters": [{"id": "delta", "dtype": "<i8"}], "compressors": ["zstd"]},
        "d": {"compressors": {"id": "zlib", "level": 2}},
    }
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.zarr"
        write(ds, path, encoding=encoding, zarr_format=zarr_format)
        g = tegula.open_group(path)
        assert g["a"].compressors == ()
        assert "'level': 3" in str(g["b"].compressors)
        assert "delta" in str(g["c"].filters)
        assert "zlib" in str(g["d"].compressors)
        xr.testing.assert_identical(xr.open_zarr(path, chunks=None).drop_attrs(), ds)


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "bcolz"])
def test_what_was_read_in_one_format_is_written_in_another(format: str) -> None:
    source = tegula.create_array({}, data=np.arange(9.0), fill_value=-1, codecs={"id": "blosc"}, format=format)
    ds = xr.open_dataset(source, engine="tegula", dims=["x"])
    for zarr_format in (2, 3):
        store = tegula.MemoryStore()
        write(ds, store, zarr_format=zarr_format)
        assert read(store)["data"].values.tolist() == [*range(9)]
    ds.to_zarr({}, zarr_format=2)


# --- modes, groups and kinds of data


def test_modes_keep_what_they_must(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(days(0, 2), path)
    with pytest.raises(tegula.AlreadyExistsError):
        write(days(0, 2), path)
    with pytest.raises(tegula.NotFoundError):
        write(days(0, 2), tmp_path / "absent.zarr", mode="r+")
    assert not (tmp_path / "absent.zarr").exists()
    write(xr.Dataset({"new": ("x", [1, 2, 3])}, attrs={"k": 1}), path, mode="a")
    assert {*read(path).variables} == {"a", "n", "time", "x", "new"}
    write(days(0, 1), path, mode="w")
    xr.testing.assert_identical(read(path), days(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ds", "options", "message"),
    [
        (days(0, 2), {"mode": "x"}, "supported options for mode"),
        (days(0, 3), {"mode": "a"}, "different dimension sizes"),
        (days(0, 2).rename(x="y"), {"mode": "a"}, "different dimension names"),
        (days(0, 2), {"mode": "a", "append_dim": "z"}, "does not match any"),
        (days(0, 2), {"mode": "a", "encoding": {"a": {"dtype": "f4"}}}, "already exists, but encoding"),
        (days(0, 2), {"region": {"time": slice(0, 3)}}, "at least one dimension|dimension sizes"),
        (days(0, 2).drop_vars("x"), {"region": {"time": slice(1, 3)}}, "dimension sizes"),
        (days(0, 2).drop_vars("x"), {"region": {"time": slice(0, 2, 2)}}, "step on all slices"),
        (days(0, 2), {"zarr_format": 4, "mode": "w"}, "neither 2 nor 3"),
        (days(0, 2), {"zarr_format": 2, "format": "zarr3", "mode": "w"}, "contradicts"),
        (days(0, 2).assign({"a": ("x", np.array(["u", "v", "w"]))}), {"mode": "a"}, "Mismatched dtypes"),
        (days(0, 2).assign(c=1).assign_attrs(k=object()), {"mode": "a"}, "Invalid attribute"),
        (days(0, 2).assign(c=("x", [1, 2, 3], {"k": object()})), {"mode": "a"}, "Invalid attribute"),
        (days(0, 2).assign(c=1), {"mode": "a", "encoding": {"c": {"chunk": 1}}}, "unexpected encoding"),
        (days(0, 2), {"mode": "r+", "region": "all"}, "must be a dict"),
        (days(0, 2).drop_vars("x"), {"mode": "r+", "region": {"time": slice(0.5, 2)}}, "have integers"),
        (days(0, 2), {"mode": "a", "write_empty_chunks": "no"}, "write_empty_chunks"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"chunk": 1}}}, "unexpected encoding"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"chunks": "large"}}}, "integers or 'auto'"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"chunks": 0}}}, "at least 1"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"compressors": {"name": "blosc", "cname": "x"}}}}, "cname"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"dtype": "x9"}}}, "variable 'a'"),
        (days(0, 2), {"mode": "w", "encoding": {"a": {"dtype": "i1", "_FillValue": "none"}}}, "variable 'a'"),
        (days(0, 2).assign(c=("x", np.zeros(3, "g"))).assign_attrs(k=1), {"mode": "a"}, "no data type"),
        (days(0, 2).assign(c=("x", np.array([1, "a", 2.5], object))), {"mode": "w"}, "variable 'c'"),
        (days(0, 2).assign(c=("x", [1] * 3, *[{"coordinates": "x"}] * 2)), {"mode": "w"}, "coordinates"),
        (xr.DataTree.from_dict({"/b": days(0, 2).assign(c=np.zeros((), "g"))}), {"mode": "w"}, "no data type"),
    ],
)
def test_errors_come_before_changes(ds: xr.Dataset, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(days(0, 2), path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(tegula.TegulaError, match=message) as raised:
        write(ds, path, **options)
    assert isinstance(raised.value, ValueError)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_an_index_of_several_levels_is_refused() -> None:
    stacked = days(0, 2).stack(both=["time", "x"])
    store = tegula.MemoryStore()
    with pytest.raises(tegula.UnsupportedError, match="'both'") as raised:
        write(stacked, store)
    assert isinstance(raised.value, NotImplementedError)
    assert [*store.list()] == []


@pytest.mark.parametrize("name", ["new.zarr", "new.zarr.zip"])
@pytest.mark.parametrize(
    "options",
    [{"encoding": {"a": {"shards": (1, 2), "chunks": 2}}}, {"append_dim": "time"}, {"mode": "a", "group": "b"}],
)
def test_an_error_creates_nothing(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(tegula.TegulaError):
        write(days(0, 2).assign(n=np.zeros((), "g")), tmp_path / name, **options)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("chunks", [None, 1])
def test_regions_are_counted_from_the_end_too(chunks: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(days(0, 6), path)
    late = days(10, 12).drop_vars("x")
    write(late if chunks is None else late.chunk(time=chunks), path, region={"time": slice(-3, -1)})
    assert read(path)["n"].values.tolist() == [0, 1, 2, 10, 11, 5]


def test_a_coordinate_with_equal_values_names_no_region(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(xr.concat([days(0, 2), days(1, 3)], "time"), path)
    with pytest.raises(tegula.MetadataError, match="twice"):
        write(days(0, 1), path, region="auto")


@pytest.mark.parametrize("target", ["a.bcolz", "bcolz group"])
def test_formats_without_groups_are_refused(target: str, tmp_path: Path) -> None:
    options = {} if target == "a.bcolz" else {"format": "bcolz"}
    with pytest.raises(tegula.UnsupportedError):
        write(days(0, 2), tmp_path / target, **options)
    assert not (tmp_path / target).exists()


def test_a_group_of_tegula_and_an_archive_are_targets(tmp_path: Path) -> None:
    g = tegula.create_group({}, format="zarr2")
    write(days(0, 2), g, group="sub/deep", mode="w")
    xr.testing.assert_identical(read(g["sub"], group="deep"), days(0, 2))
    assert g["sub/deep"].format == "zarr2"  # as the group that was given
    write(days(0, 2).chunk(time=1), tmp_path / "a.zarr.zip")
    write(days(2, 4).chunk(time=1), tmp_path / "a.zarr.zip", append_dim="time")
    xr.testing.assert_identical(read(tmp_path / "a.zarr.zip"), days(0, 4))
    delayed = write(days(4, 5).chunk(time=1), tmp_path / "a.zarr.zip", append_dim="time", compute=False)
    delayed.compute()
    xr.testing.assert_identical(read(tmp_path / "a.zarr.zip"), days(0, 5))


def test_members_have_the_format_of_the_groups_above_them(tmp_path: Path) -> None:
    write(days(0, 2), tmp_path / "a.zarr", format="zarr2")
    write(days(0, 2), tmp_path / "a.zarr", group="below")
    assert tegula.open_group(tmp_path / "a.zarr", path="below").format == "zarr2"
    with pytest.raises(tegula.AlreadyExistsError, match="mode='a' and its own format"):
        write(days(0, 2), tmp_path / "a.zarr", mode="a", zarr_format=3)


def test_trees_and_arrays_are_stored(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": days(0, 2), "/sub": xr.Dataset({"b": ("x", [1, 2, 3])}), "/sub/c": xr.Dataset()})
    write(tree, tmp_path / "tree.zarr", encoding={"/sub": {"b": {"chunks": (2,)}}})
    found = xr.open_datatree(tmp_path / "tree.zarr", engine="tegula")
    xr.testing.assert_identical(found, tree)
    assert found["sub/b"].encoding["chunks"] == (2,)
    for name in (None, "a", "x"):
        array = xr.DataArray([1, 2], dims="x", name=name)
        write(array, tmp_path / "array.zarr", mode="w")
        xr.testing.assert_identical(xr.open_dataarray(tmp_path / "array.zarr", engine="tegula"), array)


@pytest.mark.parametrize("data", [5, {"a": [1]}, np.zeros(3)])
def test_other_data_are_refused(data: Any) -> None:
    with pytest.raises(tegula.TegulaError, match="must be a Dataset"):
        write(data, {})


def test_consolidated_metadata_is_written_unless_forbidden() -> None:
    for consolidated, expected in ((None, True), (True, True), (False, False)):
        store = tegula.MemoryStore()
        write(days(0, 2), store, group="sub", consolidated=consolidated)
        assert tegula.open_group(store).is_consolidated() == expected


# --- data sets that replace the one they are computed from


@pytest.mark.slow
@pytest.mark.sampled(one_in=12)
@pytest.mark.parametrize("chunks", [None, {}])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("group", [None, "g/h"])
@pytest.mark.parametrize("kind", ["directory", "memory", "archive"])
def test_a_data_set_may_replace_the_one_that_it_is_read_from(
    kind: str, group: str | None, format: str, chunks: Any, tmp_path: Path
) -> None:
    target: Any = {"directory": tmp_path / "s", "memory": tegula.MemoryStore(), "archive": tmp_path / "s.zip"}[kind]
    write(days(0, 9), target, mode="w", group=group, format=format)
    for later in (False, True):
        with xr.open_dataset(target, engine="tegula", group=group, chunks=chunks) as ds:
            expected = (ds * 2).load()
            done = write(ds * 2, target, mode="w", group=group, format=format, compute=not later)
            if later:
                done.compute()
        xr.testing.assert_equal(read(target, group=group), expected)
        copies = tegula.open_group(target, consolidated=True)
        assert "a" in (copies if group is None else copies[group])
    if kind != "memory":
        assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_what_a_failing_task_would_have_replaced_is_untouched(kind: str, tmp_path: Path) -> None:
    target: Any = tmp_path / "s" if kind == "directory" else tegula.MemoryStore()
    write(days(0, 9), target)
    before = read(target)

    def fails(block: Any) -> Any:
        raise ValueError("no block")

    broken = before.assign(a=(("time", "x"), da.ones((9, 3), chunks=3).map_blocks(fails, meta=np.empty((0, 0)))))
    with pytest.raises(ValueError, match="no block"):
        write(broken, target, mode="w")
    if kind == "directory":
        assert [path.name for path in tmp_path.iterdir()] == ["s"]
    xr.testing.assert_identical(read(target), before)
    with pytest.raises(ValueError, match="no block"):
        write(broken, target, mode="w", compute=False).compute()
    xr.testing.assert_identical(read(target), before)
