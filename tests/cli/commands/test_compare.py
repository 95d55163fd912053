"""``tegula compare``."""

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
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    tegula.save(tmp_path / "a", x=np.arange(6.0), y=[0.0], format="zarr2")
    tegula.convert(tmp_path / "a", tmp_path / "b.zip", format="zarr3")
    return tmp_path / "a", tmp_path / "b.zip"


def test_equal_nodes_are_reported_as_equal(pair: tuple[Path, Path]) -> None:
    assert run(*pair).stdout == "1 group, 2 arrays, 7 elements: equal\n"
    assert run(*pair, "--quiet").output == ""
    output = json.loads(run(*pair, "--json").stdout)
    assert (output["equal"], output["arrays"], output["differences"]) == (True, 2, [])
    assert run(f"{pair[0]}::x", f"{pair[1]}::x", "--exact").exit_code == 0


def test_each_difference_is_printed_on_a_line(pair: tuple[Path, Path]) -> None:
    with tegula.open(pair[1], "r+") as group:
        group["x"][4] = 9
        group["y"][0] = -0.0
        group.attrs["title"] = "b"
    lines = run(*pair, code=1).stdout.splitlines()
    assert lines == [
        "/: attributes: title (nothing and 'b')",
        "/x: 1 of 6 values differ, the first at [4]: 4.0 and 9.0",
        "1 group, 2 arrays, 7 elements: 2 differences",
    ]
    assert "/y: 1 of 1 values differ" in run(*pair, "--exact", code=1).stdout
    assert json.loads(run(*pair, "--json", code=1).stdout)["differences"][1]["index"] == [4]


def test_failed_comparisons_end_with_2(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = run(pair[0], tmp_path / "nothing", code=2)
    assert result.stderr.startswith("tegula: error: there is no array or group")
    (pair[0] / "x/0").write_bytes(b"damaged")
    result = run(*pair, code=2)
    assert "tegula: error: /x: " in result.stderr
    assert result.stdout.splitlines() == ["1 group, 2 arrays, 1 element: 1 node not readable"]
    run("--nope", code=2)
