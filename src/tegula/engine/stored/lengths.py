"""The present length of a dense array, which stores every chunk, after other processes may have changed the length.

A writer that shortens such an array writes its length first and removes rows after that; a writer that extends it
writes the length last. So if an operation finds too few rows in a chunk, or no chunk, the array is damaged only if its
length is still the same afterwards. Otherwise the metadata of the operation are out of date.
"""

from __future__ import annotations

from collections.abc import Callable

from tegula.engine.concurrency.pool import gather
from tegula.engine.concurrency.retries import back_off
from tegula.engine.stored.array import StoredArray
from tegula.errors import CodecError, ConflictError, MetadataError, NotFoundError, SelectionError, StoreError
from tegula.formats import find_format
from tegula.indexing import Plan
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Generation
from tegula.stores.capabilities import unchanged

__all__ = ["check_length", "current_length", "retry_with_current_length"]

_RETRIES = 10_000


def current_length(array: StoredArray) -> tuple[StoredArray, bytes, Generation]:
    """Read the present length of an array, and check that it is still the array that was opened.

    Returns
    -------
    tuple
        The array with that length, the document that holds the length, and the generation of the document.

    Raises
    ------
    NotFoundError, MetadataError
        If the array has been deleted, or replaced by another one.
    """
    old, node = array.metadata, array.node
    if node is not None:
        node.check_count(array.store)
    fmt = find_format(old.format)
    others = [name for name in fmt.node_keys if name in old.documents and name != fmt.shape_key]
    (raw, generation), *answers = gather(
        lambda name: array.store.get(array.prefix + name, with_generation=True),
        [fmt.shape_key, *others],
        array.store.concurrency,
    )
    kept = {name: data for name, (data, _) in zip(others, answers) if data is not None}
    if raw is None or len(kept) < len(others):
        error = NotFoundError(
            "the array has been deleted or moved since it was opened", key=array.prefix + fmt.shape_key
        )
        array.locate(error)
        raise error
    documents = {**old.documents, fmt.shape_key: raw, **kept}
    if documents == old.documents:
        return array, raw, generation
    if node is not None and fmt.is_draft(old.documents.get(fmt.shape_key, b"")):  # a draft is unique
        node.replaced(array.store)
    try:
        metadata = fmt.parse(documents)
    except MetadataError as error:
        array.locate(error)
        raise
    if node is not None:
        node.check(array.store, metadata)
    if not isinstance(metadata, ArrayMetadata) or metadata.shape[1:] != old.shape[1:]:
        raise MetadataError("the array has been replaced since it was opened", path=array.store.url)
    return array.with_metadata(metadata), raw, generation


def retry_with_current_length(
    array: StoredArray, plan: Plan, act: Callable[[StoredArray], None], error: CodecError | StoreError
) -> None:
    """Repeat an operation that failed with `error`, with the present length of the array.

    Parameters
    ----------
    array : StoredArray
        The array as it was when the operation failed.
    plan : Plan
        The plan of the operation.
    act : callable
        Carries out the plan on an array.
    error : CodecError or StoreError
        The error of the operation, raised again if the length has not changed.

    Raises
    ------
    SelectionError
        If selected rows are gone, since the array has been shortened.
    """
    failed_at: Generation | None = None
    for attempt in range(_RETRIES):
        now, _, generation = current_length(array)
        rows = now.metadata.shape[0]
        if (shortened := _shortened(array, plan, rows)) is not None:
            raise shortened from error
        if generation == failed_at:
            raise error
        back_off(attempt)
        try:
            act(now)
            return
        except (CodecError, StoreError) as again:
            error, failed_at = again, generation
    raise ConflictError("the length kept changing during the operation") from error


def check_length(array: StoredArray, plan: Plan) -> None:
    """Check before a write that whole chunks of a plan lie within a dense array, where no others would be stored.

    Parts of chunks are not looked at: they are read first, which fails if they have been cut off.

    Raises
    ------
    SelectionError
        If selected rows are gone, since the array has been shortened.
    """
    if array.node is None or not array.metadata.documents or 0 in plan.work_shape:
        return
    if plan.nchunks <= 2 and not any(covers for *_, covers in plan):
        return
    generation, rows = array.shared.get("length", (None, 0))
    name = find_format(array.metadata.format).shape_key
    if generation is None or not unchanged(array.store, array.prefix + name, generation):
        rows = array.metadata.shape[0]
        raw, generation = array.store.get(array.prefix + name, with_generation=True)
        if raw != array.metadata.documents.get(name):
            now, _, generation = current_length(array)
            rows = now.metadata.shape[0]
        array.shared["length"] = generation, rows
    if (shortened := _shortened(array, plan, rows)) is not None:
        raise shortened


def _shortened(array: StoredArray, plan: Plan, rows: int) -> SelectionError | None:
    """Return the error for a plan that selects rows beyond those of the array; ``None`` if it does not."""
    last = plan.ends(array.metadata.grid)[0] - 1
    if last < rows:
        return None
    error = SelectionError(
        f"row {last} no longer exists: the array has been shortened to {rows} rows since it was opened; call refresh()"
    )
    error.is_stale = True
    array.locate(error)
    return error
