"""Reading and listing the objects of a bucket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from operator import index
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from tegula.errors import StoreError, UnsupportedError
from tegula.runtime.deferred import Later
from tegula.runtime.threads import in_threads
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    Generation,
    check_generation,
    check_key,
    check_prefix,
    clip_range,
    cut,
    is_key,
)
from tegula.stores.capabilities import Ranged, Revalidating, SizedListing, StateListing
from tegula.stores.interface import Store
from tegula.stores.objects.failures import Failure, ShortBody, failure_of
from tegula.stores.objects.generations import (
    ObjectGeneration,
    generation_from,
    history_of,
    listed_state,
    state_of,
)
from tegula.stores.objects.requests import Requests
from tegula.stores.spans import Span, spans_of

if TYPE_CHECKING:
    from tegula.stores.objects import answers as object_answers
    from tegula.stores.objects import listing as object_listing
else:
    object_answers = Later("tegula.stores.objects.answers")
    object_listing = Later("tegula.stores.objects.listing")

__all__ = ["ObjectReader"]

_Answer: TypeAlias = "tuple[bytes | None, Generation]"
_NONE: Final[Mapping[str, Any]] = {}
_NO_NAME: Final = ".tegula-is-there"
_ATTEMPTS: Final = 100
_UNLISTED: Final = frozenset("\ufffe\uffff")


class ObjectReader(Ranged, Revalidating, SizedListing, StateListing, Store):
    """The part of an `ObjectStore` that reads and lists."""

    kind: str  # the service: ``s3 gs az http file memory``
    requests: Requests
    prefix: str  # of the names of all objects: ``""`` or a key followed by ``/``
    missing: frozenset[int]  # status codes that mean that there is no object
    _whole = False  # whether the server returns only whole objects

    def path_of(self, key: str) -> str:
        """Return the name of the object that holds the value of a key, if the key is valid."""
        return self.prefix + (check_key(key) if self.kind != "az" else self._check_name(check_key(key)))

    def _check_name(self, name: str) -> str:
        """Return a key or a prefix; raise `StoreError` if the service does not distinguish it from all others."""
        if self.kind != "az":
            return name
        if not _UNLISTED.isdisjoint(name):
            raise StoreError("Azure can't list names with U+FFFE or U+FFFF; use a name without them", key=name)
        if "\\" in name:
            raise StoreError(
                "Azure turns a backslash in the name of a blob into a slash, so it would be another blob; use a name "
                "without backslashes",
                key=name,
            )
        return name

    # -- values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        answer = self.read(key, byte_range, state=with_generation)
        if isinstance(answer, Failure):
            self.fail("read", key, answer)
        return answer if with_generation else answer[0]

    def view(self, key: str, *, with_generation: bool = False) -> Any:
        """Return the value of `key` as the buffer into which obstore has received it, or ``None`` if there is none."""
        if type(self).get is not ObjectReader.get:
            return super().view(key, with_generation=with_generation)
        reading = self._reading(self.path_of(key), None, _NONE, state=with_generation, copied=False)
        answer = self._of(self.requests.send(reading))
        if isinstance(answer, Failure):
            self.fail("read", key, answer)
        return answer if with_generation else answer[0]

    def read(
        self, key: str, byte_range: ByteRange | None, conditions: Mapping[str, Any] = _NONE, *, state: bool = True
    ) -> _Answer | Failure:
        """Return the value of a key, or a range of it, and its generation; or the failure.

        The conditions are ``if_match`` or ``if_none_match``. If the `state` of the object is not asked for, a range
        after the end needs no second request.
        """
        path = self.path_of(key)
        answer = self._read(path, byte_range, conditions, state=state)
        if isinstance(answer, Failure) or byte_range is None or not getattr(answer[1], "unknown", False):
            return answer
        # if only the bytes distinguish one state from another, all of them are read
        whole = self._of(self.requests.send(self._reading(path, None, conditions)))
        if isinstance(whole, Failure):
            return whole
        return cut(whole[0], byte_range), whole[1]

    def _read(
        self, path: str, byte_range: ByteRange | None, conditions: Mapping[str, Any], *, state: bool
    ) -> _Answer | Failure:
        if byte_range is not None and (self._whole or (self.kind == "az" and byte_range[0] < 0)):
            return self._read_part(path, byte_range, conditions)
        answer = self.requests.send(self._reading(path, byte_range, conditions, state=state))
        if isinstance(answer, Failure):
            if answer.kind == "range" and byte_range is not None and byte_range[0] < 0:
                # some servers refuse a suffix that is longer than the value
                return self._read_part(path, byte_range, conditions)
            if answer.kind == "range":
                return self._of(self.requests.send(self._reading(path, (0, 0), conditions))) if state else (b"", ABSENT)
            if answer.kind == "whole" and byte_range is not None:  # an empty object
                return self._read_part(path, byte_range, conditions)
        return self._of(answer)

    def _of(self, answer: _Answer | Failure) -> _Answer | Failure:
        if isinstance(answer, Failure):
            if answer.kind == "missing" or answer.status in self.missing:
                return None, ABSENT
            if answer.kind == "conflict" and answer.status == HTTPStatus.CONFLICT:  # not about a condition of a read
                return answer._replace(kind="fatal")
        return answer

    def _read_part(self, path: str, byte_range: ByteRange, conditions: Mapping[str, Any]) -> _Answer | Failure:
        """Read a range that the server does not support: a suffix, or any range if it returns only whole objects."""
        if self._whole and byte_range[1] != 0:
            answer = self._of(self.requests.send(self._reading(path, None, conditions)))
            return answer if isinstance(answer, Failure) else (cut(answer[0], byte_range), answer[1])
        for _ in range(_ATTEMPTS):
            head = self.requests.send(self._sized(path, conditions))
            if isinstance(head, Failure):
                return self._of(head)
            size, state = head
            start, stop = clip_range(byte_range, size)
            if start == stop:
                return b"", state
            wanted = self.requests.send(self._reading(path, (start, stop - start), {**state.reading(), **conditions}))
            if isinstance(wanted, Failure):
                changed = wanted.kind == "conflict" and wanted.status != HTTPStatus.CONFLICT
            else:  # the state can't be a condition, so it is compared
                changed = state.e_tag is not None and wanted[1] != state
            if conditions or not changed:
                return self._of(wanted)
        return Failure("fatal", "the object has changed each time a range of it was read")

    def _reading(
        self,
        path: str,
        byte_range: ByteRange | None,
        conditions: Mapping[str, Any],
        *,
        state: bool = True,
        copied: bool = True,
    ) -> Callable[[Any, Any], _Answer]:
        """Return the request that reads an object, for `Requests.send`; unless `copied`, the value is any buffer."""
        options = _range_options(byte_range)
        head = "head" in options
        if conditions:
            options.update(conditions)

        def read(library: Any, store: Any) -> _Answer:
            if self.kind != "http" and not head:
                result = library.get(store, path, options=options)
            else:
                result = (
                    self._head(library, store, path, conditions) if head else self._get(library, store, path, options)
                )
            value: Any = b""
            if not head:
                start, stop = result.range
                value = result.bytes()
                if len(value) != stop - start:
                    raise ShortBody
                if copied:
                    value = bytes(value)
                if byte_range is not None:
                    begin, end = clip_range(byte_range, result.meta["size"])
                    if (begin, end) != (start, stop):  # obstore was not asked for this range, or did not get it
                        value = value[begin - start : end - start]
            if not state:  # most readers need only the value
                return value, ABSENT
            whole = value if byte_range is None else None
            return value, generation_from(self.kind, result.meta, history_of(result.attributes), whole)

        return read

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order; all requests are under way at once."""
        return in_threads(lambda request: self.get(*request), [*requests], self.concurrency)

    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        """Return several ranges of the value of `key`, all of one state, in few requests; see `Ranged`."""
        limit, first = 1 << 62, generation
        needs_size = any(start < 0 or length is None for start, length in ranges)
        if generation == ABSENT or needs_size or not any(length for _, length in ranges):
            # the ends of ranges depend on the size, or there are no bytes to request
            head = self.requests.send(self._sized(self.path_of(key)))
            if isinstance(head, Failure):
                return self._gone(key, head, first)
            limit, first = head
            if head[1].unknown:
                value, first = self.get(key, with_generation=True)
                limit = len(value or b"")
            check_generation(key, first, generation)
        parts = [b""] * len(ranges)
        spans = spans_of([clip_range(each, limit) for each in ranges])
        if not spans and first is None:
            first = self.get(key, (0, 0), with_generation=True)[1]
        if spans and first is None:  # the first answer tells which state the others must have
            answer = self._read_span(key, spans.pop(0), None, parts)
            if isinstance(answer, Failure):
                return self._gone(key, answer, None)
            first = answer
        for found in in_threads(lambda span: self._read_span(key, span, first, parts), spans, self.concurrency):
            if isinstance(found, Failure):
                return self._gone(key, found, first)
            check_generation(key, found, first)
        return (None if first == ABSENT else parts), first

    def _sized(
        self, path: str, conditions: Mapping[str, Any] = _NONE
    ) -> Callable[[Any, Any], tuple[int, ObjectGeneration]]:
        """Return the request that finds the size and the generation of an object, for `Requests.send`."""

        def read(library: Any, store: Any) -> tuple[int, ObjectGeneration]:
            result = self._head(library, store, path, conditions)
            return result.meta["size"], generation_from(self.kind, result.meta, history_of(result.attributes))

        return read

    def _read_span(
        self, key: str, span: Span, generation: Generation | None, parts: list[bytes]
    ) -> Generation | Failure:
        conditions = generation.reading() if isinstance(generation, ObjectGeneration) else {}
        answer = self.read(key, (span.start, span.stop - span.start), conditions)
        if isinstance(answer, Failure):
            return answer
        value, found = answer
        if value is not None:
            for number, start, stop in span.ranges:
                parts[number] = value[start - span.start : stop - span.start]
        return found

    def _gone(self, key: str, failure: Failure, expected: Generation | None) -> tuple[None, Generation]:
        answer = self._of(failure)
        if isinstance(answer, Failure) and (answer.kind != "conflict" or expected is None):
            self.fail("read", key, answer)
        check_generation(key, ABSENT, expected)
        return None, ABSENT

    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        """Return the value of `key` if its state is not `generation`, else ``None``; see `Revalidating`."""
        tag = generation.e_tag if isinstance(generation, ObjectGeneration) else None
        answer = self.read(key, None, {} if tag is None else {"if_none_match": tag})
        if isinstance(answer, Failure):
            if answer.kind == "unchanged":
                return None
            self.fail("read", key, answer)
        return None if answer[1] == generation else answer

    def generation_of(self, plain: Any) -> Generation:
        """Return the generation for a tuple of `ObjectGeneration.plain`."""
        return ObjectGeneration.restore(plain) if type(plain) is tuple else plain

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        path = self.path_of(key)
        answer = self.requests.send(lambda library, store: int(self._head(library, store, path).meta["size"]))
        if not isinstance(answer, Failure):
            return answer
        if isinstance(self._of(answer), Failure):
            self.fail("look up", key, answer)
        return None

    # -- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        return (key for key, _ in self.list_sizes(prefix))

    def list_sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield every key that starts with `prefix` and the length of its value; see `SizedListing`."""
        return ((key, entry["size"]) for key, entry in self._listed(prefix))

    def list_states(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        """Yield every key that starts with `prefix`, the length and the state of its value; see `StateListing`."""
        return ((key, entry["size"], listed_state(entry)) for key, entry in self._listed(prefix))

    def state_of(self, generation: Generation) -> int:
        """Return the state in listings of a value that has this generation; see `StateListing`."""
        return state_of(generation) if isinstance(generation, ObjectGeneration) else 0

    def _listed(self, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        self._check_listable(check_prefix(prefix))
        return self._pages(prefix)

    def _pages(self, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        wanted = (self.prefix + prefix).rstrip("/") or None
        pages: Any = None
        listing: Any = None  # the store that lists them
        last: str | None = None  # an interrupted listing is continued after its last object
        in_order = True  # as long as the service lists in the order of the names
        error = self._listing_error(prefix)
        known = object_listing.Names(error)

        def next_page(library: Any, store: Any) -> Any:
            nonlocal pages, listing
            if pages is None:
                if not in_order:
                    raise error("an unordered listing broke off")
                pages, listing = object_listing.pages_of(library, store, wanted, last), store
            try:
                if self.kind in ("file", "memory"):
                    return next(pages, None)
                return object_listing.run(object_listing.next_page(pages, self._is_alive(library), error))
            except BaseException as failure:
                pages = None
                if listing is store or not isinstance(failure, Exception) or isinstance(failure, StoreError):
                    raise
                return next_page(library, store)  # the first request was sent by a store that does not retry

        while True:
            page: Any = self.requests.bulk(next_page)
            if isinstance(page, Failure) and page.kind != "missing":
                self.fail("list", prefix, page)
            if page is None or isinstance(page, Failure):
                return
            paths = [last or "", *known.check(page)]
            in_order = in_order and paths == sorted(paths)
            last = paths[-1] or None
            yield from self._valid(page, prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        self._check_listable(check_prefix(prefix))
        wanted = (self.prefix + prefix).rstrip("/") or None

        def children(library: Any, store: Any) -> Any:
            if self.kind in ("file", "memory"):
                return library.list_with_delimiter(store, wanted)
            is_alive, error = self._is_alive(library), self._listing_error(prefix)
            return object_listing.run(object_listing.children(library, store, wanted, is_alive, error))

        answer = self.requests.bulk(children)
        if isinstance(answer, Failure):
            if answer.kind != "missing":
                self.fail("list", prefix, answer)
            return [], []
        below = (self._key_of(path, prefix) for path in answer["common_prefixes"])
        keys = sorted(key for key, _ in self._valid(answer["objects"], prefix))
        return keys, sorted(f"{key}/" for key in below if key is not None)

    def _listing_error(self, prefix: str) -> Callable[[str], StoreError]:
        return lambda text: StoreError(f"{self!r} can't list: {text}", key=prefix)

    def _is_alive(self, library: Any) -> Callable[[], Awaitable[Any]]:
        """Return a function that begins a small request, to find out whether the server answers."""
        return lambda: library.head_async(self.requests.single.get(), f"{self.prefix}{_NO_NAME}")

    def _valid(self, objects: Iterable[Mapping[str, Any]], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the keys and descriptions of listed objects.

        Consoles create an empty object for a directory, with a slash at the end of its name, and obstore drops this
        slash. So an empty object in a bucket is listed only if it can be read by its name.
        """
        for entry in objects:
            key = self._key_of(entry["path"], prefix)
            if key is not None and (entry["size"] or self.kind in ("file", "memory") or self.exists(key)):
                yield key, entry

    def _key_of(self, path: str, prefix: str) -> str | None:
        if not path.startswith(self.prefix + prefix):
            return None
        key = path[len(self.prefix) :]
        return key if is_key(key) else None

    def _check_listable(self, prefix: str) -> None:
        self._check_name(prefix)
        if not self.listable:
            raise UnsupportedError(
                f"{self!r} can't be listed, since web servers have no listings (prefix {prefix!r}); open a member by "
                "its name, or the group by tegula.open_group(…, consolidated=True) if it has consolidated metadata"
            )

    def _get(self, library: Any, store: Any, path: str, options: Mapping[str, Any]) -> Any:
        """Return obstore's answer to a GET or HEAD; a web server's answer in the form that obstore expects."""
        if self.kind != "http":
            return library.get(store, path, options=options)
        settings = self.requests.single.settings
        result, only_whole = object_answers.get(library, store, settings or ((), {}), path, options)
        self._whole = self._whole or only_whole
        return result

    def _head(self, library: Any, store: Any, path: str, conditions: Mapping[str, Any] = _NONE) -> Any:
        """Return obstore's metadata of an object; if HEAD does not tell its length, by a GET of which little is read.

        obstore interprets the answer 405 of a web server as a missing object.
        """
        try:
            return self._get(library, store, path, {"head": True, **conditions})
        except Exception as error:
            failure = failure_of(error)
            if failure.kind not in ("unsupported", "unsized") and failure.status != HTTPStatus.METHOD_NOT_ALLOWED:
                raise
        try:
            return self._get(library, store, path, {"range": (0, 1), **conditions})
        except FileNotFoundError:
            raise
        except Exception as error:
            if failure_of(error).kind not in ("range", "whole"):  # an empty object, or no byte ranges
                raise
        return self._get(library, store, path, conditions)

    def fail(self, action: str, key: str, failure: Failure) -> NoReturn:
        """Raise the error for a request that failed."""
        raise StoreError(f"{self!r} can't {action}: {failure.reason}", key=key)


def _range_options(byte_range: ByteRange | None) -> dict[str, Any]:
    """Return obstore's options for reading a byte range, or one that begins there."""
    if byte_range is None:
        return {}
    clip_range(byte_range, 0)  # checks it
    start, length = index(byte_range[0]), None if byte_range[1] is None else index(byte_range[1])
    if length == 0:
        return {"head": True}
    if start < 0:
        return {"range": {"suffix": -start}}
    if length is None:
        return {"range": {"offset": start}} if start else {}
    return {"range": (start, start + length)}
