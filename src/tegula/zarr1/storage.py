"""``zarr.storage``: a directory as a mapping, and how an array is put into a store."""

from tegula.zarr1.creating import init_store
from tegula.zarr1.stores import DirectoryStore

__all__ = ["DirectoryStore", "init_store"]
