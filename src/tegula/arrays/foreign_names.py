"""Names of other libraries: those of methods that work here, and for the others the equivalents, which errors name.

Names of zarr-python and h5py that mean the same work, so that programs written for these libraries run:
the classes in `ALIASES` are bases of arrays and groups (`tegula.arrays.node.other_names`). Paths, types and errors
follow tegula's rules.
`tegula.hierarchy.aliases` has the functions of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tegula import indexing
from tegula.arrays import selecting
from tegula.arrays.chunking import as_shape
from tegula.arrays.values import as_data
from tegula.errors import MetadataError

if TYPE_CHECKING:
    from tegula.arrays.selecting import MakePlan
    from tegula.display import Info

__all__ = ["ALIASES", "ATTRIBUTES", "FOREIGN_NAMES", "KEYWORDS", "KEYWORDS_OF", "ArrayAliases", "GroupAliases"]

T = TypeVar("T")


class ArrayAliases:
    """Other names of methods of `tegula.Array`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> a = tegula.create_array({}, data=[1, 2, 3, 4])
    >>> a.get_basic_selection(slice(1, 3)), a.get_mask_selection([True, False, False, True])
    (array([2, 3]), array([1, 4]))
    >>> dest = np.zeros(3)
    >>> a.read_direct(dest, np.s_[1:3], np.s_[:2])
    >>> dest
    array([2., 3., 0.])
    """

    def get_basic_selection(self, selection: Any = ..., *, out: Any = None, fields: Any = None) -> Any:
        """Read a selection by ints and slices, as ``a[selection]``; anything else in it is an error."""
        return _read(self, selecting.basic(selection), indexing.numpy_like, out, fields)

    def set_basic_selection(self, selection: Any, value: Any, *, fields: Any = None) -> None:
        """Write a selection by ints and slices, as ``a[selection] = value``; anything else in it is an error."""
        _write(self, selecting.basic(selection), indexing.numpy_like, value, fields)

    def get_orthogonal_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Read ``a.oindex[selection]``."""
        return _read(self, selection, indexing.orthogonal, out, fields)

    def set_orthogonal_selection(self, selection: Any, value: Any, *, fields: Any = None) -> None:
        """Write ``a.oindex[selection]``."""
        _write(self, selection, indexing.orthogonal, value, fields)

    def get_coordinate_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Read ``a.vindex[selection]``."""
        return _read(self, selection, indexing.vectorized, out, fields)

    def set_coordinate_selection(self, selection: Any, value: Any, *, fields: Any = None) -> None:
        """Write ``a.vindex[selection]``."""
        _write(self, selection, indexing.vectorized, value, fields)

    def get_mask_selection(self: Any, mask: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Read ``a.vindex[mask]``; anything but a mask of the array's shape is an error."""
        return _read(self, selecting.masked(mask, self.shape), indexing.vectorized, out, fields)

    def set_mask_selection(self: Any, mask: Any, value: Any, *, fields: Any = None) -> None:
        """Write ``a.vindex[mask]``; anything but a mask of the array's shape is an error."""
        _write(self, selecting.masked(mask, self.shape), indexing.vectorized, value, fields)

    def get_block_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Read ``a.blocks[selection]``."""
        return _read(self, selection, indexing.blocks, out, fields)

    def set_block_selection(self, selection: Any, value: Any, *, fields: Any = None) -> None:
        """Write ``a.blocks[selection]``."""
        _write(self, selection, indexing.blocks, value, fields)

    def read_direct(self: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read a selection into an array of NumPy; without `dest_sel` into one of the same shape."""
        selection = ... if source_sel is None else source_sel
        if dest_sel is None:
            self.read(selection, dest).result()
        else:
            dest[dest_sel] = self[selection]

    def write_direct(self: Any, source: Any, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Write a selection of an array of NumPy."""
        self[... if dest_sel is None else dest_sel] = source if source_sel is None else source[source_sel]

    def islice(self: Any, start: int | None = None, end: int | None = None) -> Iterator[Any]:
        """Yield the elements along the first axis, ``iter(a[start:end])``, in memory for one row of chunks."""
        first, last, _ = slice(start, end).indices(len(self))
        step = self.metadata.grid.axes[0].longest()
        for begin in range(first, last, step):
            yield from self[begin : min(begin + step, last)]

    @property
    def fillvalue(self: Any) -> Any:
        """The fill value."""
        return self.fill_value

    @property
    def basename(self: Any) -> str:
        """The last part of the path."""
        name: str = self.name
        return name

    def info_complete(self: Any) -> Info:
        """Return the attribute `info`."""
        info: Info = self.info
        return info


def _selection(selection: Any, fields: Any) -> Any:
    if fields is None:
        return selection
    return (fields, *selection) if isinstance(selection, tuple) else (fields, selection)


def _read(array: Any, selection: Any, make_plan: MakePlan, out: Any, fields: Any) -> Any:
    return selecting.read(array.stored, _selection(selection, fields), make_plan, out)


def _write(array: Any, selection: Any, make_plan: MakePlan, value: Any, fields: Any) -> None:
    array.check_writable()
    selecting.write(array.stored, _selection(selection, fields), make_plan, value)


class GroupAliases:
    """Other names of methods of `tegula.Group`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_dataset("a/x", (2, 3), data=np.arange(6))
    >>> x[1], g.create_dataset("y", (3,)).dtype, [*g.group_keys()]
    (array([3, 4, 5]), dtype('float32'), ['a'])
    >>> g.visititems(lambda path, node: path if hasattr(node, "shape") else None)
    'a/x'
    """

    def create_dataset(
        self: Any, name: str, shape: Any = None, dtype: Any = None, data: Any = None, **options: Any
    ) -> Any:
        """Create an array as `Group.create_array` does; float32 by default, and with `data` in this shape, as in h5py.

        A name that begins with ``/`` is a path from the root of the store, as everywhere in a group.
        """
        if data is None:
            dtype = "f4" if dtype is None else dtype
        elif shape is not None:
            data = data if hasattr(data, "shape") else as_data(data)
            wanted = as_shape(shape)
            if data.shape != wanted and prod(data.shape) == prod(wanted):
                data = np.asarray(data).reshape(wanted)
        return self.create_array(name, shape=shape, dtype=dtype, data=data, **options)

    def require_dataset(
        self: Any, name: str, shape: Any, dtype: Any = None, exact: bool = False, **options: Any
    ) -> Any:
        """Return an array or create it, as `Group.require_array`; float32 by default."""
        return self.require_array(name, shape=shape, dtype="f4" if dtype is None else dtype, exact=exact, **options)

    def array(self: Any, name: str, data: Any = None, **options: Any) -> Any:
        """Create an array, as `Group.create_array`, usually from its elements."""
        return self.create_array(name, data=data, **options)

    def empty(self: Any, name: str, *, shape: Any, dtype: Any = "f8", **options: Any) -> Any:
        """Create an array to be written later, as `Group.create_array`."""
        return self.create_array(name, shape=shape, dtype=dtype, **options)

    def zeros(self: Any, name: str, *, shape: Any, dtype: Any = "f8", **options: Any) -> Any:
        """Create an array of zeros, as `Group.create_array`."""
        return self.create_array(name, shape=shape, dtype=dtype, **_filled("zeros", 0, options))

    def ones(self: Any, name: str, *, shape: Any, dtype: Any = "f8", **options: Any) -> Any:
        """Create an array of ones, as `Group.create_array`."""
        return self.create_array(name, shape=shape, dtype=dtype, **_filled("ones", 1, options))

    def full(self: Any, name: str, *, shape: Any, fill_value: Any, dtype: Any = "f8", **options: Any) -> Any:
        """Create an array that is filled with one value, as `Group.create_array`."""
        return self.create_array(name, shape=shape, dtype=dtype, fill_value=fill_value, **options)

    def create_groups(self: Any, *names: str, **options: Any) -> tuple[Any, ...]:
        """Create several groups."""
        return tuple(self.create_group(name, **options) for name in names)

    def require_groups(self: Any, *names: str) -> tuple[Any, ...]:
        """Open several groups, creating those that do not exist."""
        return tuple(self.require_group(name) for name in names)

    def array_keys(self: Any) -> Iterator[str]:
        """Yield the names of the direct members that are arrays."""
        return (name for name, _ in self.arrays())

    def group_keys(self: Any) -> Iterator[str]:
        """Yield the names of the direct members that are groups."""
        return (name for name, _ in self.groups())

    def array_values(self: Any) -> Iterator[Any]:
        """Yield the direct members that are arrays."""
        return (array for _, array in self.arrays())

    def group_values(self: Any) -> Iterator[Any]:
        """Yield the direct members that are groups."""
        return (group for _, group in self.groups())

    def nmembers(self: Any, max_depth: int | None = 0) -> int:
        """Return the number of members down to a depth, 0 for the direct ones; ``None`` for all."""
        if max_depth is not None and max_depth < 0:
            raise MetadataError(f"max_depth must be at least 0, not {max_depth}", field="max_depth")
        if max_depth == 0:
            return len(self)
        return sum(1 for path, _ in self.walk() if max_depth is None or path.count("/") <= max_depth)

    def visititems(self: Any, function: Callable[[str, Any], T | None]) -> T | None:
        """Call a function with the path and node of each member at any depth, until it returns something."""
        return _first(function(path, node) for path, node in self.walk())

    def visit(self: Any, function: Callable[[str], T | None]) -> T | None:
        """Call a function with the path of each member at any depth, until it returns something."""
        return _first(function(path) for path, _ in self.walk())

    def visitkeys(self: Any, function: Callable[[str], T | None]) -> T | None:
        """Do what `visit` does."""
        return _first(function(path) for path, _ in self.walk())

    def visitvalues(self: Any, function: Callable[[Any], T | None]) -> T | None:
        """Call a function with each member at any depth, until it returns something."""
        return _first(function(node) for _, node in self.walk())

    basename, info_complete = ArrayAliases.basename, ArrayAliases.info_complete


def _filled(function: str, fill_value: int, options: dict[str, Any]) -> dict[str, Any]:
    if "fill_value" in options:
        raise MetadataError(f"{function} has no keyword 'fill_value': it fills with {fill_value}", field="fill_value")
    return {**options, "fill_value": fill_value}


def _first(results: Iterator[T | None]) -> T | None:
    return next((result for result in results if result is not None), None)


ALIASES: Final = {"Array": ArrayAliases, "Group": GroupAliases}
"""The other names, by class."""

# --- equivalents

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
