"""The documents of a node together with their generations, to see later whether they have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tegula import config
from tegula.engine.concurrency.pool import gather
from tegula.errors import StoreError
from tegula.formats import find_format
from tegula.stores import Generation, Store

__all__ = ["States", "states_of"]

States: TypeAlias = dict[str, tuple[bytes | None, Generation | None]]


def states_of(store: Store, path: str, keys: Sequence[str] | str) -> States:
    """Return documents under a node's path and their generations as they are now, by key relative to it, in one wave.

    A format's name stands for the keys of all its documents. Where a file stands in the place of a document's
    directory, there is neither.
    """
    prefix, limit = f"{path}/" if path else "", config.current().max_input_bytes
    keys = find_format(keys).keys if isinstance(keys, str) else keys

    def read(key: str) -> tuple[bytes | None, Generation | None]:
        try:
            found: tuple[bytes | None, Generation] = store.get(prefix + key, (0, limit + 1), with_generation=True)
            return found
        except StoreError as error:
            if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
                raise
            return None, None

    return dict(zip(keys, gather(read, keys, store.concurrency)))
