"""``tegula cp``, ``mv``, ``rm`` and ``consolidate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.commands import moving
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0, **options: Any) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    tegula.save(tmp_path / "a.zarr", x=np.arange(6), y=[1.5])
    return tmp_path / "a.zarr"


def test_a_copy_is_continued_at_its_target_and_not_below_it(source: Path, tmp_path: Path) -> None:
    first = run("cp", source, tmp_path / "b.zarr", "--part", "1/2")
    assert "1 unit left to other parts" in first.stdout
    assert not (tmp_path / "b.zarr" / "zarr.json").exists()
    run("cp", source, tmp_path / "b.zarr", "--part", "2/2")
    assert tegula.compare(source, tmp_path / "b.zarr")
    assert sorted(tegula.open(tmp_path / "b.zarr")) == ["x", "y"]


def test_cp_copies_a_node(source: Path, tmp_path: Path) -> None:
    result = run("cp", source, tmp_path / "b.zarr")
    assert result.stdout.startswith("2 arrays and 1 group copied: 5 files, ")
    assert tegula.compare(source, tmp_path / "b.zarr")
    assert "overwrite" in run("cp", source, tmp_path / "b.zarr", code=1).stderr
    assert run("cp", source, tmp_path / "b.zarr", "--overwrite", "--quiet").output == ""
    run("cp", f"{source}::x", f"{tmp_path / 'b.zarr'}::deep/z")
    assert tegula.load(tmp_path / "b.zarr", path="deep/z").tolist() == [*range(6)]
    run("cp", f"{source}::x", f"{tmp_path / 'b.zarr'}::deep/")
    assert sorted(tegula.open(tmp_path / "b.zarr")["deep"]) == ["x", "z"]
    run("cp", f"{source}::x", f"{tmp_path / 'new'}::x")
    assert tegula.load(tmp_path / "new")["x"].tolist() == [*range(6)]
    run("cp", source, f"{source}::x", code=1)
    run("cp", tmp_path / "nothing", tmp_path / "c", code=1)
    assert not (tmp_path / "c").exists()


def test_cp_into_a_directory_keeps_the_name(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    run("cp", source, folder)
    assert sorted(each.name for each in folder.iterdir()) == ["a.zarr", "notes.txt"]
    run("cp", f"{source}::x", f"{tmp_path}/other/")
    assert tegula.load(tmp_path / "other/x").tolist() == [*range(6)]
    run("mv", source, f"{tmp_path}/moved/")
    assert (tmp_path / "moved/a.zarr").is_dir()
    assert not source.exists()


def test_mv_moves_and_renames_a_node(source: Path, tmp_path: Path) -> None:
    assert run("mv", source, tmp_path / "b.zarr").stdout == "moved at once, without copying data\n"
    assert not source.exists()
    run("mv", f"{tmp_path / 'b.zarr'}::x", f"{tmp_path / 'b.zarr'}::old/x")
    assert [path for path, _ in tegula.open(tmp_path / "b.zarr").walk()] == ["old", "old/x", "y"]
    result = run("mv", tmp_path / "b.zarr", tmp_path / "c.zip")
    assert "moved" in result.stdout
    assert not (tmp_path / "b.zarr").exists()
    assert tegula.load(tmp_path / "c.zip", path="y").tolist() == [1.5]


def test_rm_deletes_a_node_and_asks_on_a_terminal(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("rm", f"{source}::x")
    assert [*tegula.open(source)] == ["y"]
    asked: list[str] = []

    def confirm(question: str, err: bool) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(moving, "_can_ask", lambda: True)
    monkeypatch.setattr(moving.typer, "confirm", confirm)
    monkeypatch.setattr(moving, "delete", lambda *arguments, **options: pytest.fail("it was not to be deleted"))
    assert "nothing was deleted" in run("rm", source, code=1).stderr
    run("rm", f"{source}::y", code=1)
    assert asked[0].startswith("Delete the group ")
    assert "with 1 member?" in asked[0]
    assert "the array" in asked[1]
    monkeypatch.undo()
    monkeypatch.setattr(moving, "_can_ask", lambda: True)
    monkeypatch.setattr(moving.typer, "confirm", lambda *arguments, **options: pytest.fail("--yes does not ask"))
    run("rm", source, "--yes")
    assert not source.exists()
    run("rm", source, code=1)


def test_consolidate_writes_the_metadata_of_all_members(source: Path, tmp_path: Path) -> None:
    assert run("consolidate", source).stdout == f"{source}: metadata of 2 members consolidated\n"
    assert "x" in tegula.open_group(source, consolidated=True)
    document = json.loads((source / "zarr.json").read_text())
    assert {*document["consolidated_metadata"]["metadata"]} == {"x", "y"}
    assert "an array" in run("consolidate", f"{source}::x", code=1).stderr
    run("consolidate", tmp_path / "nothing", code=1)


def test_commands_have_the_names_of_the_functions_too(source: Path, tmp_path: Path) -> None:
    run("copy", source, tmp_path / "b.zarr")
    assert tegula.compare(source, tmp_path / "b.zarr").equal
    run("move", tmp_path / "b.zarr", tmp_path / "c.zarr")
    run("statistics", tmp_path / "c.zarr")
    run("delete", tmp_path / "c.zarr", "--yes")
    assert not [*tmp_path.glob("[bc].zarr")]
