"""The interface of zarr 1.x over tegula, for programs written against it.

``from tegula import zarr1 as zarr`` is the one line to change. Arrays are created in Zarr v1, with the documents that
zarr 1.1 wrote; arrays of the other formats that tegula knows can be opened, too.

>>> from tegula import zarr1 as zarr
>>> z = zarr.zeros((20, 20), chunks=(10, 10), dtype="i4", compression="zlib")
>>> z[:10, :10] = 42
>>> z
tegula.zarr1.Array((20, 20), int32, chunks=(10, 10), order=C)
  compression: zlib; compression_opts: 1
  nbytes: 1.6 KiB; nbytes_stored: 247 B; ratio: 6.5; initialized: 1/4
  store: builtins.dict

What is different from zarr 1.1, on purpose:

- Selections are NumPy's: steps, index arrays and masks work.
- What a resize cuts off never comes back, appending to a negative axis appends, and elements that were never written
  are zero where the fill value is ``None``, instead of what happened to be in memory.
- Writes of threads, and of processes through a `DirectoryStore`, lose nothing of each other, with or without a
  synchronizer; only whole values are ever seen.
- Opening never creates or deletes anything, unless the mode says so; chunks are not thrown away where ``meta`` is lost.
- Errors are tegula's, and those that zarr 1.1 raised as well: ``except ValueError`` goes on catching them.

The modules of zarr 1.1 are there, too: ``tegula.zarr1.storage``, ``tegula.zarr1.blosc`` and so on.
"""

# as in zarr 1.1, the modules come with the package
from tegula.zarr1 import attrs, blosc, compressors, errors, meta, util, version  # noqa: F401
from tegula.zarr1.core import Array
from tegula.zarr1.creation import (
    array,
    create,
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    open,
    open_like,
    zeros,
    zeros_like,
)
from tegula.zarr1.storage import DirectoryStore, init_store
from tegula.zarr1.sync import ProcessSynchronizer, SynchronizedArray, ThreadSynchronizer

__version__ = version.version

__all__ = [
    "Array",
    "DirectoryStore",
    "ProcessSynchronizer",
    "SynchronizedArray",
    "ThreadSynchronizer",
    "array",
    "create",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "init_store",
    "ones",
    "ones_like",
    "open",
    "open_like",
    "zeros",
    "zeros_like",
]
