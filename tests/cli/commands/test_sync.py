"""``tegula sync`` and ``tegula diff``."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app
from tegula.jobs.recording import claimed
from tegula.stores import LocalStore


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    group = tegula.create_group(tmp_path / "a", format="zarr2")
    group.create_array("x", data=np.arange(6), chunks=2)
    group.create_array("y", data=[0.0])
    return tmp_path / "a", tmp_path / "b"


def test_what_has_changed_is_printed(pair: tuple[Path, Path]) -> None:
    lines = run("sync", *pair).stdout.splitlines()
    assert lines[:3] == ["new: / (group)", "new: /x: it is not there", "new: /y: it is not there"]
    assert lines[-1].startswith("2 arrays, 2 new, 1 group new or changed, ")
    assert run("diff", *pair).stdout == "2 arrays, nothing to do\n"
    array = tegula.open_array(pair[0] / "x", mode="r+")
    array[3] = 9
    array.attrs["units"] = "m"
    told = ["changed: /x: 1 chunk is changed; attribute 'units' is new", "  [2:4]"]
    assert run("diff", *pair, code=1).stdout.splitlines()[:2] == told
    assert run("sync", *pair, "--dry-run").stdout.splitlines()[:2] == told
    output = json.loads(run("sync", *pair, "--json", "--verify").stdout)
    assert (output["ok"], [array["action"] for array in output["arrays"]]) == (True, ["changed", "same"])
    assert output["arrays"][0]["chunks_written"] == 1
    assert run("sync", *pair, "-q").output == ""
    assert tegula.compare(*pair).equal


def test_an_array_that_no_format_takes_is_no_success(pair: tuple[Path, Path]) -> None:
    tegula.open_group(pair[0], mode="r+").create_array("zero", data=np.array(5.0))
    run("sync", *pair, "--format", "n5", code=1)
    result = run("diff", *pair, code=1)
    assert result.stdout == "2 arrays, 1 failed\n"
    assert "/zero: N5 has no arrays without dimensions" in result.stderr


def test_options_of_convert_are_taken_once(pair: tuple[Path, Path]) -> None:
    run("sync", *pair, "--format", "zarr3", "--chunks", "x=3", "--codecs", "zstd")
    run("sync", *pair)
    assert (tegula.open(pair[1])["x"].format, tegula.open(pair[1])["x"].chunks) == ("zarr3", (3,))


def test_what_others_have_changed_is_overwritten_by_force_only(pair: tuple[Path, Path]) -> None:
    run("sync", *pair)
    tegula.open_array(pair[1] / "x", mode="r+")[0] = 5
    result = run("sync", *pair, code=1)
    assert "the chunk (0,) that others have changed" in result.stderr
    overwritten = "overwritten: /x: the chunk (0,) that others have changed"
    assert run("diff", *pair, code=1).stdout.splitlines()[1] == overwritten
    tegula.open_array(pair[0] / "y", mode="r+")[0] = 7
    result = run("sync", *pair, code=1)
    told, summary = result.stdout.splitlines()
    assert told == "changed: /y: 1 chunk is new"
    assert "1 chunk written, " in summary
    assert "1 failed, " in summary
    assert run("sync", *pair, "--force").stdout.splitlines()[1] == overwritten
    assert tegula.compare(*pair).equal


def test_nodes_that_are_gone_are_deleted_if_that_is_wanted(pair: tuple[Path, Path]) -> None:
    run("sync", *pair)
    tegula.delete(pair[0] / "y")
    assert "only in the target: /y" in run("sync", *pair).stdout
    assert "deleted: /y" in run("sync", *pair, "--delete").stdout
    assert [*tegula.open(pair[1])] == ["x"]


def test_a_report_in_html_has_everything(pair: tuple[Path, Path], tmp_path: Path) -> None:
    run("diff", *pair, "--html", tmp_path / "diff.html", "-q", code=1)
    text = (tmp_path / "diff.html").read_text()
    assert "it is not there" in text
    assert "[0:6]" in text


def test_parts_complete_the_target_together(pair: tuple[Path, Path]) -> None:
    for part in ("1/2", "2/2"):
        run("sync", *pair, "--part", part)
    assert tegula.compare(*pair).equal


def test_a_watch_syncs_again_and_again(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        assert tegula.compare(*pair).equal
        if len(pauses) == 3:
            raise KeyboardInterrupt
        tegula.open_array(pair[0] / "x", mode="r+")[0] = len(pauses)

    monkeypatch.setattr(time, "sleep", pause)
    CliRunner().invoke(app, ["sync", *map(str, pair), "--watch", "0.5"])
    assert pauses == [0.5] * 3


def test_a_watch_goes_on_when_something_is_refused_and_says_so_once(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("sync", *pair)
    tegula.open_array(pair[1] / "x", mode="r+")[0] = 5
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        assert tegula.compare(pair[0] / "y", pair[1] / "y").equal
        if len(pauses) == 4:
            raise KeyboardInterrupt
        if len(pauses) == 2:
            tegula.open_array(pair[0] / "y", mode="r+")[0] = 9

    monkeypatch.setattr(time, "sleep", pause)
    result = CliRunner().invoke(app, ["sync", *map(str, pair), "--watch", "0.5"])
    assert len(pauses) == 4
    assert result.stderr.count("would overwrite the chunk (0,)") == 2  # again with what has changed


def test_a_watch_waits_for_another_sync_to_end(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as others:
        others.enter_context(claimed(LocalStore(pair[1]), ""))
        pauses: list[bool] = []

        def pause(seconds: float) -> None:
            pauses.append((pair[1] / "x").exists())
            others.close()
            if len(pauses) == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(time, "sleep", pause)
        result = CliRunner().invoke(app, ["sync", *map(str, pair), "--watch", "0.5"])
    assert pauses == [False, True]
    assert "another job works on it" in result.stderr
    assert tegula.compare(*pair).equal


@pytest.mark.parametrize("pauses", ["nan", "inf", "1e300"])
def test_pauses_that_no_clock_has_are_refused(pair: tuple[Path, Path], pauses: str) -> None:
    run("sync", *pair, "--watch", pauses, code=2)
    assert not pair[1].exists()
