"""Stored and computed values as HTTP responses: whole, in part, or empty if the client has them already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Final

from tegula.errors import ConflictError
from tegula.server.conditions import Span, UnsatisfiableError, matches, precondition, wanted_span
from tegula.server.consistency import read_part, unless_changed
from tegula.server.content import ComputedValue, Content, Document, StoredValue
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Ranged

__all__ = ["BLOCK", "Reply", "Values", "not_found"]

BLOCK: Final = 2**18
"""Bytes that are read and sent at once; four times as many from remote storage."""

_MOST_CACHED: Final = 2**25  # bytes of computed values that are cached for requests of further ranges
_LARGEST_CACHED: Final = 2**22
_MOST_SIZES: Final = 4096

Headers = dict[str, str]


@dataclass(slots=True)
class Reply:
    """A response: its status, headers, first bytes, and further blocks; it may stay open after these.

    Each further block is read in a `turn`, which waits for the memory that it takes.
    """

    status: int
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    blocks: Iterator[bytes] | None = None
    stays_open: bool = False
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


def not_found() -> Reply:
    """Return the answer for a key without a value."""
    return Reply(404, {"content-type": "text/plain; charset=utf-8", "content-length": "10"}, b"not found\n")


class Values:
    """The values of some content, for requests.

    Methods wait for the store, so they are called in threads.

    Parameters
    ----------
    content : Content
        The served content.
    cache_control : str
        The header ``Cache-Control`` of all answers.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=4, chunks=2, dtype="u1", codecs=[])
    >>> a[:] = [1, 2, 3, 4]
    >>> values = Values(Content(a))
    >>> reply = values.answer("GET", {"range": "bytes=1-"}, "c/1", StoredValue("c/1"))
    >>> reply.status, reply.headers["content-range"], reply.body
    (206, 'bytes 1-1/2', b'\\x04')
    """

    def __init__(self, content: Content, cache_control: str = "no-cache") -> None:
        self._store: Store = content.store
        self._block = 4 * BLOCK if content.store.is_remote else BLOCK
        self._cache_control = cache_control
        self._sizes: dict[str, tuple[Generation, int]] = {}
        self._cached: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._cached_bytes = 0
        self._lock = Lock()

    def answer(
        self, method: str, headers: Mapping[str, str], key: str, value: StoredValue | ComputedValue | Document
    ) -> Reply:
        """Return the answer to a request for something that `Content.find` has found.

        Raises
        ------
        ConflictError
            If it has changed meanwhile, so that there is no answer of one state.
        TegulaError
            If it can't be read.
        """
        if isinstance(value, StoredValue):
            return self._stored_value(method, headers, value)
        if isinstance(value, Document):
            tag = f'"{blake2b(value.value, digest_size=12).hexdigest()}"'
            return self._from_memory(method, headers, tag, value.value, "application/json")
        return self._computed_value(method, headers, key, value)

    # --- values in memory

    def _from_memory(self, method: str, headers: Mapping[str, str], tag: str, value: bytes, kind: str) -> Reply:
        """Answer with a value that is in memory."""
        status = precondition(headers, tag)
        if status is not None:
            return self._empty(status, tag)
        span = _span(method, headers, tag, len(value))
        if span is None:
            return self._unsatisfiable(tag, len(value))
        body = value[slice(*span)] if len(value) != span.stop - span.start else value
        return self._reply(method, tag, span, len(value), kind, body)

    def _computed_value(self, method: str, headers: Mapping[str, str], key: str, source: ComputedValue) -> Reply:
        """Answer with a value that is computed from a stored one, in one state of this and of the documents."""
        if not self._store.fresh_generations:  # documents that were replaced and restored look the same
            source.check()
        data: bytes | None
        probes = not source.needs_value or self._probes(headers, source.kept)
        if probes:
            data, generation = read_part(self._store, source.key, 0, 0)
        else:
            data, generation = self._store.get(source.key, with_generation=True)
        source.check()
        if data is None:
            return not_found()
        tag = _tag(generation, source.mark)
        status = precondition(headers, tag)
        if status is not None:
            return self._empty(status, tag)
        value = self._from_cache(key, tag) if source.kept else None
        if value is None:
            if probes and source.needs_value:
                data, now = self._store.get(source.key, with_generation=True)
                if data is None or now != generation:
                    raise _changed(source.key)
            value = unless_changed(partial(source.make, data), partial(self._check, source, generation))
            if source.kept:
                self._cache(key, tag, value)
        return self._from_memory(method, headers, tag, value, "application/octet-stream")

    def _probes(self, headers: Mapping[str, str], kept: bool) -> bool:
        """Return whether to ask for the generation first, since it may show that the value need not be read."""
        if self._store.single_writer and isinstance(self._store, Ranged):
            return False  # generations of ranges may be other tokens
        return (kept and not self._store.is_remote) or _is_conditional(headers)

    def _check(self, source: ComputedValue, generation: Generation) -> None:
        """Check that all that was read in several steps belongs to one generation."""
        if not source.needs_value and read_part(self._store, source.key, 0, 0)[1] != generation:
            raise _changed(source.key)

    def _from_cache(self, key: str, tag: str) -> bytes | None:
        with self._lock:
            value = self._cached.get((key, tag))
            if value is not None:
                self._cached.move_to_end((key, tag))
            return value

    def _cache(self, key: str, tag: str, value: bytes) -> None:
        if len(value) > _LARGEST_CACHED:
            return
        with self._lock:
            old = self._cached.pop((key, tag), b"")
            self._cached[key, tag] = value
            self._cached_bytes += len(value) - len(old)
            while self._cached_bytes > _MOST_CACHED:
                self._cached_bytes -= len(self._cached.popitem(last=False)[1])

    # --- stored values

    def _stored_value(self, method: str, headers: Mapping[str, str], source: StoredValue) -> Reply:
        """Answer with a stored value; no more than a block of it is in memory."""
        key = source.key
        is_plain = method == "GET" and "range" not in headers and not _is_conditional(headers)
        first, generation = read_part(self._store, key, 0, self._block if is_plain else 0)
        if first is None:
            source.check()
            return not_found()
        tag = _tag(generation)
        status = precondition(headers, tag)
        if status is not None:
            return self._empty(status, tag)
        is_whole = is_plain and len(first) < self._block
        size = len(first) if is_whole else self._size(key, generation)
        span = _span(method, headers, tag, size)
        if span is None:
            return self._unsatisfiable(tag, size)
        if not is_plain:
            first = b"" if method == "HEAD" else self._part(key, generation, span.start, span.stop)
        return self._streamed(method, tag, span, size, key, generation, first)

    def _part(self, key: str, generation: Generation, start: int, stop: int) -> bytes:
        """Return at most a block of a value that has not changed."""
        length = min(self._block, stop - start)
        value, now = read_part(self._store, key, start, length)
        if value is None or now != generation or len(value) != length:
            raise _changed(key)
        return value

    def _size(self, key: str, generation: Generation) -> int:
        """Return the length of a value in one state; its last byte is read to check that it belongs to this state."""
        known = self._sizes.get(key)
        if known is not None and known[0] == generation:
            return known[1]
        size = self._store.size(key)
        start = max(0, (size or 0) - 1)
        last, now = (None, None) if size is None else read_part(self._store, key, start, 2)
        if size is None or last is None or now != generation or start + len(last) != size:
            raise _changed(key)
        if self._store.is_remote:  # locally a request costs less than a cache
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = generation, size
        return size

    def _streamed(
        self, method: str, tag: str, span: Span, size: int, key: str, generation: Generation, first: bytes
    ) -> Reply:
        reply = self._reply(method, tag, span, size, "application/octet-stream", first)
        if method != "HEAD" and span.start + len(first) < span.stop:
            starts = range(span.start + len(first), span.stop, self._block)
            reply.blocks = (self._part(key, generation, start, span.stop) for start in starts)
        return reply

    # --- answers

    def _reply(self, method: str, tag: str, span: Span, size: int, kind: str, body: bytes) -> Reply:
        headers = self._headers(tag)
        headers["content-type"] = kind
        headers["accept-ranges"] = "bytes"
        headers["content-length"] = str(span.stop - span.start)
        if span.partial:
            headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
        return Reply(206 if span.partial else 200, headers, b"" if method == "HEAD" else body)

    def _headers(self, tag: str) -> Headers:
        return {"etag": tag, "cache-control": self._cache_control, "x-content-type-options": "nosniff"}

    def _empty(self, status: int, tag: str) -> Reply:
        headers = self._headers(tag)
        if status != 304:
            headers["content-length"] = "0"
        return Reply(status, headers)

    def _unsatisfiable(self, tag: str, size: int) -> Reply:
        return Reply(416, {**self._headers(tag), "content-range": f"bytes */{size}", "content-length": "0"})


def _is_conditional(headers: Mapping[str, str]) -> bool:
    return "if-none-match" in headers or "if-match" in headers or "if-range" in headers


def _changed(key: str) -> ConflictError:
    return ConflictError("the value has changed while it was read", key=key)


def _tag(generation: Generation, mark: bytes = b"") -> str:
    """Return a strong entity tag for a state of a stored value, and for `mark`, on which the bytes depend, too."""
    return f'"{blake2b(repr((generation, mark)).encode(errors="replace"), digest_size=12).hexdigest()}"'


def _span(method: str, headers: Mapping[str, str], tag: str, size: int) -> Span | None:
    """Return the requested part of a value, ``None`` if it lies beyond the end; HEAD has no parts."""
    wanted = headers.get("range") if method == "GET" else None
    condition = headers.get("if-range")
    if condition is not None and (condition.strip() == "*" or not matches(condition, tag, strong=True)):
        wanted = None
    try:
        return wanted_span(wanted, size)
    except UnsatisfiableError:
        return None
