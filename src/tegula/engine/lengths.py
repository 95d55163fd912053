"""The present length of a dense array, which stores every chunk, after other processes may have changed the length.

A writer that shortens such an array writes its length first and removes rows after that; a writer that extends it
writes the length last. So if an operation finds too few rows in a chunk, or no chunk, the array is damaged only if its
length is still the same afterwards. Otherwise the metadata of the operation are out of date.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tegula.engine.documents import back_off
from tegula.engine.pool import gather
from tegula.engine.stored import StoredArray
from tegula.errors import CodecError, ConflictError, MetadataError, NotFoundError, SelectionError, StoreError
from tegula.formats import find_format
from tegula.indexing import Plan
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Generation

__all__ = ["current_length", "retry_with_current_length"]

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
    old = array.metadata
    item = find_format(old.format)
    others = [name for name in item.node_keys if name in old.documents and name != item.shape_key]
    (raw, generation), *rest = gather(
        lambda name: array.store.get(array.prefix + name, with_generation=True),
        [item.shape_key, *others],
        array.store.concurrency,
    )
    kept = {name: data for name, (data, _) in zip(others, rest) if data is not None}
    if raw is None or len(kept) < len(others):
        error = NotFoundError(
            "the array has been deleted or moved since it was opened", key=array.prefix + item.shape_key
        )
        array.locate(error)
        raise error
    documents = {**old.documents, item.shape_key: raw, **kept}
    if documents == old.documents:
        return array, raw, generation
    if item.is_draft(old.documents.get(item.shape_key, b"")):  # a draft is unique
        raise _replaced(array)
    try:
        found = item.parse(documents)
    except MetadataError as error:
        array.locate(error)
        raise
    if not isinstance(found, ArrayMetadata) or found.shape[1:] != old.shape[1:]:
        raise _replaced(array)
    if replace(found, shape=old.shape, attributes=old.attributes) != old:
        raise _replaced(array)
    return array.with_metadata(found), raw, generation


def _replaced(array: StoredArray) -> MetadataError:
    error = MetadataError("the array has been replaced by another one")
    array.locate(error)
    return error


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
    last = _last_row(array, plan)
    failed_at: Generation | None = None
    for attempt in range(_RETRIES):
        now, _, generation = current_length(array)
        rows = now.metadata.shape[0]
        if last >= rows:
            shortened = SelectionError(
                f"row {last} no longer exists: the array has been shortened to {rows} rows since it was opened; "
                "refresh it"
            )
            array.locate(shortened)
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


def _last_row(array: StoredArray, plan: Plan) -> int:
    """Return the last row that a plan touches; -1 if it touches none."""
    axis = array.metadata.grid.axes[0]
    last = -1
    for coords, selection, _, _ in plan:
        last = max(last, axis.start(coords[0]) + _highest(selection[0], axis.length(coords[0])))
    return last


def _highest(selection: Any, length: int) -> int:
    """Return the highest index that a selection along one axis of a chunk takes."""
    if isinstance(selection, slice):
        taken = range(*selection.indices(length))
        return max(taken[0], taken[-1]) if taken else -1
    return int(selection) if isinstance(selection, int) else int(selection.max())
