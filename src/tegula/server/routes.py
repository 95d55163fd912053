"""Routes: the response for each path."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from tegula.engine import back_off
from tegula.engine.concurrency.pool import awaited
from tegula.engine.stored.array import physical_memory
from tegula.errors import ConflictError, NotFoundError, SelectionError
from tegula.runtime.executors import release
from tegula.server import downloading, extracting, facts, pages
from tegula.server.budget import Budget
from tegula.server.consistency import Work
from tegula.server.content import CAST_PREFIX, ComputedValue, Content, split_cast
from tegula.server.matching import Matching, Query
from tegula.server.neuroglancer import is_offered, neuroglancer
from tegula.server.replies import as_json
from tegula.server.values import Reply, Values, not_found
from tegula.stores.arguments import is_key

__all__ = ["Request", "Routes"]

T = TypeVar("T")
_WORK_BYTES: Final = 2**26
"""Bytes that requests hold together while chunks are decoded and rows are read."""
_MOST_WORK: Final = 2**32
_SHARE: Final = 4  # a request may take up to one in so many bytes of the machine's memory
_ATTEMPTS: Final = 10  # to answer, while writers change what the answer depends on
_DOWNLOAD_BYTES: Final = 4 * extracting.COST
_ROUTE_PREFIX: Final = "-/"
_PREFERENCE: Final = "missing=empty"
"""Asks for an empty answer where there is no value: the page's chunks that are not stored are no errors."""
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
            parsed = parse_qs(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise SelectionError("the query has too many parameters") from error
        return {name: values[0] for name, values in parsed.items()}

    async def hold(self, budget: Budget, nbytes: int) -> None:
        """Wait for room in a budget, and hold it until it is released, or the answer is sent."""
        await budget.acquire(nbytes)
        self._held.append((budget, nbytes))

    def release_all_but(self, nbytes: int) -> None:
        """Release all but `nbytes` of the bytes that were acquired last."""
        budget, held = self._held.pop()
        if nbytes:
            self._held.append((budget, min(nbytes, held)))
        budget.release(max(0, held - nbytes))

    def release(self) -> None:
        """Release all that is held."""
        while self._held:
            self.release_all_but(0)


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
        self._budget, self._downloads = Budget(_WORK_BYTES, _most_bytes(), release), Budget(_DOWNLOAD_BYTES)
        self._has_as = (0.0, False)
        self._matching = Matching()

    async def reply(self, request: Request) -> Reply:
        """Return the answer to a request.

        Raises
        ------
        TegulaError, BusyError, TooLargeError
            If there is no answer.
        """
        if request.path.startswith(_ROUTE_PREFIX):
            name, _, path = request.path[len(_ROUTE_PREFIX) :].partition("/")
            route = self._routes.get(name)
            if route is not None:
                return await route(self, request, path)
        return await self._key(request)

    async def _key(self, request: Request) -> Reply:
        """Answer for a key of Zarr v3, or for the path of a node."""
        is_reserved = request.path.startswith(CAST_PREFIX) and await self._reserves_as()
        key, to = split_cast(request.path, is_reserved)
        return await self._value(request, key, to)

    def quick(self, path: str, headers: Mapping[str, str]) -> Reply | None:
        """Return the answer to GET for a chunk that is read without waiting, else ``None``."""
        reserved = False
        if path.startswith(CAST_PREFIX):
            until, reserved = self._has_as
            if time.monotonic() >= until:
                return None  # whether there is a member "as" is not known
        key, to = split_cast(path, reserved)
        value = self.content.find_known(key, to)
        return None if value is None else self._values.answer("GET", headers, _name(key, to), value)

    async def _consistent(self, request: Request, plan: Callable[[], T | Work[T]]) -> T:
        """Return the result of a plan, or of the work that it returns; every answer is made here.

        All that is read belongs to one state of the stored values: if a writer changes it meanwhile, everything is done
        again. While the work runs, its memory is held; after it, the bytes of the answer.
        """
        for attempt in count(1):
            try:
                planned: T | Work[T] = await awaited(plan, self._requests)
                if not isinstance(planned, Work):
                    return planned
                await request.hold(self._budget, planned.cost)
                size = 0
                try:
                    result: T = await awaited(planned.run, self._requests)
                    size = len(result.body) if isinstance(result, Reply) else 0
                finally:
                    request.release_all_but(size)
                return result
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
        """Answer for a key, as stored or cast, or for the path of a node, as is preferred where there is none."""
        try:
            reply = await self._consistent(request, partial(self._plan_value, request, key, to))
            if reply is None:
                reply = await self._node(request, key.strip("/"))
        except NotFoundError:
            if request.headers.get("prefer") != _PREFERENCE:
                raise
            reply = not_found()
        if reply.status == 404 and request.headers.get("prefer") == _PREFERENCE:
            return Reply(204, {"cache-control": "no-cache", "preference-applied": _PREFERENCE})
        return reply

    def _plan_value(self, request: Request, key: str, to: str | None) -> Reply | Work[Reply | None] | None:
        """Answer for a key if that takes little memory, else return the work; ``None`` if it is not a key."""
        value = self.content.find(key, to)
        if value is None:
            return None
        answer = partial(self._values.answer, request.method, request.headers, _name(key, to), value)
        return Work(value.cost, answer) if isinstance(value, ComputedValue) else answer()

    async def _reserves_as(self) -> bool:
        """Return whether the node has a member named "as", whose keys take precedence over those of cast elements."""
        until, exists = self._has_as
        if time.monotonic() >= until:
            kind = await awaited(partial(self.content.kind, "as"), self._requests)
            exists = kind is not None
            self._has_as = time.monotonic() + _AS_LIFETIME, exists
        return exists

    async def _node(self, request: Request, path: str) -> Reply:
        """Answer for the path of a node: with the page for a browser, with a listing for a program."""
        asked = request.parameters
        if "list" in asked or "text/html" not in request.headers.get("accept", ""):
            if not path or is_key(path):
                after, limit = asked.get("after", ""), _number(asked, "limit", 1000)
                plan = partial(facts.listing, self.content, path, after, limit)
                found = await self._consistent(request, plan)
                return as_json({**found, "neuroglancer": is_offered(found)}, vary=True)
            return not_found()
        if path and not is_key(path):
            return not_found()
        if await awaited(partial(self.content.kind, path), self._requests) is None:
            return not_found()
        return await awaited(partial(pages.page, self.content, path))

    # --- routes below /-/

    async def _page(self, request: Request, path: str) -> Reply:
        return await awaited(partial(pages.asset, path, request.headers))

    async def _neuroglancer(self, request: Request, path: str) -> Reply:
        plan = partial(neuroglancer, self.content, path, request.parameters, request.headers)
        return await self._consistent(request, plan)

    async def _info(self, request: Request, path: str) -> Reply:
        return as_json(await self._consistent(request, partial(facts.info, self.content, path.strip("/"))))

    async def _tree(self, request: Request, path: str) -> Reply:
        asked = request.parameters
        under, search = asked.get("under", "").strip("/"), asked.get("search", "")
        plan = partial(facts.tree, self.content, under, search, _number(asked, "limit", 200))
        return as_json(await self._consistent(request, plan))

    async def _rows(self, request: Request, path: str) -> Reply:
        asked = request.parameters
        start, stop = _number(asked, "start", 0), _number(asked, "stop", -1)
        columns = asked.get("columns")
        names = None if columns is None else _names(columns)
        last = None if stop < 0 else stop
        query, path = _query(asked), path.strip("/")
        plan = partial(extracting.rows_work, self.content, path, names, start, last, query, self._matching)
        return as_json(await self._consistent(request, plan))

    async def _stats(self, request: Request, path: str) -> Reply:
        asked, path = request.parameters, path.strip("/")
        query, selection, through = _query(asked), asked.get("selection", ""), _axis(asked)
        plan: Callable[[], Work[dict[str, Any]]]
        if query:
            column = asked.get("column", "")
            plan = partial(extracting.row_statistics_work, self.content, path, column, query, self._matching)
        else:
            plan = partial(extracting.selection_statistics_work, self.content, path, selection, through)
        return as_json(await self._consistent(request, plan))

    async def _download(self, request: Request, tail: str) -> Reply:
        asked = request.parameters
        path, selection, format = tail.strip("/"), asked.get("selection", ""), asked.get("format", "npy")
        query = _query(asked)
        await request.hold(self._downloads, extracting.COST)  # for blocks that wait for the client
        cost = 0

        def plan() -> Work[downloading.Download]:
            nonlocal cost
            more: dict[str, Any] = {"heads": "heads" in asked, "through": _axis(asked)}
            work = downloading.download(self.content, path, selection, format, query, self._matching, **more)
            cost = work.cost
            return work

        file: downloading.Download = await self._consistent(request, plan)
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in file.name)
        ascii_name = name.encode("ascii", "replace").decode().replace("?", "_")
        headers = {"content-type": file.media_type, "content-disposition": f'attachment; filename="{ascii_name}"'}
        if file.size is not None:
            headers["content-length"] = str(file.size)
        turn = partial(self._budget.turn, cost)
        return Reply(200, {**headers, "cache-control": "no-store"}, file.first, file.blocks, turn=turn)

    async def _as(self, request: Request, path: str) -> Reply:
        to, _, key = path.partition("/")
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


def _name(key: str, to: str | None) -> str:
    """Return the name under which the value of a key, cast or not, is cached."""
    return key if to is None else f"{to}:{key}"


def _most_bytes() -> int:
    """Return the most bytes of memory that the work for one request may take."""
    return min(_MOST_WORK, physical_memory() // _SHARE)


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise SelectionError(f"{name} must be a whole number of up to 18 digits, not {text!r:.40}")
    return int(text)


def _query(parameters: Mapping[str, str]) -> Query:
    """Return the condition on rows, and the column that they are sorted by."""
    order = parameters.get("order", "ascending")
    if order not in ("ascending", "descending"):
        raise SelectionError(f"order must be ascending or descending, not {order!r:.40}")
    return Query(parameters.get("where", "").strip(), parameters.get("sort", ""), order == "descending")


def _axis(parameters: Mapping[str, str]) -> int | None:
    """Return the axis along which the greatest elements are asked for."""
    text = parameters.get("through")
    if text is not None and re.fullmatch("[0-9]{1,2}", text) is None:
        raise SelectionError(f"through must be the number of an axis, not {text!r:.40}")
    return None if text is None else int(text)


def _names(text: str) -> list[str]:
    """Return names of columns: a JSON list, or names between commas."""
    if text.startswith("["):
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SelectionError("columns must be names between commas, or a JSON list of names")
        return names
    return [name for name in text.split(",") if name]
