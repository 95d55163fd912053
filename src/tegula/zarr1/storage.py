"""``zarr.storage``: a directory as a mapping, and the initialization of stores."""

from tegula.zarr1.new_arrays import init_store
from tegula.zarr1.stores import DirectoryStore

__all__ = ["DirectoryStore", "init_store"]
