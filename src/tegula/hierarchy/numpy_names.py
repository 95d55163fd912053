"""NumPy's names for new arrays: `array`, `zeros`, `ones`, `full`, `empty`, and their ``_like`` variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.chunking import as_shape
from tegula.arrays.creation import new_format
from tegula.arrays.filling import FilledArrayOptions, NewArrayOptions, type_of
from tegula.arrays.keywords import check_keywords
from tegula.arrays.values import as_data
from tegula.formats.layout import portable
from tegula.hierarchy.creators import create_array
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import inner_codecs
from tegula.stores import MemoryStore
from tegula.stores.targets.paths import clean

if TYPE_CHECKING:
    from tegula.arrays.arguments import DTypeLike, ShapeLike, TargetLike

__all__ = ["array", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def array(
    data: Any, *, store: TargetLike | None = None, dtype: DTypeLike | None = None, **options: Unpack[NewArrayOptions]
) -> Array:
    """Create an array from its elements.

    Parameters
    ----------
    data : array_like
        The elements. A `tegula.Array` also provides its chunks, shards, codecs, format and dimension names.
    store : str, path, mapping or Store, optional
        Where to create it; in memory by default. See `tegula.store_of`.
    dtype : dtype-like, optional
        Data type; by default that of the elements.
    **options
        As for `tegula.create_array`.

    Returns
    -------
    Array

    Raises
    ------
    AlreadyExistsError, MetadataError, UnsupportedError
        As `tegula.create_array` does.

    Examples
    --------
    >>> import tegula
    >>> tegula.array([[1, 2], [3, 4]], chunks=(1, 2))[:, 1]
    array([2, 4])
    """
    target = MemoryStore() if store is None else store
    own = _like(data, target, {**options, "dtype": dtype}) if isinstance(data, Array) else {}
    own.pop("shape", None)
    return create_array(target, data=data, **{**own, "dtype": dtype, **options})


def zeros(
    shape: ShapeLike, *, store: TargetLike | None = None, dtype: DTypeLike = "f8", **options: Unpack[FilledArrayOptions]
) -> Array:
    """Create an array whose elements are zero; see `full`.

    Examples
    --------
    >>> import tegula
    >>> tegula.zeros((2, 3), chunks=(1, 3), dtype="i4")[:]
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return _filled("zeros", shape, 0, store, dtype, options)


def ones(
    shape: ShapeLike, *, store: TargetLike | None = None, dtype: DTypeLike = "f8", **options: Unpack[FilledArrayOptions]
) -> Array:
    """Create an array whose elements are one; see `full`.

    Examples
    --------
    >>> import tegula
    >>> tegula.ones(3)[:]
    array([1., 1., 1.])
    """
    return _filled("ones", shape, 1, store, dtype, options)


def empty(
    shape: ShapeLike, *, store: TargetLike | None = None, dtype: DTypeLike = "f8", **options: Unpack[FilledArrayOptions]
) -> Array:
    """Create an array to be written later, zero until then; see `full`.

    Examples
    --------
    >>> import tegula
    >>> tegula.empty(2, dtype=str)[:]
    array(['', ''], dtype=object)
    """
    return _filled("empty", shape, 0, store, dtype, options)


def full(
    shape: ShapeLike,
    fill_value: Any,
    *,
    store: TargetLike | None = None,
    dtype: DTypeLike | None = None,
    **options: Unpack[FilledArrayOptions],
) -> Array:
    """Create an array filled with one value, the fill value; no chunk is stored.

    Parameters
    ----------
    shape : int or sequence of int
        Length of each axis.
    fill_value : scalar
        The value.
    store : str, path, mapping or Store, optional
        Where to create it; in memory by default. See `tegula.store_of`.
    dtype : dtype-like, optional
        Data type; by default that of the value.
    **options
        As for `tegula.create_array`.

    Returns
    -------
    Array

    Raises
    ------
    AlreadyExistsError, MetadataError, UnsupportedError
        As `tegula.create_array` does.

    Examples
    --------
    >>> import tegula
    >>> tegula.full(3, 2.5)[:]
    array([2.5, 2.5, 2.5])
    """
    if dtype is None:
        value = as_data(fill_value)
        dtype = str if value.dtype.kind == "U" else bytes if value.dtype.kind == "S" else value.dtype
    target = MemoryStore() if store is None else store
    return create_array(target, shape=shape, **{**options, "dtype": dtype, "fill_value": fill_value})


def _refuse_fill_value(function: str, options: Any) -> None:
    if "fill_value" in options:
        check_keywords(function, ["fill_value"], ())


def _filled(function: str, shape: ShapeLike, value: int, store: Any, dtype: Any, options: Any) -> Array:
    _refuse_fill_value(function, options)
    return full(shape, value, store=store, dtype=dtype, **options)


def zeros_like(a: Any, *, store: TargetLike | None = None, **options: Any) -> Array:
    """Create an array of zeros like another; see `full_like`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> tegula.zeros_like(np.arange(3))[:]
    array([0, 0, 0])
    """
    _refuse_fill_value("zeros_like", options)
    return full_like(a, 0, store=store, **options)


def ones_like(a: Any, *, store: TargetLike | None = None, **options: Any) -> Array:
    """Create an array of ones like another; see `full_like`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> tegula.ones_like(np.arange(3))[:]
    array([1, 1, 1])
    """
    _refuse_fill_value("ones_like", options)
    return full_like(a, 1, store=store, **options)


def empty_like(a: Any, *, store: TargetLike | None = None, **options: Any) -> Array:
    """Create an array like another, to be written later; it holds its fill value until then.

    See `full_like`.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.full((4, 4), 7, chunks=(2, 4), dimension_names=["y", "x"])
    >>> b = tegula.empty_like(a, dtype="f4")
    >>> b.chunks, b.dtype, b.fill_value, b.dimension_names
    ((2, 4), dtype('float32'), np.float32(7.0), ('y', 'x'))
    """
    target = MemoryStore() if store is None else store
    return create_array(target, **_like(a, target, options))


def full_like(a: Any, fill_value: Any, *, store: TargetLike | None = None, **options: Any) -> Array:
    """Create an array like another, filled with one value.

    Parameters
    ----------
    a : Array or array_like
        The other array, which provides shape and dtype; a chunked array also its chunks, and a `tegula.Array` its
        shards, codecs, format and dimension names.
    fill_value : scalar
        The value.
    store : str, path, mapping or Store, optional
        Where to create it; in memory by default.
    **options
        As for `tegula.create_array`; they take precedence over those of `a`.

    Returns
    -------
    Array

    Examples
    --------
    >>> import numpy as np, tegula
    >>> tegula.full_like(np.zeros((2, 2), "i2"), 5)[0]
    array([5, 5], dtype=int16)
    """
    target = MemoryStore() if store is None else store
    return create_array(target, **{**_like(a, target, options), "fill_value": fill_value})


def _like(a: Any, target: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the options that create an array like another; the chosen options replace its own."""
    chosen = {name: value for name, value in chosen.items() if name not in ("dtype", "shape") or value is not None}
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        a = as_data(a)
    out: dict[str, Any] = {"shape": tuple(a.shape), "dtype": type_of(a)}
    same_axes = "shape" not in chosen or len(as_shape(chosen["shape"])) == len(out["shape"])
    if not isinstance(a, Array):
        chunks = getattr(a, "chunks", None)
        if same_axes and isinstance(chunks, tuple) and all(isinstance(n, (int, np.integer)) for n in chunks):
            out["chunks"] = chunks
        return {**out, **chosen}
    metadata = a.metadata
    format = chosen.get("format") or new_format(target, clean(chosen.get("path", "")), None, metadata.format)
    out |= {"format": format, "fill_value": a.fill_value}
    if same_axes:
        out |= {"chunks": a.chunks, "dimension_names": a.dimension_names if format == metadata.format else None}
        if format == "zarr3" and "chunks" not in chosen:
            out["shards"] = a.shards
        if format == metadata.format and as_data_type(chosen.get("dtype", metadata.data_type)) == metadata.data_type:
            out["codecs"] = portable(inner_codecs(metadata.codecs))
    return {**out, **chosen}
