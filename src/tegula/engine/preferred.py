"""The executors that arrays refer to, whose functions are replaced when a setting changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.stored import Box, Executor, StoredArray
from tegula.indexing import Plan

__all__ = ["FALLBACK", "PREFERRED", "Preferred"]

Array = npt.NDArray[Any]


class Preferred:
    """An executor whose functions are those of another one, which the settings ask for.

    Arrays refer to this object, so that no operation has to look the settings up. `Executor` describes the functions.
    """

    __slots__ = ("delete_chunks", "empty", "get", "load", "may_hold_chunks", "read", "write")

    get: Callable[[StoredArray, Any], Any]
    read: Callable[[StoredArray, Plan, Array], None]
    write: Callable[[StoredArray, Plan, Array], None]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array]
    load: Callable[[StoredArray], None]
    may_hold_chunks: Callable[[StoredArray, Box], bool]
    delete_chunks: Callable[[StoredArray, Box, Callable[[], bool]], bool]

    def follow(self, executor: Executor) -> None:
        """Take over the functions of an executor."""
        for name in self.__slots__:
            setattr(self, name, getattr(executor, name))


PREFERRED = Preferred()
"""The executor that the setting asks for."""

FALLBACK = Preferred()
"""The reference executor, for arrays that the kernel can't read."""
