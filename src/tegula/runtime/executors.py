"""Choice of the executor that carries out plans: the compiled kernel, if it was built, or the reference executor.

Both give the same results. If the kernel is missing, the logger ``tegula`` reports it once per process. It is a log
record and not a Python warning, so that programs which turn warnings into errors keep working.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tegula.errors import UnsupportedError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import logging
else:
    logging = Later("logging")

__all__ = ["EXECUTORS", "choose", "kernel", "load_error", "notify", "release", "subscribe"]

EXECUTORS: Final = ("auto", "kernel", "reference")
"""The values of the setting ``executor``."""

_MODULE: Final = "tegula._kernel"
_listeners: Final[list[Callable[[str, int], None]]] = []


@cache
def _load() -> ModuleType | str:
    """Return the kernel's module, or the reason why it can't be used."""
    try:
        return import_module(_MODULE)
    except ModuleNotFoundError as error:
        return "was not built" if error.name == _MODULE else f"can't be loaded: {error}"
    except ImportError as error:
        return f"can't be loaded: {error}"


def kernel() -> ModuleType | None:
    """Return the kernel's module, or ``None`` if it was not built or can't be loaded.

    Examples
    --------
    >>> from tegula.runtime import executors
    >>> (executors.kernel() is None) == (executors.load_error() is not None)
    True
    """
    found = _load()
    return None if isinstance(found, str) else found


def release() -> None:
    """Release the memory that the kernel, if it is in use, keeps for the results of later reads."""
    if (found := sys.modules.get(_MODULE)) is not None:
        found.trim()


def load_error() -> str | None:
    """Return why the kernel can't be used, as a predicate such as "was not built"; ``None`` if it can be used."""
    found = _load()
    return found if isinstance(found, str) else None


def choose(executor: str) -> ModuleType | None:
    """Return the kernel's module if the setting selects the kernel, ``None`` if it selects the reference executor.

    Parameters
    ----------
    executor : {"auto", "kernel", "reference"}
        The setting.

    Raises
    ------
    UnsupportedError
        If the setting is ``"kernel"`` and the kernel can't be loaded.

    Examples
    --------
    >>> from tegula.runtime import executors
    >>> executors.choose("reference") is None
    True
    """
    if executor == "reference":
        return None
    found = _load()
    if not isinstance(found, str):
        return found
    if executor == "kernel":
        raise UnsupportedError(f"tegula's compiled kernel {found}", field="executor")
    _warn_missing()
    return None


def subscribe(listener: Callable[[str, int], None]) -> None:
    """Call `listener` with ``executor`` and ``cache_bytes`` each time settings change, until the process ends."""
    _listeners.append(listener)


def notify(setting: str, cache_bytes: int, listeners: Sequence[Callable[[str, int], None]] = _listeners) -> None:
    """Pass the new values of the settings to all listeners."""
    for listener in listeners:
        listener(setting, cache_bytes)


@cache  # once per process
def _warn_missing() -> None:
    logging.getLogger("tegula").warning(
        "tegula's compiled kernel %s: arrays are read and written by the reference executor, which gives the same "
        "results but is slower. `tegula doctor` reports details; set TEGULA_EXECUTOR=reference to silence this.",
        load_error(),
    )
