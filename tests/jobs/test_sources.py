"""Sources that change while a job reads them: the result is that of one state, or an error says what has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.interrupting import contents

import tegula
from tegula import MemoryStore
from tegula.jobs.ledger import DIRECTORY

pytestmark = pytest.mark.usefixtures("small_units")
OLD = np.arange(1, 25, dtype="i4")
NEW = np.arange(101, 125).astype("i4")


class Changing(MemoryStore):
    """Calls a function before one of the accesses to it: what another process does at that moment."""

    left = 10**9
    then: Any = None

    def _watch(self) -> None:
        self.left -= 1
        if self.left == 0 and self.then is not None:
            self.then()

    def get(self, *args: Any, **options: Any) -> Any:
        self._watch()
        return super().get(*args, **options)

    def exists(self, *args: Any, **options: Any) -> bool:
        self._watch()
        return super().exists(*args, **options)

    def list_prefix(self, *args: Any, **options: Any) -> Any:
        self._watch()
        return super().list_prefix(*args, **options)

    def list_dir(self, *args: Any, **options: Any) -> Any:
        self._watch()
        return super().list_dir(*args, **options)


def filled(store: Any, path: str, format: str, values: Any = OLD, **options: Any) -> None:
    tegula.create_array(store, path=path, data=values, chunks=6, format=format, codecs=None, **options)


def shrink(store: Any, path: str, format: str) -> None:
    tegula.open(store, "r+", path=path).resize(12)


def replace(store: Any, path: str, format: str) -> None:
    filled(store, path, format, NEW.astype("f4"), overwrite=True)


def replace_by_an_equal_one(store: Any, path: str, format: str) -> None:
    filled(store, path, format, NEW, overwrite=True)


def delete(store: Any, path: str, format: str) -> None:
    tegula.delete(store, path=path)


def move(store: Any, path: str, format: str) -> None:
    for key in [*store.list_prefix(f"{path}/" if path else "")]:
        store.delete(key)


def make_longer(store: Any, path: str, format: str) -> None:
    tegula.open(store, "r+", path=path).append(NEW[:12])


def change_attributes(store: Any, path: str, format: str) -> None:
    tegula.open(store, "r+", path=path).attrs["unit"] = "m"


def add_a_member(store: Any, path: str, format: str) -> None:
    if path:
        filled(store, "zz", format, NEW)


CHANGES: list[Callable[[Any, str, str], None]] = [
    shrink, replace, replace_by_an_equal_one, delete, move, make_longer, change_attributes, add_a_member,
]  # fmt: skip


def values_of(store: Any) -> dict[str, Any] | None:
    """Return all arrays of a target by path; ``None`` if nothing can be opened there."""
    try:
        node = tegula.open(store)
    except tegula.TegulaError:
        return None
    if isinstance(node, tegula.Array):
        return {"": np.asarray(node[...]).tolist()}
    found = {}
    for name, member in node.walk({}):
        if isinstance(member, tegula.Array):
            found[name] = np.asarray(member[...]).tolist()
    return found


def into(work: Any, **options: Any) -> Callable[[Any], Any]:
    def run(source: Any) -> Any:
        target = MemoryStore()
        try:
            report = work(tegula.open(source), target, **options)
            if not getattr(report, "ok", True):
                return f"{FAILS}{report.failed}"
            return "complete", values_of(target)
        finally:
            run.target = target  # type: ignore[attr-defined]

    return run


JOBS: dict[str, Callable[[Any], Any]] = {
    "convert": into(tegula.convert),
    "convert to other chunks, verified": into(tegula.convert, chunks=4, verify=True),
    "convert with a ledger": into(tegula.convert, resume=True),
    "copy": into(tegula.copy),
    "copy with a ledger": into(tegula.copy, resume=True),
    "statistics": lambda source: of_report(tegula.statistics(tegula.open(source))),
    "checksum": lambda source: of_report(tegula.checksum(tegula.open(source))),
    "check": lambda source: of_check(tegula.check(tegula.open(source))),
    "compare": lambda source: of_report(tegula.compare(tegula.open(source), MemoryStore(dict(source.before)))),
}
FAILS = "failed: "


def of_check(report: tegula.CheckReport) -> str:
    """Return what a check has found; chunks that are deleted meanwhile may be counted."""
    return f"{report.arrays} arrays, {report.counts}"


def of_report(report: Any) -> str:
    """Return the result of a report; of one that names arrays which could not be read a text that says so."""
    failed = getattr(report, "failed", {})
    text = str(report.equal) + str(report.counts) if isinstance(report, tegula.Comparison) else repr(report)
    return f"{FAILS}{failed}" if failed else text


def outcome(job: Callable[[Any], Any], source: Any) -> Any:
    """Return the result of a job; for an error or a reported array a text."""
    try:
        return job(source)
    except tegula.TegulaError as error:
        return f"{FAILS}{error}"


def started(path: str, format: str) -> Changing:
    store = Changing()
    if path:
        tegula.create_group(store, format=format)
        filled(store, "b", format)
    filled(store, path, format)
    store.before = contents(store)  # type: ignore[attr-defined]
    return store


@pytest.mark.slow
@pytest.mark.sampled(one_in=213)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.__name__))
@pytest.mark.parametrize("path", ["", "a"], ids=["array", "group"])
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_the_result_is_that_of_one_state_of_the_source(
    job: str, change: Callable[[Any, str, str], None], path: str, format: str
) -> None:
    """The source changes before each access to it in turn."""
    plain = started(path, format)
    allowed = [outcome(JOBS[job], plain)]
    source = started(path, format)
    change(source, path, format)
    allowed.append(outcome(JOBS[job], source))
    moments = 0
    while True:
        source, moments = started(path, format), moments + 1
        source.left, source.then = moments, lambda source=source: change(source, path, format)
        found = outcome(JOBS[job], source)
        if source.left > 0:
            break
        if not isinstance(found, str) or not found.startswith(FAILS):
            assert found in allowed, (moments, found)
            continue
        # what can be opened is right, or a job is left that says so
        target = getattr(JOBS[job], "target", MemoryStore())
        for name, values in (values_of(target) or {}).items():
            states = [state[1].get(name) for state in allowed if isinstance(state, tuple) and state[1]]
            assert values in states or any(DIRECTORY in key for key in target.list()), (moments, found)
    assert moments > 3


@pytest.mark.parametrize("operation", ["convert", "copy"])
def test_a_job_whose_source_was_replaced_by_an_equal_array_is_not_resumed(operation: str) -> None:
    source, target, work = started("", "zarr3"), MemoryStore(), getattr(tegula, operation)
    source.left, source.then = 10**9, None
    calls = [0]
    get = source.get

    def replacing(key: str, *args: Any, **options: Any) -> Any:
        calls[0] += key == "c/2"
        if key == "c/2" and calls[0] == 1:
            replace_by_an_equal_one(source, "", "zarr3")
        return get(key, *args, **options)

    source.get = replacing  # type: ignore[method-assign]
    with pytest.raises(tegula.ConflictError, match="written anew"):
        work(source, target, resume=True)
    with pytest.raises(tegula.MetadataError, match=r"the source has changed since the job began: .* written anew"):
        work(source, target, resume=True)
    work(source, target, resume=True, overwrite=True)
    assert values_of(target) == {"": NEW.tolist()}
    assert not [key for key in target.list() if DIRECTORY in key]


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_a_source_that_shrinks_in_files_is_noticed(tmp_path: Path, runner: str) -> None:
    """The progress of the first unit is reported, then the source is cut short."""
    array = tegula.create_array(tmp_path / "a", data=np.arange(1000), chunks=100)
    cut = []

    def shrinks(*_: Any) -> None:
        if not cut:
            cut.append(array.resize(500))

    with pytest.raises(tegula.ConflictError, match=r"had shape \(1000,\), and has shape \(500,\) now"):
        tegula.convert(
            tmp_path / "a", tmp_path / "t", chunks=50, codecs=None, verify=True, progress=shrinks, runner=runner
        )
    with pytest.raises(tegula.NotFoundError):
        tegula.open(tmp_path / "t")


@pytest.mark.parametrize("change", ["shape", "data type", "chunks of shape", "codecs", "fill value"])
def test_the_error_says_what_changed(change: str) -> None:
    options: dict[str, Any] = {"shape": 8, "chunks": 4, "dtype": "i4", "codecs": "zstd", "fill_value": 0}
    other = {"shape": 4, "data type": "f4", "chunks of shape": 2, "codecs": "gzip", "fill value": 7}[change]
    name = {"data type": "dtype", "chunks of shape": "chunks", "fill value": "fill_value"}.get(change, change)
    store = MemoryStore()
    array = tegula.create_array(store, **options)
    tegula.create_array(store, **{**options, name: other}, overwrite=True)
    for job in (tegula.statistics, tegula.checksum, lambda node: tegula.convert(node, {})):
        with pytest.raises(tegula.ConflictError, match=f"the array had {change} .*, and has {change} .* now"):
            job(array)


def test_columns_of_a_table_belong_to_one_state() -> None:
    source, target = MemoryStore(), MemoryStore()
    table = tegula.create_table(source, {"x": OLD, "y": OLD})

    def replaces(name: str, *_: Any) -> None:
        if name == "y":
            tegula.create_table(source, {"x": NEW, "y": NEW}, overwrite=True)

    with pytest.raises(tegula.ConflictError):
        tegula.convert(table, target, format="zarr2", progress=replaces)
    found = values_of(target) or {}
    assert found in ({}, {"x": OLD.tolist()})


def test_an_attribute_that_changes_and_rows_that_are_added_do_no_harm(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a", data=OLD, chunks=6)
    changed = []

    def changes(*_: Any) -> None:
        if not changed:
            array.attrs["unit"] = "m"
            changed.append(array.append(NEW))

    assert tegula.convert(tmp_path / "a", tmp_path / "t", chunks=5, progress=changes, verify=True).ok
    assert tegula.open(tmp_path / "t")[...].tolist() == OLD.tolist()
