"""Arrays of any format shown as Zarr v3 with elements of another type, for programs that know few types.

Complex numbers can't be cast to one number; they are shown as magnitude, phase, or real or imaginary part.

If the array has shards, their inner chunks are shown as chunks, since each chunk is computed on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.arrays.array import Array
from tegula.errors import TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis, regular_grid
from tegula.metadata.chunk_keys import default_keys
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType
from tegula.metadata.masks import with_mask
from tegula.metadata.nodes import ArrayMetadata, CodecSpec
from tegula.stores import MemoryStore
from tegula.zarr3_view.nodes import quick_compressors

__all__ = ["CASTS", "PARTS", "CastArray", "cast", "suggested_cast"]

CASTS: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float32 float64".split()
}
"""The types that elements can be cast to, by name."""
PARTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "magnitude": np.abs,
    "phase": np.angle,
    "real": np.real,
    "imaginary": np.imag,
}
"""The parts of complex numbers that are numbers, by name."""

_ZARR3: Final = find_format("zarr3")
_SECONDS: Final = {
    "W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12,
    "fs": 1e-15, "as": 1e-18,
}  # fmt: skip
_PIECE: Final = 2**20  # elements that are cast at once
_SMALL: Final = 2**24  # bytes of a chunk that is read at once


def cast(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert elements to another type; values beyond its range become its smallest or largest value.

    Times become seconds; dates are counted from 1970. NaN becomes 0 in an integer type, NaT becomes NaN.

    Raises
    ------
    UnsupportedError
        If elements of this kind can't be cast to it.

    Examples
    --------
    >>> cast(np.array([1.5, np.nan, 1e30, -7]), np.dtype("u1"))
    array([  1,   0, 255,   0], dtype=uint8)
    >>> cast(np.array(["1970-01-02", "NaT"], "M8[D]"), np.dtype("f8"))
    array([86400.,    nan])
    """
    kind = values.dtype.kind
    if kind in "Mm":
        values = _seconds(values, dtype)
    elif values.dtype in EXTENDED_DTYPES:
        values = values.astype("i8" if "int" in values.dtype.name else "f8")
    elif kind not in "biuf":
        raise UnsupportedError(f"elements of the type {values.dtype} can't be cast to {dtype}")
    if dtype.kind == "f" or values.dtype.kind == "b":
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype)
    limits = np.iinfo(dtype)
    if values.dtype.kind != "f":
        own = np.iinfo(values.dtype)
        return values.clip(max(limits.min, own.min), min(limits.max, own.max)).astype(dtype)
    # the largest integers have no exact form as floats, so clipping alone is not enough
    wide = values.astype("f8")
    low, high = wide <= limits.min, wide >= limits.max
    result = np.where(low | high | np.isnan(wide), 0.0, wide).astype(dtype)
    result[low], result[high] = limits.min, limits.max
    return result


def _seconds(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return dates as seconds since 1970, and durations as seconds."""
    unit, count = np.datetime_data(values.dtype)
    if dtype.kind != "f":
        raise UnsupportedError(f"times can be cast to float32 and float64, not to {dtype}")
    if values.dtype.kind == "M" and unit in "YM":
        values, unit, count = values.astype("M8[D]"), "D", 1
    if unit not in _SECONDS:
        raise UnsupportedError(f"durations in the unit {unit!r} can't be cast to seconds")
    found = values.astype("i8") * (_SECONDS[unit] * count)
    found[np.isnat(values)] = np.nan
    return found


def suggested_cast(data_type: DataType) -> str | None:
    """Return the type in which a program limited to 32-bit numbers can show the elements; ``None`` if there is none.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> [suggested_cast(as_data_type(name)) for name in ("f8", "i8", "?", "M8[s]", "u2", "U3")]
    ['float32', 'int32', 'uint8', 'float64', 'uint16', None]
    """
    dtype = data_type.numpy
    if data_type.variable or dtype.names is not None:
        return None
    if dtype in EXTENDED_DTYPES:
        return "int8" if "int" in dtype.name else "float32"
    if dtype.kind in "Mm":
        unit = np.datetime_data(dtype)[0]
        return "float64" if unit in _SECONDS or (dtype.kind == "M" and unit in "YM") else None
    if dtype.kind == "f":
        return "float32"
    if dtype.kind == "b":
        return "uint8"
    if dtype.kind in "iu":
        return f"{'u' if dtype.kind == 'u' else ''}int{8 * min(4, dtype.itemsize)}"
    return None


class CastArray:
    """An array shown with elements of another type: its document in Zarr v3, and its chunks.

    Parameters
    ----------
    array : Array
        The array.
    name : str
        A name in `CASTS` or `PARTS`.

    Attributes
    ----------
    described : ArrayMetadata
        Its description in Zarr v3.
    document : bytes
        Its ``zarr.json``.

    Raises
    ------
    UnsupportedError
        If there is no such type, or elements of this kind can't be cast to it.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, chunks=2, dtype="f8", format="zarr2")
    >>> shown = CastArray(a, "float32")
    >>> shown.described.data_type.numpy, shown.coords("c/1"), shown.stored_key((1,))
    (dtype('float32'), (1,), '1')
    """

    def __init__(self, array: Array, name: str) -> None:
        self.array = array
        self.name = name
        self.dtype, self._convert = _conversion(array, name)
        self.described = _described(array, self.dtype, self._convert)
        self.document: bytes = _ZARR3.serialize(self.described)["zarr.json"]

    @cached_property
    def _chain(self) -> Any:
        return engine.stored_array(self.array.store, self.array.path, self.described, document="").chain

    def coords(self, key: str) -> tuple[int, ...] | None:
        """Return the coordinates of a chunk by its key below the array, ``None`` if the grid has no such chunk."""
        found = self.described.keys.decode(key, self.array.ndim)
        if found is None or any(at >= most for at, most in zip(found, self._grid.counts(self.array.shape))):
            return None
        return found

    @property
    def _grid(self) -> ChunkGrid:
        return self.described.grid

    def stored_key(self, coords: tuple[int, ...]) -> str:
        """Return the key of the stored value that holds a chunk."""
        outer = self.array.metadata.grid
        starts = (axis.start(number) for axis, number in zip(self._grid.axes, coords))
        return self.array.stored.key(tuple(axis.locate(start) for axis, start in zip(outer.axes, starts)))

    def _with(self, key: str, data: bytes) -> Array:
        """Return the array as it is, but with one stored value that is in memory and no others."""
        array = self.array
        documents = {f"{array.stored.prefix}{name}": raw for name, raw in array.metadata.documents.items()}
        store = _Values({**documents, key: data}, array.store.url)
        return Array(engine.stored_array(store, array.path, array.metadata), array.path, read_only=True)

    def _decoded(self, coords: tuple[int, ...], data: bytes, region: tuple[slice, ...]) -> npt.NDArray[Any] | None:
        """Decode a region that is a whole stored chunk, as most are; ``None`` if it is not, or the codecs can't."""
        stored, shape = self.array.stored, self._grid.chunk_shape(coords)
        if stored.metadata.grid != self._grid or tuple(s.stop - s.start for s in region) != shape:
            return None
        try:
            return stored.chain.decode(data, shape) if stored.stored_shape(coords, data) == shape else None
        except UnsupportedError:
            return None
        except TegulaError as error:
            stored.locate(error, self.stored_key(coords))
            raise

    @property
    def is_read_whole(self) -> bool:
        """Whether a chunk is best made from all of the stored value, so that no writer can come between."""
        stored = self.array.stored
        return stored.chain.sharding is None and stored.chunk_nbytes <= _SMALL

    def chunk(self, coords: tuple[int, ...], data: bytes | None = None) -> bytes:
        """Read a chunk, cast it and encode it.

        Parameters
        ----------
        coords : tuple of int
            Its coordinates in the grid that is shown.
        data : bytes, optional
            The stored value that holds it; by default the chunk is read from the store.

        Raises
        ------
        CodecError, StoreError
            If it can't be read.
        """
        full = self._grid.chunk_shape(coords)
        region = self._grid.region(coords, self.array.shape)
        part = None if data is None else self._decoded(coords, data, region)
        if part is None:
            array = self.array if data is None else self._with(self.stored_key(coords), data)
            part = np.asarray(array[region])
        whole = np.empty(full, self.dtype)
        if part.shape != full:
            whole[...] = self.described.fill_value
        there: tuple[Any, ...] = (*map(slice, part.shape), ...)
        inside = whole[there]
        # in pieces, since casting takes several times the memory of the elements
        for piece in _pieces(part.shape):
            inside[piece] = self._convert(part[piece])
        del part
        return bytes(self._chain.encode(whole))


def _conversion(array: Array, name: str) -> tuple[np.dtype[Any], Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]:
    """Return the type that a name stands for, and a function that converts elements to it."""
    if name in PARTS:
        own = array.metadata.data_type.numpy
        if own.kind != "c":
            raise UnsupportedError(f"only complex numbers have a {name}, not {own}", path=array.path)
        dtype, part = CASTS["float32" if own.itemsize == 8 else "float64"], PARTS[name]
        return dtype, lambda values: np.asarray(part(values), dtype)
    if name not in CASTS:
        names = ", ".join((*CASTS, *PARTS))
        raise UnsupportedError(f"elements can be cast to {names}, not to {name!r:.40}", path=array.path)
    return CASTS[name], partial(cast, dtype=CASTS[name])


class _Values(MemoryStore):
    """Some values of another store, which errors name."""

    def __init__(self, contents: Mapping[str, bytes], url: str) -> None:
        super().__init__(contents)
        self._url = url

    @property
    def url(self) -> str:
        """The URL of the other store."""
        return self._url


def _pieces(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield selections that divide an array of a shape into boxes of bounded size."""
    inner = next(axis for axis in range(len(shape) + 1) if prod(shape[axis:]) <= _PIECE)
    if not inner:
        yield (...,)
        return
    step = max(1, _PIECE // max(1, prod(shape[inner:])))
    for outer in np.ndindex(shape[: inner - 1]):
        for start in range(0, shape[inner - 1], step):
            yield (*outer, slice(start, start + step), ...)


def _described(
    array: Array, dtype: np.dtype[Any], convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> ArrayMetadata:
    """Describe the array that is shown."""
    metadata = array.metadata
    if metadata.data_type.variable or metadata.data_type.numpy.names is not None:
        raise UnsupportedError(f"elements of the type {metadata.data_type} can't be cast to {dtype}", path=array.path)
    metadata = with_mask(metadata, find_format(metadata.format).mask)
    sharding = array.stored.chain.sharding
    fill = convert(array.stored.fill.reshape(1)).reshape(())
    if dtype.kind == "f" and np.isnan(fill):
        fill = np.array(np.nan, dtype)  # without a payload, which few programs know how to read
    codecs = (CodecSpec("bytes", {"endian": "little"}), *quick_compressors(DataType(dtype)))
    return _ZARR3.adapt(
        replace(
            metadata,
            data_type=DataType(dtype),
            grid=_plain_grid(metadata) if sharding is None else regular_grid(sharding.inner_shape),
            keys=default_keys(),
            codecs=codecs,
            fill_value=fill,
            attributes=_with_units(metadata),
            format=_ZARR3.name,
            dense=False,
            documents={},
            extra={},
        )
    )


def _plain_grid(metadata: ArrayMetadata) -> ChunkGrid:
    """Return the grid of an array; a regular one if only the last chunks are shorter, which all programs know."""
    grid = metadata.grid
    if grid.is_regular:
        return grid
    lengths = grid.largest_chunk()
    for axis, size, length in zip(grid.axes, metadata.shape, lengths):
        if isinstance(axis, VaryingAxis) and not {length}.issuperset(axis.edges[: max(0, axis.count(size) - 1)]):
            return grid
    return regular_grid(lengths)


def _with_units(metadata: ArrayMetadata) -> Mapping[str, Any]:
    """Return the attributes; for times with CF's ``units``, which say what the numbers are."""
    kind = metadata.data_type.numpy.kind
    if kind not in "Mm" or "units" in metadata.attributes:
        return metadata.attributes
    return {**metadata.attributes, "units": "seconds since 1970-01-01T00:00:00" if kind == "M" else "seconds"}
