"""Listings of servers that repeat pages, or send pages without names, forever: errors, and Ctrl-C ends them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tegula.errors import StoreError
from tegula.stores.coroutines import run
from tegula.stores.objects import listing as object_listing
from tegula.stores.objects.store import ObjectStore
from tegula.stores.objects.urls import open_url


class Circling(ThreadingHTTPServer):
    """A server whose listings have a next page, always.

    Attributes
    ----------
    names : list of str
        The objects of every page.
    prefixes : list of str
        The prefixes of every page.
    renews : bool
        Whether each page has a token of its own.
    last : int or None
        The number of the last page, if there is one.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.names: list[str] = []
        self.prefixes: list[str] = []
        self.renews = False
        self.last: int | None = None
        self.answered = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Circling
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        server, query = self.server, parse_qs(urlsplit(self.path).query)
        server.answered += 1
        body = self._azure(query) if "comp" in query else self._s3(query)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def _token(self, query: dict[str, list[str]], name: str) -> str:
        page = int(query.get(name, ["0"])[0])
        if page == self.server.last:
            return ""
        return str(page + 1) if self.server.renews or self.server.last is not None else "1"

    def _s3(self, query: dict[str, list[str]]) -> str:
        token, prefix = self._token(query, "continuation-token"), query.get("prefix", [""])[0]
        when = "<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>x</ETag><Size>1</Size>"
        items = "".join(f"<Contents><Key>{prefix}{name}</Key>{when}</Contents>" for name in self.server.names)
        items += "".join(
            f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in self.server.prefixes
        )
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        more = more if token else "<IsTruncated>false</IsTruncated>"
        return f"<?xml version='1.0'?><ListBucketResult>{more}<KeyCount>1</KeyCount>{items}</ListBucketResult>"

    def _azure(self, query: dict[str, list[str]]) -> str:
        token, prefix = self._token(query, "marker"), query.get("prefix", [""])[0]
        when = "<Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT</Last-Modified><Content-Length>1</Content-Length>"
        properties = f"<Properties>{when}<Content-Type>x</Content-Type><Etag>x</Etag></Properties>"
        items = "".join(f"<Blob><Name>{prefix}{name}</Name>{properties}</Blob>" for name in self.server.names)
        items += "".join(f"<BlobPrefix><Name>{prefix}{name}/</Name></BlobPrefix>" for name in self.server.prefixes)
        return (
            f"<?xml version='1.0'?><EnumerationResults><Prefix>{prefix}</Prefix><Blobs>{items}</Blobs>"
            f"<NextMarker>{token}</NextMarker></EnumerationResults>"
        )


@pytest.fixture
def server() -> Iterator[Circling]:
    with Circling() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_listing, "_SOON", 0.2)
    monkeypatch.setattr(object_listing, "_QUIET", 0.3)


def options_of(kind: str, server: Circling) -> tuple[str, dict[str, Any]]:
    endpoint = f"http://127.0.0.1:{server.server_port}"
    plain: dict[str, Any] = {"skip_signature": True, "allow_http": True}
    if kind == "gs":
        return "gs://b/a", {**plain, "base_url": endpoint}
    if kind == "az":
        return "az://b/a", {**plain, "endpoint": endpoint, "account_name": "me"}
    return "s3://b/a", {**plain, "endpoint": endpoint, "region": "us-east-1"}


def store_of(kind: str, server: Circling) -> ObjectStore:
    return open_url(*options_of(kind, server))


@contextmanager
def all_requests_end(server: Circling) -> Iterator[None]:
    """Check that the client sends no request to the server after the block."""
    yield
    for _ in range(100):
        before = server.answered
        time.sleep(0.1)
        if server.answered == before:
            return
    pytest.fail("the listing goes on")


SERVICES = pytest.mark.parametrize("kind", ["s3", "gs", "az"])


@pytest.mark.slow
@pytest.mark.sampled(one_in=14)
@SERVICES
@pytest.mark.parametrize("renews", [False, True])
def test_pages_that_repeat_their_objects_are_an_error(kind: str, renews: bool, server: Circling) -> None:
    server.names, server.renews = ["k1", "k2", "k3"], renews
    store = store_of(kind, server)
    for listing in (lambda: [*store.list_prefix("x/")], lambda: store.list_dir("x/"), lambda: [*store.list_sizes("")]):
        with all_requests_end(server), pytest.raises(StoreError, match="lists an object twice") as caught:
            listing()
        assert repr(store) in str(caught.value)
        assert caught.value.key in ("x/", "")


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@SERVICES
@pytest.mark.parametrize("prefixes", [[], ["p", "q"]])
@pytest.mark.parametrize("renews", [False, True])
def test_pages_without_objects_are_an_error(kind: str, prefixes: list[str], renews: bool, server: Circling) -> None:
    server.prefixes, server.renews = prefixes, renews
    store = store_of(kind, server)
    for listing in (lambda: [*store.list_prefix("x/")], lambda: store.list_dir("x/")):
        with all_requests_end(server), pytest.raises(StoreError, match="has named nothing for") as caught:
            listing()
        assert caught.value.key == "x/"


@SERVICES
def test_listing_skips_empty_pages_before_the_last(kind: str, server: Circling) -> None:
    server.last = 40
    store = store_of(kind, server)
    assert [*store.list_prefix("")] == []
    assert store.list_dir("") == ([], [])
    server.prefixes = ["p"]
    assert store.list_dir("x/") == ([], ["x/p/"])


def test_a_slow_listing_by_a_delimiter_is_waited_for(server: Circling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may answer from the plain listing that it runs beside the slow one: both give the same names."""
    server.last, server.names = 0, ["b", "a", "c/d", "c/e", "f/g/h"]
    monkeypatch.setattr(object_listing, "_SOON", 0.0)
    store = store_of("s3", server)
    for _ in range(5):
        found = store.list_dir("x/")
        assert found in ((["x/a", "x/b"], ["x/c/", "x/f/"]), (["x/a", "x/b", *found[0][2:]], []))


def test_a_server_that_does_not_answer_is_waited_for(server: Circling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its listing may go on later, and obstore gives up by itself."""
    monkeypatch.setattr(object_listing, "_QUIET", 0.05)
    silent: list[float] = []
    answer = _Handler._s3

    def slowly(self: _Handler, query: dict[str, list[str]]) -> str:
        silent.append(time.monotonic())
        time.sleep(1)
        return answer(self, query)

    def busy(self: _Handler) -> None:
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    monkeypatch.setattr(_Handler, "_s3", slowly)
    monkeypatch.setattr(_Handler, "do_HEAD", busy)
    server.last, server.names = 0, ["k"]
    assert [*store_of("s3", server).list_prefix("")] == ["k"]
    assert len(silent) == 1


def test_the_first_listing_of_a_store_goes_on_where_a_later_page_fails(
    server: Circling, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked = _Handler.do_GET, []
    first = [f"k{number:03}" for number in range(250)]  # as many as obstore hands over together

    def fails_once(self: _Handler) -> None:
        query = parse_qs(urlsplit(self.path).query)
        asked.append("later" if "continuation-token" in query else query.get("start-after", ["first"])[0])
        server.names, server.last = (first, None) if asked[-1] == "first" else (["l"], 0)
        if asked[-1] == "later":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            answer(self)

    monkeypatch.setattr(_Handler, "do_GET", fails_once)
    assert [*store_of("s3", server).list_prefix("")] == [*first, "l"]
    assert asked == ["first", "later", "a/k249"]


PROGRAM = """
import sys
from tegula.stores.objects.urls import open_url
url, options, how = eval(sys.argv[1])
store = open_url(url, options)
print("begins", flush=True)
try:
    store.list_dir("") if how == "list_dir" else [*store.list_prefix("")]
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
@pytest.mark.parametrize("how", ["list_dir", "list_prefix"])
def test_a_signal_ends_a_listing(how: str, server: Circling) -> None:
    argument = repr((*options_of("s3", server), how))
    with (
        all_requests_end(server),
        subprocess.Popen([sys.executable, "-c", PROGRAM, argument], stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        while server.answered < 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(60) == 0


def test_an_error_of_a_coroutine_is_raised_where_it_is_waited_for() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(fail())
