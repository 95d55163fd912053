"""The option ``--missing-chunks`` of the program and of its commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tegula
from tegula import config
from tegula.cli.program import app

JOBS = ["convert", "cp", "compare", "stats", "check", "checksum", "downsample"]


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("command", ["head", *JOBS])
def test_chunks_that_are_not_stored_are_an_error_on_request(command: str, place: str, tmp_path: Path) -> None:
    path = str(tmp_path / "x.zarr")
    tegula.create_array(path, shape=(4, 4), chunks=2, dtype="i4")[:2] = 1

    def run(name: str, *options: str) -> tuple[int, str]:
        second = [path] if command == "compare" else [str(tmp_path / name)] if command in TARGETS else []
        arguments = [command, path, *second]
        result = CliRunner().invoke(app, [*options, *arguments] if place == "before" else [*arguments, *options])
        return result.exit_code, result.output

    code, output = run("plain")
    assert code == 0, output
    if command == "head" and place == "after":  # it is no job
        return
    code, output = run("strict", "--missing-chunks", "error")
    assert code == (2 if command == "compare" else 1), output
    assert "not stored" in output
    assert run("filled", "--missing-chunks", "fill")[0] == 0
    assert config.current().missing_chunks == "fill"


TARGETS = ("convert", "cp", "downsample")


@pytest.mark.parametrize("arguments", [["--missing-chunks", "ignore", "ls"], ["check", "--missing-chunks", "ignore"]])
def test_another_value_is_refused(arguments: list[str], tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x.zarr", shape=4, dtype="i4")
    assert CliRunner().invoke(app, [*arguments, str(tmp_path / "x.zarr")]).exit_code == 1
