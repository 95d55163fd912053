"""The option ``--missing-chunks`` of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tegula
from tegula import config
from tegula.cli.program import app


@pytest.mark.parametrize("command", ["head", "stats", "checksum", "check"])
def test_chunks_that_are_not_stored_are_an_error_on_request(command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    tegula.create_array(path, shape=4, chunks=2, dtype="i4")[:2] = 1
    plain = CliRunner().invoke(app, [command, str(path)])
    assert plain.exit_code == 0, plain.output
    strict = CliRunner().invoke(app, ["--missing-chunks", "error", command, str(path)])
    assert strict.exit_code == 1
    assert "not stored" in strict.output
    assert config.current().missing_chunks == "fill"


def test_another_value_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["--missing-chunks", "ignore", "ls", str(tmp_path)]).exit_code == 1
