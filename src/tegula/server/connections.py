"""Connections of clients that may be slow or hostile: bounds on the bytes and the time that each may take."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tegula.server.replies import ABORT

__all__ = ["Connection"]

_MOST_HEAD: Final = 2**16  # bytes of a request line and headers
_MOST_HEADERS: Final = 200
_HEAD_SECONDS: Final = 20.0  # for a client to send them
_PLAIN: Final = re.compile(rb"/[A-Za-z0-9_./-]+").fullmatch  # neither a query nor anything encoded
_STALL_SECONDS: Final = 60.0  # for a client to receive pending bytes


class Connection(HttpToolsProtocol):
    """A connection of uvicorn that ends if its client sends endless headers, or receives no bytes.

    uvicorn limits neither, and keeps all bytes that the client has not received.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head = 0
        self._in_head = True
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._quick = getattr(self.app, "quick", None)
        self._is_answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn makes none other
        """Note a new connection; its first request must come soon."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._unset(stall=True)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on to the parser, unless they belong to headers that do not end."""
        super().data_received(data)
        if self._in_head and self.parser is not None:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self._refuse()

    def on_message_begin(self) -> None:
        """Note that a request has begun."""
        super().on_message_begin()
        extensions: Any = {ABORT: self._give_up}
        self.scope["extensions"] = extensions
        self._head, self._in_head = 0, True
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless there are too many."""
        if len(self.headers) >= _MOST_HEADERS:
            raise httptools.HttpParserError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer the request, whose headers are complete."""
        self._in_head = False
        self._unset()
        self._is_answered = self._quick is not None and self._answered_at_once(self._quick)
        if not self._is_answered:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body, unless the answer does not depend on it."""
        if not self._is_answered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        if not self._is_answered:
            super().on_message_complete()

    def _answered_at_once(self, quick: Any) -> bool:
        """Answer a request for a value that can be read at once, without a new task, if no other request is pending."""
        if (
            (self.cycle is not None and not self.cycle.response_complete)
            or self.pipeline
            or self.flow.write_paused
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or self.parser.get_method() != b"GET"
            or len(self.connections) >= (self.limit_concurrency or sys.maxsize)
            or not _PLAIN(self.url)
        ):
            return False
        reply = quick(self.url.decode("ascii"), self.headers, self.server)
        if reply is None:
            return False
        lines = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        named = "".join([f"{name}: {value}\r\n" for name, value in reply.headers.items()])
        # in two writes, so that the body is not copied
        head = b"".join((STATUS_LINE[reply.status], *lines, named.encode("latin-1"), b"\r\n"))
        self.transport.writelines((head, reply.body))
        self.on_response_complete()
        return True

    def pause_writing(self) -> None:
        """Note that the client receives bytes more slowly than they are sent."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(_STALL_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        """Note that the client has received most of the pending bytes."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is not used, even if the client has not received the last response."""
        super().timeout_keep_alive_handler()
        if self._stall is None:
            self._stall = self.loop.call_later(_STALL_SECONDS, self._give_up)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.send_400_response("The headers are too long.")
            self._in_head = False

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _unset(self, *, stall: bool = False) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if stall and self._stall is not None:
            self._stall.cancel()
            self._stall = None
