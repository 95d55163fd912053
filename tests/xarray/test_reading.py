"""The engine ``tegula``: every format as a data set, lazily."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.runtime import executors
from tegula.xarray.guessing import can_open

pytestmark = pytest.mark.once(executors="both")

FIXTURES = Path(__file__).parent.parent / "fixtures"
LEGACY = Path(__file__).parent.parent.parent / "examples" / "legacy"
SNAPPY = {"blosc_snappy", "hand_snappy"}  # read by the kernel only


def unpack(archive: str, folder: Path) -> list[tuple[Path, str, str]]:
    """Unpack recorded arrays and tables; return the store, the path in it and the kind of each."""
    with zipfile.ZipFile(FIXTURES / f"{archive}.zip") as opened:
        opened.extractall(folder)
        index = json.loads(opened.read("index.json"))
    for name, original in index.get("copies", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / original, folder / name)
    return [
        (folder / case["case"] / "store" / case.get("store", ""), case["path"], case["kind"])
        for case in index["cases"]
        if case["kind"] in ("array", "table", "group", "hierarchy")
        and (executors.kernel() is not None or case["case"] not in SNAPPY)
    ]


def assert_same(found: Any, expected: Any) -> None:
    if expected.dtype == object or not expected.dtype.isnative:  # xarray converts to the byte order of the machine
        assert [*map(repr, found.astype(object).flat)] == [*map(repr, expected.astype(object).flat)]
    else:
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_chunks_that_are_not_stored_are_an_error_on_request() -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, path="a", shape=4, chunks=2, dtype="i4", dimension_names=["x"])
    array[:2] = 1
    for chunks in (None, {}):
        found = xr.open_dataset(store, engine="tegula", missing_chunks="error", chunks=chunks)["a"]
        assert found[:2].values.tolist() == [1, 1]
        with pytest.raises(tegula.NotFoundError, match="not stored"):
            found.values  # noqa: B018
        tree = xr.open_datatree(store, engine="tegula", missing_chunks="error", chunks=chunks)
        with pytest.raises(tegula.NotFoundError, match="not stored"):
            tree["a"].values  # noqa: B018


@pytest.mark.parametrize("chunks", [None, {}])
def test_options_reach_the_nodes_of_the_caller(chunks: Any) -> None:
    root = tegula.create_group(tegula.MemoryStore())
    root.create_array("g/data", shape=4, chunks=2, dtype="i4", dimension_names=["x"])
    tegula.create_table(root.store, {"data": np.zeros(4)}, path="t", format="zarr3", chunks=2)
    root.consolidate()
    for node, group in ((root["g/data"], None), (root["g"], None), (root, "g"), (root.with_consolidated(), "g"),
                        (root["t"], None)):  # fmt: skip
        opened = xr.open_dataset(node, engine="tegula", group=group, missing_chunks="error", chunks=chunks)
        with pytest.raises(tegula.NotFoundError, match="not stored"):
            opened["data"].values  # noqa: B018
        assert node.missing_chunks is None
        assert not xr.open_dataset(node, engine="tegula", group=group, chunks=chunks)["data"].values.any()
        node.missing_chunks = "error"  # the node's own rule holds unless there is another
        for options, fails in ({}, True), ({"missing_chunks": "fill"}, False):
            opened = xr.open_dataset(node, engine="tegula", group=group, chunks=chunks, **options)
            with pytest.raises(tegula.NotFoundError) if fails else nullcontext():
                opened["data"].values  # noqa: B018
        with pytest.raises(tegula.MetadataError, match="takes no storage options"):
            xr.open_dataset(node, engine="tegula", group=group, storage_options={"region": "x"})
    tree = xr.open_datatree(tegula.open(root.store), engine="tegula", missing_chunks="error", chunks=chunks)
    with pytest.raises(tegula.NotFoundError, match="not stored"):
        tree["g/data"].values  # noqa: B018


def test_pickled_columns_of_a_node_are_read_on_request() -> None:
    store = tegula.MemoryStore()
    values = np.array([{"a": 1}, None], object)
    tegula.create_array(store, path="a", data=values, format="zarr2", codecs=["pickle"], allow_pickle=True)
    for target in (store, tegula.open(store)):
        assert xr.open_dataset(target, engine="tegula", allow_pickle=True)["a"].values.tolist() == values.tolist()


@pytest.mark.slow
@pytest.mark.sampled(one_in=19)
@pytest.mark.parametrize("archive", sorted(path.stem for path in FIXTURES.glob("*.zip")))
def test_what_other_libraries_wrote_is_read_exactly(archive: str, tmp_path: Path) -> None:
    cases = unpack(archive, tmp_path)
    assert cases
    for store, path, kind in cases:
        node = tegula.open(store, path=path, allow_pickle=True)
        # columns of one table that differ in length have no common dimension
        if kind == "table" and not node.is_consistent:
            continue
        options: dict[str, Any] = {"decode_cf": False, "chunks": None, "backend_kwargs": {"allow_pickle": True}}
        if kind in ("group", "hierarchy"):
            found = xr.open_groups(
                store, engine="tegula", group=path, mask_and_scale=False, decode_times=False, **options
            )
            stored = {name: member for name, member in node.walk() if isinstance(member, tegula.Array)}
            assert sum(len(ds.variables) for ds in found.values()) == len(stored)
            for name, array in stored.items():
                above, _, last = name.rpartition("/")
                assert_same(found[f"/{above}"][last].values, np.asarray(array[...], array.dtype))
            continue
        with xr.open_dataset(store, engine="tegula", group=path, **options) as ds:
            arrays = (
                {name: node[name] for name in node.names} if kind == "table" else {path.split("/")[-1] or "data": node}
            )
            found = [zip(array.dimension_names or (), array.stored.steps or ()) for array in arrays.values()]
            stated = {dim for steps in found for dim, step in steps if step.unit}  # attributes say where elements lie
            assert {*ds.variables} == {*arrays} | stated
            for name, array in arrays.items():
                assert ds[name].shape == array.shape
                assert_same(ds[name].values, np.asarray(array[...], array.dtype))


def test_every_example_is_read_exactly() -> None:
    with np.load(LEGACY / "expected.npz") as expected:
        for path in expected.files:
            with xr.open_dataset(LEGACY / path, engine="tegula", decode_cf=False) as ds:
                np.testing.assert_array_equal(ds["data"].values, expected[path].astype(ds["data"].dtype))


def test_a_table_is_a_data_set_along_its_rows() -> None:
    ds = xr.open_dataset(LEGACY / "prices.bcolz", engine="tegula")
    table = tegula.open_table(LEGACY / "prices.bcolz")
    assert dict(ds.sizes) == {"row": len(table)}
    assert [*ds.data_vars] == [*table.names]
    assert ds.attrs == dict(table.attrs)
    named = xr.open_dataset(table, engine="tegula", dims=["day_and_share"])
    assert {*named.dims} == {"day_and_share"}


# --- names of dimensions


def group_of(format: str = "zarr2") -> tegula.Group:
    g = tegula.create_group(tegula.MemoryStore(), format=format)
    g["a"] = np.arange(6).reshape(2, 3)
    g["b"] = np.arange(2)
    return g


def test_axes_without_names_are_numbered() -> None:
    ds = xr.open_dataset(group_of(), engine="tegula")
    assert (ds["a"].dims, ds["b"].dims) == (("dim_0", "dim_1"), ("dim_0",))


def test_a_made_up_name_stands_for_one_length() -> None:
    g = group_of()
    g["c"] = np.arange(5)
    ds = xr.open_dataset(g, engine="tegula")
    assert (ds["a"].dims, ds["c"].dims) == (("a_dim_0", "dim_1"), ("c_dim_0",))


def test_names_can_be_given_for_some_variables() -> None:
    ds = xr.open_dataset(group_of(), engine="tegula", dims={"a": ["b", "x"]})
    assert (ds["a"].dims, ds["b"].dims) == (("b", "x"), ("b",))
    assert "b" in ds.indexes  # an array with the name of its only dimension is the coordinate


def test_a_list_of_names_is_for_arrays_without_names() -> None:
    g = group_of("zarr3")
    g.create_array("named", data=np.zeros((4, 5)), dimension_names=["u", "v"])
    ds = xr.open_dataset(g, engine="tegula", dims=["y", "x"])
    assert (ds["a"].dims, ds["named"].dims) == (("y", "x"), ("u", "v"))
    tree = xr.open_datatree(g, engine="tegula", dims=["y", "x"])
    assert tree["a"].dims == ("y", "x")


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"u": ["x"]}, "names 'u'"),
        ({"a": ["x"]}, "not names for the 2 axes"),
        (["x", "y", "z"], "no array of 3 axes"),
        (5, "list of names"),
        ([1, 2], "list of names"),
    ],
)
def test_wrong_names_are_errors(dims: Any, message: str) -> None:
    with pytest.raises(tegula.MetadataError, match=message):
        xr.open_dataset(group_of(), engine="tegula", dims=dims)


def test_names_of_netcdf_in_zarr2_are_used() -> None:
    store = tegula.MemoryStore()
    g = tegula.create_group(store, format="zarr2")
    g.create_array("t", data=np.arange(4), attributes={"_NCZARR_ATTR": {}, "units": "K"})
    document = json.loads(store.get("t/.zarray"))
    store.set("t/.zarray", json.dumps({**document, "_NCZARR_ARRAY": {"dimrefs": ["/time"]}}).encode())
    ds = xr.open_dataset(store, engine="tegula")
    assert ds["t"].dims == ("time",)
    assert ds["t"].attrs == {"units": "K"}


# --- laziness


@settings(max_examples=40)
@given(data=st.data())
def test_every_kind_of_indexing_gives_what_numpy_gives(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    format = data.draw(st.sampled_from(["zarr1", "zarr2", "zarr3", "bcolz"]))
    dims = [f"d{axis}" for axis in range(len(shape))]
    values = np.arange(np.prod(shape)).reshape(shape)
    chunks = 2 if format != "bcolz" else "auto"
    array = tegula.create_array(tegula.MemoryStore(), data=values, chunks=chunks, fill_value=-1, format=format)
    lazy = xr.open_dataset(array, engine="tegula", dims=dims)["data"]
    eager = xr.DataArray(values, dims=dims, name="data")
    for _ in range(2):  # of what was selected before
        chosen: dict[str, Any] = {}
        points = data.draw(st.booleans())
        for dim, size in eager.sizes.items():
            numbers = st.integers(-size, size - 1)
            if not size or not data.draw(st.booleans()):
                continue
            if points:
                found = data.draw(st.lists(numbers, min_size=3, max_size=3))
                chosen[str(dim)] = xr.DataArray(found, dims="point" if data.draw(st.booleans()) else [dim])
            else:
                slices = st.slices(size).map(lambda part: slice(part.start, part.stop, part.step))
                chosen[str(dim)] = data.draw(st.one_of(numbers, slices, st.lists(numbers, max_size=4)))
        lazy, eager = lazy.isel(chosen), eager.isel(chosen)
    xr.testing.assert_identical(lazy.drop_attrs().load(), eager)


@pytest.mark.parametrize("key", [..., 0, -1, slice(None, None, -1), np.array([1, 0])])
def test_text_that_is_not_stored_is_empty(key: Any) -> None:
    text = tegula.create_array({}, shape=3, chunks=1, dtype=str, fill_value=None, format="zarr2", dimension_names=["x"])
    text[1] = "a"
    assert text[0] is None
    found = xr.open_dataset(text, engine="tegula")["data"]
    expected = np.array(["", "a", ""])[key]
    assert found[key].values.tolist() == expected.tolist()


def test_chunks_follow_shards() -> None:
    g = tegula.create_group({})
    g.create_array("a", data=np.zeros((8, 8)), chunks=2, shards=(4, 8), dimension_names=["y", "x"])
    g.create_array("b", data=np.zeros(8), chunks=3, dimension_names=["z"])
    ds = xr.open_dataset(g, engine="tegula", chunks={})
    assert dict(ds.chunksizes) == {"y": (4, 4), "x": (8,), "z": (3, 3, 2)}
    encoding = ds["a"].encoding
    assert (encoding["chunks"], encoding["shards"]) == ((2, 2), (4, 8))


def test_chunks_that_differ_in_length_are_followed() -> None:
    g = tegula.create_group({})
    g.create_array("a", data=np.arange(10), chunks=[[3, 5, 4]], dimension_names=["x"])
    ds = xr.open_dataset(g, engine="tegula", chunks={})
    assert ds["a"].chunks == ((3, 5, 2),)
    assert ds["a"].values.tolist() == [*range(10)]


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_a_data_set_keeps_its_shape_while_the_array_grows(format: str) -> None:
    array = tegula.create_array(tegula.MemoryStore(), data=np.arange(5), fill_value=-1, format=format)
    ds = xr.open_dataset(array, engine="tegula")
    array.append([7, 8])
    assert ds["data"][-1].item() == 4
    assert ds["data"][::-2].values.tolist() == [4, 2, 0]
    assert pickle.loads(pickle.dumps(ds))["data"].values.tolist() == [*range(5)]


def test_opening_reads_no_chunk(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a", data=np.arange(5), chunks=5, format="zarr1")
    (tmp_path / "a" / "0").write_bytes(b"damaged")
    ds = xr.open_dataset(tmp_path / "a", engine="tegula")
    ds = pickle.loads(pickle.dumps(ds))
    with pytest.raises(tegula.CodecError):
        ds.load()


@pytest.mark.slow
def test_pickles_are_small_and_work_in_another_process(tmp_path: Path) -> None:
    g = tegula.create_group(tmp_path / "g.zarr")
    g.create_array("a", data=np.arange(1000.0), chunks=10, dimension_names=["x"])
    ds = xr.open_dataset(tmp_path / "g.zarr", engine="tegula", chunks={})
    (tmp_path / "ds.pickle").write_bytes(pickle.dumps(ds["a"].sum()))
    assert len(pickle.dumps(xr.open_dataset(tmp_path / "g.zarr", engine="tegula"))) < 4000
    code = f"import pickle; print(float(pickle.load(open({str(tmp_path / 'ds.pickle')!r}, 'rb'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["499500.0"], done.stderr


def test_closing_a_data_set_closes_an_archive_that_it_has_opened(tmp_path: Path) -> None:
    with tegula.create_group(tmp_path / "g.zip") as g:
        g["a"] = [1, 2, 3]
    with xr.open_dataset(tmp_path / "g.zip", engine="tegula") as ds:
        assert ds["a"].values.tolist() == [1, 2, 3]
        unread = ds["a"].copy()
    assert ds["a"].values.tolist() == [1, 2, 3]  # in memory
    del unread
    with tegula.open(tmp_path / "g.zip") as group, xr.open_dataset(group, engine="tegula") as ds:
        pass
    with tegula.open(tmp_path / "g.zip", "r+") as group:
        assert xr.open_dataset(group, engine="tegula")["a"].values.tolist() == [1, 2, 3]


# --- groups


@pytest.mark.slow
def test_groups_and_tables_are_a_tree() -> None:
    g = tegula.create_group({}, attributes={"title": "root"})
    g.create_array("a/b/x", data=[1, 2], dimension_names=["x"])
    g["y"] = [1.5]
    found = xr.open_groups(g, engine="tegula")
    assert sorted(found) == ["/", "/a", "/a/b"]
    tree = xr.open_datatree(g, engine="tegula")
    assert tree.attrs == {"title": "root"}
    assert tree["a/b/x"].values.tolist() == [1, 2]
    below = xr.open_datatree(g, engine="tegula", group="a")
    assert below["b/x"].values.tolist() == [1, 2]
    alone = xr.open_dataset(g, engine="tegula", group="a/b/x")
    assert [*alone.variables] == ["x"]


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(tegula.NotFoundError):
        xr.open_dataset(tmp_path / "absent.zarr", engine="tegula")
    with pytest.raises(tegula.NotFoundError):
        xr.open_dataset(tegula.create_group({}), engine="tegula", group="absent")
    with pytest.raises(tegula.NotFoundError):
        xr.open_dataset(tegula.create_array({}, data=[1]), engine="tegula", group="absent")


def test_consolidated_metadata_is_used_on_request() -> None:
    store = tegula.MemoryStore()
    g = tegula.create_group(store)
    g["a"] = [1]
    g.consolidate()
    g["b"] = [2]
    assert [*xr.open_dataset(store, engine="tegula").variables] == ["a", "b"]
    assert [*xr.open_dataset(store, engine="tegula", consolidated=True).variables] == ["a"]


class Unlisted(tegula.MemoryStore):
    """A store without listings, like a plain web server."""

    def list_prefix(self, prefix: str) -> Any:
        if not self.listable:
            raise tegula.UnsupportedError("this server has no listing")
        return super().list_prefix(prefix)

    def list_dir(self, prefix: str = "") -> Any:
        if not self.listable:
            raise tegula.UnsupportedError("this server has no listing")
        return super().list_dir(prefix)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_storage_without_a_listing_is_read_by_consolidated_metadata(format: str) -> None:
    store = Unlisted()
    g = tegula.create_group(store, format=format)
    g.create_array("s/a", data=[1, 2], dimension_names=["x"])
    g["b"] = [3]
    g.consolidate()
    store.listable = False
    assert xr.open_dataset(store, engine="tegula")["b"].values.tolist() == [3]
    assert xr.open_datatree(store, engine="tegula")["s/a"].values.tolist() == [1, 2]
    with pytest.raises(tegula.UnsupportedError, match="no listing"):
        xr.open_dataset(store, engine="tegula", consolidated=False)


# --- failures


class Failing(tegula.MemoryStore):
    """A store whose connection breaks down."""

    broken = False

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if self.broken:
            raise tegula.StoreError("the connection was reset", key=key)
        return super().get(key, *args, **options)

    def get_many(self, *args: Any, **options: Any) -> Any:
        if self.broken:
            raise tegula.StoreError("the connection was reset")
        return super().get_many(*args, **options)


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_failing_connection_is_an_error_and_never_missing_data(chunks: Any) -> None:
    store = Failing()
    g = tegula.create_group(store)
    g.create_array("a", data=np.ones(10), chunks=2, fill_value=np.nan, dimension_names=["x"])
    ds = xr.open_dataset(store, engine="tegula", chunks=chunks)
    store.broken = True
    with pytest.raises(tegula.StoreError, match="reset"):
        ds.load(scheduler="synchronous") if chunks == {} else ds.load()


# --- which engine opens what


def test_the_engine_is_registered() -> None:
    assert "tegula" in xr.backends.list_engines(), "install tegula again: its entry points are not up to date"


def test_targets_that_the_engine_zarr_reads_are_left_to_it(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "v1.zarr", data=[1], format="zarr1")
    tegula.create_array(tmp_path / "carray", data=[1], format="bcolz")
    tegula.create_table(tmp_path / "ctable", {"a": [1]}, format="bcolz")
    tegula.create_group(tmp_path / "v3.zarr")["a"] = [1]
    tegula.create_group(tmp_path / "v2.zarr", format="zarr2")["a"] = [1]
    for name in ("v1.zarr", "carray", "ctable"):
        assert can_open(tmp_path / name), name
        assert xr.open_dataset(tmp_path / name).sizes
        assert xr.open_dataset(f"{tmp_path / name}/").sizes
    for name in ("v2.zarr", "v3.zarr", "a.nc", "absent"):
        assert not can_open(tmp_path / name), name
    assert not any(can_open(target) for target in (b"CDF\x01", 5, ["a.bcolz"], {}))
    g = tegula.open_group(tmp_path / "v3.zarr")
    assert can_open(g)
    assert can_open(g["a"])
    assert can_open(g.store)


def test_files_of_several_formats_are_combined(tmp_path: Path) -> None:
    for number, format in enumerate(["zarr1", "bcolz", "zarr3"]):
        tegula.create_array(tmp_path / f"{number}", data=np.arange(4) + 10 * number, format=format)
    paths = [str(tmp_path / f"{number}") for number in range(3)]
    ds = xr.open_mfdataset(paths, engine="tegula", combine="nested", concat_dim="dim_0")
    assert ds["data"].values.tolist() == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]


@pytest.mark.slow
def test_importing_is_cheap() -> None:
    def loaded(statement: str) -> set[str]:
        code = f"import sys\n{statement}\nprint(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
        return {*done.stdout.split()}

    assert "xarray" not in loaded("import tegula; tegula.open_group")
    found = loaded("from tegula.xarray.backend import TegulaBackendEntrypoint")
    assert not {"tegula.arrays", "tegula.hierarchy", "tegula.stores", "dask", "zarr"} & found


@pytest.mark.parametrize("function", ["open_datatree", "open_groups"])
def test_an_unknown_option_is_named_before_anything_is_opened(function: str) -> None:
    method = {"open_groups": "open_groups_as_dict"}.get(function, function)
    with pytest.raises(TypeError, match=f"TegulaBackendEntrypoint.{method} has no keyword 'nonsense'"):
        getattr(xr, function)("/nowhere/at/all", engine="tegula", nonsense=1)
