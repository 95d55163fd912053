"""The kernel for local files: whether it is in use, and what it looks up for many prefixes at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from tegula import config
from tegula.errors import StoreError
from tegula.runtime import executors
from tegula.runtime.deferred import Later
from tegula.runtime.system import files

if TYPE_CHECKING:
    import threading
else:
    threading = Later("threading")

__all__ = ["kernel_in_use", "located", "with_one_of"]

_modules = sys.modules
is_allowed = config.current().executor != "reference"
loaded: Any = None
"""The kernel once `kernel_in_use` has found it; if it `is_allowed`, a write need not call that."""
_TYPE, _REGULAR = 0o170000, 0o100000


def _follow(executor: str, *_: object) -> None:
    """Follow the setting ``executor``."""
    global is_allowed
    is_allowed = executor != "reference"


executors.subscribe(_follow)


def kernel_in_use(*, loads: bool = True) -> Any | None:
    """Return the kernel if it is in use; only the main thread loads it, since other threads import nothing."""
    global loaded
    if not is_allowed:
        return None
    kernel = _modules.get("tegula._kernel")
    if kernel is None and loads and threading.current_thread() is threading.main_thread():
        kernel = executors.kernel()
    if not hasattr(kernel, "put_file"):  # it is still being loaded
        return None
    loaded = kernel
    return kernel


def located(store: Any, name: str) -> str | None:
    """Return the path of a directory of a `LocalStore` whose files the kernel reads, ending in a separator.

    ``None`` if nothing is there.

    Raises
    ------
    StoreError, OSError
        If it can't be used, or its files are not to be opened now: reading by the store says why, or waits.
    """
    root = store._root
    path: str | None = root.directory_now(name)
    if files is not os and files.is_wanted():
        raise BlockingIOError(f"another thread waits until nobody has a file open, perhaps in {path}")
    if path is None and root.ignores_case is not False and root.twin(name) is not None:
        raise StoreError(f"{name!r} differs from a stored name only in its spelling")
    return path


def with_one_of(
    names: Sequence[str], children: list[tuple[str, os.DirEntry[str]]], exists: Callable[[str], bool], *, is_exact: bool
) -> Iterator[str]:
    """Yield the prefixes under which one of `names` has a value; the kernel looks up many plain files at once.

    Parameters
    ----------
    names : sequence of str
        Keys relative to each prefix.
    children : list of (str, os.DirEntry)
        The prefixes, all in one directory, and their directories.
    exists : callable
        Says whether a key has a value that is not simply a file.
    is_exact : bool
        Whether the file system is known to distinguish all names.
    """
    kernel = kernel_in_use() if len(children) > 1 and is_exact else None
    directory, threads = os.path.dirname(children[0][1].path), config.current().threads
    there: set[str] = set()
    left = children
    for name in names:
        paths = [f"{entry.name}/{name}" for _, entry in left]
        answers = repeat(None) if kernel is None else kernel.find_files(directory, paths, threads)
        for (child, entry), answer in zip(left, answers):
            is_link = entry.is_symlink()
            known = answer if answer is not None and not is_link else _has(entry, name, is_exact and not is_link)
            if exists(child + name) if known is None else known:
                there.add(child)
        left = [each for each in left if each[0] not in there]
    yield from (child for child, _ in children if child in there)


def _has(entry: os.DirEntry[str], name: str, is_exact: bool) -> bool | None:
    """Return whether a file is in a directory; ``None`` if that does not say whether its key has a value."""
    try:
        mode = os.lstat(f"{entry.path}{os.sep}{name}").st_mode
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # looking into it says why not
    except (OSError, ValueError):
        return None
    return True if mode & _TYPE == _REGULAR and is_exact else None
