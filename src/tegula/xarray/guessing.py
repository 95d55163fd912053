"""The targets that the engine claims if no engine is named: those that the engine ``zarr`` can't open."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, Final

__all__ = ["can_open"]

_OURS: Final = frozenset({"tegula.arrays.array", "tegula.hierarchy.group", "tegula.tables.table", "tegula.views.view"})
_V1: Final = ("meta", "attrs")  # the documents of an array of Zarr v1
_BCOLZ: Final = (os.path.join("meta", "storage"), "__rootdirs__")  # an array has the first, a table the second
_N5: Final = "attributes.json"


def can_open(target: Any) -> bool:
    """Return whether a target is a node, view or store of tegula, bcolz, N5, Zarr v1, or Zarr without zarr-python.

    Looks at names and, in a directory of this machine, at a few documents.

    Examples
    --------
    >>> import tegula
    >>> can_open(tegula.MemoryStore()), can_open("prices.bcolz"), can_open("s3://bucket/x.zarr.zip"), can_open("x.nc")
    (True, True, True, False)
    """
    if not isinstance(target, (str, os.PathLike)):
        return any(
            kind.__module__ in _OURS or kind.__module__.startswith("tegula.stores.") for kind in type(target).__mro__
        )
    path = os.fspath(target).rstrip("/")
    if not isinstance(path, str):
        return False
    if path.endswith((".bcolz", ".n5", ".zarr.zip", ".ozx")):
        return True
    if os.path.isdir(path) and _is_legacy(path):
        return True
    return path.endswith(".zarr") and find_spec("zarr") is None


def _is_legacy(path: str) -> bool:
    """Return whether a directory is an array of Zarr v1, an array or table of bcolz, or a node of N5."""
    if all(os.path.isfile(os.path.join(path, name)) for name in _V1):
        return True
    return any(os.path.isfile(os.path.join(path, name)) for name in (*_BCOLZ, _N5))
