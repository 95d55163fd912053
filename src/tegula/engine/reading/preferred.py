"""The executors that arrays refer to, whose functions are replaced when a setting changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tegula import config
from tegula.runtime import executors
from tegula.runtime.deferred import before_threads

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tegula.engine.stored.array import Box, Executor, NewRows, StoredArray
    from tegula.indexing import Plan

    Array = npt.NDArray[Any]

__all__ = ["FALLBACK", "PREFERRED", "REFERENCE", "Preferred"]

_CACHE: Final = "tegula.engine.caches.chunk_cache"
_FUNCTIONS: Final = (
    "create_chunks",
    "delete_chunks",
    "empty",
    "extend_chunks",
    "get",
    "load",
    "may_hold_chunks",
    "read",
    "set",
    "write",
)
_made: Final[dict[tuple[str, bool], Executor]] = {}
before_threads([f"tegula.engine.reading.{name}" for name in ("kernel", "reference", "cached", "settling")])


class Preferred:
    """An executor that has the functions of another executor, chosen by the settings and imported when it is used.

    Arrays refer to this object, so no operation has to look up the settings. `Executor` describes the functions.

    Parameters
    ----------
    choice : (str, bool)
        The module of the other executor, and whether reads go through the cache of decoded chunks.
    """

    __slots__ = ("_choice", *_FUNCTIONS)

    get: Callable[[StoredArray, Any], Any]
    set: Callable[[StoredArray, Any, Any], bool]
    read: Callable[[StoredArray, Plan, Array], None]
    write: Callable[[StoredArray, Plan, Array], None]
    create_chunks: Callable[[StoredArray, Plan, Array], int | None]
    extend_chunks: Callable[[Sequence[NewRows], Callable[[], bool]], list[int | None]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array]
    load: Callable[[StoredArray], None]
    may_hold_chunks: Callable[[StoredArray, Box], bool]
    delete_chunks: Callable[[StoredArray, Box, Callable[[], bool]], bool]

    def __init__(self, choice: tuple[str, bool]) -> None:
        self.follow(choice)

    def follow(self, choice: tuple[str, bool]) -> None:
        """Take the functions of another executor, now or at the first call."""
        self._choice = choice
        known = _made.get(choice)
        for name in _FUNCTIONS:
            setattr(self, name, partial(self._first_call, name) if known is None else getattr(known, name))

    def _first_call(self, name: str, *args: Any) -> Any:
        choice = self._choice
        if choice not in _made:
            module, cached = choice
            executor: Any = import_module(f"tegula.engine.reading.{module}")
            _made[choice] = import_module("tegula.engine.reading.cached").Cached(executor) if cached else executor
        self.follow(self._choice)
        return getattr(_made[choice], name)(*args)


PREFERRED: Final = Preferred(("reference", False))
"""The executor that the setting chooses."""

FALLBACK: Final = Preferred(("reference", False))
"""The reference executor, through the cache if there is one, for arrays that the kernel can't read."""

REFERENCE: Final = Preferred(("reference", False))
"""The reference executor itself, without the cache."""


def _follow(
    setting: str,
    cache_bytes: int,
    preferred: Preferred = PREFERRED,
    fallback: Preferred = FALLBACK,
    modules: dict[str, ModuleType] = sys.modules,
) -> None:
    """Let arrays use the executor that the setting chooses, through the cache of decoded chunks if there is one.

    The names that this function needs are bound early, since a setting may even change while the interpreter exits.
    """
    preferred.follow(("reference" if setting == "reference" else "kernel", cache_bytes > 0))
    fallback.follow(("reference", cache_bytes > 0))
    # last: a write that began without the cache sees that there is one before a read puts chunks into it
    if cache_bytes or _CACHE in modules:
        (modules.get(_CACHE) or import_module(_CACHE)).CHUNKS.limit(cache_bytes)


_follow(config.current().executor, config.current().cache_bytes)
executors.subscribe(_follow)
