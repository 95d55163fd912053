"""Transactions: changes that are staged, and stored by the commit.

Changes are staged by key, so a chunk that is written twice is stored once. A commit requires that the values from
which the changes were computed are still current. If they are not, it applies the changes again to the current values;
with `repeatable_read`, it fails.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from tegula.engine.concurrency.pool import for_each
from tegula.engine.documents.forgetting import forget
from tegula.errors import ConflictError, TegulaError
from tegula.stores import Store
from tegula.tensorstore.errors import StatusError, annotate, as_status, invalid, status, type_error
from tegula.tensorstore.future import Caught, Future, Promise, background, ready
from tegula.tensorstore.kvstore.paths import file_error, key_name
from tegula.tensorstore.kvstore.staging import Changeable, Entry, KeyId, Stage, StagedStore

__all__ = ["Transaction"]

T = TypeVar("T")
_ATTEMPTS = 1000


def _conflict(entry: Entry) -> StatusError:
    """Return the error for a key that has changed."""
    return status("ABORTED", f"{key_name(entry.store, entry.key)} has changed")


def _failure(entry: Entry, error: TegulaError) -> StatusError:
    """Return the error for a key that could not be written."""
    if entry.store.local_directory is not None:
        return file_error(error, f"{entry.store.local_directory.rstrip('/')}/{entry.key}")
    return annotate(error, key_name(entry.store, entry.key))


class Transaction:
    """A group of changes that only the transaction's own reads see until the commit.

    The end of a ``with`` block commits the transaction, or aborts it if the block raises.

    Parameters
    ----------
    atomic : bool
        Require that the stores can commit the transaction in one step.
    repeatable_read : bool
        Require at the commit that all values that were read are unchanged.

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

    __slots__ = ("__weakref__", "_future", "_lock", "_promise", "_stage", "_state", "_stores")

    def __init__(self, atomic: bool = False, repeatable_read: bool = False) -> None:
        self._stage = Stage(repeatable_read=bool(repeatable_read), atomic=bool(atomic))
        self._stores: dict[int, StagedStore] = {}
        self._state: Literal["open", "committing", "aborted"] = "open"
        self._lock = threading.Lock()
        self._promise: Promise[None]
        self._future: Future[None]
        self._promise, self._future = Promise.new()

    @property
    def atomic(self) -> bool:
        """Whether the transaction must be committed in one step."""
        return self._stage.atomic

    @property
    def repeatable_read(self) -> bool:
        """Whether the commit requires that all values that were read are unchanged."""
        return self._stage.repeatable_read

    @property
    def open(self) -> bool:
        """Whether the transaction can still be used: it was not aborted, and its commit has not started."""
        return self._state == "open"

    @property
    def aborted(self) -> bool:
        """Whether the transaction was aborted."""
        return self._state == "aborted"

    @property
    def commit_started(self) -> bool:
        """Whether the commit has started."""
        return self._state == "committing"

    @property
    def future(self) -> Future[None]:
        """A future that is ready after the commit; after an abort, it has an error."""
        return self._future

    def commit_async(self) -> Future[None]:
        """Start the commit, unless it has started or the transaction was aborted.

        Returns
        -------
        Future
            Ready after the commit. Its error starts with ABORTED if a value that must not change has changed.
        """
        if self._begin_commit():
            background(self._commit)
        return self._future

    def commit_sync(self) -> None:
        """Commit the transaction and wait for it."""
        if self._begin_commit():
            self._commit()
        self._future.result()

    def abort(self) -> None:
        """Discard all changes, unless the commit has started."""
        self._abort(status("CANCELLED", "Transaction aborted"))

    # --- for stores and drivers

    def _fail(self, error: BaseException) -> None:
        """Abort with the error that prevents the commit."""
        self._abort(error)

    def _staged(self, store: Store) -> StagedStore:
        """Return a store with the changes of the transaction."""
        self._gate()
        staged = self._stores.get(id(store))
        if staged is None:
            staged = self._stores[id(store)] = StagedStore(self._stage, store, self._gate)
        return staged

    def _perform(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that changes staged stores; the commit calls it again if values that it read have changed.

        Its arguments must not be modified until the transaction ends.
        """
        self._gate()
        result: T = self._stage.perform(function, *args)
        return result

    def _refuse_leaving(self) -> None:
        """Raise an error unless the commit has started: an object may depend on changes that are only staged."""
        if self._state != "committing":
            raise invalid("Cannot rebind transaction when existing transaction is uncommitted")

    def _gate(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._abort(error)
        elif self._state == "aborted":
            raise invalid("Transaction not open (aborted)")
        elif self._state == "committing" and not self._stage.replaying:
            raise invalid("Transaction not open (commit already started)")

    def _abort(self, error: BaseException) -> None:
        with self._lock:
            if self._state != "open":
                return
            self._state = "aborted"
        self._stage.forget()
        self._promise.set_exception(error)

    # --- storing

    def _begin_commit(self) -> bool:
        """Start the commit if the transaction is open; return whether it was open."""
        with self._lock:
            if self._state != "open":
                return False
            self._state = "committing"
            return True

    def _commit(self) -> None:
        caught = Caught()
        with caught:
            self._store_or_fail()
            self._promise.set_result(None)
        if not self._future.done():
            error = caught.error()
            self._promise.set_exception(as_status(error) if isinstance(error, TegulaError) else error)
        self._stage.forget()
        self._stores.clear()

    def _store_or_fail(self) -> None:
        for _ in range(_ATTEMPTS):
            lost = self._store_all()
            if lost is None:
                return
            self._start_over(*lost)
        raise status("ABORTED", "The values that the transaction has read keep changing")

    def _store_all(self) -> tuple[KeyId, Entry] | None:
        """Store all changes; return a key that another writer has changed, if any."""
        pending = sorted(self._stage.entries.items(), key=lambda change: id(change[1].store))
        for key_id, entry in pending:
            if not entry.holds():
                return key_id, entry
        alone = [(key_id, entry) for key_id, entry in pending if not isinstance(entry.store, Changeable)]
        together = [(key_id, entry) for key_id, entry in pending if isinstance(entry.store, Changeable)]
        for _, group in itertools.groupby(together, key=lambda change: id(change[1].store)):
            lost = self._change([change for change in group if change[1].written])
            if lost is not None:
                return lost
        losses: list[tuple[KeyId, Entry]] = []
        for_each(
            lambda change: self._set(change, losses), [change for change in alone if change[1].written], parallel=True
        )
        return losses[0] if losses else None

    def _change(self, group: list[tuple[KeyId, Entry]]) -> tuple[KeyId, Entry] | None:
        if not group:
            return None
        store = group[0][1].store
        assert isinstance(store, Changeable)
        try:
            store.change({entry.key: (entry.value, entry.expected) for _, entry in group})
        except ConflictError as error:
            return next(change for change in group if change[1].key == error.key)
        finally:
            for _, entry in group:
                forget(store, entry.key)
        self._stage.settled.update(key_id for key_id, _ in group)
        return None

    def _set(self, change: tuple[KeyId, Entry], losses: list[tuple[KeyId, Entry]]) -> None:
        key_id, entry = change
        try:
            if entry.value is None:
                entry.store.delete(entry.key, if_generation=entry.expected)
            else:
                entry.store.set(entry.key, entry.value, if_generation=entry.expected)
        except ConflictError:
            losses.append(change)
        except TegulaError as error:
            raise _failure(entry, error) from error
        else:
            self._stage.settled.add(key_id)
        finally:
            forget(entry.store, entry.key)

    def _start_over(self, key_id: KeyId, entry: Entry) -> None:
        """Repeat the changes that are not stored yet, as a value that one of them depends on has changed."""
        if self.repeatable_read or entry.doomed:
            raise _conflict(entry)
        self._stage.replay()
        if self._stage.entries.get(key_id) is entry:  # the change does not depend on the stored value
            raise _conflict(entry)

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
