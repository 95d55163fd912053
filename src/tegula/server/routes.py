"""Routes: the response for each path."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final
from urllib.parse import parse_qs

from tegula.engine.pool import awaited
from tegula.errors import SelectionError
from tegula.server import extracting, facts, pages
from tegula.server.budget import Budget
from tegula.server.content import CAST_PREFIX, Content, Worked, split_cast
from tegula.server.neuroglancer import neuroglancer
from tegula.server.replies import as_json
from tegula.server.values import Reply, Values, not_found
from tegula.stores.arguments import is_key

__all__ = ["Request", "Routes"]

_WORK_BYTES: Final = 2**26
"""Bytes that requests hold together while chunks are decoded and rows are read."""
_DOWNLOAD_BYTES: Final = 4 * extracting.COST
_NAMED: Final = "-/"
_AS_LIFETIME: Final = 5.0  # seconds to remember whether the node has a member "as"


@dataclass
class Request:
    """A request, and the memory that it holds.

    Parameters
    ----------
    method : str
        GET or HEAD.
    path : str
        The path without its leading slash.
    query : bytes
        The text after the question mark.
    headers : mapping of str to str
        The headers, by names in lower case.
    """

    method: str
    path: str
    query: bytes
    headers: Mapping[str, str]
    _held: int = field(default=0, init=False)
    _budget: Budget | None = field(default=None, init=False)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The parameters of the query; of several with one name, the first."""
        try:
            found = parse_qs(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise SelectionError("the query has too many parameters") from error
        return {name: values[0] for name, values in found.items()}

    async def hold(self, budget: Budget, nbytes: int) -> None:
        """Wait for room in a budget, and hold it until the answer is sent."""
        await budget.acquire(nbytes)
        self._budget, self._held = budget, nbytes

    def hold_only(self, nbytes: int) -> None:
        """Release all but `nbytes` of the held bytes."""
        if self._budget is not None and nbytes < self._held:
            self._budget.release(self._held - nbytes)
            self._held = nbytes


class Routes:
    """The answers to requests for some content.

    Parameters
    ----------
    content, values
        The served content, and its values.
    """

    def __init__(self, content: Content, values: Values) -> None:
        self.content = content
        self._values = values
        self._requests = content.store.concurrency
        self._budget, self._downloads = Budget(_WORK_BYTES), Budget(_DOWNLOAD_BYTES)
        self._has_as = (0.0, False)

    async def reply(self, request: Request) -> Reply:
        """Return the answer to a request.

        Raises
        ------
        TegulaError, BusyError
            If there is no answer.
        """
        if request.path.startswith(_NAMED):
            name, _, rest = request.path[len(_NAMED) :].partition("/")
            route = self._routes.get(name)
            if route is not None:
                return await route(self, request, rest)
        return await self._key(request)

    async def _key(self, request: Request) -> Reply:
        """Answer for a key of Zarr v3, or for the path of a node."""
        is_reserved = request.path.startswith(CAST_PREFIX) and await self._reserves_as()
        key, to = split_cast(request.path, is_reserved)
        return await self._value(request, key, to)

    async def _value(self, request: Request, key: str, to: str | None) -> Reply:
        first = await awaited(partial(self._first, request, key, to), self._requests)
        if isinstance(first, Reply):
            return first
        if first is None:
            return await self._node(request, key.strip("/"))
        await request.hold(self._budget, first.cost)
        work = partial(self._values.answer, request.method, request.headers, f"{to}:{key}", first)
        made = await awaited(work, self._requests)
        request.hold_only(len(made.body))
        return made

    def _first(self, request: Request, key: str, to: str | None) -> Reply | Worked | None:
        """Answer for a key if that takes little memory; ``None`` if it is not a key."""
        found = self.content.find(key, to)
        if found is None or isinstance(found, Worked):
            return found
        return self._values.answer(request.method, request.headers, key, found)

    async def _reserves_as(self) -> bool:
        """Return whether the node has a member of the name "as", whose keys come first."""
        until, found = self._has_as
        if time.monotonic() >= until:
            kind = await awaited(partial(self.content.kind, "as"), self._requests)
            found = kind is not None
            self._has_as = time.monotonic() + _AS_LIFETIME, found
        return found

    async def _node(self, request: Request, path: str) -> Reply:
        """Answer for the path of a node: with the page for a browser, with a listing for a program."""
        asked = request.parameters
        if "list" in asked or "text/html" not in request.headers.get("accept", ""):
            if not path or is_key(path):
                after, limit = asked.get("after", ""), _number(asked, "limit", 1000)
                found = await awaited(partial(facts.listing, self.content, path, after, limit), self._requests)
                return as_json(found, vary=True)
            return not_found()
        if path and not is_key(path):
            return not_found()
        if await awaited(partial(self.content.kind, path), self._requests) is None:
            return not_found()
        return await awaited(partial(pages.page, self.content, path))

    # --- routes below /-/

    async def _page(self, request: Request, rest: str) -> Reply:
        return await awaited(partial(pages.asset, rest, request.headers))

    async def _neuroglancer(self, request: Request, rest: str) -> Reply:
        return await awaited(
            partial(neuroglancer, self.content, rest, request.parameters, request.headers), self._requests
        )

    async def _info(self, request: Request, rest: str) -> Reply:
        return as_json(await awaited(partial(facts.info, self.content, rest.strip("/")), self._requests))

    async def _tree(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        under, search = asked.get("under", "").strip("/"), asked.get("search", "")
        work = partial(facts.tree, self.content, under, search, _number(asked, "limit", 200))
        return as_json(await awaited(work, self._requests))

    async def _rows(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        start, stop = _number(asked, "start", 0), _number(asked, "stop", -1)
        columns = asked.get("columns")
        names = None if columns is None else _names(columns)
        await request.hold(self._budget, extracting.COST)
        work = partial(extracting.rows, self.content, rest.strip("/"), names, start, None if stop < 0 else stop)
        return as_json(await awaited(work, self._requests))

    async def _stats(self, request: Request, rest: str) -> Reply:
        await request.hold(self._budget, extracting.COST)
        work = partial(extracting.measured, self.content, rest.strip("/"), request.parameters.get("selection", ""))
        return as_json(await awaited(work, self._requests))

    async def _download(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        path, selection, format = rest.strip("/"), asked.get("selection", ""), asked.get("format", "npy")
        await request.hold(self._downloads, extracting.COST)
        found = await awaited(partial(extracting.download, self.content, path, selection, format), self._requests)
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in found.name)
        plain = name.encode("ascii", "replace").decode().replace("?", "_")
        out = {"content-type": found.media_type, "content-disposition": f'attachment; filename="{plain}"'}
        if found.size is not None:
            out["content-length"] = str(found.size)
        return Reply(200, {**out, "cache-control": "no-store"}, b"", found.pieces)

    async def _as(self, request: Request, rest: str) -> Reply:
        to, _, key = rest.partition("/")
        return await self._value(request, key, to)

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


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
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
