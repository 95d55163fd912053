"""Attributes as zarr 1.x has them: JSON under one key of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tegula import attributes
from tegula.engine import back_off
from tegula.errors import ConflictError
from tegula.formats.documents import Style, dump, load
from tegula.stores import MappingStore
from tegula.zarr1.errors import ReadOnlyError
from tegula.zarr1.stores import as_store
from tegula.zarr1.synchronizers import ProcessSynchronizer

__all__ = ["Attributes", "SynchronizedAttributes", "alone"]

_STYLE = Style(indent=4, sort_keys=True)


class Attributes(attributes.Attributes):
    """The attributes that are stored under a key, which is made if it is missing.

    Each change is one of the stored attributes: of several writers none loses what another one has changed.

    Parameters
    ----------
    store : MutableMapping or tegula store
        Where they are.
    key : str
        Under which key.
    readonly : bool
        Whether changing them raises an error.

    Raises
    ------
    MetadataError
        If what is stored there is no JSON object, when it is read.

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
        kept = as_store(store)
        if not readonly and not kept.exists(key):
            kept.set(key, dump({}, key, _STYLE))

        def look() -> Mapping[str, Any]:
            raw = kept.get(key)
            return {} if raw is None else load(raw, key)

        super().__init__(look, self._change)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.key, self.readonly)

    def _change(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        if self.readonly:
            raise ReadOnlyError("the attributes were opened for reading", key=self.key)
        kept = as_store(self.store)
        for attempt in range(10_000):
            raw, generation = kept.get(self.key, with_generation=True)
            new = dump(dict(change({} if raw is None else load(raw, self.key))), self.key, _STYLE)
            try:
                kept.set(self.key, new, if_generation=generation)
            except ConflictError:
                back_off(attempt)
                continue
            return
        raise ConflictError("the attributes kept changing under the update", key=self.key)


class SynchronizedAttributes(Attributes):
    """Attributes with a synchronizer.

    Parameters
    ----------
    store, key, readonly
        As for `Attributes`.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer
        What keeps writers apart where the store can't.

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
        with alone(self.synchronizer, as_store(self.store)):
            super()._change(change)


def alone(synchronizer: Any, store: Any) -> AbstractContextManager[Any]:
    """Keep other processes out where the store itself can't."""
    if isinstance(synchronizer, ProcessSynchronizer) and isinstance(store, MappingStore):
        return synchronizer.lock()
    return nullcontext()
