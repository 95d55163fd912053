"""Arrays as lazy variables of xarray, with attributes and encoding as the engine ``zarr`` has them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from inspect import signature
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xarray import Variable
from xarray.backends import BackendArray
from xarray.backends.zarr import encode_zarr_variable
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from tegula.arrays.array import Array
from tegula.arrays.codec_parts import serializer_of
from tegula.errors import UnsupportedError
from tegula.formats import find_format
from tegula.metadata.conventions import FILL, fill_of, fill_of_attribute
from tegula.metadata.spacing import Step
from tegula.runtime.optional import library
from tegula.runtime.quantities import is_finite

__all__ = ["HAS_STRING_DTYPE", "LazyArray", "coordinates_of", "variable_of"]

HAS_STRING_DTYPE: Final = "zarr_format" in signature(encode_zarr_variable).parameters
"""Whether this version of xarray stores NumPy's ``StringDType``; earlier ones take strings as objects."""

_MOST: Final = 2**22  # elements of a coordinate, which xarray has in memory
_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"


class LazyArray(BackendArray):
    """An array that xarray reads when its elements are needed.

    It keeps the shape that the array had when it was opened: if other processes have made the array longer since, the
    new part is not seen.

    Parameters
    ----------
    array : Array
        The stored array.
    """

    __slots__ = ("_array", "_view", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._array = array
        self._view = array.lazy
        self.shape = self._view.shape
        self.dtype = _dtype(array)

    def get_array(self) -> Array:
        """Return the stored array."""
        return self._array

    def __getitem__(self, key: Any) -> Any:
        array = self._array
        if isinstance(key, indexing.VectorizedIndexer):
            part = self._view.vindex[key.tuple]
        elif isinstance(key, indexing.OuterIndexer):
            part = self._view.oindex[key.tuple]
        else:
            part = self._view[key.tuple] if key.tuple else self._view
        found = part[()]
        if array.metadata.data_type.variable == "string" and array.fill_value is None:
            found = _stated(found)
        if array.metadata.data_type.variable or np.ndim(found) == 0 or self.dtype != array.dtype:
            return _converted(found, self.dtype)
        return found

    async def async_getitem(self, key: Any) -> Any:
        """Read in a thread."""
        return await asyncio.to_thread(self.__getitem__, key)


def _dtype(array: Array) -> np.dtype[Any]:
    if array.metadata.data_type.variable == "string":
        text = getattr(np.dtypes, "StringDType", None) if HAS_STRING_DTYPE else None
        made: np.dtype[Any] = create_vlen_dtype(str) if text is None else text()
        return made
    if array.dtype.names is not None or array.dtype.kind == "U":  # xarray can't change the byte order of these
        return array.dtype.newbyteorder("=")
    return array.dtype


def _stated(found: Any) -> npt.NDArray[Any]:
    """Return text that is not stored, and of no value that Zarr v2 states, as empty."""
    texts = np.asarray(found, object)
    nothing: Any = None
    return np.where(np.equal(texts, nothing), "", texts)


def _converted(found: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return elements of variable length, and single elements, as an array."""
    if dtype.kind == "O" and not isinstance(found, np.ndarray):
        boxed = np.empty((), dtype)
        boxed[()] = found
        return boxed
    return np.asarray(found).astype(dtype, copy=False)


def variable_of(array: Array, dims: tuple[str, ...], mask: bool | None = None) -> Variable:
    """Return a lazy variable for an array, still encoded.

    Parameters
    ----------
    array : Array
        The stored array.
    dims : tuple of str
        Names of its dimensions.
    mask : bool, optional
        Whether the fill value marks missing elements; by default in Zarr v2, in arrays with names for their dimensions.

    Examples
    --------
    >>> import tegula
    >>> variable = variable_of(tegula.create_array({}, shape=4, chunks=3, dtype="i2"), ("x",))
    >>> variable.dims, variable.encoding["chunks"], variable.encoding["preferred_chunks"]
    (('x',), (3,), {'x': 3})
    """
    lazy = LazyArray(array)
    attributes = _attributes(array, mask)
    encoding = _encoding(array, lazy.dtype, dims)
    if array.format == "zarr3" and not mask:
        encoding["fill_value"] = array.fill_value
    return Variable(dims, indexing.LazilyIndexedArray(lazy), attributes, encoding)


def coordinates_of(
    arrays: Mapping[str, Array], dims: Mapping[str, tuple[str, ...]], taken: Collection[str]
) -> dict[str, Variable]:
    """Return coordinates for the dimensions along which attributes of the arrays say where the elements lie.

    Parameters
    ----------
    arrays : mapping of str to Array
        The arrays of a data set.
    dims : mapping of str to tuple of str
        The names of their dimensions.
    taken : collection of str
        Names that no coordinate may have.

    Examples
    --------
    >>> import tegula
    >>> units = {"dimension_units": ["0.5 s", "4 nm"]}
    >>> a = tegula.create_array({}, shape=(2, 3), dtype="u1", dimension_names=["t", "x"], attributes=units)
    >>> {name: (found.values, found.attrs) for name, found in coordinates_of({"a": a}, {"a": ("t", "x")}, ()).items()}
    {'t': (array([0. , 0.5]), {'units': 's'}), 'x': (array([0., 4., 8.]), {'units': 'nm'})}
    """
    stated: dict[str, set[tuple[int, Step]]] = {}
    for name, array in arrays.items():
        steps = array.stored.steps or ()
        for dim, own, size, step in zip(dims[name], array.dimension_names or (), array.shape, steps):
            if dim != own or dim in taken or not step.unit:
                continue
            if size <= _MOST and is_finite(step.start + step.length * size):
                stated.setdefault(dim, set()).add((size, step))
    found = {}
    for dim, several in stated.items():
        if len(several) == 1:
            ((size, step),) = several
            found[dim] = Variable((dim,), step.start + step.length * np.arange(size, dtype="f8"), {"units": step.unit})
    return found


def _attributes(array: Array, mask: bool | None) -> dict[str, Any]:
    """Return the attributes in the form that xarray decodes, without those that name dimensions."""
    attributes = array.attrs.asdict()
    portable = find_format(array.format).portable_attributes
    if portable is not None:
        attributes = dict(portable(array.metadata))
    if array.format != "zarr3":
        attributes = {
            name: value
            for name, value in attributes.items()
            if not (name == _DIMENSIONS and array.dimension_names is not None) and not name.lower().startswith("_nc")
        }
    # values that mark missing elements, in the type of the elements and not as JSON has them
    attributes.pop(FILL, None)
    way = "fill_value" if mask else "attribute"
    fill = array.conventions.fill if mask is None else fill_of(array.metadata, way)
    if fill is not None and array.dtype.kind not in "mM":
        attributes[FILL] = fill[()]
    missing = fill_of_attribute(attributes.get("missing_value"), array.metadata.data_type)
    if missing is not None:
        attributes["missing_value"] = missing[()]
    return attributes


def _encoding(array: Array, dtype: np.dtype[Any], dims: tuple[str, ...]) -> dict[str, Any]:
    stored = array.chunks if array.shards is None else array.shards
    encoding: dict[str, Any] = {
        "chunks": tuple(_length(item, size) for item, size in zip(array.chunks, array.shape)),
        # whole stored values: a shard that two tasks need is read twice
        "preferred_chunks": dict(zip(dims, (_length(item, size) for item, size in zip(stored, array.shape)))),
    }
    if array.format == "zarr3":
        encoding |= {
            "compressors": array.compressors,
            "filters": array.filters,
            "serializer": serializer_of(array.metadata),
        }
    elif array.format == "zarr2":
        encoding |= {"compressors": _numcodecs(array.compressors), "filters": _numcodecs(array.filters)}
    if array.format in ("zarr3", "zarr2"):  # other formats have no codecs that a new array could take unchanged
        encoding["shards"] = array.shards
    if dtype.kind == "T":
        encoding["dtype"] = dtype
    return encoding


def _length(item: Any, size: int) -> Any:
    """Return the length of chunks along an axis; if lengths differ, a tuple of those within `size`."""
    if not isinstance(item, tuple):
        return item
    inside: list[int] = []
    for edge in item:
        inside.append(min(edge, size - sum(inside)))
        if sum(inside) == size:
            break
    if len({*inside[:-1]}) <= 1 and inside[-1] <= inside[0]:
        return inside[0]
    return tuple(inside)


def _numcodecs(codecs: tuple[dict[str, Any], ...]) -> tuple[Any, ...]:
    """Return codecs of Zarr v2 as numcodecs objects, which zarr-python requires; unchanged if numcodecs lacks one."""
    made = []
    for codec in codecs:
        try:
            made.append(library("numcodecs.registry").get_codec(codec))
        except (ValueError, TypeError, UnsupportedError):
            made.append(codec)
    return tuple(made)
