"""What the elements of a stored array are to this package: a data type, and dimensions added to those of the array.

Elements may be arrays themselves: subarrays of a structure, strings of a fixed length, or anything taken as bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.metadata.data_types import DataType
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.spec.interface import Indices

__all__ = ["Elements", "pick", "put"]

_Values = npt.NDArray[Any]
_VARIABLE = {"string": dtypes.ustring, "bytes": dtypes.string}


class Elements:
    """The elements of a stored array, or one field of them.

    Parameters
    ----------
    stored : DataType
        The type of the stored array.
    field : str, optional
        The field that is meant.
    void : bool
        Whether they are taken as bytes.

    Attributes
    ----------
    dtype : dtype
        Type of an element.
    shape : tuple of int
        Extents of the dimensions that are added.
    plain : bool
        Whether what is stored is what is shown.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> elements = Elements(as_data_type("S3"))
    >>> elements.dtype, elements.shape
    (dtype("char"), (3,))
    >>> elements.present(np.array([b"ab"], "S3"))
    array([[b'a', b'b', b'']], dtype='|S1')
    """

    __slots__ = ("_inner", "_item", "dtype", "field", "plain", "shape")

    def __init__(self, stored: DataType, field: str | None = None, void: bool = False) -> None:
        self.field = field
        item = stored.numpy if field is None else stored.numpy[field]
        inner: tuple[int, ...] = ()
        if item.subdtype is not None and not void:
            item, inner = item.subdtype
        self._item, self._inner, self.shape = item, inner, inner
        if stored.variable:
            self.dtype = _VARIABLE.get(stored.variable, dtypes.json)
        elif void:
            self.dtype, self.shape = dtypes.byte, (item.itemsize,)
        else:
            self.dtype = dtypes.dtype(item)
            if (self.dtype is dtypes.char or self.dtype is dtypes.byte) and not (
                item.itemsize == 1 and field is not None
            ):
                self.shape = (*inner, item.itemsize)
        self.plain = self.shape == inner and item == self.dtype.numpy_dtype

    @property
    def _split(self) -> bool:
        return len(self.shape) > len(self._inner)

    def present(self, values: _Values) -> _Values:
        """Return stored values as elements of `dtype`, the added dimensions last."""
        if self.plain:
            return values
        wanted = self.dtype.numpy_dtype
        if not self._split:
            return values.astype(wanted)
        # A number that NumPy has taken out of an array has lost its byte order.
        parts = np.ascontiguousarray(values, self._item).reshape((*values.shape, 1)).view(wanted)
        return parts.reshape((*values.shape[: values.ndim - len(self._inner)], *self.shape))

    def store(self, values: _Values) -> _Values:
        """Return elements as the stored array has them."""
        if self.plain or not self._split:
            return values
        outer = values.shape[: values.ndim - 1]
        return np.ascontiguousarray(values, self.dtype.numpy_dtype).view(self._item).reshape(outer)


def pick(values: _Values, joint: int, inner: Indices) -> _Values:
    """Select along the added dimensions of values that have all of them.

    Parameters
    ----------
    values : ndarray
        Whole elements; the added dimensions are its last ones.
    joint : int
        How many of its first dimensions come from index arrays.
    inner : tuple
        What to select along each added dimension.
    """
    heads = tuple(np.ogrid[tuple(slice(size) for size in values.shape[:joint])]) if _has_arrays(inner) else ()
    order, selection = _ordered(values.ndim, joint, heads, inner)
    return np.asarray(values.transpose(order)[selection])


def put(values: _Values, heads: tuple[npt.NDArray[np.int64], ...], inner: Indices, part: _Values) -> None:
    """Replace what `pick` would return; ``heads`` are indices of the first dimensions, those of index arrays."""
    order, selection = _ordered(values.ndim, len(heads), heads, inner)
    values.transpose(order)[selection] = part


def _has_arrays(indices: Indices) -> bool:
    return any(isinstance(item, np.ndarray) for item in indices)


def _ordered(ndim: int, joint: int, heads: tuple[Any, ...], inner: Indices) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return an order of axes, those of index arrays first, and the selection along axes in that order."""
    outer = ndim - len(inner)
    arrays = [axis for axis, item in enumerate(inner) if isinstance(item, np.ndarray)]
    rest = [axis for axis, item in enumerate(inner) if not isinstance(item, np.ndarray)]
    order = (*range(joint), *(outer + axis for axis in arrays), *range(joint, outer), *(outer + axis for axis in rest))
    whole = [slice(None)] * (outer - joint)
    selection = [*(heads or [slice(None)] * joint), *(inner[axis] for axis in arrays), *whole]
    for axis in rest:
        item = inner[axis]
        if isinstance(item, slice) and item.step < 0 and item.stop is not None and item.stop < 0:
            item = slice(item.start, None, item.step)
        selection.append(item)
    return order, tuple(selection)
