"""How much a quick run, a usual one and a night try."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests import effort


def load(monkeypatch: pytest.MonkeyPatch, **environment: str) -> ModuleType:
    for name in ("TEGULA_EFFORT", "TEGULA_SEED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("effort", Path(effort.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_usual_runs_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(monkeypatch)
    assert (found.EFFORT, found.SEED) == ("usual", 0)
    assert found.amount("KILLS_HERE", usual=3, nightly=50) == 3
    assert 10 < found.examples(200, slow=True) < found.examples(200) < 200


def test_quick_runs_try_few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(monkeypatch, TEGULA_EFFORT="quick")
    assert (found.examples(200), found.examples(3)) == (10, 3)


def test_nights_try_more_with_a_seed_that_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(monkeypatch, TEGULA_EFFORT="nightly")
    assert first.amount("KILLS_HERE", usual=3, nightly=50) == 50
    assert first.examples(200) > 200
    assert load(monkeypatch, TEGULA_EFFORT="nightly", TEGULA_SEED=str(first.SEED)).SEED == first.SEED


def test_a_kind_has_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, TEGULA_KILLS_HERE="7").amount("KILLS_HERE", usual=3, nightly=50) == 7


def test_unknown_efforts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="quick, usual or nightly"):
        load(monkeypatch, TEGULA_EFFORT="fast")


def test_what_is_left_to_the_night(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "SAMPLE", 1)
    [plugin] = [found for found in request.config.pluginmanager.get_plugins() if hasattr(found, "left_to_the_night")]

    class Item:
        path = Path("here")

        def __init__(self, name: str, mark: Any) -> None:
            self.originalname = name
            self.nodeid = f"here::{name}"
            self.mark = mark.mark

        def get_closest_marker(self, name: str) -> Any:
            return self.mark if self.mark.name == name else None

    names = [f"test_{number}" for number in range(60)]
    sampled = {name: [Item(name, pytest.mark.sampled(one_in=4)) for _ in range(9)] for name in names}
    night, slow = Item("test_night", pytest.mark.nightly), [Item(name, pytest.mark.slow) for name in names]
    always = [Item(name, pytest.mark.slow(always=True)) for name in names]
    items = [*(item for items in sampled.values() for item in items), night, *slow, *always]
    left = plugin.left_to_the_night(items)
    if effort.NIGHTLY:
        assert left == []
        return
    assert night in left
    assert not {*always} & {*left}
    share = 60 / effort.SLOW_TESTS_SHARE
    assert share / 3 <= len({*slow} - {*left}) <= 2 * share
    kept = [[number for number, item in enumerate(items) if item not in left] for items in sampled.values()]
    assert {numbers[0] for numbers in kept} == {0, 1, 2, 3}
    assert all(numbers == [*range(numbers[0], 9, 4)] for numbers in kept)
