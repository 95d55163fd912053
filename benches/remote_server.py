"""A bucket in memory that answers as S3 does, each time after a given latency: ``python remote_server.py``.

It spends little processor time on a request, so that it slows down no client on a machine of two cores. It reads
commands as lines of JSON, and answers in the same way. It accepts any signature, and checks only what the benchmark
needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

Headers = dict[bytes, bytes]
Answer = tuple[int, list[tuple[str, str]], bytes]
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found", 412: "Precondition Failed"}
META = b"x-amz-meta-"


class Bucket:
    """Objects by path, and what requests do to them."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.meta: dict[str, list[tuple[str, str]]] = {}
        self.count = 0

    def answer(self, method: bytes, target: str, headers: Headers, body: bytes) -> Answer:
        """Carry out a request."""
        self.count += 1
        split = urlsplit(target)
        path, query = unquote(split.path), dict(parse_qsl(split.query, keep_blank_values=True))
        if method in (b"GET", b"HEAD") and "list-type" in query:
            return self._list(path.strip("/"), query)
        if method in (b"GET", b"HEAD"):
            return self._get(path, headers)
        if method == b"PUT":
            return self._put(path, headers, body)
        if method == b"DELETE":
            self.remove(path)
            return 204, [], b""
        return 501, [], b""

    def _get(self, path: str, headers: Headers) -> Answer:
        value = self.values.get(path)
        if value is None:
            return 404, [], b"<Error><Code>NoSuchKey</Code></Error>"
        tag = self.tags[path]
        if b"if-match" in headers and headers[b"if-match"].decode() != tag:
            return 412, [], b""
        if headers.get(b"if-none-match", b"").decode() == tag:
            return 304, [("ETag", tag)], b""
        found = [("ETag", tag), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"), *self.meta[path]]
        wanted = headers.get(b"range")
        if wanted is None:
            return 200, found, value
        first, _, last = wanted.decode().removeprefix("bytes=").partition("-")
        size = len(value)
        start = int(first) if first else max(0, size - int(last))
        stop = min(size, int(last) + 1) if first and last else size
        if start >= size:
            return 416, [("Content-Range", f"bytes */{size}")], b""
        return 206, [*found, ("Content-Range", f"bytes {start}-{stop - 1}/{size}")], value[start:stop]

    def _put(self, path: str, headers: Headers, body: bytes) -> Answer:
        present = self.tags.get(path)
        if b"if-none-match" in headers and present is not None:
            return 412, [], b"<Error><Code>PreconditionFailed</Code></Error>"
        if b"if-match" in headers and headers[b"if-match"].decode() != present:
            return (404 if present is None else 412), [], b"<Error><Code>PreconditionFailed</Code></Error>"
        kept = [(name.decode(), text.decode()) for name, text in headers.items() if name.startswith(META)]
        return 200, [("ETag", self.put(path, body, kept))], b""

    def put(self, path: str, body: bytes, kept: list[tuple[str, str]]) -> str:
        """Store a value, and return its ETag."""
        self.values[path], self.meta[path] = body, kept
        tag = self.tags[path] = f'"{hashlib.sha1(body).hexdigest()}"'
        return tag

    def remove(self, path: str) -> None:
        """Remove a value if there is one."""
        for found in (self.values, self.tags, self.meta):
            found.pop(path, None)

    def _list(self, bucket: str, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start = len(bucket) + 2
        keys, common = [], set()
        for path in sorted(self.values):
            key = path[start:]
            if not path.startswith(f"/{bucket}/{prefix}"):
                continue
            rest, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if cut:
                common.add(prefix + rest + cut)
            else:
                keys.append(key)
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.values[f'/{bucket}/{key}'])}</Size>"
            "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys
        ) + "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(common))
        head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount>"
        body = f"<ListBucketResult>{head}<IsTruncated>false</IsTruncated>{text}</ListBucketResult>"
        return 200, [("Content-Type", "application/xml")], body.encode()


class Connection(asyncio.Protocol):
    """A connection, whose requests come one after the other."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.parts: list[bytes] = []
        self.missing = 0  # bytes of the body
        self.head: tuple[bytes, str, Headers] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        if self.head is not None:
            self.missing -= len(data)
        else:
            received = b"".join(self.parts)
            block, end, rest = received.partition(b"\r\n\r\n")
            if not end:
                self.parts = [received]
                return
            line, *lines = block.split(b"\r\n")
            method, target, _ = line.split(b" ", 2)
            fields = (text.partition(b":") for text in lines)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            self.head, self.parts = (method, target.decode(), headers), [rest]
            self.missing = int(headers.get(b"content-length", 0)) - len(rest)
            if headers.get(b"expect") == b"100-continue" and self.missing > 0:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.missing <= 0:
            head, body = self.head, b"".join(self.parts)
            self.head, self.parts = None, []
            if self.server.latency:
                asyncio.get_running_loop().call_later(self.server.latency, self.reply, *head, body)
            else:
                self.reply(*head, body)

    def reply(self, method: bytes, target: str, headers: Headers, body: bytes) -> None:
        """Answer a request, unless the client is gone."""
        if self.transport.is_closing():
            return
        status, fields, value = self.server.bucket.answer(method, target, headers, body)
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}", f"Content-Length: {len(value)}"]
        if status in (204, 304):
            lines.pop()
        lines += [f"{name}: {text}" for name, text in fields]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())
        if value and method != b"HEAD":
            self.transport.write(value)


class Server:
    """The bucket, the latency, and the commands that change them."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.latency = 0.0

    def set_latency(self, seconds: float) -> None:
        self.latency = seconds

    def copy(self, old: str, new: str) -> None:
        """Store what is stored below a path below another one, and nothing else there."""
        self.remove(new)
        bucket = self.bucket
        for path in [path for path in bucket.values if path.startswith(old)]:
            for found in (bucket.values, bucket.tags, bucket.meta):
                found[new + path[len(old) :]] = found[path]

    def remove(self, prefix: str) -> None:
        for path in [path for path in self.bucket.values if path.startswith(prefix)]:
            self.bucket.remove(path)

    def count(self) -> int:
        """Return how many requests were answered since the last time."""
        count, self.bucket.count = self.bucket.count, 0
        return count

    def stored(self, prefix: str) -> int:
        """Return how many bytes are stored below a path."""
        return sum(len(value) for path, value in self.bucket.values.items() if path.startswith(prefix))

    def text(self, path: str, text: str) -> None:
        self.bucket.put(path, text.encode(), [])

    def value(self, path: str, size: int) -> None:
        """Store a value of `size` bytes."""
        self.bucket.put(path, bytes(size), [])


async def main() -> None:
    """Serve until standard input is closed."""
    loop, closed, server = asyncio.get_running_loop(), asyncio.Event(), Server()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=1024)

    def obey(line: str) -> None:
        job = json.loads(line)
        do: Callable[..., Any] = getattr(server, job.pop("do"))
        print(json.dumps({"value": do(**job)}), flush=True)

    def watch() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(obey, line)
        loop.call_soon_threadsafe(closed.set)

    print(json.dumps({"port": listening.sockets[0].getsockname()[1]}), flush=True)
    threading.Thread(target=watch, daemon=True).start()
    await closed.wait()


if __name__ == "__main__":
    asyncio.run(main())
