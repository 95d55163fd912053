"""The elements of a stored array as users see them: a data type, and dimensions added to those of the array.

The added dimensions are those of a subarray of a structure, the characters of a fixed-length string, or the bytes of an
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.metadata.data_types import DataType
from tegula.metadata.fill_values import scalar_array
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.fill_values import as_dtype, check_broadcast
from tegula.tensorstore.errors import status
from tegula.tensorstore.json import dump

__all__ = ["Elements", "checked_field", "fill_as_shown", "fill_of", "shown_part", "stored_fill"]

_Values = npt.NDArray[Any]
_VARIABLE = {"string": dtypes.ustring, "bytes": dtypes.string}


class Elements:
    """The elements of a stored array or one field of them, or with `void` their bytes.

    They have the data type `dtype` and `shape`, the sizes of the added dimensions. `plain` ones are shown as stored.
    """

    __slots__ = ("_base", "_inner", "dtype", "field", "plain", "shape")

    def __init__(self, stored: DataType, field: str | None = None, void: bool = False) -> None:
        self.field = field
        base = stored.numpy if field is None else stored.numpy[field]
        inner: tuple[int, ...] = ()
        if base.subdtype is not None and not void:
            base, inner = base.subdtype
        self._base, self._inner, self.shape = base, inner, inner
        if stored.variable:
            self.dtype = _VARIABLE.get(stored.variable, dtypes.json)
        elif void:
            self.dtype, self.shape = dtypes.byte, (base.itemsize,)
        else:
            self.dtype = dtypes.dtype(base)
            if (self.dtype is dtypes.char or self.dtype is dtypes.byte) and not (
                base.itemsize == 1 and field is not None
            ):
                self.shape = (*inner, base.itemsize)
        self.plain = self.shape == inner and base == self.dtype.numpy_dtype

    @property
    def _split(self) -> bool:
        return len(self.shape) > len(self._inner)

    def present(self, values: _Values) -> _Values:
        """Return stored values as elements of `dtype`; the added dimensions come last."""
        if self.plain:
            return values
        wanted = self.dtype.numpy_dtype
        if not self._split:
            return values.astype(wanted)
        # NumPy drops the byte order of a number that it takes out of an array
        parts = np.ascontiguousarray(values, self._base).reshape((*values.shape, 1)).view(wanted)
        return parts.reshape((*values.shape[: values.ndim - len(self._inner)], *self.shape))

    def store(self, values: _Values) -> _Values:
        """Return elements in the form in which the array stores them."""
        if self.plain or not self._split:
            return values
        outer = values.shape[: values.ndim - 1]
        return np.ascontiguousarray(values, self.dtype.numpy_dtype).view(self._base).reshape(outer)


# --- the part that a spec shows, and its fill value


@lru_cache(maxsize=256)
def shown_part(stored: DataType, field: str, void: bool, records: bool = False) -> Elements:
    """Return the part of each stored element that a spec shows: a field, the whole element, or its bytes."""
    if void or records:
        return Elements(stored, None, void)
    names = stored.numpy.names
    if names is None:
        if field:
            raise status("FAILED_PRECONDITION", f"Requested field {dump(field)} of a data type without fields")
        return Elements(stored)
    return Elements(stored, checked_field(field or (names[0] if len(names) == 1 else ""), names))


def checked_field(field: str, names: Sequence[str]) -> str:
    """Return the name of a field or column; raise if there is none of this name."""
    if field not in names:
        text = f"Requested field {dump(field)} is not" if field else 'Must specify a "field" that is'
        raise status("FAILED_PRECONDITION", f"{text} one of: {dump([*names])}")
    return field


def fill_as_shown(fill: npt.NDArray[Any], shown: Elements) -> npt.NDArray[Any]:
    """Return a fill value of a schema in the shape of an element."""
    fill = as_dtype(fill, shown.dtype)
    check_broadcast(fill, shown.shape)
    return np.broadcast_to(fill, shown.shape)


def stored_fill(fill: npt.NDArray[Any], stored: DataType, shown: Elements) -> npt.NDArray[Any]:
    """Return a fill value of a schema as a stored element."""
    values = fill_as_shown(fill, shown)
    if stored.variable:
        return scalar_array(values[()], stored)
    stored_dtype = shown.dtype.numpy_dtype if shown._split else shown._base  # in the stored byte order
    raw = np.ascontiguousarray(values.astype(stored_dtype)).tobytes()
    return np.frombuffer(raw, stored.numpy).reshape(()).copy() if raw else np.zeros((), stored.numpy)


def fill_of(fill: npt.NDArray[Any] | None, shown: Elements) -> npt.NDArray[Any] | None:
    """Return a stored fill value as shown; ``None`` if there is none, or it is an object."""
    if fill is None or fill.dtype.kind == "O":
        return None
    return shown.present(fill if shown.field is None else np.asarray(fill[shown.field]))
