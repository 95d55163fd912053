"""The documents that a remote store is asked for when a node is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.crude_s3 import CrudeS3, crude_s3
from waves import RevalidatingWaveStore, WaveStore

import tegula
from tegula import MemoryStore, Store
from tegula.engine.caches import document_cache
from tegula.formats import ALL_KEYS, COMMON_KEYS
from tegula.formats.keys import NETCDF_KEY

pytestmark = pytest.mark.once(executors="both")

ZARR: dict[str, Callable[[Store], object]] = {
    "zarr3 array": lambda store: tegula.create_array(store, shape=3, dtype="i4"),
    "zarr2 array": lambda store: tegula.create_array(store, shape=3, dtype="i4", format="zarr2", attributes={"a": 1}),
    "zarr3 group": lambda store: tegula.create_group(store, attributes={"a": 1}),
    "zarr2 group": lambda store: tegula.create_group(store, format="zarr2", attributes={"a": 1}),
    "zarr2 group without attributes": lambda store: tegula.create_group(store, format="zarr2"),
}
OTHERS: dict[str, Callable[[Store], object]] = {
    "zarr1 array": lambda store: tegula.create_array(store, shape=3, dtype="i4", format="zarr1"),
    "bcolz array": lambda store: tegula.create_array(store, shape=3, dtype="i4", format="bcolz"),
    "bcolz table": lambda store: tegula.create_table(store, {"u": [1, 2]}, format="bcolz"),
}
FAR = [WaveStore, RevalidatingWaveStore]


@pytest.fixture
def server() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server
    document_cache.KEPT.clear()  # another server may get the same port


def filled(store: Any, make: Callable[[Store], object]) -> Any:
    """Return a store with a node that this process has not opened or created in it."""
    memory = MemoryStore()
    make(memory)
    for key in memory.list():
        store.set(key, memory.get(key) or b"")
    return store


def kind_of(node: Any) -> str:
    return f"{node.format} {type(node).__name__.lower()}"


def gets(server: CrudeS3) -> list[str]:
    """Return the keys of the GET requests since the last call, and check that there are no others."""
    seen, server.seen = server.seen, []
    assert {method for method, *_ in seen} <= {"GET"}
    return sorted(path.removeprefix("/bucket/") for _, path, _ in seen)


@pytest.mark.parametrize("kind", ZARR)
@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_a_first_open_of_a_zarr_node_in_a_bucket_sends_four_gets(server: CrudeS3, kind: str, mode: str) -> None:
    memory = filled(MemoryStore(), ZARR[kind])
    for key in memory.list():
        server.values[f"/bucket/x/{key}"] = memory.get(key) or b"", {}
    node = tegula.open("s3://bucket/x", mode, storage_options=server.options)
    assert kind_of(node) in kind
    assert gets(server) == sorted(f"x/{key}" for key in COMMON_KEYS)
    # the second time, only the documents that determined the node are requested
    tegula.open("s3://bucket/x", mode, storage_options=server.options)
    assert len(gets(server)) <= 4


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_variable_in_a_group_is_opened_with_four_gets(server: CrudeS3, format: str) -> None:
    memory = MemoryStore()
    tegula.create_group(memory, format=format).create_array("inner/v", shape=3, dtype="i4")
    for key in memory.list():
        server.values[f"/bucket/x/{key}"] = memory.get(key) or b"", {}
    found = tegula.open_array("s3://bucket/x", path="inner/v", storage_options=server.options)
    assert found.format == format
    assert len(gets(server)) <= 4
    group = tegula.open_group("s3://bucket/x", storage_options=server.options)
    assert len(gets(server)) <= 4
    document_cache.KEPT.clear()
    assert group["inner/v"].shape == (3,)
    assert len(gets(server)) <= 4


@pytest.mark.parametrize("store_class", FAR)
@pytest.mark.parametrize("kind", [*ZARR, *OTHERS])
def test_rare_formats_are_asked_for_where_there_is_no_common_one(store_class: type[WaveStore], kind: str) -> None:
    store = filled(store_class(), {**ZARR, **OTHERS}[kind])
    with store.waves() as log:
        node = tegula.open(store)
    assert kind_of(node) in kind
    assert len(log) == (1 if kind in ZARR else 2)
    asked = [request.split()[1] for request in log.requests]
    assert sorted(asked) == sorted(COMMON_KEYS if kind in ZARR else {*ALL_KEYS} - {NETCDF_KEY})
    if store_class is RevalidatingWaveStore:  # which keeps the documents
        with store.waves() as log:
            assert tegula.open(store).format == node.format
        assert len(log) == 1


@pytest.mark.parametrize("store_class", FAR)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_kept_node_that_another_replaced_is_found(store_class: type[WaveStore], kind: str) -> None:
    for before, after in ((OTHERS[kind], ZARR["zarr2 group"]), (ZARR["zarr3 group"], OTHERS[kind])):
        store = filled(store_class(), before)
        tegula.open(store)
        for key in [*store.values.list()]:
            store.values.delete(key)
        other = filled(MemoryStore(), after)
        for key in other.list():
            store.values.set(key, other.get(key) or b"")
        assert tegula.open(store).format == tegula.open(other).format
        assert tegula.open(store).format == tegula.open(other).format
    with store.waves() as log:
        tegula.open(store)
    assert len(log) <= 2


def test_an_array_takes_precedence_over_a_group_in_a_remote_store() -> None:
    for array, group in (("zarr2", "zarr3"), ("zarr3", "zarr2")):
        store = filled(WaveStore(), ZARR[f"{group} group"])
        filled(store, ZARR[f"{array} array"])
        for found in (tegula.open(store), tegula.open(store, mode="r+")):
            assert (type(found).__name__, found.format) == ("Array", array)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_remote_group_of_a_common_format_hides_rare_formats(kind: str) -> None:
    store = WaveStore()
    memory = MemoryStore()
    OTHERS[kind](memory)
    tegula.create_group(store)
    for path in ("", "a/", "b/"):
        for key in memory.list():
            store.set(path + key, memory.get(key) or b"")
    store.set("a/zarr.json", store.get("zarr.json") or b"")
    group = tegula.open(store)
    assert (type(group).__name__, group.format) == ("Group", "zarr3")
    format = kind.partition(" ")[0]
    # whichever way it is opened
    for found in (group["a"], tegula.open(store, path="a"), dict(group.members())["a"], dict(group.walk())["a"]):
        assert (type(found).__name__, found.format) == ("Group", "zarr3")
    assert tegula.open(store, path="a", format=format).format == format
    assert tegula.open(store, path="b").format == format


def test_after_failed_requests_each_document_is_asked_for_alone() -> None:
    class Denying(WaveStore):
        denied = ("meta",)

        def passing(self, request: str) -> None:
            if request.startswith("get ") and request.split()[1].startswith(self.denied):
                raise tegula.StoreError("denied", key=request.split()[1])

    assert tegula.open(filled(Denying(), ZARR["zarr2 group"])).format == "zarr2"
    with pytest.raises(tegula.StoreError, match="denied"):
        tegula.open(filled(Denying(), OTHERS["bcolz array"]))
    store = filled(Denying(), ZARR["zarr3 group"])
    store.denied = (".zattrs",)
    with store.waves() as log:
        assert tegula.open(store).format == "zarr3"
    assert not any("meta" in request for request in log.requests)


@pytest.mark.parametrize("kind", [*ZARR, *OTHERS])
def test_a_remote_file_system_is_asked_for_the_same_documents(kind: str, tmp_path: Path) -> None:
    local = pytest.importorskip("fsspec").filesystem("file")
    {**ZARR, **OTHERS}[kind](tegula.store_of(tmp_path / "x"))
    waves: list[list[str]] = []

    class Counting(tegula.FsspecStore):
        def get_many(self, requests: Any) -> list[bytes | None]:
            waves.append([key for key, _ in requests])
            return super().get_many(requests)

    store = Counting(local, str(tmp_path / "x"))
    store.concurrency = 16  # as of a file system on a server
    assert kind_of(tegula.open(store)) in kind
    common, *others = waves
    assert sorted(common) == sorted(COMMON_KEYS)
    assert [key for keys in others for key in keys] == (
        [] if kind in ZARR else [key for key in ALL_KEYS if key not in (*COMMON_KEYS, NETCDF_KEY)]
    )
