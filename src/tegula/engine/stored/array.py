"""Stored arrays as the engine sees them: where the chunks are and how they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tegula import config
from tegula.errors import CodecError, StoreError, TegulaError, not_stored, out_of_memory
from tegula.runtime import frozen
from tegula.runtime.deferred import Later
from tegula.stores.capabilities import Anchoring, SizedListing, StateListing, blocked_by, state_in, stored_key

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula._kernel import Array as KernelArray
    from tegula.codecs import CodecChain
    from tegula.engine.concurrency import pool
    from tegula.engine.stored import grid_keys
    from tegula.engine.stored import states as node_states
    from tegula.indexing import Plan
    from tegula.metadata import spacing
    from tegula.metadata.nodes import ArrayMetadata
    from tegula.stores import Store
else:
    spacing = Later("tegula.metadata.spacing")
    grid_keys, pool = Later("tegula.engine.stored.grid_keys"), Later("tegula.engine.concurrency.pool")
    node_states = Later("tegula.engine.stored.states")

__all__ = ["Box", "Executor", "NewRows", "StoredArray", "blocked_chunk", "missing_rule", "physical_memory"]

Array: TypeAlias = "npt.NDArray[Any]"
Box = tuple[tuple[int, int], ...]
"""A box of chunks: the first grid coordinate along each axis, and the one after the last."""
NewRows: TypeAlias = "tuple[StoredArray, tuple[int, ...], int, Array]"
"""Rows for the end of a chunk: its array, its grid coordinates, how many of its rows are kept, and the new rows."""

_FEW = 2**12  # up to this many chunks are always looked up one by one
_LISTED = 2**9  # entries of a listing that are held at a time: of more, Python would look for cycles among them
_LITTLE = 2**26  # bytes of elements that can be visited in the time of a listing
_SHARE = 4  # a lookup takes longer than an entry of a listing


@cache
def physical_memory() -> int:
    """Return the bytes of memory of this machine; 2**48 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**48


def missing_rule(value: object) -> str | None:
    """Return a rule for reads of chunks that are not stored: ``"fill"``, ``"error"``, or ``None`` for the setting.

    Raises
    ------
    MetadataError
        If it is none of these.
    """
    return None if value is None else config.check_missing_chunks(value)


def fills_missing(rule: str | None = None) -> bool:
    """Return whether reads use the fill value for chunks that are not stored: by a rule, or by the setting."""
    return (rule or config.current().missing_chunks) == "fill"


class Executor(Protocol):
    """A module that carries out reads and writes of stored arrays: `reference` or `kernel`.

    Both give the same results. Callers use `tegula.engine.read` and `write`, which also handle arrays whose length
    changes during the operation. Only `get` and `set` are called directly; they make the plan themselves.
    """

    def get(self, array: StoredArray, selection: Any, /) -> Any:
        """Read a selection of ints, slices and an ellipsis; return ``None`` if the caller has to make the plan."""

    def set(self, array: StoredArray, selection: Any, values: Any, /) -> bool:
        """Write an array to a selection of ints and slices; return ``False`` if the caller has to make the plan."""

    def read(self, array: StoredArray, plan: Plan, out: Array, /) -> None:
        """Fill `out`, a buffer of the plan's ``work_shape``, with the selected elements."""

    def write(self, array: StoredArray, plan: Plan, values: Array, /) -> None:
        """Write `values`, an array of the plan's ``work_shape``, to the elements that the plan selects."""

    def create_chunks(self, array: StoredArray, plan: Plan, values: Array, /) -> int | None:
        """Store the whole chunks that a plan selects, on condition that none of them exists, and return their bytes.

        Returns ``None`` if the caller has to create them one by one. Raises `ConflictError` if a chunk exists; others
        may have been stored then.
        """

    def extend_chunks(self, rows: Sequence[NewRows], holds: Callable[[], bool], /) -> list[int | None]:
        """Add rows to the ends of chunks, and return by how many bytes each stored chunk has grown.

        All chunks are read first. Then `holds` is called, and if it returns true, each chunk is stored on condition
        that it has not changed since it was read. The result is ``None`` where the caller has to store the chunk; a
        `ConflictError` is raised if `holds` returns false or a chunk has changed.
        """

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], /) -> Array:
        """Make an uninitialised array for a result."""

    def load(self, array: StoredArray, /) -> None:
        """Import what reading and writing the array need, so that no other thread has to."""

    def may_hold_chunks(self, array: StoredArray, box: Box, /) -> bool:
        """Return ``False`` if it is known cheaply that no chunk of a box is stored, otherwise ``True``."""

    def delete_chunks(self, array: StoredArray, box: Box, holds: Callable[[], bool], /) -> bool:
        """Delete the chunks of a box as long as `holds` returns true; return whether all are deleted."""


class StoredArray(frozen.Frozen):
    """An array as the engine reads and writes it; everything is looked up once, when the array is opened.

    Parameters
    ----------
    store : Store
        Where the chunks are.
    prefix : str
        The prefix of each key: ``""`` or the node's path and ``/``.
    metadata : ArrayMetadata
        The array's description.
    chain : CodecChain
        Its codecs.
    fill : 0-d ndarray
        The fill value of missing chunks; zeros where the format leaves it undefined.
    chunk_nbytes : int
        Bytes of the largest chunk in memory.
    document : str or None
        Key of the document without which the array does not exist; ``None`` if it was opened without one.
    executor : Executor
        The executor that reads and writes it.
    write_empty : bool or None
        Whether chunks equal to the fill value are stored; ``None`` for the setting of `tegula.config`.
    field : str or list of str, optional
        The fields of a structured type that an operation reads or writes.
    shared : dict
        The kernel's object for the store and the store for writing, shared by all copies of this object.
    missing_chunks : str or None
        What a read of a chunk that is not stored gives, ``"fill"`` or ``"error"``; ``None`` for the setting.

    Attributes
    ----------
    kernel : tegula._kernel.Array or None
        The kernel's description of the array, made by `tegula.engine.reading.kernel` at the first use.
    changes : int or None
        The `changes` of a store in memory at the last read that found the document unchanged, and no shorter array.
    key_template : str
        A format string that turns grid coordinates into the key of a chunk; ``""`` if the format has no key.
    one_shape : tuple of int or None
        The shape of all chunks, if they have one and it is known without their bytes.
    is_plain : bool
        Whether elements are copied between a chunk and a result by assignment: neither objects nor structures.
    """

    store: Store
    prefix: str
    metadata: ArrayMetadata
    chain: CodecChain
    fill: npt.NDArray[Any]
    chunk_nbytes: int
    document: str | None
    executor: Executor = frozen.field(compare=False, repr=False)
    write_empty: bool | None = None
    field: str | list[str] | None = None
    shared: dict[str, Any] = frozen.field(default_factory=dict, compare=False, repr=False)
    missing_chunks: str | None = None
    kernel: KernelArray | None = frozen.field(default=None, init=False, compare=False, repr=False)
    changes: int | None = frozen.field(default=None, init=False, compare=False, repr=False)
    key_template: str = frozen.field(default="", init=False, compare=False, repr=False)
    one_shape: tuple[int, ...] | None = frozen.field(default=None, init=False, compare=False, repr=False)
    is_plain: bool = frozen.field(default=False, init=False, compare=False, repr=False)

    def look_up(self) -> None:
        """Look up `key_template`, `one_shape` and `is_plain`, before the first chunk is read."""
        metadata, dtype = self.metadata, self.fill.dtype
        object.__setattr__(self, "one_shape", None if metadata.dense else metadata.grid.one_shape)
        object.__setattr__(self, "is_plain", self.field is None and dtype.names is None and not dtype.hasobject)
        object.__setattr__(self, "key_template", metadata.keys.template(metadata.ndim, self.prefix))

    def with_metadata(self, metadata: ArrayMetadata) -> StoredArray:
        """Return the array with other metadata that has the same chunks, which need not be looked up again."""
        made = frozen.replace(self, metadata=metadata)
        kept = ("one_shape", "is_plain", "key_template") if self.key_template else ()
        # the kernel's description says nothing about attributes
        for name in (*kept, "kernel") if metadata.shape == self.metadata.shape else kept:
            object.__setattr__(made, name, getattr(self, name))
        return made

    @property
    def target(self) -> Store:
        """The store for writing chunks, which makes no directory for an array whose document has been deleted."""
        of, target = self.shared.get("target", (None, None))
        if of is not self.store:
            target = self.store
            if self.document is not None and not target.read_only and isinstance(target, Anchoring):
                target = target.anchored(self.document)
            self.shared["target"] = self.store, target
        same: Store = target
        return same

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements that an operation reads or writes."""
        dtype = self.metadata.data_type.numpy
        if self.field is None:
            return dtype
        selected = dtype[self.field]
        return selected if isinstance(self.field, str) else np.dtype([(n, selected[n]) for n in self.field])

    @property
    def steps(self) -> tuple[spacing.Step, ...] | None:
        """Where the elements lie along each axis, ``None`` if the attributes do not say."""
        metadata = self.metadata
        return spacing.stated_steps(metadata.attributes, metadata.ndim, fastest_first=metadata.keys.is_reversed)

    @property
    def keeps_empty(self) -> bool:
        """``True`` if chunks equal to the fill value are stored; always if it is undefined, and may be any value."""
        return self.metadata.fill_value is None or self.stores_every_chunk

    @property
    def stores_every_chunk(self) -> bool:
        """``True`` if an array that is filled has no missing chunks; always if the store has no conditional delete."""
        if self.metadata.dense or not self.store.conditional_delete:
            return True
        return config.current().write_empty_chunks if self.write_empty is None else self.write_empty

    @property
    def is_strict(self) -> bool:
        """``True`` if reads must not use the fill value for chunks, or inner chunks of shards, that are not stored."""
        return not fills_missing(self.missing_chunks)

    def absent(self, *around: tuple[int, ...]) -> Array:
        """Return what a read gives for each element of a chunk that is not stored: the fill value.

        `around` are the coordinates of the chunk, or those of a shard and of an inner chunk in it.

        Raises
        ------
        NotFoundError
            If the fill value must not be used.
        """
        if self.is_strict and (key := self.key(around[0])):
            error = not_stored(around)
            self.locate(error, key)
            raise error
        return self.fill if self.field is None else self.fill[self.field]

    def key(self, coords: tuple[int, ...]) -> str:
        """Return the store's key of a chunk; ``""`` if the format has none, as for a 0-d array of Zarr v1."""
        if not self.key_template:
            self.look_up()
        return self.key_template.format(*coords)

    def stored_shape(self, coords: tuple[int, ...], data: bytes | None) -> tuple[int, ...]:
        """Return the shape that the bytes of a chunk hold; for a missing chunk, the shape it must have.

        Raises
        ------
        CodecError
            If the chunk has fewer rows than the array needs.
        """
        shape = self.metadata.grid.chunk_shape(coords)
        if not self.metadata.dense:
            return shape
        least = min(shape[0], self.metadata.shape[0] - coords[0] * shape[0])
        rows = least if data is None else self.chain.rows(data, shape)
        if rows < least:
            raise CodecError(f"there are {rows} rows where the array has {least}")
        return (rows, *shape[1:])

    @property
    def node(self) -> node_states.Document | None:
        """The document that describes the array, with its state; ``None`` if it was opened without one."""
        document: node_states.Document | None = self.shared.get("node")
        if document is None and self.document:
            made = node_states.Document(
                self.prefix,
                self.metadata,
                self.document,
                self.shared.get("opened_at") or node_states.REPLACEMENTS.now(),
            )
            document = self.shared.setdefault("node", made)
        return document

    def created(self) -> None:
        """Take the node that is stored now for the array, since this process has just created it."""
        self.shared["opened_at"] = node_states.REPLACEMENTS.now()
        self.shared.pop("node", None)

    def with_store(self, store: Store) -> StoredArray:
        """Return the array in a view of its store."""
        made = frozen.replace(self, store=store)
        for name in ("one_shape", "is_plain", "key_template") if self.key_template else ():
            object.__setattr__(made, name, getattr(self, name))
        return made

    def check_exists(self) -> None:
        """Check that the array still exists and has not been replaced: its absent chunks hold the fill value.

        Raises
        ------
        NotFoundError
            If its document has been deleted, or describes another array.
        """
        if (node := self.node) is not None:
            node.look(self.store)

    def locate(self, error: TegulaError, key: str | None = None) -> None:
        """Add the array's URL and a key to an error that lacks them."""
        error.within(path=f"{self.store.url}/{self.prefix}".rstrip("/"), key=key)
        if error.key is not None:
            error.key = stored_key(self.store, error.key)

    def out_of_memory(self, error: MemoryError) -> StoreError:
        """Return the error for an operation that ran out of memory."""
        made = out_of_memory(error)
        self.locate(made)
        return made

    @property
    def chunk_prefix(self) -> str:
        """The longest common prefix of all chunk keys that ends in ``/``, or ``""``."""
        keys = self.metadata.keys
        # the one chunk of a 0-d array is beside the documents
        return self.prefix + (keys.prefix[: keys.prefix.rfind("/") + 1] if self.metadata.ndim else "")

    def is_sparse(self, number: int, nbytes: int = 0) -> bool:
        """Return whether far fewer than `number` chunks are stored, so that a listing costs less than `number` lookups.

        At most a quarter of `number` keys are listed. Nothing is listed if the format stores every chunk, if missing
        chunks are an error, or if `number` and the `nbytes` of elements that would be visited are small.

        Raises
        ------
        UnsupportedError
            If the store can't be listed, and `number` is larger than ``max_chunks``.
        """
        if not self.store.listable:
            grid_keys.check_amount(self.store, self.prefix, number)
            return False
        if (number <= _FEW and nbytes <= _LITTLE) or self.metadata.dense:
            return False
        if self.is_strict:
            return False
        most = min(number // _SHARE, sys.maxsize)
        return next(islice(self.stored_chunks(), most, None), None) is None

    def stored_chunks(self, *, is_planned: bool = False) -> Iterator[tuple[tuple[int, ...], str]]:
        """Yield grid coordinates and key of each chunk that has a value, in no particular order.

        If the store can't be listed, chunks outside the grid are not found. Where an array is only planned, what stands
        in the place of a directory of chunks is not refused: it may be a chunk of the one that it replaces.
        """
        if not self.store.listable:
            yield from grid_keys.stored_in_grid(self.store, self.prefix, self.metadata)
            return
        keys, key = self.metadata.keys, ""
        for key in self.store.list_prefix(self.chunk_prefix):
            coords = keys.decode(key[len(self.prefix) :], self.metadata.ndim)
            if coords is not None:
                yield coords, key
            elif not is_planned:
                self._refuse_blocker(key)
        if not key and not is_planned:
            self._refuse_blocker()

    def sized_chunks(self, *, is_planned: bool = False) -> Iterator[tuple[tuple[int, ...], str, int]]:
        """Yield what `stored_chunks` does, and the length of each value in bytes."""
        if isinstance(self.store, SizedListing) and self.store.listable:
            keys, ndim, key = self.metadata.keys, self.metadata.ndim, ""
            for key, nbytes in self.store.list_sizes(self.chunk_prefix):
                if (coords := keys.decode(key[len(self.prefix) :], ndim)) is not None:
                    yield coords, key, nbytes
                elif not is_planned:
                    self._refuse_blocker(key)
            if not key and not is_planned:
                self._refuse_blocker()
            return
        chunks = self.stored_chunks(is_planned=is_planned)
        while some := [*islice(chunks, _FEW)]:
            sizes = pool.gather(self.store.size, [key for _, key in some], self.store.concurrency)
            yield from ((coords, key, size) for (coords, key), size in zip(some, sizes) if size is not None)

    def chunk_states(self, *, is_planned: bool = False) -> Iterator[tuple[Any, Sequence[int], Sequence[int]]]:
        """Yield the grid coordinates of some stored chunks, their lengths and their states, in no particular order.

        A state is a number below 2**64, another one whenever the value is; 0 if it is not known. Stores whose
        listings have no states are asked for generations, if these do not take the value itself, else for values.
        """
        store, keys, ndim = self.store, self.metadata.keys, self.metadata.ndim
        if isinstance(store, StateListing) and store.listable:
            listed, names = store.list_states(self.chunk_prefix), ()
            while entries := [*islice(listed, _LISTED)]:
                columns: Any = zip(*entries)
                names, sizes, states = columns
                coords: Any = keys.decode_many(names, ndim, self.prefix)
                if coords is None:  # some are no chunks
                    every = [keys.decode(key[len(self.prefix) :], ndim) for key in names]
                    for key in [key for key, one in zip(names, every) if one is None and not is_planned]:
                        self._refuse_blocker(key)
                    coords = [one for one in every if one is not None]
                    sizes = [size for one, size in zip(every, sizes) if one is not None]
                    states = [state for one, state in zip(every, states) if one is not None]
                yield coords, sizes, states
            if not names and not is_planned:
                self._refuse_blocker()
            return
        chunks = self.stored_chunks(is_planned=is_planned)
        while some := [*islice(chunks, _FEW)]:
            answers = pool.gather(partial(state_in, store), [key for _, key in some], store.concurrency)
            found = [(coords, *state) for (coords, _), state in zip(some, answers) if state is not None]
            yield [coords for coords, _, _ in found], [size for _, size, _ in found], [state for _, _, state in found]

    def _refuse_blocker(self, key: str = "") -> None:
        """Refuse a key, not of a chunk, whose value stands in the place of a directory of chunks.

        Without a key, nothing is listed; then it is that of the directory which holds all chunks.

        Raises
        ------
        StoreError
            If it does: none of them can be read, so they are not simply missing.
        """
        found = blocked_chunk(self.store, self.prefix, self.metadata, key or self.chunk_prefix.removesuffix("/"))
        if found is not None:
            raise StoreError(f"chunks can't be listed: {found[1]}", path=self.store.url, key=found[0])

    def amount_stored(self) -> tuple[int, int]:
        """Count the stored chunks (shards, if there are any) and their bytes, by listing the store."""
        count = size = 0
        for _, _, nbytes in self.sized_chunks():
            count, size = count + 1, size + nbytes
        return count, size


def blocked_chunk(store: Store, prefix: str, metadata: ArrayMetadata, key: str) -> tuple[str, str] | None:
    """Return the key of a chunk in whose way a value with `key` stands, and how; ``None`` if there is none."""
    below = (key + "/0" * number for number in range(1, metadata.ndim + 1))
    chunk = next((one for one in below if metadata.keys.decode(one[len(prefix) :], metadata.ndim) is not None), None)
    cause = None if chunk is None else blocked_by(store, chunk)
    return None if chunk is None or cause is None else (chunk, cause)
