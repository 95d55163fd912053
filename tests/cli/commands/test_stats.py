"""``tegula stats``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.commands import stats as stats_command
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["stats", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = tegula.create_group(tmp_path / "x.zarr")
    group["station/temperature"] = np.linspace(-10, 20, 1001)
    group["station/day"] = np.array(["2020-01-01", "NaT"], "M8[D]")
    group["name"] = ["a", "b"]
    return tmp_path / "x.zarr"


def test_statistics_of_an_array_are_printed_as_lines(source: Path) -> None:
    lines = dict(line.split(None, 1) for line in run(f"{source}::station/temperature").stdout.splitlines()[1:])
    assert lines["Count"] == "1,001"
    assert (lines["Min"], lines["Max"], lines["Mean"]) == ("-10", "20", "5")
    assert lines["Histogram"].startswith("-10 ")
    assert lines["Histogram"].endswith(" 20")
    assert "█" in lines["Histogram"]
    lines = dict(line.split(None, 1) for line in run(f"{source}::station/day").stdout.splitlines()[1:])
    assert lines["Missing"] == "1 (50.0% of 2)"
    assert lines["Min"] == "2020-01-01"
    assert "Mean" not in run(f"{source}::name").stdout


def test_statistics_of_a_group_have_a_line_for_each_array(source: Path) -> None:
    titles, *lines = run(source).stdout.splitlines()
    assert titles.split() == ["name", "count", "missing", "min", "max", "mean", "std", "histogram"]
    assert [line.split()[0] for line in lines] == ["name", "station/day", "station/temperature"]
    output = json.loads(run(source, "--json").stdout)
    assert output["parts"]["station/temperature"]["mean"] == pytest.approx(5)
    assert output["parts"]["station/day"]["missing"] == 1
    assert run(source, "--quiet").output == ""


def test_a_table_and_a_group_without_arrays(tmp_path: Path) -> None:
    tegula.create_table(tmp_path / "t", {"day": [1, 2], "price": [2.0, 4.0]})
    assert [line.split()[:2] for line in run(tmp_path / "t").stdout.splitlines()[1:]] == [["day", "2"], ["price", "2"]]
    tegula.create_group(tmp_path / "e")
    assert run(tmp_path / "e").stdout == "there are no arrays in this group\n"


def test_unreadable_arrays_are_reported_and_others_printed(source: Path) -> None:
    chunk = next(each for each in (source / "station/temperature/c").rglob("*") if each.is_file())
    chunk.write_bytes(b"damaged")
    result = run(source, code=1)
    assert "station/day" in result.stdout
    assert result.stderr.startswith("tegula: error: /station/temperature: ")
    assert run(f"{source}::station/temperature", code=1).stdout == ""
    run(source.parent / "nothing", code=1)


def test_the_table_fits_a_terminal(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tegula.statistics(source)
    monkeypatch.setattr(stats_command, "on_terminal", lambda: True)
    for width in (120, 80, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        rows = stats_command._fitted(result)
        assert stats_command._width(rows) <= max(width, 81)  # with names of 10 letters and histograms of 9
    assert rows[3][0] == "…mperature"


def test_times_fit_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tegula.create_group(tmp_path / "g")
    group["time"] = np.datetime64("2024-01-01", "us") + np.arange(168) * np.timedelta64(3600, "s")
    group["temperature_of_the_air"] = np.arange(168.0)
    monkeypatch.setattr(stats_command, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(tmp_path / "g").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    cells = " ".join(lines).split()
    for word in ("2024-01-01", "2024-01-07", "23:00:00", "2024-01-04", "11:30:00", "0:29:48"):
        assert word in cells
