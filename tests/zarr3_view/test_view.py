"""A view of a node of any format reads as if it had been written in Zarr v3."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.zarr3_view import Zarr3View, shown

FORMATS = ["zarr1", "zarr2", "bcolz", "n5"]
WRITABLE = ["zarr2", "n5"]


def view_of(node: Any, path: str = "") -> Zarr3View:
    store, prefix = shown(node, path, False, None)
    assert isinstance(store, Zarr3View)
    assert prefix == ""
    return store


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_views_of_arrays_read_the_same(data: st.DataObject) -> None:
    """Any array, opened through its view, is an array of Zarr v3 with the same elements and attributes."""
    item = data.draw(st.sampled_from(FORMATS))
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    rows = data.draw(st.integers(1, 5))
    chunks = [rows, *shape[1:]] if item == "bcolz" else [data.draw(st.integers(1, 5)) for _ in shape]
    dtypes = ["u1", "<i4", ">i2", ">f8", *(["bool", "S3", "U2", "M8[ns]"] if item != "n5" else [])]
    dtype = data.draw(st.sampled_from(dtypes))
    array = tegula.create_array({}, shape=shape, chunks=chunks, dtype=dtype, format=item, attributes={"a": [1]})
    values = np.random.default_rng(0).integers(0, 2, shape).astype("i8").astype(dtype)
    array[...] = values
    view = view_of(array)
    found = tegula.open(view)
    assert found.format == "zarr3"
    assert found.attrs.asdict() == {"a": [1]}
    assert np.array_equal(found[...], values)
    check_listings(view)
    check_ranges(view)


def check_listings(view: Zarr3View) -> None:
    """What is listed exists and nothing else, level by level as all at once."""
    keys = sorted(view.list())
    assert len(set(keys)) == len(keys)
    assert all(view.exists(key) and view.size(key) == len(view.get(key)) for key in keys)
    below, waiting = [], [""]
    while waiting:
        found, prefixes = view.list_dir(waiting.pop())
        below += found
        waiting += prefixes
    assert sorted(below) == keys


def check_ranges(view: Zarr3View) -> None:
    for key in view.list():
        whole = view.get(key)
        assert view.get(key, (2, 5)) == whole[2:7]
        assert view.get(key, (-3, None)) == whole[-3:]


def test_chunks_that_zarr3_can_describe_are_passed_on() -> None:
    for item in ("zarr1", "zarr2"):
        array = tegula.create_array({}, shape=5, chunks=2, dtype=">f4", format=item)
        array[:] = 1
        assert view_of(array).get("c/1") == array.store.get("1")
    array = tegula.create_array({}, shape=5, chunks=2, dtype=">f4", format="bcolz")
    array[:] = 1
    assert view_of(array).get("c/1") == array.store.get("data/__1.blp")[16:]


def test_a_chunk_that_ends_with_the_array_is_filled_up() -> None:
    array = tegula.create_array({}, shape=5, chunks=4, dtype="i2", format="bcolz", fill_value=9)
    array[:] = np.arange(5)
    view = view_of(array)
    chunk = tegula.open({"zarr.json": view.get("zarr.json").replace(b"5\n", b"8\n", 1), "c/1": view.get("c/1")})
    assert chunk[4:].tolist() == [4, 9, 9, 9]


def test_a_table_is_a_group_of_its_columns_with_consolidated_metadata(tmp_path: Path) -> None:
    table = tegula.create_table(tmp_path / "t", {"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}, format="bcolz")
    view = view_of(table)
    group = tegula.open_group(view)
    assert {name: array[:].tolist() for name, array in group.arrays()} == {"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}
    assert sorted(dict(tegula.open_group(view, consolidated=True).arrays())) == ["x", "y"]
    check_listings(view)
    with pytest.raises(tegula.ReadOnlyError):
        view.set("x/c/0", b"")


def test_a_bcolz_array_that_grows_is_seen_when_it_is_opened_again() -> None:
    array = tegula.create_array({}, shape=3, chunks=4, dtype="i2", format="bcolz")
    array[:] = [1, 2, 3]
    view = view_of(array)
    assert tegula.open(view)[:].tolist() == [1, 2, 3]
    array.append([4, 5])
    assert tegula.open(view)[:].tolist() == [1, 2, 3, 4, 5]


def test_nodes_without_a_form_are_left_out_of_listings_and_say_why() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, format="zarr2")
    group["a"] = [1, 2]
    store.set("o/.zarray", store.get("a/.zarray").replace(b'"<i8"', b'"|O"').replace(b"null", b'[{"id": "pickle"}]', 1))
    view = view_of(group)
    assert view.list_dir("") == (["zarr.json"], ["a/"])
    with pytest.raises(tegula.TegulaError):
        view.get("o/zarr.json")


@given(data=st.data(), item=st.sampled_from(WRITABLE))
@settings(max_examples=30, deadline=None)
def test_what_is_written_through_a_view_has_its_format(data: st.DataObject, item: str) -> None:
    """Attributes, shape and chunks, written through the view, are read from both."""
    dtype = data.draw(st.sampled_from(["<i4", ">i2", "f8"]))
    array = tegula.create_array({}, shape=(6, 5), chunks=(2, 3), dtype=dtype, format=item)
    view = view_of(array)
    written = tegula.open(view, "r+")
    values = np.random.default_rng(1).integers(0, 3, (6, 5))
    written[...] = values
    written.attrs["units"] = "K"
    rows = data.draw(st.integers(4, 9))
    written.resize((rows, 5))
    expected = np.zeros((rows, 5), int)
    expected[: min(rows, 6)] = values[: min(rows, 6)]
    again = tegula.open(array.store, format=item)
    assert again.attrs.asdict() == {"units": "K"}
    assert np.array_equal(again[...], expected)
    assert np.array_equal(tegula.open(view)[...], expected)
    assert not any(key.endswith("zarr.json") for key in array.store.list())


@pytest.mark.parametrize("item", WRITABLE)
def test_members_created_in_a_view_have_its_format(item: str) -> None:
    group = tegula.create_group({}, format=item)
    view = view_of(group)
    made = tegula.open_group(view, "r+")
    made.create_array("t", shape=4, chunks=2, dtype="f4", dimension_names=["x"])[:] = 3
    made.create_group("g").attrs["a"] = 1
    found = tegula.open(group.store)
    assert found["t"].format == item
    assert found["t"][:].tolist() == [3, 3, 3, 3]
    assert found["t"].dimension_names == ("x",)
    assert found["g"].attrs["a"] == 1
    # other views show it as its format is shown; this one and its copies go on as the array was created
    for other in (view, pickle.loads(pickle.dumps(view)), view_of(group)):
        again = tegula.open_array(other, path="t", mode="r+")
        again.resize(5)
        again[4:] = 7
        assert tegula.open(other.store)["t"][:].tolist() == again[:].tolist() == [3, 3, 3, 3, 7]
        again.resize(4)
    del made["t"]
    assert "t" not in tegula.open(group.store)
    made.create_array("t", shape=4, chunks=3, dtype="f4")[:] = 2
    assert tegula.open(group.store)["t"][:].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("item", WRITABLE)
def test_an_array_that_is_deleted_takes_its_chunks_along(tmp_path: Path, item: str) -> None:
    """No chunk stays that would be data of the next array there."""
    for target in ({}, tmp_path / "g"):
        group = tegula.create_group(target, format=item)
        alone = sorted(group.store.list())
        array = group.create_array("t", shape=(4, 2), chunks=(2, 1), dtype="i4")
        for delete in (lambda view: view.delete("t/zarr.json"), lambda view: view.delete_prefix("t/")):
            array[...] = 7
            view = view_of(group)
            view.delete_prefix("t/c/1/")
            assert array[...].tolist() == [[7, 7], [7, 7], [0, 0], [0, 0]]
            delete(view)
            assert sorted(group.store.list()) == alone
            array = tegula.open_group(view, "r+").create_array("t", shape=(4, 2), chunks=(2, 1), dtype="i4")
            assert not array[...].any()
            array = tegula.open_array(group.store, path="t", mode="r+")


@pytest.mark.parametrize("item", WRITABLE)
def test_a_root_that_is_deleted_is_created_again_in_its_format(item: str) -> None:
    implicit = tegula.MemoryStore()
    tegula.create_array(implicit, path="g/old", shape=2, dtype="i4", format=item)
    whole = tegula.create_group({}, format=item, attributes={"a": 1})
    whole["old"] = np.array([1, 2], "i4")
    if item == "zarr2":
        whole.consolidate()
    for target, path in ((implicit, "g"), (whole, "")):
        view = view_of(target, path)
        view.delete_prefix("")
        assert [*view.store.list_prefix(f"{path}/" if path else "")] == []
        for other in (pickle.loads(pickle.dumps(view)), view):
            made = tegula.create_group(other)
            made.create_array("new", shape=2, dtype="i4")[:] = 5
            found = tegula.open(other.store, path=path)
            assert found.format == found["new"].format == item
            assert [*tegula.open(other)] == ["new"]
            assert found["new"][:].tolist() == [5, 5]
            other.delete_prefix("")


def test_an_array_that_the_format_lacks_is_not_created() -> None:
    for item, options in (("n5", {"fill_value": 1}), ("n5", {"dtype": "?"}), ("zarr2", {"shards": 4})):
        group = tegula.create_group({}, format=item)
        made = tegula.open_group(view_of(group), "r+")
        with pytest.raises(tegula.UnsupportedError):
            made.create_array("t", **{"shape": 4, "chunks": 2, "dtype": "i4", **options})
        assert [*tegula.open(group.store)] == []


def test_blocks_of_n5_are_shown_without_their_header() -> None:
    array = tegula.create_array({}, data=np.arange(35).reshape(5, 7), chunks=(2, 3), format="n5")
    view = view_of(array)
    assert view.get("c/1/0") == array.store.get("0/1")[12:]
    lz4 = tegula.create_array({}, data=np.arange(35).reshape(5, 7), chunks=(2, 3), codecs="lz4", format="n5")
    smaller = b"\0\0\0\2\0\0\0\2\0\0\0\1" + gzip.compress(np.array([8, 9], ">i8").tobytes())
    array.store.set("0/1", smaller)
    expected = np.arange(35).reshape(5, 7)
    assert tegula.open(view_of(lz4))[...].tolist() == expected.tolist()
    expected[2:4, :3] = [[8, 9, 0], [0, 0, 0]]
    assert tegula.open(view)[...].tolist() == expected.tolist()
    array.store.set("0/1", smaller[:-1])
    with pytest.raises(tegula.CodecError):
        view.get("c/1/0")


def test_attributes_that_are_shown_otherwise_are_written_back_as_they_were() -> None:
    stated = {"axes": ["x", "y"], "units": ["nm", "s"], "resolution": [4, 0.5], "title": "a"}
    array = tegula.create_array({}, shape=(3, 4), dtype="u1", format="n5", attributes=stated)
    shown_array = tegula.open(view_of(array), "r+")
    assert shown_array.attrs.asdict() == {"dimension_units": ["0.5 s", "4 nm"], "title": "a"}
    shown_array.attrs["title"] = "b"
    assert tegula.open(array.store).attrs.asdict() == {**stated, "title": "b"}
    shown_array.attrs["dimension_units"] = ["0.5 s", "8 nm"]
    assert tegula.open(array.store).attrs["resolution"] == [8, 0.5]


def test_other_changes_of_a_document_are_refused() -> None:
    array = tegula.create_array({}, shape=4, chunks=2, dtype="f4", format="zarr2")
    view = view_of(array)
    document = view.get("zarr.json")
    with pytest.raises(tegula.UnsupportedError, match="only shape, attributes and dimension names"):
        view.set("zarr.json", document.replace(b"float32", b"float64"))
    with pytest.raises(tegula.UnsupportedError, match="nothing else"):
        view.set("notes.txt", b"x")
    with pytest.raises(tegula.ConflictError):
        view.set("zarr.json", document, if_generation=b"another")
    assert view.set("zarr.json", document) == document


def test_the_mask_of_zarr2_is_shown_as_an_attribute_and_not_written_back() -> None:
    array = tegula.create_array({}, shape=2, dtype="i2", fill_value=-9, format="zarr2", dimension_names=["x"])
    view = view_of(array)
    shown_array = tegula.open(view, "r+")
    assert shown_array.attrs.asdict() == {"_FillValue": -9}
    shown_array.attrs["units"] = "K"
    assert tegula.open(array.store).attrs.asdict() == {"_ARRAY_DIMENSIONS": ["x"], "units": "K"}
