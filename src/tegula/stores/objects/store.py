"""A store whose values are objects in a bucket (S3, Google Cloud Storage, Azure) or files on a web server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from threading import Lock
from typing import Any, Final

from tegula import config
from tegula.errors import MetadataError, ReadOnlyError, UnsupportedError
from tegula.runtime.threads import in_threads
from tegula.stores.arguments import (
    ABSENT,
    BytesLike,
    Generation,
    changed,
    check_generation,
    check_key,
    check_prefix,
    flat_view,
)
from tegula.stores.capabilities import Copying
from tegula.stores.identity import shared
from tegula.stores.names import directories_above
from tegula.stores.objects.conditions import (
    Bucket,
    Conditions,
    conditions_of,
    known_conditions,
    probe,
    service_of,
    storage_of,
)
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.generations import ObjectGeneration, generation_from
from tegula.stores.objects.library import Settings, StoreHandle, make_store
from tegula.stores.objects.reading import ObjectReader
from tegula.stores.objects.requests import Limiter, Requests, Retries
from tegula.stores.objects.writes import can_be_sent, delete_if, put_if, put_if_alone
from tegula.stores.secrets import bare_url
from tegula.stores.single_writer import KeyLocks
from tegula.stores.summary import Capabilities

__all__ = ["Client", "ObjectStore"]

_PART: Final = 16 << 20  # a longer value is uploaded in parts, unless it is written on condition
_STATUSES: Final = frozenset(range(400, 500))
_BATCH: Final = 1000  # keys that are deleted at once
_locks = KeyLocks(1024)  # for buckets without conditional writes; all stores of the process share them


class Client:
    """A bucket or a web server with its settings: what all stores on it share, whatever their prefix.

    Parameters
    ----------
    store : obstore store
        Where the objects are.
    retries : Retries, optional
        How often, and for how long, a request is retried; by default as the ``retry_config`` of `store` says.

    Attributes
    ----------
    kind : str
        The service: ``s3 gs az http file memory``.
    single, bulk : StoreHandle
        Send single requests, and operations of many requests.
    prefix, root : str
        The prefix of all names in the bucket, and the URL before the prefix of a store, without secrets.
    service : tuple of str
        The scope of the bucket's name, as in `service_of`.
    storage : object
        Identifies endpoint and bucket, as in `storage_of`.
    """

    def __init__(self, store: Any, retries: Retries | None = None) -> None:
        self.retries = Retries.of(getattr(store, "retry_config", None)) if retries is None else retries
        self.single = StoreHandle(store, {**self.retries.config(), "max_retries": 0})
        self.kind = self.single.kind
        self.bulk = StoreHandle(store, self.retries.config())
        self.prefix = str(getattr(store, "prefix", None) or "")
        self.root = _root_of(self.kind, store)
        self.service = tuple(map(bare_url, service_of(self.kind, self.single.settings)))
        self.storage = storage_of(self.kind, self.single.settings)
        if self.kind == "http":  # its threads import nothing, since another thread may fork then
            import_module("tegula.stores.objects.answers")

    def limiter(self, concurrency: int | None) -> Limiter:
        """Return a limit on the requests of one store, or that of all stores on the bucket if none is given."""
        first = concurrency or config.current().concurrency
        if concurrency is not None or self.kind in ("memory", "file"):
            return Limiter(first)
        return Limiter.of_bucket((*self.service, self.root), first)


def _root_of(kind: str, store: Any) -> str:
    """Return the URL of an obstore store, without secrets, to which the names of objects are appended."""
    if kind == "http":
        return f"{bare_url(str(store.url))}/"
    if kind == "memory":
        return f"memory://{id(store):x}/"
    if kind == "file":
        return f"file://{import_module('pathlib').PurePath(store.prefix or '/').as_posix()}/"
    settings = store.config
    inner = f"{store.prefix}/" if store.prefix else ""
    return f"{kind}://{settings.get('bucket') or settings.get('container_name')}/{inner}"


class ObjectStore(Copying, ObjectReader):
    """Objects in a bucket or container, through a store of the package obstore.

    Conditional writes are those of the service: several writers, even on different machines, never lose each other's
    changes. Before the first one, a test with a separate object finds out whether the service really supports them; if
    not, `single_writer` becomes true, and conditions hold between the threads of this process only. Where S3
    deletes on condition, `conditional_delete` becomes true. `probe` tests both at once.

    Requests that fail for a transient reason are retried; when the retries are used up, a `StoreError` is raised. A
    value that can't be read never counts as missing.

    Parameters
    ----------
    store : obstore store
        Where the objects are: an ``S3Store``, ``GCSStore``, ``AzureStore``, ``HTTPStore``, ``LocalStore`` or
        ``MemoryStore`` of ``obstore.store``.
    prefix : str
        Prefix of the object names: ``""`` or a path.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`. A web server is always read-only.
    missing : sequence of int
        Status codes besides 404 that mean that there is no object. A bucket that you may not list answers 403.
    retries : Retries, optional
        How often, and for how long, a request is retried; by default as the ``retry_config`` of `store` says.
    concurrency : int, optional
        The most requests that are under way at once. If it is not given, all stores on a bucket together start with as
        many as the setting ``concurrency`` says, and go up to four times as many where that raises the number answered
        per second. When the server asks for fewer, the number is halved, and then raised by one for each round that
        succeeds.
    url : str, optional
        A name for the store, in place of its own.

    Raises
    ------
    UnsupportedError
        If obstore is not installed.
    MetadataError
        If `store` is not an obstore store, or another argument is not valid.

    Examples
    --------
    >>> from obstore.store import MemoryStore
    >>> store = ObjectStore(MemoryStore(), "data")
    >>> old = store.set("a", b"abc")
    >>> store.get("a", (1, None)), [*store.list()]
    (b'bc', ['a'])
    """

    is_remote = True
    identity: object = ""
    """The service, the bucket and the prefix as text; for values in the memory of this process an object."""

    def __init__(
        self,
        store: Any,
        prefix: str = "",
        *,
        read_only: bool = False,
        missing: Sequence[int] = (404,),
        retries: Retries | None = None,
        concurrency: int | None = None,
        url: str | None = None,
    ) -> None:
        client = store if isinstance(store, Client) else Client(store, retries)
        self._client = client
        self.kind = client.kind
        self.prefix = f"{check_key(prefix.strip('/'))}/" if prefix.strip("/") else ""
        if self.kind == "az":
            self._check_name(client.prefix + self.prefix)
        self.read_only = read_only or self.kind == "http"
        self.listable = self.kind != "http"
        self.fresh_generations = self.kind not in ("s3", "http")
        self.missing = _statuses(missing)
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise MetadataError("concurrency must be a whole number of at least 1", field="concurrency")
        self._concurrency = concurrency
        self.requests = Requests(client.single, client.bulk, client.retries, client.limiter(concurrency))
        self._name = f"{client.root}{self.prefix}".rstrip("/")
        self._url = self._name if url is None else url
        known = known_conditions(client.storage)
        self.single_writer = known is not None and not known.hold
        self.conditional_delete = known is not None and known.delete
        if self.kind == "memory":
            values = client.single.get()
            self.identity = shared(values, "memory", id(values), self.prefix)
        else:
            missing_too = "" if self.missing <= {404} else f"{sorted(self.missing)}|"
            self.identity = f"object:{missing_too}{'|'.join((*client.service, self._name))}"

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """How many requests one operation should have under way at once."""
        return self.requests.limiter.wanted

    @property
    def url(self) -> str:
        """The URL of the store, without secrets."""
        return self._url

    @property
    def values_url(self) -> str | None:  # type: ignore[override]
        """The URL of the store, if its values are not in this process or on this machine."""
        return None if self.kind in ("memory", "file") else f"{self._url.rstrip('/')}/"

    @property
    def is_private(self) -> bool:
        """Whether the bucket is in the memory of this process."""
        return self.kind == "memory"

    def probe(self) -> Capabilities:
        """Test conditional writes now, as the first conditional write would do, and return the capabilities.

        `capabilities` alone sends no request: until the first conditional write it reports what is known or expected.
        For AWS endpoints, only this method finds out whether they delete on condition. A read-only store is not
        tested.

        Raises
        ------
        StoreError
            If the bucket can't be written.

        Examples
        --------
        >>> from obstore.store import MemoryStore
        >>> ObjectStore(MemoryStore()).probe().single_writer
        False
        """
        if not self.read_only:
            conditions = self._conditions()
            if self._client.storage is None and can_be_sent(self.requests.single):
                conditions = probe(self.requests, self.prefix, repr(self))
            self._note(conditions)
        return self.capabilities

    def _conditions(self) -> Conditions:
        """Return what conditional writes to the bucket guarantee; test them if this process has not done so yet."""
        conditions = conditions_of(self._client.storage, self.requests, self.prefix, repr(self))
        if self._client.storage is not None:
            self._note(conditions)
        return conditions

    def _note(self, conditions: Conditions) -> None:
        self.single_writer, self.conditional_delete = not conditions.hold, conditions.delete

    @cached_property
    def _bucket(self) -> Bucket:
        """The bucket, within which the service copies objects."""
        return Bucket(self)

    # -- writing

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        path = self.path_of(key)
        self._check_writable(key)
        view = flat_view(value, key)
        data = bytes(view) if self.kind == "memory" else view  # in memory obstore would keep the caller's buffer
        if if_generation is not None:
            answer = self._set_if(key, data, if_generation)
        else:
            with self._alone(key):
                answer = self._put(path, data)
        if isinstance(answer, Failure):
            if answer.kind == "missing":
                answer = answer._replace(reason="there is no such bucket")
            self.fail("write", key, answer)
        return answer

    def _put(self, path: str, data: memoryview | bytes) -> ObjectGeneration | Failure:
        parts = len(data) > _PART
        send = self.requests.bulk if parts else self.requests.send
        options = {"use_multipart": parts, "chunk_size": _PART}
        answer: Any = send(lambda library, store: library.put(store, path, data, **options))
        return answer if isinstance(answer, Failure) else generation_from(self.kind, answer)

    def _set_if(self, key: str, data: memoryview | bytes, before: Generation) -> ObjectGeneration | Failure:
        if before != ABSENT and (not isinstance(before, ObjectGeneration) or before.superseded):
            raise changed(key)
        conditions = self._conditions()
        if isinstance(before, ObjectGeneration) and before.restored and conditions.metadata:
            # the object must keep the identifiers of earlier writes, since their writers may still look for them
            now = self.read(key, (0, 0))
            if isinstance(now, Failure):
                return now
            check_generation(key, now[1], before)
            before = now[1]
        if conditions.hold:
            return put_if(self, key, data, before, metadata=conditions.metadata)
        with self._lock_of(key):
            return put_if_alone(self, key, data, before)

    def _lock_of(self, key: str) -> Lock:
        # not by `url`, since a bucket may have several
        return _locks.of("|".join((*self._client.service, f"{self._name}/{key}")))

    @property
    def _uses_locks(self) -> bool:
        """Whether locks of this process replace conditions, as found out by any store over the bucket."""
        known = known_conditions(self._client.storage)
        return known is not None and not known.hold

    def _alone(self, key: str) -> AbstractContextManager[object]:
        """Return a context that locks out conditional writes to the key if the service has no conditions."""
        return self._lock_of(key) if self._uses_locks else nullcontext()

    def copies_from(self, source: object, *, create: bool = False) -> bool:
        """Return whether the service can copy from a store: one over the same bucket; see `Copying.copies_from`."""
        if not isinstance(source, ObjectStore) or type(source).get is not ObjectReader.get or self.kind != source.kind:
            return False
        if self._uses_locks or self._bucket.settings is None or self._bucket.settings != source._bucket.settings:
            return False
        copies = self._bucket.copies(self._client.storage)
        return copies.create if create else copies.plain

    def copy_from(
        self, source: Any, key: str, new: str, *, create: bool = False, nbytes: int | None = None
    ) -> int | None:
        """Let the service copy an object within the bucket; see `Copying.copy_from`."""
        self._check_writable(new)
        if not self._bucket.copy(source, key, new, create=create):
            return None
        return (self.size(new) or 0) if nbytes is None else nbytes

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        path = self.path_of(key)
        self._check_writable(key)
        answer: Any
        if if_generation is None:
            with self._alone(key):
                answer = self.requests.send(lambda library, store: library.delete(store, path))
        elif self.conditional_delete:
            answer = delete_if(self, key, if_generation)
        else:
            raise UnsupportedError(f"{self!r} can't delete on condition: the service was not found to do so", key=key)
        if isinstance(answer, Failure) and answer.kind != "missing":
            self.fail("delete", key, answer)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, many by one request."""
        self._check_writable(check_prefix(prefix))
        keys = iter(self.list_prefix(prefix))
        while batch := [*islice(keys, _BATCH)]:
            if self._uses_locks:  # one by one under its lock, or a conditional write could bring a value back
                in_threads(self.delete, batch, self.concurrency)
            else:
                self._delete_all(batch)

    def _delete_all(self, keys: Sequence[str]) -> None:
        paths = [self.path_of(key) for key in keys]
        answer = self.requests.bulk(lambda library, store: library.delete(store, paths))
        if isinstance(answer, Failure):
            if answer.kind != "missing":
                self.fail("delete", keys[0], answer)
            for key in keys:  # another writer has deleted one of them, and the others may still be there
                self.delete(key)

    def _check_writable(self, key: str) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def close(self) -> None:
        """Stop sending requests; the store can't be used afterwards."""
        self.requests.closed_as = repr(self)

    # -- the store as an object

    def __reduce__(self) -> tuple[Any, ...]:
        handle = self.requests.single
        if handle.settings is None:
            raise UnsupportedError(f"{self!r} can't be pickled: its values are in the memory of this process")
        make = partial(
            type(self),
            read_only=self.read_only,
            missing=tuple(self.missing),
            retries=self.requests.retries,
            concurrency=self._concurrency,
            url=self._url,
        )
        return _reopen, (make, handle.name, handle.settings, self.prefix)

    def stores_above(self) -> Iterator[tuple[ObjectStore, str]]:
        """Yield stores for reading over each prefix above the root; see `Store.stores_above`."""
        for above, path in directories_above(self.prefix):
            yield ObjectStore(self._client, above, read_only=True, missing=tuple(self.missing)), path

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectStore):
            return NotImplemented
        return self._identity() == other._identity() and self.requests.single == other.requests.single

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.kind, self._url, self.prefix, self.read_only, self.missing


def _reopen(make: Callable[..., ObjectStore], class_name: str, settings: Settings, prefix: str) -> ObjectStore:
    return make(make_store(class_name, settings), prefix)


def _statuses(missing: Any) -> frozenset[int]:
    statuses = [*missing] if isinstance(missing, Iterable) else [missing]
    if not ({*map(type, statuses)} <= {int} and _STATUSES.issuperset(statuses)):
        raise MetadataError("missing must list status codes from 400 to 499, such as (403, 404)", field="missing")
    return frozenset(statuses)
