"""The process of the proxy: forwards requests, and obeys commands that arrive on standard input."""

import asyncio
import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.servers.faults import Rule
from tests.servers.process import ANSWER_MARK
from tests.servers.wire import (
    LONGEST_HEAD,
    Closed,
    Request,
    Response,
    announce,
    head_bytes,
    listen,
    read_body,
    read_head,
    read_request,
    reason,
    response_head,
)

_SECRET = ("authorization", "cookie", "token", "signature", "customer-key")
_PIECE = 16 * 1024
_IDLE_SECONDS = 2.0  # servers close idle connections, some after five seconds

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Upstream:
    """Connections to the server, kept open and used again."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._where = parts.hostname, parts.port
        self._idle: list[tuple[Connection, float]] = []

    async def exchange(self, request: Request) -> tuple[str, list[tuple[str, str]], bytes, int]:
        """Send a request as it is, and return the answer: first line, headers, body and status."""
        reader, writer = await self._connect()
        try:
            # the whole body is here, so there is no expectation to confirm and no chunked encoding
            dropped = ("expect", "transfer-encoding", "content-length")
            headers = [(name, value) for name, value in request.head.headers if name.lower() not in dropped]
            if request.body or "content-length" in request.head.fields:
                headers.append(("Content-Length", str(len(request.body))))
            writer.write(head_bytes(request.head.line, headers) + request.body)
            await writer.drain()
            head = await read_head(reader)
            while " 100 " in head.line:
                head = await read_head(reader)
            status = int(head.line.split(" ", 2)[1])
            without_body = request.method == "HEAD" or status in (204, 304)
            body = b"" if without_body else await read_body(reader, head, until_close=True)
        except BaseException:
            writer.close()
            raise
        framed = without_body or "content-length" in head.fields or "transfer-encoding" in head.fields
        if framed and head.fields.get("connection", "").lower() != "close" and not head.line.startswith("HTTP/1.0"):
            self._idle.append(((reader, writer), time.monotonic()))
        else:
            writer.close()
        kept = [
            (name, value) for name, value in head.headers if name.lower() not in ("connection", "transfer-encoding")
        ]
        if not without_body:
            kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
        return head.line, kept, body, status

    async def _connect(self) -> Connection:
        while self._idle:
            (reader, writer), since = self._idle.pop()
            if not reader.at_eof() and time.monotonic() - since < _IDLE_SECONDS:
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self._where, limit=LONGEST_HEAD)


class Link:
    """The line to the clients: a bandwidth that all answers share, and one of each answer."""

    def __init__(self) -> None:
        self.bandwidth = 0.0
        self.stream_bandwidth = 0.0
        self._free_at = 0.0

    async def send(self, writer: asyncio.StreamWriter, body: bytes, drip: float | None) -> None:
        """Send a body as fast as the limits allow."""
        speed = drip or self.stream_bandwidth
        if not (speed or self.bandwidth):
            writer.write(body)
            await writer.drain()
            return
        piece = min(_PIECE, max(1, int(speed / 20))) if speed else _PIECE
        due = time.monotonic()
        for start in range(0, len(body), piece):
            part = body[start : start + piece]
            due += len(part) / speed if speed else 0
            if self.bandwidth:
                self._free_at = max(self._free_at, time.monotonic()) + len(part) / self.bandwidth
                due = max(due, self._free_at)
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            writer.write(part)
            await writer.drain()


class Forwarding:
    """The proxy: its rules, its memory and its connections."""

    def __init__(self, address: str) -> None:
        self.upstream = Upstream(address)
        self.link = Link()
        self.latency = (0.0, 0.0)
        self.rules: dict[int, Rule] = {}
        self.seen: list[dict[str, Any]] = []
        self.under_way = self.peak = 0
        self._random = random.Random(0)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client's connection."""
        try:
            while True:
                request = await read_request(reader, writer)
                self.under_way += 1
                self.peak = max(self.peak, self.under_way)
                try:
                    goes_on = await self._answer(request, writer)
                finally:
                    self.under_way -= 1
                if not goes_on or request.head.fields.get("connection", "").lower() == "close":
                    break
        except (Closed, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request, and return whether the connection stays open."""
        started = time.time()
        rule = next((rule for rule in [*self.rules.values()] if rule.meets(request)), None)
        wait = self._random.uniform(*self.latency) + (rule.delay or 0.0 if rule else 0.0)
        if wait:
            await asyncio.sleep(wait)

        # the server's part, unless the fault comes before it
        status, line, headers, body = 0, "", [], b""
        if not (rule and (rule.status or rule.redirect or rule.reset == "before")):
            try:
                line, headers, body, status = await self.upstream.exchange(request)
            except (Closed, OSError, asyncio.IncompleteReadError) as error:
                line = f"HTTP/1.1 502 {reason(502)}"
                body = b"" if request.method == "HEAD" else f"the server behind the proxy: {error!r}".encode()
        note = self._note(request, started, status, rule)

        # the client's part
        if rule and rule.reset:
            _reset(writer)
            note(0, 0)
            return False
        if rule and (replacement := _replacement(rule, request)):
            sent = b"" if request.method == "HEAD" else replacement.body
            writer.write(response_head(replacement) + sent)
            note(replacement.status, len(sent))
            await writer.drain()
            return True
        if request.method != "HEAD" and status not in (204, 304):
            headers = [*headers, ("Content-Length", str(len(body)))]
        writer.write(head_bytes(line, headers))
        sent = body[: rule.truncate] if rule and rule.truncate is not None else body
        note(int(line.split(" ", 2)[1]), len(sent))
        await self.link.send(writer, sent, rule.drip if rule else None)
        return len(sent) == len(body)

    def _note(self, request: Request, started: float, upstream: int, rule: Rule | None) -> Callable[[int, int], None]:
        """Return a function that records the request once its status and the bytes to send are known."""

        def note(status: int, sent: int) -> None:
            self.seen.append(
                {
                    "method": request.method,
                    "path": request.path,
                    "query": _without_secrets(request.target.partition("?")[2]),
                    "headers": {
                        name: value
                        for name, value in request.head.fields.items()
                        if not any(secret in name for secret in _SECRET)
                    },
                    "status": status,
                    "upstream": upstream,
                    "fault": rule.name if rule else "",
                    "started": started,
                    "seconds": time.time() - started,
                    "sent": sent,
                    "received": len(request.body),
                }
            )

        return note


def _without_secrets(query: str) -> str:
    parts = query.split("&")
    return "&".join(part for part in parts if not part.lower().startswith(("sig=", "x-amz-", "x-goog-")))


def _replacement(rule: Rule, request: Request) -> Response | None:
    """Return the answer that replaces the server's response, if there is one."""
    if rule.redirect:
        return Response(307, [("Location", rule.redirect + request.target)])
    status = rule.status or rule.after_commit
    if status is None:
        return None
    headers = [("Content-Type", "application/xml")]
    if rule.retry_after is not None:
        headers.append(("Retry-After", f"{rule.retry_after:g}"))
    code = {403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 429: "TooManyRequests", 503: "SlowDown"}
    message = f"<Error><Code>{code.get(status, 'InternalError')}</Code><Message>a fault on purpose</Message></Error>"
    return Response(status, headers, message.encode())


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets an error instead of an end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Commands:
    """The commands of the process of the tests, by name."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._number = 0

    def add(self, rule: dict[str, Any]) -> int:
        """Put a rule in force, after those there are, and return its number."""
        self._number += 1
        self._forwarding.rules[self._number] = Rule(**rule)
        return self._number

    def hits(self, number: int) -> int:
        """Return how many requests have met a rule's fault."""
        return self._forwarding.rules[number].hits

    def remove(self, number: int) -> int:
        """Put a rule out of force, and return its hits."""
        return self._forwarding.rules.pop(number).hits

    def set(self, settings: dict[str, Any]) -> None:
        """Change the latency or a bandwidth."""
        for name, value in settings.items():
            if name == "latency":
                self._forwarding.latency = (value[0], value[1])
            elif name in ("bandwidth", "stream_bandwidth"):
                setattr(self._forwarding.link, name, value)
            else:
                raise ValueError(f"the proxy has no setting {name!r}")

    def requests(self, _: object) -> list[dict[str, Any]]:
        """Return the requests that were answered."""
        return self._forwarding.seen

    def count(self, _: object) -> int:
        """Return how many requests were answered."""
        return len(self._forwarding.seen)

    def peak(self, _: object) -> int:
        """Return how many requests were under way at once."""
        return self._forwarding.peak

    def forget(self, _: object) -> None:
        """Forget the requests."""
        self._forwarding.seen = []
        self._forwarding.peak = self._forwarding.under_way


async def main(address: str) -> None:
    """Forward requests to a server until standard input is closed."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    forwarding = Forwarding(address)
    commands = Commands(forwarding)

    def obey(line: bytes) -> None:
        name, argument = json.loads(line)
        try:
            answer = [getattr(commands, name)(argument), None]
        except (ValueError, KeyError, TypeError) as error:
            answer = [None, repr(error)]
        print(ANSWER_MARK + json.dumps(answer), flush=True)

    def watch() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(obey, line)
        loop.call_soon_threadsafe(closed.set)

    _, port = await listen(forwarding.connected)
    announce(port)
    threading.Thread(target=watch, daemon=True).start()
    await closed.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
