"""HTTP/1.1 over asyncio streams, as much of it as the servers and the proxy of the tests need."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

LONGEST_HEAD = 256 * 1024
Handler = Callable[["Request"], Awaitable["Response"]]


@dataclass(slots=True)
class Head:
    """The first line and the headers of a message, as they were sent and, in `fields`, by lower-case name."""

    line: str
    headers: list[tuple[str, str]]
    fields: dict[str, str]


@dataclass(slots=True)
class Request:
    """A request with its whole body."""

    method: str
    target: str
    head: Head
    body: bytes

    @property
    def path(self) -> str:
        """The path without its percent-encoding, and without the query."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query; those without a value have an empty one."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass(slots=True)
class Response:
    """An answer; `send` gives it a Content-Length, unless it has one for a body that is not sent."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class Closed(Exception):
    """The other side has closed the connection between two messages."""


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Read the first line and the headers of the next message."""
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("the connection was closed within the headers") from None
        raise Closed from None
    line, *rest = block[:-4].decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (text.partition(":") for text in rest)]
    return Head(line, headers, {name.lower(): value for name, value in headers})


async def read_body(reader: asyncio.StreamReader, head: Head, *, until_close: bool = False) -> bytes:
    """Read the body that `head` announces; one without a length ends with the connection if `until_close`."""
    if "chunked" in head.fields.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    length = head.fields.get("content-length")
    if length is not None:
        return await reader.readexactly(int(length)) if int(length) else b""
    return await reader.read() if until_close else b""


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while length := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        pieces.append(await reader.readexactly(length))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
        pass
    return b"".join(pieces)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """Read a request; a client that asks whether to go on with its body is told to."""
    head = await read_head(reader)
    method, target, _ = head.line.split(" ", 2)
    if head.fields.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Request(method, target, head, await read_body(reader, head))


def head_bytes(line: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a first line and headers as they are sent."""
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def response_head(response: Response) -> bytes:
    """Return what is sent ahead of a response's body."""
    headers = response.headers
    if response.status != HTTPStatus.NO_CONTENT and not any(name.lower() == "content-length" for name, _ in headers):
        headers = [*headers, ("Content-Length", str(len(response.body)))]
    return head_bytes(f"HTTP/1.1 {response.status} {reason(response.status)}", headers)


def reason(status: int) -> str:
    """Return the phrase that goes with a status."""
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"


def cut(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and stop of the one range that a Range header asks for, or ``None`` for the whole value.

    Raises
    ------
    IndexError
        If the range holds none of the `size` bytes, which is status 416.
    """
    unit, _, ranges = (header or "").partition("=")
    first, dash, last = ranges.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or not (first + last).isdigit():
        return None  # no range, several or nonsense: servers may send everything
    start, stop = (int(first), int(last) + 1 if last else size) if first else (max(size - int(last), 0), size)
    if start >= stop and start < size and first:
        return None  # ends before it begins
    if start >= size or (not first and not int(last)):
        raise IndexError(header)
    return start, min(stop, size)


def value_response(
    request: Request, size: int, read: Callable[[int, int], bytes], headers: list[tuple[str, str]]
) -> Response:
    """Answer a GET or HEAD with the value that ``read(start, stop)`` reads, or the range of it that is asked for."""
    headers = [*headers, ("Accept-Ranges", "bytes")]
    try:
        part = cut(request.head.fields.get("range"), size) if request.method == "GET" else None
    except IndexError:
        return Response(416, [("Content-Range", f"bytes */{size}")])
    if part is not None:
        headers.append(("Content-Range", f"bytes {part[0]}-{part[1] - 1}/{size}"))
        return Response(206, headers, read(*part))
    if request.method == "HEAD":
        return Response(200, [*headers, ("Content-Length", str(size))])
    return Response(200, headers, read(0, size))


def names_etag(header: str | None, etag: str) -> bool:
    """Return whether an If-Match or If-None-Match header names `etag`."""
    return header is not None and (header.strip() == "*" or etag in [text.strip() for text in header.split(",")])


def precondition(request: Request, etag: str) -> int | None:
    """Return 412 or 304 if the request's conditions refuse to send the value with `etag`."""
    fields = request.head.fields
    if "if-match" in fields and not names_etag(fields["if-match"], etag):
        return 412
    return 304 if names_etag(fields.get("if-none-match"), etag) else None


async def _serve_connection(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            request = await read_request(reader, writer)
            response = await handler(request)
            writer.write(response_head(response) + (b"" if request.method == "HEAD" else response.body))
            await writer.drain()
            if request.head.fields.get("connection", "").lower() == "close":
                break
    except (Closed, ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def listen(connected: Callable[..., Awaitable[None]]) -> tuple[asyncio.Server, int]:
    """Listen on a free port of the loopback interface, and return it."""
    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=LONGEST_HEAD, backlog=1024)
    return server, server.sockets[0].getsockname()[1]


def serve(handler: Handler) -> None:
    """Serve requests on a free port, which is printed, until standard input is closed."""

    async def main() -> None:
        server, port = await listen(lambda reader, writer: _serve_connection(handler, reader, writer))
        announce(port)
        async with server:
            await closed_input()

    asyncio.run(main())


def announce(port: int) -> None:
    """Tell the process that waits for this server where it listens."""
    print(f"http://127.0.0.1:{port}", flush=True)


async def closed_input() -> None:
    """Wait until the process at the other end of standard input closes it or dies."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        while sys.stdin.buffer.readline():
            pass
        loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=watch, daemon=True).start()
    await closed.wait()
