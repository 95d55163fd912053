"""The compiled executor: hands a whole plan to the kernel, which carries it out without the interpreter's lock.

Its results are those of `tegula.engine.reading.reference`, which takes over what the kernel does not support: Python
objects, and codecs that are written in Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tegula import config
from tegula.engine.reading.preferred import FALLBACK, REFERENCE
from tegula.errors import CodecError, StoreError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.runtime import executors, system
from tegula.runtime.deferred import Later
from tegula.stores.capabilities import Ranged
from tegula.stores.local import kernel as kernels

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula._kernel import Array as KernelArray
    from tegula.engine.caches import chunk_cache
    from tegula.engine.reading import remote, settling, windows
    from tegula.engine.stored.array import Box, NewRows, StoredArray
    from tegula.indexing import Plan
else:
    remote, windows = Later("tegula.engine.reading.remote"), Later("tegula.engine.reading.windows")
    chunk_cache, settling = Later("tegula.engine.caches.chunk_cache"), Later("tegula.engine.reading.settling")

__all__ = [
    "create_chunks", "delete_chunks", "empty", "extend_chunks", "get", "load", "may_hold_chunks", "read",
    "reads_in_kernel", "set", "write",
]  # fmt: skip

Array: TypeAlias = "npt.NDArray[Any]"
_LARGE = 2**18  # bytes from which on a result reuses the memory of an earlier one
_MUCH = 2**20  # bytes of chunks from which on several threads extend them faster than one


def _described(array: StoredArray) -> KernelArray | None:
    """Return the kernel's description of an array, made at the first call; ``None`` if the kernel can't read it."""
    if array.kernel is not None:
        return array.kernel
    library = executors.choose(config.current().executor)
    if library is None:
        return None
    # the kernel's objects for codecs and store
    chain = array.chain.native
    is_remote = array.store.is_remote
    if (
        chain is None
        or array.metadata.keys.digits
        or not array.fill.dtype.itemsize
        or (is_remote and (_is_nested(array) or windows.has_windows(array)))
    ):
        _use_reference(array)
        return None
    store = _kernel_store(library, array)
    if store is None:
        return None
    # the description, kept with the array
    metadata = array.metadata
    try:
        described: KernelArray = library.Array(
            store,
            shape=metadata.shape,
            axes=metadata.grid.axes,
            prefix=array.prefix,
            keys=metadata.keys,
            chain=chain,
            fill=array.fill.tobytes(),
            dtype=array.fill.dtype,
            dense=metadata.dense,
        )
    except UnsupportedError:  # options that the kernel's codecs do not know
        _use_reference(array)
        return None
    object.__setattr__(array, "kernel", described)
    return described


def reads_in_kernel(array: StoredArray) -> bool:
    """Return whether the kernel itself decodes and encodes the elements of an array, wherever its chunks are."""
    if executors.choose(config.current().executor) is None or array.metadata.data_type.variable:
        return False
    if array.metadata.keys.digits:
        return False
    return array.dtype.itemsize > 0 and array.chain.native is not None


def _with_keys(array: StoredArray) -> KernelArray | None:
    """Return the kernel's description of the array, even if that has an outdated shape: the chunk keys are the same."""
    described: KernelArray | None = array.shared.get("keys") or _described(array)
    if described is not None:
        array.shared["keys"] = described
    return described


def _is_nested(array: StoredArray) -> bool:
    """Return whether there are shards in shards, whose indexes the kernel reads one by one."""
    sharding = array.chain.sharding
    return sharding is not None and sharding.inner.sharding is not None


def _use_reference(array: StoredArray) -> None:
    """Let the reference executor carry out all further operations on an array."""
    object.__setattr__(array, "executor", FALLBACK)


def _kernel_store(library: ModuleType, array: StoredArray) -> Any:
    """Return the kernel's object for the store; ``None`` while it is unknown whether the kernel can open its files."""
    owner, store = array.shared.get("store", (None, None))
    if owner is not array.store:
        store = _new_kernel_store(library, array)
        if store is not None:
            array.shared["store"] = array.store, store
    return store


def _new_kernel_store(library: ModuleType, array: StoredArray) -> Any:
    target = array.target
    store, locate = target.plain_files, None
    if store is not None:
        if store.ignores_case is None:  # unknown until a name with letters has been looked up
            store.exists(array.prefix + find_format(array.metadata.format).shape_key)
        if store.ignores_case is None:  # jobs write arrays without documents; any other name with letters will do
            for key in islice(store.list_prefix(""), 1):
                store.exists(key)
        base = store.root.rstrip(os.sep) + os.sep
        if not (system.KERNEL_STORES and library.LocalFiles.serves(base)):
            locate = partial(kernels.located, store)
        elif store.ignores_case is None:
            return None
        else:
            sync = store.durability == "fsync"
            if os.name == "posix" and not store.read_only:
                import fcntl  # noqa: F401, PLC0415 - threads of the kernel call `prepare`, and import nothing
            node = array.node
            if node is not None and node.is_copied:  # its own document may be missing
                node.confirm(array.store)
            return library.LocalFiles(
                store,
                base,
                sync,
                store.prepare,
                array.document,
                array.prefix,
                None if node is None else node.key,
                None if node is None else partial(node.confirm_file, array.store),
                store.ignores_case,
            )
    reader = remote.ShardReader(target) if target.is_remote or isinstance(target, Ranged) else None
    return library.PythonStore(
        target,
        array.chain.sharding is not None,
        target.concurrency,
        reader=reader,
        content=array.chunk_nbytes,
        locate=locate,
        exact=store is not None and store.ignores_case is False and os.name == "posix",
    )


def get(array: StoredArray, selection: Any) -> Any:
    """Read a selection of ints, slices and an ellipsis; return ``None`` if the caller has to make the plan."""
    described = array.kernel or _described(array)
    if described is None:
        return REFERENCE.get(array, selection)
    settings = config.current()
    if (array.missing_chunks or settings.missing_chunks) == "error":
        return None
    try:
        if described.checks:
            return described.get(selection, settings.threads, bool)
        # only this process changes the store, and it has not done so: `settled` has nothing to do
        changes = array.store.changes
        if changes is not None and changes == array.changes:
            try:
                result = described.get(selection, settings.threads, bool)
                if array.store.changes == changes:
                    return result
            except TegulaError:  # another thread may have replaced the array: `settled` finds out
                pass
        result = settling.settled(array, partial(described.get, selection, settings.threads))
        if (node := array.node) is not None and node.cuts(array.metadata.shape):
            return None  # reading by a plan checks whether the array still has the selected elements
        object.__setattr__(array, "changes", changes)
        return result
    except MemoryError:
        return None  # reading by a plan reports how much memory is missing
    except TegulaError as error:
        if array.metadata.dense and isinstance(error, (CodecError, StoreError)):
            return None  # reading by a plan checks whether the length has changed
        array.locate(error)
        raise


def set(array: StoredArray, selection: Any, values: Any) -> bool:
    """Write an array to a selection of ints and slices; return ``False`` if the caller has to make the plan."""
    described = array.kernel or _described(array)
    if described is None:
        return False
    is_shortened = bool if described.checks else partial(settling.is_shortened, array)
    try:
        return described.set(selection, values, config.current().threads, array.keeps_empty, is_shortened)
    except MemoryError as error:
        raise array.out_of_memory(error) from error
    except TegulaError as error:
        array.locate(error)
        raise
    finally:
        if array.executor.set is not set:  # the cache of chunks has been switched on in the meantime
            chunk_cache.CHUNKS.forget(array.store, array.prefix)


def read(array: StoredArray, plan: Plan, out: Array) -> None:
    """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be read or decoded; the error names it.
    """
    described, offset = array.kernel or _described(array), _offset(array)
    if described is not None and 0 in plan.work_shape:
        return
    done = False
    if described is not None and offset is not None:
        try:
            read = partial(described.read, plan, out, offset, config.current().threads)
            if array.is_strict:  # the kernel raises an error instead of calling a function
                strictly = partial(read, None)
                done = strictly() if described.checks else settling.settled(array, lambda _: strictly(), plan)
            else:
                done = read(bool) if described.checks else settling.settled(array, read, plan)
        except TegulaError as error:
            array.locate(error)
            raise
    if not done:
        REFERENCE.read(array, plan, out)


def write(array: StoredArray, plan: Plan, values: Array) -> None:
    """Write `values`, an array of the plan's ``work_shape``, to the elements that the plan selects.

    Raises
    ------
    CodecError, StoreError
        If a chunk can't be encoded, read or written; the error names it. Other selected chunks may have been written.
    """
    described, offset = array.kernel or _described(array), _offset(array)
    if described is None or offset is None:
        REFERENCE.write(array, plan, values)
        return
    if 0 in plan.work_shape:
        return
    values = _cast(values, array.dtype)
    if not described.checks:
        settling.check_before_write(array, plan)
    try:
        done = described.write(plan, values, offset, config.current().threads, array.keeps_empty)
    except TegulaError as error:
        array.locate(error)
        raise
    if not done:  # the array has become shorter
        REFERENCE.write(array, plan, values)


def create_chunks(array: StoredArray, plan: Plan, values: Array) -> int | None:
    """Store new chunks, each as a whole, and return the number of stored bytes; see `Executor.create_chunks`."""
    described = array.kernel or _described(array)
    if described is None:
        return None
    try:
        return described.create(plan, _cast(values, array.dtype), config.current().threads)
    except TegulaError as error:
        array.locate(error)
        raise


def extend_chunks(rows: Sequence[NewRows], holds: Callable[[], bool]) -> list[int | None]:
    """Add rows to the ends of chunks, and return by how many bytes each has grown; see `Executor.extend_chunks`."""
    described, parts = [], []
    for array, coords, kept, new in rows:
        described.append(known := _with_keys(array))
        if known is not None:
            parts.append((known, coords, kept, np.ascontiguousarray(new, array.fill.dtype)))
    settings = config.current()
    library = executors.choose(settings.executor)
    if not parts or library is None:
        return [None for _ in rows]
    # several threads are faster with files, since they wait at the same time; with small chunks in a store that is
    # written in Python, one thread is faster
    several = rows[0][0].store.local_directory is not None or sum(array.chunk_nbytes for array, *_ in rows) >= _MUCH
    threads = settings.threads if several else 1
    try:
        grown = iter(library.extend(parts, holds, threads))
    except TegulaError as error:
        for array, coords, *_ in rows:
            if error.key == array.key(coords):
                array.locate(error)
        raise
    return [None if known is None else next(grown) for known in described]


def load(array: StoredArray) -> None:
    """Import what reading and writing the array need, so that no other thread has to."""
    if _described(array) is None:
        REFERENCE.load(array)


def may_hold_chunks(array: StoredArray, box: Box) -> bool:
    """Return ``False`` if no chunk of a box is stored as a file; for stores other than local files return ``True``."""
    described = None if array.metadata.dense else _with_keys(array)
    if described is None:
        return True
    try:
        return described.any_stored(box) is not False
    except TegulaError as error:
        array.locate(error)
        raise


def delete_chunks(array: StoredArray, box: Box, holds: Callable[[], bool]) -> bool:
    """Delete the chunks of a box if they are files; return whether all are deleted.

    `holds` is called repeatedly while other writers are locked out; once it returns false, no more are deleted.
    """
    described = None if array.metadata.dense else _with_keys(array)
    if described is None:
        return False
    try:
        return bool(described.delete(box, holds))
    except TegulaError as error:
        array.locate(error)
        raise


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an uninitialised array; a large one reuses the memory of an earlier result if possible."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    library = executors.choose(config.current().executor) if size >= _LARGE and not dtype.hasobject else None
    if library is None:
        return np.empty(shape, dtype)
    made: Array = library.empty(shape, dtype)
    return made


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert values to `dtype` as NumPy's assignment does; broadcast axes stay broadcast."""
    if values.dtype == dtype:
        return values
    single = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in values.strides])
    return np.broadcast_to(values[(..., *single)].astype(dtype), values.shape)


def _offset(array: StoredArray) -> int | None:
    """Return the offset of the selected field in an element; ``None`` if the kernel can't copy what is selected."""
    if array.field is None:
        return 0
    if not isinstance(array.field, str):
        return None
    fields = array.metadata.data_type.numpy.fields
    dtype, offset = fields[array.field][:2] if fields else (array.dtype, 0)
    return None if dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize else int(offset)


def _after_fork() -> None:
    library = sys.modules.get("tegula._kernel")
    if library is not None:
        library.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
