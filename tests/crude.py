"""A crude file system, for the tests of stores and arrays once more: as on Windows, macOS and network drives.

``TEGULA_CRUDE`` says how crude it is. With ``case`` the file system ignores case, so names are looked up by the kernel,
too. With ``plain`` the kernel only reads local files, by their paths, and leaves all else to Python. With ``all`` both,
and directories have no locks, so files are locked in their stead, and a locked value can't be replaced.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from tegula.runtime import system
from tegula.stores.local import kernel
from tegula.stores.local.root import Root

CRUDE = os.environ.get("TEGULA_CRUDE", "")
if CRUDE not in ("", "case", "plain", "all"):
    raise ValueError(f"TEGULA_CRUDE must be case, plain or all, not {CRUDE!r}")
IGNORES_CASE = CRUDE in ("case", "all")


def apply() -> None:
    """Make the file system crude for the rest of this process."""
    if CRUDE in ("plain", "all"):
        system.KERNEL_STORES = False  # type: ignore[misc]
        kernel.is_allowed = False
        kernel.kernel_in_use = lambda **_: None  # type: ignore[assignment]
    if IGNORES_CASE:
        Root.ignores_case = property(lambda _: True, lambda *_: None)  # type: ignore[assignment]
    if CRUDE == "all":
        _lock_files_only()


def _lock_files_only() -> None:
    lock: Any = system.try_lock

    def lock_files_only(fd: int) -> bool:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EBADF, "as NFS does")
        return bool(lock(fd))

    system.try_lock = lock_files_only  # type: ignore[assignment]
    system.LOCKS_VALUES = False  # type: ignore[misc]
