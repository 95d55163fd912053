"""A server with just enough of S3 to violate it in chosen ways, in a thread of the tests."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class CrudeS3(ThreadingHTTPServer):
    """Objects in a dictionary.

    Attributes
    ----------
    conditions : str
        Effect of If-Match and If-None-Match of a PUT: ``"hold"``, ``"ignored"``, ``"creation"`` (If-Match is
        ignored) or ``"refused"`` with status 501.
    deletes : str
        Effect of If-Match of a DELETE: ``"hold"``, ``"ignored"``, ``"refused"`` with status 501, or ``"missing"``
        if a missing object is deleted on any condition.
    metadata : bool
        Whether objects keep theirs.
    answers : list
        Statuses to answer the next requests with; the body repeats the request, with all its secrets.
    stingy : bool
        Whether answers to byte ranges are too short, with a Content-Length to match.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.conditions, self.metadata, self.stingy = "hold", True, False
        self.deletes = "ignored"
        self.answers: list[int] = []
        self.values: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.seen: list[tuple[str, str, str]] = []
        self.lock = threading.Lock()

    @property
    def options(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "access_key_id": "id", "secret_access_key": "key", "region": "us-east-1"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CrudeS3
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None: ...

    def respond(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = unquote(urlsplit(self.path).path)
        with self.server.lock:
            self.server.seen.append((self.command, key, self.headers.get("Authorization", "")))
            status = self.server.answers.pop(0) if self.server.answers else 0
            if status:
                echo = f"<Error><Code>Wrong</Code><Echo>{self.path} {self.headers}</Echo></Error>".encode()
                return self.respond(status, b"" if status in (204, 304) else echo)
            return getattr(self, f"on_{self.command.lower()}")(key, body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815 - the names that the server calls

    def on_put(self, key: str, body: bytes) -> None:
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        conditions, old = self.server.conditions, self.server.values.get(key)
        if (match or none_match) and conditions == "refused":
            return self.respond(501)
        if none_match and old is not None and conditions in ("hold", "creation"):
            return self.respond(412)
        if match and conditions == "hold" and (old is None or match != etag(old[0])):
            return self.respond(412)
        metadata = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}
        self.server.values[key] = body, metadata if self.server.metadata else {}
        return self.respond(200, headers={"ETag": etag(body)})

    def on_get(self, key: str, _: bytes) -> None:
        if "list-type=2" in self.path:
            return self.list(key.rstrip("/") + "/", parse_qs(urlsplit(self.path).query).get("prefix", [""])[0])
        if key not in self.server.values:
            return self.respond(404)
        value, metadata = self.server.values[key]
        headers = {"ETag": etag(value), "Last-Modified": formatdate(0, usegmt=True), **metadata}
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted:
            return self.respond(200, value, {**headers, "Content-Length": str(len(value))})
        first, _dash, last = wanted.partition("-")
        start = int(first) if first else max(0, len(value) - int(last))
        stop = min(len(value), int(last) + 1) if first and last else len(value)
        if start >= len(value):
            return self.respond(416)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(value)}"
        part = value[start : stop - 1] if self.server.stingy else value[start:stop]
        return self.respond(206, part, headers)

    on_head = on_get

    def list(self, bucket: str, prefix: str) -> None:
        found = "".join(
            f"<Contents><Key>{key[len(bucket) :]}</Key><Size>{len(value)}</Size><ETag>{etag(value)}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, (value, _) in sorted(self.server.values.items())
            if key.startswith(bucket + prefix)
        )
        self.respond(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode())

    def on_delete(self, key: str, _: bytes) -> None:
        match, old = self.headers.get("If-Match"), self.server.values.get(key)
        if match and self.server.deletes == "refused":
            return self.respond(501)
        if match and self.server.deletes in ("hold", "missing") and (old is None or match != etag(old[0])):
            fails = old is not None or self.server.deletes == "hold"
            return self.respond(412 if old is not None else 404 if fails else 204)
        self.server.values.pop(key, None)
        return self.respond(204)

    def on_post(self, key: str, body: bytes) -> None:
        names = [text.partition("<")[0] for text in body.decode().split("<Key>")[1:]]
        for name in names:
            self.server.values.pop(f"{key.rstrip('/')}/{name}", None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self.respond(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


def etag(value: bytes) -> str:
    return f'"{hashlib.md5(value).hexdigest()}"'


_ports: set[int] = set()


@contextmanager
def crude_s3() -> Iterator[CrudeS3]:
    """Serve until the ``with`` block ends, at a port of its own, since what was found out there is remembered."""
    server = CrudeS3()
    while server.server_port in _ports:
        server.server_close()
        server = CrudeS3()
    _ports.add(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
