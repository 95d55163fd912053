"""``tegula plot``: what is drawn, read back from matplotlib, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.commands import plot as plotting
from tegula.cli.program import app
from tegula.runtime import optional

pytest.importorskip("matplotlib")
import matplotlib
from matplotlib import pyplot
from matplotlib.dates import ConciseDateFormatter

pytestmark = pytest.mark.once(executors="both")

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture
def group(tmp_path: Path) -> Any:
    group = tegula.create_group(tmp_path / "g.zarr")
    values = np.arange(60, dtype="f4").reshape(3, 4, 5)
    values[0, 1, 2], values[0, 0, 0] = np.nan, -9
    about = {"units": "K", "long_name": "temperature", "_FillValue": -9.0}
    group.create_array("t", data=values, dimension_names=("time", "lat", "lon"), attributes=about)
    group.create_array("lat", data=np.array([50.0, 40, 30, 20]), attributes={"units": "degrees_north"})
    group.create_array("lon", data=np.array([1, 2, 3, 5, 8]))
    return group


def run(target: Any, file: Path, *options: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["plot", str(target), "-o", str(file), *options])
    assert result.exit_code == code, result.output
    return result


def test_two_axes_are_drawn_as_an_image(group: Any, tmp_path: Path) -> None:
    run(f"{tmp_path}/g.zarr::t[0]", tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    figure = pyplot.gcf()
    axes = figure.axes[0]
    image = axes.collections[0]
    drawn = np.ma.asarray(image.get_array()).reshape(4, 5)
    expected = group["t"][0]
    assert [*zip(*np.nonzero(np.ma.getmaskarray(drawn)))] == [(0, 0), (1, 2)]  # what is missing is left blank
    assert np.array_equal(drawn.compressed(), expected[(expected != -9) & ~np.isnan(expected)])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lon", "lat (degrees_north)")
    assert figure.axes[1].get_ylabel() == "temperature (K)"
    low, high = axes.get_ylim()
    assert (low < 20, high > 50) == (True, True)


def test_the_title_has_the_coordinates_of_the_selection(group: Any, tmp_path: Path) -> None:
    hours = {"units": "hours since 2000-01-01"}
    group.create_array("time", data=np.array([0, 6, 24]), attributes=hours)
    run(f"{tmp_path}/g.zarr::t[1]", tmp_path / "t.png")
    first, second = pyplot.gcf().axes[0].get_title().splitlines()
    assert (first.endswith("g.zarr::t[1]"), second) == (True, "time = 2000-01-01T06:00")
    said = json.loads(run(f"{tmp_path}/g.zarr::t[:, 1, 0]", tmp_path / "t.png", "--json").stdout)
    assert said["title"].splitlines()[1] == "lat = 40 degrees_north, lon = 1"
    assert (said["shape"], said["note"], said["file"]) == ([3], None, str(tmp_path / "t.png"))
    axes = pyplot.gcf().axes[0]
    assert [*axes.lines[0].get_xdata()] == [*np.array(["2000-01-01T00", "2000-01-01T06", "2000-01-02T00"], "M8[ns]")]
    assert isinstance(axes.xaxis.get_major_formatter(), ConciseDateFormatter)


@pytest.mark.parametrize(
    ("units", "length", "aspect"),
    [
        (("degrees_north", "degree_E"), 9, 1.0),
        (("m", "m"), 9, 1.0),
        (("m", "m"), 900, "auto"),  # it would be a narrow strip
        (("m", "K"), 9, "auto"),
        (("", ""), 9, "auto"),
    ],
)
def test_a_map_keeps_its_proportions(tmp_path: Path, units: tuple[str, str], length: float, aspect: Any) -> None:
    group = tegula.create_group(tmp_path / "m.zarr")
    group.create_array("t", data=np.ones((3, 4)), dimension_names=("y", "x"))
    group.create_array("y", data=np.linspace(0, 3, 3), attributes={"units": units[0]})
    group.create_array("x", data=np.linspace(0, length, 4), attributes={"units": units[1]})
    run(f"{tmp_path}/m.zarr::t", tmp_path / "t.png")
    assert pyplot.gcf().axes[0].get_aspect() == aspect


def test_one_axis_is_drawn_as_a_line(group: Any, tmp_path: Path) -> None:
    run(f"{tmp_path}/g.zarr::t[1, ::-2, 3]", tmp_path / "t.svg")
    line = pyplot.gcf().axes[0].lines[0]
    assert [*line.get_xdata()] == [20, 40]
    assert [*line.get_ydata()] == [*group["t"][1, ::-2, 3]]


@pytest.mark.slow
def test_numeric_columns_of_a_table_are_drawn_as_lines(tmp_path: Path) -> None:
    tegula.create_table(
        tmp_path / "t.bcolz", {"a": [1, 2, 3], "s": ["x", "y", "z"], "b": [0.5, 1.5, 2.5]}, format="bcolz"
    )
    run(f"{tmp_path}/t.bcolz[1:]", tmp_path / "t.pdf")
    lines = pyplot.gcf().axes[0].lines
    assert [(line.get_label(), [*line.get_xdata()], [*line.get_ydata()]) for line in lines] == [
        ("a", [1, 2], [2, 3]),
        ("b", [1, 2], [1.5, 2.5]),
    ]


def test_large_images_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "_MOST_PIXELS", 10)
    tegula.save(tmp_path / "x.zarr", np.arange(900).reshape(30, 30))
    result = run(tmp_path / "x.zarr", tmp_path / "x.png")
    assert "1 of 3 × 1 of 3" in result.stderr
    assert np.asarray(pyplot.gcf().axes[0].collections[0].get_array()).size == 100
    monkeypatch.setattr(plotting, "_MOST_BYTES", 10)
    assert "select less" in run(tmp_path / "x.zarr", tmp_path / "x.png", code=1).stderr


def test_what_can_not_be_drawn(group: Any, tmp_path: Path) -> None:
    group["text"] = np.array(["a", "b"])
    for target, message in (
        ("t", "3 axes"),
        ("t[0, 0, 0]", "`tegula cat` prints it"),
        ("text", "can't be drawn"),
        ("", "group"),
    ):
        assert message in run(f"{tmp_path}/g.zarr::{target}", tmp_path / "x.png", code=1).stderr
    target = f"{tmp_path}/g.zarr::t[0]"
    for options in (["--colors", "nosuch"], ["--size", "x"], ["--size", "0x3"]):
        run(target, tmp_path / "x.png", *options, code=2)
    run(target, tmp_path / "x.exe", code=2)
    run(f"{tmp_path}/g.zarr::t[!]", tmp_path / "x.png", code=2)
    assert not [*tmp_path.glob("*x.*")]


def test_names_and_units_are_drawn_as_they_are(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "a$\\b${\udcff.zarr")
    about = {"units": "m$\\frac$", "long_name": "x\x1b"}
    group.create_array("t", data=np.ones((2, 3)), attributes=about, dimension_names=["$^$", None])
    run(f"{group.store.root}::t", tmp_path / "x.png")
    axes = pyplot.gcf().axes
    assert axes[1].get_ylabel() == "x\\x1b (m$\\frac$)"
    assert axes[0].get_ylabel() == "$^$"
    assert axes[0].get_title().endswith("a$\\b${\\udcff.zarr::t")


def test_what_matplotlib_refuses_is_one_line(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g.zarr")
    group["years"] = np.array(["1000000-01-01", "2000-01-01"], "M8[s]")
    group["days"] = np.array([["2000-01-01", "2000-01-02"]], "M8[D]")
    group["none"] = np.zeros((0, 3))
    for name, message in (("years", "between year"), ("days", "times can't"), ("none", "no elements")):
        assert message in run(f"{tmp_path}/g.zarr::{name}", tmp_path / "x.png", code=1).stderr
    # a coordinate that is missing
    group["time"] = np.array(["NaT", "2000-01-02"], "M8[D]")
    group.create_array("t", data=np.ones((2, 3)), dimension_names=["time", None])
    run(f"{tmp_path}/g.zarr::t", tmp_path / "x.png")
    assert pyplot.gcf().axes[0].get_ylabel() == "time"


def test_a_failure_keeps_the_old_picture(group: Any, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("old")
    run(f"{tmp_path}/g.zarr::t", tmp_path / "x.png", code=1)
    assert (tmp_path / "x.png").read_text() == "old"


def test_a_missing_matplotlib_is_an_error(group: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optional.library.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(f"{tmp_path}/g.zarr::t[0]", tmp_path / "x.png", code=1)
    optional.library.cache_clear()
    assert "python -m pip install 'matplotlib" in result.stderr


def test_an_array_in_a_bucket(s3_server: Any, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    tegula.save(f"{bucket.url}/x.zarr", np.arange(6).reshape(2, 3), storage_options=bucket.storage_options)
    options = [
        word for name, value in bucket.storage_options.items() for word in ("--storage-option", f"{name}={value}")
    ]
    run(f"{bucket.url}/x.zarr", tmp_path / "x.png", *options)
    assert (tmp_path / "x.png").exists()
