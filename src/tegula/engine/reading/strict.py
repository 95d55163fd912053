"""Reading with the setting ``missing_chunks="error"``: chunks that are not stored are an error, not fill values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.engine.concurrency.pool import gather
from tegula.engine.stored.array import Executor, StoredArray
from tegula.engine.stored.visiting import batches
from tegula.errors import NotFoundError
from tegula.indexing import Plan

__all__ = ["Strict"]

_BATCH: Final = 2**10  # chunks that are looked up together


class Strict:
    """An executor that looks up the chunks of a read before another executor reads them.

    Parameters
    ----------
    executor : Executor
        The other executor.
    """

    empty: Callable[[tuple[int, ...], np.dtype[Any]], npt.NDArray[Any]]

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.write, self.set = executor.write, executor.set
        self.create_chunks, self.extend_chunks = executor.create_chunks, executor.extend_chunks
        self.empty, self.load = executor.empty, executor.load
        self.may_hold_chunks, self.delete_chunks = executor.may_hold_chunks, executor.delete_chunks

    def get(self, array: StoredArray, selection: Any) -> Any:
        """Return ``None``: the caller makes the plan."""
        return None

    def read(self, array: StoredArray, plan: Plan, out: npt.NDArray[Any]) -> None:
        """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements; see `reference.read`.

        Raises
        ------
        NotFoundError
            If a chunk is not stored. Of a shard, inner chunks may be missing.
        """
        if array.metadata.keys.template(array.metadata.ndim):
            for batch in batches((coords for coords, *_ in plan), _BATCH):
                keys = [array.key(coords) for coords in batch]
                there = gather(array.store.exists, keys, array.store.concurrency)
                if not all(there):
                    key = keys[there.index(False)]
                    where = f"{array.store.url}/{array.prefix}".rstrip("/")
                    raise NotFoundError("the chunk is not stored", path=where, key=key)
        self._executor.read(array, plan, out)
