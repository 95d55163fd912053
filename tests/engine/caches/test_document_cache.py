"""Opening nodes of a remote store again: how many requests it takes, and that it sees what has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from remote_stores import RemoteStore, RevalidatingStore
from tests.waiting import exit_code

import tegula
from tegula import config
from tegula.engine.caches import document_cache
from tegula.errors import MetadataError, NotFoundError
from tegula.stores import MemoryStore
from tegula.testing import Fault, FaultyStore

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
KEYS = {"zarr3": "zarr.json", "zarr2": ".zarray", "zarr1": "meta", "bcolz": "meta/storage"}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    document_cache.KEPT.clear()


def behind(store: MemoryStore, key: str, old: bytes, new: bytes) -> None:
    """Change a document as another process would."""
    value = store.get(key)
    assert old in value
    store.set(key, value.replace(old, new))


@pytest.mark.parametrize("kind", [RemoteStore, RevalidatingStore])
@pytest.mark.parametrize("format", FORMATS)
def test_opening_again_takes_no_request_if_nothing_is_compared(kind: Any, format: str) -> None:
    store = kind()
    tegula.create_array(store, path="a", shape=4, dtype="i4", format=format)
    with config.configure(recheck="never"):
        tegula.open(store, path="a")
        store.requests()
        assert tegula.open(store, path="a").shape == (4,)
        assert store.requests() == 0
    with config.configure(recheck="open"):
        assert tegula.open(store, path="a").shape == (4,)
        if kind is RevalidatingStore:
            assert {*store.asked} == {"conditional"}  # nothing is sent twice
            assert set(store.keys.values()) == {1}


@pytest.mark.parametrize("format", FORMATS)
def test_only_documents_that_decided_the_last_time_are_asked_for_again(format: str) -> None:
    store = RevalidatingStore()
    tegula.create_array(store, path="a", shape=4, dtype="i4", format=format)
    tegula.open(store, path="a")
    store.requests()
    assert tegula.open(store, path="a").format == format
    asked = store.requests()
    assert asked == 1 if format == "zarr3" else asked < 12
    # another process replaces the array by one of another format, and then by a group
    for other in (*FORMATS, "group"):
        made = MemoryStore()
        if other == "group":
            tegula.create_group(made, path="a")
        else:
            tegula.create_array(made, path="a", shape=5, dtype="i4", format=other)
        for key in [*store.list_prefix("a/")]:
            MemoryStore.delete(store, key)
        for key in made.list():
            MemoryStore.set(store, key, made.get(key))
        for _ in range(3):
            store.requests()
            found = tegula.open(store, path="a")
            asked = store.requests()
            assert isinstance(found, tegula.Group) if other == "group" else found.format == other
        assert asked <= 12


@pytest.mark.parametrize("rule", ["open", "always", "never", 0, 1000])
def test_opening_sees_what_it_has_to(rule: Any) -> None:
    for kind in (RemoteStore, RevalidatingStore):
        store = kind()
        with config.configure(recheck=rule):
            array = tegula.create_array(store, path="a", shape=4, dtype="i4", attributes={"x": 1})
            tegula.open(store, path="a")
            array.attrs["x"] = 2  # by this process
            assert tegula.open(store, path="a").attrs["x"] == 2
            array.resize(7)
            assert tegula.open(store, path="a").shape == (7,)
            array.append([1])
            assert tegula.open(store, path="a").shape == (8,)
            behind(store, "a/zarr.json", b'"x": 2', b'"x": 5')
            assert tegula.open(store, path="a").attrs["x"] == (2 if rule in ("never", 1000) else 5)
            array.refresh()
            assert array.attrs["x"] == 5
            array.attrs["y"] = 1
            assert dict(tegula.open(store, path="a").attrs) == {"x": 5, "y": 1}
            tegula.delete(store, path="a")
            with pytest.raises(NotFoundError):
                tegula.open(store, path="a")
            tegula.create_array(store, path="a", shape=3, dtype="i4")
            assert tegula.open(store, path="a").shape == (3,)
            tegula.create_array(store, path="a", shape=5, dtype="i4", overwrite=True)
            assert tegula.open(store, path="a").shape == (5,)


def test_a_node_that_was_not_there_is_looked_for_again() -> None:
    store = RevalidatingStore()
    with config.configure(recheck="never"):
        with pytest.raises(NotFoundError):
            tegula.open_array(store, mode="r")
        made = MemoryStore()
        tegula.create_array(made, shape=4, dtype="i4")
        store.set("zarr.json", made.get("zarr.json"))  # another process
        assert tegula.open_array(store, mode="r").shape == (4,)


@pytest.mark.parametrize("rule", ["never", "open"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_document_that_was_cut_short_is_asked_for_again(format: str, rule: Any) -> None:
    store = FaultyStore(RevalidatingStore())
    tegula.create_array(store, path="a", shape=4, dtype="i4", format=format)
    document_cache.KEPT.clear()
    with config.configure(recheck=rule):
        store.arm(Fault("short", keys=f"a/{KEYS[format]}$", times=1))
        with pytest.raises(MetadataError):
            tegula.open(store, path="a")
        assert store.struck
        assert tegula.open(store, path="a").shape == (4,)


def test_documents_of_local_stores_are_not_cached(tmp_path: Any) -> None:
    with config.configure(recheck="never"):
        array = tegula.create_array(tmp_path, shape=4, dtype="i4")
        tegula.open(tmp_path)
        assert not document_cache.KEPT
        array.resize(5)
        assert tegula.open(tmp_path).shape == (5,)


def test_the_budget_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache.KEPT, "budget", 8000)
    store = RevalidatingStore()
    for number in range(20):
        tegula.create_array(store, path=f"a{number}", shape=4, dtype="i4", attributes={"x": "y" * number * 200})
    for number in range(20):
        tegula.open(store, path=f"a{number}")
        assert document_cache.KEPT.nbytes <= 8000
        kept = [raw for raw, _, _ in document_cache.KEPT.entries.values()]
        assert document_cache.KEPT.nbytes == sum(len(raw or b"") + 512 for raw in kept)
    assert document_cache.KEPT.nbytes > 1500


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_opens_anew() -> None:
    store = RemoteStore()
    tegula.create_array(store, shape=4, dtype="i4")
    with config.configure(recheck="never"):
        tegula.open(store)
        with document_cache.KEPT.lock:  # as if another thread had it
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if tegula.open(store).shape == (4,) else 1)
                finally:
                    os._exit(2)
        assert exit_code(child) == 0
