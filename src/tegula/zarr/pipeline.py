"""A codec pipeline of zarr-python that reads and writes with tegula."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from zarr.core.array import create_codec_pipeline
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import cpu
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from tegula import engine, indexing
from tegula.errors import TegulaError
from tegula.zarr.batches import selected
from tegula.zarr.engine_arrays import EngineArray, engine_array, metadata_of, metadata_of_codecs, stack

if TYPE_CHECKING:
    from typing import Self

    from zarr.abc.store import Store

    from tegula.metadata.nodes import ArrayMetadata

__all__ = ["Pipeline"]

T = TypeVar("T")
_QUICK: Final = 2**18  # bytes that take about as long as starting a thread; read or written in the event loop
_PLANS: Final = {"basic": indexing.basic, "orthogonal": indexing.orthogonal, "vectorized": indexing.vectorized}
_KINDS: Final = frozenset("biufcmMSUV")


@dataclass(frozen=True)
class Pipeline(BatchedCodecPipeline):
    """A codec pipeline for zarr-python 3 that reads and writes with tegula, and otherwise does what zarr-python does.

    Once it is set as ``codec_pipeline.path``, all arrays that are opened use it. A selection of an array in a
    `zarr.storage.LocalStore`, `MemoryStore`, `ObjectStore` (reading) or `TegulaStore` is read or written in one call of
    tegula's kernel: chunks in parallel, parts of shards, without Python in between. In other stores zarr-python reads
    and writes the values, and tegula decodes and encodes them. Arrays that the kernel does not support (codecs of your
    own, data types of variable length, memory of a GPU) go to the pipeline of zarr-python itself. So does any operation
    that fails, so that errors are those of zarr-python.

    Examples
    --------
    >>> import tegula.zarr
    >>> import zarr
    >>> with zarr.config.set({"codec_pipeline.path": "tegula.zarr.Pipeline"}):
    ...     a = zarr.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="i2")
    ...     a[1:, 2] = 7
    >>> a[:, 2].tolist()
    [0, 7, 7, 7]
    """

    metadata: Any = field(default=None, compare=False, repr=False)
    store: Any = field(default=None, compare=False, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Store) -> Self:
        """Make the pipeline of an array."""
        made: Any = create_codec_pipeline(array_metadata)  # with codecs that know the data type
        if not isinstance(made, cls):  # another pipeline is set now
            made = cls.from_codecs([*made])
        found: Self = replace(made, metadata=array_metadata, store=store, kept={})
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": {}}

    # --- whole selections

    async def read(self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        """Read chunks into `out`."""
        batch = [*batch_info]
        try:
            if await self._read(batch, out, drop_axes):
                return tuple([{"status": "present"}] * len(batch))
        except (TegulaError, MemoryError):
            pass  # zarr-python finds out what is wrong
        return await super().read(batch, out, drop_axes)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        """Write `value` to chunks."""
        batch = [*batch_info]
        try:
            if await self._write(batch, value, drop_axes):
                return
        except (TegulaError, MemoryError):
            pass  # zarr-python finds out what is wrong
        await super().write(batch, value, drop_axes)

    async def _read(self, batch: Sequence[Any], out: Any, drop_axes: tuple[int, ...]) -> bool:
        """Read with the engine; return whether that was possible."""
        array = self._array(batch, writing=False)
        target = _plain(out)
        if array is None or target is None or not _same_elements(target.dtype, array.dtype):
            return False
        if not getattr(batch[0][1].config, "read_missing_chunks", True):
            return False  # the caller asks which chunks exist
        chosen = selected(batch, array.keys, array.grid, drop_axes)
        stored = None if chosen is None else array.of(chosen)
        if chosen is None or stored is None:
            return False
        plan = _PLANS[chosen.kind](chosen.selection, stored.metadata.shape, array.grid)
        if plan.shape != target.shape:
            return False

        def read() -> None:
            if stored.dtype == target.dtype and plan.work_shape == target.shape and plan.present(target) is target:
                engine.read(stored, plan, target)
                return
            work = engine.empty(plan.work_shape, stored.dtype)
            engine.read(stored, plan, work)
            target[...] = plan.present(work)

        await _run(read, array.is_quick and target.nbytes <= _QUICK)
        return True

    async def _write(self, batch: Sequence[Any], value: Any, drop_axes: tuple[int, ...]) -> bool:
        """Write with the engine; return whether that was possible."""
        array = self._array(batch, writing=True)
        values = _plain(value)
        if array is None or values is None or not _same_elements(values.dtype, array.dtype):
            return False
        chosen = selected(batch, array.keys, array.grid, drop_axes)
        if chosen is None or (chosen.kind != "basic" and not _are_unique(chosen)):
            return False  # if an element has several values, the last one counts
        stored = array.of(chosen, batch[0][1].config.write_empty_chunks)
        if stored is None:
            return False
        plan = _PLANS[chosen.kind](chosen.selection, stored.metadata.shape, array.grid)
        if values.shape not in ((), plan.shape):
            return False
        size = prod(plan.shape) * array.dtype.itemsize
        await _run(lambda: engine.write(stored, plan, plan.arrange(values)), array.is_quick and size <= _QUICK)
        return True

    def _array(self, batch: Sequence[Any], *, writing: bool) -> EngineArray | None:
        """Return the array for the engine, ``None`` if zarr-python has to read or write it."""
        if not batch or self.metadata is None or not _is_plain(batch[0][1]):
            return None
        place = batch[0][0]
        if type(place) is not StorePath or place.store is not self.store or (writing and place.store.read_only):
            return None
        metadata = self._metadata()
        if metadata is None:
            return None
        name = "writing" if writing else "reading"
        known: EngineArray | None = self.kept.get(name)
        if name not in self.kept or (known is not None and not place.path.startswith(known.prefix)):
            known = self.kept[name] = engine_array(metadata, place.store, place.path, writing=writing)
        return known

    def _metadata(self) -> ArrayMetadata | None:
        """Return the array's metadata as tegula reads it, ``None`` if it can't."""
        if "metadata" not in self.kept:
            known = None if self.metadata is None else metadata_of(self.metadata)
            self.kept["metadata"] = known if known is None or _can_swap(known.data_type.numpy) else None
        found: ArrayMetadata | None = self.kept["metadata"]
        return found

    def _described(self, spec: ArraySpec) -> ArrayMetadata | None:
        """Return metadata that fit chunks, also without an array, as for the inner chunks of a shard."""
        if self.metadata is not None:
            return self._metadata()
        try:
            return metadata_of_codecs((*self,), spec.dtype, spec.fill_value)
        except TypeError:  # a codec that is not hashable
            return None

    # --- chunks that zarr-python reads and writes

    async def decode_batch(self, chunk_bytes_and_specs: Iterable[tuple[Any, ArraySpec]]) -> Iterable[Any]:
        """Decode chunks; chunks of one shape are decoded together."""
        batch = [*chunk_bytes_and_specs]
        try:
            done = await self._decode([data for data, _ in batch], [spec for _, spec in batch])
        except (TegulaError, MemoryError):
            done = None
        return await super().decode_batch(batch) if done is None else done

    async def _decode(self, data: list[Any], specs: list[ArraySpec]) -> list[Any] | None:
        present = {number: chunk for number, chunk in enumerate(data) if chunk is not None}
        metadata = self._described(specs[0]) if present else None
        if metadata is None or not _are_alike(specs) or not all(type(chunk) is cpu.Buffer for chunk in data if chunk):
            return None
        shape = specs[0].shape
        values = {_key(row, shape): chunk.to_bytes() for row, chunk in enumerate(present.values())}
        array = stack(metadata, values, len(present), shape)
        if array is None or not _same_elements(array.dtype, specs[0].dtype.to_native_dtype()):
            return None
        nbytes = prod(array.metadata.shape) * array.dtype.itemsize
        work = await _run(lambda: engine.read_part(array, ()), nbytes <= _QUICK)
        whole = work.astype(specs[0].dtype.to_native_dtype(), copy=False)
        parts = dict(zip(present, whole.reshape(len(present), *shape)))
        make = specs[0].prototype.nd_buffer.from_numpy_array
        return [make(parts[number]) if number in parts else None for number in range(len(data))]

    async def encode_batch(self, chunk_arrays_and_specs: Iterable[tuple[Any, ArraySpec]]) -> Iterable[Any]:
        """Encode chunks; chunks of one shape are encoded together."""
        batch = [*chunk_arrays_and_specs]
        try:
            done = await self._encode([chunk for chunk, _ in batch], [spec for _, spec in batch])
        except (TegulaError, MemoryError):
            done = None
        return await super().encode_batch(batch) if done is None else done

    async def _encode(self, chunks: list[Any], specs: list[ArraySpec]) -> list[Any] | None:
        present = {number: _plain(chunk) for number, chunk in enumerate(chunks) if chunk is not None}
        metadata = self._described(specs[0]) if present else None
        if metadata is None or not _are_alike(specs) or metadata.codecs[0].name == "sharding_indexed":
            return None
        shape = specs[0].shape
        values: dict[str, Any] = {}
        array = stack(metadata, values, len(present), shape)
        arrays = [chunk for chunk in present.values() if chunk is not None and chunk.shape == shape]
        if (
            array is None
            or len(arrays) != len(present)
            or not all(_same_elements(chunk.dtype, array.dtype) for chunk in arrays)
        ):
            return None
        plan = indexing.basic((), array.metadata.shape, array.metadata.grid)
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        await _run(lambda: engine.write(array, plan, whole), whole.nbytes <= _QUICK)
        make = specs[0].prototype.buffer.from_bytes
        found = {number: make(values[_key(row, shape)]) for row, number in enumerate(present)}
        return [found.get(number) for number in range(len(chunks))]


def _key(row: int, shape: tuple[int, ...]) -> str:
    """Return the key of a chunk in a stack of chunks."""
    return "/".join(["c", str(row), *["0"] * (len(shape) - 1)]) if shape else "c"


def _are_alike(specs: Sequence[ArraySpec]) -> bool:
    """Return whether chunks can be decoded or encoded together."""
    first = specs[0]
    return _is_plain(first) and all(spec is first or spec == first for spec in specs)


def _is_plain(spec: ArraySpec) -> bool:
    """Return whether chunks are in the memory of this machine, as zarr-python's own buffers."""
    return spec.prototype.nd_buffer is cpu.NDBuffer and spec.prototype.buffer is cpu.Buffer


def _plain(buffer: Any) -> np.ndarray[Any, Any] | None:
    """Return the elements of a buffer, ``None`` unless it is a NumPy array of a plain data type."""
    found = buffer.as_ndarray_like()
    return found if type(found) is np.ndarray and found.dtype.kind in _KINDS and _can_swap(found.dtype) else None


def _can_swap(dtype: np.dtype[Any]) -> bool:
    """Return whether NumPy swaps the bytes of elements correctly, which it does not for times without a unit."""
    return dtype.kind not in "mM" or dtype.isnative or np.datetime_data(dtype)[0] != "generic"


def _same_elements(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether two data types are the same except for their byte order."""
    return one == other or one.newbyteorder("=") == other.newbyteorder("=")


def _are_unique(chosen: Any) -> bool:
    """Return whether no element is selected twice."""
    if chosen.kind == "vectorized":
        return len(np.unique(np.stack(chosen.selection), axis=1).T) == len(chosen.selection[0])
    arrays = [item for item in chosen.selection if isinstance(item, np.ndarray)]
    return all(len(np.unique(item)) == len(item) for item in arrays)


async def _run(work: Callable[[], T], quick: bool) -> T:
    """Call a function: in the event loop if it is quick, otherwise in a thread."""
    return work() if quick else await asyncio.to_thread(work)


Pipeline.__module__ = "tegula.zarr"  # zarr-python knows pipelines by their import path
register_pipeline(Pipeline)
