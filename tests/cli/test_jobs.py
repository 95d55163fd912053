"""``tegula jobs``: what it says where there are no jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def test_a_place_without_jobs_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", [1, 2, 3])
    found = CliRunner().invoke(app, ["jobs", "list", str(tmp_path / "x.zarr")])
    assert (found.exit_code, found.stdout) == (0, "no job is under way or was interrupted there\n")
    gone = CliRunner().invoke(app, ["jobs", "list", str(tmp_path / "y.zarr")])
    assert gone.exit_code != 0
    with pytest.raises(tegula.NotFoundError, match=r"y\.zarr"):
        tegula.jobs.list_jobs(tmp_path / "y.zarr")
