"""Stores: where keys and values are kept. They know nothing of arrays; see `Store` for the interface.

=================  ==================================================================================
`MemoryStore`      values in memory
`MappingStore`     any ``MutableMapping`` of keys to bytes
`LocalStore`       files below a directory
`ZipStore`         members of one zip archive
=================  ==================================================================================
"""

from tegula.stores.interface import ABSENT, ByteRange, Generation, Store
from tegula.stores.local import LocalStore
from tegula.stores.mapping import MappingStore
from tegula.stores.memory import MemoryStore
from tegula.stores.zip import ZipStore

__all__ = ["ABSENT", "ByteRange", "Generation", "LocalStore", "MappingStore", "MemoryStore", "Store", "ZipStore"]
