"""``tegula checksum``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["checksum", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def place(tmp_path: Path) -> Path:
    group = tegula.create_group(tmp_path / "x.zarr")
    group["a/x"] = np.arange(9)
    group["y"] = ["a", "b"]
    return tmp_path / "x.zarr"


def test_both_sides_of_a_conversion_print_the_same(place: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["convert", str(place), str(tmp_path / "y"), "--format", "zarr2", "--chunks", "2"])
    assert done.exit_code == 0
    one, other = run(place, "--quiet").stdout, run(tmp_path / "y", "-q").stdout
    assert one == other == f"{tegula.checksum(place)}\n"
    first, second, last = run(place).stdout.splitlines()
    assert (first.split()[1], second.split()[1], last.split()) == ("/a/x", "/y", [one.strip(), str(place)])
    assert run(f"{place}::y").stdout.split() == [second.split()[0], f"{place}::y"]
    assert json.loads(run(place, "--json").stdout) == tegula.checksum(place).as_dict()


def test_attributes(place: Path) -> None:
    plain, full = run(place, "-q").stdout, run(place, "-q", "--attributes").stdout
    tegula.open(place, "r+").attrs["n"] = 1
    assert run(place, "-q").stdout == plain
    assert run(place, "-q", "--attributes").stdout != full


def test_damage(place: Path) -> None:
    (place / "a/x/c/0").write_bytes(b"damaged")
    result = run(place, code=1)
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["/y"]
    assert "tegula: error: /a/x: " in result.stderr
    assert run(place, "--quiet", code=1).stdout == ""
