"""Values that the storage copies itself: files by the operating system, objects by the service."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.buckets import Server
from tests.servers.fixtures import OBJECT_SERVERS
from tests.stores.crude_s3 import CrudeS3, crude_s3

import tegula
from tegula.errors import ConflictError, StoreError
from tegula.runtime import system
from tegula.stores import LocalStore, MemoryStore, ObjectStore
from tegula.stores.local import open_files
from tegula.stores.objects.urls import open_url

pytestmark = pytest.mark.once(executors="both")

FAILURES = [errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM]
VALUE = bytes(range(256)) * 20_000


@pytest.fixture
def crude() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


# -- files


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("the bytes came into this process")

    monkeypatch.setattr(open_files, "read_at", refuse)
    monkeypatch.setattr(LocalStore, "get", LocalStore.get)


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system has no such call")
def test_the_system_copies_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = LocalStore(tmp_path / "old"), LocalStore(tmp_path / "new")
    old.set("a/b", VALUE)
    forbid_reading(monkeypatch)
    assert new.copies_from(old)
    assert new.copy_from(old, "a/b", "c", create=True) == len(VALUE)
    assert (tmp_path / "new/c").read_bytes() == VALUE


def failing(code: int) -> Callable[..., int]:
    def call(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("after", [0, 1, 5000])
@pytest.mark.parametrize("code", [*FAILURES, 0])
def test_where_the_system_can_not_copy_the_bytes_are_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    def call(source: int, target: int, _count: int, start: int, _stop: int) -> int:
        if start < after:
            return os.pwrite(target, os.pread(source, after - start, start), start)
        return failing(code)() if code else 0  # 0: some file systems have the call and do nothing

    monkeypatch.setattr(system, "copy_range", call)
    old, new = LocalStore(tmp_path / "old"), LocalStore(tmp_path / "new")
    for value in (VALUE, b"", b"1"):
        old.set("a", value)
        assert new.copy_from(old, "a", "b") == len(value)
        assert new.get("b") == value


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_copy_leaves_the_old_value_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    old, new = LocalStore(tmp_path / "old"), LocalStore(tmp_path / "new")
    old.set("a", VALUE)
    new.set("x/b", b"old")
    monkeypatch.setattr(system, "copy_range", failing(code))
    for key in ("x/b", "y/c"):
        with pytest.raises(StoreError, match=key):
            new.copy_from(old, "a", key)
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) == ["b", "x"]
    assert new.get("x/b") == b"old"


@given(st.lists(st.sampled_from(["copy", "create", "set", "delete"]), max_size=12), st.binary(max_size=9))
def test_copies_have_generations_like_other_values(steps: list[str], value: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        store.set("old", value)
        seen = set()
        wanted = None
        for step in steps:
            if step == "delete":
                store.delete("new")
                wanted = None
                continue
            try:
                store.set("new", b"x") if step == "set" else store.copy_from(
                    store, "old", "new", create=step == "create"
                )
            except ConflictError:
                assert step == "create"
                assert wanted is not None
                continue
            assert step != "create" or wanted is None
            wanted = b"x" if step == "set" else value
            found, generation = store.get("new", with_generation=True)
            assert found == wanted
            assert generation not in seen
            seen.add(generation)


def test_subclass_with_its_own_get_or_set_is_not_bypassed_by_copies(tmp_path: Path) -> None:
    class Reading(LocalStore):
        def get(self, *args: Any, **options: Any) -> Any:
            return super().get(*args, **options)

    class Writing(LocalStore):
        def set(self, *args: Any, **options: Any) -> Any:
            return super().set(*args, **options)

    plain = LocalStore(tmp_path)
    assert not plain.copies_from(Reading(tmp_path))
    assert not Writing(tmp_path).copies_from(plain)
    assert not plain.copies_from(MemoryStore())


# -- objects


@pytest.mark.slow
@pytest.mark.sampled(one_in=25)
@pytest.mark.parametrize("name", OBJECT_SERVERS)
def test_a_node_is_copied_by_the_service(name: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("obstore")
    server: Server = request.getfixturevalue(name)
    bucket = server.bucket()
    old = ObjectStore(bucket.store("one"), "data")
    new = ObjectStore(bucket.store("two"))
    tegula.save(old, x=range(1000), y=[1.5, 2.5])
    assert new.copies_from(old, create=True)
    sent: list[str] = []
    put = ObjectStore.set

    class Counting(ObjectStore):
        def set(self, key: str, value: Any, **options: Any) -> Any:
            sent.append(key)
            return put(self, key, value, **options)

    target = Counting(bucket.store("two"))
    report = tegula.copy(old, target)
    assert {key: target.get(key) for key in target.list()} == {key: old.get(key) for key in old.list()}
    assert report.nbytes == sum(len(old.get(key)) for key in old.list())
    assert all(key.endswith("zarr.json") for key in sent)  # documents as they were read and compared
    with pytest.raises(tegula.errors.AlreadyExistsError):
        tegula.copy(old, target)


@pytest.mark.slow
@pytest.mark.parametrize("codecs", [None, "zstd"])
def test_chunks_of_a_conversion_are_copied_by_the_service(s3_server: Server, codecs: str | None) -> None:
    pytest.importorskip("obstore")
    bucket = s3_server.bucket()
    old = ObjectStore(bucket.store("one"))
    sent: list[str] = []
    put = ObjectStore.set

    class Counting(ObjectStore):
        def set(self, key: str, value: Any, **options: Any) -> Any:
            sent.append(key)
            return put(self, key, value, **options)

    source = tegula.create_array(old, shape=(40, 40), chunks=(10, 10), dtype="i4", codecs=codecs, format="zarr2")
    source[:, :20] = 7
    target = Counting(bucket.store("two"))
    report = tegula.convert(source, target, format="zarr3", verify=True)
    assert (report.ok, report.chunks_copied, report.chunks_stored) == (True, 8, 8)
    assert report.nbytes_after == report.nbytes_before == source.nbytes_stored()
    assert not [key for key in sent if key.startswith("c/")]


def opened(server: CrudeS3, prefix: str = "data", **options: Any) -> ObjectStore:
    backoff = {"retry_config": {"backoff": {"init_backoff": 0.001, "max_backoff": 0.01}}}
    return open_url(f"s3://bucket/{prefix}", {**server.options, **backoff, **options})


def test_a_service_that_does_not_copy_is_found_out(crude: CrudeS3) -> None:
    pytest.importorskip("obstore")
    old, new = opened(crude, "old"), opened(crude, "new")
    old.set("a", b"1")
    assert not new.copies_from(old)
    assert not new.copies_from(old, create=True)
    assert [*crude.values] == ["/bucket/old/a"]  # the trial leaves nothing
    tegula.save(old, [1, 2, 3], path="x")
    tegula.copy(tegula.open(old, path="x"), new, path="y")
    assert tegula.open(new, path="y")[:].tolist() == [1, 2, 3]


def test_other_buckets_and_endpoints_are_not_copied_from(crude: CrudeS3) -> None:
    pytest.importorskip("obstore")
    store = opened(crude)
    assert not store.copies_from(open_url("s3://other/data", crude.options))
    assert not store.copies_from(open_url("s3://bucket/data", {**crude.options, "endpoint": "http://127.0.0.1:1"}))
    assert not store.copies_from(LocalStore("/nowhere"))
