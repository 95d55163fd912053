"""tegula: chunked, compressed N-dimensional arrays of the Zarr family, through one NumPy-like interface.

>>> import numpy as np
>>> import tegula
>>> a = tegula.create_array(tegula.MemoryStore(), shape=(1000, 1000), dtype="i4", chunks=(100, 100))
>>> a[:2, :5] = np.arange(10).reshape(2, 5)
>>> a[1, 3:6]
array([8, 9, 0], dtype=int32)
"""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use as _on_first_use
from tegula.runtime.version import __version__

if TYPE_CHECKING:
    from tegula import config, jobs
    from tegula.arrays.array import Array
    from tegula.engine.reading.futures import Future
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
    from tegula.hierarchy.aliases import (
        consolidate_metadata as consolidate_metadata,
    )
    from tegula.hierarchy.aliases import (
        create as create,
    )
    from tegula.hierarchy.aliases import (
        from_array as from_array,
    )
    from tegula.hierarchy.aliases import (
        group as group,
    )
    from tegula.hierarchy.aliases import (
        open_consolidated as open_consolidated,
    )
    from tegula.hierarchy.aliases import (
        save_array as save_array,
    )
    from tegula.hierarchy.aliases import (
        save_group as save_group,
    )
    from tegula.hierarchy.aliases import (
        tree as tree,
    )
    from tegula.hierarchy.copying import CopyReport, delete, move
    from tegula.hierarchy.creators import create_array, create_group, create_table
    from tegula.hierarchy.group import Group
    from tegula.hierarchy.joining import concat, concat_datasets, stack
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
    from tegula.jobs.checksum import Checksum, checksum
    from tegula.jobs.comparing.compare import Comparison, Difference, compare
    from tegula.jobs.converting.convert import ConvertReport, convert
    from tegula.jobs.copying import copy
    from tegula.jobs.downsampling.downsample import Pyramid, downsample
    from tegula.jobs.statistics.statistics import Statistics, statistics
    from tegula.jobs.syncing.sync import SyncedArray, SyncReport, diff, sync
    from tegula.runtime.loading import load_all
    from tegula.server.running import serve
    from tegula.stores import FsspecStore, LocalStore, MappingStore, MemoryStore, ObjectStore, Store, ZipStore
    from tegula.stores.cache.store import CachedStore
    from tegula.stores.targets.opening import store_of
    from tegula.tables.following.follower import follow
    from tegula.tables.table import Table
    from tegula.views.documents import save_view
    from tegula.views.view import View


__all__ = [
    "AlreadyExistsError",
    "Array",
    "CachedStore",
    "CheckReport",
    "Checksum",
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
    "Pyramid",
    "ReadOnlyError",
    "SelectionError",
    "Statistics",
    "Store",
    "StoreError",
    "SyncReport",
    "SyncedArray",
    "Table",
    "TegulaError",
    "UnsupportedError",
    "View",
    "ZipStore",
    "__version__",
    "array",
    "check",
    "checksum",
    "compare",
    "concat",
    "concat_datasets",
    "config",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "create_table",
    "delete",
    "diff",
    "downsample",
    "empty",
    "empty_like",
    "follow",
    "full",
    "full_like",
    "jobs",
    "load",
    "load_all",
    "move",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_group",
    "open_table",
    "save",
    "save_view",
    "serve",
    "stack",
    "statistics",
    "store_of",
    "sync",
    "zeros",
    "zeros_like",
]

_HOMES = {
    "arrays.array": "Array",
    "engine.reading.futures": "Future",
    "errors": (
        "AlreadyExistsError CodecError ConflictError MetadataError NotFoundError ReadOnlyError SelectionError"
        " StoreError TegulaError UnsupportedError"
    ),
    # names of zarr-python, which are not in `__all__`
    "hierarchy.aliases": ("consolidate_metadata create from_array group open_consolidated save_array save_group tree"),
    "hierarchy.copying": "CopyReport delete move",
    "hierarchy.creators": "create_array create_group create_table",
    "hierarchy.group": "Group",
    "hierarchy.joining": "concat concat_datasets stack",
    "hierarchy.numpy_names": "array empty empty_like full full_like ones ones_like zeros zeros_like",
    "hierarchy.opening": "open open_array open_group open_table",
    "hierarchy.saving": "load save",
    "jobs.checking.check": "CheckReport Finding check",
    "jobs.comparing.compare": "Comparison Difference compare",
    "jobs.converting.convert": "ConvertReport convert",
    "jobs.copying": "copy",
    "jobs.downsampling.downsample": "Pyramid downsample",
    "jobs.syncing.sync": "SyncReport SyncedArray diff sync",
    "jobs.statistics.statistics": "Statistics statistics",
    "jobs.checksum": "Checksum checksum",
    "runtime.loading": "load_all",
    "server.running": "serve",
    "stores": "FsspecStore LocalStore MappingStore MemoryStore ObjectStore Store ZipStore",
    "stores.cache.store": "CachedStore",
    "tables.following.follower": "follow",
    "tables.table": "Table",
    "stores.targets.opening": "store_of",
    "views.documents": "save_view",
    "views.view": "View",
}
_ROOMS = "arrays codecs config engine errors formats hierarchy indexing jobs metadata stores views"
_APART = "arrow bcolz dask references tensorstore testing xarray zarr zarr1"

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = _on_first_use(__name__, _HOMES, rooms=_ROOMS, apart=_APART, foreign="arrays.foreign_names")
