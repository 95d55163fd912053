"""``tegula references``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app

pytestmark = pytest.mark.once(executors="both")


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["references", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("form", ["kerchunk", "parquet"])
def test_references_are_written_and_opened(form: str, tmp_path: Path) -> None:
    columns = {"z": np.arange(25), "a": np.arange(25) / 4}
    tegula.create_table(tmp_path / "t.bcolz", columns, format="bcolz", chunks=10)
    target = tmp_path / "r"
    result = run(tmp_path / "t.bcolz", target, "--form", form)
    assert result.stdout == "2 arrays, 4 chunks referenced, 2 stored among the references\n"
    assert "pass --overwrite" in run(tmp_path / "t.bcolz", target, "--form", form, code=1).stderr
    output = json.loads(
        run(tmp_path / "t.bcolz::z", target, "--form", form, "--path", "new", "--overwrite", "--json").stdout
    )
    assert output == {"arrays": 1, "referenced": 2, "inlined": 1, "skipped": {}}
    for url in (str(target), f"reference::{target}"):
        printed = CliRunner().invoke(app, ["cat", f"{url}::new[-2:]", "--format", "json"])
        assert json.loads(printed.stdout) == [23, 24]


def test_arrays_that_are_left_out(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    group.create_array("a", shape=4, chunks=2, dtype="i4")[...] = 1
    group.create_array("s", shape=4, chunks=2, shards=4, dtype="i4")[...] = 1
    options = [tmp_path / "g", tmp_path / "r.json", "--zarr-format", 2]
    assert "s" in run(*options, code=1).stderr
    result = run(*options, "--unsupported", "skip", code=1)
    assert result.stdout == "1 array, 2 chunks referenced, 1 array left out\n"
    assert "note: s: left out" in result.stderr
    run(*options, "--unsupported", "inline", "--overwrite", "--quiet")
    assert tegula.open(tmp_path / "r.json")["s"][...].tolist() == [1] * 4
    assert (
        "zarr_format must be one of 2"
        in run(tmp_path / "g", tmp_path / "p", "--form", "parquet", "--zarr-format", 3, code=1).stderr
    )
