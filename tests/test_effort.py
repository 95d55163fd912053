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
    assert found.examples(200) == 200


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


def test_of_sampled_tests_one_in_so_many_is_left(request: pytest.FixtureRequest) -> None:
    [plugin] = [found for found in request.config.pluginmanager.get_plugins() if hasattr(found, "left_to_the_night")]
    mark = pytest.mark.sampled(one_in=3).mark

    class Item:
        path = Path("here")

        def get_closest_marker(self, name: str) -> Any:
            return mark if name == "sampled" else None

    items = [Item() for _ in range(10)]
    left = plugin.left_to_the_night(items)
    assert [item for item in items if item not in left] == ([*items] if effort.NIGHTLY else items[::3])


def test_of_a_slow_test_with_many_parameters_a_few_are_left(request: pytest.FixtureRequest) -> None:
    [plugin] = [found for found in request.config.pluginmanager.get_plugins() if hasattr(found, "left_to_the_night")]

    class Item:
        path = Path("here")

        def __init__(self, name: str) -> None:
            self.originalname = name

        def get_closest_marker(self, name: str) -> Any:
            return name == "slow" or None

    many, few = [Item("many") for _ in range(10)], [Item("few") for _ in range(3)]
    left = plugin.left_to_the_night([*many, *few])
    kept = [item for item in many if item not in left]
    assert kept == (many if effort.NIGHTLY else [many[number] for number in (0, 3, 6, 9)])
    assert not {*few} & {*left}
