"""Which executor carries out plans: the compiled kernel, where it was built, or the reference executor in Python.

Both give the same results. That the kernel is missing is said once in a process, as a warning of the logger ``tegula``:
it is no Python warning, because nothing is wrong that should end a program which makes errors of those.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from tegula.errors import UnsupportedError

__all__ = ["EXECUTORS", "announce", "choose", "follow", "kernel", "obstacle"]

EXECUTORS: Final = ("auto", "kernel", "reference")
"""The values of the setting."""

_MODULE: Final = "tegula._kernel"
_log: Final = logging.getLogger("tegula")
_followers: Final[list[Callable[[str], None]]] = []


@cache
def _load() -> ModuleType | str:
    """Return the kernel's module, or what keeps it from being used."""
    try:
        return import_module(_MODULE)
    except ModuleNotFoundError as error:
        return "was not built" if error.name == _MODULE else f"can't be loaded: {error}"
    except ImportError as error:
        return f"can't be loaded: {error}"


def kernel() -> ModuleType | None:
    """Return the kernel's module; ``None`` if there is none, or none that can be loaded.

    Examples
    --------
    >>> from tegula import executors
    >>> (executors.kernel() is None) == (executors.obstacle() is not None)
    True
    """
    found = _load()
    return None if isinstance(found, str) else found


def obstacle() -> str | None:
    """Return what keeps the kernel from being used, as the end of a sentence about it; ``None`` if nothing does."""
    found = _load()
    return found if isinstance(found, str) else None


def choose(executor: str) -> ModuleType | None:
    """Return the kernel's module if the kernel is to be used, ``None`` for the reference executor.

    Parameters
    ----------
    executor : {"auto", "kernel", "reference"}
        The setting.

    Raises
    ------
    UnsupportedError
        If the setting asks for a kernel that is not there.

    Examples
    --------
    >>> from tegula import executors
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
    _say_missing()
    return None


def follow(follower: Callable[[str], None]) -> None:
    """Call `follower` with the setting each time it is put into force, until the process ends."""
    _followers.append(follower)


def announce(setting: str, followers: Sequence[Callable[[str], None]] = _followers) -> None:
    """Tell all followers which setting is in force now."""
    for follower in followers:
        follower(setting)


@cache
def _say_missing() -> None:
    _log.warning(
        "tegula's compiled kernel %s: arrays are read and written by the reference executor, which gives the same "
        "results and takes longer. `tegula doctor` tells more; TEGULA_EXECUTOR=reference makes this the choice.",
        obstacle(),
    )
