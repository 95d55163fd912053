"""Names of other libraries: errors for unknown keywords and attributes name the equivalent in tegula."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from importlib import import_module
from typing import Any, Final, ParamSpec, TypeVar

from tegula.errors import MetadataError

__all__ = ["FOREIGN_ATTRIBUTES", "FOREIGN_NAMES", "KeywordError", "check_keywords", "known_keywords"]

P = ParamSpec("P")
T = TypeVar("T")

_HAS_MORE: Final = 4  # inspect.CO_VARARGS; importing inspect takes long
_HAS_OPTIONS: Final = 8  # inspect.CO_VARKEYWORDS
_FORMAT = 'format="zarr2" or "zarr3"'
_FOREIGN: Final = {
    # zarr-python
    "store": "the first argument, or target= by name; of tegula.zeros, array and their like it is store=",
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

_FOREIGN_HERE: Final = {
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

FOREIGN_ATTRIBUTES: Final = {
    # zarr-python and h5py
    "create_dataset": "create_array",
    "require_dataset": "require_array",
    "create": "create_array",
    "array_keys": "arrays",
    "group_keys": "groups",
    "visit": "walk",
    "visititems": "walk",
    "visitvalues": "walk",
    "basename": "name",
    "info_complete": "info",
    "info_items": "info.items()",
    "array": "create_array(name, data=...)",
    "empty": "create_array",
    "zeros": "create_array",
    "ones": "create_array(name, fill_value=1, ...)",
    "full": "create_array(name, fill_value=...)",
    "empty_like": "tegula.empty_like(a, store=g.store, path=...)",
    "zeros_like": "tegula.zeros_like(a, store=g.store, path=...)",
    "ones_like": "tegula.ones_like(a, store=g.store, path=...)",
    "full_like": "tegula.full_like(a, fill_value, store=g.store, path=...)",
    "create_dataset_like": "tegula.empty_like(a, store=g.store, path=...)",
    "create_groups": "create_group, once for each name",
    "require_groups": "require_group, once for each name",
    "create_hierarchy": "create_group and create_array, whose names may be paths",
    "array_values": "arrays",
    "group_values": "groups",
    "nmembers": "len(g)",
    "visitkeys": "walk",
    "get_array": "g[name]",
    "get_group": "g[name]",
    "parent": "tegula.open(node.store, path=...)",
    "file": "store",
    "filename": "store.url",
    "store_path": "store and path",
    "chunk_store": "store",
    "mode": "read_only",
    "digest": "tegula.checksum(a)",
    "hexdigest": "tegula.checksum(a)",
    "islice": "iter(a[start:stop])",
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
    "fillvalue": "fill_value",
    "compression": "compressor",
    "compression_opts": "compressor",
    "read_direct": "read(selection, out=...)",
    "write_direct": "a[selection] = values",
    "get_basic_selection": "a[selection]",
    "get_orthogonal_selection": "oindex",
    "get_coordinate_selection": "vindex",
    "get_mask_selection": "vindex",
    "get_block_selection": "blocks",
    "set_basic_selection": "a[selection] = values",
    "set_orthogonal_selection": "oindex",
    "set_coordinate_selection": "vindex",
    "set_mask_selection": "vindex",
    "set_block_selection": "blocks",
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
    "create": "create_array",
    "from_array": "copy, convert, or create_array(target, data=a)",
    "group": "create_group, or open_group(target, 'a')",
    "create_hierarchy": "create_group and create_array, whose names may be paths",
    "open_consolidated": "open_group(target, consolidated=True)",
    "consolidate_metadata": "open_group(target, 'r+').consolidate()",
    "open_like": "empty_like(a, store=target)",
    "save_array": "save",
    "save_group": "save(target, a=..., b=...)",
    "copy_all": "copy",
    "copy_store": "copy",
    "tree": "open_group(target).tree()",
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


class KeywordError(MetadataError, TypeError):
    """An unknown keyword argument; the message names the equivalent if another library has the keyword."""


def check_keywords(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse keyword arguments that are not known.

    Raises
    ------
    KeywordError
        If a keyword is unknown; the message names its equivalent.

    Examples
    --------
    >>> check_keywords("create_array", ["fillvalue"], ["fill_value", "shape"])
    Traceback (most recent call last):
    ...
    tegula.arrays.keywords.KeywordError: create_array has no keyword 'fillvalue'; in tegula that is fill_value=
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    ours = _FOREIGN_HERE.get(function, {}).get(unknown) or _FOREIGN.get(unknown)
    if ours is not None:
        hint = ours if ours.startswith("leave it out") else f"in tegula that is {ours}"
    elif close := import_module("difflib").get_close_matches(unknown, known, 1):
        hint = f"did you mean {close[0]}=?"
    else:
        hint = f"the keywords are {', '.join(sorted(known))}"
    raise KeywordError(f"{function} has no keyword {unknown!r}; {hint}")


def known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, so that unknown keywords raise the error of `check_keywords`.

    A function with ``**options`` checks those itself. Too many arguments by position, and one that is also given by
    name, are a `KeywordError`, too.

    Examples
    --------
    >>> @known_keywords
    ... def create(shape, dtype="f8"): ...
    >>> create(5, dtyp="i4")
    Traceback (most recent call last):
    ...
    tegula.arrays.keywords.KeywordError: create has no keyword 'dtyp'; did you mean dtype=?
    """
    code: Any = function.__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    name, most = function.__name__, code.co_argcount
    takes_more, checks_itself = bool(code.co_flags & _HAS_MORE), bool(code.co_flags & _HAS_OPTIONS)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if not checks_itself and not names.issuperset(kwargs):
            check_keywords(name, kwargs, names)
        if len(args) > most and not takes_more:
            others = ", ".join([f"{other}=" for other in code.co_varnames[most : most + code.co_kwonlyargcount]])
            more = f"; give the others by name: {others}" if others else ""
            raise KeywordError(f"{name} got too many arguments by position{more}")
        if kwargs and (twice := [given for given in code.co_varnames[: min(len(args), most)] if given in kwargs]):
            raise KeywordError(f"{name} got {twice[0]} by position and again by name ({twice[0]}=)")
        return function(*args, **kwargs)

    return checked
