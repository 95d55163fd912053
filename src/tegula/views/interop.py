"""Exchange with other array libraries: NumPy arrays, dask arrays and DLPack from what is read when it is asked for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError, SelectionError, UnsupportedError
from tegula.runtime.optional import library

__all__ = ["CPU", "ExportError", "as_ndarray", "as_output", "dask_array", "dlpack_capsule"]

CPU: Final = (1, 0)
"""CPU memory, as a device of DLPack."""
_HOST: Final = (1, 3, 11)
"""DLPack's types of devices whose memory the CPU can write: its own, and memory pinned for CUDA or ROCm."""


class ExportError(UnsupportedError, BufferError):
    """An export by DLPack that is not possible: without a copy, or of a type that DLPack lacks."""


def dask_array(array: Any, dtype: np.dtype[Any], chunks: Any, **options: Any) -> Any:
    """Return a dask array over an array; parameters and errors are those of `tegula.Array.to_dask`."""
    da = library("dask.array")
    stored = array.chunks if array.shards is None else array.shards
    if chunks is None or (isinstance(chunks, str) and chunks == "auto" and (dtype.hasobject or not dtype.itemsize)):
        chunks = stored  # dask does not know how many bytes an object takes
    try:
        return da.from_array(array, chunks=chunks, **options)
    except (TypeError, ValueError, NotImplementedError, ZeroDivisionError) as error:
        raise MetadataError(f"dask can't divide the shape {array.shape}: {error}", field="chunks") from error


def as_ndarray(array: Any, dtype: npt.DTypeLike | None, copy: bool | None) -> npt.NDArray[Any]:
    """Read an array; parameters are those of ``__array__``.

    Raises
    ------
    ValueError
        If `copy` is false.
    """
    if copy is False:
        raise ValueError("a stored array is read into memory, which is always a copy")
    values = np.asarray(array[...])
    return values if dtype is None else values.astype(dtype, copy=False)


def dlpack_capsule(array: Any, copy: bool | None, **options: Any) -> Any:
    """Read an array and return its elements as a capsule of DLPack; parameters are those of ``__dlpack__``.

    Raises
    ------
    ExportError
        If `copy` is false, or DLPack lacks the data type.
    """
    if copy is False:
        raise ExportError("a stored array is read into memory, which is always a copy")
    wanted = {name: value for name, value in options.items() if value is not None}
    values = np.asarray(array[...])
    try:
        return values.__dlpack__(**wanted)
    except BufferError as error:
        raise ExportError(f"elements of the type {values.dtype} can't be exported by DLPack: {error}") from error


def as_output(out: Any) -> npt.NDArray[Any]:
    """Return a NumPy array over the memory of `out`, for elements to be read into.

    Parameters
    ----------
    out : ndarray, object with ``__dlpack__``, or buffer
        Writable CPU memory.

    Raises
    ------
    SelectionError
        If it is something else, or can't be written.

    Examples
    --------
    >>> memory = bytearray(3)
    >>> as_output(memory)[:] = 7
    >>> memory
    bytearray(b'\\x07\\x07\\x07')
    """
    name = type(out).__name__
    if isinstance(out, np.ndarray):
        array = out
    elif hasattr(out, "__dlpack__") and hasattr(out, "__dlpack_device__") and not hasattr(out, "lazy"):  # in storage
        array = _imported(out, name)
    else:
        try:
            array = np.asarray(memoryview(out))
        except (TypeError, ValueError, RuntimeError) as error:
            raise SelectionError(
                f"out must be a NumPy array, or an object with DLPack or the buffer protocol, not {name}"
            ) from error
    if not array.flags.writeable:
        raise SelectionError(f"out, of type {name}, is not writable")
    return array


def _imported(out: Any, name: str) -> npt.NDArray[Any]:
    try:
        device = int(out.__dlpack_device__()[0])
        array = None if device not in _HOST else _from_dlpack(out)
    except Exception as error:  # the other library may raise anything
        raise SelectionError(f"out, of type {name}, does not give its memory to NumPy by DLPack: {error}") from error
    if array is None:
        raise SelectionError(
            f"out, of type {name}, is on the device {device} of DLPack and not in CPU memory: read into a NumPy array, "
            "and copy that to the device"
        )
    if array.flags.writeable:
        return array
    # DLPack before 1.0 can't mark memory as writable
    same = np.asarray(out)
    return same if same.__array_interface__["data"][0] == array.__array_interface__["data"][0] else array


def _from_dlpack(out: Any) -> npt.NDArray[Any]:
    try:
        return np.from_dlpack(out, copy=False)
    except TypeError:  # NumPy before 2.1, or DLPack before 1.0, which never copies
        return np.from_dlpack(out)
