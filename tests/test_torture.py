"""A short run of ``torture/``, with tegula alone: it works, and would notice failures."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.effort import NIGHTLY

import tegula
from tegula import config
from tegula.runtime import executors

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
SECTIONS = ["updates", "kills", "corruption", "creation", "grids", "handles", "scale", "interrupts", "forks"]
if NIGHTLY:
    SECTIONS.append("disk")  # which is filled, and that takes longer than the others together


def part(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module(f"torture.{name}")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The outcomes of a small run, by section."""
    of_kernel = executors.kernel() is not None and config.current().executor != "reference"
    path = tmp_path_factory.mktemp("torture")
    command = [sys.executable, "-m", "torture", "--quick", "--scale", "0.05", "--only", ",".join(SECTIONS)]
    command += ["--libraries", "tegula" if of_kernel else "reference"]
    table = path / "page.md"
    table.write_text("before\n<!-- torture:begin -->\nold\n<!-- torture:end -->\nafter\n")
    command += ["--json", str(path / "found.json"), "--table", str(table)]
    environment = {**os.environ, "PYTHONPATH": str(Path(tegula.__file__).parents[1])}
    # not below pytest's own directory, which no other user may enter, as the run does where it is root
    with tempfile.TemporaryDirectory(prefix="tegula-") as files:
        Path(files).chmod(0o711)
        command += ["--dir", files]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=550
        )
        assert done.returncode == 0, done.stderr
        assert not [*Path(files).iterdir()]
    assert "not done" not in done.stdout
    text = table.read_text()
    assert text.startswith("before\n<!-- torture:begin -->\n")
    assert text.endswith("<!-- torture:end -->\nafter\n")
    assert "old" not in text.partition("| promise |")[0]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SECTIONS}
    for outcome in json.loads((path / "found.json").read_text())["outcomes"]:
        assert outcome["promise"] in text
        found[outcome["section"]].append(outcome["facts"])
    return found


@pytest.mark.slow
def test_no_update_is_lost(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(outcomes["updates"]) == 11
    for facts in outcomes["updates"]:
        assert facts["acknowledged"] == facts["updates"] == 20
        assert (
            facts["lost"] == facts.get("resurrected", 0) == facts["reader"]["torn"] == facts["reader"]["refused"] == 0
        )


@pytest.mark.slow
def test_no_kill_does_damage(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(outcomes["kills"]) == 7
    for facts in outcomes["kills"]:
        assert facts["killed"] == facts["kills"] == 1
        assert facts["damaged"] == 0, facts


@pytest.mark.slow
def test_a_checksum_tells(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    by_none, _, _, _, by_checksum = outcomes["corruption"]
    assert by_none["error"] + by_none["wrong"] == by_checksum["error"] == 2


@pytest.mark.nightly
@pytest.mark.slow
def test_trouble_with_files_is_an_error(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    full, refused, *obstacles = outcomes["disk"]
    assert full["new"] + full["old"] == 8
    assert full["old"] == full["errors"] > 0
    assert full["left"] == 0
    assert refused["error"]
    assert refused["kept"]
    assert [facts["outcome"] for facts in obstacles] == ["error"] * 6


@pytest.mark.slow
def test_one_creator_wins(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert [(facts["one"], facts["fine"]) for facts in outcomes["creation"]] == [(1, 1)] * 4


@pytest.mark.slow
def test_handles_of_what_others_change(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    created, shortened, *moved = outcomes["handles"]
    assert created["part"] == 0
    assert created["whole"] == 2
    assert shortened["damage"] == shortened["wrong"] == 0
    assert shortened["read"] > 0
    assert [(facts["read"], facts["write"], facts["made"]) for facts in moved] == [("error", "error", False)] * 3


@pytest.mark.slow
def test_what_many_arrays_take_is_measured(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(outcomes["scale"]) == 8
    assert all(facts["right"] for facts in outcomes["scale"])


@pytest.mark.slow
def test_no_forked_child_hangs(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(outcomes["forks"]) == 3
    assert all(facts["hung"] == facts["failed"] == 0 < facts["forks"] for facts in outcomes["forks"])


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(outcomes["interrupts"]) == 4
    for facts in outcomes["interrupts"]:
        assert facts["interrupts"] + facts["lost"] == 1
        assert facts["open"] == facts["locked"] == facts["left"] == 0
        assert not facts["waits"]


def test_what_goes_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = part("libraries.tegula_nodes", monkeypatch).Tegula()
    updates, kills = part("updates", monkeypatch), part("kills", monkeypatch)
    for kind in ("elements", "attributes", "appends", "resizes"):
        what = (library, None, str(tmp_path / kind), kind, "zarr3")
        updates.create(*what, 40)
        assert updates.check(*what, [[0, 4], [1], [], []])["lost"] > 0  # none of which was done
    node = library.open(str(tmp_path / "elements"), "zarr3")
    assert updates._is_sound(library, node, "elements", 40)
    library.write(node, slice(3, 4), 99)
    assert not updates._is_sound(library, node, "elements", 40)

    path = str(tmp_path / "part")
    kills.create(library, None, path, "part", "zarr3", 1)
    node = library.open(path, "zarr3")
    for number in (1, 2):
        library.write(node, kills._place(number), np.int32(number))
    assert kills._check_parts(library, node, [2]) == ([2], [])
    assert kills._check_parts(library, node, [5])[1]  # what was acknowledged is not there
    library.write(node, slice(7, 9), 1)
    assert "torn" in kills._check_parts(library, node, [2])[1][0]

    path = str(tmp_path / "rows")
    kills.create(library, None, path, "append", "zarr3", 1)
    node = library.open(path, "zarr3")
    library.append(node, np.arange(kills.BLOCK, dtype="i4") + 1)
    assert kills._check_rows(library, node, [1]) == ([1], [])
    assert kills._check_rows(library, node, [2])[1]
    library.write(node, slice(3, 4), 0)
    assert kills._check_rows(library, node, [1])[1]


@pytest.mark.slow
def test_no_read_mixes_two_states_of_an_array() -> None:
    of_kernel = executors.kernel() is not None and config.current().executor != "reference"
    command = [sys.executable, "-m", "torture", "mixtures", "--reads", "900", "--stores", "local,memory"]
    command += ["--libraries", "tegula" if of_kernel else "reference"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tegula.__file__).parents[1])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith(("local  ", "memory  "))]
    assert len(rows) == 18
    for row in rows:
        reads, *_ = numbers = [int(word.replace(",", "")) for word in row.split()[-10:]]
        assert reads == 50
        assert numbers[4:] == [0] * 6, done.stdout


def test_mixtures_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    generations = part("generations", monkeypatch)
    places = generations.POSITIONS
    first, second = places + 64, places + 128

    def kind(found: Any, writer: str = "replacing by an equal one") -> str:
        return str(generations.Judge(writer).of(found, places))

    mixed = np.where(places < 32, first, second)
    assert kind(first) == kind(second) == ""
    assert kind(mixed) == "two generations"
    assert kind(np.where(places < 32, first, 0)) == "fill values"
    assert kind(first[::-1]) == kind(first.astype("<i4").byteswap()) == kind(first[:4]) == "wrong values"
    assert kind(first, "replacing") == "" != kind(first.astype("f8"), "replacing")
    assert kind(np.where(places < 32, first, 0), "deleting and creating") == "not filled"
    for writer, unfilled in (("resizing Zarr v3", "not filled"), ("resizing bcolz", "fill values")):
        assert kind(np.where(places < 24, first, second), writer) == ""
        assert kind(np.where(places < 24, first, 0), writer) == unfilled
        assert kind(np.where(places < 32, first, second), writer) == "several appends"
        assert kind(np.where(places < 40, first, second), writer) == "two generations"  # in one chunk
        assert kind(np.where(places < 24, second, second), writer) == "wrong values"
    judge = generations.Judge("moving")
    assert [judge.of(found, places) for found in (second, first)] == ["", "went back"]
    assert judge.of_error(tegula.NotFoundError("gone"), is_local=True) == "gone"
    assert generations.Judge("replacing").of_error(tegula.NotFoundError("none"), is_local=True) == "other errors"
    assert judge.of_error(tegula.CodecError("torn"), is_local=True) == "called damage"


@pytest.mark.parametrize("name", ["outcome", "report", "libraries.interface"])
def test_the_examples_of_the_docstrings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctest.testmod(part(name, monkeypatch))
    assert found.attempted
    assert not found.failed


@pytest.mark.slow
def test_huge_grids_are_no_trouble(outcomes: dict[str, list[dict[str, Any]]]) -> None:
    many, vast = outcomes["grids"]
    assert many["wrong"] == vast["wrong"] == []
    assert vast["operations"] == 30
