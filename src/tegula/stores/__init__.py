"""Stores: mappings of keys to values, which know nothing about arrays.

`Store` is the interface, and `tegula.stores.capabilities` has the operations that only some stores have.

===================  ================================================================================
`MemoryStore`        values in memory
`MappingStore`       any ``MutableMapping`` of keys to bytes
`LocalStore`         files below a directory
`ZipStore`           members of one zip archive
`ObjectStore`        objects of a bucket on S3, Google Cloud Storage or Azure, or files of a web server
`FsspecStore`        files of any file system of fsspec
`SingleWriterStore`  base class for your own stores over plain storage
===================  ================================================================================
"""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.stores.arguments import ABSENT, ByteRange, Generation
    from tegula.stores.fsspec.store import FsspecStore
    from tegula.stores.interface import Store
    from tegula.stores.local.store import LocalStore
    from tegula.stores.mapping import MappingStore
    from tegula.stores.memory import MemoryStore
    from tegula.stores.objects.store import ObjectStore
    from tegula.stores.single_writer import SingleWriterStore
    from tegula.stores.zip.store import ZipStore

__all__ = [
    "ABSENT",
    "ByteRange",
    "FsspecStore",
    "Generation",
    "LocalStore",
    "MappingStore",
    "MemoryStore",
    "ObjectStore",
    "SingleWriterStore",
    "Store",
    "ZipStore",
]

_HOMES = {
    "arguments": "ABSENT ByteRange Generation",
    "fsspec.store": "FsspecStore",
    "interface": "Store",
    "local.store": "LocalStore",
    "mapping": "MappingStore",
    "memory": "MemoryStore",
    "objects.store": "ObjectStore",
    "single_writer": "SingleWriterStore",
    "zip.store": "ZipStore",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
