"""Stores: where keys and values are kept. They know nothing of arrays.

`Store` is the interface, and `tegula.stores.capabilities` names the operations that only some stores have.

===================  ================================================================================
`MemoryStore`        values in memory
`MappingStore`       any ``MutableMapping`` of keys to bytes
`LocalStore`         files below a directory
`ZipStore`           members of one zip archive
`ObjectStore`        objects of a bucket: S3, Google Cloud Storage, Azure, or what a web server offers
`SingleWriterStore`  base class for stores of your own over plain storage
===================  ================================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tegula.stores.interface import ABSENT, ByteRange, Generation, Store
from tegula.stores.local import LocalStore
from tegula.stores.mapping import MappingStore
from tegula.stores.memory import MemoryStore
from tegula.stores.single_writer import SingleWriterStore
from tegula.stores.zip import ZipStore

if TYPE_CHECKING:
    from tegula.stores.object_store import ObjectStore

__all__ = [
    "ABSENT",
    "ByteRange",
    "Generation",
    "LocalStore",
    "MappingStore",
    "MemoryStore",
    "ObjectStore",
    "SingleWriterStore",
    "Store",
    "ZipStore",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import what only some programs use when it is first asked for."""
        if name != "ObjectStore":
            raise AttributeError(f"module 'tegula.stores' has no attribute {name!r}")
        value = globals()[name] = import_module("tegula.stores.object_store").ObjectStore
        return value
