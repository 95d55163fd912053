"""The attributes of zarr 1.x: a JSON object under one key of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tegula.arrays import attributes
from tegula.engine import back_off
from tegula.errors import ConflictError
from tegula.formats.documents import load
from tegula.formats.json_encoding import dump
from tegula.formats.keys import Style
from tegula.zarr1.errors import ReadOnlyError
from tegula.zarr1.stores import as_store
from tegula.zarr1.synchronizers import ProcessSynchronizer

__all__ = ["Attributes", "SynchronizedAttributes", "write_lock"]

_STYLE = Style(indent=4, sort_keys=True)


class Attributes(attributes.Attributes):
    """The attributes under a key of a store. A missing key is created, unless `readonly` is true.

    Each change is applied to the attributes that are stored at that moment, so that no concurrent change is lost.

    Parameters
    ----------
    store : MutableMapping or tegula store
        The store.
    key : str
        The key of the attributes.
    readonly : bool
        Refuse all changes.

    Raises
    ------
    MetadataError
        If the stored value is not a JSON object; raised when the attributes are read.

    Examples
    --------
    >>> store = {}
    >>> attrs = Attributes(store)
    >>> attrs["unit"] = "K"
    >>> print(store["attrs"].decode())
    {
        "unit": "K"
    }
    """

    def __init__(self, store: Any, key: str = "attrs", readonly: bool = False) -> None:
        self.store = store
        self.key = key
        self.readonly = readonly
        opened = as_store(store)
        if not readonly and not opened.exists(key):
            opened.set(key, dump({}, key, _STYLE))

        def read() -> Mapping[str, Any]:
            raw = opened.get(key)
            return {} if raw is None else load(raw, key)

        super().__init__(self, read, self._change)

    @property
    def location(self) -> str:
        """The URL of the store, for errors."""
        return as_store(self.store).url

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.key, self.readonly)

    def _change(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        if self.readonly:
            raise ReadOnlyError("the attributes are read-only", key=self.key)
        opened = as_store(self.store)
        # write only if nothing was written since the attributes were read; otherwise read again
        for attempt in range(10_000):
            raw, generation = opened.get(self.key, with_generation=True)
            new = dump(dict(change({} if raw is None else load(raw, self.key))), self.key, _STYLE)
            try:
                opened.set(self.key, new, if_generation=generation)
            except ConflictError:
                back_off(attempt)
                continue
            return
        raise ConflictError("other processes kept changing the attributes", key=self.key)


class SynchronizedAttributes(Attributes):
    """Attributes with a synchronizer.

    Parameters
    ----------
    store, key, readonly
        As for `Attributes`.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer
        Lets one process at a time write to a store without locks of its own.

    Examples
    --------
    >>> from tegula.zarr1 import ThreadSynchronizer
    >>> attrs = SynchronizedAttributes({}, ThreadSynchronizer())
    >>> attrs.update(unit="K")
    >>> attrs.asdict()
    {'unit': 'K'}
    """

    def __init__(self, store: Any, synchronizer: Any, key: str = "attrs", readonly: bool = False) -> None:
        super().__init__(store, key, readonly)
        self.synchronizer = synchronizer

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.synchronizer, self.key, self.readonly)

    def _change(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        with write_lock(self.synchronizer, as_store(self.store)):
            super()._change(change)


def write_lock(synchronizer: Any, store: Any) -> AbstractContextManager[Any]:
    """Return a lock that excludes other processes if the store has none, else a context manager without effect."""
    if isinstance(synchronizer, ProcessSynchronizer) and store.single_writer:
        return synchronizer.lock()
    return nullcontext()
