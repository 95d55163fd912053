"""Transactions: changes that are staged, and stored by the commit.

Changes are staged by key, so a chunk that is written twice is stored once. A commit requires that the values from
which the changes were computed are still current. If they are not, it applies the changes again to the current values;
with `repeatable_read`, it fails. Keys of files are compared by their full paths, so that a file is the same key in
stores with different roots.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from tegula.engine.concurrency.pool import for_each
from tegula.engine.documents.forgetting import forget
from tegula.errors import ConflictError, TegulaError
from tegula.runtime.frozen import attribute, computed
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, changed, check_key, cut, flat_view
from tegula.stores.capabilities import BlockedKeys, blocked_by
from tegula.stores.interface import Store
from tegula.tensorstore.errors import StatusError, as_status, invalid, status, type_error
from tegula.tensorstore.future import Future, Promise, background, ready
from tegula.tensorstore.kvstore.specs import file_path, key_name, store_error

__all__ = ["StagedStore", "Transaction"]

T = TypeVar("T")
KeyId: TypeAlias = tuple[object, str]
"""A key of a transaction: ``"files"`` and a full path, or the identity of a store and a key of it."""
_ATTEMPTS = 1000
_next_token = itertools.count(1).__next__


@runtime_checkable
class _Changeable(Protocol):
    """A store in which several keys can change in one step."""

    def change(self, changes: dict[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete the keys if each has its expected generation."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """The state of one key in a transaction.

    An entry that is not written was only read. When the transaction is committed, the key must have the expected
    generation. The token is the generation of the new value until it is stored; ``None`` as the value deletes the key.
    The transaction can't be committed if an entry is doomed: a condition was not met.
    """

    store: Store
    key: str
    written: bool = False
    value: bytes | None = None
    expected: Generation | None = None
    token: Generation = ABSENT
    doomed: bool = False

    def holds(self) -> bool:
        """Return whether the key still has the expected generation."""
        if self.expected is None:
            return not self.doomed
        return not self.doomed and self.store.get(self.key, (0, 0), with_generation=True)[1] == self.expected


class Transaction:
    """A group of changes that only the transaction's own reads see until the commit.

    The end of a ``with`` block commits the transaction, or aborts it if the block raises.

    Examples
    --------
    >>> from tegula.tensorstore.kvstore.kvstore import KvStore
    >>> store = KvStore.open("memory://").result()
    >>> with Transaction() as transaction:
    ...     store.with_transaction(transaction)["a"] = b"1"
    ...     print(store.list().result())
    []
    >>> store["a"]
    b'1'
    """

    __slots__ = (
        "__weakref__", "_atomic", "_entries", "_future", "_lock", "_log", "_only", "_performing", "_promise",
        "_repeatable_read", "_replaying", "_settled", "_state", "_stores",
    )  # fmt: skip

    def __init__(self, atomic: bool = False, repeatable_read: bool = False) -> None:
        self._atomic, self._repeatable_read = bool(atomic), bool(repeatable_read)
        self._entries: dict[KeyId, _Entry] = {}
        self._settled: set[KeyId] = set()
        self._log: list[Callable[[], Any]] = []
        self._performing, self._replaying = 0, False
        self._only: tuple[KeyId, Store, str] | None = None
        self._stores: dict[int, StagedStore] = {}
        self._state: Literal["open", "committing", "aborted"] = "open"
        self._lock = threading.RLock()
        self._promise: Promise[None]
        self._future: Future[None]
        self._promise, self._future = Promise.new()

    atomic: bool = attribute("_atomic", "Whether the transaction must be committed in one step.")
    repeatable_read: bool = attribute(
        "_repeatable_read", "Whether the commit requires that all values that were read are unchanged."
    )

    open: bool = computed(
        lambda self: self._state == "open", "Whether the transaction was not aborted, and its commit has not started."
    )
    aborted: bool = computed(lambda self: self._state == "aborted", "Whether the transaction was aborted.")
    commit_started: bool = computed(lambda self: self._state == "committing", "Whether the commit has started.")
    future: Future[None] = attribute(
        "_future", "A future that is ready after the commit; after an abort, it has an error."
    )

    def commit_async(self) -> Future[None]:
        """Start the commit, unless it has started or the transaction was aborted; return `future`.

        Its error starts with ABORTED if a value that must not change has changed.
        """
        if self._ends("committing"):
            background(self._commit)
        return self._future

    def commit_sync(self) -> None:
        """Commit the transaction and wait for it."""
        if self._ends("committing"):
            self._commit()
        self._future.result()

    def abort(self) -> None:
        """Discard all changes, unless the commit has started."""
        self._abort(status("CANCELLED", "Transaction aborted"))

    # --- for stores and drivers

    def _failed(self, error: StatusError) -> StatusError:
        """Abort with the error that prevents the commit, and return it."""
        self._abort(error)
        return error

    def _staged(self, store: Store) -> StagedStore:
        """Return a store with the changes of the transaction."""
        self._check_open()
        if id(store) not in self._stores:
            self._stores[id(store)] = StagedStore(self, store)
        return self._stores[id(store)]

    def _perform(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that changes staged stores; the commit calls it again if values that it read have changed.

        Its arguments must not be modified until the transaction ends.
        """
        self._check_open()
        with self._lock:
            self._performing += 1
        try:
            result = function(*args)
            self._log.append(partial(function, *args))
            return result
        finally:
            with self._lock:
                self._performing -= 1

    def _refuse_leaving(self) -> None:
        """Raise an error unless the commit has started: an object may depend on changes that are only staged."""
        if self._state != "committing":
            raise invalid("Cannot rebind transaction when existing transaction is uncommitted")

    def _check_open(self) -> None:
        if self._state == "aborted":
            raise invalid("Transaction not open (aborted)")
        if self._state == "committing" and not self._replaying:
            raise invalid("Transaction not open (commit already started)")

    def _abort(self, error: BaseException) -> None:
        if self._ends("aborted"):
            self._entries, self._log = {}, []
            self._promise.set_exception(error)

    def _ends(self, state: Literal["committing", "aborted"]) -> bool:
        """Change the state of the transaction if it is open; return whether it was open."""
        with self._lock:
            if self._state != "open":
                return False
            self._state = state
            return True

    def _put(self, key_id: KeyId, entry: _Entry) -> None:
        """Keep a new value until the commit."""
        if key_id in self._settled:
            return
        with self._lock:
            self._entries[key_id] = entry
            if not self._performing and not self._replaying:
                self._log.append(partial(self._put, key_id, entry))

    # --- staging

    def _note_read(self, key_id: KeyId, store: Store, key: str, generation: Generation) -> None:
        """Note which state of a key was read, if reads must be repeatable."""
        if not self._repeatable_read:
            return
        self._involve(key_id, store, key)
        with self._lock:
            self._entries.setdefault(key_id, _Entry(store, key, expected=generation))

    def _involve(self, key_id: KeyId, store: Store, key: str) -> None:
        """Add a key to an atomic transaction, which can have only one key of a store that is not `_Changeable`."""
        if not self._atomic or isinstance(store, _Changeable):
            return
        if self._only is None:
            self._only = (key_id, store, key)
        elif self._only[0] != key_id:
            names = " and ".join(sorted((key_name(*self._only[1:]), key_name(store, key))))
            raise self._failed(invalid(f"{names} can't change in one step; use a transaction that is not atomic"))

    def _replay(self) -> None:
        """Drop the new values that were not stored yet, and repeat the calls that made them."""
        self._entries = {}
        self._replaying = True
        try:
            for action in [*self._log]:
                action()
        finally:
            self._replaying = False

    # --- storing

    def _commit(self) -> None:
        try:
            self._store_or_fail()
            self._promise.set_result(None)
        except BaseException as error:  # noqa: BLE001 - the future raises it
            self._promise.set_exception(as_status(error) if isinstance(error, TegulaError) else error)
        self._entries, self._log = {}, []
        self._stores.clear()

    def _store_or_fail(self) -> None:
        for _ in range(_ATTEMPTS):
            lost = self._store_all()
            if lost is None:
                return
            self._start_over(*lost)
        raise status("ABORTED", "The values that the transaction has read keep changing")

    def _store_all(self) -> tuple[KeyId, _Entry] | None:
        """Store all changes; return a key that another writer has changed, if any."""
        pending = sorted(self._entries.items(), key=lambda change: id(change[1].store))
        for key_id, entry in pending:
            if not entry.holds():
                return key_id, entry
        written = [change for change in pending if change[1].written]
        alone = [change for change in written if not isinstance(change[1].store, _Changeable)]
        for _, group in itertools.groupby(written, key=lambda change: id(change[1].store)):
            changes = [*group]
            if isinstance(changes[0][1].store, _Changeable) and (lost := self._change(changes)) is not None:
                return lost
        losses: list[tuple[KeyId, _Entry]] = []
        for_each(lambda change: self._set(change, losses), alone, parallel=True)
        return losses[0] if losses else None

    def _change(self, group: list[tuple[KeyId, _Entry]]) -> tuple[KeyId, _Entry] | None:
        store = group[0][1].store
        assert isinstance(store, _Changeable)
        try:
            store.change({entry.key: (entry.value, entry.expected) for _, entry in group})
        except ConflictError as error:
            return next(change for change in group if change[1].key == error.key)
        finally:
            for _, entry in group:
                forget(store, entry.key)
        self._settled.update(key_id for key_id, _ in group)
        return None

    def _set(self, change: tuple[KeyId, _Entry], losses: list[tuple[KeyId, _Entry]]) -> None:
        key_id, entry = change
        try:
            if entry.value is None:
                entry.store.delete(entry.key, if_generation=entry.expected)
            else:
                entry.store.set(entry.key, entry.value, if_generation=entry.expected)
        except ConflictError:
            losses.append(change)
        except TegulaError as error:
            raise store_error(error, entry.store, entry.key) from error
        else:
            self._settled.add(key_id)
        finally:
            forget(entry.store, entry.key)

    def _start_over(self, key_id: KeyId, entry: _Entry) -> None:
        """Repeat the changes that are not stored yet, as a value that one of them depends on has changed."""
        is_lost = self._repeatable_read or entry.doomed
        if not is_lost:
            self._replay()
        if is_lost or self._entries.get(key_id) is entry:  # the change does not depend on the stored value
            raise status("ABORTED", f"{key_name(entry.store, entry.key)} has changed")

    # --- with and async with

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.commit_sync()
        else:
            self.abort()

    def __aenter__(self) -> Future[Transaction]:
        return ready(self)

    def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> Future[Any]:
        if kind is None:
            return self.commit_async()
        self.abort()
        return ready(None)

    def __reduce__(self) -> Any:
        raise type_error("cannot pickle 'tensorstore.Transaction' object")


class StagedStore(BlockedKeys, Store):
    """A store as a transaction sees it: the new values of the transaction hide those of the store."""

    def __init__(self, transaction: Transaction, store: Store) -> None:
        self.transaction = transaction
        self.base = store
        self.read_only, self.single_writer = store.read_only, store.single_writer
        self._check_key: Callable[[str], str] = getattr(store, "_check_key", check_key)
        directory = store.local_directory
        self._space: object = id(store) if directory is None else "files"
        self._root = "" if directory is None else file_path(directory).rstrip("/") + "/"

    url: str = attribute("base.url", "The name of the store.")

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        self.transaction._check_open()
        entry = self.transaction._entries.get(self._key_id(key))
        if entry is not None and entry.written:
            value = cut(entry.value, byte_range)
            return (value, entry.token) if with_generation else value
        value, generation = self.base.get(key, byte_range, with_generation=True)
        self.transaction._note_read(self._key_id(key), self.base, key, generation)
        return (value, generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Keep a new value until the commit; see `Store.set`."""
        return self._put(key, bytes(flat_view(value, key)), if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Delete `key` at the commit; see `Store.delete`."""
        self._put(key, None, if_generation)

    def change_if(self, key: str, value: bytes | None, expected: Generation | None) -> Generation:
        """Keep a value, or the deletion of `key`, until the commit, which checks the condition."""
        known = self.transaction._entries.get(self._key_id(key))
        if known is None or expected is None:
            return self._put(key, value, expected, now=False)
        doomed = expected != (known.token if known.written else known.expected)
        return self._put(key, value, None, doomed=doomed)

    def confirm(self, key: str, generation: Generation) -> None:
        """End the transaction with an error if `key` had another generation when it was first read."""
        known = self.transaction._entries.get(self._key_id(key))
        if known is not None and not known.written and known.expected != generation:
            name = key_name(self.base, key)
            raise self.transaction._failed(status("ABORTED", f"{name} has changed since the transaction first read it"))

    def size(self, key: str) -> int | None:
        self.transaction._check_open()
        entry = self.transaction._entries.get(self._key_id(key))
        if entry is not None and entry.written:
            return None if entry.value is None else len(entry.value)
        return self.base.size(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self.transaction._check_open()
        keys = set(self.base.list_prefix(prefix))  # which checks the prefix
        start = self._root + prefix
        for (space, path), entry in [*self.transaction._entries.items()]:
            if entry.written and space == self._space and path.startswith(start):
                (keys.discard if entry.value is None else keys.add)(path[len(self._root) :])
        return iter(keys)

    def blocked_by(self, key: str) -> str | None:
        """Describe what is in the place of a key of the store; see `BlockedKeys.blocked_by`."""
        return blocked_by(self.base, self._check_key(key))

    def blockers(self, prefix: str) -> Iterator[str]:
        """Yield what no listing of the store shows; see `BlockedKeys.blockers`."""
        return self.base.blockers(prefix) if isinstance(self.base, BlockedKeys) else super().blockers(prefix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def depend(self, key: str, *, writes: bool) -> None:
        """Involve `key` in the transaction, for writing or for reading."""
        self.transaction._check_open()
        if writes or self.transaction.repeatable_read:
            self.transaction._involve(self._key_id(key), self.base, key)

    def _key_id(self, key: str) -> KeyId:
        return self._space, self._root + self._check_key(key)

    def _put(
        self, key: str, value: bytes | None, expected: Generation | None, *, doomed: bool = False, now: bool = True
    ) -> Generation:
        self.transaction._check_open()
        key_id = self._key_id(key)
        self.transaction._involve(key_id, self.base, key)
        known = self.transaction._entries.get(key_id)
        if known is not None and known.written:
            if expected is not None and expected != known.token:
                raise changed(key)
            expected = known.expected
            doomed = doomed or known.doomed
        elif known is not None:  # the commit checks whether it has changed since it was first read
            expected = known.expected
        elif now and expected is not None and self.base.get(key, (0, 0), with_generation=True)[1] != expected:
            raise changed(key)
        token: Generation = ABSENT if value is None else b"\4" + _next_token().to_bytes(8, "little")
        self.transaction._put(key_id, _Entry(self.base, key, True, value, expected, token, doomed))
        return token
