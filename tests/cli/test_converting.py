"""``tegula convert``: what it says of chunks that were copied, and tables of bcolz."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def convert(*arguments: Any) -> Any:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_it_says_how_many_chunks_were_copied(tmp_path: Path) -> None:
    codecs = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    tegula.create_array(tmp_path / "x", shape=9, chunks=3, dtype="i4", codecs=codecs, format="zarr2")[...] = 1
    head, line, end = convert(tmp_path / "x", tmp_path / "y", "--verify").stdout.splitlines()
    assert head.split("  ")[-2].strip() == "copied as is"
    assert line.split()[-2:] == ["3", "yes"]
    assert end == "1 array and 0 groups converted to zarr3"
    line = convert(tmp_path / "x", tmp_path / "z", "--codecs", "zstd").stdout.splitlines()[1]
    assert line.split()[-2:] == ["0", "-"]
    head, line, _ = convert(tmp_path / "x", tmp_path / "n", "--dry-run").stdout.splitlines()
    assert head.split()[-1] == "codecs"
    assert line.split()[-2:] == ["bytes,", "blosc"]
    found = json.loads(convert(tmp_path / "x", tmp_path / "b", "--format", "bcolz", "--json").stdout)
    assert found["arrays"][0]["chunks_copied"] == 3


def test_a_table_there_and_back(tmp_path: Path) -> None:
    columns = {"z": np.arange(25), "a": np.arange(25) / 4}
    tegula.create_table(tmp_path / "t", columns, format="bcolz", chunks=10)
    result = convert(tmp_path / "t", tmp_path / "zarr", "--verify")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == ["/z", "/a"]
    assert result.stdout.splitlines()[-1] == "2 arrays and 1 group converted to zarr3"
    convert(tmp_path / "zarr", tmp_path / "back", "--format", "bcolz", "--verify")
    found = tegula.open_table(tmp_path / "back")
    assert found.names == ("z", "a")
    assert found[:].tolist() == tegula.open_table(tmp_path / "t")[:].tolist()
