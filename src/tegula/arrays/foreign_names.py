"""Names of other libraries, with their equivalents in tegula, which errors name."""

from __future__ import annotations

from typing import Final

__all__ = ["ATTRIBUTES", "FOREIGN_NAMES", "KEYWORDS", "KEYWORDS_OF"]

_FORMAT = 'format="zarr2" or "zarr3"'
KEYWORDS: Final = {
    # zarr-python
    "store": "the first argument, or target= by name",
    "zarr_format": _FORMAT,
    "zarr_version": _FORMAT,
    "compressor": "codecs=, such as codecs=\"zstd\", or codecs=None for none",
    "compressors": "codecs=, such as codecs=\"zstd\", or codecs=None for none",
    "filters": "codecs=[filter, ..., compressor]",
    "serializer": "codecs=[..., serializer, compressor]",
    "object_codec": "codecs=[object_codec, compressor], or dtype=str",
    "dimension_separator": 'chunk_key_encoding="/" or "."',
    "chunk_shape": "chunks=",
    "shard_shape": "shards=",
    "name": "path=",
    "attrs": "attributes=",
    "config": "order= and write_empty_chunks=",
    "chunk_store": "leave it out: documents and chunks are in one store",
    "synchronizer": "leave it out: writers that share a chunk never lose anything",
    "cache_metadata": "leave it out: call refresh() to see changes by other processes",
    "cache_attrs": "leave it out: call refresh() to see changes by other processes",
    "storage_options": "storage_options= of the function that takes the URL, such as tegula.open",
    "use_consolidated": "consolidated=, of tegula.open_group",
    "read_only": 'mode="r", of tegula.open',
    "mode": "the mode of tegula.open; functions that create take overwrite=True to replace a node",
    "data": "data=, of tegula.create_array and Group.create_array",
    "meta_array": "leave it out: arrays are read as those of NumPy",
    "write_data": "leave it out: data= is always written",
    "partial_decompress": "leave it out: partial reads are always used",
    "if_exists": "overwrite=True",
    "dest": "target=",
    "recurse": "walk(), for all depths",
    "use_consolidated_for_children": "consolidated=, of tegula.open_group",
    "level": "max_depth=",
    # h5py
    "compression": "codecs=, such as codecs=\"gzip\"",
    "compression_opts": 'codecs=, such as codecs={"name": "gzip", "configuration": {"level": 5}}',
    "shuffle": 'codecs=, such as codecs=["numcodecs.shuffle", "gzip"]',
    "fletcher32": "checksum=True",
    "fillvalue": "fill_value=",
    "maxshape": "leave it out: every array can be resized",
    "track_order": "leave it out: members are sorted by name",
    "driver": "leave it out: pass a store",
    # TensorStore, N5 and bcolz
    "kvstore": "the first argument: a path, a URL or a store",
    "create": 'mode="a" or "w-", of tegula.open',
    "delete_existing": "overwrite=True",
    "rootdir": "the first argument",
    "cparams": "codecs=",
    "dflt": "fill_value=",
    "chunklen": "chunks=",
    "expectedlen": "chunks=; tegula.create_table has expectedlen=",
}  # fmt: skip
"""The equivalents of other libraries' keywords."""

KEYWORDS_OF: Final = {
    "members": {"max_depth": "walk(), for all depths"},
    "load": dict.fromkeys(["zarr_format", "zarr_version"], "leave it out: the format is detected"),
    "require_group": {"overwrite": "create_group(name, overwrite=True)"},
    "zeros": {"fill_value": "tegula.full(shape, fill_value)"},
    "ones": {"fill_value": "tegula.full(shape, fill_value)"},
    "empty": {"fill_value": "tegula.full(shape, fill_value)"},
    "zeros_like": {"fill_value": "tegula.full_like(a, fill_value)"},
    "ones_like": {"fill_value": "tegula.full_like(a, fill_value)"},
}
"""Equivalents that differ from function to function."""

ATTRIBUTES: Final = {
    # zarr-python and h5py
    "create": "create_array",
    "info_items": "info.items()",
    "empty_like": "tegula.empty_like(a, store=g.store, path=...)",
    "zeros_like": "tegula.zeros_like(a, store=g.store, path=...)",
    "ones_like": "tegula.ones_like(a, store=g.store, path=...)",
    "full_like": "tegula.full_like(a, fill_value, store=g.store, path=...)",
    "create_dataset_like": "tegula.empty_like(a, store=g.store, path=...)",
    "create_hierarchy": "create_group and create_array, whose names may be paths",
    "parent": "tegula.open(node.store, path=...)",
    "file": "store",
    "filename": "store.url",
    "store_path": "store and path",
    "chunk_store": "store",
    "mode": "read_only",
    "digest": "tegula.checksum(a)",
    "hexdigest": "tegula.checksum(a)",
    "serializer": "metadata.codecs",
    "codecs": "metadata.codecs",
    "fletcher32": "metadata.codecs",
    "shuffle": "filters",
    "write_empty_chunks": "tegula.config.configure(write_empty_chunks=...)",
    "dimension_separator": "metadata.keys.separator",
    "read_chunk_sizes": "chunks",
    "write_chunk_sizes": "shards",
    "fields": "a[name]",
    "zarr_format": "format",
    "maxshape": "resize",
    "compression": "compressor",
    "compression_opts": "compressor",
    "cbytes": "nbytes_stored()",
    "initialized": "nchunks_initialized()",
    "dims": "dimension_names",
    "chunk_shape": "chunks",
}
"""The equivalents of other libraries' attributes of arrays and groups."""

FOREIGN_NAMES: Final = {
    # zarr-python and h5py
    "File": "open or open_group",
    "Dataset": "Array",
    "create_hierarchy": "create_group and create_array, whose names may be paths",
    "open_like": "empty_like(a, store=target)",
    "copy_all": "copy",
    "copy_store": "copy",
    "DirectoryStore": "LocalStore, or the path",
    "NestedDirectoryStore": "LocalStore, or the path",
    "TempStore": "MemoryStore",
    "DictStore": "MemoryStore, or the dict",
    "KVStore": "MappingStore, or the mapping",
    "FSStore": "FsspecStore, or the URL",
    "LRUStoreCache": "config.configure(cache_bytes=...), or CachedStore",
    "ThreadSynchronizer": "not needed: writers that share a chunk never lose anything",
    "ProcessSynchronizer": "not needed: writers that share a chunk never lose anything",
    "storage": "tegula.stores",
    "set_format": "the keyword format=",
    "special_dtype": "dtype=str or bytes",
    "string_dtype": "dtype=str",
    "print_debug_info": "the program `tegula doctor`",
    # bcolz
    "carray": "array, or tegula.bcolz.carray",
    "ctable": "create_table, or tegula.bcolz.ctable",
    "fromiter": "Array.append, block by block, or tegula.bcolz.fromiter",
}
"""The equivalents of other libraries' functions and classes."""
