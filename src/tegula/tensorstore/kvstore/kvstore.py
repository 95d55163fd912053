"""`KvStore`: a key-value store in memory, in files, in a zip archive or remote; its path is the prefix of all keys.

Drivers use ``_store`` and ``_path``: the `tegula.stores.Store` (in a transaction, the staged store) and the prefix of
the keys in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, TypeVar

from tegula.engine.documents.forgetting import forget
from tegula.errors import ConflictError, NotFoundError, TegulaError
from tegula.runtime.frozen import attribute
from tegula.stores import ABSENT, Store
from tegula.stores.capabilities import delete_if
from tegula.tensorstore.context import Context, SpecBuilder
from tegula.tensorstore.errors import StatusError, checked, checked_or_none, invalid, status, type_error
from tegula.tensorstore.future import Batch, Future, background, failed, immediate
from tegula.tensorstore.json import as_bytes, dump, key_bytes, key_text, pretty
from tegula.tensorstore.kvstore.specs import (
    KvStoreSpec,
    NotDirectoryError,
    check_file_key,
    key_name,
    split_directory,
    store_error,
)
from tegula.tensorstore.kvstore.stores import store_of
from tegula.tensorstore.kvstore.transaction import StagedStore, Transaction
from tegula.tensorstore.kvstore.values import (
    UNKNOWN,
    ByteSlice,
    decode_generation,
    encode_generation,
    keys_below,
    listing_prefix,
    made,
    prefix_of_range,
    stamp,
)
from tegula.tensorstore.kvstore.values import KeyRange as _KeyRange
from tegula.tensorstore.kvstore.values import ReadResult as _ReadResult
from tegula.tensorstore.kvstore.values import TimestampedStorageGeneration as _Generation

__all__ = ["KvStore", "open_bound"]

T = TypeVar("T")
_Keys: TypeAlias = list[bytes]
_NOT_OPENED = (TegulaError, OSError, ImportError, RuntimeError, TypeError, ValueError)


class KvStore:
    """A key-value store, opened with `open`; keys and values are bytes.

    Examples
    --------
    >>> store = KvStore.open("memory://a/").result()
    >>> store["b"] = b"value"
    >>> store["b"], "c" in store, store.list().result()
    (b'value', False, [b'b'])
    >>> store.read("b", byte_range=slice(1, 3)).result().value
    b'al'
    """

    KeyRange: TypeAlias = _KeyRange
    ReadResult: TypeAlias = _ReadResult
    Spec: TypeAlias = KvStoreSpec
    TimestampedStorageGeneration: TypeAlias = _Generation

    __slots__ = ("__weakref__", "_opened_store", "_path", "_spec", "_transaction")

    _spec: KvStoreSpec
    _path: str
    _opened_store: Store | None
    _transaction: Transaction | None

    def __new__(cls) -> KvStore:
        raise type_error("cannot create 'tensorstore.KvStore' instances")

    @staticmethod
    def open(spec: Any, *, context: Context | None = None, transaction: Transaction | None = None) -> Future[KvStore]:
        """Open a key-value store, given by its spec, JSON or URL, by default in a new context."""
        described = KvStoreSpec(spec)
        checked_or_none("context", context, Context)
        checked_or_none("transaction", transaction, Transaction)

        def act() -> KvStore:
            return open_bound(described._bound(Context() if context is None else context), transaction)

        return immediate(act)

    @property
    def path(self) -> str:
        """The prefix of all keys."""
        return self._spec.path

    # --- properties

    @path.setter
    def path(self, path: str | bytes) -> None:
        self._set_spec(self._spec._with(_path=key_text(path)))

    url: str = attribute("_spec.url", "The URL.")

    @property
    def base(self) -> KvStore | None:
        """The underlying store of an adapter such as ``zip``; ``None`` for other stores."""
        base = self._spec._base
        return None if base is None else open_bound(base, self._transaction)

    @property
    def transaction(self) -> Transaction | None:
        """The transaction for reads and writes; None if there is none."""
        return self._transaction

    @transaction.setter
    def transaction(self, transaction: Transaction | None) -> None:
        self._transaction = checked_or_none("transaction", transaction, Transaction)

    def spec(self, *, retain_context: bool | None = None, unbind_context: bool | None = None) -> KvStoreSpec:
        """Return a spec that opens the store again, without resources, or with them or their specs in their place."""
        if unbind_context:
            return self._spec._unbound()
        return self._spec.copy() if retain_context else self._spec._stripped()

    def copy(self) -> KvStore:
        """Return a copy."""
        return open_bound(self._spec, self._transaction, self._opened_store)

    __copy__ = copy

    def with_transaction(self, transaction: Transaction | None) -> KvStore:
        """Return the store with another transaction, or none; raises before the commit of its own one has started."""
        if self._transaction is not None:
            self._transaction._refuse_leaving()
        return open_bound(self._spec, checked_or_none("transaction", transaction, Transaction), self._opened_store)

    def __add__(self, suffix: str | bytes) -> KvStore:
        return open_bound(self._spec + suffix, self._transaction)

    def __truediv__(self, component: str | bytes) -> KvStore:
        return open_bound(self._spec / component, self._transaction)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._transaction is not None:
            raise invalid("Cannot serialize bound transaction")
        return open_bound, (self._spec,)

    def __repr__(self) -> str:
        return pretty((builder := SpecBuilder()).finish(self._spec._build(builder)), "KvStore(", ")")

    # --- reading

    def read(
        self,
        key: str | bytes,
        *,
        if_not_equal: str | bytes | None = None,
        staleness_bound: float | None = None,
        batch: Batch | None = None,
        byte_range: slice | None = None,
    ) -> Future[_ReadResult]:
        """Read the value of a key; a missing key is not an error.

        The value is left out if its generation is `if_not_equal`. The range is ``slice(start, stop)``, or ``slice(-n,
        None)`` for the last `n` bytes. `staleness_bound` is accepted without effect: the result is always current.
        """
        name = key_text(key)
        known = UNKNOWN if if_not_equal is None else as_bytes(if_not_equal, "if_not_equal")
        wanted = None if byte_range is None else ByteSlice(byte_range)
        if batch is not None:
            return batch._defer(self._read, name, known, wanted, requests=self._requests)
        return self._run(not self._is_remote, self._read, name, known, wanted)

    def _read(self, name: str, known: bytes, wanted: ByteSlice | None) -> _ReadResult:
        now = time.time()
        try:
            store, key = self._store_and_key(name)
            value, generation = store.get(key, None if wanted is None else wanted.request, with_generation=True)
            if (staged := self._staged) is not None:
                staged.confirm(key, generation)
            is_short = wanted is not None and value is not None and len(value) < wanted.least
            if wanted is not None and is_short and encode_generation(generation) != known:
                wanted.check(store.size(key) or 0)
        except NotDirectoryError:
            value, generation = None, ABSENT
        except TegulaError as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                self._fail(error, name)
            value, generation = None, ABSENT
        token = encode_generation(generation)
        stamped = stamp(token, float("inf") if token[:1] == b"\4" else now)
        state = "missing" if value is None else "unspecified" if known == token else "value"
        return made(_ReadResult, state, value if state == "value" else b"", stamped)

    def __getitem__(self, key: str | bytes) -> bytes:
        result = self._read(key_text(key), UNKNOWN, None)
        if result.state == "missing":
            raise NotFoundError("nothing is stored there", key=key_text(key))
        return result.value

    __iter__ = None

    def __contains__(self, key: str | bytes) -> bool:
        return self._read(key_text(key), UNKNOWN, None).state == "value"

    def list(self, range: _KeyRange | None = None, strip_prefix_length: int = 0) -> Future[_Keys]:
        """List the keys of a range, sorted, without the path and without `strip_prefix_length` bytes at the start."""
        if not isinstance(strip_prefix_length, int) or strip_prefix_length < 0:
            raise type_error(f"strip_prefix_length must not be negative: {strip_prefix_length!r}")
        range = _KeyRange() if range is None else checked("range", range, _KeyRange).copy()
        return self._run(not self._is_remote, self._list, range, strip_prefix_length)

    def _list(self, range: _KeyRange, strip: int) -> _Keys:
        if range.empty:
            return []
        if self._transaction is not None and self._transaction.repeatable_read:
            raise status("UNIMPLEMENTED", "repeatable_read mode not supported for transactional list operations")
        return [name[strip:] for name, _ in sorted(self._names(range))]

    def _names(self, range: _KeyRange) -> Iterator[tuple[bytes, str]]:
        """Yield the keys of a range, each without the path and as a key of the store."""
        with self._listing():
            store, path = self._store, self._path
            skipped = len(key_bytes(path))
            for key in keys_below(store, path, listing_prefix(path, range)):
                if key.startswith(path):
                    name = key_bytes(key)[skipped:]
                    if name in range:
                        yield name, key

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Convert errors of the store to errors of a listing."""
        try:
            yield
        except NotDirectoryError as error:
            raise status("NOT_FOUND", f"Cannot list non-directory: {dump(error.root)}") from error
        except TegulaError as error:
            self._fail(error, "")

    # --- writing

    def write(
        self, key: str | bytes, value: str | bytes | None, *, if_equal: str | bytes | None = None
    ) -> Future[_Generation]:
        """Store the value of a key, or delete the key if it is ``None``; return the new generation.

        That is ``b""`` if the key does not have the generation `if_equal` (``b"\\x02"``, if it must not have a value).
        In a transaction, the commit checks this condition.
        """
        name = key_text(key)
        data = None if value is None else as_bytes(value, "a value")
        expected = None if not if_equal else decode_generation(as_bytes(if_equal, "if_equal"))
        return self._run(self._spec._driver == "memory", self._write, name, data, expected)

    def _write(self, name: str, value: bytes | None, expected: Any) -> _Generation:
        try:
            store, key = self._store_and_key(name)
            if (staged := self._staged) is not None:
                return stamp(encode_generation(staged.change_if(key, value, expected)))
            try:
                if value is not None:
                    return stamp(encode_generation(store.set(key, value, if_generation=expected)))
                if expected is None:
                    store.delete(key)
                else:
                    delete_if(store, key, expected)
                return stamp(encode_generation(ABSENT))
            finally:
                forget(store, key)
        except ConflictError:
            return stamp(UNKNOWN)
        except TegulaError as error:
            self._fail(error, name)

    def __setitem__(self, key: str | bytes, value: str | bytes | None) -> None:
        self._write(key_text(key), None if value is None else as_bytes(value, "a value"), None)

    def __delitem__(self, key: str | bytes) -> None:
        self._write(key_text(key), None, None)

    def delete_range(self, range: _KeyRange) -> Future[None]:
        """Delete the keys of a range."""
        return self._run(self._spec._driver == "memory", self._delete_range, checked("range", range, _KeyRange).copy())

    def _delete_range(self, range: _KeyRange) -> None:
        if range.empty:
            return
        transaction = self._transaction
        if transaction is not None and transaction.atomic and self._spec._driver == "file":
            name = self._describe_key(range.inclusive_min.decode("utf-8", "surrogateescape"))
            raise transaction._failed(invalid(f"Cannot delete the range from {name} in one atomic step"))
        with self._listing():
            prefix = prefix_of_range(self._path, range)
            if prefix is not None:
                try:
                    self._store.delete_prefix(prefix)
                finally:
                    forget(self._store, prefix)
                return
            for _, key in [*self._names(range)]:
                self._store.delete(key)
                forget(self._store, key)

    def experimental_copy_range_to(
        self, target: KvStore, source_range: _KeyRange | None = None, source_staleness_bound: float | None = None
    ) -> Future[None]:
        """Copy the keys of a range to another store; no store supports it: the future raises NotImplementedError."""
        checked("target", target, KvStore)
        return failed(status("UNIMPLEMENTED", "CopyRange not supported"))

    # --- for drivers

    @property
    def _store(self) -> Store:
        """The store; in a transaction, the staged store."""
        return self._staged or self._base_store

    @property
    def _staged(self) -> StagedStore | None:
        """The store as the transaction sees it; ``None`` without a transaction."""
        return None if self._transaction is None else self._transaction._staged(self._base_store)

    @property
    def _base_store(self) -> Store:
        """The store without the changes of the transaction."""
        if self._opened_store is None:
            self._opened_store = store_of(self._spec)
        return self._opened_store

    def _describe_key(self, key: str) -> str:
        """Return the name of one of this store's keys for messages."""
        return key_name(self._base_store, self._path + key)

    def _store_and_key(self, name: str) -> tuple[Store, str]:
        if self._spec._driver == "file":
            check_file_key(self._spec._path + name)
        return self._store, self._path + name

    def _set_spec(self, spec: KvStoreSpec) -> None:
        self._spec = spec
        self._opened_store = None
        self._path = split_directory(spec._path)[1] if spec._kind.name == "file" else spec._path
        if spec._kind.name == "http":
            self._path = self._path.removeprefix("/")

    @property
    def _requests(self) -> int:
        """The store's number of concurrent requests; 0 if it can't be opened: the operation will raise the error."""
        try:
            return self._store.concurrency
        except _NOT_OPENED:
            return 0

    @property
    def _is_remote(self) -> bool:
        """Whether a request takes long; false if the store can't be opened, as above."""
        store = self._opened_store
        try:
            return self._store.is_remote if store is None or self._transaction is not None else store.is_remote
        except _NOT_OPENED:
            return False

    def _run(self, at_once: bool, function: Callable[..., T], *args: Any) -> Future[T]:
        if at_once or self._transaction is not None:
            return immediate(function, *args)
        return background(function, *args, requests=self._requests)

    def _fail(self, error: TegulaError, name: str) -> NoReturn:
        if isinstance(error, StatusError):
            raise error
        raise store_error(error, self._base_store, self._path + name) from error


for _kind, _name in ((KvStoreSpec, "Spec"), (_KeyRange, ""), (_ReadResult, ""), (_Generation, "")):
    _kind.__name__ = _name or _kind.__name__
    _kind.__qualname__ = f"KvStore.{_kind.__name__}"
    _kind.__module__ = __name__


def open_bound(spec: KvStoreSpec, transaction: Transaction | None = None, opened_store: Store | None = None) -> KvStore:
    """Open the store of a spec that is bound to a context."""
    store: KvStore = object.__new__(KvStore)
    store._set_spec(spec)
    store._transaction = transaction
    store._opened_store = opened_store
    return store
