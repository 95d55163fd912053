"""Answers of web servers that are encoded, do not say how long they are, or are pages for people."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import MetadataError, NotFoundError, StoreError
from tegula.stores import MemoryStore
from tegula.stores.objects.answers import content_encoding, decoded
from tegula.stores.objects.failures import Refused, ShortBody
from tegula.stores.objects.urls import open_url

pytest.importorskip("obstore")


def raw_deflate(value: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(value) + made.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "plain": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "GZip in members": ("GZip", lambda value: gzip.compress(value[:3]) + gzip.compress(value[3:])),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
}
RANGES = [(0, None), (3, None), (-4, None), (-150, None), (0, 0), (0, 4), (3, 4), (3, 1000), (90, 1), (100, 1), (-4, 2),
          (0, 10**8), (250, 7)]  # fmt: skip


class Served(BaseHTTPRequestHandler):
    """Values by path, in answers of many forms."""

    protocol_version = "HTTP/1.1"
    wbufsize = 2**16  # headers and body together
    values: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[tuple[str, str, dict[str, str]]]] = []
    encoder: tuple[str, Callable[[bytes], bytes]] = ENCODERS["plain"]
    encoded = ""  # the end of encoded paths
    length = "known"  # or chunked, or close
    ranges = True
    state = "etag"  # or date, or none
    page: bytes | None = None  # for paths without a value
    redirect: ClassVar[dict[str, str]] = {}

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        path = unquote(self.path[1:])
        self.asked.append((self.command, path, {name.lower(): text for name, text in self.headers.items()}))
        if path in self.redirect:
            return self.send(302, b"", [("Location", self.redirect[path])])
        value, headers = self.values.get(path, self.page), [("X-Anything", "1")]
        if value is None:
            return self.send(404, b"")
        tag = f'"{zlib.crc32(value)}"'
        headers += {"etag": [("ETag", tag)], "date": [("Last-Modified", formatdate(10**9, usegmt=True))]}.get(
            self.state, []
        )
        if self.state == "etag" and tag in self.headers.get("If-None-Match", ""):
            return self.send(304, b"", headers)
        if self.state == "etag" and self.headers.get("If-Match", tag) != tag:
            return self.send(412, b"", headers)
        name, encode = self.encoder if path.endswith(self.encoded) else ENCODERS["plain"]
        body, status = encode(value), 200
        headers += [("Content-Encoding", name)] if name else []
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if self.ranges and self.command == "GET" and (first or last):
            total = len(body)
            start, stop = (int(first), min(total, int(last) + 1) if last else total) if first else (-int(last), total)
            start = max(0, start + total) if start < 0 else start
            if start >= total:
                return self.send(416, b"", [("Content-Range", f"bytes */{total}")])
            headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{total}"))
            body, status = body[start:stop], 206
        return self.send(status, body, headers)

    def send(self, status: int, body: bytes, headers: list[tuple[str, str]] = []) -> None:  # noqa: B006
        unknown = self.length if status == 200 else "known"
        self.send_response(status)
        announced = {"chunked": ("Transfer-Encoding", "chunked"), "close": ("Connection", "close")}
        for header in [*headers, announced.get(unknown, ("Content-Length", str(len(body))))]:
            self.send_header(*header)
        self.end_headers()
        if self.command == "GET" and unknown == "chunked":
            pieces = [body[at : at + 50] for at in range(0, len(body), 50)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        if self.command == "GET":
            self.wfile.write(body)
        self.close_connection = unknown == "close"

    do_HEAD = do_GET  # noqa: N815 - the name that the server calls


class Quiet(ThreadingHTTPServer):
    """Clients may close a connection early."""

    def handle_error(self, *_: object) -> None: ...


@contextmanager
def serving(values: dict[str, bytes], **settings: Any) -> Iterator[tuple[str, type[Served]]]:
    handler = type("Handler", (Served,), {"values": values, "asked": [], **settings})
    server = Quiet(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


OPTIONS = {"retries": 1, "timeout": 20}
VALUES = {"a": bytes(range(250)), "empty": b"", "b c/é%20": b"0123456789" * 10}


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize(("encoder", "length"), [*product(ENCODERS, ["known", "chunked", "close"])])
@pytest.mark.parametrize(
    ("ranges", "state"), [(True, "etag"), (False, "etag"), (True, "date"), (True, "none"), (False, "none")]
)
def test_every_form_of_an_answer_is_read_as_the_same_value(encoder: str, length: str, ranges: bool, state: str) -> None:
    """The values are those of a store in memory, whatever the form of the answers."""
    expected = MemoryStore(dict(VALUES))
    with serving(VALUES, encoder=ENCODERS[encoder], length=length, ranges=ranges, state=state) as (url, _):
        store = open_url(url, OPTIONS)
        for key, value in VALUES.items():
            assert store.get(key) == value
            assert store.size(key) == len(value)
            for byte_range in RANGES:
                assert store.get(key, byte_range) == expected.get(key, byte_range), byte_range
            found, generation = store.get(key, with_generation=True)
            assert (found, generation) == (value, store.get(key, with_generation=True)[1])
            assert store.get(key, (2, 5), with_generation=True) == (value[2:7], generation)
            assert store.get_if_changed(key, generation) is None
            parts = [(0, 2), (5, 9), (-3, None)]
            assert store.get_ranges(key, parts)[0] == [expected.get(key, part) for part in parts]
        assert (store.get("no"), store.get("no", (0, 5)), store.size("no")) == (None, None, None)


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(("encoder", "length"), [("gzip", "known"), ("plain", "chunked"), ("gzip", "chunked")])
def test_a_data_set_is_read(tmp_path: Path, encoder: str, length: str) -> None:
    group = tegula.create_group(MemoryStore())
    values = np.arange(5000, dtype="i4").reshape(50, 100)
    for name, more in (("plain", {}), ("raw", {"codecs": None}), ("sharded", {"shards": (30, 60)})):
        array = group.create_array(name, shape=values.shape, dtype="i4", chunks=(15, 30), **more)
        array[...] = values
    group.consolidate()
    held = {key: group.store.get(key) for key in group.store.list()}
    with serving(held, encoder=ENCODERS[encoder], length=length) as (url, _):
        found = tegula.open_group(url, consolidated=True, storage_options=OPTIONS)
        assert [*found] == ["plain", "raw", "sharded"]
        for name in found:
            assert (found[name][...] == values).all()
            assert (found[name][7, 3:20] == values[7, 3:20]).all()
        with pytest.raises(NotFoundError):
            tegula.open(f"{url}/no", storage_options=OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [True, False])
def test_ranges_are_still_read_where_only_documents_are_encoded(ranges: bool) -> None:
    array = tegula.create_array(MemoryStore(), shape=10**7, dtype="u1", chunks=10**7, codecs=None)
    array[...] = np.arange(10**7) % 251
    held = {key: array.store.get(key) for key in array.store.list()}
    with serving(held, encoder=ENCODERS["gzip"], encoded=".json", ranges=ranges) as (url, handler):
        found = tegula.open(url, storage_options=OPTIONS)
        assert [found[at] for at in (5, 9_999_999)] == [5, 9_999_999 % 251]
        asked = [headers.get("range") for method, path, headers in handler.asked if path == "c/0" and method == "GET"]
        assert (None in asked) is not ranges


def test_a_request_of_unknown_length_has_the_headers_of_the_options() -> None:
    with serving(VALUES, length="chunked", ranges=False) as (url, handler):
        options = {**OPTIONS, "user_agent": "mine", "default_headers": {"x-y": "z"}}
        store = open_url(url.replace("//", "//me:secret@"), options)
        assert store.get("a") == VALUES["a"]
        sent = handler.asked[-1][2]
        assert (sent["user-agent"], sent["x-y"]) == ("mine", "z")
        assert sent["authorization"].startswith("Basic ")


def test_credentials_are_not_sent_to_another_host() -> None:
    with serving(VALUES, length="chunked", ranges=False) as (other, second):
        moved = {"a": f"{other}/a", "b": "/c", "f": "file:///etc/hostname"}
        with serving({"c": b"here"}, length="chunked", ranges=False, redirect=moved) as (url, first):
            store = open_url(url, {**OPTIONS, "default_headers": {"authorization": "Basic secret"}})
            assert store.get("a") == VALUES["a"]
            assert store.get("b") == b"here"
            assert first.asked[-1][2]["authorization"] == "Basic secret"
            assert all("authorization" not in headers for _, _, headers in second.asked)
            with pytest.raises(StoreError, match=r"redirect|302"):
                store.get("f")


@pytest.mark.parametrize("length", ["known", "chunked"])
@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (("br", bytes), "Content-Encoding 'br', which was not asked for"),
        (("gzip, gzip", bytes), "Content-Encoding 'gzip, gzip'"),
        (("gzip", bytes), "the answer is not in gzip"),
        (("gzip", lambda value: gzip.compress(value)[:-9]), "shorter than its headers say"),
    ],
)
def test_a_body_that_can_not_be_decoded_is_an_error(encoder: Any, message: str, length: str) -> None:
    with serving(VALUES, encoder=encoder, length=length) as (url, _):
        store = open_url(url, {**OPTIONS, "retries": 0})
        with pytest.raises(StoreError, match=message) as caught:
            store.get("a")
        assert caught.value.key == "a"
        with pytest.raises(StoreError, match=message):
            store.get("a", (3, 9))


@pytest.mark.slow
@pytest.mark.sampled(one_in=16)
@pytest.mark.parametrize("length", ["known", "chunked"])
def test_a_body_costs_no_more_than_the_settings_allow(length: str) -> None:
    bomb = {"a": bytes(10**8), "zarr.json": b" " * 10**8}
    with (
        serving(bomb, encoder=("gzip", lambda value: gzip.compress(value, 1)), length=length) as (url, _),
        config.configure(max_chunk_bytes=10**6, max_input_bytes=10**5),
    ):
        store = open_url(url, {**OPTIONS, "retries": 0})
        with pytest.raises(StoreError, match="longer than the setting max_chunk_bytes, 1000000, allows"):
            store.get("a")
        assert store.get("a", (5, 3)) == bytes(3)
        with pytest.raises(MetadataError, match="max_input_bytes"):
            tegula.open(url, storage_options=OPTIONS)


def test_an_answer_that_ends_too_early() -> None:
    with pytest.raises(ShortBody):
        decoded(iter([gzip.compress(b"abc" * 99)[:20]]), "gzip", None)
    assert decoded(iter([gzip.compress(b"abc") + bytes(9)]), "gzip", None) == b"abc"
    assert decoded(iter([]), "gzip", None) == b""
    with pytest.raises(Refused):
        decoded(iter([b"x" * 20]), "deflate", None)
    assert content_encoding({"content-encoding": "identity, GZIP"}) == "gzip"


@pytest.mark.parametrize("page", [b"<!DOCTYPE html>\n<title>App</title>", b"\xef\xbb\xbf  <html></html>", b"<HTML>"])
@pytest.mark.parametrize("length", ["known", "chunked"])
def test_a_page_in_place_of_a_document_is_called_html(page: bytes, length: str) -> None:
    with serving({}, page=page, length=length) as (url, _), pytest.raises(MetadataError, match="it is HTML") as caught:
        tegula.open(f"{url}/no.zarr", storage_options=OPTIONS)
    assert (caught.value.path, caught.value.key) == (f"{url}/no.zarr", "zarr.json")
