"""Copies and moves that replace a node: the old one stays until the new one is complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obstore.store import MemoryStore as Bucket

import tegula
from tegula.errors import StoreError
from tegula.stores import LocalStore, MappingStore, MemoryStore, ObjectStore, Store
from tegula.stores.zip.store import ZipStore

STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda path: LocalStore(path / "target"),
    "memory": lambda path: MemoryStore(),
    "mapping": lambda path: MappingStore({}),
    "bucket": lambda path: ObjectStore(Bucket()),
    "zip": lambda path: ZipStore(path / "target.zip", "w"),
}
FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz")
OLD, NEW = np.arange(12, dtype="f8"), np.arange(30, dtype="i2")


class Failing(MemoryStore):
    """A store whose values that end in ``bad`` can't be read."""

    bad = "?"

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if key.endswith(self.bad):
            raise StoreError("the disk is broken", key=key)
        return super().get(key, *args, **options)


def source_of(format: str) -> Failing:
    store = Failing()
    for path in ("one", "group/x", "group/y") if format != "zarr1" and format != "bcolz" else ("one",):
        array = tegula.create_array(store, path=path, shape=30, chunks=10, dtype="i2", format=format)
        array[...] = NEW
    return store


def old_in(store: Store, path: str, format: str) -> None:
    array = tegula.create_array(store, path=path, shape=12, chunks=2, dtype="f8", format=format)
    array[...] = OLD


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("action", [tegula.copy, tegula.move])
def test_a_failed_copy_leaves_what_it_would_have_replaced(
    action: Callable[..., Any], kind: str, format: str, tmp_path: Path
) -> None:
    source, target = source_of(format), STORES[kind](tmp_path)
    old_in(target, "there", format)
    before = {key: target.get(key) for key in target.list()}
    source.bad = next(key for key in source.list_prefix("one/") if key.endswith(("1", "1.blp")))
    node = tegula.open_array(source, path="one", mode="r+")
    with pytest.raises(StoreError, match="the disk is broken"):
        action(node, target, path="there", overwrite=True)
    assert {key: target.get(key) for key in target.list()} == before
    if kind == "local":
        assert not [*tmp_path.rglob(".tegula-*")]
    source.bad = "?"
    action(node, target, path="there", overwrite=True)
    assert np.array_equal(tegula.open_array(target, path="there")[...], NEW)
    copied = MemoryStore()
    tegula.copy(source_of(format), copied)
    names = {key.removeprefix("one/") for key in copied.list_prefix("one/")}
    assert {key.removeprefix("there/") for key in target.list_prefix("there/")} == names  # nothing of the old node


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("kind", STORES)
def test_groups_replace_arrays_and_implicit_groups(kind: str, format: str, tmp_path: Path) -> None:
    source, target = source_of(format), STORES[kind](tmp_path)
    for path in ("there", "group/x", "implicit/x"):
        old_in(target, path, format)
    target.set("implicit/notes.txt", b"mine")
    target.set("implicit/y/c/9", b"left by a copy that was killed")
    target.set("implicit/y/9", b"left by a copy that was killed")
    for path in ("there", "group", "implicit"):
        for name in ("zarr.json", ".zgroup") if path == "implicit" else ():
            target.delete(f"{path}/{name}")
        tegula.copy(source, target, path=path, overwrite=True)
        for name in ("one", "group/x", "group/y"):
            assert np.array_equal(tegula.open_array(target, path=f"{path}/{name}")[...], NEW)
    assert target.get("implicit/notes.txt") == b"mine"


@pytest.mark.parametrize("format", FORMATS)
def test_a_rename_that_fails_leaves_both_nodes(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    old_in(store, "there", format)
    array = tegula.create_array(store, path="one", shape=30, chunks=10, dtype="i2", format=format)
    array[...] = NEW
    before = {key: store.get(key) for key in store.list()}

    def fail(*args: Any) -> bool:
        raise StoreError("it is in use")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "move_prefix", fail)
        with pytest.raises(StoreError, match="it is in use"):
            tegula.move(array, store, path="there", overwrite=True)
    assert {key: store.get(key) for key in store.list()} == before
    assert tegula.move(array, store, path="there", overwrite=True).renamed
    assert np.array_equal(tegula.open_array(store, path="there")[...], NEW)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["there"]
    with pytest.raises(tegula.NotFoundError):
        array[0]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_beside_the_rename_loses_neither_node(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    old_in(store, "there", "zarr3")
    array = tegula.create_array(store, path="one", shape=30, chunks=10, dtype="i2")
    array[...] = NEW
    rename = LocalStore.move_prefix

    def interrupted(*args: Any) -> bool:
        if when == "after":
            rename(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "move_prefix", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tegula.move(array, store, path="there", overwrite=True)
    found = tegula.open_array(store, path="there")[...]
    assert np.array_equal(found, NEW if when == "after" else OLD)
    if when == "before":
        assert np.array_equal(tegula.open_array(store, path="one")[...], NEW)
