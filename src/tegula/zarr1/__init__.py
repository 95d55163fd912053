"""The interface of zarr 1.x: replace ``import zarr`` with ``from tegula import zarr1 as zarr``.

New arrays are in the format Zarr v1, with the documents that zarr 1.1 writes. Arrays in all other formats of tegula can
be opened, too.

>>> from tegula import zarr1 as zarr
>>> z = zarr.zeros((20, 20), chunks=(10, 10), dtype="i4", compression="zlib")
>>> z[:10, :10] = 42
>>> z
tegula.zarr1.Array((20, 20), int32, chunks=(10, 10), order=C)
  compression: zlib; compression_opts: 1
  nbytes: 1.6 KiB; nbytes_stored: 247 B; ratio: 6.5; initialized: 1/4
  store: builtins.dict

Intended differences from zarr 1.1:

- Selections are those of NumPy: they may have steps, index arrays and masks.
- Elements that a resize cuts off do not come back when the array grows again. Appending along a negative axis works.
  Elements that were never written are zero if the fill value is ``None``, instead of random memory.
- Concurrent writes of threads, and of processes through a `DirectoryStore`, are never lost, with or without a
  synchronizer. Readers only see complete values.
- Opening creates and deletes nothing unless the mode asks for it. If ``meta`` is lost, the chunks stay.
- Errors have the classes of tegula and of zarr 1.1 at once: ``except ValueError`` keeps working.

The modules of zarr 1.1 exist too: ``tegula.zarr1.storage``, ``tegula.zarr1.blosc`` and so on.
"""

# as in zarr 1.1, importing the package imports its modules
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
