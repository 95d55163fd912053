"""Consolidated metadata, and names that formats reserve, in conversions."""

from pathlib import Path
from typing import Any

import pytest

import tegula
from tegula import MemoryStore
from tegula.errors import MetadataError, NotFoundError, UnsupportedError

FORMATS = ["zarr2", "zarr3"]


def source(format: str, *consolidated: str) -> MemoryStore:
    store = MemoryStore()
    root = tegula.create_group(store, format=format, attributes={"title": "x"})
    root.create_array("a/b/x", shape=3, dtype="u1")[:] = 7
    for path in sorted(consolidated, reverse=True):
        (root[path] if path else root).consolidate()
    return store


def consolidated(store: Any, path: str = "") -> list[str]:
    try:
        return [name for name, _ in tegula.open_group(store, path=path, consolidated=True).walk()]
    except NotFoundError:
        return []


@pytest.mark.parametrize("old", FORMATS)
@pytest.mark.parametrize("new", FORMATS)
def test_consolidated_metadata_are_written_where_the_source_has_them(old: str, new: str) -> None:
    for groups in ([], [""], ["", "a"], ["a"]):
        target = MemoryStore()
        report = tegula.convert(source(old, *groups), target, format=new)
        assert (report.ok, report.notes) == (True, {})
        assert consolidated(target) == (["a", "a/b", "a/b/x"] if "" in groups else [])
        assert consolidated(target, "a") == (["b", "b/x"] if "a" in groups else [])
        assert tegula.check(target).findings == []


@pytest.mark.parametrize("format", FORMATS)
def test_consolidated_metadata_can_be_asked_for_and_left_out(format: str) -> None:
    target = MemoryStore()
    tegula.convert(source(format), target, format=format, consolidated=True)
    assert consolidated(target) == ["a", "a/b", "a/b/x"]
    report = tegula.convert(target, without := MemoryStore(), format=format, consolidated=False)
    assert consolidated(without) == []
    assert report.notes == {"": ["the consolidated metadata are left out"]}


def test_formats_without_consolidated_metadata_are_noted_or_refused() -> None:
    report = tegula.convert(source("zarr2", ""), MemoryStore(), format="zarr1")
    assert report.notes == {"": ["the consolidated metadata are left out, since zarr1 has none"]}
    with pytest.raises(UnsupportedError, match="zarr1 has no consolidated metadata"):
        tegula.convert(source("zarr2"), target := MemoryStore(), format="zarr1", consolidated=True)
    with pytest.raises(MetadataError, match="the source is an array"):
        tegula.convert(tegula.open(source("zarr2"), path="a/b/x"), target, consolidated=True)
    with pytest.raises(MetadataError, match="consolidated must be"):
        tegula.convert(source("zarr2"), target, consolidated="yes")
    assert [*target.list()] == []


def test_a_dry_run_writes_none(tmp_path: Path) -> None:
    report = tegula.convert(source("zarr2", ""), tmp_path / "x", dry_run=True)
    assert (report.ok, [*tmp_path.iterdir()]) == (True, [])


def test_double_underscore_names_are_kept_and_noted_in_zarr3() -> None:
    store = MemoryStore()
    root = tegula.create_group(store, format="zarr2")
    root.create_array("__categories/cell", shape=2, dtype="u1")[:] = [1, 2]
    assert [name for name, _ in root.walk()] == ["__categories", "__categories/cell"]
    report = tegula.convert(store, new := MemoryStore(), verify=True)
    assert report.notes == {
        "__categories": ["the name '__categories' is kept, though zarr3 reserves names that begin with '__'"]
    }
    assert report.ok
    assert tegula.open(new)["__categories/cell"][:].tolist() == [1, 2]
    tegula.open(new, "r+")["__categories"].create_array("other", shape=2, dtype="u1")
    report = tegula.convert(new, old := MemoryStore(), format="zarr2")
    assert (report.ok, report.notes) == (True, {})
    assert {*tegula.open(old)["__categories"]} == {"cell", "other"}
    root.create_array("__x", shape=2, dtype="u1")
    assert "__x" in tegula.convert(store, MemoryStore()).arrays[-1].notes[0]


def test_new_nodes_of_zarr3_do_not_get_reserved_names() -> None:
    store = MemoryStore()
    root = tegula.create_group(store)
    for path in ("__a", "a/__b"):
        with pytest.raises(MetadataError, match="zarr3 reserves names that begin with '__'"):
            root.create_array(path, shape=2, dtype="u1")
        with pytest.raises(MetadataError, match="reserves"):
            root.create_group(path)
        with pytest.raises(MetadataError, match="reserves"):
            tegula.convert(source("zarr2"), store, path=path)
        with pytest.raises(MetadataError, match="reserves"):
            tegula.create_array(store, path=f"{path}/x", shape=2, dtype="u1")
        with pytest.raises(MetadataError, match="reserves"):
            tegula.create_table(store, {"x": [1]}, path=path, format="zarr3")
    assert [*root] == []


@pytest.mark.parametrize("name", [".zarray", ".zattrs", "zarr.json"])
def test_names_of_documents_are_refused(name: str) -> None:
    with pytest.raises(MetadataError, match="can't be the name of a node"):
        tegula.create_array(MemoryStore(), path=name, shape=2, dtype="u1", format="zarr2")
