"""The ASGI application: which requests are answered, and how."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware

from tegula.errors import TegulaError
from tegula.server.content import Content
from tegula.server.guard import (
    combined,
    cookie_name,
    is_known_host,
    is_origin,
    offered_tokens,
    origin_rules,
    token_matches,
)
from tegula.server.replies import Receive, Scope, Send, failure, plain, send_reply
from tegula.server.routes import Request, Routes
from tegula.server.values import Reply, Values

__all__ = ["Application"]

_EXPOSED_HEADERS: Final = ("Content-Range", "ETag", "Content-Length", "Accept-Ranges")
_ALLOWED_HEADERS: Final = ("Range", "If-Match", "If-None-Match", "If-Range", "Authorization")
_SPECIAL: Final = "/-/"
_PUBLIC: Final = "/-/page/"
_CONTEXT: Final = re.compile(r"/[A-Za-z0-9._~%@/-]+").fullmatch
_SLOW: Final = 0.005  # seconds: if a read takes longer, reads are left to threads for a while
_SLOW_SECONDS: Final = 0.5
_MOST_REFUSED: Final = 100  # origins whose pages may not read, to tell of


try:
    import resource

    _USAGE: Any = (resource.getrusage, resource.RUSAGE_THREAD)
except (ImportError, AttributeError):  # Windows, macOS
    _USAGE = None


class Application:
    """An ASGI application that shows a node; made by `tegula.server.app`.

    Parameters
    ----------
    node, token, allow_origins, allow_hosts
        As for `tegula.server.app`.

    Attributes
    ----------
    refused : callable
        Called once with each origin whose pages ask for data that they may not read.
    """

    def __init__(
        self, node: Any, token: str | None, *, allow_origins: tuple[str, ...], allow_hosts: tuple[str, ...]
    ) -> None:
        self.content = Content(node)
        self._token = token
        self._hosts = allow_hosts
        self._requests, self._is_remote = node.store.concurrency, node.store.is_remote
        values = Values(self.content, "no-cache" if token is None else "private, no-cache")
        self._routes = Routes(self.content, values)
        self._slow_until = 0.0
        self.refused: Callable[[str], None] = lambda _: None
        self._refused: set[str] = set()
        origins, pattern = origin_rules(allow_origins)
        self._answer = CORSMiddleware(
            self._guarded,
            allow_origins=origins,
            allow_origin_regex=pattern,
            allow_methods=("GET", "HEAD", "OPTIONS"),
            allow_headers=_ALLOWED_HEADERS,
            expose_headers=_EXPOSED_HEADERS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            while (event := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{event['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            self._note_origin(scope)
            await self._answer(scope, receive, send)

    def _note_origin(self, scope: Scope) -> None:
        """Tell of the first request of a page on another site that may not read the answer."""
        headers = combined(scope["headers"]) or {}
        origin, host = headers.get("origin"), headers.get("host")
        if origin is None or self._answer.is_allowed_origin(origin) or origin == f"{scope['scheme']}://{host}":
            return
        if origin not in self._refused and len(self._refused) < _MOST_REFUSED and is_origin(origin):
            self._refused.add(origin)
            self.refused(origin)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request if it is authorised."""
        headers = combined(scope["headers"])
        if headers is None:
            await send_reply(plain(400, "a request names one host"), scope, receive, send)
            return
        if not is_known_host(headers.get("host"), self._hosts):
            await send_reply(plain(421, "this server does not go by that name"), scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            reply = plain(405, "this server is read-only")
            reply.headers["allow"] = "GET, HEAD, OPTIONS"
            await send_reply(reply, scope, receive, send)
            return
        cookie = None
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        # the page's files are not secret, and a frame in a page of another site sends no cookie for them
        if self._token is not None and not path.startswith(_PUBLIC):
            admission = self._admission(scope["query_string"], headers, scope.get("server"))
            if admission is None:
                reply = plain(401, "a token is required: add ?token=… to the URL")
                reply.headers["www-authenticate"] = "Bearer"
                await send_reply(reply, scope, receive, send)
                return
            if admission == "query":
                name = cookie_name(scope.get("server"))
                context = headers.get("x-forwarded-context", "")  # set by a proxy that others share
                cookie_path = context if _CONTEXT(context) else "/"
                cookie = f"{name}={self._token}; HttpOnly; SameSite=Strict; Path={cookie_path}"
        await self._respond(scope, headers, cookie, receive, send)

    async def _respond(
        self, scope: Scope, headers: Mapping[str, str], cookie: str | None, receive: Receive, send: Send
    ) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        request = Request(scope["method"], path, scope["query_string"], headers)
        try:
            try:
                reply = await self._routes.reply(request)
            except Exception as error:  # noqa: BLE001 - every error is answered
                reply = failure(error)
            if cookie is not None:
                reply.headers["set-cookie"] = cookie
            await send_reply(reply, scope, receive, send, self._requests)
        finally:
            request.release()

    def quick(self, target: str, headers: list[tuple[bytes, bytes]], server: Any) -> Reply | None:
        """Return the answer to a request for a chunk that can be read without waiting, else ``None``.

        A server may ask this before it starts a task for a request; the answer is the same.
        """
        if self._is_remote or target.startswith(_SPECIAL) or time.monotonic() < self._slow_until:
            return None
        request_headers = combined(headers)
        if (
            request_headers is None
            or "origin" in request_headers
            or not is_known_host(request_headers.get("host"), self._hosts)
        ):
            return None
        if self._token is not None and self._admission(b"", request_headers, server) != "cookie":
            return None
        start, before = time.monotonic(), _usage()
        try:
            reply = self._routes.quick(target[1:], request_headers)
        except TegulaError:
            return None  # the usual way reports the error
        now = time.monotonic()
        if now - start > _SLOW:
            waits, seconds = _usage()
            if waits != before[0] or seconds - before[1] > _SLOW:
                self._slow_until = now + _SLOW_SECONDS
        if reply is None or reply.status == 404 or reply.blocks is not None:
            return None
        reply.headers["vary"] = "Origin"
        return reply

    def _admission(self, query: bytes, headers: Mapping[str, str], server: Any) -> str | None:
        """Return which part of a request holds the right token, or ``None`` if none does."""
        offered = offered_tokens(query, headers, cookie_name(server))
        parts = [part for part, value in offered if token_matches(value, self._token or "")]
        return parts[-1] if parts else None


def _usage() -> tuple[int, float]:
    """Return how often this thread has waited, for example for a disk, and its seconds of processor time.

    Preemption by the system does not count as waiting. If the system does not count waits, every call returns another
    number.
    """
    if _USAGE is None:
        return time.monotonic_ns(), 0.0
    usage, thread = _USAGE
    used = usage(thread)
    return used.ru_nvcsw, used.ru_utime + used.ru_stime
