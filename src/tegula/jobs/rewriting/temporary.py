"""Temporary arrays between two passes.

For a target in local files it is a temporary directory (``.tegula-….tmp``) in that of the target, which no listing
shows. Its owner holds the lock of that directory. If the owner is killed, the directory is removed like any
other temporary file: by the next process that writes to the target, by ``tegula check --repair``, or with the target.
In other stores it lies below a name of that kind in the target's prefix, and is deleted with the target.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from tegula.arrays.array import Array
from tegula.arrays.creation import array_metadata, new_array_of
from tegula.engine.nodes.deleting import delete_node
from tegula.errors import AlreadyExistsError, NotFoundError, StoreError, TegulaError
from tegula.formats import Format, find_format
from tegula.jobs.ledger import DIRECTORY
from tegula.jobs.publishing import array_at
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import LocalStore, Store
from tegula.stores.local.directories import make_directories, temporary_directory
from tegula.stores.names import HIDDEN
from tegula.stores.targets.opening import store_of

__all__ = ["between_name", "recorded_array", "temporary_array"]

_FORMAT = "zarr3"
_CODECS = [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle"}}]
"""Fast codecs, since each chunk is read only once."""


@contextmanager
def temporary_array(
    store: Store, path: str, where: Any, shape: tuple[int, ...], chunks: tuple[int, ...], data_type: DataType
) -> Iterator[Array]:
    """Create a temporary array, and remove it when the context ends, even after an error or Ctrl-C.

    It is stored at `where`, a path, mapping or store, by default next to the target, which is at `path` of `store`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> from tegula.metadata.data_types import as_data_type
    >>> store = tegula.MemoryStore()
    >>> with temporary_array(store, "a", None, (4, 4), (2, 2), as_data_type("i4")) as array:
    ...     array[...] = 1
    ...     sum(1 for key in store.list())
    5
    >>> [*store.list()]
    []
    """
    fmt, metadata = _described(shape, chunks, data_type)
    with ExitStack() as stack:
        parent = store if where is None else store_of(where)
        if parent.in_archive and parent.scratch_directory is not None:  # removing a value would rewrite the archive
            parent = LocalStore(parent.scratch_directory)
        inside = "" if where is not None else path
        if parent.local_directory is not None:
            folder = os.path.join(parent.local_directory, *inside.split("/"))
            inner: Store = LocalStore(stack.enter_context(_directory(folder)))
            name = "array"
        else:
            inner, name = parent, f"{inside}/{HIDDEN}{os.urandom(8).hex()}.tmp".strip("/")
            stack.callback(_delete, inner, name)
        yield new_array_of(inner, name, fmt, metadata, False, reserved=True, has_parent=True)


def between_name(name: str) -> str:
    """Return the path of the temporary array of an array whose conversion has a ledger: next to the ledger's values.

    Examples
    --------
    >>> between_name("a/x")
    'a/x/.tegula_job/temporary'
    """
    return f"{name}/{DIRECTORY}/temporary".lstrip("/")


def recorded_array(store: Store, path: str, chunks: tuple[int, ...], shape: tuple[int, ...], source: Array) -> Array:
    """Return the temporary array of a conversion with a ledger, which an interrupted one may have left."""
    with suppress(NotFoundError):
        return array_at(store, path, _FORMAT)
    fmt, metadata = _described(shape, chunks, source.metadata.data_type)
    try:
        return new_array_of(store, path, fmt, metadata, False, reserved=True, has_parent=True, has_chunks=True)
    except AlreadyExistsError:  # another part of the job has just created it
        return array_at(store, path, _FORMAT)


def _described(shape: tuple[int, ...], chunks: tuple[int, ...], data_type: DataType) -> tuple[Format, ArrayMetadata]:
    fmt = find_format(_FORMAT)
    return fmt, fmt.adapt(array_metadata(fmt, shape, data_type, chunks, codecs=_CODECS))


def _directory(above: str) -> AbstractContextManager[str]:
    """Make a temporary directory in another one, which is made, too."""
    try:
        make_directories(above, sync=False)
    except OSError as error:
        raise StoreError(f"can't make the directory {above}: {error.strerror or error}") from error
    return temporary_directory(above)


def _delete(store: Store, name: str) -> None:
    with suppress(TegulaError):
        delete_node(store, name)
