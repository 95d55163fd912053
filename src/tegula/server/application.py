"""The ASGI application: which answer a request gets."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.middleware.cors import CORSMiddleware

from tegula.errors import (
    ConflictError,
    MetadataError,
    NotFoundError,
    SelectionError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.server import extracting, facts, pages
from tegula.server.budget import Budget, BusyError, run
from tegula.server.content import Content, Worked, split_cast
from tegula.server.guard import cookie_name, is_known_host, offered_tokens, token_matches
from tegula.server.values import BLOCK, Reply, Values, not_found
from tegula.stores.arguments import is_key

__all__ = ["Application"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Query = Mapping[str, str]

_WORK_BYTES: Final = 2**26
"""Bytes that requests hold together while chunks are decoded and files are written."""
_NAMED_CAST: Final = "as/"
_NAMED: Final = "-/"
_AS_LIFETIME: Final = 5.0  # seconds that it is known whether the node has a member "as"
_EXPOSED: Final = ("Content-Range", "ETag", "Content-Length", "Accept-Ranges")
_ASKED: Final = ("Range", "If-Match", "If-None-Match", "If-Range", "Authorization")
_STATUS: Final = (
    (NotFoundError, 404),
    (SelectionError, 400),
    (UnsupportedError, 422),
    (MetadataError, 422),
    (ConflictError, 409),
    (StoreError, 502),
)
_SPECIAL: Final = ("/-/", "/as/")
_PUBLIC: Final = "/-/page/"
_CONTEXT: Final = re.compile(r"/[A-Za-z0-9._~%@/-]+").fullmatch
_SLOW: Final = 0.005  # seconds: where reading takes longer, it is left to threads for a while
_SLOW_SECONDS: Final = 0.5
_LATIN: Final = "latin-1"
_LOCAL_ORIGIN: Final = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?"


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
    """

    def __init__(
        self, node: Any, token: str | None, *, allow_origins: tuple[str, ...], allow_hosts: tuple[str, ...]
    ) -> None:
        self.content = Content(node)
        self._values = Values(self.content, "no-cache" if token is None else "private, no-cache")
        self._token = token
        self._hosts = allow_hosts
        self._requests = node.store.concurrency
        self._budget = Budget(_WORK_BYTES)
        self._has_as = (0.0, False)
        self._slow_until = 0.0
        self._answer = CORSMiddleware(
            self._guarded,
            allow_origins=allow_origins,
            allow_origin_regex=_LOCAL_ORIGIN,
            allow_methods=("GET", "HEAD", "OPTIONS"),
            allow_headers=_ASKED,
            expose_headers=_EXPOSED,
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
            await self._answer(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request if it has the right to ask."""
        headers = {name.decode(_LATIN): value.decode(_LATIN) for name, value in scope["headers"]}
        if not is_known_host(headers.get("host"), self._hosts):
            await _send(_plain(421, "this server does not go by that name"), send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            reply = _plain(405, "this server is read-only")
            reply.headers["allow"] = "GET, HEAD, OPTIONS"
            await _send(reply, send)
            return
        cookie = None
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        # what the page consists of is no secret, and a frame in a page of another site sends no cookie for it
        if self._token is not None and not path.startswith(_PUBLIC):
            admission = self._admission(scope["query_string"], headers, scope.get("server"))
            if admission is None:
                reply = _plain(401, "a token is required: add ?token=… to the URL")
                reply.headers["www-authenticate"] = "Bearer"
                await _send(reply, send)
                return
            if admission == "query":
                name = cookie_name(scope.get("server"))
                context = headers.get("x-forwarded-context", "")  # of a proxy that others share
                place = context if _CONTEXT(context) else "/"
                cookie = f"{name}={self._token}; HttpOnly; SameSite=Strict; Path={place}"
        await self._respond(scope, headers, cookie, receive, send)

    async def _respond(
        self, scope: Scope, headers: Mapping[str, str], cookie: str | None, receive: Receive, send: Send
    ) -> None:
        method, held = scope["method"], [0]
        path = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        try:
            reply = await self._reply(method, path, scope["query_string"], headers, held)
        except Exception as error:  # noqa: BLE001 - each is answered
            reply = _failure(error)
        try:
            if cookie is not None:
                reply.headers["set-cookie"] = cookie
            if method == "HEAD":
                reply.body = b""
            await _send(reply, send, None if method == "HEAD" else reply.rest, receive, self._requests)
        finally:
            if held[0]:
                self._budget.release(held[0])

    def quick(self, target: str, headers: list[tuple[bytes, bytes]], server: Any) -> Reply | None:
        """Return the answer to a request for a stored value that can be read without waiting, else ``None``.

        A server may ask this before it starts a task for a request; the answer is the same.
        """
        if self._requests or target.startswith(_SPECIAL) or time.monotonic() < self._slow_until:
            return None
        known = {name.decode(_LATIN): value.decode(_LATIN) for name, value in headers}
        if "origin" in known or not is_known_host(known.get("host"), self._hosts):
            return None
        if self._token is not None and self._admission(b"", known, server) != "cookie":
            return None
        start, waits = time.monotonic(), _waits()
        key = target[1:]
        try:
            found = self.content.find_known(key)
            reply = None if found is None else self._values.answer("GET", known, key, found)
        except TegulaError:
            return None  # said by the usual way
        now = time.monotonic()
        if now - start > _SLOW and _waits() != waits:
            self._slow_until = now + _SLOW_SECONDS
        if reply is None or reply.status == 404 or reply.rest is not None:
            return None
        reply.headers["vary"] = "Origin"
        return reply

    def _admission(self, query: bytes, headers: Mapping[str, str], server: Any) -> str | None:
        """Return where the right token of a request stands, or ``None`` if it has none."""
        offered = offered_tokens(query, headers, cookie_name(server))
        places = [place for place, value in offered if token_matches(value, self._token or "")]
        return places[-1] if places else None

    # --- what is asked for

    async def _reply(self, method: str, path: str, query: bytes, headers: Mapping[str, str], held: list[int]) -> Reply:
        """Return the answer to a request; `held` gets the bytes of the budget that it takes."""
        if path.startswith(_NAMED):
            name, _, rest = path[len(_NAMED) :].partition("/")
            route = self._routes.get(name)
            if route is not None:
                return await route(self, method, rest, _query(query), headers, held)
        return await self._key(method, path, query, headers, held)

    async def _key(self, method: str, path: str, query: bytes, headers: Mapping[str, str], held: list[int]) -> Reply:
        """Answer for a key of Zarr v3, or for the path of a node."""
        reserved = False
        if path.startswith(_NAMED_CAST):
            reserved = await self._reserves_as()
        key, to = split_cast(path, reserved)
        return await self._value(method, key, to, query, headers, held)

    async def _value(
        self, method: str, key: str, to: str | None, query: bytes, headers: Mapping[str, str], held: list[int]
    ) -> Reply:
        first = await run(partial(self._first, method, key, to, headers), self._requests)
        if isinstance(first, Reply):
            return first
        if isinstance(first, Worked):
            await self._budget.acquire(first.cost)
            held[0] = first.cost
            made = await run(partial(self._values.answer, method, headers, f"{to}:{key}", first), self._requests)
            if len(made.body) < held[0]:
                self._budget.release(held[0] - len(made.body))
                held[0] = len(made.body)
            return made
        return await self._node(key.strip("/"), query, headers, held)

    def _first(self, method: str, key: str, to: str | None, headers: Mapping[str, str]) -> Reply | Worked | None:
        """Answer for a key if that takes little memory; ``None`` if it is not a key."""
        found = self.content.find(key, to)
        return found if found is None or isinstance(found, Worked) else self._values.answer(method, headers, key, found)

    async def _reserves_as(self) -> bool:
        """Return whether the node has a member of the name "as", whose keys come first."""
        until, found = self._has_as
        if time.monotonic() >= until:
            kind = await run(partial(self.content.kind, "as"), self._requests)
            found = kind is not None
            self._has_as = time.monotonic() + _AS_LIFETIME, found
        return found

    async def _node(self, path: str, query: bytes, headers: Mapping[str, str], held: list[int]) -> Reply:
        """Answer for the path of a node: with the page for a browser, with a listing for a program."""
        asked = _query(query)
        accepted = headers.get("accept", "")
        if "list" in asked or "text/html" not in accepted:
            if not path or is_key(path):
                after, limit = asked.get("after", ""), _number(asked, "limit", 1000)
                found = await run(partial(facts.listing, self.content, path, after, limit), self._requests)
                return _json(found, vary=True)
            return not_found()
        if path and not is_key(path):
            return not_found()
        if await run(partial(self.content.kind, path), self._requests) is None:
            return not_found()
        return await run(partial(pages.page, self.content, path))

    # --- routes below /-/

    async def _page(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        return await run(partial(pages.asset, rest, headers))

    async def _neuroglancer(
        self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]
    ) -> Reply:
        return await run(partial(pages.neuroglancer, self.content, rest, query, headers), self._requests)

    async def _info(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        return _json(await run(partial(facts.info, self.content, rest.strip("/")), self._requests))

    async def _tree(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        under, search = query.get("under", "").strip("/"), query.get("search", "")
        work = partial(facts.tree, self.content, under, search, _number(query, "limit", 200))
        return _json(await run(work, self._requests))

    async def _rows(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        start, stop = _number(query, "start", 0), _number(query, "stop", -1)
        columns = query.get("columns")
        names = None if columns is None else _names(columns)
        await self._hold(extracting.COST, held)
        work = partial(extracting.rows, self.content, rest.strip("/"), names, start, None if stop < 0 else stop)
        return _json(await run(work, self._requests))

    async def _stats(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        await self._hold(extracting.COST, held)
        work = partial(extracting.measured, self.content, rest.strip("/"), query.get("selection", ""))
        return _json(await run(work, self._requests))

    async def _download(
        self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]
    ) -> Reply:
        path, selection, format = rest.strip("/"), query.get("selection", ""), query.get("format", "npy")
        await self._hold(extracting.COST, held)
        found = await run(partial(extracting.download, self.content, path, selection, format), self._requests)
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in found.name)
        plain = name.encode("ascii", "replace").decode().replace("?", "_")
        out = {"content-type": found.media_type, "content-disposition": f'attachment; filename="{plain}"'}
        if found.size is not None:
            out["content-length"] = str(found.size)
        return Reply(200, {**out, "cache-control": "no-store"}, b"", found.pieces)

    async def _as(self, method: str, rest: str, query: Query, headers: Mapping[str, str], held: list[int]) -> Reply:
        to, _, key = rest.partition("/")
        return await self._value(method, key, to, b"list", headers, held)

    async def _hold(self, nbytes: int, held: list[int]) -> None:
        await self._budget.acquire(nbytes)
        held[0] += nbytes

    _routes: Final = {
        "page": _page,
        "neuroglancer": _neuroglancer,
        "info": _info,
        "tree": _tree,
        "rows": _rows,
        "stats": _stats,
        "values": _download,
        "as": _as,
    }


def _waits() -> int:
    """Return how often this thread has waited, as for a disk; not how often the system has given its core to another.

    Where the system does not count that, each moment has a number of its own.
    """
    if _USAGE is None:
        return time.monotonic_ns()
    usage, thread = _USAGE
    found: int = usage(thread).ru_nvcsw
    return found


# --- questions


def _query(raw: bytes) -> dict[str, str]:
    """Return the parameters of a query, the first of each name."""
    try:
        found = parse_qs(raw.decode(_LATIN), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise SelectionError("the query has too many parameters") from error
    return {name: values[0] for name, values in found.items()}


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise SelectionError(f"{name} must be a whole number of up to 18 digits, not {text!r:.40}")
    return int(text)


def _names(text: str) -> list[str]:
    """Return names of columns: a JSON list, or names between commas."""
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise SelectionError("columns must be names between commas, or a JSON list of names")
        return found
    return [name for name in text.split(",") if name]


# --- answers


def _plain(status: int, text: str) -> Reply:
    body = f"{text}\n".encode()
    return Reply(status, {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}, body)


def _json(value: Any, status: int = 200, *, vary: bool = False) -> Reply:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    headers = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-cache"}
    headers["x-content-type-options"] = "nosniff"
    if vary:
        headers["vary"] = "Accept"
    return Reply(status, headers, body)


def _failure(error: Exception) -> Reply:
    """Return the answer that says what went wrong."""
    if isinstance(error, BusyError):
        reply = _json({"error": "the server is busy; ask again later"}, 503)
        reply.headers["retry-after"] = "5"
        return reply
    if isinstance(error, MemoryError):
        return _json({"error": "there is not enough memory for this"}, 503)
    if not isinstance(error, TegulaError):
        raise error
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 502)
    return _json({"error": facts.message(error)}, status)


async def _send(
    reply: Reply,
    send: Send,
    rest: Iterator[bytes] | None = None,
    receive: Receive | None = None,
    requests: int = 0,
) -> None:
    """Send an answer; the rest block by block, as fast as the client takes it and as long as it is there."""
    headers = [(name.encode(_LATIN), value.encode(_LATIN, "replace")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if rest is None:
        await send({"type": "http.response.body", "body": reply.body})
        return
    gone = asyncio.ensure_future(_disconnected(receive)) if receive is not None else None
    try:
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        while gone is None or not gone.done():
            piece = await run(partial(next, rest, None), requests)
            if piece is None:
                await send({"type": "http.response.body", "body": b""})
                return
            for start in range(0, len(piece), BLOCK):
                part = piece[start : start + BLOCK] if len(piece) > BLOCK else piece
                await send({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        if gone is not None:
            gone.cancel()
        close = getattr(rest, "close", None)
        if close is not None:
            await run(close)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
