"""Listings of a bucket that end: a server may repeat its pages, or send empty ones, forever.

obstore follows the pages by itself and does not compare their tokens, and a listing by a delimiter returns nothing
before its last page. So listings are coroutines here, which can be cancelled, by a signal as well. What is repeated is
found by the names. A listing without names is given up if the server answers other requests meanwhile; if it does not,
obstore repeats requests, and gives up by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from tegula.errors import StoreError
from tegula.stores.coroutines import run
from tegula.stores.objects.failures import failure_of

__all__ = ["Names", "children", "next_page", "pages_of", "run"]

Page: TypeAlias = "Sequence[dict[str, Any]]"

Asking: TypeAlias = Callable[[], Awaitable[Any]]
Failing: TypeAlias = Callable[[str], StoreError]

_PAGE: Final = 250
_SOON: Final = 2.0  # seconds after which a listing by a delimiter is looked at
_QUIET: Final = 5.0  # seconds without a name after which the server is asked something else
_STRIKES: Final = 3  # so many times
_LOOKED_AT: Final = 8  # pages
_NO_ANSWER: Final = ("transient", "throttled", "unreachable", "refused", "expired")


class Names:
    """The first name of each page, by which repeated pages are found."""

    def __init__(self, error: Failing) -> None:
        self._error = error
        self._begins: set[str] = set()

    def check(self, page: Page) -> list[str]:
        """Return the names of a page; raise the error if an earlier page began with one of them."""
        names = [entry["path"] for entry in page]
        if not self._begins.isdisjoint(names):
            raise self._error("the server lists an object twice, so the listing never ends")
        self._begins.update(names[:1])
        return names


def pages_of(library: Any, store: Any, wanted: str | None, offset: str | None = None) -> Iterator[Page]:
    """Return obstore's stream of pages."""
    return iter(library.list(store, wanted, offset=offset, chunk_size=_PAGE))


async def next_page(pages: Any, is_alive: Asking, error: Failing) -> Page | None:
    """Return the next page of a listing, or ``None`` after the last one.

    If the listing names nothing for a while, although another request, which `is_alive` begins, reaches the server, the
    `error` is raised.
    """
    with suppress(StopAsyncIteration):
        page: Page = await _patiently(pages.__anext__(), is_alive, error)
        return page
    return None


async def _patiently(answer: Awaitable[Any], is_alive: Asking, error: Failing) -> Any:
    """Wait for an answer, unless the server goes on answering other requests meanwhile."""
    task = asyncio.ensure_future(answer)
    strikes = 0
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=_QUIET)
            if done:
                return task.result()
            strikes = strikes + 1 if await _answers(is_alive) else 0
            if strikes >= _STRIKES:
                seconds = round(_QUIET * _STRIKES)
                raise error(
                    f"the server answers, but its listing has named nothing for {seconds} seconds, so it may never end"
                )
    finally:
        task.cancel()


async def _answers(is_alive: Asking) -> bool:
    try:
        await asyncio.wait_for(asyncio.ensure_future(is_alive()), _QUIET)
    except TimeoutError:
        return False
    except Exception as told:  # noqa: BLE001 - obstore's own errors
        return failure_of(told).kind not in _NO_ANSWER
    return True


async def children(library: Any, store: Any, wanted: str | None, is_alive: Asking, error: Failing) -> Any:
    """Return obstore's result of a listing by a delimiter.

    If that takes long, a listing without a delimiter shows whether the server repeats itself. If that one ends first,
    the result is taken from it.
    """
    whole = asyncio.ensure_future(library.list_with_delimiter_async(store, wanted))
    try:
        done, _ = await asyncio.wait({whole}, timeout=_SOON)
        if done:
            return whole.result()
        plain = asyncio.ensure_future(_looked_at(pages_of(library, store, wanted), wanted, is_alive, error))
        try:
            await asyncio.wait({whole, plain}, return_when=asyncio.FIRST_COMPLETED)
            listed = None if whole.done() else plain.result()
            return await whole if listed is None else listed
        finally:
            plain.cancel()
    finally:
        whole.cancel()


async def _looked_at(pages: Any, wanted: str | None, is_alive: Asking, error: Failing) -> dict[str, Any] | None:
    """Return the children of a prefix by a listing of a few pages; ``None`` if there are more, and all differ."""
    names = Names(error)
    below = len(wanted) + 1 if wanted else 0
    objects: list[Any] = []
    prefixes: dict[str, None] = {}
    for _ in range(_LOOKED_AT):
        page = await next_page(pages, is_alive, error)
        if page is None:
            return {"objects": objects, "common_prefixes": [*prefixes]}
        for name, entry in zip(names.check(page), page):
            end = name.find("/", below)
            if end < 0:
                objects.append(entry)
            else:
                prefixes[name[:end]] = None
    return None
