"""Stores of zarr-python 3 as stores of tegula."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

from tegula.errors import StoreError, TegulaError
from tegula.stores.arguments import ByteRange, check_key, check_prefix, is_key
from tegula.stores.checked_ranges import CheckedRanges, Limits
from tegula.stores.coroutines import run
from tegula.stores.fsspec.file_systems import MISSING, is_absence
from tegula.stores.secrets import redacted
from tegula.stores.single_writer import KeyLocks, PrefixedLocks, locks_of

__all__ = ["ZarrPythonStore"]

_T = TypeVar("_T")
_CONCURRENCY: Final = 10  # as in zarr-python itself


class ZarrPythonStore(CheckedRanges):
    """Any store of zarr-python 3, called through its own methods, which are coroutines.

    Conditional writes hold only between the threads of this process (`single_writer`). `tegula.store_of` uses this
    class for stores that have no counterpart in tegula, such as wrappers and stores of other packages.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store.
    path : str
        The path in it that keys are relative to.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`, as they do if `store` is read-only.

    Raises
    ------
    StoreError
        If `path` is not valid.
    """

    concurrency = _CONCURRENCY

    def __init__(self, store: Any, path: str = "", *, read_only: bool = False) -> None:
        self.store = store
        self.path = check_key(path) if path else ""
        self._prefix = f"{path}/" if path else ""
        self._abc: Any = import_module("zarr.abc.store")
        self._buffers: Any = import_module("zarr.core.buffer").default_buffer_prototype()
        self.listable = bool(store.supports_listing)
        cannot = store.read_only or not (store.supports_writes and store.supports_deletes)
        values = getattr(store, "_store_dict", store)  # stores in memory may share their values
        locks = PrefixedLocks(locks_of(values, _some_locks), self._prefix)
        super().__init__(read_only=read_only or cannot, locks=locks)

    # --- values

    def fetch(self, key: str, limits: Limits) -> bytes | Exception:
        """Read a value or a part of it; see `CheckedRanges`."""
        try:
            return run(self._fetch(key, limits))
        except Exception as error:  # noqa: BLE001 - stores raise anything, and `answer` tells what it means
            return error

    async def _fetch(self, key: str, limits: Limits) -> bytes:
        start, stop = limits
        wanted = None
        if start is not None and stop is not None:
            wanted = self._abc.RangeByteRequest(start, stop)
        elif start is not None:
            wanted = self._abc.SuffixByteRequest(-start) if start < 0 else self._abc.OffsetByteRequest(start)
        await self._open()
        buffer = await self.store.get(self._prefix + key, self._buffers, wanted)
        if buffer is None:
            raise FileNotFoundError(key)
        value: bytes = buffer.to_bytes()
        return value

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order; several are requested at once."""
        wanted = [(check_key(key), byte_range, self.limits(byte_range)) for key, byte_range in requests]

        async def fetch_all() -> list[Any]:
            slots = asyncio.Semaphore(_CONCURRENCY)

            async def fetch(key: str, limits: Limits) -> bytes:
                async with slots:
                    return await self._fetch(key, limits)

            asked = (fetch(key, limits) for key, _, limits in wanted if limits is not None)
            return await asyncio.gather(*asked, return_exceptions=True)

        answers = iter(run(fetch_all()))
        return [
            self.read_sized(key, byte_range) if limits is None else self.answer(key, byte_range, next(answers))
            for key, byte_range, limits in wanted
        ]

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        try:
            return int(self._run("look up", check_key(key), self.store.getsize(self._prefix + key)))
        except MISSING:
            return None

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        return bool(self._run("look up", check_key(key), self.store.exists(self._prefix + key)))

    def write(self, key: str, value: bytes) -> None:
        """Store a value; whether this takes one step depends on the store."""
        self._run("write", key, self.store.set(self._prefix + key, self._buffers.buffer.from_bytes(value)))

    def remove(self, key: str) -> None:
        """Remove a key if it exists."""
        try:
            self._run("delete", key, self.store.delete(self._prefix + key))
        except MISSING:
            return

    # --- listings

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        inner = self._prefix + check_prefix(prefix)

        async def listed() -> list[str]:
            return [name async for name in self.store.list_prefix(inner)]

        cut = len(self._prefix)
        names = [name for name in self._run("list", prefix, listed()) if name.startswith(inner)]
        return (name[cut:] for name in names if is_key(name[cut:]))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        inner = self._prefix + check_prefix(prefix)

        async def is_prefix(name: str) -> bool:
            async for entries in self.store.list_prefix(f"{name}/"):
                if entries.startswith(f"{name}/"):
                    return True
            return False

        async def listed() -> list[tuple[str, bool, bool]]:
            names = {inner + name.rstrip("/") async for name in self.store.list_dir(inner)}
            keys = await asyncio.gather(*map(self.store.exists, names))
            return [*zip(names, keys, await asyncio.gather(*map(is_prefix, names)))]

        cut = len(self._prefix)
        entries = [each for each in self._run("list", prefix, listed()) if is_key(each[0][cut:])]
        keys = sorted(name[cut:] for name, stored, _ in entries if stored)
        return keys, sorted(f"{name[cut:]}/" for name, _, filled in entries if filled)

    @property
    def url(self) -> str:
        """A name for messages; it can't be opened."""
        name = redacted(str(self.store))
        name = name if "://" in name else f"zarr-python://{type(self.store).__name__}-{id(self.store):x}"
        return f"{name.rstrip('/')}/{self.path}".rstrip("/")

    # --- how it is done

    async def _open(self) -> None:
        if not self.store._is_open:
            await self.store._open()

    def _run(self, action: str, key: str, coroutine: Coroutine[Any, Any, _T]) -> _T:
        async def opened() -> _T:
            await self._open()
            return await coroutine

        try:
            return run(opened())
        except TegulaError:
            raise
        except Exception as error:
            if is_absence(error):
                raise
            raise self.failure(action, key, error) from None

    def failure(self, action: str, key: str, error: Exception) -> StoreError:
        """Return the error for what the store raised, without secrets."""
        text = redacted(f"{type(error).__name__}: {error}")
        return StoreError(f"{self!r} failed to {action}: {text}".removesuffix(": "), key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZarrPythonStore):
            return NotImplemented
        return self.store is other.store and self.path == other.path and self.read_only == other.read_only

    def __hash__(self) -> int:
        return hash((id(self.store), self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), read_only=self.read_only), (self.store, self.path)


def _some_locks() -> KeyLocks:
    return KeyLocks(64)
