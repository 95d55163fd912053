"""Routes: the response for each path."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Final, TypeVar
from urllib.parse import parse_qs

from tegula.engine import back_off
from tegula.engine.concurrency.pool import awaited
from tegula.engine.stored.array import physical_memory
from tegula.errors import ConflictError, NotFoundError, SelectionError
from tegula.jobs.rewriting.memory import release
from tegula.server import extracting, facts, pages
from tegula.server.budget import Budget
from tegula.server.content import CAST_PREFIX, Content, Worked, split_cast
from tegula.server.moments import Work
from tegula.server.neuroglancer import neuroglancer
from tegula.server.replies import as_json
from tegula.server.values import Reply, Values, not_found
from tegula.stores.arguments import is_key

__all__ = ["Request", "Routes"]

T = TypeVar("T")
_WORK_BYTES: Final = 2**26
"""Bytes that requests hold together while chunks are decoded and rows are read."""
_MOST_WORK: Final = 2**32
_SHARE: Final = 4  # a request may take up to one in so many bytes of the machine's memory
_ATTEMPTS: Final = 10  # of an answer, until a writer leaves alone what it depends on
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
    _held: list[tuple[Budget, int]] = field(default_factory=list, init=False)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The parameters of the query; of several with one name, the first."""
        try:
            found = parse_qs(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise SelectionError("the query has too many parameters") from error
        return {name: values[0] for name, values in found.items()}

    async def hold(self, budget: Budget, nbytes: int) -> None:
        """Wait for room in a budget, and hold it until it is released, or the answer is sent."""
        await budget.acquire(nbytes)
        self._held.append((budget, nbytes))

    def hold_only(self, nbytes: int) -> None:
        """Release all but `nbytes` of the bytes that were held last."""
        budget, held = self._held.pop()
        if nbytes:
            self._held.append((budget, min(nbytes, held)))
        budget.release(max(0, held - nbytes))

    def release(self) -> None:
        """Release all that is held."""
        while self._held:
            self.hold_only(0)


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
        self._budget, self._downloads = Budget(_WORK_BYTES, _most(), release), Budget(_DOWNLOAD_BYTES)
        self._has_as = (0.0, False)

    async def reply(self, request: Request) -> Reply:
        """Return the answer to a request.

        Raises
        ------
        TegulaError, BusyError, TooLargeError
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

    async def _at_one_moment(self, request: Request, plan: Callable[[], T | Work[T]]) -> T:
        """Return the result of a plan, or of the work that it returns; every answer is made here.

        What is read belongs to one state of the stored values. Where a writer comes between, everything is done again.
        The memory of the work is held first, and then what the bytes of an answer take.
        """
        for attempt in count(1):
            try:
                planned: T | Work[T] = await awaited(plan, self._requests)
                if not isinstance(planned, Work):
                    return planned
                await request.hold(self._budget, planned.cost)
                size = 0
                try:
                    found: T = await awaited(planned.run, self._requests)
                    size = len(found.body) if isinstance(found, Reply) else 0
                finally:
                    request.hold_only(size)
                return found
            except ConflictError:
                if attempt >= _ATTEMPTS:
                    raise
            except (NotFoundError, SelectionError) as error:
                if attempt >= _ATTEMPTS or not error.is_stale:
                    raise
                self.content.forget()
            await awaited(partial(back_off, attempt), self._requests)
        raise AssertionError

    async def _value(self, request: Request, key: str, to: str | None) -> Reply:
        found = await self._at_one_moment(request, partial(self._planned, request, key, to))
        return await self._node(request, key.strip("/")) if found is None else found

    def _planned(self, request: Request, key: str, to: str | None) -> Reply | Work[Reply | None] | None:
        """Answer for a key if that takes little memory, else return the work; ``None`` if it is not a key."""
        found = self.content.find(key, to)
        if found is None:
            return None
        answer = partial(self._values.answer, request.method, request.headers, f"{to}:{key}", found)
        return Work(found.cost, answer) if isinstance(found, Worked) else answer()

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
                plan = partial(facts.listing, self.content, path, after, limit)
                return as_json(await self._at_one_moment(request, plan), vary=True)
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
        plan = partial(neuroglancer, self.content, rest, request.parameters, request.headers)
        return await self._at_one_moment(request, plan)

    async def _info(self, request: Request, rest: str) -> Reply:
        return as_json(await self._at_one_moment(request, partial(facts.info, self.content, rest.strip("/"))))

    async def _tree(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        under, search = asked.get("under", "").strip("/"), asked.get("search", "")
        plan = partial(facts.tree, self.content, under, search, _number(asked, "limit", 200))
        return as_json(await self._at_one_moment(request, plan))

    async def _rows(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        start, stop = _number(asked, "start", 0), _number(asked, "stop", -1)
        columns = asked.get("columns")
        names = None if columns is None else _names(columns)
        last = None if stop < 0 else stop
        plan = partial(extracting.rows_work, self.content, rest.strip("/"), names, start, last)
        return as_json(await self._at_one_moment(request, plan))

    async def _stats(self, request: Request, rest: str) -> Reply:
        selection = request.parameters.get("selection", "")
        plan = partial(extracting.measured_work, self.content, rest.strip("/"), selection)
        return as_json(await self._at_one_moment(request, plan))

    async def _download(self, request: Request, rest: str) -> Reply:
        asked = request.parameters
        path, selection, format = rest.strip("/"), asked.get("selection", ""), asked.get("format", "npy")
        await request.hold(self._downloads, extracting.COST)  # for blocks that wait for the client
        cost = 0

        def plan() -> Work[extracting.Download]:
            nonlocal cost
            work = extracting.download(self.content, path, selection, format)
            cost = work.cost
            return work

        found: extracting.Download = await self._at_one_moment(request, plan)
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in found.name)
        plain = name.encode("ascii", "replace").decode().replace("?", "_")
        out = {"content-type": found.media_type, "content-disposition": f'attachment; filename="{plain}"'}
        if found.size is not None:
            out["content-length"] = str(found.size)
        turn = partial(self._budget.turn, cost)
        return Reply(200, {**out, "cache-control": "no-store"}, found.first, found.rest, turn=turn)

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


def _most() -> int:
    """Return the most bytes of memory that the work for one request may take."""
    return min(_MOST_WORK, physical_memory() // _SHARE)


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
