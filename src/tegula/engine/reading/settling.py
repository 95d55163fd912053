"""Operations on an array that belong to one node: reads that are repeated, writes that are refused.

A remote store is asked for the document of the array in the wave of the chunks; any other store after the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tegula import config
from tegula.engine.concurrency.retries import back_off
from tegula.engine.stored.array import StoredArray
from tegula.errors import CodecError, ConflictError, NotFoundError, SelectionError, TegulaError
from tegula.indexing import Plan
from tegula.runtime.deferred import Later
from tegula.stores.capabilities import Pinning

if TYPE_CHECKING:
    from tegula.engine.caches import document_cache
    from tegula.engine.stored.states import Document
else:
    document_cache = Later("tegula.engine.caches.document_cache")

__all__ = ["check_before_write", "check_plan", "is_shortened", "pinned", "settled"]

T = TypeVar("T")
_RETRIES: Final = 10_000


def settled(array: StoredArray, read: Callable[[Callable[[], object]], T], plan: Plan | None = None) -> T:
    """Return the result of `read`, which reads chunks of an array, all of one node.

    The chunks are those of a `plan`, or the caller calls `check_plan` afterwards.

    `read` calls its argument if a chunk is missing, or raises `NotFoundError` if that is an error. What is missing in a
    remote store is missing, and what can't be decoded is damaged, only if the document is still there in a further
    wave; in any other store it is looked at after the read anyway.

    Raises
    ------
    NotFoundError
        If the array has been deleted, moved or replaced.
    SelectionError
        If it has become shorter than what the plan selects.
    """
    document, store = array.node, array.store
    is_remote = store.is_remote
    if document is None:
        return read(bool)
    if store.keeps_values or (is_remote and config.current().recheck == "never"):
        try:
            answer = read(array.check_exists)
        except NotFoundError:
            array.check_exists()
            raise
        if plan is not None:
            check_plan(array, plan)
        return answer
    if is_remote and document.generation is None:
        _recall(document, array)
    for attempt in range(_RETRIES):
        if not is_remote and document.generation is None:
            document.look(store)
        look = document.ask(store) if is_remote else partial(document.look, store)
        before, error, result = document.is_current(store), None, None
        missing: list[None] = []
        try:
            result = read(partial(missing.append, None))
        except TegulaError as raised:  # if the node is another one, even the error may be wrong
            error = raised
        again = is_remote and (missing or isinstance(error, (CodecError, NotFoundError)))
        if (before and document.is_current(store)) or (look() and (not again or document.look(store))):
            if error is not None:
                raise error
            if plan is not None and document.cuts(array.metadata.shape):
                check_plan(array, plan)
            return result  # type: ignore[return-value]
        back_off(attempt)
    raise ConflictError("the array kept changing while it was being read", path=store.url)


def _recall(document: Document, array: StoredArray) -> None:
    """Take the generation that a document of a remote store had when the array was opened, if that is known."""
    name = document.key[len(array.prefix) :]
    for raw, generation in document_cache.known(array.store, [document.key]) or ():
        if raw is not None and raw == array.metadata.documents.get(name):
            document.generation = generation


def check_before_write(array: StoredArray, plan: Plan) -> None:
    """Check that an array has not been replaced, before chunks of a plan are stored.

    Raises
    ------
    NotFoundError
        If the array has been deleted, moved or replaced.
    SelectionError
        If it has become shorter than what the plan selects.
    """
    if is_shortened(array):
        check_plan(array, plan)


def is_shortened(array: StoredArray) -> bool:
    """Check that an array has not been replaced, before chunks are stored, and return whether it has become shorter.

    Raises
    ------
    NotFoundError
        If the array has been deleted, moved or replaced.
    """
    if (document := array.node) is None:
        return False
    document.look_before_write(array.store)
    return document.cuts(array.metadata.shape)


def check_plan(array: StoredArray, plan: Plan) -> None:
    """Check that what a plan selects lies within the shape that the array's document was last seen to have.

    Raises
    ------
    SelectionError
        If the array has become shorter.
    """
    document, metadata = array.node, array.metadata
    if document is not None and document.cuts(metadata.shape) and 0 not in plan.work_shape:
        try:
            document.check_shape(array.store, plan.ends(metadata.grid))
        except SelectionError as error:
            array.locate(error)
            raise


def pinned(array: StoredArray) -> AbstractContextManager[StoredArray]:
    """Return a context whose value is the array in the directory that is now at its path, if its store has directories.

    So an operation sees one directory, even if another one takes its place meanwhile.
    """
    if array.node is None or not isinstance(array.store, Pinning):
        return nullcontext(array)
    return _in_directory(array, array.store)


@contextmanager
def _in_directory(array: StoredArray, store: Pinning) -> Iterator[StoredArray]:
    with ExitStack() as stack:
        for attempt in range(_RETRIES):
            with suppress(FileNotFoundError):
                view = stack.enter_context(store.pin(array.prefix))
                break
            array.check_exists()  # raises if the directory is gone for good, not just for a moment
            back_off(attempt)
        yield array if view is store else array.with_store(view)
