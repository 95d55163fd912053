"""Types of numbers, those of ml_dtypes included, which NumPy can't sort, reduce or compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["computable", "is_extension", "is_floating", "is_integer", "is_number"]


def is_extension(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is a number type of ml_dtypes, of kind V or not built in."""
    return dtype.isbuiltin != 1 and dtype.names is None and dtype.type.__module__.startswith("ml_dtypes")


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds numbers or booleans."""
    return dtype.kind in "biufc" or is_extension(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds integers or booleans."""
    return dtype.kind in "biu" or (is_extension(dtype) and "int" in dtype.name)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds real floating-point numbers."""
    return dtype.kind == "f" or (is_extension(dtype) and "int" not in dtype.name)


def computable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in a type that NumPy can compute with, in native byte order; every value stays the same.

    Examples
    --------
    >>> import ml_dtypes
    >>> computable(np.array([1.5, -2], ml_dtypes.bfloat16)).dtype, computable(np.array([7], ml_dtypes.uint4)).dtype
    (dtype('float32'), dtype('uint8'))
    """
    dtype = values.dtype
    if not is_extension(dtype):
        return values.astype(dtype.newbyteorder("="), copy=False)
    return values.astype("f4" if is_floating(dtype) else "u1" if dtype.name.startswith("u") else "i1")
