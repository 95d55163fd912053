"""Zip archives in other stores: the bytes and requests that reading takes, and archives that change.

`test_zip.py` tests archives by other programs and damaged ones, for both kinds of store.
"""

from __future__ import annotations

import io
import pickle
import random
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import obstore.store
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import NotFoundError, ReadOnlyError, StoreError
from tegula.stores import FsspecStore, LocalStore, MappingStore, MemoryStore, ObjectStore, Store, ZipStore
from tegula.stores.zip.remote import RemoteZipStore

pytestmark = pytest.mark.once(executors="none")

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", compression=method) as writer:
        for name, value in members.items():
            writer.writestr(name, value)
    return archive.getvalue()


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "mapping": lambda _: MappingStore({}),
    "local": LocalStore,
    "fsspec": lambda _: FsspecStore(fsspec.filesystem("memory"), f"tests-{uuid.uuid4()}"),
    "fsspec files": lambda folder: FsspecStore(fsspec.filesystem("file"), folder),
    "obstore": lambda _: ObjectStore(obstore.store.MemoryStore()),
}


@pytest.fixture(params=[*STORES, "s3", "s3fs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param in STORES:
        return STORES[request.param](tmp_path)
    bucket = request.getfixturevalue("s3_server").bucket()
    if request.param == "s3":
        return ObjectStore(bucket.store())
    fs = fsspec.filesystem("s3", endpoint_url=bucket.endpoint, key="test-key", secret="test-secret")
    return FsspecStore(fs, bucket.name)


RANGES = [None, (0, 4), (3, 100), (-4, None), (-400, 2), (0, 0), (9, None), (3_000, 5), (5_000, 1), (10**7, 1)]


@pytest.mark.slow
@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("method", METHODS)
def test_members_are_read_as_from_a_file(store: Store, method: int, tmp_path: Path) -> None:
    members = {"a": b"x" * 5000, "b/c": b"", "é/日本": b"1", "d": random.Random(0).randbytes(3000), "b/e": b"22"}
    data = packed(members, method)
    store.set("some/x.zip", data)
    (tmp_path / "file.zip").write_bytes(data)
    archive = RemoteZipStore(store, "some/x.zip")
    for _ in range(2):  # the second time it is known where members begin
        with ZipStore(tmp_path / "file.zip") as file:
            assert sorted(archive.list()) == sorted(file.list())
            assert archive.list_dir("b/") == file.list_dir("b/")
            requests = [(key, part) for key in [*members, "no"] for part in RANGES]
            assert archive.get_many(requests) == file.get_many(requests)
            for key, part in requests:
                assert archive.get(key, part, with_generation=True) == file.get(key, part, with_generation=True)
                assert archive.size(key) == file.size(key)
                assert archive.exists(key) == file.exists(key)
    assert archive.read_only
    for change in (lambda: archive.set("a", b""), lambda: archive.delete("a"), lambda: archive.delete_prefix("")):
        with pytest.raises(ReadOnlyError):
            change()
    assert [*archive.unreachable()] == []
    assert archive == RemoteZipStore(store, "some/x.zip")
    assert archive.url.endswith("some/x.zip")
    with pytest.raises(NotFoundError):
        RemoteZipStore(store, "some/y.zip")


def test_a_pickled_archive() -> None:
    archive = RemoteZipStore(MemoryStore({"x.zip": packed({"a": b"1"})}), "x.zip")
    assert pickle.loads(pickle.dumps(archive)).get("a") == b"1"


# --- what is transferred


MEMBERS = {f"c/{number}": random.Random(number).randbytes(40_000) for number in range(100)}  # 4 MB


@pytest.mark.parametrize("kind", ["obstore", "s3fs", "http"])
def test_nothing_but_the_directory_and_the_members_is_transferred(
    kind: str, s3_server: Any, http_server: Any, proxied: Any
) -> None:
    data = packed(MEMBERS)
    proxy = proxied(http_server if kind == "http" else s3_server)
    bucket = proxy.bucket()
    if kind == "http":
        (http_server.directory(bucket) / "x.zip").write_bytes(data)
        store: Store = ObjectStore(bucket.store())
    else:
        bucket.store().put("x.zip", data)
        store = ObjectStore(bucket.store())
    if kind == "s3fs":
        fs = fsspec.filesystem("s3", endpoint_url=bucket.endpoint, key="test-key", secret="test-secret")
        store = FsspecStore(fs, bucket.name)
    with proxy.counted() as seen:
        archive = RemoteZipStore(store, "x.zip")
    assert len(seen) <= 4
    assert sum(request.sent for request in seen) <= 260 << 10
    assert len([*archive.list()]) == 100

    # one member, a part of one, and many in one wave
    with proxy.counted() as seen:
        assert archive.get("c/7") == MEMBERS["c/7"]
    assert len(seen) == 1
    assert sum(request.sent for request in seen) <= 40_200
    for key in ("c/8", "c/7"):
        with proxy.counted() as seen:
            assert archive.get(key, (30_000, 10)) == MEMBERS[key][30_000:30_010]
        assert len([request for request in seen if request.method == "GET"]) <= 2
        if kind == "s3fs":  # some read the gap between two ranges instead of sending two requests
            assert sum(request.sent for request in seen) <= 300
    proxy.set(latency=0.05)
    wanted = [f"c/{number}" for number in range(0, 100, 2)]
    with proxy.counted() as seen:
        assert archive.get_many([(key, None) for key in wanted]) == [MEMBERS[key] for key in wanted]
    assert len(seen) <= 50
    first, last = min(request.started for request in seen), max(request.started for request in seen)
    assert last - first < 0.05 or proxy.peak >= 8


def test_a_large_directory_takes_two_requests_more_at_most(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    bucket.store().put(
        "x.zip", packed({f"a/long/name/of/a/member/{number}": b"%d" % number for number in range(10_000)})
    )
    with proxy.counted() as seen:
        archive = RemoteZipStore(ObjectStore(bucket.store()), "x.zip")
    assert len(seen) <= 5
    assert archive.get("a/long/name/of/a/member/77") == b"77"


# --- archives that change


@pytest.mark.parametrize("part", [None, (2, 3)])
@pytest.mark.parametrize("same_size", [True, False])
def test_an_archive_that_changes_while_it_is_open(store: Store, part: Any, same_size: bool) -> None:
    store.set("x.zip", packed({"a": b"old value", "b": b"1" * 1000}))
    archive = RemoteZipStore(store, "x.zip")
    assert archive.get("a", part) == (b"old value" if part is None else b"d v")
    store.set("x.zip", packed({"a": b"new value", "b": b"2" * (1000 if same_size else 2000)}))
    for operation in (
        lambda: archive.get("a", part), lambda: archive.get_many([("b", part), ("a", part)]),
        lambda: archive.get("b", part),
    ):  # fmt: skip
        with pytest.raises(StoreError, match="changed while it was open"):
            operation()
    assert RemoteZipStore(store, "x.zip").get("a") == b"new value"
    store.delete("x.zip")
    with pytest.raises(StoreError):
        archive.get("a", part)


# --- anything at all


@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_an_archive_or_an_error(data: bytes) -> None:
    tail = b"PK\5\6" + data[:18].ljust(18, b"\0")
    for content in (data, data + tail, data + packed({}), packed({"a": data}) + data):
        try:
            archive = RemoteZipStore(MemoryStore({"x.zip": content}), "x.zip")
            values = archive.get_many([(key, None) for key in archive.list()])
        except StoreError:
            continue
        assert all(value is not None for value in values)
