"""The functions of zarr 1.x that create an array like another one."""

from __future__ import annotations

from typing import Any, Final

from tegula.arrays.chunking import as_shape
from tegula.errors import MetadataError
from tegula.zarr1.arrays import Array
from tegula.zarr1.creating import chunks_of, create, open

__all__ = ["empty_like", "full_like", "ones_like", "open_like", "zeros_like"]


_NAMES: Final = ("shape", "chunks", "dtype", "compression", "compression_opts", "order", "store", "synchronizer")


def _like(a: Any, *given: Any) -> dict[str, Any]:
    """Return the arguments `_NAMES` of `create`, taken from `a` where they are ``None``."""
    options = {name: value for name, value in zip(_NAMES, given) if value is not None}
    options.setdefault("shape", tuple(a.shape))
    options.setdefault("dtype", a.dtype)
    options.setdefault("chunks", chunks_of(a, as_shape(options["shape"])))
    if options["chunks"] is None:
        raise MetadataError("chunks must be specified, since the array has none", field="chunks")
    options.setdefault("order", getattr(a, "order", "C"))
    if "compression" not in options and hasattr(a, "compression"):
        options["compression"] = "none" if a.compression is None else a.compression
        options.setdefault("compression_opts", a.compression_opts)
    return options


def empty_like(
    a: Any,
    shape: Any = None,
    chunks: Any = None,
    dtype: Any = None,
    compression: Any = None,
    compression_opts: Any = None,
    order: Any = None,
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array like `a` without a fill value.

    Parameters
    ----------
    a : Array or array_like with a shape and a dtype
        The array to take shape, chunks, data type, order and compression from.
    shape, chunks, dtype, compression, compression_opts, order
        As for `create`; by default those of `a`.
    store, synchronizer
        As for `create`.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> z = zarr.zeros((4, 4), chunks=(2, 2), dtype="i2", compression="zlib")
    >>> e = zarr.empty_like(z, shape=(6, 4))
    >>> e.shape, e.chunks, e.dtype, e.compression, e.fill_value
    ((6, 4), (2, 2), dtype('int16'), 'zlib', None)
    """
    options = _like(a, shape, chunks, dtype, compression, compression_opts, order, store, synchronizer)
    return create(**options, fill_value=None)


def zeros_like(
    a: Any,
    shape: Any = None,
    chunks: Any = None,
    dtype: Any = None,
    compression: Any = None,
    compression_opts: Any = None,
    order: Any = None,
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array of zeros like `a`; the parameters are those of `empty_like`.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> zarr.zeros_like(zarr.ones(3, chunks=2, dtype="i4"))[:]
    array([0, 0, 0], dtype=int32)
    """
    options = _like(a, shape, chunks, dtype, compression, compression_opts, order, store, synchronizer)
    return create(**options, fill_value=0)


def ones_like(
    a: Any,
    shape: Any = None,
    chunks: Any = None,
    dtype: Any = None,
    compression: Any = None,
    compression_opts: Any = None,
    order: Any = None,
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array of ones like `a`; the parameters are those of `empty_like`.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> zarr.ones_like(zarr.zeros(3, chunks=2, dtype="i4"))[:]
    array([1, 1, 1], dtype=int32)
    """
    options = _like(a, shape, chunks, dtype, compression, compression_opts, order, store, synchronizer)
    return create(**options, fill_value=1)


def full_like(
    a: Any,
    shape: Any = None,
    chunks: Any = None,
    fill_value: Any = None,
    dtype: Any = None,
    compression: Any = None,
    compression_opts: Any = None,
    order: Any = None,
    store: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Create an array like `a` with a fill value, by default that of `a`; other parameters are those of `empty_like`.

    Raises
    ------
    MetadataError
        If no fill value is given and `a` has none.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> zarr.full_like(zarr.zeros(3, chunks=2, dtype="i4"), fill_value=7)[:]
    array([7, 7, 7], dtype=int32)
    """
    if fill_value is None:
        if not hasattr(a, "fill_value"):
            raise MetadataError("fill_value must be specified, since the array has none", field="fill_value")
        fill_value = a.fill_value
    options = _like(a, shape, chunks, dtype, compression, compression_opts, order, store, synchronizer)
    return create(**options, fill_value=fill_value)


def open_like(
    a: Any,
    path: Any,
    mode: str = "a",
    shape: Any = None,
    chunks: Any = None,
    dtype: Any = None,
    compression: Any = None,
    compression_opts: Any = None,
    fill_value: Any = None,
    order: Any = None,
    synchronizer: Any = None,
) -> Array:
    """Open an array, or create one like `a`, in a directory; the parameters are those of `open` and `empty_like`.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> zarr.open_like(zarr.full(3, chunks=2, fill_value=7, dtype="i4"), root.name)[:]
    array([7, 7, 7], dtype=int32)
    >>> root.cleanup()
    """
    options = _like(a, shape, chunks, dtype, compression, compression_opts, order, None, synchronizer)
    fill_value = getattr(a, "fill_value", None) if fill_value is None else fill_value
    return open(path, mode, **options, fill_value=fill_value)
