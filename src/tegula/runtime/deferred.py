"""Modules that are imported at their first use, so that a program starts fast.

Modules import directly only what is needed to open and read an array. For everything else they use a package that
imports its names at their first use (`on_first_use`), or a module that is declared by `Later`. Each such import is
written twice: by name, and below ``TYPE_CHECKING`` for type checkers, readers, and the test of allowed imports.
"""

from __future__ import annotations

import _thread
import atexit
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

__all__ = ["Later", "after_fork", "at_exit", "before_threads", "load", "matcher", "on_first_use"]

_Call = TypeVar("_Call", bound=Callable[[], object])
_last_calls: Final[dict[int, Callable[[], object]]] = {}
_left: Final[dict[str, None]] = {}  # modules that threads may need
_SLOW: Final = frozenset(("ml_dtypes",))
"""Modules that take so long to import that `load` leaves them out; a fork waits while a thread imports one."""
_importing: Final = _thread.RLock()  # held while a slow module is imported, and by each fork


def on_first_use(
    package: str,
    homes: Mapping[str, str],
    *,
    rooms: str = "",
    apart: str = "",
    foreign: str = "",
    in_threads: bool = False,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` (PEP 562) of a package.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to str
        For each module of the package the names that it defines, separated by blanks.
    rooms : str
        Modules that are themselves attributes of the package.
    apart : str
        Modules that programs must import themselves; the error for a missing one says so.
    foreign : str
        The module whose ``FOREIGN_NAMES`` has the equivalents of other libraries' names, which errors tell.
    in_threads : bool
        Whether threads of the pools may use the names; then `load` imports the modules.

    Examples
    --------
    >>> get, names = on_first_use("json", {"decoder": "JSONDecodeError"})
    >>> get("JSONDecodeError").__name__, "JSONDecodeError" in names()
    ('JSONDecodeError', True)
    """
    places = {name: module for module, names in homes.items() for name in names.split()}
    inner = frozenset(rooms.split())
    if in_threads:
        before_threads([f"{package}.{module}" for module in homes])

    def __getattr__(name: str) -> Any:  # noqa: N807 - what modules call it
        if name in inner:
            return import_module(f"{package}.{name}")
        module = places.get(name)
        if module is None:
            hint = f"; import {package}.{name} to use it" if name in apart.split() else ""
            is_module = os.path.isdir(os.path.join(sys.modules[package].__path__[0], name))  # to be imported next
            if foreign and not name.startswith("_") and not is_module:
                ours = import_module(f"{package}.{foreign}").FOREIGN_NAMES.get(name)
                hint = hint if ours is None else f"; in tegula that is {ours}"
            # the interpreter adds a similar name of the object
            text = f"module {package!r} has no attribute {name!r}{hint}"
            raise AttributeError(text, name=name, obj=sys.modules[package])
        value = getattr(import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - as above
        return sorted(vars(sys.modules[package]).get("__all__", places))

    return __getattr__, __dir__


class Later:
    """A module that is imported when one of its attributes is first used.

    Parameters
    ----------
    name : str
        Full name of the module, which `load` imports, too, unless it takes long (`_SLOW`).

    Examples
    --------
    >>> Later("json").loads("[1]")
    [1]
    """

    __slots__ = ("__dict__", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        if name not in _SLOW:
            before_threads([name])

    def __getattr__(self, name: str) -> Any:
        if self._name in _SLOW:
            with _importing:
                module = import_module(self._name)
        else:
            module = import_module(self._name)  # waits if another thread is about to import it
        self.__dict__ = module.__dict__  # from now on the attributes are those of the module
        return getattr(module, name)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )


def after_fork(function: _Call) -> _Call:
    """Call a function in each child that is forked from this process, and return it; usable as a decorator."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=function)
    return function


def at_exit(step: int, function: Callable[[], object]) -> None:
    """Call a function when the interpreter exits, even if its module is first imported by an exit handler.

    All steps come after the exit handlers that a program registers after it has imported tegula. Step 0 ends the calls
    of finalisers, step 1 threads, step 2 commits archives, whose changes are then complete, and step 3 ends the event
    loop, which a commit may need.
    """
    _last_calls[step] = function


def _exit(step: int) -> None:
    if step in _last_calls:
        _last_calls[step]()


for _step in (3, 2, 1, 0):  # the last one registered is the first one called
    atexit.register(_exit, _step)


def before_threads(modules: Sequence[str]) -> None:
    """Let `load` import modules that threads may need."""
    _left.update(dict.fromkeys(modules))


def load() -> None:
    """Import all modules that threads may need, before the first thread is started.

    A process may fork while one of its threads imports a module; the child could then never import that module.
    """
    while _left:
        for module in [*_left]:
            import_module(module)
            _left.pop(module, None)


def matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the ``fullmatch`` of a regular expression, which is compiled when it is first called.

    Examples
    --------
    >>> matcher("[0-9]+")("12") is not None
    True
    """
    found: list[Callable[[str], re.Match[str] | None]] = []

    def fullmatch(text: str) -> re.Match[str] | None:
        if not found:
            found.append(re.compile(pattern).fullmatch)
        return found[0](text)

    return fullmatch
