"""`FsspecStore`: what fsspec's file systems make difficult: names, caches, ranges, errors, secrets, loops and forks."""

from __future__ import annotations

import asyncio
import http.server
import os
import pickle
import subprocess
import sys
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import ConflictError, ReadOnlyError, StoreError, UnsupportedError
from tegula.stores import ABSENT, FsspecStore
from tegula.stores.capabilities import blocked_by
from tegula.stores.fsspec import listing as file_listing
from tegula.testing.suite import run_together

NAMES = [
    "a#b", "a?b", "a?b=c", "a%20b", "a b", "50%", "*", "a*", "[ab]", "a", "b", "a::b", "zip::a", "é/日本", "~a", "~",
    "a:b", "file:a", "a@b", "a&b=c", "+", "a\\b", "'\"", "{a,b}", "...", "d/*/e", "d/x/e", "a;b", "a|b", "$a",
]  # fmt: skip


def memory() -> FsspecStore:
    return FsspecStore(fsspec.filesystem("memory"), f"tests-{uuid.uuid4()}")


@pytest.fixture
def s3(s3_server: Any) -> FsspecStore:
    return on_s3(s3_server.bucket())


def on_s3(bucket: Any, **options: Any) -> FsspecStore:
    fs = fsspec.filesystem("s3", endpoint_url=bucket.endpoint, key="test-key", secret="test-secret", **options)
    return FsspecStore(fs, bucket.name)


@pytest.fixture(params=["memory", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FsspecStore:
    if request.param == "memory":
        return memory()
    if request.param == "file":
        return FsspecStore(fsspec.filesystem("file"), tmp_path / "root")
    found: FsspecStore = request.getfixturevalue("s3")
    return found


# --- names


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
def test_every_name_is_one_file_and_no_pattern(store: FsspecStore) -> None:
    for name in NAMES:
        store.set(name, name.encode())
    assert sorted(store.list()) == sorted(NAMES)
    assert store.get_many([(name, None) for name in NAMES]) == [name.encode() for name in NAMES]
    for number, name in enumerate(NAMES):
        assert store.get(name) == name.encode()
        assert store.size(name) == len(name.encode())
        store.delete(name)
        assert sorted(store.list()) == sorted(NAMES[number + 1 :])


def test_a_prefix_is_no_pattern(store: FsspecStore) -> None:
    for key in ["[ab]/x", "a/x", "*/x", "b#/x", "b/x"]:
        store.set(key, b"1")
    assert store.list_dir("*/") == (["*/x"], [])
    assert [*store.list_prefix("[ab]/")] == ["[ab]/x"]
    store.delete_prefix("*/")
    store.delete_prefix("[ab]/")
    assert sorted(store.list()) == ["a/x", "b#/x", "b/x"]


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1), st.binary()
    )
)
def test_any_names_in_memory(values: dict[str, bytes]) -> None:
    values = {name: value for name, value in values.items() if name not in (".", "..")}
    store = memory()
    for name, value in values.items():
        store.set(f"d/{name}", value)
    assert {key.removeprefix("d/"): store.get(key) for key in store.list_prefix("d/")} == values
    store.delete_prefix("")


def test_the_stores_own_names_are_refused_and_not_shown(tmp_path: Path) -> None:
    store = FsspecStore(fsspec.filesystem("file"), tmp_path)
    with pytest.raises(StoreError, match="own"):
        store.set("a/.tegula-1.tmp", b"1")
    (tmp_path / ".tegula-1-2.tmp").write_bytes(b"torn")  # as a killed writer leaves it
    store.set("a", b"1")
    assert [*store.list()] == ["a"]
    assert store.list_dir("") == (["a"], [])


# --- directories


def test_directories_in_the_place_of_keys(tmp_path: Path) -> None:
    store = FsspecStore(fsspec.filesystem("file"), tmp_path)
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    store.set("a/b", b"1")
    assert store.get("a") is None
    assert store.size("a") is None
    assert not store.exists("empty")
    assert "a directory" in str(blocked_by(store, "a"))
    assert blocked_by(store, "no") is None
    with pytest.raises(StoreError) as caught:
        store.set("a", b"2")
    assert caught.value.key == "a"
    store.delete("a")
    store.delete("empty")
    assert store.get_many([("a", None), ("a/b/c", None), ("a/b", None)]) == [None, None, b"1"]
    assert store.list_dir("") == ([], ["a/"])
    assert [*store.list()] == ["a/b"]
    store.delete_prefix("a/")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "empty" / "inner").exists()
    assert not [*tmp_path.rglob(".tegula*")]


def test_a_link_to_a_file_is_a_key(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"1")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    store = FsspecStore(fsspec.filesystem("file"), tmp_path / "root")
    assert [*store.list()] == ["link"]
    assert store.get("link") == b"1"


# --- caches


def test_a_listing_shows_what_others_have_just_written(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    here, there = on_s3(bucket, skip_instance_cache=True), on_s3(bucket, skip_instance_cache=True)
    assert here.fs is not there.fs
    for turn in range(3):
        here.fs.ls(bucket.name)  # fills the cache
        there.set(f"d{turn}/a", b"1" * turn)
        assert here.list_dir("")[1] == [f"d{number}/" for number in range(turn + 1)]
        assert here.list_dir(f"d{turn}/")[0] == [f"d{turn}/a"]
        assert here.size(f"d{turn}/a") == turn
        there.set(f"d{turn}/a", b"22222")
        assert here.size(f"d{turn}/a") == 5
        there.set(f"d{turn}/b", b"1")
        assert here.list_dir(f"d{turn}/")[0] == [f"d{turn}/a", f"d{turn}/b"]
    there.delete_prefix("d0/")
    assert here.list_dir("")[1] == ["d1/", "d2/"]


# --- what can't be written


def archive(folder: Path) -> str:
    with zipfile.ZipFile(folder / "x.zip", "w") as members:
        members.writestr("a/b", b"1")
    return str(folder / "x.zip")


READ_ONLY: dict[str, Callable[[Path], Any]] = {
    "http": lambda _: fsspec.filesystem("http"),
    "zip": lambda folder: fsspec.filesystem("zip", fo=archive(folder)),
    "reference": lambda _: fsspec.filesystem("reference", fo={"a/b": "base64:MQ=="}),
    "data": lambda _: fsspec.filesystem("data"),
    **{
        name: lambda _, name=name: fsspec.filesystem(name, target_protocol="memory")
        for name in ("simplecache", "filecache", "blockcache")
    },
}


@pytest.mark.parametrize("kind", READ_ONLY)
def test_file_systems_that_can_not_be_written_say_so(kind: str, tmp_path: Path) -> None:
    store = FsspecStore(READ_ONLY[kind](tmp_path), "http://host/x" if kind == "http" else "")
    assert store.read_only
    with pytest.raises(ReadOnlyError):
        store.set("a", b"1")
    with pytest.raises(ReadOnlyError):
        store.delete("a")
    if kind in ("zip", "reference"):
        assert [*store.list()] == ["a/b"]
        assert store.list_dir("") == ([], ["a/"])
        assert store.get_many([("a/b", None), ("a/b", (0, 1)), ("no", None)]) == [b"1", b"1", None]


def test_what_is_no_file_system_is_refused() -> None:
    for odd in (None, "memory://", {}, object()):
        with pytest.raises(StoreError, match="file system of fsspec"):
            FsspecStore(odd)
    with pytest.raises(StoreError, match="root"):
        FsspecStore(fsspec.filesystem("memory"), 7)


# --- requests


def test_values_are_read_in_one_wave_by_one_request_each(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server)
    store = on_s3(proxy.bucket(), config_kwargs={"max_pool_connections": 64})
    for number in range(40):
        store.set(f"c/{number}", b"%d" % number)
    store.get("c/0")
    proxy.set(latency=0.1)
    with proxy.counted() as seen:
        found = store.get_many([(f"c/{number}", None if number % 2 else (0, 2)) for number in range(50)])
    assert found == [b"%d" % number for number in range(40)] + [None] * 10
    assert [request.method for request in seen if request.method != "HEAD"] == ["GET"] * 50
    assert len(seen) <= 70  # ranges beyond the end take a look at the size
    assert store.concurrency >= 32
    assert proxy.peak >= 20
    with proxy.counted() as seen:
        assert store.get("c/7") == b"7"
    assert len(seen) == 1
    store.set("empty", b"")
    assert store.get("empty") == b""


class Sloppy(MemoryFileSystem):
    """A file system that returns short answers, or raises a chosen error."""

    cachable = False
    short = 0
    error: BaseException | None = None

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if self.error is not None:
            raise self.error
        found: bytes = super().cat_file(path, start, end, **options)
        return found[: len(found) - self.short]

    def info(self, path: str, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        return super().info(path, **options)

    ls = find = pipe_file = rm_file = None


for _name in ("ls", "find", "pipe_file", "rm_file"):

    def _method(self: Sloppy, *arguments: Any, name: str = _name, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        return getattr(MemoryFileSystem, name)(self, *arguments, **options)

    setattr(Sloppy, _name, _method)


def test_a_short_answer_is_an_error() -> None:
    store = FsspecStore(Sloppy(), f"sloppy-{uuid.uuid4()}")
    store.set("a", bytes(100))
    store.fs.short = 1
    with pytest.raises(StoreError, match="sent 9 bytes of a range of 10") as caught:
        store.get("a", (5, 10))
    assert caught.value.key == "a"
    with pytest.raises(StoreError):
        store.get_many([("a", (5, 10))])


class WithoutSuffixes(Sloppy):
    """A file system that can't count from the end, as that of Azure, and may replace the value before a read."""

    values: list[bytes]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if start is not None and start < 0:
            raise ValueError("no Content-Range")
        if self.values:
            self.pipe_file(path, self.values.pop())
        return super().cat_file(path, start, end, **options)


@pytest.mark.parametrize("replaced", [0, 1, 2])
def test_a_file_system_without_suffixes_is_asked_for_ranges(replaced: int) -> None:
    store = FsspecStore(WithoutSuffixes(), f"sloppy-{uuid.uuid4()}")
    values = [bytes([number]) * (20 + number) for number in range(3)]
    for wanted in ((-5, None), (-5, 2), (-50, None)):
        store.fs.values = []
        store.set("a", values[0])
        store.fs.values = values[replaced:0:-1]
        expected = values[replaced][slice(*wanted)] if wanted[1] is None else values[replaced][-5:-3]
        assert store.get("a", wanted) == expected
        assert store.get_many([("a", wanted), ("b", wanted)]) == [expected, None]
        assert store.get("b", wanted) is None


SECRETS = {"key": "AKIAEXAMPLE", "client_kwargs": {"aws_session_token": "sess-word", "region": "eu"}}


@pytest.mark.parametrize("error", [PermissionError, OSError, ValueError, RuntimeError, KeyError, NotImplementedError])
def test_any_other_error_is_a_store_error_without_secrets(error: type[Exception]) -> None:
    store = FsspecStore(Sloppy(**SECRETS), f"sloppy-{uuid.uuid4()}")
    store.set("a", b"1")
    store.fs.error = error("AKIAEXAMPLE sess-word https://me:hidden@host/x?X-Amz-Signature=hidden")
    operations: list[Callable[[], Any]] = [
        lambda: store.get("a"), lambda: store.get("a", (0, 1)), lambda: store.get_many([("a", None)]),
        lambda: store.size("a"), lambda: store.set("a", b"2"), lambda: store.delete("a"),
        lambda: [*store.list()], lambda: store.list_dir(""), lambda: store.delete_prefix(""),
    ]  # fmt: skip
    for operation in operations:
        with pytest.raises(StoreError) as caught:
            operation()
        text = f"{caught.value!s} {caught.value!r}"
        assert error.__name__ in text
        for secret in ("AKIAEXAMPLE", "sess-word", "hidden"):
            assert secret not in text
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_user_info_that_a_file_system_takes_for_a_name_is_in_no_message() -> None:
    store = FsspecStore(Sloppy(), "key:h1dden@bucket/x", url="filecache::sloppy://bucket/x")
    store.fs.error = ValueError('Invalid bucket name "key:h1dden@bucket", or h1dden is wrong')
    with pytest.raises(StoreError, match=r'Invalid bucket name "\*\*\*@bucket", or \*\*\* is wrong'):
        store.get("a")


def test_the_cause_of_a_file_that_is_not_found_is_told() -> None:
    store = FsspecStore(Sloppy(), f"sloppy-{uuid.uuid4()}")
    store.fs.error = FileNotFoundError("https://host/x")
    store.fs.error.__cause__ = ConnectionResetError("reset by https://me:hidden@host/x")
    with pytest.raises(StoreError, match="failed to read: ConnectionResetError: reset by https://host/x") as caught:
        store.get("a")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("error", [FileNotFoundError, NotADirectoryError, IsADirectoryError])
def test_only_a_file_that_does_not_exist_is_missing(error: type[Exception]) -> None:
    store = FsspecStore(Sloppy(), f"sloppy-{uuid.uuid4()}")
    store.fs.error = error("no")
    assert store.get("a") is None
    assert store.get_many([("a", None), ("a", (0, 1))]) == [None, None]
    assert store.size("a") is None
    assert [*store.list()] == []
    store.delete("a")
    with pytest.raises(StoreError):
        store.set("a", b"1")


# --- web servers


@pytest.fixture
def plain_server(tmp_path: Path) -> Iterator[str]:
    """A web server that ignores ranges."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(30)


RANGES = [(0, None), (3, None), (12, None), (-4, None), (-15, None), (0, 0), (0, 4), (3, 4), (3, 100), (9, 1), (10, 1),
          (40, 2), (-4, 2), (-15, 2), (0, 10)]  # fmt: skip


@pytest.mark.sampled(one_in=33)
@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_server(ranges: bool, http_server: Any, plain_server: str, tmp_path: Path) -> None:
    address, folder = plain_server, tmp_path
    if ranges:
        bucket = http_server.bucket()
        address, folder = bucket.url, http_server.directory(bucket)
    value = b"0123456789"
    names = ["a", "a#b", "a b", "a%20b", "a?b", "é", "[a]", "c/0/1"]
    (folder / "c" / "0").mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(value)
    store = FsspecStore(fsspec.filesystem("http"), address)
    assert store.read_only
    for name in names:
        assert store.get(name) == value
        assert store.size(name) == 10
        assert store.get_many([(name, part) for part in RANGES]) == [
            value[max(0, 10 + start) if start < 0 else start :][:length] for start, length in RANGES
        ]
    assert store.get("no") is None
    assert store.size("no") is None
    assert store.get_many([("no", None), ("no", (0, 1)), ("no", (-1, None))]) == [None] * 3
    assert not store.listable
    for listing in (store.list, lambda: store.list_dir("")):
        with pytest.raises(UnsupportedError, match="can't be listed"):
            listing()


def test_rejected_web_option_is_an_error_not_a_missing_value(http_server: Any) -> None:
    bucket = http_server.bucket()
    (http_server.directory(bucket) / "a").write_bytes(b"1")
    store = tegula.store_of(f"{bucket.url}?version=1", read_only=True, storage_options={"retries": 1})
    for action in (lambda: store.get("a"), lambda: store.get("a", (0, 1)), lambda: store.get_many([("a", (0, 1))])):
        with pytest.raises(StoreError):
            action()


def test_a_query_of_an_address_stands_behind_each_name(http_server: Any, proxied: Any) -> None:
    proxy = proxied(http_server)
    bucket = proxy.bucket()
    (http_server.directory(bucket) / "x").mkdir()
    (http_server.directory(bucket) / "x" / "a#b").write_bytes(b"1")
    store = tegula.store_of(f"{bucket.url}/x?version=hidden", read_only=True)
    assert store.get("a#b") == b"1"
    assert {request.query for request in proxy.requests} == {"version=hidden"}
    assert "hidden" not in f"{store!r}{store.url}"


# --- threads, loops, processes


def test_conditions_hold_between_stores_with_other_roots(store: FsspecStore) -> None:
    outer, inner = store, FsspecStore(store.fs, f"{store.root}/d")
    won: list[bytes] = []

    def create(turn: int) -> None:
        target, key = (outer, "d/a") if turn % 2 else (inner, "a")
        with suppress(ConflictError):
            target.set(key, b"%d" % turn, if_generation=ABSENT)
            won.append(b"%d" % turn)

    run_together([partial(create, turn) for turn in range(8)])
    assert won == [outer.get("d/a")]


def test_inside_a_running_event_loop(s3: FsspecStore) -> None:
    async def main() -> None:
        s3.set("a", b"1")
        assert s3.get_many([("a", None)]) == [b"1"]
        there = FsspecStore(type(s3.fs)(**s3.fs.storage_options, asynchronous=True), s3.root)
        assert there.get("a") == b"1"
        assert [*there.list()] == ["a"]

    asyncio.run(main())


FORKS = """
import fsspec, os, signal, sys, threading, time, tegula
if sys.argv[1] == "memory":
    fs = fsspec.filesystem("memory", global_store=False)
    root = "x"
elif sys.argv[1] == "file":
    fs, root = fsspec.filesystem("file"), sys.argv[2]
else:
    fs = fsspec.filesystem("s3", endpoint_url=sys.argv[2], key="test-key", secret="test-secret")
    root = sys.argv[3]
store = tegula.FsspecStore(fs, root)
store.set("a", b"1")
busy = threading.Thread(target=lambda: [store.get("a") for _ in range(50)])
busy.start()
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            assert store.get_many([("a", None), ("no", None)]) == [b"1", None]
            store.set(f"child/{number}", b"2")
            assert sorted(store.list_prefix("child/"))
            status = 0
        finally:
            os._exit(status)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
busy.join(60)
assert store.get("a") == b"1"
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("kind", ["memory", "file", "s3"])
def test_a_forked_child_makes_connections_of_its_own(kind: str, s3_server: Any, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    where = {"memory": [], "file": [str(tmp_path)], "s3": [bucket.endpoint, bucket.name]}[kind]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, kind, *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_pickled_store_reads_in_another_process(s3: FsspecStore) -> None:
    s3.set("a", b"1")
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).get('a'))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(s3), capture_output=True, check=True, timeout=60
    )
    assert done.stdout.strip() == b"b'1'"
    assert pickle.loads(pickle.dumps(s3)) == s3


def test_equal_stores() -> None:
    fs = fsspec.filesystem("memory")
    assert FsspecStore(fs, "a/b") == FsspecStore(fs, "/a/b/")
    assert hash(FsspecStore(fs, "a/b")) == hash(FsspecStore(fs, "/a/b/"))
    assert FsspecStore(fs, "a") != FsspecStore(fs, "b")
    assert FsspecStore(fs, "a") != FsspecStore(fs, "a", read_only=True)
    assert FsspecStore(fs, "a") != "a"


# --- arrays


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
def test_arrays_and_groups(store: FsspecStore) -> None:
    group = tegula.create_group(store)
    array = group.create_array("d/a", shape=(50, 40), chunks=(7, 9), dtype="f4", attributes={"unit": "K"})
    values = np.arange(2000, dtype="f4").reshape(50, 40)
    array[:] = values
    array[3:5, 2] = -1
    values[3:5, 2] = -1
    sharded = group.create_array("s", shape=100, chunks=5, shards=20, dtype="i4")
    sharded[:] = np.arange(100)
    again = tegula.open(store, mode="r+")
    assert [*again] == ["d", "s"]
    np.testing.assert_array_equal(again["d/a"][:], values)
    np.testing.assert_array_equal(again["s"][13:57], np.arange(13, 57))
    again["s"].append(np.arange(100, 130))
    np.testing.assert_array_equal(tegula.open(store)["s"][:], np.arange(130))
    assert tegula.check(store).ok
    tegula.delete(store, path="d")
    assert [*tegula.open(store)] == ["s"]


# --- failures that file systems take for absence


@pytest.mark.parametrize("kind", ["http", "simplecache", "filecache"])
@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_failing_web_server_has_no_missing_values(kind: str, status: int, http_server: Any, proxied: Any) -> None:
    proxy = proxied(http_server)
    bucket = proxy.bucket()
    (http_server.directory(bucket) / "a#b").write_bytes(b"1")
    url = bucket.url if kind == "http" else f"{kind}::{bucket.url}"
    fs, root = fsspec.core.url_to_fs(url)
    store = FsspecStore(fs, root)
    assert store.get("no") is None
    assert store.get_many([("no", None), ("no#", (0, 1))]) == [None, None]
    assert store.size("no") is None
    rule: dict[str, Any] = {"status": status} if status else {"reset": "before"}
    with proxy.fault(**rule):
        for key in ("a#b", "no"):
            for operation in (
                partial(store.get, key), partial(store.get, key, (0, 1)), partial(store.size, key),
                partial(store.get_many, [(key, None)]), partial(store.get_many, [(key, (0, 1)), (key, None)]),
            ):  # fmt: skip
                with pytest.raises(StoreError) as caught:
                    operation()
                assert caught.value.key == key
    assert store.get_many([("a#b", None), ("no", None)]) == [b"1", None]
    assert store.size("a#b") == 1


def test_a_server_that_can_not_be_reached_is_an_error() -> None:
    for url in ("http://127.0.0.1:1/x", "simplecache::http://127.0.0.1:1/x"):
        store = FsspecStore(*fsspec.core.url_to_fs(url))
        for operation in (partial(store.get, "a"), partial(store.size, "a"), partial(store.get_many, [("a", None)])):
            with pytest.raises(StoreError):
                operation()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_range_beyond_the_end_of_a_value_that_was_replaced_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    store = FsspecStore(MemoryFileSystem(), f"/{uuid.uuid4()}")
    store.set("a", b"a long value")

    def refused(requests: Any) -> Any:
        if is_replaced:
            store.set("a", b"short")
        raise StoreError("the requested range is not satisfiable")

    monkeypatch.setattr(store, "get_many", refused)
    with pytest.raises(ConflictError if is_replaced else StoreError, match="changed" if is_replaced else "satisfiable"):
        store.get_ranges("a", [(6, 6)])


def test_a_directory_that_lists_itself_is_walked_once() -> None:
    def entries(path: str) -> list[dict[str, Any]]:
        return [{"name": name, "type": "directory"} for name in ("a", "a/b", path)] + [
            {"name": f"{path}/x", "type": "file"}
        ]

    assert sorted(file_listing.files(entries, "a")) == ["a/b/x", "a/x"]
