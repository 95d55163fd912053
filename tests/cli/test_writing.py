"""The output formats of ``tegula cat``, read back by NumPy, csv and json."""

from __future__ import annotations

import csv
import io
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli import progress
from tegula.cli.program import app
from tegula.extracts import windows


def cat(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["cat", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "?"])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (2, 3, 4), (2, 1, 3, 2)])
def test_text_is_read_by_loadtxt(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(np.prod(shape)).reshape(shape) / 4 - 3).astype(dtype)
    if dtype[0] == "f":
        values.flat[1], values.flat[2] = np.nan, -np.inf
    tegula.save(tmp_path / "x", values)
    text = cat(tmp_path / "x", "--format", "text").stdout
    result = np.loadtxt(io.StringIO(text), "u1" if dtype == "?" else dtype, ndmin=min(2, len(shape)))
    np.testing.assert_array_equal(result.reshape(shape), values)
    planes = int(np.prod(shape[:-2]))
    assert text.count("\n\n") == planes - 1


def test_text_of_other_elements(tmp_path: Path) -> None:
    records = np.array([(1, "a b", 1 + 2j), (2, "c", 0)], [("n", "i4"), ("name", "U3"), ("z", "c16")])
    tegula.save(tmp_path / "r", records, format="zarr2")
    assert cat(tmp_path / "r", "--format", "text").stdout.splitlines()[:2][0] == "# n name z"
    assert cat(f"{tmp_path / 'r'}[name]", "--format", "text").stdout == '"a b"\nc\n'
    assert cat(f"{tmp_path / 'r'}[z]", "--format", "text").stdout == "(1+2j)\n0j\n"
    times = np.array(["2020-01-01", "NaT"], "M8[D]")
    tegula.save(tmp_path / "t", times)
    assert cat(tmp_path / "t", "--format", "text").stdout == "2020-01-01\nNaT\n"
    tegula.save(tmp_path / "e", np.zeros((0, 3, 2)))
    assert cat(tmp_path / "e", "--format", "text").stdout == ""


def test_large_windows_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(2 * 6 * 5 * 4).reshape(2, 6, 5, 4)
    tegula.save(tmp_path / "x", values)
    full = {form: cat(tmp_path / "x", "--format", form).stdout_bytes for form in ("text", "json", "npy")}
    for limit in (8 * 25, 8 * 10, 8):
        monkeypatch.setattr(windows, "_BLOCK_BYTES", limit)
        for form, content in full.items():
            result = cat(tmp_path / "x", "--format", form).stdout_bytes
            if form == "json":  # where a line ends depends on how much is read at once
                assert json.loads(result) == json.loads(content)
            else:
                assert result == content


def test_json_quiet_and_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"scale_factor": 0.01, "add_offset": 0.02158}
    tegula.create_array(tmp_path / "x", data=np.array([28502, 3], "i2"), attributes=about)
    shown = cat(tmp_path / "x", "--json")
    assert json.loads(shown.stdout) == [285.04158, 0.05158]  # not 285.04157999999995
    assert "note: unpacked" in shown.stderr
    assert cat(tmp_path / "x", "-q").stderr == ""
    # the suffix comes before all else
    assert "no format has the suffix" in cat(tmp_path / "nothing", "-o", tmp_path / "x.foo", code=2).stderr
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(progress, "_shown", lambda quiet: nullcontext(Line(seen)))
    cat(tmp_path / "x", "-o", tmp_path / "x.npy")
    assert seen == [("total", 4, 0), ("", 4)]
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.array([28502, 3], "i2") * 0.01 + 0.02158)


class Line:
    """A progress line that notes what it is told."""

    def __init__(self, seen: list[tuple[Any, ...]]) -> None:
        self.seen = seen

    def total(self, number: int, before: int) -> None:
        self.seen.append(("total", number, before))

    def show(self, path: str, done: int) -> None:
        self.seen.append((path, done))


@pytest.mark.parametrize("suffix", ["npy", "csv", "json", "txt", "raw", "CSV"])
def test_a_suffix_chooses_the_format(tmp_path: Path, suffix: str) -> None:
    values = np.array([[1.5, np.nan], [3, 4]])
    tegula.save(tmp_path / "x", values)
    file = tmp_path / f"out.{suffix}"
    assert cat(tmp_path / "x", "--output", file).output == ""
    result: Any
    if suffix == "npy":
        result = np.load(file)
    elif suffix == "raw":
        result = np.fromfile(file).reshape(2, 2)
    elif suffix == "json":
        result = np.array([[float(each) for each in row] for row in json.loads(file.read_text())])
    elif suffix == "txt":
        result = np.loadtxt(file)
    else:
        result = np.array([[float(each) for each in row] for row in csv.reader(io.StringIO(file.read_text()))])
    np.testing.assert_array_equal(result, values)
    cat(tmp_path / "x", "-o", file, "--format", "json")
    assert json.loads(file.read_text())[0] == [1.5, "NaN"]


def test_json_and_csv_of_a_table(tmp_path: Path) -> None:
    columns = {"day": np.array(["2020-01-01", "NaT"], "M8[D]"), "x": [1.5, np.nan], "raw": np.array([b"a\xff", b"b"])}
    tegula.create_table(tmp_path / "t", columns)
    rows = json.loads(cat(tmp_path / "t", "--format", "json").stdout)
    assert rows[0] == {"day": "2020-01-01", "x": 1.5, "raw": "base64:Yf8="}
    assert rows[1] == {"day": "NaT", "x": "NaN", "raw": "b"}
    assert cat(tmp_path / "t", "--format", "json").stdout.count("\n") == 2  # a line for each row
    assert cat(tmp_path / "t").stdout.splitlines() == ["day,x,raw", "2020-01-01,1.5,base64:Yf8=", "NaT,NaN,b"]


@pytest.mark.parametrize("form", ["csv", "text"])
def test_a_terminal_is_not_controlled_by_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """On a terminal each cell is escaped, and a row stays a line; elsewhere values are exact."""
    field, value = "f\x1b[31m\x9bm\u202e", "é\x1b[31m\x07\nb"
    group = tegula.create_group(tmp_path / "x")
    group.create_array("s", shape=2, dtype=str)[:] = [value, "b"]
    group.create_array("r", shape=1, dtype=[(field, "U9")])[:] = np.array([(value,)], [(field, "U9")])
    exact = cat(f"{tmp_path / 'x'}::r", "--format", form).stdout
    assert field in exact
    assert value in exact
    monkeypatch.setattr("tegula.cli.commands.cat.on_terminal", lambda file: file is None or str(file) == "-")
    escaped = r"é\x1b[31m\x07\nb"
    assert cat(f"{tmp_path / 'x'}::s", "--format", form).stdout == f"{escaped}\nb\n"
    shown = cat(f"{tmp_path / 'x'}::r", "--format", form, "-o", "-").stdout
    assert shown.removeprefix("# ") == "f" + r"\x1b[31m\x9bm\u202e" + f"\n{escaped}\n"
    cat(f"{tmp_path / 'x'}::r", "--format", form, "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text("utf-8") == exact


def test_standard_output_by_name_and_errors(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x", [1, 2])
    assert cat(tmp_path / "x", "-o", "-").stdout == "1\n2\n"
    tegula.create_group(tmp_path / "g").create_array("o", shape=2, dtype=str)[:] = ["a", "b"]
    assert "csv or json" in cat(f"{tmp_path / 'g'}::o", "-o", tmp_path / "o.npy", code=1).stderr
    assert not (tmp_path / "o.npy").exists()


def test_damage_in_the_middle_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_BLOCK_BYTES", 80)
    tegula.create_array(tmp_path / "x", shape=100, chunks=10, dtype="i8", codecs="zstd")[:] = np.arange(100)
    (tmp_path / "x/c/9").write_bytes(b"damaged")
    (tmp_path / "out.csv").write_text("precious")
    assert "c/9" in cat(tmp_path / "x", "-o", tmp_path / "out.csv", code=1).stderr
    assert (tmp_path / "out.csv").read_text() == "precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.csv", "x"]
