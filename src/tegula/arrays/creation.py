"""Descriptions of new arrays and groups, made from the options that users give."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.chunking import as_shape, automatic_chunks, automatic_shards
from tegula.arrays.growing import change_rows
from tegula.codecs import codec_specs, complete
from tegula.engine.nodes.replacing import Replacement
from tegula.errors import MetadataError, ReadOnlyError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.formats.key_encodings import keys_from_json
from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis, chunk_grid, regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys, v2_keys
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.fill_values import default_fill, scalar_array
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata
from tegula.stores import Store
from tegula.stores.targets.paths import is_remote, local_path, url_path

__all__ = [
    "adapted",
    "array_metadata",
    "completing",
    "new_array",
    "new_array_of",
    "new_format",
    "new_group",
    "replaced",
    "sharded",
    "usual_chunks",
    "with_checksum",
    "writable_format",
]


def new_array(
    store: Store,
    path: str,
    *,
    shape: Any,
    dtype: Any,
    chunks: Any = "auto",
    shards: Any = None,
    fill_value: Any = 0,
    codecs: Any = "auto",
    checksum: bool = False,
    order: str = "C",
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    format: str = "zarr3",
    chunk_key_encoding: Any = None,
    overwrite: bool = False,
    write_empty_chunks: bool | None = None,
    allow_pickle: bool = False,
    extra: Mapping[str, Any] | None = None,
    filled: bool = True,
    reserved: bool = False,
    has_parent: bool = False,
    has_chunks: bool = False,
) -> Array:
    """Create an array in a store.

    See `tegula.create_array` for the parameters, `ArrayMetadata` for `extra`, `new_array_of` for `filled`, and
    `tegula.engine.nodes.creating.create_node` for `reserved`, `has_parent` and `has_chunks`.
    """
    fmt = writable_format(format, store)
    draft = array_metadata(
        fmt, as_shape(shape), as_data_type(dtype), chunks, order=order, fill_value=fill_value, codecs=codecs
    )
    if checksum:
        draft = replace(draft, codecs=with_checksum(draft.codecs))
    draft = replace(
        draft,
        attributes=_attributes(attributes),
        dimension_names=_names(dimension_names, draft.ndim),
        keys=_key_encoding(chunk_key_encoding, fmt),
        extra=dict(extra or {}),
    )
    metadata = adapted(fmt, draft)
    if chunk_key_encoding is not None and metadata.keys.encode((0, 0)) != draft.keys.encode((0, 0)):
        raise UnsupportedError(f"{format} has no keys like {chunk_key_encoding!r:.80}", field="chunk_key_encoding")
    if draft.dimension_names is not None and metadata.dimension_names is None:
        raise UnsupportedError(f"{format} has no names for dimensions", field="dimension_names")
    if shards is not None and shards is not False:
        metadata = sharded(fmt, metadata, shards)
    options: dict[str, Any] = {"allow_pickle": allow_pickle, "write_empty": write_empty_chunks}
    options |= {"filled": filled, "reserved": reserved, "has_parent": has_parent, "has_chunks": has_chunks}
    return new_array_of(store, path, fmt, metadata, overwrite, **options)


def new_array_of(
    store: Store, path: str, fmt: Format, metadata: ArrayMetadata, overwrite: bool, **options: Any
) -> Array:
    """Create the array that `metadata` describes, as returned by ``fmt.adapt``.

    See `tegula.engine.nodes.creating.create_array` for the options. With ``filled=False`` the caller writes all chunks
    within `completing`.
    """
    stored = engine.create_array(store, path, fmt, metadata, overwrite, **options)
    return Array(stored, path, read_only=False, allow_pickle=options.get("allow_pickle", False))


def replaced(replacement: Replacement, array: Array) -> Array:
    """Return an array that was made to replace another node, as it is found at its final place."""
    if not replacement.is_staged:
        return array
    pickles = array.allow_pickle
    stored = replacement.opened(array.stored, allow_pickle=pickles)
    return Array(stored, replacement.target_path, read_only=False, allow_pickle=pickles)


@contextmanager
def completing(array: Array) -> Iterator[Array]:
    """Let the caller write the chunks of an array created with ``filled=False``, and complete the array at the end.

    Until then an array of a format that stores every chunk can't be opened, and after an error it is deleted. Other
    arrays are complete from the beginning.
    """
    if not engine.is_draft(array.stored):
        yield array
        return
    try:
        yield array
        change_rows([array], lambda columns: [engine.complete_array(*columns[0])])
    except BaseException:  # Ctrl-C, too
        engine.discard_array(array.stored, array.path)
        raise


def new_group(
    store: Store,
    path: str,
    *,
    attributes: Mapping[str, Any] | None = None,
    format: str = "zarr3",
    overwrite: bool = False,
    **options: Any,
) -> GroupMetadata:
    """Create a group in a store and return its metadata; for the options see `tegula.engine.create_node`."""
    fmt = writable_format(format, store)
    if not fmt.has_groups:
        raise UnsupportedError(f"{format} has no groups", path=path)
    metadata = GroupMetadata(attributes=_attributes(attributes), format=format)
    return engine.create_node(store, path, fmt, metadata, overwrite, **options)


def writable_format(name: str, store: Store) -> Format:
    """Return the format of a new node, or raise an error if it or the store can only be read."""
    fmt = find_format(name)
    if not fmt.writable:
        raise UnsupportedError(f"{name} can be read, but not written", field="format")
    if store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=store.url)
    return fmt


def array_metadata(
    fmt: Format,
    shape: tuple[int, ...],
    data_type: DataType,
    chunks: Any,
    *,
    order: str = "C",
    fill_value: Any = 0,
    codecs: Any = "auto",
) -> ArrayMetadata:
    """Return the description of a new array, still to be adapted to the format by ``fmt.adapt``."""
    automatic = isinstance(codecs, str) and codecs == "auto"
    specs = list(fmt.compressors) if automatic else codec_specs(codecs)
    if not isinstance(order, str) or order not in ("C", "F"):
        raise MetadataError(f"order must be C or F, not {order!r:.80}", field="order")
    if order == "F" and len(shape) > 1 and not any(spec.name == "transpose" for spec in specs):
        specs = _transposed(specs, len(shape))
    # the default fill value 0 means the zero of any type: false, an empty string, a record of zeros
    zero = type(fill_value) is int and fill_value == 0
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=_chunks(chunks, shape, data_type.itemsize, fmt),
        keys=_key_encoding(None, fmt),
        codecs=tuple(specs),
        fill_value=None
        if fill_value is None
        else default_fill(data_type)
        if zero
        else scalar_array(fill_value, data_type),
        format=fmt.name,
    )


def _transposed(specs: list[CodecSpec], ndim: int) -> list[CodecSpec]:
    """Add a transpose codec for Fortran order; inside the shards, if the chain begins with the sharding codec."""
    if specs and specs[0].name == "sharding_indexed":
        order = {"name": "transpose", "configuration": {"order": [*range(ndim)][::-1]}}
        inner = [order, *specs[0].configuration.get("codecs", [])]
        return [replace(specs[0], configuration={**specs[0].configuration, "codecs": inner}), *specs[1:]]
    return [CodecSpec("transpose", {"order": [*range(ndim)][::-1]}), *specs]


def adapted(fmt: Format, draft: ArrayMetadata) -> ArrayMetadata:
    """Adapt the description of a new array to a format, and add all codec options that other readers need.

    Raises
    ------
    UnsupportedError
        If the format can't hold the array.
    MetadataError
        If a codec does not fit the array.
    """
    metadata = fmt.adapt(draft)
    shape = metadata.grid.one_shape
    codecs = complete(metadata.codecs, metadata.data_type, ndim=metadata.ndim, chunk_shape=shape)
    return metadata if codecs == metadata.codecs else replace(metadata, codecs=codecs)


def _attributes(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise MetadataError(f"attributes must be a mapping, not {value!r:.80}", field="attributes")
    return dict(value or {})


def _names(names: Sequence[str | None] | None, ndim: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    fits = isinstance(names, Sequence) and not isinstance(names, str) and len(names) == ndim
    if not fits or not all(n is None or isinstance(n, str) for n in names):
        raise MetadataError(f"{names!r:.80} are not names for {ndim} dimensions", field="dimension_names")
    return tuple(names)


def sharded(fmt: Format, metadata: ArrayMetadata, shards: Any) -> ArrayMetadata:
    """Return the description with its chunks put into shards; its chunk grid is then that of the shards."""
    if fmt.name != "zarr3":
        raise UnsupportedError(f"{fmt.name} has no shards", field="shards")
    if not metadata.grid.is_regular:
        raise UnsupportedError("the inner chunks of shards must have one shape", field="chunks")
    inner = metadata.grid.largest_chunk()
    if shards is True or (isinstance(shards, str) and shards == "auto"):
        outer = automatic_shards(metadata.shape, inner, metadata.data_type.itemsize)
    else:
        outer = as_shape(_whole_shards(shards, metadata.shape, inner))
    if len(outer) != len(inner) or any(n < 1 or n % chunk for n, chunk in zip(outer, inner)):
        raise MetadataError(f"shards {outer} are not multiples of the chunks {inner}", field="shards")
    spec = CodecSpec(
        "sharding_indexed",
        {
            "chunk_shape": [*inner],
            "codecs": [_codec_json(codec) for codec in metadata.codecs],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        },
    )
    return replace(metadata, grid=regular_grid(outer), codecs=(spec,))


def _whole_shards(value: Any, shape: tuple[int, ...], inner: tuple[int, ...]) -> Any:
    """Replace -1 by the length of the axis, rounded up to chunks; repeat a single int for each axis."""
    is_one = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
    items = [value] * len(inner) if is_one else value
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) != len(inner):
        return value
    covering = [max(1, -(-size // chunk)) * chunk for size, chunk in zip(shape, inner)]
    return [size if item is None or item == -1 else item for item, size in zip(items, covering)]


def _codec_json(codec: CodecSpec) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    return {"name": codec.name, "configuration": configuration} if configuration else {"name": codec.name}


def usual_chunks(fmt: Format, shape: tuple[int, ...], itemsize: int) -> list[int]:
    """Return the shape of automatic chunks, by the format's own rule if it has one."""
    rule = fmt.automatic_chunks or automatic_chunks
    return [max(1, chunk) for chunk in rule(shape, itemsize)]


def _chunks(value: Any, shape: tuple[int, ...], itemsize: int, fmt: Format) -> ChunkGrid:
    """Return the chunk grid for the option ``chunks``; see `tegula.create_array`."""
    if value is None or value is True or (isinstance(value, str) and value == "auto"):
        return regular_grid(usual_chunks(fmt, shape, itemsize))
    if value is False:
        return regular_grid([max(1, size) for size in shape])
    # one item for each axis: a length, a list of lengths, or None for the whole axis
    is_one = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
    if isinstance(value, type) or (
        not is_one and (isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"))
    ):
        raise MetadataError(f"{value!r:.80} is not a chunk shape", field="chunks")
    items = [value] * len(shape) if is_one else list(value)
    if len(items) > len(shape):
        raise MetadataError(f"chunks {value!r} have more dimensions than the shape {shape}", field="chunks")
    items += [None] * (len(shape) - len(items))
    grid = chunk_grid([_axis_chunks(part, size, value) for part, size in zip(items, shape)])
    if any(isinstance(axis, VaryingAxis) and not axis.edges for axis in grid.axes):
        raise MetadataError("an axis needs at least one chunk", field="chunks")
    return grid


def _axis_chunks(part: Any, size: int, value: Any) -> int | tuple[int, ...]:
    """Return the length of all chunks of an axis, or the length of each; `part` is the axis's item of `value`."""
    if part is None or (hasattr(part, "__index__") and int(part) == -1):
        return max(1, size)
    if hasattr(part, "__index__"):
        return int(part)
    if not isinstance(part, Sequence) or isinstance(part, str):
        raise MetadataError(f"{value!r:.80} is not a chunk shape", field="chunks")
    try:
        edges = tuple(int(edge.__index__()) for edge in part)
    except (TypeError, AttributeError) as error:
        raise MetadataError(f"{part!r:.60} are not chunk lengths", field="chunks") from error
    if sum(edges) < size:
        raise MetadataError(f"chunks {part!r:.60} do not cover an axis of {size}", field="chunks")
    return edges


def with_checksum(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Add a CRC-32C checksum at the end of a chain, unless it ends in one.

    Examples
    --------
    >>> [spec.name for spec in with_checksum((CodecSpec("zstd"),))]
    ['zstd', 'crc32c']
    """
    ends = codecs and codecs[-1].name in ("crc32c", "numcodecs.crc32c")
    return codecs if ends else (*codecs, CodecSpec("crc32c"))


def _key_encoding(value: Any, fmt: Format) -> ChunkKeyEncoding:
    """Return the encoding for ``"/"`` or ``"."``, or for the name or object of a Zarr v3 chunk key encoding."""
    usual = default_keys() if fmt.name == "zarr3" else v2_keys()
    if value is None:
        return usual
    if isinstance(value, str) and value in (".", "/"):
        return default_keys(value) if fmt.name == "zarr3" else v2_keys(value)
    name = value if isinstance(value, str) else value.get("name") if isinstance(value, Mapping) else None
    if name in ("fanout", "suffix", "zarrs.default_suffix"):
        return keys_from_json(value)
    options = value if isinstance(value, Mapping) else {}
    inner = options.get("configuration", options)
    usual_separator = "/" if name == "default" else "."
    separator = inner.get("separator", usual_separator) if isinstance(inner, Mapping) else None
    if name not in ("default", "v2") or separator not in (".", "/"):
        raise MetadataError(f"{value!r:.80} is not a chunk key encoding", field="chunk_key_encoding")
    return default_keys(separator) if name == "default" else v2_keys(separator)


_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    ".bcolz": ("bcolz",), ".n5": ("n5",), ".zarr": ("zarr3", "zarr2", "zarr1"), ".ozx": ("zarr3",),
}  # fmt: skip


def new_format(target: Any, path: str, stated: str | None, usual: str) -> Any:
    """Return the format of a new node: the given one, or the one that the suffix of its name implies.

    The last name with a suffix counts; names in the store come after that of the store.

    Parameters
    ----------
    target, path
        The store, and the path of the node in it.
    stated : str, optional
        The requested format.
    usual : str
        The format if neither `stated` nor a suffix decides.

    Raises
    ------
    MetadataError
        If the format is unknown, or contradicts the suffix.

    Examples
    --------
    >>> new_format("prices.bcolz", "", None, "zarr3"), new_format("s3://b/data.zarr.zip", "a", None, "bcolz")
    ('bcolz', 'zarr3')
    """
    if stated is not None:
        find_format(stated)
    name, formats = next(_names_with_suffix(target, path), ("", ()))
    if not formats:
        return usual if stated is None else stated
    if stated is None:
        return usual if usual in formats else formats[0]
    if stated not in formats:
        raise MetadataError(
            f"the format {stated} contradicts the name {name!r}, which is one for {' or '.join(formats)}; "
            "choose another name, or leave out the format",
            field="format",
        )
    return stated


def _names_with_suffix(target: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names with a suffix in a path, last one first, and the formats they imply."""
    local = local_path(target)
    if local is None and is_remote(target):
        local = url_path(target)
    if local is None:
        # only the last name of a store's URL was chosen for its contents
        local = unquote(target.url).rstrip("/").rpartition("/")[2] if isinstance(target, Store) else ""
    for name in reversed([*re.split(r"[/\\]", local), *path.split("/")]):
        formats = _SUFFIXES.get(os.path.splitext(name.lower().removesuffix(".zip"))[1])
        if formats is not None:
            yield name, formats
