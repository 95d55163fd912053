"""A store whose values are objects of a bucket: S3, Google Cloud Storage, Azure, or what a web server offers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn

from tegula.errors import ConflictError, ReadOnlyError, StoreError, UnsupportedError
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    check_key,
    check_prefix,
    clip_range,
    flat_view,
    is_key,
)
from tegula.stores.capabilities import Ranged, Revalidating
from tegula.stores.interface import Store
from tegula.stores.object_failures import Failure
from tegula.stores.object_generations import (
    ObjectGeneration,
    attributes_of,
    generation_of_answer,
    history_of,
    new_write,
    position,
)
from tegula.stores.object_library import kind_of, made_of
from tegula.stores.object_ranges import range_options, spans_of
from tegula.stores.object_requests import Requests, ShortBody
from tegula.stores.object_retries import Retries

__all__ = ["ObjectStore"]

_PART: Final = 16 << 20  # longer values are uploaded in parts, unless they are conditional
_NONE: Final[Mapping[str, Any]] = {}
_BATCH: Final = 1000  # keys deleted at once


class ObjectStore(Ranged, Revalidating, Store):
    """Objects of a bucket or container, through a store of the package obstore.

    Parameters
    ----------
    store : obstore store
        Where the objects are: a ``S3Store``, ``GCSStore``, ``AzureStore``, ``HTTPStore``, ``LocalStore`` or
        ``MemoryStore`` of ``obstore.store``.
    prefix : str
        What the names of the objects begin with, ``""`` or a path.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`. A web server is always read-only.
    missing : sequence of int
        Status codes that mean that there is no object. A bucket that may not be listed answers 403.
    retries : Retries, optional
        How often, and for how long, a request is repeated.
    concurrency : int
        How many requests are under way at once, at most.
    url : str, optional
        The name of the store, without secrets.

    Examples
    --------
    >>> from obstore.store import MemoryStore
    >>> store = ObjectStore(MemoryStore(), "data")
    >>> old = store.set("a", b"abc")
    >>> store.get("a", (1, None)), [*store.list()]
    (b'bc', ['a'])
    """

    fresh_generations = False
    conditional_delete = False

    def __init__(
        self,
        store: Any,
        prefix: str = "",
        *,
        read_only: bool = False,
        missing: Sequence[int] = (404,),
        retries: Retries | None = None,
        concurrency: int = 64,
        url: str | None = None,
    ) -> None:
        prefix = prefix.strip("/")
        self.prefix = f"{check_key(prefix)}/" if prefix else ""
        self._kind = kind_of(store)
        self.read_only = read_only or self._kind == "http"
        self.listable = self._kind != "http"
        self.concurrency = concurrency
        self._missing = frozenset(missing)
        self._url = _url_of(store, self.prefix) if url is None else url
        self._requests = Requests(store, retries or Retries(), concurrency)
        self.fresh_generations = self._kind != "s3"
        self._threads: ThreadPoolExecutor | None = None
        self._threads_lock = threading.Lock()

    @property
    def url(self) -> str:
        """The URL of the store, without secrets."""
        return self._url

    # -- reading

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        path = self._path(key)
        answer = self._requests.send(self._reading(path, byte_range))
        if isinstance(answer, Failure) and answer.kind == "range":
            answer = self._requests.send(self._reading(path, (0, 0))) if with_generation else (b"", ABSENT)
        if isinstance(answer, Failure):
            if not self._is_missing(answer):
                self._raise("read", key, answer)
            answer = (None, ABSENT)
        return answer if with_generation else answer[0]

    def _reading(
        self, path: str, byte_range: ByteRange | None, conditions: Mapping[str, Any] = _NONE
    ) -> Callable[[Any, Any], tuple[bytes, ObjectGeneration]]:
        wanted, cut = range_options(byte_range)
        wanted = {**wanted, **conditions}

        def read(library: Any, store: Any) -> tuple[bytes, ObjectGeneration]:
            result = library.get(store, path, options=wanted)
            found = result.meta, history_of(result.attributes)
            start, stop = result.range
            value = b"" if "head" in wanted else bytes(result.bytes())
            if "head" not in wanted and len(value) != stop - start:
                raise ShortBody
            if cut is not None:
                begin, end = clip_range(cut, result.meta["size"])
                value = value[begin - start : end - start]
            return value, generation_of_answer(self._kind, *found)

        return read

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get` for each ``(key, byte_range)``, in order; they are requested at once."""
        wanted = [*requests]
        if len(wanted) < 2:
            return [self.get(*request) for request in wanted]
        return [*self._pool().map(lambda request: self.get(*request), wanted)]

    def _pool(self) -> ThreadPoolExecutor:
        with self._threads_lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="tegula-objects")
            return self._threads

    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        """Return several ranges of the value of `key`, all of one state, in few requests; see `Ranged`."""
        path = self._path(key)
        if generation == ABSENT or any(start < 0 or length is None for start, length in ranges) or not ranges:
            head = self.get(key, (0, 0), with_generation=True)
            if generation is not None and head[1] != generation:
                raise ConflictError("the value has changed since it was read", key=key)
            if head[0] is None:
                return None, ABSENT
            generation, size = head[1], self.size(key) or 0
            bounds = [clip_range(each, size) for each in ranges]
        else:
            bounds = [clip_range(each, 1 << 62) for each in ranges]
        parts = [b""] * len(bounds)
        spans = spans_of(bounds)

        def read(span: Any) -> Generation:
            conditions = generation.reading() if isinstance(generation, ObjectGeneration) else {}
            wanted = span.start, span.stop - span.start
            answer = self._requests.send(self._reading(path, wanted, conditions))
            if isinstance(answer, Failure) and answer.kind == "range":
                answer = self._requests.send(self._reading(path, (0, 0), conditions))
            if isinstance(answer, Failure):
                if self._is_missing(answer) and generation is None:
                    return ABSENT
                if answer.kind in ("conflict", "missing"):
                    raise ConflictError("the value has changed since it was read", key=key)
                self._raise("read", key, answer)
            found: ObjectGeneration
            data, found = answer
            for place, start, stop in span.wanted:
                parts[place] = data[start - span.start : stop - span.start]
            if generation is not None and found != generation:
                raise ConflictError("the value has changed since it was read", key=key)
            return found

        if spans and generation is None:
            generation = read(spans.pop(0))
            if generation == ABSENT:
                return None, ABSENT
        if len(spans) > 1:
            [*self._pool().map(read, spans)]
        elif spans:
            read(spans[0])
        assert generation is not None
        return parts, generation

    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        """Return the value of `key` and its generation if that is another one than `generation`; see `Revalidating`."""
        path = self._path(key)
        tag = generation.e_tag if isinstance(generation, ObjectGeneration) else None
        answer = self._requests.send(self._reading(path, None, {"if_none_match": tag} if tag else {}))
        if isinstance(answer, Failure):
            if answer.kind == "unchanged":
                return None
            if not self._is_missing(answer):
                self._raise("read", key, answer)
            answer = (None, ABSENT)
        return None if answer[1] == generation else answer

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        path = self._path(key)
        answer = self._requests.send(lambda library, store: library.head(store, path)["size"])
        if isinstance(answer, Failure):
            if not self._is_missing(answer):
                self._raise("look up", key, answer)
            return None
        return int(answer)

    # -- writing

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        path = self._path(key)
        self._check_writable(key)
        view = flat_view(value, key) if self._kind else bytes(flat_view(value, key))  # a store in memory keeps it
        if if_generation is not None:
            return self._set_if(key, path, view, if_generation)
        many = len(view) > _PART
        options = {"use_multipart": many, "chunk_size": _PART}
        request = self._requests.bulk if many else self._requests.send
        answer = request(lambda library, store: library.put(store, path, view, **options))
        if isinstance(answer, Failure):
            self._raise("write", key, answer)
        return generation_of_answer(self._kind, answer)

    def _set_if(self, key: str, path: str, view: memoryview | bytes, before: Generation) -> Generation:
        if before != ABSENT and (not isinstance(before, ObjectGeneration) or before.superseded):
            raise ConflictError("the value has changed since it was read", key=key)
        write, history = new_write(before)
        mode: Any = before.condition() if isinstance(before, ObjectGeneration) else "create"
        options = {"mode": mode, "attributes": attributes_of(history)}
        answer = self._requests.send(lambda library, store: library.put(store, path, view, **options))
        if not isinstance(answer, Failure):
            return generation_of_answer(self._kind, answer, history)
        if answer.kind not in ("conflict", "missing"):
            self._raise("write", key, answer)
        now: Generation = self.get(key, (0, 0), with_generation=True)[1]
        later = position(write, now.history) if isinstance(now, ObjectGeneration) else None
        if later is None:
            raise ConflictError("the value has changed since it was read", key=key)
        return now

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        path = self._path(key)
        self._check_writable(key)
        if if_generation is not None:
            raise UnsupportedError(f"{self!r} can't delete on condition", path=None, key=key)
        answer = self._requests.send(lambda library, store: library.delete(store, path))
        if isinstance(answer, Failure) and answer.kind != "missing":
            self._raise("delete", key, answer)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, many with one request."""
        self._check_writable(check_prefix(prefix))
        batch: list[str] = []
        for key in self.list_prefix(prefix):
            batch.append(key)
            if len(batch) == _BATCH:
                self._delete_all(batch)
                batch = []
        if batch:
            self._delete_all(batch)

    def _delete_all(self, keys: list[str]) -> None:
        paths = [self.prefix + key for key in keys]
        answer = self._requests.bulk(lambda library, store: library.delete(store, paths))
        if isinstance(answer, Failure):  # also of a key that another writer has deleted in the meantime
            for key in keys:
                self.delete(key)

    # -- listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        self._check_listable()
        return self._listed(prefix)

    def _listed(self, prefix: str) -> Iterator[str]:
        wanted = (self.prefix + prefix).rstrip("/") or None
        pages = self._requests.bulk(lambda library, store: iter(library.list(store, wanted, chunk_size=_BATCH)))
        while True:
            page = pages if isinstance(pages, Failure) else self._requests.bulk(lambda _, __: next(pages, None))
            if page is None:
                return
            if isinstance(page, Failure):
                if page.kind == "missing":
                    return
                self._raise("list", prefix, page)
            for found in page:
                key = self._key_of(found["path"])
                if key is not None and key.startswith(prefix):
                    yield key

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        check_prefix(prefix)
        self._check_listable()
        wanted = (self.prefix + prefix).rstrip("/") or None
        answer = self._requests.bulk(lambda library, store: library.list_with_delimiter(store, wanted))
        if isinstance(answer, Failure):
            if answer.kind == "missing":
                return [], []
            self._raise("list", prefix, answer)
        keys = (self._key_of(found["path"]) for found in answer["objects"])
        prefixes = (self._key_of(path) for path in answer["common_prefixes"])
        return (
            sorted(key for key in keys if key is not None and key.startswith(prefix)),
            sorted(f"{key}/" for key in prefixes if key is not None and key.startswith(prefix)),
        )

    def _key_of(self, path: str) -> str | None:
        key = path[len(self.prefix) :]
        return key if path.startswith(self.prefix) and is_key(key) else None

    # -- what the operations share

    def _path(self, key: str) -> str:
        return self.prefix + check_key(key)

    def _is_missing(self, failure: Failure) -> bool:
        return failure.kind == "missing" or failure.status in self._missing

    def _check_writable(self, key: str) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def _check_listable(self) -> None:
        if not self.listable:
            raise UnsupportedError(
                f"{self!r} can't be listed, as it is a web server: open a group that has consolidated metadata, "
                "or name the member"
            )

    def _raise(self, action: str, key: str, failure: Failure) -> NoReturn:
        raise StoreError(f"{self!r} can't {action}: {failure.reason}", key=key) from None

    def close(self) -> None:
        """Release the threads; there is nothing pending."""
        with self._threads_lock:
            if self._threads is not None:
                self._threads.shutdown()
                self._threads = None

    def __reduce__(self) -> tuple[Any, ...]:
        name, settings = self._requests.settings()
        if settings is None:
            raise StoreError(f"{self!r} can't be pickled: its values are held by the obstore {name} of this process")
        options = {
            "read_only": self.read_only,
            "missing": tuple(self._missing),
            "retries": self._requests.retries,
            "concurrency": self.concurrency,
            "url": self._url,
        }
        return _reopen, (type(self), name, settings, self.prefix, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def _reopen(
    kind: type[ObjectStore], name: str, settings: tuple[Any, Any], prefix: str, options: dict[str, Any]
) -> ObjectStore:
    return kind(made_of(name, settings), prefix, **options)


def _url_of(store: Any, prefix: str) -> str:
    """Return a name of an obstore store and a prefix, without secrets."""
    kind = kind_of(store)
    if kind == "http":
        return str(store.url).split("?")[0]
    if not kind:
        return f"{type(store).__name__.removesuffix('Store').lower()}://{id(store):x}/{prefix}"
    settings = store.config
    bucket = settings.get("bucket") or settings.get("container_name") or ""
    inner = f"{store.prefix}/" if getattr(store, "prefix", None) else ""
    return f"{kind}://{bucket}/{inner}{prefix}".rstrip("/")
