"""Keys by the prefix directly above them: the same answers as a search of all keys."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tegula.stores import MemoryStore, Store, ZipStore
from tegula.stores.arguments import split_children
from tegula.stores.key_tree import KeyTree

pytestmark = pytest.mark.once(executors="none")

KEYS = st.lists(st.text("ab/", min_size=1, max_size=6).filter(lambda key: "" not in key.split("/")))


@given(KEYS, st.lists(st.tuples(st.booleans(), st.integers(0, 20))), KEYS)
def test_it_knows_what_going_through_all_keys_finds(
    keys: list[str], steps: list[tuple[bool, int]], more: list[str]
) -> None:
    tree, wanted = KeyTree(keys), {*keys}
    for adds, at in steps:
        pool = [*keys, *more]
        if pool:
            key = pool[at % len(pool)]
            (tree.add if adds else tree.discard)(key)
            (wanted.add if adds else wanted.discard)(key)
    prefixes = {"", "a/", "c/"} | {f"{key[:end]}/" for key in [*keys, *more] for end in range(1, len(key) + 1)}
    for prefix in prefixes:
        assert tree.children(prefix) == split_children(wanted, prefix)
        assert sorted(tree.keys(prefix)) == sorted(key for key in wanted if key.startswith(prefix))


def test_a_key_of_many_segments_takes_no_memory_for_its_prefixes() -> None:
    keys = ["a/" * 20_000 + str(number) for number in range(10)]
    tracemalloc.start()
    try:
        tree = KeyTree(keys)
        assert tree.children("") == ([], ["a/"])
        assert tree.children("a/" * 20_000) == (keys, [])
        assert tree.keys("a/a/") == keys
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_many_changes_between_two_listings() -> None:
    tree = KeyTree(f"a/{number}" for number in range(500))
    for number in range(0, 1000, 2):
        tree.add(f"a/{number}")
    for number in range(0, 1000, 3):
        tree.discard(f"a/{number}")
    left = {*range(500), *range(0, 1000, 2)} - {*range(0, 1000, 3)}
    assert tree.keys("a/") == sorted(f"a/{number}" for number in left)


class Counted(dict[str, Any]):
    """Counts how often all keys are visited."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_listings_of_memory_go_through_all_keys_once() -> None:
    store = MemoryStore()
    store._values = Counted()
    for number in range(20):
        store.set(f"{number}/zarr.json", b"")
        assert store.list_dir(f"{number}/") == ([f"{number}/zarr.json"], [])
        assert [*store.list_prefix(f"{number}/")] == [f"{number}/zarr.json"]
    store.delete("3/zarr.json")
    assert len(store.list_dir("")[1]) == 19
    assert store._values.walks == 1


@pytest.mark.parametrize("mode", ["w", "r"])
def test_listings_of_an_archive_follow_what_is_set_and_deleted(mode: str, tmp_path: Path) -> None:
    store: Store = ZipStore(tmp_path / "x.zip", "w")
    assert [*store.list()] == []
    for key in ("a/x", "a/b/y", "c"):
        store.set(key, key.encode())
    store.set("a/x", b"again")
    store.delete("c")
    if mode == "r":
        store.close()
        store = ZipStore(tmp_path / "x.zip")
    assert store.list_dir("") == ([], ["a/"])
    assert sorted(store.list()) == ["a/b/y", "a/x"]
    assert store.list_dir("a/") == (["a/x"], ["a/b/"])
    store.close()
