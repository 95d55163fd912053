"""Creating nodes: whether a path is free, which process wins a race, and what happens to old chunks at the path.

Every interface creates nodes by `create_node`, or by `create_array`, which calls it. An interface only decides what the
documents contain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any, TypeVar

from tegula.engine.concurrency.retries import back_off
from tegula.engine.documents.finding import implicit_group
from tegula.engine.documents.reading import read_metadata
from tegula.engine.lengths.atomic_append import complete_rows, resize_rows
from tegula.engine.nodes.changing import create_documents
from tegula.engine.nodes.deleting import clear_place, delete_occupant, remove_array
from tegula.engine.nodes.opening import stored_array
from tegula.engine.nodes.paths import check_path, check_reserved, create_parents, is_vacant, refuse_inside_draft
from tegula.engine.nodes.replacing import replacing
from tegula.engine.reading.remote import delete_keys
from tegula.engine.stored.array import StoredArray
from tegula.errors import AlreadyExistsError, MetadataError, TegulaError
from tegula.formats import Format, find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store
from tegula.stores.capabilities import BlockedKeys, EmptyDirectories

__all__ = [
    "check_path",
    "check_reserved",
    "check_vacant",
    "complete_array",
    "create_array",
    "create_node",
    "create_parents",
    "discard_array",
    "is_draft",
    "read_back",
]

Metadata = TypeVar("Metadata", bound=ArrayMetadata | GroupMetadata)
_RETRIES = 100
_READS = 9  # attempts to read documents that may be partly written, before they count as damaged


def create_array(
    store: Store,
    path: str,
    fmt: Format,
    metadata: ArrayMetadata,
    overwrite: bool,
    *,
    filled: bool = True,
    reserved: bool = False,
    has_parent: bool = False,
    has_chunks: bool = False,
    **options: Any,
) -> StoredArray:
    """Create the array that `metadata` describes.

    Parameters
    ----------
    store, path, fmt
        Where the array is created, and in which format.
    metadata : ArrayMetadata
        Its description, in the form that ``fmt.adapt`` or `read_back` gives.
    overwrite : bool
        Whether to delete an existing node at the path.
    filled : bool
        Whether an array of a format that stores every chunk (bcolz) is filled with the fill value before it can be
        opened. If not, the caller writes all chunks and then calls `complete_array`, or `discard_array` after an error.
    reserved, has_parent, has_chunks : bool
        As for `create_node`.
    **options
        Those of `tegula.engine.stored_array`.

    Returns
    -------
    StoredArray

    Raises
    ------
    AlreadyExistsError
        If there is a node and `overwrite` is false.
    MetadataError, UnsupportedError
        If the array could not be read back; nothing has then been written.
    """
    drafted = metadata.dense and fmt.new_draft is not None and (metadata.shape[0] > 0 or not filled)
    draft = fmt.new_draft(os.urandom(16).hex()) if drafted and fmt.new_draft is not None else None
    # refuse an invalid description before anything is written
    final = read_back(fmt, metadata, path)
    array = stored_array(store, path, final, **options)
    about = {"reserved": reserved, "has_parent": has_parent}
    if not overwrite or has_chunks or draft is None or not filled:
        about["has_chunks"] = has_chunks
        return _create_array(store, path, fmt, overwrite, array, draft, filled, about, options)
    # the fill values are stored before another node is replaced
    with replacing(store, path, fmt, True, "lazy", **about) as replacement:
        if replacement.is_staged:
            array = stored_array(replacement.store, replacement.path, final, **options)
        about = {**replacement.options}
        there = about.pop("overwrite")
        array = _create_array(replacement.store, replacement.path, fmt, there, array, draft, filled, about, options)
    return replacement.opened(array, allow_pickle=options.get("allow_pickle", False))


def _create_array(
    store: Store,
    path: str,
    fmt: Format,
    overwrite: bool,
    array: StoredArray,
    draft: bytes | None,
    filled: bool,
    about: dict[str, bool],
    options: dict[str, Any],
) -> StoredArray:
    """Write the documents of an array and, if its format stores every chunk, the fill values."""
    final = array.metadata
    written = create_node(store, path, fmt, final, overwrite, array, draft, **about)
    if draft is not None and filled:
        written = replace(written, shape=(0, *written.shape[1:]))
    if written is not final:
        array = stored_array(store, path, written, **options)
    array.created()
    if draft is None or not filled:
        return array
    try:
        array = resize_rows([(array, path)], final.shape[0])[0]
        return complete_array(array, path)
    except BaseException:  # Ctrl-C, too
        discard_array(array, path)
        raise


def is_draft(array: StoredArray) -> bool:
    """Return whether an array is still being created and can't be opened before it is completed."""
    return array.metadata.dense and find_format(array.metadata.format).is_draft(_shape_document(array)[1])


def complete_array(array: StoredArray, path: str) -> StoredArray:
    """Complete an array under creation, so that it can be opened, and return the completed array."""
    return complete_rows(array, path)


def discard_array(array: StoredArray, path: str) -> None:
    """Delete an array under creation, unless another creator has replaced it; do nothing if that fails."""
    key, draft = _shape_document(array)
    with suppress(TegulaError):
        if array.store.get(key) == draft:
            remove_array(array, path)


def _shape_document(array: StoredArray) -> tuple[str, bytes]:
    """Return the key of the document that holds an array's shape, and its bytes as last read or written here."""
    name = find_format(array.metadata.format).shape_key
    return array.prefix + name, array.metadata.documents[name]


def create_node(
    store: Store,
    path: str,
    fmt: Format,
    metadata: Metadata,
    overwrite: bool,
    array: StoredArray | None = None,
    draft: bytes | None = None,
    *,
    reserved: bool = False,
    anywhere: bool = False,
    has_parent: bool = False,
    has_chunks: bool = False,
) -> Metadata:
    """Create a node: check that the path is free, create the groups above it, and write its documents.

    Parameters
    ----------
    store, path, fmt
        Where the node is created, and in which format.
    metadata : ArrayMetadata or GroupMetadata
        The node's description; if it was read from documents, these are written.
    overwrite : bool
        Whether to delete an existing node.
    array : StoredArray, optional
        The node, if it is an array.
    draft : bytes, optional
        The document to write in place of the one that holds the shape, until the caller completes the array.
    reserved : bool
        Whether the name may be one that the format reserves; a copy of a node with such a name is allowed.
    anywhere : bool
        Whether to accept any path that the store accepts, and create no groups above it.
    has_parent : bool
        Whether the caller has created the group above the node, which is then not looked up.
    has_chunks : bool
        Whether the caller has already called `check_vacant` and written the chunks, so that they are not leftovers.

    Returns
    -------
    ArrayMetadata or GroupMetadata
        The metadata as read from the documents; `metadata` itself, if it was read from exactly these documents.
    """
    # the path, and whether it is free
    if not anywhere:
        check_path(path, fmt)
        refuse_inside_draft(store)
        if not reserved:
            check_reserved(path, fmt, store)
    # refuse metadata that could not be read back, before anything is changed
    final = read_back(fmt, metadata, path)
    vacant = has_chunks or (not overwrite and is_vacant(store, path, beside_jobs=True))
    if not vacant and not overwrite:
        _refuse_taken(store, path, array)
    if fmt.has_groups and not has_parent and not anywhere:
        create_parents(store, path, fmt)
    # replace another node: beside it, or after it is deleted
    folder = None if array is None or not array.metadata.dense else array.chunk_prefix[len(array.prefix) :]
    if overwrite and not has_chunks:
        with replacing(
            store, path, fmt, True, "none", reserved=True, anywhere=anywhere, has_parent=True
        ) as replacement:
            if replacement.is_staged:
                return _write_node(replacement.store, replacement.path, fmt, final, draft, folder)
        vacant = replacement.is_vacant
        delete_occupant(store, path, replacement.there)
    for attempt in range(_RETRIES):
        if array is not None and overwrite and not vacant:
            delete_keys(store, [*_strays(array)])  # leftovers of an array without documents
        try:
            return _write_node(store, path, fmt, final, draft, folder)
        except AlreadyExistsError:  # another creator was faster
            if not overwrite:
                raise
            vacant = False
            back_off(attempt)
            clear_place(store, path)
    raise AlreadyExistsError("other processes keep creating a node here", path=f"{store.url}/{path}".rstrip("/"))


def _write_node(
    store: Store, path: str, fmt: Format, final: Metadata, draft: bytes | None, folder: str | None
) -> Metadata:
    """Write the documents of a node, which decide the race with other creators, and return its metadata.

    `folder` is the prefix of a dense array's chunks below the node, whose directory bcolz requires.
    """
    if folder is not None and isinstance(store, EmptyDirectories):
        store.make_prefix((f"{path}/" if path else "") + folder)
    documents = {**final.documents}
    if draft is not None:
        documents[fmt.shape_key] = draft
    written = create_documents(store, path, fmt, final, overwrite=False, documents=documents)
    complete = written if draft is None else {**written, fmt.shape_key: final.documents[fmt.shape_key]}
    found = final if complete == final.documents else _parsed(fmt, complete, final, path)
    return found if draft is None else replace(found, documents=written)


def check_vacant(store: Store, path: str, fmt: Format, metadata: ArrayMetadata, **options: Any) -> None:
    """Check that an array can be created at a path, before its chunks are written; its documents are written last.

    Raises
    ------
    AlreadyExistsError, MetadataError, UnsupportedError
        As `create_array` without `overwrite`.
    """
    check_path(path, fmt)
    final = read_back(fmt, metadata, path)
    if not is_vacant(store, path, beside_jobs=True):
        _refuse_taken(store, path, stored_array(store, path, final, **options))


def read_back(fmt: Format, metadata: Metadata, path: str) -> Metadata:
    """Return the metadata as read back from the documents that the format would write, and including them.

    Metadata with documents were read from these, and are returned as they are.
    """
    if metadata.documents:
        return metadata
    return _parsed(fmt, fmt.serialize(metadata), metadata, path)


def _parsed(fmt: Format, documents: Mapping[str, bytes], like: Metadata, path: str) -> Metadata:
    final = fmt.parse(documents)
    if final is None or type(final) is not type(like):
        kind = "array" if isinstance(like, ArrayMetadata) else "group"
        raise MetadataError(f"the {kind} could not be read back", path=path)
    return final


def _refuse_taken(store: Store, path: str, array: StoredArray | None) -> None:
    """Raise `AlreadyExistsError` if a path has a node, or chunks that would be read as those of a new array."""
    url = f"{store.url}/{path}".rstrip("/")
    if _is_taken(store, path):
        raise AlreadyExistsError("something already exists at this path; pass overwrite=True to replace it", path=url)
    if array is not None and implicit_group(store, path, None) is not None:
        raise AlreadyExistsError("nodes already exist below this path; pass overwrite=True to replace them", path=url)
    if array is not None and _has_strays(array):
        raise AlreadyExistsError(
            "chunks of a deleted array are left at this path, and would be read as those of the new one; "
            "pass overwrite=True to delete them",
            path=url,
        )


def _is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node; retry if it can't be read, since another process may still be writing it."""
    for attempt in range(1, _READS):
        with suppress(MetadataError):
            return read_metadata(store, path) is not None
        back_off(attempt)
    return read_metadata(store, path) is not None


def _has_strays(array: StoredArray) -> bool:
    """Return whether a new array would meet old chunks, as left by a deletion that was killed.

    Dense arrays write every chunk, so old chunks do not matter. Memory stores and mappings are not searched, since they
    would have to visit all their keys.
    """
    return not (array.metadata.dense or array.store.in_memory) and next(_strays(array), None) is not None


def _strays(array: StoredArray) -> Iterator[str]:
    """Yield the keys of old chunks that a new array would read as its own.

    In a tree of directories these are also the chunks of an array with another number of dimensions, which stand where
    the new one needs a file or a directory.
    """
    if not (isinstance(array.store, BlockedKeys) and array.store.listable):
        yield from (key for _, key in array.stored_chunks())
        return
    keys, ndim = array.metadata.keys, array.metadata.ndim
    for key in array.store.list_prefix(array.chunk_prefix):
        name = key[len(array.prefix) :]
        above = accumulate(name.split("/"), "{}/{}".format)  # with the name itself
        below = (name + "/0" * number for number in range(1, ndim + 1))
        if any(keys.decode(other, ndim) is not None for other in chain(above, below)):
            yield key
