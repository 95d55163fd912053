"""New arrays and groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from tegula import engine
from tegula.arrays import Array, change_rows
from tegula.chunking import as_shape, automatic_chunks, automatic_shards
from tegula.codecs import codec_specs, complete
from tegula.errors import AlreadyExistsError, MetadataError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.formats import FORMATS, Format, find_format
from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis, chunk_grid, regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys, v2_keys
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.fill_values import default_fill, scalar_array
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata
from tegula.stores import MappingStore, MemoryStore, Store

__all__ = [
    "adapted",
    "array_metadata",
    "check_path",
    "check_reserved",
    "completing",
    "create_node",
    "create_parents",
    "delete_node",
    "is_chunk_key",
    "make_room",
    "new_array",
    "new_array_of",
    "new_group",
    "remove_array",
    "sharded",
    "usual_chunks",
    "with_checksum",
]

Metadata = TypeVar("Metadata", bound=ArrayMetadata | GroupMetadata)
_RETRIES = 100
_LOOKS = 9  # at what may be half a node, until it is taken for a damaged one
_CHUNK_KEY = re.compile(r"c|(?:c[./])?[0-9]+(?:[./][0-9]+)*|__zdata__/.*|data/__[0-9]+\.blp")


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
) -> Array:
    """Create an array in a store.

    See `tegula.create_array` for the parameters, `ArrayMetadata` for `extra` and `new_array_of` for `filled`.
    """
    item = _writable_format(format, store)
    draft = array_metadata(
        item, as_shape(shape), as_data_type(dtype), chunks, order=order, fill_value=fill_value, codecs=codecs
    )
    if checksum:
        draft = replace(draft, codecs=with_checksum(draft.codecs))
    draft = replace(
        draft,
        attributes=_attributes(attributes),
        dimension_names=_names(dimension_names, draft.ndim),
        keys=_key_encoding(chunk_key_encoding, item),
        extra=dict(extra or {}),
    )
    metadata = adapted(item, draft)
    if chunk_key_encoding is not None and metadata.keys.encode((0, 0)) != draft.keys.encode((0, 0)):
        raise UnsupportedError(f"{format} has no keys like {chunk_key_encoding!r:.80}", field="chunk_key_encoding")
    if draft.dimension_names is not None and metadata.dimension_names is None:
        raise UnsupportedError(f"{format} has no names for dimensions", field="dimension_names")
    if shards is not None and shards is not False:
        metadata = sharded(item, metadata, shards)
    options: dict[str, Any] = {"allow_pickle": allow_pickle, "write_empty": write_empty_chunks}
    return new_array_of(store, path, item, metadata, overwrite, filled=filled, **options)


def new_array_of(
    store: Store,
    path: str,
    item: Format,
    metadata: ArrayMetadata,
    overwrite: bool,
    *,
    filled: bool = True,
    reserved: bool = False,
    has_parent: bool = False,
    **options: Any,
) -> Array:
    """Create the array that `metadata`, in the form that ``item.adapt`` gives, describes.

    Where every chunk has to be stored, they are written with the fill value before the array can be opened, unless
    `filled` is false: then the caller writes all of them within `completing`. With `reserved` the node may have a name
    that the format reserves, since its source has it. See `create_node` for `has_parent`.
    """
    drafted = metadata.dense and item.new_draft is not None and (metadata.shape[0] > 0 or not filled)
    draft = item.new_draft(os.urandom(16).hex()) if drafted and item.new_draft is not None else None
    # everything that can be wrong is found before anything is written
    final = _read_back(item, metadata, path)
    stored = engine.stored_array(store, path, final, **options)
    written = create_node(store, path, item, final, overwrite, stored, draft, reserved=reserved, has_parent=has_parent)
    if draft is not None and filled:
        written = replace(written, shape=(0, *written.shape[1:]))
    if written is not final:
        stored = engine.stored_array(store, path, written, **options)
    array = Array(stored, path, read_only=False, allow_pickle=options.get("allow_pickle", False))
    if draft is not None and filled:
        with completing(array):
            array.resize(metadata.shape)
    return array


@contextmanager
def completing(array: Array) -> Iterator[Array]:
    """Let the caller write the chunks of an array created with ``filled=False``, and complete the array at the end.

    Where every chunk has to be stored, the array can be opened by others only then, and is deleted after an error.
    Other arrays are complete from the beginning.
    """
    if not _is_draft(array):
        yield array
        return
    try:
        yield array
        change_rows([array], lambda columns: [engine.complete_rows(*columns[0])])
    except BaseException:  # Ctrl-C, too
        key, draft = _draft(array)
        with suppress(TegulaError):
            if array.store.get(key) == draft:  # and not what another creator has put in its place
                remove_array(array)
        raise


def remove_array(array: Array) -> None:
    """Delete an array that could not be completed, and no file of others beside it."""
    prefix = f"{array.path}/" if array.path else ""
    for key in array.metadata.documents:
        array.store.delete(prefix + key)
    chunks = array._stored.chunk_prefix
    if chunks != prefix:
        array.store.delete_prefix(chunks)
        return
    for _, key in [*array._stored.stored_chunks()]:
        array.store.delete(key)


def _draft(array: Array) -> tuple[str, bytes]:
    """Return the key of the document that says an array's shape, and what this array was created with."""
    key = find_format(array.format).shape_key
    return f"{array.path}/{key}".lstrip("/"), array.metadata.documents[key]


def _is_draft(array: Array) -> bool:
    return array.metadata.dense and find_format(array.format).is_draft(_draft(array)[1])


def new_group(
    store: Store,
    path: str,
    *,
    attributes: Mapping[str, Any] | None = None,
    format: str = "zarr3",
    overwrite: bool = False,
    reserved: bool = False,
    has_parent: bool = False,
) -> GroupMetadata:
    """Create a group in a store and return its metadata.

    With `reserved` the group may have a name that the format reserves, since its source has it. See `create_node` for
    `has_parent`.
    """
    item = _writable_format(format, store)
    if not item.has_groups:
        raise UnsupportedError(f"{format} has no groups", path=path)
    metadata = GroupMetadata(attributes=_attributes(attributes), format=format)
    return create_node(store, path, item, metadata, overwrite, reserved=reserved, has_parent=has_parent)


def _writable_format(name: str, store: Store) -> Format:
    item = find_format(name)
    if not item.writable:
        raise UnsupportedError(f"{name} is only read", field="format")
    if store.read_only:
        raise ReadOnlyError("the store was opened for reading", path=store.url)
    return item


def create_node(
    store: Store,
    path: str,
    item: Format,
    metadata: Metadata,
    overwrite: bool,
    array: engine.StoredArray | None = None,
    draft: bytes | None = None,
    *,
    reserved: bool = False,
    anywhere: bool = False,
    has_parent: bool = False,
) -> Metadata:
    """Make room for a node, create the groups above it, and write its documents.

    Parameters
    ----------
    store, path, item
        Where the node is created, and in which format.
    metadata : ArrayMetadata or GroupMetadata
        What it is; with the documents to write, if they were read back from some.
    overwrite : bool
        Whether a node that is there is deleted.
    array : StoredArray, optional
        The node, if it is an array.
    draft : bytes, optional
        What stands for the document of the shape until the caller completes the array.
    reserved : bool
        Whether the node may have a name that the format reserves, since its source has it.
    anywhere : bool
        Whether the path may be any that the store accepts, without groups above it.
    has_parent : bool
        Whether the caller has made the group that it is in, and nothing has to be looked for above it.

    Returns
    -------
    ArrayMetadata or GroupMetadata
        What reading the documents gives: `metadata` itself, if that was read from just these.
    """
    if not anywhere:
        check_path(path, item)
        if not reserved:
            check_reserved(path, item, store)
    # what could not be read back is refused before anything is changed
    final = metadata if metadata.documents else _read_back(item, metadata, path)
    vacant = _is_vacant(store, path)
    if not vacant:
        _check_room(store, path, overwrite, array)
    for attempt in range(_RETRIES):
        if array is not None and overwrite and not vacant:
            for _, key in [*array.stored_chunks()]:  # whose documents were lost
                store.delete(key)
        if item.has_groups and not has_parent and not anywhere:
            create_parents(store, path, item)
        if array is not None and array.metadata.dense:  # bcolz opens no array without it
            store.make_prefix(array.chunk_prefix)
        try:
            documents = {**final.documents}
            if draft is not None:
                documents[item.shape_key] = draft
            written = engine.create_documents(store, path, item, final, overwrite=False, documents=documents)
            if written == final.documents:
                return final
            if draft is None:
                return _parsed(item, written, final, path)
            whole = {**written, item.shape_key: final.documents[item.shape_key]}
            return replace(_parsed(item, whole, final, path), documents=written)
        except AlreadyExistsError:  # another creator was faster
            if not overwrite:
                raise
            vacant = False
            engine.back_off(attempt)
            make_room(store, path)
    raise AlreadyExistsError("others keep creating the node", path=f"{store.url}/{path}".rstrip("/"))


def _read_back(item: Format, metadata: Metadata, path: str) -> Metadata:
    """Return metadata as they will be read from the documents that `item` writes, with these documents."""
    return _parsed(item, item.serialize(metadata), metadata, path)


def _parsed(item: Format, documents: Mapping[str, bytes], like: Metadata, path: str) -> Metadata:
    final = item.parse(documents)
    if final is None or type(final) is not type(like):
        kind = "array" if isinstance(like, ArrayMetadata) else "group"
        raise MetadataError(f"the {kind} could not be read back", path=path)
    return final


def _is_vacant(store: Store, path: str) -> bool:
    """Return whether no key is below a path, so that neither a node nor a part of one can be there.

    In a mapping it takes a look at every key to find that out; there the documents are looked for one by one.
    """
    if isinstance(store, MappingStore):
        return False
    return next(iter(store.list_prefix(f"{path}/" if path else "")), None) is None


def _check_room(store: Store, path: str, overwrite: bool, array: engine.StoredArray | None) -> None:
    """Make room for a node where something is stored; without `overwrite`, refuse what would be taken for its own."""
    if overwrite:
        make_room(store, path)
        return
    place = f"{store.url}/{path}".rstrip("/")
    if _is_taken(store, path):
        raise AlreadyExistsError("there is a node already", path=place)
    if array is not None and engine.implicit_group(store, path, None) is not None:
        raise AlreadyExistsError("there are nodes below that path", path=place)
    if array is not None and _has_strays(array):
        raise AlreadyExistsError(
            "there are chunks of an array that is gone, which this one would take for its own; "
            "overwrite=True deletes them",
            path=place,
        )


def _is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node; one that can't be read yet may be about to be complete."""
    for attempt in range(1, _LOOKS):
        with suppress(MetadataError):
            return engine.read_metadata(store, path) is not None
        engine.back_off(attempt)
    return engine.read_metadata(store, path) is not None


def _has_strays(array: engine.StoredArray) -> bool:
    """Return whether chunks stand where a new array's would; a deletion that was killed leaves some.

    Where every chunk has to be stored none is read that was not written. Memory, which ends with its process, and other
    mappings are not looked through, since there it takes a look at every key to find that there are none.
    """
    if array.metadata.dense or isinstance(array.store, (MappingStore, MemoryStore)):
        return False
    return next(array.stored_chunks(), None) is not None


def make_room(store: Store, path: str) -> None:
    """Delete the node at a path, or the documents that make it look like one; files of others stay where no node is."""
    try:
        there = engine.read_metadata(store, path) or engine.implicit_group(store, path, None)
    except (MetadataError, UnsupportedError):
        prefix = f"{path}/" if path else ""
        for key in engine.fetch_documents(store, path, {key for item in FORMATS.values() for key in item.keys}):
            store.delete(prefix + key)
        for key in [key for key in store.list_prefix(prefix) if is_chunk_key(key[len(prefix) :])]:
            store.delete(key)
        return
    if there is not None:
        delete_node(store, path)


def is_chunk_key(key: str) -> bool:
    """Return whether a key below a node can be that of a chunk, in any format.

    Examples
    --------
    >>> is_chunk_key("c/0/1"), is_chunk_key("0.1"), is_chunk_key("notes.txt")
    (True, True, False)
    """
    return _CHUNK_KEY.fullmatch(key) is not None


def delete_node(store: Store, path: str) -> None:
    """Delete a node and everything below it; nothing beside it.

    Members go before the group that they are in, and of each array or table the documents before the rest. So whoever
    is killed on the way leaves no array that has lost some of its chunks, and a group that can be deleted once more.
    """
    groups: list[tuple[str, list[str]]] = []
    pending = [path]
    while pending:
        current = pending.pop()
        prefix = f"{current}/" if current else ""
        try:
            node = engine.read_metadata(store, current) or engine.implicit_group(store, current, None)
        except (MetadataError, UnsupportedError):
            node = None
        if isinstance(node, GroupMetadata) and node.members is None:
            groups.append((prefix, [*node.documents]))
            pending += [child[:-1] for child in store.list_dir(prefix)[1]]
            continue
        for key in () if node is None else node.documents:
            store.delete(prefix + key)
        store.delete_prefix(prefix)
    for prefix, documents in reversed(groups):
        for key in reversed(documents):  # that which makes a group of it last
            store.delete(prefix + key)
        store.delete_prefix(prefix)


def create_parents(store: Store, path: str, item: Format) -> None:
    """Create the groups above a node that are missing, and refuse to put it into an array or another format's group."""
    parts = path.split("/")[:-1] if path else []
    for count in range(len(parts) + 1 if path else 0):
        parent = "/".join(parts[:count])
        found = engine.read_metadata(store, parent)
        if found is None:
            try:
                engine.create_documents(store, parent, item, GroupMetadata(format=item.name), overwrite=False)
            except AlreadyExistsError:
                continue
        elif isinstance(found, ArrayMetadata):
            raise AlreadyExistsError("an array can't have members", path=parent or store.url)
        elif found.format != item.name:
            raise MetadataError(
                f"a {item.name} node can't be a member of a {found.format} group", path=parent or store.url
            )


def check_path(path: str, item: Format) -> None:
    """Refuse paths that no node can have (Zarr v3 core, "node names")."""
    for name in path.split("/") if path else []:
        if not name or set(name) == {"."} or name == "zarr.json" or name in item.keys or "\0" in name:
            raise MetadataError(f"{name!r} can't be the name of a node", path=path)


def check_reserved(path: str, item: Format, store: Store | None = None) -> None:
    """Refuse names that the format reserves, but for those of groups that there are: older formats allowed them."""
    names = path.split("/") if path and item.reserved_prefix else []
    for count, name in enumerate(names, start=1):
        if not name.startswith(item.reserved_prefix):
            continue
        if store is None or count == len(names) or engine.read_metadata(store, "/".join(names[:count])) is None:
            raise MetadataError(
                f"{name!r} can't be the name of a new node: "
                f"{item.name} reserves names that begin with {item.reserved_prefix!r}",
                path=path,
            )


def array_metadata(
    item: Format,
    shape: tuple[int, ...],
    data_type: DataType,
    chunks: Any,
    *,
    order: str = "C",
    fill_value: Any = 0,
    codecs: Any = "auto",
) -> ArrayMetadata:
    """Describe a new array, in terms that ``item.adapt`` has still to make those of the format."""
    automatic = isinstance(codecs, str) and codecs == "auto"
    specs = list(item.compressors) if automatic else codec_specs(codecs)
    if order not in ("C", "F"):
        raise MetadataError(f"order must be C or F, not {order!r}", field="order")
    if order == "F" and len(shape) > 1 and not any(spec.name == "transpose" for spec in specs):
        specs = _transposed(specs, len(shape))
    # zero, the usual fill value, stands for the zero of any type; false, an empty string, a record of zeros
    zero = type(fill_value) is int and fill_value == 0
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=_chunks(chunks, shape, data_type.itemsize, item),
        keys=_key_encoding(None, item),
        codecs=tuple(specs),
        fill_value=None
        if fill_value is None
        else default_fill(data_type)
        if zero
        else scalar_array(fill_value, data_type),
        format=item.name,
    )


def _transposed(specs: list[CodecSpec], ndim: int) -> list[CodecSpec]:
    """Put the elements of chunks into Fortran order; those of inner chunks, where a shard is the outermost codec."""
    if specs and specs[0].name == "sharding_indexed":
        order = {"name": "transpose", "configuration": {"order": [*range(ndim)][::-1]}}
        inner = [order, *specs[0].configuration.get("codecs", [])]
        return [replace(specs[0], configuration={**specs[0].configuration, "codecs": inner}), *specs[1:]]
    return [CodecSpec("transpose", {"order": [*range(ndim)][::-1]}), *specs]


def adapted(item: Format, draft: ArrayMetadata) -> ArrayMetadata:
    """Return a new array in the form of a format, its codecs with all the options that other readers need.

    Raises
    ------
    UnsupportedError
        If the format can't hold the array.
    MetadataError
        If a codec does not fit the array.
    """
    metadata = item.adapt(draft)
    shape = metadata.grid.largest_chunk() if metadata.grid.is_regular else None
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


def sharded(item: Format, metadata: ArrayMetadata, shards: Any) -> ArrayMetadata:
    """Put the chunks of an array into shards; the grid becomes that of the shards."""
    if item.name != "zarr3":
        raise UnsupportedError(f"{item.name} has no shards", field="shards")
    if not metadata.grid.is_regular:
        raise UnsupportedError("the inner chunks of shards have one shape", field="chunks")
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
    """Replace -1 by the length of the whole axis in chunks; one int is that of each axis."""
    is_one = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
    items = [value] * len(inner) if is_one else value
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) != len(inner):
        return value
    whole = [max(1, -(-size // chunk)) * chunk for size, chunk in zip(shape, inner)]
    return [size if item is None or item == -1 else item for item, size in zip(items, whole)]


def _codec_json(codec: CodecSpec) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    return {"name": codec.name, "configuration": configuration} if configuration else {"name": codec.name}


def usual_chunks(item: Format, shape: tuple[int, ...], itemsize: int) -> list[int]:
    """Return the shape of automatic chunks, by the format's own rule if it has one."""
    rule = item.automatic_chunks or automatic_chunks
    return [max(1, chunk) for chunk in rule(shape, itemsize)]


def _chunks(value: Any, shape: tuple[int, ...], itemsize: int, item: Format) -> ChunkGrid:
    if value is None or value is True or (isinstance(value, str) and value == "auto"):
        return regular_grid(usual_chunks(item, shape, itemsize))
    if value is False:
        return regular_grid([max(1, size) for size in shape])
    is_one = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
    if not is_one and (isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__")):
        raise MetadataError(f"{value!r:.80} are not chunks", field="chunks")
    items = [value] * len(shape) if is_one else list(value)
    if len(items) > len(shape):
        raise MetadataError(f"chunks {value!r} have more dimensions than the shape {shape}", field="chunks")
    items += [None] * (len(shape) - len(items))
    out: list[Any] = []
    for part, size in zip(items, shape):
        if part is None or (hasattr(part, "__index__") and int(part) == -1):
            out.append(max(1, size))
        elif hasattr(part, "__index__"):
            out.append(int(part))
        elif isinstance(part, Sequence) and not isinstance(part, str):
            try:
                edges = tuple(int(edge.__index__()) for edge in part)
            except (TypeError, AttributeError) as error:
                raise MetadataError(f"{part!r:.60} are not lengths of chunks", field="chunks") from error
            if sum(edges) < size:
                raise MetadataError(f"chunks {part!r:.60} do not cover an axis of {size}", field="chunks")
            out.append(edges)
        else:
            raise MetadataError(f"{value!r:.80} are not chunks", field="chunks")
    grid = chunk_grid(out)
    if any(isinstance(axis, VaryingAxis) and not axis.edges for axis in grid.axes):
        raise MetadataError("an axis needs at least one chunk", field="chunks")
    return grid


def with_checksum(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Add a CRC-32C of what is stored to the end of a chain, unless there is one.

    Examples
    --------
    >>> [spec.name for spec in with_checksum((CodecSpec("zstd"),))]
    ['zstd', 'crc32c']
    """
    ends = codecs and codecs[-1].name in ("crc32c", "numcodecs.crc32c")
    return codecs if ends else (*codecs, CodecSpec("crc32c"))


def _key_encoding(value: Any, item: Format) -> ChunkKeyEncoding:
    """Read ``"/"`` or ``"."``, or the name or object of a Zarr v3 chunk key encoding."""
    usual = default_keys() if item.name == "zarr3" else v2_keys()
    if value is None:
        return usual
    if value in (".", "/"):
        return default_keys(value) if item.name == "zarr3" else v2_keys(value)
    name = value if isinstance(value, str) else value.get("name") if isinstance(value, Mapping) else None
    options = value if isinstance(value, Mapping) else {}
    inner = options.get("configuration", options)
    usual_separator = "/" if name == "default" else "."
    separator = inner.get("separator", usual_separator) if isinstance(inner, Mapping) else None
    if name not in ("default", "v2") or separator not in (".", "/"):
        raise MetadataError(f"{value!r:.80} is not a chunk key encoding", field="chunk_key_encoding")
    return default_keys(separator) if name == "default" else v2_keys(separator)
