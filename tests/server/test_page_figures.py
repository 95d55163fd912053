"""What the page gives away of what it shows: figures, csv with coordinates, and programs in Python."""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.server.browser import Screen, chromium
from tests.server.test_page import fill_group, temperatures

import tegula

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]


def fill(root: tegula.Group) -> None:
    """Add to one array of each kind: another one of the same grid, marks that only the fill value has, and channels."""
    fill_group(root)
    climate = root["climate"]
    climate["time"].attrs["calendar"] = "standard"  # xarray needs another library for other ones
    climate.create_array(
        "mean", shape=(6, 7, 9), dtype="f8", chunks=(3, 7, 4), dimension_names=["time", "lat", "lon"],
        attributes={"units": "K"},
    )[...] = np.arange(6 * 7 * 9).reshape(6, 7, 9) % 11 + 200  # fmt: skip
    marked = np.arange(30, dtype="i4").reshape(5, 6)
    root.create_array("marked", shape=(5, 6), dtype="i4", fill_value=7)[...] = marked
    waves = np.arange(30).reshape(5, 6) * np.exp(1j * np.arange(30).reshape(5, 6))
    root.create_array("waves", shape=(5, 6), dtype="c16", chunks=(2, 4))[...] = waves
    image = root.create_group("channels")
    values = np.arange(3 * 4 * 16 * 20, dtype="u2").reshape(3, 4, 16, 20) * 7919 % 1000
    image.create_array("0", shape=values.shape, dtype="u2", chunks=(2, 3, 8, 8))[...] = values
    axes = [{"name": "c", "type": "channel"}, *({"name": at, "type": "space", "unit": "micrometer"} for at in "zyx")]
    scale = [{"type": "scale", "scale": [1.0, 2.0, 0.5, 0.5]}]
    image.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}],
        "omero": {"channels": [{"color": "FF0000"}, {"color": "00FF00", "active": False}, {"color": "0000FF"}]},
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> tegula.Group:
    group = tegula.create_group(tmp_path_factory.mktemp("figures") / "what is shown.zarr")
    fill(group)
    return group


@pytest.fixture(scope="module")
def screen(root: tegula.Group) -> Iterator[Screen]:
    with tegula.serve(root, port=0) as running, chromium() as browser:
        screen = Screen(browser, running.url)
        yield screen
        screen.close()


def download(screen: Screen, name: str, to: Path) -> Path:
    with screen.page.expect_download() as waiting:
        screen.page.locator(".files").get_by_text(name, exact=True).click()
    waiting.value.save_as(to / f"x.{name}")
    return to / f"x.{name}"


def programs(screen: Screen) -> dict[str, str]:
    """Return the program for each library."""
    screen.page.get_by_role("button", name="Code in Python").click()
    found = {}
    for library in ("tegula", "xarray", "zarr"):
        screen.page.get_by_role("tab", name=library, exact=True).click()
        found[library] = screen.page.locator(".program code").text_content()
    screen.page.keyboard.press("Escape")
    screen.page.wait_for_selector(".program", state="detached")
    return found


def expected(root: tegula.Group, name: str) -> Any:
    channels, waves = root["channels/0"], root["waves"][...]
    t2m = np.stack([temperatures(root, at)[::-1] for at in range(6)])
    return {
        "#/climate/t2m?at=3,0,0": t2m[3],
        "#/climate/t2m?axes=2,1&at=3,0,0": t2m[3].T,
        "#/climate/t2m?tab=line&along=0&at=0,1,2": t2m[:, 1, 2],
        "#/climate/t2m?at=3,0,0&other=climate/mean&difference=1": t2m[3] - root["climate/mean"][3],
        "#/sharded?at=4,0,0&view=30,25,64,64": root["sharded"][4, 25:35, 30:40],
        "#/marked?fill=missing": np.where(root["marked"][...] == 7, np.nan, root["marked"][...]),
        "#/waves": np.abs(waves),
        "#/waves?part=phase": np.angle(waves),
        "#/waves?part=real": waves.real,
        "#/waves?part=imaginary&axes=1,0": waves.imag.T,
        "#/waves?tab=line&along=1&at=3,0&part=imaginary": waves.imag[3],
        "#/channels?at=0,2,0,0": channels[[0, 2], 2],
        "#/channels?composite=0&at=1,0,0,0&through=1": channels[1].max(0),
        "#/channels?channels=1,2&through=1&at=0,0,0,0": channels[1:].max(1),
    }[name]


CASES = [
    "#/climate/t2m?at=3,0,0",
    "#/climate/t2m?axes=2,1&at=3,0,0",
    "#/climate/t2m?tab=line&along=0&at=0,1,2",
    "#/climate/t2m?at=3,0,0&other=climate/mean&difference=1",
    "#/sharded?at=4,0,0&view=30,25,64,64",
    "#/marked?fill=missing",
    "#/waves",
    "#/waves?part=phase",
    "#/waves?part=real",
    "#/waves?part=imaginary&axes=1,0",
    "#/waves?tab=line&along=1&at=3,0&part=imaginary",
    "#/channels?at=0,2,0,0",
    "#/channels?composite=0&at=1,0,0,0&through=1",
    "#/channels?channels=1,2&through=1&at=0,0,0,0",
]


@pytest.mark.parametrize("fragment", CASES)
def test_programs_read_what_is_shown(fragment: str, screen: Screen, root: tegula.Group) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    screen.show(fragment)
    screen.ready(".line-tab .plot" if "tab=line" in fragment else "canvas.pixels")
    if "difference" in fragment:
        screen.ready("canvas.difference")
    wanted = expected(root, fragment)
    if "view=" in fragment:
        pixels = screen.pixels()
        wanted = root["sharded"][4, 25:, 30:][: -(-pixels.shape[0] // 64), : -(-pixels.shape[1] // 64)]
    for library, text in programs(screen).items():
        assert f"import {library}" in text
        names: dict[str, Any] = {}
        exec(text, names)
        assert names["values"].shape == wanted.shape
        np.testing.assert_array_equal(np.asarray(names["values"], "f8"), np.asarray(wanted, "f8"), err_msg=text)


def test_programs_for_formats_that_zarr_does_not_know(screen: Screen, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    table = tegula.create_table(tmp_path / "t.bcolz", {"x": np.arange(50.0)})
    with tegula.serve(table, port=0) as running:
        other = Screen(screen.context.browser, running.url)
        other.show("#/x?tab=line")
        other.ready(".line-tab .plot")
        for text in programs(other).values():
            names: dict[str, Any] = {}
            exec(text, names)
            assert np.array_equal(names["values"], np.arange(50.0))
        other.close()


def test_csv_has_decoded_values_and_coordinates(screen: Screen, root: tegula.Group, tmp_path: Path) -> None:
    screen.show("#/climate/t2m?at=3,0,0")
    screen.page.wait_for_selector("text=lat (°N)")
    screen.ready()
    head, *rows = csv.reader(download(screen, "csv", tmp_path).read_text(encoding="utf-8").splitlines())
    assert head[0] == "lat (degrees_north)\\lon (degrees_east)"
    assert [float(cell) for cell in head[1:]] == [*np.arange(0.0, 90, 10)]
    assert [float(row[0]) for row in rows] == [*np.linspace(-60, 60, 7)]
    values = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows])
    np.testing.assert_array_equal(values, temperatures(root, 3)[::-1])
    screen.show("#/climate/t2m?tab=line&along=1&at=3,0,0")
    screen.ready(".line-tab .plot")
    head, *rows = csv.reader(download(screen, "csv", tmp_path).read_text(encoding="utf-8").splitlines())
    assert head == ["lat (degrees_north)", "t2m"]
    assert [(float(at), float(value)) for at, value in rows] == [
        *zip(np.linspace(-60, 60, 7), temperatures(root, 3)[::-1, 0])
    ]


def test_csv_of_channels_and_projections_says_where_the_elements_lie(
    screen: Screen, root: tegula.Group, tmp_path: Path
) -> None:
    values = root["channels/0"][...]
    y, x = np.arange(16) * 0.5, np.arange(20) * 0.5
    plane = "y (micrometer)\\x (micrometer)"
    for fragment, heads, planes in (
        ("#/channels?at=0,2,0,0", ["c"], {f"channel {at}": values[at, 2] for at in range(3)}),
        ("#/channels?composite=0&at=1,3,0,0", [], {None: values[1, 3]}),
        ("#/channels?composite=0&at=1,0,0,0&through=1", [], {None: values[1].max(0)}),
        ("#/channels?channels=1,2&through=1&at=0,0,0,0", ["c"],
         {"channel 1": values[1].max(0), "channel 2": values[2].max(0)}),
        ("#/channels?composite=0&axes=1,3&at=1,0,5,0", None, {None: values[1, :, 5]}),
    ):  # fmt: skip
        screen.show(fragment)
        screen.ready()
        head, *rows = csv.reader(download(screen, "csv", tmp_path).read_text(encoding="utf-8").splitlines())
        kept = 1 if heads is None else len(heads) + 1
        assert head[:kept] == (["z (micrometer)\\x (micrometer)"] if heads is None else [*heads, plane])
        assert [float(cell) for cell in head[kept:]] == [*x]
        down = np.arange(4) * 2.0 if heads is None else y
        assert [float(row[kept - 1]) for row in rows] == [*down] * len(planes)
        assert [*dict.fromkeys(row[0] for row in rows)] == [*planes] or heads != ["c"]
        found = np.array([[int(cell) for cell in row[kept:]] for row in rows]).reshape(len(planes), len(down), len(x))
        np.testing.assert_array_equal(found, [*planes.values()])
        np.testing.assert_array_equal(np.squeeze(np.load(download(screen, "npy", tmp_path))), np.squeeze(found))
        # statistics are those of what is shown, too
        screen.page.get_by_role("button", name="Statistics of what is shown").click()
        screen.page.wait_for_selector(".side .statistics dl")
        count, *_ = screen.page.locator(".side .statistics dd").all_text_contents()
        assert int(count.replace("\u202f", "")) == found.size


def test_figures_say_what_they_show(screen: Screen, root: tegula.Group, tmp_path: Path) -> None:
    screen.show("#/climate/t2m?at=3,0,0&map=grey")
    screen.page.wait_for_selector("text=lat (°N)")
    said = screen.ready()
    drawing = ElementTree.parse(download(screen, "svg", tmp_path)).getroot()
    spell = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in drawing.iter(f"{spell}text")]
    assert texts[:2] == ["air temperature", "time = 2020-03-01"]
    assert {"lon (°E)", "lat (°N)", "K", "−20", "20", "80"} <= set(texts)
    marks = [float(text) for text in texts if text and text.isdecimal() and int(text) >= 100]
    assert marks
    assert all(float(said["low"]) <= mark <= float(said["high"]) for mark in marks)
    # the picture has no bands around the array
    [image] = drawing.iter(f"{spell}image")
    assert float(image.get("width")) / float(image.get("height")) == pytest.approx(9 / 7, rel=0.01)
    href = image.get("href") or image.get("{http://www.w3.org/1999/xlink}href")
    assert href.startswith("data:image/png;base64,")
    raw = download(screen, "png", tmp_path).read_bytes()
    assert struct.unpack(">II", raw[16:24]) == (2 * int(drawing.get("width")), 2 * int(drawing.get("height")))
    screen.show("#/climate/t2m?tab=line&along=0&at=0,1,2")
    screen.ready(".line-tab .plot")
    screen.page.wait_for_selector(".line-tab >> text=2020-03-01")
    drawing = ElementTree.parse(download(screen, "svg", tmp_path)).getroot()
    texts = [text.text for text in drawing.iter(f"{spell}text")]
    assert texts[:2] == ["air temperature", "lat = −40 °N, lon = 20 °E"]
    assert {"time", "t2m (K)", "2020-03-01"} <= set(texts)


def test_a_figure_of_channels_has_their_names(screen: Screen, tmp_path: Path) -> None:
    screen.show("#/channels?at=0,2,0,0")
    screen.ready()
    drawing = ElementTree.parse(download(screen, "svg", tmp_path)).getroot()
    texts = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"channel 0", "channel 2", "z = 4 µm", "x (µm)"} <= set(texts)
    assert "channel 1" not in texts
    assert any(text and text.endswith(" µm") and text[0] in "125" for text in texts)  # the scale bar
