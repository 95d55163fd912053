"""Operations whose results merge give the same result on any runner, and continue after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.interrupting import Interrupting

import tegula
from tegula import MemoryStore
from tegula.jobs.comparing.differences import Differing
from tegula.jobs.sharing import Code
from tegula.reductions.moments import Bins, Moments, measure

VALUES = np.random.default_rng(5).normal(size=(40, 30))
pytestmark = [pytest.mark.once(executors="both"), pytest.mark.usefixtures("small_units")]


def fill(store: Any, codecs: Any = "auto") -> Any:
    group = tegula.create_group(store)
    group.create_array("a", data=VALUES, chunks=(10, 10), codecs=codecs)
    group.create_array("t", data=np.arange(20).astype("M8[D]"), chunks=5, codecs=codecs)
    return store


def plain(found: Any) -> dict[str, Any]:
    """The report of an operation, without what differs from call to call."""
    facts = found.as_dict()
    facts.pop("seconds", None)
    return dict(facts)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "compare": lambda source, **options: tegula.compare(source, OTHER, **options),
    "statistics": tegula.statistics,
    "check": tegula.check,
}
OTHER = fill(MemoryStore(), codecs="zstd")


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_that_is_interrupted_goes_on(name: str) -> None:
    operation, source, ledger = OPERATIONS[name], fill(Interrupting()), MemoryStore()
    expected = plain(operation(source))
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        operation(source, ledger=ledger)
    assert len([*ledger.list_prefix(".tegula_job/units/")]) == 5
    source.left, source.reads = 10**9, 0
    assert plain(operation(source, ledger=ledger)) == expected
    assert source.reads == 12 + 4 - 5
    assert [*ledger.list_prefix("")] == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_ledger_at_a_path_leaves_no_directory(tmp_path: Path, name: str) -> None:
    operation, source, folder = OPERATIONS[name], fill(Interrupting()), tmp_path / "ledger"
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        operation(source, ledger=folder)
    assert folder.exists()
    source.left = 10**9
    operation(source, ledger=folder)
    assert not folder.exists()
    folder.mkdir()
    (folder / "mine").touch()
    operation(source, ledger=folder)
    assert [*folder.iterdir()] == [folder / "mine"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_source_that_has_changed_is_refused(name: str) -> None:
    operation, source, ledger = OPERATIONS[name], fill(Interrupting()), MemoryStore()
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        operation(source, ledger=ledger)
    source.left = 10**9
    tegula.open(source, "r+")["t"].attrs["unit"] = "d"
    with pytest.raises(tegula.MetadataError, match="the source has changed"):
        operation(source, ledger=ledger)


def test_difference_is_found_in_finished_and_in_unfinished_parts() -> None:
    source, ledger = fill(Interrupting()), MemoryStore()
    changed = tegula.open(source, "r+")["a"]
    changed[0, 0] = changed[39, 29] = 7
    source.left = 5
    with pytest.raises(KeyboardInterrupt):
        tegula.compare(source, OTHER, ledger=ledger)
    source.left = 10**9
    found = tegula.compare(source, OTHER, ledger=ledger)
    assert plain(found) == plain(tegula.compare(source, OTHER))
    assert (found.differences[0].count, found.differences[0].index) == (2, (0, 0))


@pytest.mark.slow
def test_processes_give_the_same_results(tmp_path: Path) -> None:
    fill(tmp_path / "s.zarr")
    fill(tmp_path / "o.zarr", codecs="zstd")
    for options in ({"workers": 2}, {"workers": 2, "ledger": tmp_path / "ledger"}):
        assert plain(tegula.statistics(tmp_path / "s.zarr", **options)) == plain(tegula.statistics(tmp_path / "s.zarr"))
        found = tegula.compare(tmp_path / "s.zarr", tmp_path / "o.zarr", **options)
        assert found.equal
        assert found.elements == VALUES.size + 20


@pytest.mark.slow
def test_processes_find_the_same_faults(tmp_path: Path) -> None:
    store = tegula.LocalStore(tmp_path / "s.zarr")
    fill(store)
    store.set("a/c/1/2", b"damaged")
    store.set("a/c/9/9", b"outside")
    store.set("a/stray", b"")
    expected = plain(tegula.check(tmp_path / "s.zarr"))
    assert expected["counts"] == {"damaged-chunk": 1, "chunk-outside": 1, "stray-key": 1}
    for options in ({"workers": 2}, {"ledger": tmp_path / "ledger"}):
        found = plain(tegula.check(tmp_path / "s.zarr", **options))
        for one in (found, expected):
            one["findings"] = sorted(one["findings"], key=str)
            one["counts"] = dict(sorted(one["counts"].items()))
        assert found == expected


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, np.nan, np.inf]), np.array([3, 2**63], "u8"), np.array(["b", "a"], object), np.array([b"x"]),
        np.array([1 + 2j]), np.array(["2020-01-01", "NaT"], "M8[s]"), np.array([True]), np.array([], "f4"),
        np.array([5], "m8[ms]"),
    ],
)  # fmt: skip
def test_results_are_read_as_they_were_written(values: Any) -> None:
    code = Code[Moments]((Moments, Bins))
    found = measure(values)
    record = code.encode(found)
    assert record is not None
    assert repr(code.decode(record)) == repr(found)
    assert Code[Differing]((Differing,)).encode(Differing(1, (2,), object())) is None
