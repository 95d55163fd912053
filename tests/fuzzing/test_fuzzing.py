"""Hostile input: earlier findings stay fixed, other inputs find nothing, and the runner notices violations."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.effort import SEED, amount

from tegula.errors import CodecError

from . import runner, workers
from .arrays import subjects
from .mutations import change_json, dump
from .outcomes import Skipped, Tally, attempt, from_json, to_json
from .runner import blocks, regressions, replay, run, save
from .targets import SHARES, TARGETS
from .targets.chunks import Chunks

INPUTS = amount("FUZZ_INPUTS", usual=12_000, nightly=12_000)  # a night gives a million to the command, too

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(os.name != "posix", reason="the workers are limited and watched as POSIX can"),
]


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("path", regressions(), ids=lambda path: path.stem)
def test_corpus_of_former_findings_passes(path: Path) -> None:
    try:
        assert replay(path)
    except Skipped:
        pytest.skip("this input needs what is not installed")


@pytest.mark.slow
def test_nothing_is_found(tmp_path: Path) -> None:
    report = run(INPUTS, seed=SEED, jobs=1 if INPUTS < 100_000 else 2, limit=30.0, findings=tmp_path)
    sums = report.as_json()
    assert [finding for finding in sums["findings"] if finding["file"]] == []
    assert sums["violations"] == 0
    assert sums["inputs"] >= INPUTS
    for name, tally in sums["targets"].items():
        assert tally["accepted"] > 0, name  # or the mutations destroy everything
        assert sum(tally["refused"].values()) > 0, name


# --- the runner itself


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_the_same_each_time(name: str) -> None:
    with workers.conditions():
        target, other = TARGETS[name](), TARGETS[name]()
        for number in range(20):
            case = target.make(Random(number))
            assert case == other.make(Random(number))
            assert case == from_json(json.loads(json.dumps(to_json(case))))


def test_documents_are_changed_to_what_json_can_not_say() -> None:
    rng = Random(1)
    texts = [dump(change_json(rng, {"a": [1, {"b": "x"}], "c": None})) for _ in range(500)]
    assert any(text.count('"a"') > 1 for text in texts)
    assert any("NaN" in text for text in texts)
    assert any("[" * 900 in text for text in texts)


class Broken:
    """A target that breaks each promise."""

    name = "chunks"

    def __init__(self) -> None:
        self.runs = 0

    def make(self, rng: Any) -> dict[str, Any]:
        return {"number": rng.randrange(30)}

    def run(self, case: dict[str, Any]) -> str:
        self.runs += 1
        if self.runs <= 5:  # what a worker begins with
            return "accepted"
        how = HOW[case["number"]] if case["number"] < len(HOW) else None
        if how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif how == "hang":
            time.sleep(3600)
        elif how == "memory":
            np.ones(2**24)
        elif how == "addresses":
            np.empty(2**40)
        elif how == "other":
            raise KeyError("x")
        elif how == "refused":
            raise CodecError("no")
        return "accepted"


HOW = ("crash", "hang", "memory", "addresses", "other", "refused")


def _work(*arguments: Any) -> None:
    TARGETS.clear()  # in the worker
    TARGETS["chunks"] = Broken
    workers.work(*arguments)


@pytest.mark.slow
def test_crashes_and_hangs_are_noticed_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "chunks", Broken)
    monkeypatch.setattr(workers, "_targets", {})
    monkeypatch.setattr(runner, "work", _work)
    report = run(40, seed=3, names=["chunks"], jobs=1, limit=4.0, findings=tmp_path)
    assert {*report.tallies["chunks"].violations} == {
        "crash: exit code -11", "hang", "memory", "other exception: KeyError", "other exception: MemoryError",
    }  # fmt: skip
    assert report.tallies["chunks"].inputs == 40
    saved = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert {item["case"]["number"] for item in saved} == {0, 1, 2, 3, 4}


def test_a_silent_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its checksum, an array that should have one is read with a change in it."""
    subject = next(subject for name, subject in subjects().items() if name == "seeds:v3-none/")
    key, data, _ = subject.chunks[0]
    case = {
        "array": subject.name, "key": key, "kind": "bits", "data": b"\xff" + data[1:], "part": [[0, 1], [0, 1]],
        "point": [0, 0], "write": True,
    }  # fmt: skip
    assert Chunks().run(case) == "accepted,changed where nothing could tell"
    monkeypatch.setattr(subject, "checked", True)
    tally = Tally()
    found = attempt(Chunks(), case, tally)
    assert found is not None
    assert found[0] == "silent change"
    assert tally.violations == {"silent change": 1}


def test_blocks_cover_what_is_asked_for(tmp_path: Path) -> None:
    assert sum(SHARES.values()) == 100
    found = blocks(12345, [*TARGETS])
    assert 12345 <= sum(stop - start for _, start, stop in found) < 12345 + len(TARGETS)
    assert {name for name, _, _ in found} == {*TARGETS}
    case = {"data": b"\x00\xff", "text": "é"}
    path = save(tmp_path, "chunks", case, "why")
    assert from_json(json.loads(path.read_text())["case"]) == case
