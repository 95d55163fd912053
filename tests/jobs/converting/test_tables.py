"""Tables: ctables to groups that keep the order of the columns, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bcolz
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import AlreadyExistsError, SelectionError, StoreError
from tegula.stores import MemoryStore

COLUMNS = {
    "z": np.arange(250, dtype="i4"),
    "a": np.linspace(0, 1, 250),
    "m": np.arange(250).astype("S5"),
    "_é": np.arange(500, dtype="u2").reshape(250, 2),
}


def table(columns: Any = COLUMNS, format: str = "bcolz", **options: Any) -> tegula.Table:
    attributes = {"title": "prices", "n": [1, None]}
    made = tegula.create_table(MemoryStore(), columns, format=format, attributes=attributes, **options)
    if "a" in columns:
        made["a"].attrs["unit"] = "K"
    return made


def check(found: tegula.Table, expected: tegula.Table) -> None:
    assert found.names == expected.names
    assert found.attrs.asdict() == expected.attrs.asdict()
    for name in expected.names:
        np.testing.assert_array_equal(found[name][...], expected[name][...])
        assert found[name].attrs.asdict() == expected[name].attrs.asdict()


@pytest.mark.parametrize("new", ["zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("path", ["", "x/y"])
def test_the_order_is_kept(new: str, path: str) -> None:
    source, target = table(chunks=100), MemoryStore()
    report = tegula.convert(source, target, format=new, path=path, verify=True)
    assert report.ok
    assert report.groups == [""]
    assert [line.path for line in report.arrays] == [*source.names]
    assert {line.chunks_copied for line in report.arrays} == {2}
    assert not any(line.notes for line in report.arrays)
    if new != "bcolz":
        group = tegula.open_group(target, path=path)
        assert group.attrs["column-order"] == [*source.names]
    found = tegula.open_table(target, path=path)
    assert found.format == new
    check(found, source)
    back = MemoryStore()
    assert tegula.convert(tegula.open(target, path=path), back, format="bcolz", verify=True).ok
    result = tegula.open(back)
    assert isinstance(result, tegula.Table)
    check(result, source)
    assert "column-order" not in result.metadata.attributes


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(st.sampled_from("zamxyé_"), unique=True, min_size=1),
    st.integers(0, 30),
    st.integers(1, 12),
    st.sampled_from(["zarr2", "zarr3"]),
)
def test_any_table_there_and_back(names: list[str], rows: int, chunks: int, new: str) -> None:
    columns = {name: np.arange(number, number + rows) for number, name in enumerate(names)}
    source, target, back = table(columns, chunks=chunks), MemoryStore(), MemoryStore()
    assert tegula.convert(source, target, format=new, verify=True).ok
    assert tegula.convert(target, back, format="bcolz", verify=True).ok
    check(tegula.open_table(back), source)


def test_bcolz_reads_it(tmp_path: Path) -> None:
    source = table()
    tegula.convert(source, tmp_path / "zarr", format="zarr3")
    tegula.convert(tmp_path / "zarr", tmp_path / "ctable", format="bcolz")
    theirs = bcolz.open(str(tmp_path / "ctable"), mode="r")
    assert theirs.names == [*source.names]
    for name in source.names:
        np.testing.assert_array_equal(theirs[name][:], source[name][...])
    assert theirs.attrs["title"] == "prices"


def test_a_format_that_can_not_store_the_order() -> None:
    target = MemoryStore()
    report = tegula.convert(table(), target, format="zarr1", verify=True)
    assert [*report.failed] == [""]
    assert "attributes" in report.failed[""]
    assert [bool(line.notes) for line in report.arrays] == [True, False, False, False]
    assert "order" in report.arrays[0].notes[0]
    np.testing.assert_array_equal(tegula.open_array(target, path="a")[...], COLUMNS["a"])


@pytest.mark.parametrize("new", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_columns_that_differ_in_length_are_cut(new: str) -> None:
    source, target = table(), MemoryStore()
    tegula.open_array(source.store, path="a", mode="r+").append([5.0])
    report = tegula.convert(source.store, target, format=new, verify=True)
    assert report.ok or new == "zarr1"
    assert ["shortest" in " ".join(line.notes) for line in report.arrays] == [False, True, False, False]
    assert {line.shape[0] for line in report.arrays} == {250}


@pytest.mark.parametrize("new", ["zarr2", "bcolz"])
def test_columns_that_can_not_be_converted_are_left_out(new: str) -> None:
    source, target = table(), MemoryStore()
    source.store.set("a/meta/storage", b"{")
    source.store.delete("m/data/__0.blp")
    report = tegula.convert(source.store, target, format=new)
    assert sorted(report.failed) == ["a", "m"]
    assert tegula.open_table(target).names == ("z", "_é")


def test_an_error_of_the_target_ends_the_conversion() -> None:
    class Full(MemoryStore):
        def set(self, key: str, *args: Any, **options: Any) -> Any:
            if key == "a/0":
                raise StoreError("no space left")
            return super().set(key, *args, **options)

    with pytest.raises(StoreError, match="space"):
        tegula.convert(table(), Full(), format="zarr2")


def test_objects_need_allow_pickle() -> None:
    columns = {"i": np.arange(3), "o": np.array([None, [1], "x"], object)}
    source, target = table(columns, allow_pickle=True, codecs={"id": "blosc", "shuffle": 0}), MemoryStore()
    report = tegula.convert(source.store, target, format="zarr2")
    assert [*report.failed] == ["o"]
    assert "allow_pickle" in report.failed["o"]
    assert tegula.open_table(target).names == ("i",)
    assert tegula.convert(source.store, MemoryStore(), format="zarr2", allow_pickle=True, verify=True).ok
    assert "object" in tegula.convert(source.store, MemoryStore(), format="zarr3", allow_pickle=True).failed["o"]


def test_tables_among_other_nodes() -> None:
    source = tegula.create_group(MemoryStore(), format="zarr2")
    source.create_array("x", shape=3, dtype="i4")[...] = 5
    source.create_group("deep/er")
    tegula.create_table(source.store, COLUMNS, path="deep/t", format="zarr2")
    source["deep/t"].create_array("odd", shape=2, dtype="i4")
    target, back = MemoryStore(), MemoryStore()
    report = tegula.convert(source, target, format="bcolz", verify=True)
    assert report.failed == {"deep/t/odd": "a table can't have members other than its columns"}
    assert sorted(report.groups) == ["", "deep", "deep/er", "deep/t"]
    assert tegula.open_array(target, path="x")[...].tolist() == [5, 5, 5]
    assert isinstance(tegula.open(target, path="deep/t"), tegula.Table)
    assert tegula.convert(target, back, format="zarr3", verify=True).ok
    check(tegula.open_table(back, path="deep/t"), tegula.open_table(target, path="deep/t"))
    # to another Zarr it stays the group that it is
    other = MemoryStore()
    assert tegula.convert(source, other, format="zarr3").ok
    assert tegula.open_group(other)["deep/t"].attrs["column-order"] == [*COLUMNS]
    assert "odd" in tegula.open_group(other)["deep/t"]


@pytest.mark.parametrize("order", [["a"], ["a", "nothing"], ["a", "a"], [], "a", 5, ["a", "short"], ["a", "group"]])
def test_groups_that_only_look_like_tables(order: Any) -> None:
    source = tegula.create_group(MemoryStore(), format="zarr3", attributes={"column-order": order})
    source.create_array("a", shape=3, dtype="i4")[...] = 1
    source.create_array("short", shape=2, dtype="i4")[...] = 1
    source.create_group("group")
    target = MemoryStore()
    report = tegula.convert(source, target, format="bcolz")
    assert tegula.open_array(target, path="a")[...].tolist() == [1, 1, 1]
    if order == ["a"]:
        assert sorted(report.failed) == ["group", "short"]
        assert tegula.open_table(target).names == ("a",)
    else:
        assert [*report.failed] == [""]
        assert tegula.open_array(target, path="short")[...].tolist() == [1, 1]


def test_a_dry_run_with_an_existing_target() -> None:
    source, target = table(), MemoryStore()
    for new in ("bcolz", "zarr2"):
        assert len(tegula.convert(source, target, format=new, dry_run=True).arrays) == 4
        assert [*target.list()] == []
    for new in ("bcolz", "zarr2", "bcolz"):
        tegula.convert(source, target, format=new, overwrite=True)
        before = {key: target.get(key) for key in target.list()}
        check(tegula.open_table(target), source)
        with pytest.raises(AlreadyExistsError):
            tegula.convert(table({"q": [1]}), target, format=new)
        assert {key: target.get(key) for key in target.list()} == before
    with pytest.raises(SelectionError):
        tegula.convert(source, MemoryStore(), select=0)
