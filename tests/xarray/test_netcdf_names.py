"""What the netCDF library adds to Zarr: names of dimensions are used, its other attributes are hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula

xr = pytest.importorskip("xarray")

_SUPERBLOCK = {"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {"time": 4}}}
_OF_ARRAY = {
    "_nczarr_array": {"dimension_references": ["/time"], "storage": "chunked"},
    "_nczarr_attr": {"types": {"units": ">S1"}},
}


def _group(target: Any, format: str) -> Any:
    g = tegula.create_group(target, format=format, attributes={"title": "rain", **_SUPERBLOCK})
    g.create_array("t", data=np.arange(4), attributes={"units": "K", **_OF_ARRAY})
    return g


def _with_member(path: Path, member: dict[str, Any], name: str = "_NCZARR_ARRAY") -> None:
    """Write an array as netCDF did before 4.9.3, with a member in ``.zarray``."""
    g = tegula.create_group(path, format="zarr2")
    g.create_array("t", data=np.arange(4), attributes={"units": "K", "_NCZARR_ATTR": {"types": {}}})
    document = json.loads((path / "t/.zarray").read_bytes())
    (path / "t/.zarray").write_text(json.dumps({**document, name: member}))


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_an_attribute_names_the_dimensions_and_is_hidden(format: str) -> None:
    store = tegula.MemoryStore()
    _group(store, format)
    g = tegula.open(store)
    assert g["t"].dimension_names == ("time",)
    assert (g.attrs.asdict(), g["t"].attrs.asdict()) == ({"title": "rain"}, {"units": "K"})
    assert "_nczarr_array" not in g["t"].attrs
    assert len(g["t"].attrs) == 1
    assert "nczarr" not in f"{g.info}{g['t'].info}{g['t'].attrs!r}"
    ds = xr.open_dataset(store, engine="tegula")
    assert (ds["t"].dims, ds["t"].attrs, ds.attrs) == (("time",), {"units": "K"}, {"title": "rain"})


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_hidden_attributes_stay_when_others_change(format: str) -> None:
    store = tegula.MemoryStore()
    a = _group(store, format)["t"]
    a.attrs["scale"] = 2
    a.attrs.put({"units": "mm"})
    a.attrs.clear()
    stored = tegula.open(store)["t"]
    assert stored.attrs.asdict() == {}
    assert stored.metadata.attributes == _OF_ARRAY
    assert stored.dimension_names == ("time",)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_dimension_names_follow_a_changed_attribute(format: str) -> None:
    store = tegula.MemoryStore()
    a = _group(store, format)["t"]
    a.attrs["_nczarr_array"] = {"dimension_references": ["/era/step"]}
    assert a.dimension_names == tegula.open(store)["t"].dimension_names == ("step",)
    del a.attrs["_nczarr_array"]
    assert a.dimension_names is tegula.open(store)["t"].dimension_names is None


@pytest.mark.parametrize("source", ["zarr2", "zarr3"])
@pytest.mark.parametrize("target", ["zarr2", "zarr3", "n5"])
def test_convert_writes_the_names_as_the_other_format_has_them(source: str, target: str) -> None:
    one, other = tegula.MemoryStore(), tegula.MemoryStore()
    _group(one, source)
    tegula.convert(one, other, format=target)
    a = tegula.open(other)["t"]
    assert a.dimension_names == ("time",)
    assert not any("nczarr" in name for name in [*a.metadata.attributes, *tegula.open(other).metadata.attributes])


@pytest.mark.parametrize("name", ["_NCZARR_ARRAY", "_nczarr_array"])
@pytest.mark.parametrize("member", [{"dimrefs": ["/time"], "storage": "chunked"}, {"dimension_references": ["/time"]}])
def test_a_member_of_the_document_names_the_dimensions(tmp_path: Path, member: dict[str, Any], name: str) -> None:
    _with_member(tmp_path / "x.zarr", member, name)
    a = tegula.open(tmp_path / "x.zarr")["t"]
    assert a.dimension_names == ("time",)
    assert a.attrs.asdict() == {"units": "K"}
    a = tegula.open(tmp_path / "x.zarr", mode="r+")["t"]
    a.append(np.arange(2))
    assert tegula.open(tmp_path / "x.zarr")["t"].dimension_names == ("time",)
    assert json.loads((tmp_path / "x.zarr/t/.zarray").read_bytes())[name] == member


def test_members_of_documents_are_read_as_xarray_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    _with_member(tmp_path / "x.zarr", {"dimrefs": ["/era/time"]})
    expected = xr.open_zarr(tmp_path / "x.zarr", consolidated=False)
    ds = xr.open_dataset(tmp_path / "x.zarr", engine="tegula")
    assert ds["t"].dims == expected["t"].dims == ("time",)
    assert ds["t"].attrs == expected["t"].attrs == {"units": "K"}
    xr.testing.assert_equal(ds, expected)


def _with_documents(target: Any) -> Any:
    """Write a group as netCDF 4.8.0 did, with documents beside those of Zarr."""
    g = tegula.create_group(target, format="zarr2", attributes={"title": "rain"})
    g.create_array("t", data=np.arange(4), attributes={"units": "K"})
    g.create_array("era/s", data=1)
    for key, value in {
        ".nczarr": {"zarr_format": 2, "nczarr_version": "1.0.0"},
        ".nczgroup": {"dims": {"time": 4}, "vars": ["t"], "groups": ["era"]},
        ".nczattr": {"types": {"title": "<S1"}},
        "t/.nczarray": {"dimrefs": ["/time"], "storage": "chunked"},
        "t/.nczattr": {"types": {"units": "<S1"}},
        "era/.nczgroup": {"dims": {}, "vars": ["s"], "groups": []},
        "era/s/.nczarray": {"dimrefs": [], "storage": "scalar"},
    }.items():
        g.store.set(key, json.dumps(value).encode())
    return g.store


@pytest.mark.parametrize("target", [None, "x.zarr", "x.zarr.zip", {}])
def test_documents_beside_those_of_zarr(tmp_path: Path, target: Any) -> None:
    target = tegula.MemoryStore() if target is None else tmp_path / target if isinstance(target, str) else target
    store = _with_documents(target)
    before = {key: store.get(key) for key in store.list() if ".ncz" in key}
    g = tegula.open(store, "r+")
    assert (list(g), list(g["era"])) == (["era", "t"], ["s"])
    nodes = [g["t"], tegula.open(store, path="t"), dict(g.members())["t"], tegula.open(store, path="t", format="zarr2")]
    assert {node.dimension_names for node in nodes} == {("time",)}
    assert g["t"].attrs.asdict() == {"units": "K"}
    assert tegula.check(store).findings == []
    ds = xr.open_dataset(store, engine="tegula")
    assert (ds["t"].dims, ds.attrs) == (("time",), {"title": "rain"})

    # the names stay, and the documents as they are
    g["t"].attrs["units"] = "mm"
    g["t"].append(np.arange(2))
    g.consolidate()
    assert b"nczarray" not in (store.get(".zmetadata") or b"")
    assert tegula.check(store).findings == []
    assert tegula.open(store)["t"].dimension_names == ("time",)
    assert {key: store.get(key) for key in store.list() if ".ncz" in key} == before

    # they are copied, converted, and replaced by an attribute
    copied, other = tegula.MemoryStore(), tegula.MemoryStore()
    tegula.copy(g, copied)
    assert tegula.open(copied)["t"].dimension_names == ("time",)
    tegula.convert(g, other, format="zarr3")
    assert tegula.open(other)["t"].dimension_names == ("time",)
    assert not any(".ncz" in key for key in other.list())
    g["t"].attrs["_ARRAY_DIMENSIONS"] = ["x"]
    assert tegula.open(store)["t"].dimension_names == ("x",)
    store.close()


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"dimrefs": ["/a", "/b"]}', b'{"dimrefs": 3}', b"\xff"])
def test_such_a_document_that_is_damaged_is_ignored(raw: bytes) -> None:
    store = _with_documents(tegula.MemoryStore())
    store.set("t/.nczarray", raw)
    array = tegula.open(store)["t"]
    assert array.dimension_names is None
    assert array[...].tolist() == [0, 1, 2, 3]
    assert tegula.check(store).findings == []


@pytest.mark.parametrize("stated", [None, [], "x", {"dimension_references": ["/a", "/b"]}, {"dimrefs": [1]}, {}])
def test_what_names_no_dimensions_is_ignored(stated: Any) -> None:
    for format in ("zarr2", "zarr3"):
        a = tegula.create_array({}, shape=4, dtype="u1", format=format, attributes={"_nczarr_array": stated})
        assert a.dimension_names is None


def test_other_names_take_precedence() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["x"], **_OF_ARRAY}
    assert tegula.create_array({}, shape=4, dtype="u1", format="zarr2", attributes=attributes).dimension_names == ("x",)
    a = tegula.create_array({}, shape=4, dtype="u1", attributes=_OF_ARRAY, dimension_names=["x"])
    assert a.dimension_names == ("x",)
