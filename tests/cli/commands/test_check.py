"""``tegula check``: its output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def check(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A hierarchy with stale consolidated metadata, and files of a killed writer."""
    path = tmp_path / "x"
    group = tegula.create_group(path)
    group.create_array("a/b", shape=4, chunks=2, dtype="i4")[...] = 1
    group.consolidate()
    group["a/b"].attrs["unit"] = "m"
    (path / "a/b/c/.tegula-1-0a.tmp").write_bytes(b"half")
    return path


def files(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_hierarchy_without_faults(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4", codecs=None)[:2] = 1
    first, second, note = check(tmp_path / "x").stdout.splitlines()
    assert first.endswith("/x: 1 array, 1 chunk: nothing wrong")
    assert second == "8 B read, 8 B decoded; 1 chunk is not stored"
    assert "1 of 1 array has no checksums" in note
    assert "--checksum" in note
    assert check(tmp_path / "x", "--quiet").output == ""


def test_findings_are_sorted_by_severity_with_remedies(source: Path) -> None:
    (source / "a/b/c/1").write_bytes(b"x")
    lines = check(source, code=1).stdout.splitlines()
    assert lines[0].startswith("error: damaged-chunk: a/b/c/1: ")
    assert lines[1] == "    Restore it from a backup, or write it again from the source of its values."
    assert [line.split(": ")[1] for line in lines[2:6:2]] == ["consolidated-differs", "temporary-file"]
    assert lines[3].startswith("    --repair: ")
    assert lines[5] == "    --repair: remove it"
    assert lines[6].endswith("2 groups, 1 array, 1 chunk: 1 error, 2 warnings")
    quiet = check(source, "--quiet", code=1).stdout.splitlines()
    assert quiet == lines[:2]


def test_repairs_are_announced(source: Path) -> None:
    before = files(source)
    dry = check(source, "--repair", "--dry-run")
    assert dry.stdout.count("would be repaired: ") == 2
    assert "tegula: repair" not in dry.stderr
    assert files(source) == before
    result = check(source, "--repair")
    assert result.stderr.splitlines() == [
        "tegula: repair: zarr.json: write the consolidated metadata again",
        "tegula: repair: a/b/c/.tegula-1-0a.tmp: remove it",
    ]
    assert result.stdout.count("repaired: ") == 2
    assert check(source).stdout.splitlines()[0].endswith("nothing wrong")
    changed = {name for name, raw in files(source).items() if before[name] != raw}
    assert changed == {str(source / "zarr.json")}


def test_the_report_is_printed_as_json(source: Path) -> None:
    output = json.loads(check(source, "--json", "--repair").stdout)
    assert (output["ok"], output["warnings"], output["dry_run"], output["arrays"]) == (True, 0, False, 1)
    assert [each["repaired"] for each in output["findings"]] == [True, True]
    assert {*output["findings"][0]} == {
        "kind", "severity", "path", "key", "message", "remedy", "repair", "repaired",
    }  # fmt: skip
    (source / "a/b/c/1").write_bytes(b"x")
    assert json.loads(check(source, "--json", code=1).stdout)["counts"] == {"damaged-chunk": 1}


def test_a_check_of_a_node_inside_a_store_ignores_others(source: Path) -> None:
    (source / "stray").mkdir()
    (source / "stray/file").write_bytes(b"")
    assert "1 array, 2 chunks: 1 warning" in check(f"{source}::a/b").stdout
    assert "stray-prefix" in check(source).stdout


def test_a_failed_repair_is_reported(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise tegula.ConflictError("another process was faster")

    monkeypatch.setattr("tegula.hierarchy.group.Group.consolidate", refuse)
    result = check(source, "--repair")
    assert "zarr.json could not be repaired: another process was faster" in result.stderr
    assert "warning: consolidated-differs" in result.stdout


def test_names_are_escaped(tmp_path: Path) -> None:
    tegula.create_group(tmp_path / "x")
    (tmp_path / "x" / "\x1b[31m\nerror: lie").write_bytes(b"")
    lines = check(tmp_path / "x").stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("note: stray-key: \\x1b[31m\\nerror: lie: ")


def test_invalid_command_lines_are_refused(tmp_path: Path) -> None:
    check(tmp_path / "none", code=1)
    check(code=2)
    check(tmp_path, "--what", code=2)
    assert "no array or group" in check(tmp_path, "--repair", code=1).stderr
