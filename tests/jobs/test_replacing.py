"""Jobs that replace a node: it stays until the new one is complete, in every store, whatever interrupts the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obstore.store import MemoryStore as Bucket
from tests.jobs.interrupting import Interrupting

import tegula
from tegula.errors import StoreError, TegulaError
from tegula.jobs import units
from tegula.jobs.ledger import is_ledger_key
from tegula.stores import LocalStore, MappingStore, MemoryStore, ObjectStore, Store
from tegula.stores.wrapping import WrappingStore
from tegula.stores.zip.store import ZipStore

STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda path: LocalStore(path / "target"),
    "memory": lambda path: MemoryStore(),
    "mapping": lambda path: MappingStore({}),
    "bucket": lambda path: ObjectStore(Bucket()),
}
OLD, NEW = np.arange(64, dtype="f8").reshape(8, 8), np.arange(400, dtype="i4").reshape(20, 20) + 1


def a_source() -> Interrupting:
    store = Interrupting()
    group = tegula.create_group(store, attributes={"of": "the source"})
    group.create_array("a", data=NEW, chunks=(5, 5), dimension_names=["y", "x"])
    group.create_array("b", data=NEW[0], chunks=5)
    table = group.create_group("table", attributes={"column-order": ["p", "q"]})
    for name in ("p", "q"):
        table.create_array(name, data=NEW[0], chunks=5)
    return store


def convert(source: Store, target: Any, **options: Any) -> Any:
    return tegula.convert(source, target, path="there", dtype="f4", overwrite=True, **options)


def convert_array(source: Store, target: Any, **options: Any) -> Any:
    options |= {"path": "there", "format": "bcolz", "overwrite": True}
    return tegula.convert(tegula.open(source, path="b"), target, **options)


def convert_to_table(source: Store, target: Any, **options: Any) -> Any:
    options |= {"path": "there", "format": "bcolz", "overwrite": True}
    return tegula.convert(tegula.open(source, path="table"), target, **options)


def convert_to_directory(source: Store, target: Any, **options: Any) -> Any:
    options |= {"path": "there", "format": "bcolz", "overwrite": True}
    return tegula.convert(source, target, **options)


def copy(source: Store, target: Any, **options: Any) -> Any:
    return tegula.copy(source, target, path="there", overwrite=True, **options)


def downsample(source: Store, target: Any, **options: Any) -> Any:
    options |= {"path": "there", "levels": 2, "overwrite": True}
    return tegula.downsample(tegula.open(source, path="a"), target, **options)


JOBS = [convert, convert_array, convert_to_table, convert_to_directory, copy, downsample]
EACH = pytest.mark.parametrize("job", JOBS)
RESUMED = pytest.mark.parametrize("options", [{}, {"resume": True}], ids=["at once", "with a ledger"])


def with_old(store: Store) -> Store:
    """Make what is replaced: a group with members that the new node does not have."""
    for path in ("there/a", "there/gone/deep"):
        tegula.create_array(store, path=path, data=OLD, chunks=(3, 3))
    tegula.create_group(store, path="beside")
    return store


def values(store: Store) -> dict[str, Any]:
    return {key: store.get(key) for key in store.list() if not is_ledger_key(key) or key.endswith("_complete")}


def wanted(job: Any, **options: Any) -> dict[str, Any]:
    """Return what a store holds after a job with nothing to replace."""
    store = MemoryStore()
    tegula.create_group(store, path="beside")
    job(a_source(), store, **options)
    return values(store)


@pytest.mark.slow
@pytest.mark.sampled(one_in=20)
@RESUMED
@EACH
@pytest.mark.parametrize("kind", STORES)
def test_the_old_node_stays_until_the_new_one_is_complete(
    kind: str, job: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    source, target = a_source(), with_old(STORES[kind](tmp_path))
    old = values(target)
    for error in (KeyboardInterrupt, MemoryError) if job in (convert_array, copy, downsample) else (KeyboardInterrupt,):
        source.left, source.error = 3, error
        with pytest.raises((error, StoreError)):
            job(source, target, **options)
        assert values(target) == old
    source.left = 10**9
    job(source, target, **options)
    assert values(target) == wanted(job, **options)
    assert not [key for key in target.list() if "/.tegula_job" in key]
    assert not [*tmp_path.rglob(".tegula*job")]
    if options:  # the same command once more finds it complete
        source.reads = 0
        assert [job(source, target, **options), source.reads][1] == 0 or job is copy


@RESUMED
@EACH
def test_an_archive(job: Any, options: dict[str, Any], tmp_path: Path) -> None:
    if options:
        pytest.skip("an archive is written in one go")
    with ZipStore(tmp_path / "a.zip", "w") as store:
        with_old(store)
    source = a_source()
    source.left = 3
    old = values(ZipStore(tmp_path / "a.zip"))
    with ZipStore(tmp_path / "a.zip", "a") as store, pytest.raises(KeyboardInterrupt):
        job(source, store)
    assert values(ZipStore(tmp_path / "a.zip")) == old
    source.left = 10**9
    with ZipStore(tmp_path / "a.zip", "a") as store:
        job(source, store)
    assert values(ZipStore(tmp_path / "a.zip")) == wanted(job)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


class Dead(BaseException):
    """The process was killed."""


class Mortal(WrappingStore):
    """A store that nothing reaches any more after a number of changes, as when its process is killed."""

    left = 10**9

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Dead

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        if self.left < 0:
            raise Dead
        return self.store.get(key, byte_range, with_generation=with_generation)

    def set(self, key: str, value: Any, *, if_generation: Any = None) -> Any:
        self._change()
        return self.store.set(key, value, if_generation=if_generation)

    def delete(self, key: str, *, if_generation: Any = None) -> None:
        self._change()
        self.store.delete(key, if_generation=if_generation)

    def delete_prefix(self, prefix: str) -> None:
        for key in [*self.store.list_prefix(prefix)]:
            self.delete(key)


@pytest.mark.slow
@pytest.mark.sampled(one_in=13)
@EACH
@pytest.mark.parametrize("resume", [True, False])
def test_a_job_that_is_killed_at_any_change(job: Any, resume: bool) -> None:
    options = {"resume": True} if resume else {}
    source, done = a_source(), wanted(job, **options)
    begun, number = False, 0
    while True:
        inner = with_old(MemoryStore())
        old, store = values(inner), Mortal(inner)
        store.left = number
        try:
            job(source, store, **options)
            break
        except Dead:
            pass
        # the old node, whole, or nothing that looks like one, or the new node, whole
        for name, new in (("there/a", ["a"]), ("there", [""])):
            for path in (name, *(f"{name}/{one}" for one in new if one)):
                check_node(inner, path, old, done)
        begun = begun or values(inner) != old
        job(source, inner, **options)
        assert values(inner) == done, number
        assert not [key for key in inner.list() if "/.tegula_job" in key], number
        number += 1 if resume else 3
    assert begun


def check_node(store: Store, path: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Check that an array that can be opened is the old or the new one, as a whole."""
    try:
        node = tegula.open(store, path=path)
    except TegulaError:
        return
    if not isinstance(node, tegula.Array):
        return
    known = []
    for contents in (old, new):
        whole = MemoryStore()
        for key, value in contents.items():
            whole.set(key, value)
        try:
            known.append(tegula.open(whole, path=path)[...])
        except TegulaError:
            continue
    assert any(np.array_equal(node[...], one) for one in known), path


def test_unfinished_replacement_is_not_listed_as_a_member() -> None:
    source, target = a_source(), with_old(ObjectStore(Bucket()))
    source.left = 18
    with pytest.raises(KeyboardInterrupt):
        convert(source, target, resume=True)
    assert any(key.startswith("there/.tegula_job-new/node/") for key in target.list())
    group = tegula.open(target, path="there")
    assert sorted(group) == ["a", "gone"]
    assert sorted(name for name, _ in group.walk(implicit=True)) == ["a", "gone", "gone/deep"]
    assert tegula.open(target)["there"].tree() is not None
    assert tegula.copy(target, MemoryStore(), path="copy").arrays == 2
    # an interrupted job that replaces a node is removed without it
    tegula.jobs.clean_job(target, "there")
    assert values(target) == values(with_old(MemoryStore()))


@pytest.mark.slow
@pytest.mark.sampled(one_in=19)
@pytest.mark.parametrize("format", ["zarr1", "bcolz", "zarr3"])
@pytest.mark.parametrize("options", [{"workers": 2}, {"max_memory": "1MiB"}, {}], ids=str)
def test_arrays_that_replace_others_get_their_values(format: str, options: dict[str, Any], tmp_path: Path) -> None:
    source, values = LocalStore(tmp_path / "source"), np.arange(1200 * 1200, dtype="f8").reshape(1200, 1200)
    tegula.create_array(source, path="a", data=values, chunks=(1200, 20))
    tegula.create_array(tmp_path / "target", path="a", data=OLD, chunks=(3, 8), format=format)
    options = {**options, "format": format, "chunks": (20, 1200), "overwrite": True}
    report = tegula.convert(tmp_path / "source", tmp_path / "target", **options)
    assert not report.failed
    assert np.array_equal(tegula.open(tmp_path / "target")["a"][...], values)


def test_another_job_that_goes_on_leaves_one_that_replaces_a_node() -> None:
    source, target = a_source(), with_old(MemoryStore())
    source.left = 18
    with pytest.raises(KeyboardInterrupt):
        convert(source, target, resume=True)
    other, before = MemoryStore(), {key: target.get(key) for key in target.list()}
    tegula.create_array(other, path="c", data=NEW)
    with pytest.raises(TegulaError):
        tegula.convert(other, target, path="there", resume=True)
    assert {key: target.get(key) for key in target.list()} == before


@pytest.mark.slow
def test_a_clean_that_is_killed_leaves_no_units_that_count_as_done() -> None:
    done = wanted(convert, resume=True)
    for number in range(60):
        source, inner = a_source(), with_old(MemoryStore())
        source.left = 18
        with pytest.raises(KeyboardInterrupt):
            convert(source, inner, resume=True)
        store = Mortal(inner)
        store.left, source.left = number, 10**9
        try:
            tegula.jobs.clean_job(store, "there")
            break
        except Dead:
            pass
        convert(source, inner, resume=True)
        assert values(inner) == done, number
    assert number > 3


def test_units_that_are_done_are_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BLOCK_BYTES", 1)
    source, target = a_source(), with_old(LocalStore(tmp_path))
    source.left = 10
    with pytest.raises(KeyboardInterrupt):
        convert(source, target, resume=True, chunks=(5, 5))
    source.left, source.reads = 10**9, 0
    convert(source, target, resume=True, chunks=(5, 5))
    assert source.reads < 20  # of all chunks
    assert np.array_equal(tegula.open(target, path="there/a")[...], NEW)
