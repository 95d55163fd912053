"""tegula: chunked, compressed N-dimensional arrays of the Zarr family, through one NumPy-like interface.

>>> import numpy as np
>>> import tegula
>>> a = tegula.create_array(tegula.MemoryStore(), shape=(1000, 1000), dtype="i4", chunks=(100, 100))
>>> a[:2, :5] = np.arange(10).reshape(2, 5)
>>> a[1, 3:6]
array([8, 9, 0], dtype=int32)
"""

from tegula import config
from tegula.array import Array
from tegula.convert import ConvertReport, convert
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
from tegula.group import Group
from tegula.opening import (
    create_array,
    create_group,
    create_table,
    load,
    open,
    open_array,
    open_group,
    open_table,
    save,
    store_of,
)
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.table import Table

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Array",
    "CodecError",
    "ConflictError",
    "ConvertReport",
    "Future",
    "Group",
    "LocalStore",
    "MappingStore",
    "MemoryStore",
    "MetadataError",
    "NotFoundError",
    "ReadOnlyError",
    "SelectionError",
    "Store",
    "StoreError",
    "Table",
    "TegulaError",
    "UnsupportedError",
    "ZipStore",
    "__version__",
    "config",
    "convert",
    "create_array",
    "create_group",
    "create_table",
    "load",
    "open",
    "open_array",
    "open_group",
    "open_table",
    "save",
    "store_of",
]
