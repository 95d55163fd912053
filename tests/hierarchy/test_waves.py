"""Groups and tables in a remote store: the number of waves of requests, and the same results as in a local one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mixtures import build
from waves import WaveStore

import tegula
from tegula.errors import MetadataError
from tegula.hierarchy import ahead
from tegula.stores import MemoryStore, Store

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
GROUPS = ["zarr3", "zarr2"]


def group_of(count: int, format: str = "zarr3") -> tuple[WaveStore, tegula.Group]:
    store = WaveStore()
    group = tegula.create_group(store, format=format)
    for number in range(count):
        group.create_array(f"x{number:03}", shape=number + 1, dtype="i4")
    return store, tegula.open_group(store, "r+")


# --- opening


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("told", [True, False])
def test_an_array_is_opened_in_few_waves_without_a_request_made_twice(format: str, told: bool) -> None:
    store = WaveStore()
    tegula.create_array(store, shape=(6, 2), dtype="i4", format=format)
    for mode in ("r", "r+", "a"):
        with store.waves() as log:
            array = tegula.open(store, mode, format=format if told else None, shape=(6, 2)) if mode == "a" else (
                tegula.open_array(store, mode, format=format if told else None)
            )  # fmt: skip
        assert array.shape == (6, 2)
        assert len(log) == (1 if told or format in GROUPS else 2)  # first the documents of the common formats
        assert len({*log.requests}) == len(log.requests)
        assert len(log.requests) == 1 or not told or format != "zarr3"


def test_consolidated_group_opens_in_one_request_and_its_members_in_none() -> None:
    store, group = group_of(20)
    group.consolidate()
    with store.waves() as log:
        found = tegula.open_group(store, consolidated=True, format="zarr3")
        assert [array.shape for _, array in found.arrays()] == [(number + 1,) for number in range(20)]
        assert found["x003"].shape == (4,)
    assert log.requests == ["get zarr.json (0, 268435457)"]


# --- members


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("format", GROUPS)
@pytest.mark.parametrize(
    "look",
    [
        lambda group: dict(group.members()),
        lambda group: dict(group.arrays()),
        lambda group: dict(group.walk()),
        lambda group: str(group.tree()),
        lambda group: group.info,
    ],
)
def test_the_members_of_a_group_are_opened_in_two_waves(look: Callable[[Any], object], format: str) -> None:
    store, group = group_of(12, format)
    with store.waves() as log:
        look(group)
    assert len(log) == 2
    assert len({*log.requests}) == len(log.requests)
    assert len(log[1]) == {"zarr3": 12, "zarr2": 12 * 4}[format]


@pytest.mark.slow
def test_a_hierarchy_takes_as_many_waves_for_many_groups_as_for_few() -> None:
    waves = []
    for count in (2, 10):
        store = WaveStore(concurrency=256)
        group = tegula.create_group(store)
        for number in range(count):
            group.create_array(f"g{number}/h/x", shape=3, dtype="i4")
        with store.waves() as log:
            assert len([*group.walk()]) == 3 * count
        waves.append(len(log))
    assert waves[1] <= waves[0] + 2
    assert waves[0] <= 3 * 3


def test_a_large_group_is_opened_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_NODES", 5)
    store, group = group_of(12)
    with store.waves() as log:
        members = group.members()
        next(members)
        assert len(log.requests) == 1 + 5
        assert [name for name, _ in members] == [f"x{number:03}" for number in range(1, 12)]


# --- the same results as with local stores

NAMES = st.sampled_from(["a", "b", "c"])
NODES = st.sampled_from(["zarr3", "zarr2", "zarr1", "bcolz", "group zarr3", "group zarr2", "table", "broken", "file"])


def looks(store: Store, root: str) -> list[object]:
    """Return everything that can be seen of a hierarchy."""
    try:
        group = tegula.open(store, path=root)
    except tegula.TegulaError as error:
        return [type(error)]
    if not isinstance(group, tegula.Group):
        return [type(group)]
    seen: list[object] = [[*group], len(group), str(group.tree()).replace(store.url, "")]
    for implicit in (False, True):
        for list_nodes in (group.members, group.walk):
            failed: dict[str, str] = {}
            found = [(name, type(node), node.format) for name, node in list_nodes(failed, implicit=implicit)]
            seen += [found, sorted(failed)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen.append([name for name, _ in group.arrays()])
    return [*seen, len(caught), [name in group for name in "abc"]]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), NODES), max_size=8),
    st.sampled_from([("", ""), ("group zarr3", ""), ("group zarr2", ""), ("group zarr3", "a")]),
    st.integers(1, 4),
)
def test_remote_and_local_stores_show_the_same_members(
    nodes: list[tuple[str, str]], root: tuple[str, str], size: int
) -> None:
    local, remote = MemoryStore(), WaveStore(concurrency=4)
    build(local, [("", root[0]), *nodes] if root[0] else nodes)
    for key in local.list():
        remote.set(key, local.get(key) or b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "_NODES", size)
        patch.setattr(ahead, "_GROUPS", size)
        assert looks(remote, root[1]) == looks(local, root[1])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), NODES), max_size=8), NAMES)
def test_deleting_and_copying_leave_the_same_in_any_store(nodes: list[tuple[str, str]], name: str) -> None:
    local, remote = MemoryStore(), WaveStore(concurrency=4)
    build(local, [("", "group zarr3"), *nodes])
    for key in local.list():
        remote.set(key, local.get(key) or b"")
    copies: list[dict[str, bytes | None] | None] = []
    for store in (local, remote):
        group, copy = tegula.open_group(store, "r+"), WaveStore()
        if name not in group:
            copies.append(None)
            continue
        with suppress(MetadataError):  # a node whose documents can't be read is not copied, but deleted
            group.copy(name, tegula.create_group(copy))
        copies.append({key: copy.get(key) for key in copy.list()})
        documents = [key for key in store.list() if key.startswith((f"{name}/zarr.json", f"{name}/.z"))]
        del group[name]
        left = [key for key in store.list() if key.startswith(f"{name}/")]
        # a folder without a document keeps what is no node
        assert all(key.endswith("/notes.txt") and not documents for key in left)
    assert copies[0] == copies[1]
    assert sorted(local.list()) == sorted(remote.list())


# --- tables, deleting and copying in waves


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "bcolz"])
def test_a_table_takes_as_many_waves_for_many_columns_as_for_few(format: str) -> None:
    few, many = table_waves(2, format), table_waves(12, format)
    # a chain of requests for each column would be ten waves more; the threads of a busy machine may be late by one
    assert all(many[name] <= few[name] + 2 for name in few), (few, many)
    assert few["read"] <= 2


def table_waves(count: int, format: str) -> dict[str, int]:
    """Return the waves that operations on a table of `count` columns take."""
    store = WaveStore(concurrency=256)
    columns = {f"c{number}": np.arange(10) for number in range(count)}
    with store.waves() as creating:
        tegula.create_table(store, columns, format=format)
    table = tegula.open_table(store, "r+")
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: table[:],
        "append": lambda: table.append(columns),
        "change": lambda: table.__setitem__(slice(2), table[:2]),
        "refresh": table.refresh,
        "resize": lambda: table.resize(5),
        "info": lambda: table.info,
    }
    counted = {"create": len(creating)}
    for name, act in acts.items():
        with store.waves() as log:
            act()
        counted[name] = len(log)
    assert [*table["c1"][:]] == [0, 1, 2, 3, 4]
    return counted


@pytest.mark.slow
def test_deleting_and_copying_groups_takes_the_same_waves_for_any_size() -> None:
    waves = []
    for count in (2, 12):
        store = WaveStore(concurrency=256)
        group = tegula.create_group(store)
        for number in range(count):
            group.create_array(f"g/x{number}", shape=4, chunks=2, dtype="i4")[...] = number + 1
        with store.waves() as copying:
            group.copy("g", tegula.create_group(MemoryStore()))
        with store.waves() as deleting:
            del group["g"]
        assert [*store.list()] == ["zarr.json"]
        waves.append((len(copying), len(deleting)))
    assert all(many <= few + 2 for few, many in zip(*waves)), waves
