"""``tegula tail``, and rows that are followed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def a_table(path: Path, rows: int = 30) -> tegula.Table:
    numbers = np.arange(rows)
    return tegula.create_table(path, {"day": numbers, "name": [f"n {n}" for n in range(rows)], "x": numbers / 2})


def test_tail_prints_the_last_rows_of_an_array(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x", np.arange(40).reshape(20, 2))
    lines = run("tail", tmp_path / "x").stdout.splitlines()
    assert len(lines) == 11
    assert (lines[0], lines[1], lines[-1]) == ("10 earlier along the first axis ...", "[[20 21]", " [38 39]]")
    assert json.loads(run("tail", tmp_path / "x", "-n", 2, "--json").stdout) == [[36, 37], [38, 39]]
    assert len(run("tail", tmp_path / "x", "-n", 99).stdout.splitlines()) == 20
    assert run("tail", tmp_path / "x", "-n", 0).stdout == "20 earlier along the first axis ...\n[]\n"
    tegula.save(tmp_path / "one", np.arange(3))
    assert run("tail", tmp_path / "one", "-n", 2).stdout == "1 earlier row ...\n[1 2]\n"
    tegula.save(tmp_path / "none", np.array(7))
    assert run("tail", tmp_path / "none").stdout == "7\n"


def test_tail_prints_the_last_rows_of_a_table(tmp_path: Path) -> None:
    a_table(tmp_path / "t")
    lines = run("tail", tmp_path / "t", "-n", 2).stdout.splitlines()
    assert lines == ["28 earlier rows ...", "day  name     x", " 28  n 28  14.0", " 29  n 29  14.5"]


def test_head_follows_up_to_a_number_of_rows(tmp_path: Path) -> None:
    a_table(tmp_path / "t", 2)
    assert run("head", tmp_path / "t", "--follow", "-n", 1).stdout.splitlines() == ["day  name    x", "  0  n 0   0.0"]
    tegula.save(tmp_path / "x", np.arange(1, 7).reshape(3, 2))
    assert run("head", tmp_path / "x", "--follow", "-n", 2).stdout == "[1 2]\n[3 4]\n"
    tegula.save(tmp_path / "one", np.array([0.5, 2.5, 0]))
    assert run("head", tmp_path / "one", "--follow", "-n", 2).stdout == "0.5\n2.5\n"
    assert run("head", tmp_path / "one", "--follow", "-n", 3, "--settle", 0, "--json").stdout == "0.5\n2.5\n0.0\n"
    tegula.save(tmp_path / "none", np.array(7))
    assert "no rows to follow" in run("tail", "-f", tmp_path / "none", code=1).stderr


def test_followed_values_are_decoded(tmp_path: Path) -> None:
    attributes = {"scale_factor": 0.01, "units": "K"}
    tegula.create_array(tmp_path / "x", data=np.array([28504, 28510], "i2"), attributes=attributes)
    assert run("head", tmp_path / "x", "--follow", "-n", 2).stdout == "285.04\n285.1\n"
    assert run("head", tmp_path / "x", "--follow", "-n", 1, "--raw").stdout == "28504\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_tail_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    table = a_table(tmp_path / "t", 3)
    command = [sys.executable, "-m", "tegula", "tail", "-f", "-n", "1", "--json", str(tmp_path / "t")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        timer = threading.Timer(120, process.kill)
        timer.start()
        assert json.loads(process.stdout.readline()) == {"day": 2, "name": "n 2", "x": 1.0}
        for day in (7, 8):
            table.append({"day": [day], "name": ["x"], "x": [0]})
            assert json.loads(process.stdout.readline())["day"] == day
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        timer.cancel()
    assert process.returncode == 130
    assert "Traceback" not in errors
