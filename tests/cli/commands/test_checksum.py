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
def source(tmp_path: Path) -> Path:
    group = tegula.create_group(tmp_path / "x.zarr")
    group["a/x"] = np.arange(9)
    group["y"] = ["a", "b"]
    return tmp_path / "x.zarr"


def test_both_sides_of_a_conversion_print_the_same(source: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["convert", str(source), str(tmp_path / "y"), "--format", "zarr2", "--chunks", "2"])
    assert done.exit_code == 0
    mine, other = run(source, "--quiet").stdout, run(tmp_path / "y", "-q").stdout
    assert mine == other == f"{tegula.checksum(source)}\n"
    first, second, last = run(source).stdout.splitlines()
    assert (first.split()[1], second.split()[1], last.split()) == ("/a/x", "/y", [mine.strip(), str(source)])
    assert run(f"{source}::y").stdout.split() == [second.split()[0], f"{source}::y"]
    assert json.loads(run(source, "--json").stdout) == tegula.checksum(source).as_dict()


def test_attributes_count_in_a_checksum_on_request(source: Path) -> None:
    plain, full = run(source, "-q").stdout, run(source, "-q", "--attributes").stdout
    tegula.open(source, "r+").attrs["n"] = 1
    assert run(source, "-q").stdout == plain
    assert run(source, "-q", "--attributes").stdout != full


def test_a_damaged_array_has_no_checksum_and_is_reported(source: Path) -> None:
    (source / "a/x/c/0").write_bytes(b"damaged")
    result = run(source, code=1)
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["/y"]
    assert "tegula: error: /a/x: " in result.stderr
    assert run(source, "--quiet", code=1).stdout == ""
