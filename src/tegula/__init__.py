"""tegula: chunked, compressed N-dimensional arrays of the Zarr family, through one NumPy-like interface.

>>> import numpy as np
>>> import tegula
>>> a = tegula.create_array(tegula.MemoryStore(), shape=(1000, 1000), dtype="i4", chunks=(100, 100))
>>> a[:2, :5] = np.arange(10).reshape(2, 5)
>>> a[1, 3:6]
array([8, 9, 0], dtype=int32)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tegula import config, jobs
    from tegula.arrays.array import Array
    from tegula.engine import Future
    from tegula.errors import (
        AlreadyExistsError,
        CodecError,
        ConflictError,
        MetadataError,
        NotFoundError,
        ReadOnlyError,
        SelectionError,
        StoreError,
        TegulaError,
        UnsupportedError,
    )
    from tegula.hierarchy.copying import CopyReport, delete, move
    from tegula.hierarchy.creators import create_array, create_group, create_table
    from tegula.hierarchy.group import Group
    from tegula.hierarchy.numpy_names import (
        array,
        empty,
        empty_like,
        full,
        full_like,
        ones,
        ones_like,
        zeros,
        zeros_like,
    )
    from tegula.hierarchy.opening import open, open_array, open_group, open_table
    from tegula.hierarchy.saving import load, save
    from tegula.jobs.checking.check import CheckReport, Finding, check
    from tegula.jobs.comparing.compare import compare
    from tegula.jobs.comparing.comparison import Comparison, Difference
    from tegula.jobs.converting.convert import ConvertReport, convert
    from tegula.jobs.copying import copy
    from tegula.jobs.measuring.statistics import Statistics, statistics
    from tegula.stores import FsspecStore, LocalStore, MappingStore, MemoryStore, ObjectStore, Store, ZipStore
    from tegula.stores.cached import CachedStore
    from tegula.tables.table import Table
    from tegula.targets.stores import store_of

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Array",
    "CachedStore",
    "CheckReport",
    "CodecError",
    "Comparison",
    "ConflictError",
    "ConvertReport",
    "CopyReport",
    "Difference",
    "Finding",
    "FsspecStore",
    "Future",
    "Group",
    "LocalStore",
    "MappingStore",
    "MemoryStore",
    "MetadataError",
    "NotFoundError",
    "ObjectStore",
    "ReadOnlyError",
    "SelectionError",
    "Statistics",
    "Store",
    "StoreError",
    "Table",
    "TegulaError",
    "UnsupportedError",
    "ZipStore",
    "__version__",
    "array",
    "check",
    "compare",
    "config",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "create_table",
    "delete",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "jobs",
    "load",
    "move",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_group",
    "open_table",
    "save",
    "statistics",
    "store_of",
    "zeros",
    "zeros_like",
]

_ERRORS = (
    "AlreadyExistsError", "CodecError", "ConflictError", "MetadataError", "NotFoundError", "ReadOnlyError",
    "SelectionError", "StoreError", "TegulaError", "UnsupportedError",
)  # fmt: skip
_NUMPY_NAMES = (
    "array", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
)  # fmt: skip
_HOMES = {
    "Array": "arrays.array", "Future": "engine", "Group": "hierarchy.group", "Table": "tables.table",
    "CachedStore": "stores.cached",
    **dict.fromkeys(("CheckReport", "Finding", "check"), "jobs.checking.check"),
    **dict.fromkeys(("Comparison", "Difference"), "jobs.comparing.comparison"),
    "compare": "jobs.comparing.compare",
    **dict.fromkeys(("ConvertReport", "convert"), "jobs.converting.convert"),
    **dict.fromkeys(("Statistics", "statistics"), "jobs.measuring.statistics"),
    **dict.fromkeys(("CopyReport", "delete", "move"), "hierarchy.copying"),
    "copy": "jobs.copying",
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(("create_array", "create_group", "create_table"), "hierarchy.creators"),
    **dict.fromkeys(_NUMPY_NAMES, "hierarchy.numpy_names"),
    **dict.fromkeys(("open", "open_array", "open_group", "open_table"), "hierarchy.opening"),
    **dict.fromkeys(("load", "save"), "hierarchy.saving"),
    "store_of": "targets.stores",
    **dict.fromkeys(
        ("FsspecStore", "LocalStore", "MappingStore", "MemoryStore", "ObjectStore", "Store", "ZipStore"), "stores"
    ),
}  # fmt: skip
_ROOMS = frozenset({"codecs", "config", "engine", "errors", "formats", "indexing", "jobs", "metadata", "stores"})

if not TYPE_CHECKING:  # a checker would take every name for one of ours

    def __getattr__(name):
        """Import what a name stands for when it is first used, so that importing tegula costs next to nothing."""
        if name in _ROOMS:
            return _import_module(f"tegula.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'tegula' has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f"tegula.{_HOMES[name]}"), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
