"""``tegula head``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["head", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_head_prints_the_first_rows_of_an_array(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x", np.arange(40).reshape(20, 2))
    lines = run(tmp_path / "x").stdout.splitlines()
    assert len(lines) == 11
    assert (lines[0], lines[-1]) == ("[[ 0  1]", "... and 10 more along the first axis")
    assert run(tmp_path / "x", "-n", 1).stdout.splitlines()[0] == "[[0 1]]"
    assert json.loads(run(tmp_path / "x", "-n", 2, "--json").stdout) == [[0, 1], [2, 3]]
    assert run(tmp_path / "x", "-n", 99).stdout.splitlines()[-1] == " [38 39]]"
    tegula.save(tmp_path / "one", np.arange(3))
    assert run(tmp_path / "one", "-n", 2).stdout == "[0 1]\n... and 1 more row\n"
    tegula.save(tmp_path / "none", np.array(7))
    assert run(tmp_path / "none").stdout == "7\n"
    tegula.save(tmp_path / "times", np.array([5, 6]).view("M8"))
    assert run(tmp_path / "times").stdout == "[5 6]\n"
    wide = run(_wide(tmp_path)).stdout
    assert "..." in wide
    assert len(wide.splitlines()) < 20


def _wide(tmp_path: Path) -> Path:
    tegula.create_array(tmp_path / "wide", shape=(10**6, 10**5), chunks=(100, 1000), dtype="u1")
    return tmp_path / "wide"


def test_floats_have_the_digits_that_tell_them_apart(tmp_path: Path) -> None:
    for dtype in ("f4", "f8"):
        values = np.array([285.02158, 1 / 3, 2], dtype)
        tegula.save(tmp_path / dtype, values)
        printed = run(tmp_path / dtype).stdout.strip("[]\n").split()
        assert (np.array(printed, dtype) == values).all()
    assert run(tmp_path / "f4").stdout.startswith("[285.02158 ")


def test_head_prints_the_first_rows_of_a_table(tmp_path: Path) -> None:
    columns = {"day": np.arange(30), "name": [f"n {number}" for number in range(30)], "x": np.arange(30) / 2}
    tegula.create_table(tmp_path / "t", columns)
    lines = run(tmp_path / "t", "-n", 2).stdout.splitlines()
    assert lines == ["day  name    x", "  0  n 0   0.0", "  1  n 1   0.5", "... and 28 more rows"]
    assert json.loads(run(tmp_path / "t", "-n", 1, "--json").stdout) == [{"day": 0, "name": "n 0", "x": 0.0}]


def test_a_suggested_command_can_be_run(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    group["a\x1b[31m"] = [1]
    message = run(tmp_path / "g", code=1).stderr
    assert "name one of its arrays" in message
    assert "as in" not in message
    group["b"] = [1]
    assert f"as in: tegula head {tmp_path / 'g'}::b" in run(tmp_path / "g", code=1).stderr


def test_head_refuses_groups_and_huge_rows(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    assert "none of its members is an array" in run(tmp_path / "g", code=1).stderr
    group.create_array("a b", data=np.arange(3, dtype="i2"), dimension_names=["x"])
    for command in ("head", "cat"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "g")])
        assert (result.exit_code, result.stdout) == (1, "")
        *listed, error = result.stderr.splitlines()
        assert listed == ["/", "└── a b (x: 3) int16"]
        assert f"as in: tegula {command} '{tmp_path / 'g'}::a b'" in error
    tegula.create_array(tmp_path / "huge", shape=(10, 10**12), chunks=(1, 10**6), dtype="u1")
    assert "tegula cat" in run(tmp_path / "huge", code=1).stderr
    run(tmp_path / "g", "-n", -1, code=2)
