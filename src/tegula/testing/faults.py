"""A store that fails on demand, to test what happens to data if a disk is full, a network breaks or a process dies."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tegula.errors import ConflictError, MetadataError, StoreError
from tegula.stores import ByteRange, Generation, Store
from tegula.stores.arguments import BytesLike
from tegula.stores.wrapping import WrappingStore

__all__ = ["Crash", "Fault", "FaultyStore"]

T = TypeVar("T")
_OPERATIONS = frozenset(
    (
        *("get", "get_many", "size", "exists", "blocked_by", "blockers", "list_prefix", "list_dir", "prefixes_with"),
        *("get_ranges", "get_if_changed", "set", "delete", "delete_prefix", "make_prefix", "has_prefix", "lock"),
        *("is_link", "unreachable"),
    )
)
_FORMER_NAMES = {"turn": "lock", "obstruction": "blocked_by"}


class Crash(BaseException):
    """The death of the process, as far as a test can imitate it: no handler of ordinary exceptions catches it.

    Examples
    --------
    >>> issubclass(Crash, Exception)
    False
    """


@dataclass(frozen=True, slots=True)
class Fault:
    """An error to inject: which operations fail, how, and when.

    Parameters
    ----------
    what : int, "short", "conflict", "crash" or callable
        A number of `errno`: the operation fails with a `StoreError` that has it as its cause. ``"short"``: a ``get``
        returns half of the bytes. ``"conflict"``: a conditional ``set`` or ``delete`` loses its race. ``"crash"``:
        the operation raises `Crash`, and so does every later one. A callable is called with the operation and its key,
        and the operation fails only if it raises; it can also act as another writer.
    on : str or sequence of str
        Names of the operations that may fail; all operations if none is named.
    keys : str
        A regular expression that must match somewhere in the key (or prefix).
    skip : int
        How many such operations succeed first.
    times : int, optional
        How many fail then; without limit if ``None``.
    done : bool
        Whether the operation is carried out before it fails, as if its answer were lost on the way.

    Raises
    ------
    MetadataError
        If an operation or a kind of fault is not known.

    Examples
    --------
    >>> import errno
    >>> Fault(errno.ENOSPC, on="set", keys="^c/", skip=2).times
    1
    """

    what: int | Literal["short", "conflict", "crash"] | Callable[[str, str], object]
    on: str | Sequence[str] = ()
    keys: str = ""
    skip: int = 0
    times: int | None = 1
    done: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.what, int) or callable(self.what) or self.what in ("short", "conflict", "crash")):
            raise MetadataError(f"{self.what!r:.60} is not a fault", field="what")
        unknown = {*self._names()} - _OPERATIONS
        if unknown:
            raise MetadataError(f"{min(unknown)!r:.60} is not an operation of a store", field="on")

    def _names(self) -> Sequence[str]:
        names = (self.on,) if isinstance(self.on, str) else self.on
        return [_FORMER_NAMES.get(name, name) for name in names]

    def concerns(self, operation: str, key: str, conditional: bool) -> bool:
        """Return whether this fault may hit an operation."""
        if (self.what == "short" and operation != "get") or (self.what == "conflict" and not conditional):
            return False
        names = self._names()
        return (not names or operation in names) and re.search(self.keys, key) is not None


class FaultyStore(WrappingStore):
    """A wrapper around another store, which passes all operations on and lets some of them fail.

    Generations, ranges and locks are those of the other store. ``delete_prefix`` deletes one key after the other, so
    that it can be interrupted, too. The kernel treats a wrapped `LocalStore` like any other store, so both executors
    meet the faults. Operations are counted in the order in which they occur, which is always the same only with one
    thread (``tegula.config.configure(threads=1)``). A copy that was pickled has no faults.

    Parameters
    ----------
    store : Store
        The store that keeps the values.
    *faults : Fault
        Faults to arm at once; see `arm`.

    Attributes
    ----------
    store : Store
        The store that keeps the values; it keeps working after a crash.
    struck : int
        How many operations have failed since the faults were armed.

    Examples
    --------
    >>> import errno, tegula
    >>> store = FaultyStore(tegula.MemoryStore())
    >>> a = tegula.create_array(store, shape=6, chunks=2, dtype="u1", fill_value=9)
    >>> store.arm(Fault(errno.ENOSPC, on="set", skip=1))
    >>> with tegula.config.configure(threads=1):  # doctest: +ELLIPSIS
    ...     a[:] = 1
    Traceback (most recent call last):
    ...
    tegula.errors.StoreError: can't set: No space left on device (path ..., key 'c/1')
    >>> a[:], store.struck
    (array([1, 1, 9, 9, 9, 9], dtype=uint8), 1)
    """

    def __init__(self, store: Store, *faults: Fault) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self.arm(*faults)

    def arm(self, *faults: Fault) -> None:
        """Replace the faults by others, and restart the count; after a crash the store works again.

        Examples
        --------
        >>> import errno
        >>> from tegula.stores import MemoryStore
        >>> store = FaultyStore(MemoryStore({"a": b"1"}), Fault(errno.EIO, on="get"))
        >>> store.arm()
        >>> store.get("a")
        b'1'
        """
        with self._lock:
            self._armed = [(fault, itertools.count().__next__) for fault in faults]
            self._dead = False
            self.struck = 0

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Do what the other store does, or fail; see `Store.get`."""
        fault = self._next("get", key)
        if fault is not None and fault.what == "short":
            value, generation = self.store.get(key, byte_range, with_generation=True)
            value = None if value is None else value[: len(value) // 2]
            return (value, generation) if with_generation else value
        if with_generation:
            return self._act(fault, "get", key, lambda: self.store.get(key, byte_range, with_generation=True))
        return self._act(fault, "get", key, lambda: self.store.get(key, byte_range))

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Do what the other store does, or fail; see `Store.set`."""
        fault = self._next("set", key, if_generation is not None)
        return self._act(fault, "set", key, lambda: self.store.set(key, value, if_generation=if_generation))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Do what the other store does, or fail; see `Store.delete`."""
        fault = self._next("delete", key, if_generation is not None)
        self._act(fault, "delete", key, lambda: self.store.delete(key, if_generation=if_generation))

    def delete_prefix(self, prefix: str) -> None:
        """Delete key after key, then anything else that the other store has there; see `Store.delete_prefix`."""
        if not self.read_only:
            Store.delete_prefix(self, prefix)
        self.act("delete_prefix", prefix, lambda: self.store.delete_prefix(prefix))

    def flush(self) -> None:
        """Do what the other store does; after a crash nothing happens."""
        if not self._dead:
            self.store.flush()

    def close(self) -> None:
        """Close the other store; after a crash it stays open."""
        if not self._dead:
            self.store.close()

    def act(self, operation: str, key: str, work: Callable[[], T]) -> T:
        """Carry out an operation of the other store, or fail."""
        return self._act(self._next(operation, key), operation, key, work)

    def _next(self, operation: str, key: str, conditional: bool = False) -> Fault | None:
        """Return the fault that this operation meets, if any, and count it."""
        with self._lock:
            if self._dead:
                raise Crash("the process has died")
            for fault, count in self._armed if isinstance(key, str) else []:
                if fault.concerns(operation, key, conditional):
                    number = count() - fault.skip
                    if number >= 0 and (fault.times is None or number < fault.times):
                        self.struck += not fault.done
                        return fault
        return None

    def _act(self, fault: Fault | None, operation: str, key: str, work: Callable[[], T]) -> T:
        """Carry out an operation with its fault before or after it."""
        if fault is None:
            return work()
        if not fault.done:
            self._strike(fault, operation, key)
            return work()
        found = work()  # if it fails, the fault does not strike
        with self._lock:
            self.struck += 1
        self._strike(fault, operation, key)
        return found

    def _strike(self, fault: Fault, operation: str, key: str) -> None:
        if callable(fault.what):
            fault.what(operation, key)
        elif fault.what == "crash":
            self._dead = True
            raise Crash(f"the process dies at {operation} {key!r}")
        elif fault.what == "conflict":
            raise ConflictError("the value has changed since it was read", key=key)
        elif isinstance(fault.what, int):
            cause = OSError(fault.what, os.strerror(fault.what))
            raise StoreError(f"can't {operation}: {cause.strerror}", key=key) from cause
