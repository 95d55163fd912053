"""HTTP responses: how they are made from values and errors, and how they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, Final

from tegula.engine.concurrency.pool import awaited
from tegula.errors import (
    ConflictError,
    MetadataError,
    NotFoundError,
    SelectionError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.server.budget import BusyError, TooLargeError
from tegula.server.facts import message
from tegula.server.values import BLOCK, Reply

__all__ = ["ABORT", "Receive", "Scope", "Send", "as_json", "failure", "plain", "send_reply"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

ABORT: Final = "tegula.abort"
"""The ASGI extension that lets the application cut a connection."""
_STATUS: Final = (
    (NotFoundError, 404),
    (SelectionError, 400),
    (UnsupportedError, 422),
    (MetadataError, 422),
    (ConflictError, 409),
    (StoreError, 502),
)
_LATIN: Final = "latin-1"
_PATIENCE: Final = 30.0  # seconds, and one more for each 256 KB, to receive a response whose memory others wait for


def plain(status: int, text: str) -> Reply:
    """Return an answer of one line of text."""
    body = f"{text}\n".encode()
    return Reply(status, {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}, body)


def as_json(value: Any, status: int = 200, *, vary: bool = False) -> Reply:
    """Return an answer in JSON; `vary` says that it depends on ``Accept``."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    headers = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-cache"}
    headers["x-content-type-options"] = "nosniff"
    if vary:
        headers["vary"] = "Accept"
    return Reply(status, headers, body)


def failure(error: Exception) -> Reply:
    """Return the answer that says what went wrong."""
    if isinstance(error, BusyError):
        reply = as_json({"error": "the server is busy; ask again later"}, 503)
        reply.headers["retry-after"] = "5"
        return reply
    if isinstance(error, TooLargeError):
        return as_json({"error": str(error)}, 413)
    if isinstance(error, MemoryError):
        return as_json({"error": "there is not enough memory for this"}, 503)
    if not isinstance(error, TegulaError):
        raise error
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 502)
    return as_json({"error": message(error)}, status)


async def send_reply(reply: Reply, scope: Scope, receive: Receive, send: Send, requests: int = 0) -> None:
    """Send a response block by block, as fast as the client receives it and as long as it is connected.

    A response that can't be completed, since the value has changed or the client is too slow, is cut off, so that the
    client sees that it is incomplete.
    """
    headers = [(name.encode(_LATIN), value.encode(_LATIN, "replace")) for name, value in reply.headers.items()]
    is_whole = scope["method"] == "HEAD" or (reply.blocks is None and len(reply.body) <= BLOCK and not reply.stays_open)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if is_whole:
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})
        return
    disconnected = asyncio.ensure_future(_disconnected(receive))
    try:
        if reply.stays_open:
            await send({"type": "http.response.body", "body": reply.body, "more_body": True})
            await disconnected
        elif reply.blocks is None:
            async with asyncio.timeout(_PATIENCE + len(reply.body) / 2**18):
                await _send_blocks(reply.body, disconnected, send)
        else:
            await _send_blocks(reply.body, disconnected, send)
            while not disconnected.done():
                async with reply.turn():
                    piece = await awaited(partial(next, reply.blocks, None), requests)
                if piece is None:
                    break
                await _send_blocks(piece, disconnected, send)
        if not disconnected.done():
            await send({"type": "http.response.body", "body": b""})
    except (TegulaError, TimeoutError, BusyError):
        abort = scope.get("extensions", {}).get(ABORT)
        if abort is None:
            raise
        abort()
        await disconnected
    finally:
        disconnected.cancel()
        await _close(reply.blocks)


async def _send_blocks(data: bytes, disconnected: asyncio.Future[None], send: Send) -> None:
    for start in range(0, len(data), BLOCK):
        if disconnected.done():
            return
        part = data[start : start + BLOCK] if len(data) > BLOCK else data
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _close(blocks: Iterator[bytes] | None) -> None:
    close = getattr(blocks, "close", None)
    if close is not None:
        await awaited(close)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
