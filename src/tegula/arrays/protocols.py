"""The protocols of Python and NumPy that arrays support: conversion, iteration, membership; and refused operators."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.arrays.keywords import known_keywords
from tegula.arrays.properties import ArrayProperties
from tegula.deferred import Later
from tegula.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula.arrays import chunk_regions, interop
    from tegula.arrays.chunk_regions import Region
else:
    chunk_regions, interop = Later("tegula.arrays.chunk_regions"), Later("tegula.arrays.interop")

__all__ = ["ArrayProtocols", "AsType", "OperationError"]


class OperationError(UnsupportedError, TypeError, ValueError):
    """An operation of Python or NumPy on an array whose elements have to be read explicitly first."""


class AsType:
    """An array whose elements are converted when they are read; made by `Array.astype`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> a = tegula.create_array({}, shape=4, dtype="i2", fill_value=3)
    >>> view = a.astype("f4")
    >>> view[1:3], len(view), np.asarray(view).dtype
    (array([3., 3.], dtype=float32), 4, dtype('float32'))
    """

    def __init__(self, array: ArrayProtocols, dtype: npt.DTypeLike) -> None:
        self._array = array
        try:
            self.dtype: np.dtype[Any] = np.dtype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise MetadataError(f"{dtype!r} is not a data type of NumPy: {error}", field="dtype") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the chunks; see `Array.chunks`."""
        return self._array.chunks

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of the shards, if there are any; see `Array.shards`."""
        return self._array.shards

    def to_dask(self, chunks: Any = "auto", **options: Any) -> Any:
        """Return a dask array over the view; see `Array.to_dask`."""
        return interop.dask_array(self, self.dtype, chunks, **options)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return (*self._array.__dask_tokenize__(), repr(self.dtype))

    def __getitem__(self, selection: Any) -> Any:
        values = self._array[selection]
        return (
            np.asarray(values).astype(self.dtype, copy=False)[()]
            if np.ndim(values) == 0
            else values.astype(self.dtype, copy=False)
        )

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored array is read into memory, which is always a copy")
        values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<tegula.AsType {self.dtype} of {self._array!r}>"


class ArrayProtocols(ArrayProperties):
    """The methods of `tegula.Array` that Python and NumPy call, and iteration over its chunks."""

    if TYPE_CHECKING:

        def __getitem__(self, selection: Any) -> Any: ...

    # --- in parts

    def iter_chunks(self, selection: Any = None) -> Iterator[Region]:
        """Yield the region of each chunk, stored or not, as a tuple of slices for reading and writing.

        If the array has shards, writing is faster shard by shard; see `iter_shards`.

        Parameters
        ----------
        selection : int, slice, or tuple of them, optional
            The part of the array to visit, with steps of 1; regions are clipped to it. By default all of the array.

        Raises
        ------
        SelectionError
            If the selection does not fit the array, or has steps other than 1.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(4, 5), chunks=(2, 3), dtype="i4")
        >>> [*a.iter_chunks(slice(0, 3))][-1]
        (slice(2, 3, None), slice(3, 5, None))
        """
        sharding = self._stored.chain.sharding
        return chunk_regions.regions(
            self.shape, self.metadata.grid, selection, None if sharding is None else sharding.inner_shape
        )

    def iter_shards(self, selection: Any = None) -> Iterator[Region]:
        """Yield the region of each shard, or of each chunk if there are no shards, as `iter_chunks` does.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=8, chunks=2, shards=4, dtype="i4")
        >>> for region in a.iter_shards():
        ...     a[region] = region[0].start
        >>> a[:]
        array([0, 0, 0, 0, 4, 4, 4, 4], dtype=int32)
        """
        return chunk_regions.regions(self.shape, self.metadata.grid, selection)

    def __iter__(self) -> Iterator[Any]:
        length = len(self)
        step = self.metadata.grid.axes[0].longest()
        for start in range(0, length, step):
            yield from self[start : start + step]

    def __contains__(self, value: object) -> bool:
        wanted: Any = np.asarray(value, self.dtype) if self.dtype.names else value
        if np.ndim(wanted):
            raise OperationError(f"`in` looks for single elements, not {value!r:.60}", path=self._place)
        found, missing = chunk_regions.stored_regions(self._stored)
        if missing and _is_in(wanted, np.asarray(self._stored.fill)):
            return True
        return any(_is_in(wanted, np.asarray(self[region])) for region in found)

    @known_keywords
    def astype(self, dtype: npt.DTypeLike) -> AsType:
        """Return a view of the array whose elements are converted when they are read, as ``astype`` of h5py does.

        Parameters
        ----------
        dtype : dtype-like
            The type to convert to, with NumPy's rules for ``ndarray.astype``.

        Raises
        ------
        MetadataError
            If `dtype` is not a data type.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, shape=3, dtype="i4", fill_value=7).astype("f8")[:]
        array([7., 7., 7.])
        """
        return AsType(self, dtype)

    # --- other libraries

    @known_keywords
    def to_dask(self, chunks: Any = "auto", *, inline_array: bool = False, name: str | bool | None = None) -> Any:
        """Return a dask array over this array; each block is read when it is computed.

        Parameters
        ----------
        chunks : "auto", None, int, str or tuple
            Blocks of the dask array. ``"auto"`` combines whole shards, or whole chunks if there are no shards, up to
            dask's setting ``array.chunk-size``; ``None`` makes each shard or chunk one block. Any other value, such
            as ``"16 MiB"`` or ``(100, -1)``, is passed to dask.
        inline_array : bool
            Put the array into each task, instead of into one task that all others depend on.
        name : str or bool, optional
            Name of the dask array; see `dask.array.from_array`.

        Returns
        -------
        dask.array.Array

        Raises
        ------
        MetadataError
            If `chunks` does not fit the shape.
        UnsupportedError
            If dask is not installed.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(6, 4), chunks=(2, 4), dtype="i4", fill_value=1)
        >>> d = a.to_dask(chunks=None)
        >>> d.numblocks, int(d.sum().compute())
        ((3, 1), 24)
        """
        return interop.dask_array(self, self.dtype, chunks, inline_array=inline_array, name=name)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return interop.dask_token(self._stored)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return interop.dlpack_capsule(self, copy, stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interop.CPU

    # --- conversions

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a stored array is read into memory, which is always a copy")
        values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise OperationError(
                f"an array of {self.size} elements is neither true nor false; use a[...].any() or a[...].all(), or "
                "len(a) to find out whether it is empty",
                path=self._place,
            )
        return bool(np.asarray(self[...]).item())

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def _scalar(self, kind: str) -> Any:
        if self.ndim:
            raise OperationError(
                f"only an array without dimensions is a number; {kind}(a[{', '.join(['0'] * self.ndim)}]) takes an "
                "element",
                path=self._place,
            )
        return self[()]

    # --- operators

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrayProtocols):
            return (self.store.url, self._path, self.metadata) == (other.store.url, other._path, other.metadata)
        if isinstance(other, (numbers.Number, np.generic, np.ndarray)):
            raise self._not_computed("==")
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.store.url, self._path))

    def _not_computed(self, name: str) -> OperationError:
        return OperationError(
            f"{name} does not read stored arrays: read the elements first, as in a[...] or a[:100], or compute chunk "
            "by chunk with dask.array.from_array(a)",
            path=self._place,
        )


def _is_in(value: Any, values: npt.NDArray[Any]) -> bool:
    return bool(np.any(values == value))


def _refused(symbol: str) -> Callable[..., Any]:
    def refuse(self: ArrayProtocols, *_: object) -> Any:
        raise self._not_computed(symbol)

    return refuse


if not TYPE_CHECKING:  # hidden from type checkers
    _SYMBOLS = {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod",
        "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    }  # fmt: skip
    _ONE_SIDED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "abs": "abs", "invert": "~"}
    for _name, _symbol in _SYMBOLS.items():
        for _form in ("__{}__", "__r{}__", "__i{}__"):
            setattr(ArrayProtocols, _form.format(_name), _refused(_symbol))
    for _name, _symbol in _ONE_SIDED.items():
        setattr(ArrayProtocols, f"__{_name}__", _refused(_symbol))

    def _index(self):
        if self.ndim or self.dtype.kind not in "iu":
            raise OperationError("only an array of integers without dimensions is an index", path=self._place)
        return int(self[()])

    def _array_ufunc(self, ufunc, method, *inputs, **options):
        if method == "__call__":
            raise self._not_computed(f"numpy.{ufunc.__name__}")
        # a reduction such as numpy.sum takes one array, which is read as a whole
        inputs = [np.asarray(value) if isinstance(value, ArrayProtocols) else value for value in inputs]
        return getattr(ufunc, method)(*inputs, **options)

    ArrayProtocols.__index__ = _index
    ArrayProtocols.__array_ufunc__ = _array_ufunc
