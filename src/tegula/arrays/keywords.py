"""Names of other libraries: errors for unknown keywords and attributes name the equivalent in tegula."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from importlib import import_module
from typing import Any, Final, ParamSpec, TypeVar

from tegula.errors import MetadataError

__all__ = ["FOREIGN_ATTRIBUTES", "KeywordError", "check_keywords", "known_keywords"]

P = ParamSpec("P")
T = TypeVar("T")

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


class KeywordError(MetadataError, TypeError):
    """An unknown keyword argument; the message names the equivalent if another library has the keyword."""


def check_keywords(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse keyword arguments that are not known.

    Raises
    ------
    KeywordError
        If there is one; the message names its equivalent.

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
    ours = _FOREIGN.get(unknown)
    if ours is not None:
        hint = ours if ours.startswith("leave it out") else f"in tegula that is {ours}"
    elif close := import_module("difflib").get_close_matches(unknown, known, 1):
        hint = f"did you mean {close[0]}=?"
    else:
        hint = f"the keywords are {', '.join(sorted(known))}"
    raise KeywordError(f"{function} has no keyword {unknown!r}; {hint}")


def known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, so that unknown keywords raise the error of `check_keywords`.

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
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    name = function.__name__

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if not names.issuperset(kwargs):
            check_keywords(name, kwargs, names)
        return function(*args, **kwargs)

    return checked
