"""Fill values as 0-d arrays of the array's dtype.

A 0-d array keeps NaN payloads and the sign of zero. A fill value of variable length is a ``str`` or ``bytes`` in a 0-d
object array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tegula.errors import MetadataError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Fill", "default_fill", "is_empty", "scalar_array", "time_to_int", "undefined_fill"]

Fill: TypeAlias = "npt.NDArray[Any]"


def scalar_array(value: Any, data_type: DataType) -> Fill:
    """Convert a scalar to a fill value, as NumPy converts it.

    Parameters
    ----------
    value : scalar
        The value. Integers out of range are an error; floating-point numbers out of range become infinite.
    data_type : DataType
        Type of the array's elements.

    Returns
    -------
    0-d ndarray
        The fill value, of the dtype of `data_type`.

    Raises
    ------
    MetadataError
        If the value does not fit the data type.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> scalar_array(7, as_data_type("u1"))
    array(7, dtype=uint8)
    """
    out = np.zeros((), data_type.numpy)
    try:
        with np.errstate(over="ignore"):  # a number too large for the type becomes infinite, as in NumPy
            _assign(out, value, data_type)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise MetadataError(f"{value!r:.80} is not a value of {data_type}: {error}", field="fill_value") from error
    return out


def _assign(out: Fill, value: Any, data_type: DataType) -> None:
    """Assign `value` to `out`, also in cases in which NumPy would wrap integers or refuse a valid value."""
    dtype = data_type.numpy
    if data_type.variable:
        out[()] = _variable(value, data_type.variable)
    elif data_type.complex_part is not None and isinstance(value, (int, float, complex, np.number)):
        out["real"], out["imag"] = np.real(value), np.imag(value)
    elif dtype.names is not None and isinstance(value, (int, float, str)) and not isinstance(value, np.generic):
        for name in dtype.names:  # a plain scalar fills every field, as in `ndarray.fill`
            out[name] = value
    elif dtype.kind in "iu" or (dtype in EXTENDED_DTYPES and "int" in dtype.name):
        out[()] = _integer(value, dtype)
    elif dtype.kind in "Mm" and (type(value) is int or (isinstance(value, np.generic) and value.dtype.kind in "iu")):
        out[()] = np.array(int(value), "i8").astype(dtype)
    else:
        out[()] = value


def _variable(value: Any, kind: str) -> Any:
    """Convert a scalar to a variable-length element; 0 and ``None`` are the empty string, as in zarr-python."""
    if kind == "string":
        if value is None or (isinstance(value, (int, np.integer)) and value == 0):
            return ""
        return value.decode() if isinstance(value, bytes) else str(value)
    if kind == "bytes":
        if value is None or (isinstance(value, (int, np.integer)) and value == 0):
            return b""
        if isinstance(value, (int, np.integer)):
            raise TypeError("a number is not bytes")  # bytes(3) would be three zero bytes
        return value.encode() if isinstance(value, str) else bytes(value)
    return value


def _integer(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a value to an integer that `dtype` can hold, or raise; NumPy would wrap or truncate some."""
    number = int(value)
    if number != value:
        raise ValueError("it is not an integer")
    if dtype in EXTENDED_DTYPES:
        bits = int(dtype.name.removeprefix("u").removeprefix("int"))
        low, high = (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= number <= high:
            raise OverflowError(f"it is not between {low} and {high}")
    else:
        info = np.iinfo(dtype)
        if not info.min <= number <= info.max:
            raise OverflowError(f"it is not between {info.min} and {info.max}")
    return number


def default_fill(data_type: DataType) -> Fill:
    """Return the fill value of an array created without one: zero, false, the empty string.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> default_fill(as_data_type(str))
    array('', dtype=object)
    """
    if data_type.variable == "object":
        return scalar_array(0, data_type)
    return scalar_array(0, data_type) if data_type.variable else np.zeros((), data_type.numpy)


def undefined_fill(data_type: DataType) -> Fill:
    """Return the value of elements that were never written if the fill value is undefined, as in zarr-python.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> undefined_fill(as_data_type("i4")), undefined_fill(as_data_type("M8[s]"))
    (array(0, dtype=int32), array('NaT', dtype='datetime64[s]'))
    """
    kind = data_type.numpy.kind
    return np.array("NaT", data_type.numpy) if kind in "mM" else default_fill(data_type)


def time_to_int(fill: Fill) -> int:
    """Return a ``datetime64`` or ``timedelta64`` as the integer that NumPy stores; NaT is -2**63.

    Examples
    --------
    >>> time_to_int(np.array(3, ">m8[s]")), time_to_int(np.array("NaT", "M8[ns]")) == -(2**63)
    (3, True)
    """
    return int(fill.astype(fill.dtype.newbyteorder("=")).view("i8"))


def is_empty(value: Any) -> bool:
    """Return whether a value means empty text or bytes: Zarr v2 has null or 0 as fill values of these types.

    Examples
    --------
    >>> is_empty(None), is_empty(0), is_empty("0"), is_empty(b"")
    (True, True, False, False)
    """
    return value is None or (isinstance(value, (int, float, np.number, np.bool_)) and bool(value == 0))
