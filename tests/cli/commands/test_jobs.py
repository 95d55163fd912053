"""``tegula jobs``: what it says where there are no jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app
from tegula.jobs.managing import done_before


def test_a_path_without_jobs_differs_from_a_missing_path(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", [1, 2, 3])
    result = CliRunner().invoke(app, ["jobs", "list", str(tmp_path / "x.zarr")])
    assert (result.exit_code, result.stdout) == (0, "no job is under way or was interrupted there\n")
    gone = CliRunner().invoke(app, ["jobs", "list", str(tmp_path / "y.zarr")])
    assert gone.exit_code != 0
    with pytest.raises(tegula.NotFoundError, match=r"y\.zarr"):
        tegula.jobs.list_jobs(tmp_path / "y.zarr")
    inner = CliRunner().invoke(app, ["jobs", "list", f"{tmp_path / 'x.zarr'}::wrong"])
    assert inner.exit_code == 1
    assert "nothing is stored here" in inner.stderr


@pytest.mark.slow
def test_an_interrupted_pyramid_is_shown_resumed_and_removed(tmp_path: Path) -> None:
    source, target = tmp_path / "x.zarr", tmp_path / "y.zarr"
    tegula.create_array(source, shape=(60, 60), chunks=(10, 10), dtype="i4")[...] = 1

    def run(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == code, result.output
        return result.output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tegula.jobs.units.BLOCK_BYTES", 1)
        part = ("downsample", source, target, "--part", "1/2")
        planned = "32.5 KiB to read and 18.7 KiB to write by 135 requests, in 50 units of work, each of 800 B in memory"
        assert planned in run(*part, "--dry-run")
        assert not target.exists()
        assert "32 units left to other parts" in run(*part)
        assert "interrupted, downsample of" in run("jobs", "list", target)
        assert "0 of 4 arrays done" in run("jobs", "show", target)
        assert "a job was interrupted here" in run("downsample", source, target, code=1)
        assert run("jobs", "clean", target).startswith("removed: downsample of")
        assert not target.exists()
        run(*part, "-q")
        run("downsample", source, target, "--part", "2/2", "-q")
    assert tegula.open(target)["s3"].shape == (8, 8)
    assert "the target is complete, but the options" in run(*part, "--method", "mode", code=1)


def test_an_incomplete_target_is_said_to_be_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.jobs.units.BLOCK_BYTES", 1)
    source, target = tmp_path / "x.zarr", tmp_path / "y.zarr"
    tegula.create_group(source).create_array("t", shape=(8,), chunks=(2,), dtype="i4")[...] = 1

    def run(*words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [*map(str, words)])
        assert result.exit_code == code, result.output
        return result

    run("convert", source, target, "--part", "1/2", "--chunks", "1")
    begin = f"tegula: warning: {target} is incomplete: tegula convert from {source} was interrupted at 50 %; "
    for words in (["info", target], ["tree", target], ["tree", tmp_path]):
        assert run(*words).stderr.startswith(begin)
    shown = json.loads(run("info", target, "--json").stdout)
    assert [job["units_done"] for job in shown["jobs"]] == [4]
    assert done_before(tegula.store_of(target), "") == {"t": (0.5, 16)}
    # what can't be opened yet
    said = run("cat", f"{target}::t", code=1).stderr.splitlines()
    assert [line.startswith(start) for line, start in zip(said, [begin, "tegula: error: "], strict=True)] == [
        True,
        True,
    ]
    run("convert", source, target, "--part", "2/2", "--chunks", "1")
    assert run("info", target).stderr == ""
