"""Reports, trees and pictures of all kinds of nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.display.reader import read

import tegula
from tegula.display.info import Info
from tegula.display.layout import cells_of, columns, number_text
from tegula.errors import StoreError
from tegula.runtime.quantities import human_bytes
from tegula.stores import MemoryStore


def text_of(html: str) -> str:
    return " ".join(read(html).text)


def test_the_report_of_an_array() -> None:
    array = tegula.create_array(
        MemoryStore(), path="a/b", shape=(100, 60), chunks=(10, 20), shards=(50, 60), dtype="f4", fill_value=np.nan,
        dimension_names=["y", None], attributes={"units": "K"},
    )  # fmt: skip
    array[:50] = 1
    info = array.info
    assert isinstance(info, Info)
    assert info["Type"] == "array"
    assert info["Format"] == "zarr3"
    assert info["Path"] == "a/b"
    assert info["Shape"] == (100, 60)
    assert info["Chunks"] == (10, 20)
    assert info["Shards"] == (50, 60)
    assert info["Dimensions"] == ("y", None)
    assert info["Data type"] == "float32"
    assert np.isnan(info["Fill value"])
    assert info["Attributes"] == 1
    assert info["Shards stored"] == "1 of 2"
    assert info["Size in memory"] == "23.4 KiB"
    assert f"{array.nbytes_stored() / 1024:.1f} KiB" in info["Size stored"] or "B" in info["Size stored"]
    assert "zstd" in info["Codecs"]
    lines = str(info).splitlines()
    assert len([line for line in lines if not line.startswith(" ")]) == len(info)
    html = text_of(info._repr_html_())
    for name, value in info.items():
        assert name in html
        assert number_text(value) in html
    assert "zarr3" in repr(array)
    assert "(100, 60)" in repr(array)
    assert "a/b" in repr(array)


def test_the_report_of_a_group() -> None:
    root = tegula.create_group(MemoryStore(), attributes={"a": 1})
    for name in ("x", "y"):
        root.create_array(name, shape=2, dtype="i1")
    root.create_group("g/h")
    info = root.info
    assert (info["Type"], info["Arrays"], info["Groups"], info["Attributes"]) == ("group", 2, 1, 1)
    text = text_of(root._repr_html_())
    for name in ("x", "y", "g", "h", "zarr3"):
        assert name in text
    assert "zarr3" in repr(root)


def test_stored_sizes_are_shown_where_they_are_quick_to_count() -> None:
    root = tegula.create_group(MemoryStore())
    for name, count in (("few", 1000), ("many", 1001)):
        root.create_array(name, shape=count, chunks=1, dtype="i1")[:2] = 1
    root.create_array("sharded", shape=1001, chunks=1, shards=1001, dtype="i1")
    sizes = {row[0]: row[-1] for row in root.info["Arrays"].rows}
    assert sizes["few"] == human_bytes(root["few"].nbytes_stored())
    assert (sizes["many"], sizes["sharded"]) == ("", "0 B")


def test_the_report_of_a_group_leaves_sizes_out_where_listing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    root = tegula.create_group(MemoryStore())
    root.create_array("x", shape=3, dtype="i1")

    def refuse(*_: object) -> None:
        raise StoreError("403")

    monkeypatch.setattr(MemoryStore, "list_prefix", refuse)
    assert root.info["Arrays"].rows[0][-1] == ""


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_data_set_is_listed_as_netcdf_shows_it(format: str) -> None:
    root = tegula.create_group(MemoryStore(), attributes={"title": "Era", "levels": [1, 2]}, format=format)
    hours = {"units": "hours since 2024-01-01"}
    root.create_array("time", data=np.arange(744), dimension_names=["time"], attributes=hours, fill_value=-1)
    root.create_array("area", data=np.ones(3), dimension_names=["lat"])
    kelvin = {"units": "K", "long_name": "2 metre temperature", "coordinates": "area"}
    root.create_array(
        "t", shape=(744, 3), chunks=(24, 3), dtype="f4", dimension_names=["time", "lat"], attributes=kelvin
    )
    info = root.info
    assert (info["Dimensions"], info["Coordinates"], info["Variables"]) == ("lat 3, time 744", 2, 1)
    lines = [" ".join(line.split()) for line in str(info).splitlines()]
    size = human_bytes(root["time"].nbytes_stored())
    assert f"time (time) int64 hours since 2024-01-01 2024-01-01 … 2024-01-31T23:00 one chunk {size}" in lines
    assert "t (time, lat) float32 K 2 metre temperature chunks 24×3 0 B" in lines
    assert {*lines[-2:]} == {"title Era", "levels [1, 2]"}
    html = text_of(info._repr_html_())
    # all that xarray's HTML has, but attributes of variables: what stands in the shell, and more values
    shown = " ".join(word for line in lines for word in line.split() if word not in ("chunks", "×"))
    assert {*shown.split()} <= {*html.split()}
    assert "2024-01-01, 2024-01-01T01:00, 2024-01-01T02:00" in html
    assert "2024-01-31T22:00, 2024-01-31T23:00; 744 values" in html
    assert "└── time (time: 744) int64 hours since 2024-01-01" in str(root.tree())


def test_a_coordinate_that_can_not_be_read_is_listed_without_values() -> None:
    store = MemoryStore()
    root = tegula.create_group(store)
    root.create_array("x", data=np.arange(3), dimension_names=["x"])
    store.set("x/c/0", b"damaged")
    assert root.info["Coordinates"].rows[0][:5] == ("x", "(x)", "int64", "", "")


def test_of_many_members_the_first_are_listed() -> None:
    root = tegula.create_group(MemoryStore(), attributes={f"a{number}": number for number in range(150)})
    assert root.info["Attributes"] == 150
    assert str(root.info).splitlines()[-1].strip() == "… and 50 more"


def test_text_for_a_terminal_is_wrapped_at_words_and_coloured() -> None:
    title = "monthly means of two variables over the northern hemisphere, prepared for teaching"
    root = tegula.create_group(MemoryStore(), attributes={"title": title})
    names = {"dimension_names": ["time", "lat"], "attributes": {"long_name": "temperature at a height of 2 metres"}}
    root.create_array("t", shape=(8760, 721), chunks=(24, 721), dtype="f4", **names)
    for width in (50, 60, 80):
        lines = root.info.as_text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert {*title.split()} <= {*" ".join(lines).split()}  # no word is cut
        tree = root.tree().as_text(width)
        assert max(map(len, tree.splitlines())) <= width
        plain = re.sub("\x1b\\[[0-9;]*m", "", root.info.as_text(width, colours=True))
        assert plain == root.info.as_text(width)
        assert re.sub("\x1b\\[[0-9;]*m", "", root.tree().as_text(width, colours=True)) == tree
    assert root.info.as_text(10_000) == str(root.info)
    assert root.info["Dimensions"] == "time 8,760, lat 721"


def test_a_plain_directory_lists_its_data_sets(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a.zarr", data=np.arange(3, dtype="i2"), dimension_names=["x"])
    tegula.create_group(tmp_path / "b.zarr", format="zarr2")["y"] = np.arange(4, dtype="i2")
    tegula.create_table(tmp_path / "c.bcolz", {"z": np.arange(5)}, format="bcolz")
    info = tegula.open(tmp_path).info
    assert info["Type"] == "plain directory, not itself a group"
    assert [row[:4] for row in info["Data sets"].rows] == [
        ("a.zarr", "array", "zarr3", "(x: 3) int16"),
        ("b.zarr", "group", "zarr2", ""),
        ("c.bcolz", "table", "bcolz", "5 rows"),
    ]
    assert str(tegula.open(tmp_path).tree()).splitlines()[0] == "/ (a plain directory)"


def test_nothing_of_the_data_becomes_markup() -> None:
    evil = "<script>&\"'"
    root = tegula.create_group(MemoryStore())
    array = root.create_array(evil, shape=(2, 2), dtype=str, fill_value=evil, dimension_names=[evil, evil])
    for html in (root._repr_html_(), array._repr_html_(), array.info._repr_html_(), root.tree()._repr_html_()):
        assert "<script" not in html
        text_of(html)
    assert evil in text_of(root.tree()._repr_html_())


def test_a_tree() -> None:
    root = tegula.create_group(MemoryStore())
    root.create_array("b", shape=(2, 3), dtype="f8")
    root.create_array("a/x", shape=(), dtype="i1")
    root.create_array("a/é/y", shape=4, dtype=str)
    assert str(root.tree()) == "\n".join(
        [
            "/",
            "├── a",
            "│   ├── x () int8",
            "│   └── é",
            "│       └── y (4,) string",
            "└── b (2, 3) float64",
        ]
    )
    assert str(root.tree(1)).splitlines() == ["/", "├── a", "└── b (2, 3) float64"]
    assert str(root["a"].tree()).splitlines()[0] == "/a"
    assert repr(root.tree()) == str(root.tree())
    assert str(tegula.create_group(MemoryStore()).tree()) == "/"


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (10**9,), (10**9, 2), (5, 4, 3, 2), (2**62, 2**62)])
def test_every_array_has_html(shape: tuple[int, ...]) -> None:
    array = tegula.create_array(MemoryStore(), shape=shape, dtype="u1", chunks=tuple(min(2**10, n or 1) for n in shape))
    text = text_of(array._repr_html_())
    assert str(shape) in text
    assert str(array.info)
    assert str(shape) in repr(array)


def test_letters_of_two_cells_keep_columns_straight() -> None:
    rows = [["気温", "12", "°C"], ["sea", "3", "m"], ["🌊", "1", "e\u0301"]]
    assert columns(rows, right=[1]).splitlines() == ["気温  12  °C", "sea    3  m", "🌊     1  e\u0301"]
    lines = columns([["気温", "海面から二メートルの高さの気温 of the air"]], width=20).splitlines()
    assert max(map(cells_of, lines)) <= 20
    assert "".join(line[4:].strip() for line in lines).replace(" ", "")[:4] == "海面から"
    group = tegula.create_group({})
    group.create_array("海面の高さと気温と降水量", shape=3, dtype="u1", attributes={"units": "長い単位の名前"})
    assert max(map(cells_of, group.tree().as_text(30).splitlines())) <= 32
    assert [line.index("x") for line in Info({"気温": "x", "a": "x"}).as_text().splitlines()] == [4, 6]
