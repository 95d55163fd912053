"""A store of tegula as a store of zarr-python 3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype

from tegula import stores
from tegula.engine.concurrency.pool import awaited, gather
from tegula.errors import ConflictError
from tegula.stores import ABSENT
from tegula.stores.arguments import ByteRange
from tegula.stores.capabilities import Ranged
from tegula.zarr3_view.drafts import DraftsInside
from tegula.zarr3_view.view import Zarr3View

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import BufferPrototype

__all__ = ["TegulaStore"]

T = TypeVar("T")


class TegulaStore(Store):
    """Any store of tegula, with the interface of zarr-python's stores; made by `tegula.zarr.store`.

    Values are read and written by tegula, with its guarantees: a value is replaced in one step, ``set_if_not_exists``
    decides races between processes, and a failed read is never taken for a missing chunk. Operations on stores that
    are not in memory run in threads.

    Parameters
    ----------
    store : tegula.Store
        The store.
    path : str
        Path in it that keys are relative to.
    read_only : bool
        Whether to refuse writing.

    Attributes
    ----------
    store : tegula.Store
        The store.
    path : str
        Path in it that keys are relative to.

    Examples
    --------
    >>> import asyncio, tegula
    >>> from zarr.core.buffer import default_buffer_prototype
    >>> inner = tegula.MemoryStore({"t/c/0": b"abc"})
    >>> value = asyncio.run(TegulaStore(inner, "t").get("c/0", default_buffer_prototype()))
    >>> value.to_bytes()
    b'abc'
    """

    supports_writes = True
    supports_deletes = True
    supports_partial_writes = False

    def __init__(self, store: stores.Store, path: str = "", *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only or store.read_only)
        self.store = store
        self.path = path
        self.drafts = DraftsInside(store, path, looks=not isinstance(store, Zarr3View))
        self._prefix = f"{path}/" if path else ""
        self._is_quick = store.in_memory and not store.is_remote

    @property
    def supports_listing(self) -> bool:
        """Whether keys can be listed; on a web server they can't."""
        return self.store.listable

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Whether consolidated metadata can be written: only if the node is stored in Zarr v3."""
        return not isinstance(self.store, Zarr3View)

    @property
    def _supports_sync_io(self) -> bool:
        """Whether zarr-python should call the synchronous methods: not if each of them has to wait."""
        return not self.store.is_remote

    def with_read_only(self, read_only: bool = False) -> TegulaStore:
        """Return the store for reading only, or also for writing if that is possible."""
        return _reopen(type(self), self.store, self.path, read_only, self.drafts.known)

    async def _run(self, work: Callable[[], T]) -> T:
        """Call a function that uses the store: here if the store is in memory, otherwise in a thread."""
        if self._is_quick:
            return work()
        return await awaited(work, self.store.concurrency)

    # --- values

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return a value or a part of it, ``None`` if there is none."""
        prototype = prototype or default_buffer_prototype()
        raw = self._value(self._prefix + key, _range(byte_range))
        return None if raw is None else prototype.buffer.from_bytes(raw)

    def _value(self, key: str, byte_range: ByteRange | None) -> bytes | None:
        """Return a value, given its key in the store."""
        store, place = self.drafts.place(key)
        raw: bytes | None = store.get(place, byte_range)
        if store is self.store and self.drafts.enter(key, raw):
            return self._value(key, byte_range)
        return raw

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return a value or a part of it, ``None`` if there is none."""
        await self._ensure_open()
        return await self._run(lambda: self.get_sync(key, prototype=prototype, byte_range=byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return several values or parts of values, which are read together from a remote store."""
        await self._ensure_open()
        wanted = [(self._prefix + key, _range(byte_range)) for key, byte_range in key_ranges]
        apart = any(self.drafts.place(key)[0] is not self.store for key, _ in wanted)
        found = await self._run(
            lambda: [self._value(*request) for request in wanted] if apart else self.store.get_many(wanted)
        )
        return [None if raw is None else prototype.buffer.from_bytes(raw) for raw in found]

    async def get_ranges(
        self, key: str, byte_ranges: Sequence[ByteRequest | None], *, prototype: BufferPrototype, **limits: Any
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Yield parts of one value, with their positions in `byte_ranges`; of one generation if possible."""
        spans = [(item.start, item.end - item.start) for item in byte_ranges if isinstance(item, RangeByteRequest)]
        store, place = self.drafts.place(self._prefix + key)
        if not isinstance(store, Ranged) or len(spans) != len(byte_ranges):
            base: Any = super()  # zarr-python 3.1 has no such method, and does not call it
            async for batch in base.get_ranges(key, byte_ranges, prototype=prototype, **limits):
                yield batch
            return
        await self._ensure_open()
        found, _ = await self._run(lambda: store.get_ranges(place, spans))
        if found is None:
            raise BaseExceptionGroup("chunk read failed", [FileNotFoundError(key)])
        yield [(number, prototype.buffer.from_bytes(raw)) for number, raw in enumerate(found)]

    async def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        await self._ensure_open()
        store, place = self.drafts.place(self._prefix + key)
        return await self._run(lambda: store.exists(place))

    async def getsize(self, key: str) -> int:
        """Return the length of a value in bytes."""
        await self._ensure_open()
        store, place = self.drafts.place(self._prefix + key)
        size = await self._run(lambda: store.size(place))
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the bytes of all values whose key starts with `prefix` and ``/``."""
        await self._ensure_open()
        store, below = self.drafts.place(self._listing(prefix))

        def add() -> int:
            sizes = gather(store.size, [*store.list_prefix(below)], store.concurrency)
            return sum(size or 0 for size in sizes)

        return await self._run(add)

    # --- writing

    def set_sync(self, key: str, value: Buffer) -> None:
        """Store a value, in one step."""
        self._check_writable()
        store, place = self.drafts.place(self._prefix + key)
        store.set(place, _raw(value))

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value, in one step."""
        await self._ensure_open()
        self._check_writable()
        _raw(value)  # a wrong type is refused before a thread starts
        await self._run(lambda: self.set_sync(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value unless there is one; of several concurrent writers one succeeds."""
        await self._ensure_open()
        self._check_writable()
        raw = _raw(value)
        store, place = self.drafts.place(self._prefix + key)

        def create() -> None:
            try:
                store.set(place, raw, if_generation=ABSENT)
            except ConflictError:
                return

        await self._run(create)

    def delete_sync(self, key: str) -> None:
        """Remove a value if there is one."""
        self._check_writable()
        store, place = self.drafts.place(self._prefix + key)
        store.delete(place)

    async def delete(self, key: str) -> None:
        """Remove a value if there is one."""
        await self._ensure_open()
        self._check_writable()
        await self._run(lambda: self.delete_sync(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove all values whose key starts with `prefix` and ``/``."""
        await self._ensure_open()
        self._check_writable()
        store, below = self.drafts.place(self._listing(prefix))
        await self._run(lambda: store.delete_prefix(below))

    # --- listings

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys that start with `prefix`, which may end anywhere."""
        await self._ensure_open()
        inner = self._prefix + prefix.lstrip("/")  # zarr-python calls the root "/", too
        above = inner[: inner.rfind("/") + 1]
        store, place = self.drafts.place(above)
        outer = above[: len(above) - len(place)]
        for key in await self._run(lambda: [*store.list_prefix(place)]):
            if (outer + key).startswith(inner):
                yield (outer + key)[len(self._prefix) :]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below `prefix`: of keys, and of prefixes that have keys below them."""
        await self._ensure_open()
        store, below = self.drafts.place(self._listing(prefix))
        keys, prefixes = await self._run(lambda: store.list_dir(below))
        for name in dict.fromkeys([*keys, *(item[:-1] for item in prefixes)]):
            yield name[len(below) :]

    def _listing(self, prefix: str) -> str:
        """Return the prefix in the store for one of zarr-python, which may lack the slash at its end."""
        inner = (self._prefix + prefix).strip("/")
        return f"{inner}/" if inner else ""

    # --- equality of stores

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TegulaStore):
            return NotImplemented
        if (self.path, self.read_only) != (other.path, other.read_only):
            return False
        return self.store == other.store or self.store.identity == other.store.identity

    def __hash__(self) -> int:
        return hash((self.path, self.read_only))

    def __str__(self) -> str:
        return f"{self.store.url}/{self.path}".rstrip("/")

    def __repr__(self) -> str:
        return f"TegulaStore({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.store, self.path, self.read_only, self.drafts.known)


def _reopen(
    kind: type[TegulaStore], store: stores.Store, path: str, read_only: bool, known: Sequence[stores.Store]
) -> TegulaStore:
    made = kind(store, path, read_only=read_only)
    for draft in known:
        made.drafts.add(draft)
    return made


def _range(request: ByteRequest | None) -> ByteRange | None:
    """Return the byte range of tegula for one of zarr-python."""
    if request is None:
        return None
    if isinstance(request, RangeByteRequest):
        return request.start, max(0, request.end - request.start)
    if isinstance(request, OffsetByteRequest):
        return request.offset, None
    if isinstance(request, SuffixByteRequest):
        return (-request.suffix, None) if request.suffix else (0, 0)
    raise TypeError(f"Unexpected byte_range, got {request!r:.80}")


def _raw(value: Any) -> Any:
    """Return the bytes of a buffer of zarr-python."""
    if not isinstance(value, Buffer):
        raise TypeError(f"a value must be a Buffer of zarr-python, not {type(value).__name__}")
    return value.as_numpy_array()
