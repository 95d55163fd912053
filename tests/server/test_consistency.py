"""An answer belongs to one state of what is shown, at whatever step of it another writer comes between."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.server.asking import ask

import tegula
from tegula.errors import ConflictError, TegulaError
from tegula.server import values
from tegula.server.application import Application
from tegula.server.consistency import Watch
from tegula.server.content import Content
from tegula.server.downloading import download
from tegula.stores import ABSENT, LocalStore, MemoryStore, ObjectStore, Store, ZipStore

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow, pytest.mark.sampled(one_in=27)]

BLOCK = 64
LENGTH, CHUNK = 300, 200  # bytes of a chunk: more than three blocks


# --- stores in which another writer acts before a certain access


class Steps:
    """The accesses to a store, and what another writer does before one of them."""

    def __init__(self) -> None:
        self.number = 0
        self.at = -1
        self.act: Callable[[], None] | None = None

    def step(self) -> None:
        self.number += 1
        if self.act is not None and self.number >= self.at:
            act, self.act = self.act, None
            act()


def stepping(base: type, *operations: str) -> Any:
    """Return a class of stores whose accesses are steps."""

    def watched(name: str) -> Any:
        def operation(self: Any, *args: Any, **options: Any) -> Any:
            self.steps.step()
            return getattr(base, name)(self, *args, **options)

        return operation

    return type(f"Stepping{base.__name__}", (base,), {name: watched(name) for name in operations})


MEMORY = stepping(MemoryStore, "get", "size", "exists")
LOCAL = stepping(LocalStore, "get", "size", "exists")
ZIP = stepping(ZipStore, "get", "size")
OBJECTS = stepping(ObjectStore, "get", "get_ranges", "size")


class ByContents(MEMORY):
    """A store whose generations are the values, so that they recur."""

    fresh_generations = False

    def get(self, key: str, *args: Any, with_generation: bool = False, **options: Any) -> Any:
        result = super().get(key, *args, **options)
        return (result, self._of(key)) if with_generation else result

    def set(self, key: str, value: Any, **options: Any) -> Any:
        super().set(key, value, **options)
        return self._of(key)

    def _of(self, key: str) -> Any:
        value = MemoryStore.get(self, key)
        return ABSENT if value is None else repr(value)

    def _check_generation(self, key: str, expected: Any) -> None:
        if expected is not None and self._of(key) != expected:
            raise ConflictError("the value has changed since it was read", key=key)


def made(kind: str, folder: Path) -> tuple[Any, Store]:
    """Return an empty store that counts its accesses, and another store of the same values."""
    if kind in ("memory", "contents"):
        store: Any = MEMORY() if kind == "memory" else ByContents()
        other = store
    elif kind == "local":
        store, other = LOCAL(folder / "a"), LocalStore(folder / "a")
    elif kind == "zip":
        folder.mkdir()
        store = ZIP(folder / "a.zip", "w")
        other = store
    else:
        bucket = pytest.importorskip("obstore").store.MemoryStore()
        store, other = OBJECTS(bucket), ObjectStore(bucket)
    store.steps = Steps()
    return store, other


# --- what is shown, and how it changes

LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr3": {"dtype": "u1", "codecs": []},
    "shards": {"dtype": "u1", "codecs": [], "chunks": CHUNK // 2, "shards": CHUNK},
    "zarr2": {"dtype": "u1", "format": "zarr2", "codecs": []},
    "zarr1": {"dtype": ">i2", "format": "zarr1"},
    "bcolz": {"dtype": "f8", "format": "bcolz"},
}


def fill(store: Store, layout: str, seed: int = 1, **changes: Any) -> tegula.Array:
    options = {"shape": LENGTH, "chunks": CHUNK, "attributes": {"a": 1}, **LAYOUTS[layout], **changes}
    array = tegula.create_array(store, overwrite=True, **options)
    array[...] = np.random.default_rng(seed).integers(0, 100, LENGTH)
    return array


def rewrite(store: Store, layout: str) -> None:
    """Replace a chunk by one of another length, if the codecs allow that."""
    tegula.open_array(store, mode="r+")[:CHUNK] = 7


def raw(store: Store, layout: str, nbytes: int) -> None:
    """Replace a stored value by one of another length, as another program may."""
    array = tegula.open_array(store)
    store.set(array.stored.key((0,)), bytes(range(1, 200))[: nbytes % 199] + bytes(max(0, nbytes - 199)))


CHANGES: dict[str, Callable[[Store, str], Any]] = {
    "chunk": rewrite,
    "shorter": lambda store, layout: raw(store, layout, 3),
    "a block": lambda store, layout: raw(store, layout, BLOCK),
    "longer": lambda store, layout: raw(store, layout, 5 * BLOCK),
    "empty": lambda store, layout: raw(store, layout, 0),
    "deleted chunk": lambda store, layout: store.delete(tegula.open_array(store).stored.key((0,))),
    "other type": lambda store, layout: fill(store, layout, 2, dtype="i4", codecs=None),
    "other format": lambda store, layout: fill(store, "bcolz" if layout != "bcolz" else "zarr3", 2),
    "same documents": lambda store, layout: fill(store, layout, 2),
    "smaller": lambda store, layout: tegula.open_array(store, mode="r+").resize(CHUNK // 2),
    "attributes": lambda store, layout: tegula.open_array(store, mode="r+").attrs.update(a=2),
    "deleted": lambda store, layout: tegula.delete(store),
}


# --- requests, without a socket


class Answer(NamedTuple):
    status: int
    tag: str | None
    length: str | None
    range: str | None
    body: bytes


LOOP = asyncio.new_event_loop()


class Client:
    """Asks an application directly."""

    def __init__(self, node: Any) -> None:
        self.application = Application(node, None, allow_origins=(), allow_hosts=())

    def ask(self, target: str, method: str = "GET", **headers: str) -> Answer | None:
        """Return the answer; ``None`` if it is cut off."""
        path, _, query = target.partition("?")
        sent: list[Any] = []
        lines = [(b"host", b"x"), *((name.replace("_", "-").encode(), text.encode()) for name, text in headers.items())]
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": lines}

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(event: Any) -> None:
            sent.append(event)

        quick = self.application.quick(path, lines, None) if method == "GET" and not query else None
        if quick is not None:
            assert quick.blocks is None
            return answer(quick.status, quick.headers, quick.body)
        try:
            LOOP.run_until_complete(self.application(scope, receive, send))
        except ConflictError:
            return None
        result = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = b"".join(event["body"] for event in sent[1:])
        if method == "HEAD":
            assert body == b""
        return answer(sent[0]["status"], result, body, method)


def answer(status: int, headers: Any, body: bytes, method: str = "GET") -> Answer:
    length = headers.get("content-length")
    if length is not None and method != "HEAD" and status != 304:
        assert int(length) == len(body)  # or the rest would be read as the next answer
    return Answer(status, headers.get("etag"), length, headers.get("content-range"), body)


KEYS = ["/as/float32/c/0", "/as/int64/c/1", "/zarr.json", "/as/float32/zarr.json"]
READINGS = [
    "/-/values/?format=npy",
    "/-/values/?format=csv&selection=0:150",
    "/-/rows/?stop=9",
    "/-/stats/",
    "/-/info/",
]
REQUESTS: dict[str, dict[str, str]] = {
    "plain": {},
    "head": {"method": "HEAD"},
    "part": {"range": "bytes=70-150"},
    "end": {"range": "bytes=180-"},
    "known": {"if_none_match": "{tag}"},
    "other": {"if_match": "{tag}"},
    "part of one state": {"range": "bytes=2-180", "if_range": "{tag}"},
}


def answers(node: Callable[[], Any], target: str, request: dict[str, str]) -> Answer | None:
    """Return the answer of a server that has just begun."""
    try:
        return Client(node()).ask(target, **request)
    except TegulaError:
        return None


def check(kind: str, folder: Path, layout: str, change: str, target: str, name: str) -> int:
    """Ask with another writer before each access in turn, and return how many there were; tags name one content."""
    contents: dict[str, set[Any]] = {}
    for at in range(1, 1000):
        path = folder / f"{layout}{change}{target}{name}{at}".translate(str.maketrans("/ ?=&:-", "_______"))
        store, other = made(kind, path)
        fill(other, layout)
        client = Client(tegula.open_array(store))
        first = client.ask(target)
        client.ask("/zarr.json")
        assert first is not None
        request = {key: text.format(tag=first.tag) for key, text in REQUESTS[name].items()}
        before = client.ask(target, **request)
        store.steps.number, store.steps.at = 0, at
        store.steps.act = lambda other=other: CHANGES[change](other, layout)
        result = client.ask(target, **request)
        if store.steps.act is not None:
            store.steps.act = None
            store.close()
            return at
        if result not in (None, before) and not (change == "deleted" and result.status == 404):
            # a server that has just begun knows nothing of the state before
            assert result == answers(lambda store=store: tegula.open(store), target, request), (at, before)
        for mine in (first, before, result):
            if mine is not None and mine.status == 200 and "method" not in request and mine.tag is not None:
                contents.setdefault(mine.tag, set()).add(mine.body)
        assert all(len(bodies) == 1 for bodies in contents.values())
        store.close()
    raise AssertionError


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "BLOCK", BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_belong_to_one_state(tmp_path: Path, layout: str, change: str) -> None:
    asked = [*[("/c/0", name) for name in REQUESTS], *[(key, "plain") for key in KEYS], ("/as/float32/c/0", "known")]
    assert sum(check("memory", tmp_path, layout, change, target, name) - 1 for target, name in asked) > 25


@pytest.mark.slow
@pytest.mark.parametrize("change", ["chunk", "other type", "same documents", "attributes", "deleted"])
@pytest.mark.parametrize("layout", ["zarr3", "shards", "bcolz"])
def test_readings_belong_to_one_state(tmp_path: Path, layout: str, change: str) -> None:
    assert sum(check("memory", tmp_path, layout, change, target, "plain") - 1 for target in READINGS) > 15


@pytest.mark.slow
@pytest.mark.parametrize("change", ["chunk", "shorter", "deleted chunk", "other type", "same documents"])
@pytest.mark.parametrize("kind", ["local", "zip", "objects", "contents"])
def test_stores_of_every_kind(tmp_path: Path, kind: str, change: str) -> None:
    for layout in ("zarr3", "zarr2") if kind in ("zip", "objects") else ("zarr3", "bcolz"):
        # where generations recur, equal documents are one state, and their chunks are changed one by one
        readings = ["/-/values/?format=npy"] if (kind, change) != ("contents", "same documents") else []
        for target in ("/c/0", "/as/float32/c/0", *readings):
            for name in ("plain", "end") if target.startswith("/c") else ("plain",):
                assert check(kind, tmp_path, layout, change, target, name) > 1


# --- what a request has seen


def watched(node: Any) -> Watch:
    return Watch(node.store, [(node.path, node.metadata)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_that_are_back_are_those_of_another_node(layout: str) -> None:
    array = fill(MemoryStore(), layout)
    watch = watched(array)
    watch.check()
    fill(array.store, layout, dtype="i4", codecs=None)
    fill(array.store, layout, 2)
    for growth in (False, True):
        with pytest.raises(ConflictError):
            watch.check(growth=growth)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_node_that_grows_or_gets_attributes_is_the_same(layout: str) -> None:
    array = fill(MemoryStore(), layout)
    watch = watched(array)
    for act in (lambda: array.append([1, 2]), lambda: array.attrs.update(b=2), lambda: array.append([3])):
        act()
        watch.check(growth=True)
        watch.check()
    array.resize(5)
    with pytest.raises(ConflictError):
        watch.check(growth=True)


@pytest.mark.parametrize("layout", ["zarr2", "bcolz"])
def test_half_of_a_node_that_was_replaced_is_not_watched(layout: str) -> None:
    array = fill(MemoryStore(), layout)
    metadata = array.metadata
    fill(array.store, layout, dtype="i4", codecs=None)
    with pytest.raises(ConflictError):
        Watch(array.store, [("", metadata)])


@pytest.mark.slow
def test_a_download_ends_where_its_table_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may grow while it is sent; of another one nothing is sent."""
    store = MemoryStore()
    columns = {"a": np.arange(200_000), "b": np.arange(200_000.0)}
    table = tegula.create_table(store, columns, format="bcolz")
    for act, rows in ((lambda: table.append({"a": [1], "b": [2.0]}), 200_000), (None, 200_001)):
        begun = download(Content(tegula.open(store)), "", "", "csv").run()
        assert begun.blocks is not None
        next(begun.blocks)
        if act is not None:
            act()
            assert len(b"".join(begun.blocks).splitlines()) + 131_074 > rows
        else:
            tegula.create_table(store, {"a": columns["a"] + 1, "b": columns["b"]}, format="bcolz", overwrite=True)
            with pytest.raises(ConflictError):
                b"".join(begun.blocks)


def test_a_served_table_may_be_replaced() -> None:
    store = MemoryStore()
    with tegula.serve(tegula.create_table(store, {"a": [1]}, format="bcolz"), port=0) as server:
        assert ask(server.url, "/-/rows/").json["rows"] == [[1]]
        tegula.create_table(store, {"a": [2.5, 3.5], "b": [4, 5]}, format="bcolz", overwrite=True)
        assert ask(server.url, "/-/rows/").json["rows"] == [[2.5, 4], [3.5, 5]]
        assert ask(server.url, "/-/values/?format=csv").body.split()[1:] == [b"2.5,4", b"3.5,5"]


# --- over sockets


@pytest.mark.slow
def test_answers_over_one_connection_while_a_chunk_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each answer is complete and of one state, and the next one begins where it ends; or the connection is cut."""
    monkeypatch.setattr(values, "BLOCK", 2**18)
    sizes = (0, 1000, 2**18, 300_000, 700_000)
    store = LocalStore(tmp_path / "a")
    tegula.create_array(store, shape=10, chunks=10, dtype="u1", codecs=[])
    store.set("c/0", b"\0" * 300_000)
    ended = threading.Event()

    def write() -> None:
        for number in range(1, 10**6):
            if ended.is_set():
                return
            # the first bytes say how long the value is
            size = sizes[number % len(sizes)]
            store.set("c/0", (b"%09d" % size + bytes([number % 256]) * size)[:size])

    tags: dict[str, bytes] = {}
    writer = threading.Thread(target=write)
    with tegula.serve(tegula.open(store), port=0) as server:
        ask(server.url, "/zarr.json")
        writer.start()
        try:
            number, until = 0, time.monotonic() + 60
            while number < 300 and time.monotonic() < until:
                number += sum(1 for _ in over_one_connection(server.url, tags))
        finally:
            ended.set()
            writer.join()
    assert number >= 300
    assert len(tags) > 10


def over_one_connection(url: str, tags: dict[str, bytes]) -> Iterator[int]:
    """Yield the lengths of whole values until the connection is cut."""
    parts = urlsplit(url)
    heads = ("GET", "", "GET", "Range: bytes=0-\r\n", "GET", 'If-None-Match: "x"\r\n', "HEAD", "")
    address = parts.hostname, parts.port
    with closing(socket.create_connection(address, timeout=30)) as client, client.makefile("rb") as answers:
        for turn in range(40):
            method, more = heads[turn * 2 % 8], heads[turn * 2 % 8 + 1]
            client.sendall(f"{method} /c/0 HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
            line = answers.readline()
            if not line:
                return
            assert line.startswith(b"HTTP/1.1 "), line[:50]
            headers = {}
            while text := answers.readline().decode().strip():
                name, _, headers[name.lower()] = text.partition(": ")
            length = int(headers["content-length"])
            body = b"" if method == "HEAD" else answers.read(length)
            if method != "HEAD" and len(body) < length:
                return  # cut off
            status = int(line.split()[1])
            assert status in (200, 206, 416, 409)
            if status in (200, 206) and method == "GET":
                assert not length or int(body[:9]) in (length, 0)
                assert len({*body[9:]}) < 2
                assert tags.setdefault(headers["etag"], body) == body
                yield length
