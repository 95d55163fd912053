"""A view of a node of any format reads as if it had been written in Zarr v3."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.zarr3_view import Zarr3View, shown

FORMATS = ["zarr1", "zarr2", "bcolz"]


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
    dtype = data.draw(st.sampled_from(["u1", "<i4", ">i2", ">f8", "bool", "S3", "U2", "M8[ns]"]))
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


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_written_through_a_view_of_zarr2_is_zarr2(data: st.DataObject) -> None:
    """Attributes, shape and chunks, written through the view, are read from both."""
    dtype = data.draw(st.sampled_from(["<i4", ">i2", "f8"]))
    array = tegula.create_array({}, shape=(6, 5), chunks=(2, 3), dtype=dtype, format="zarr2")
    view = view_of(array)
    written = tegula.open(view, "r+")
    values = np.random.default_rng(1).integers(0, 3, (6, 5))
    written[...] = values
    written.attrs["units"] = "K"
    rows = data.draw(st.integers(4, 9))
    written.resize((rows, 5))
    expected = np.zeros((rows, 5), int)
    expected[: min(rows, 6)] = values[: min(rows, 6)]
    again = tegula.open(array.store, format="zarr2")
    assert again.attrs.asdict() == {"units": "K"}
    assert np.array_equal(again[...], expected)
    assert np.array_equal(tegula.open(view)[...], expected)
    assert not any(key.endswith("zarr.json") for key in array.store.list())


def test_members_created_in_a_view_have_its_format() -> None:
    group = tegula.create_group({}, format="zarr2")
    made = tegula.open_group(view_of(group), "r+")
    made.create_array("t", shape=4, chunks=2, dtype="f4", dimension_names=["x"])[:] = 3
    made.create_group("g").attrs["a"] = 1
    found = tegula.open(group.store)
    assert found["t"].format == "zarr2"
    assert found["t"][:].tolist() == [3, 3, 3, 3]
    assert found["t"].dimension_names == ("x",)
    assert found["g"].attrs["a"] == 1
    del made["t"]
    assert "t" not in tegula.open(group.store)


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
