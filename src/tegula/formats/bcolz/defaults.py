"""The default value of a carray, ``dflt`` in ``meta/storage``: the result of ``ndarray.tolist``, and older forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import DataType
from tegula.metadata.fill_values import default_fill, scalar_array, time_to_int
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import json

    import numpy.typing as npt
else:
    json = Later("json")

__all__ = ["default_from_json", "default_to_json"]


def default_from_json(value: Any, data_type: DataType, inner: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """Read a default value (section "The `storage` file").

    Parameters
    ----------
    value : JSON value
        The member ``dflt``.
    data_type : DataType
        Type of the elements.
    inner : tuple of int
        Shape of a row.

    Returns
    -------
    0-d ndarray or None
        ``None`` if the elements of a row have different defaults, which a fill value can't express.

    Raises
    ------
    MetadataError
        If the value is not valid for the data type.
    """
    dtype = data_type.numpy
    if data_type.variable:
        return scalar_array(value, data_type)
    try:
        if isinstance(value, list) and dtype.names is None:
            return _common_default(value, data_type, inner)
        if dtype.names is not None:
            record = np.zeros((), dtype)  # `np.array` would fill the padding with what is in memory
            record[()] = _as_record(value, dtype)
            return record
        if dtype.kind in "Mm":
            number = np.array(-(2**63) if value is None else int(value), "i8")
            return number.view(dtype.newbyteorder("=")).astype(dtype)
        return scalar_array(_as_scalar(value, dtype), data_type)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(
            f"{value!r:.80} is not a value of {data_type}: {error}", key="meta/storage", field="dflt"
        ) from error


def _common_default(value: list[Any], data_type: DataType, inner: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """Return the value that all elements of nested lists have, or ``None`` if they differ."""
    values = np.asarray(value, object)
    if values.shape != inner:
        raise ValueError(f"it has shape {values.shape}, a row has shape {inner}")
    parts = [scalar_array(_as_scalar(item, data_type.numpy), data_type) for item in values.flat]
    if not parts:
        return default_fill(data_type)
    return parts[0] if len({part.tobytes() for part in parts}) == 1 else None


def _as_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str) and dtype.kind in "SV":
        raw = value.encode("latin-1")
        return raw if dtype.kind == "S" else np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype)[0]
    if dtype.kind == "b" and value in (0, 1):
        return bool(value)
    if dtype.kind in "iu" and isinstance(value, float) and value.is_integer():
        return int(value)
    if dtype.kind in "SUV" and type(value) is int and value == 0:
        return np.zeros((), dtype)[()]
    if value is None:
        raise ValueError("null is not a value of this type")
    return value


def _as_record(value: Any, dtype: np.dtype[Any]) -> Any:
    if type(value) is int and value == 0:
        return np.zeros((), dtype)[()]
    names = dtype.names or ()
    if not isinstance(value, list) or len(value) != len(names):
        raise ValueError("it is not a list of as many values as there are fields")
    return tuple(_as_field(item, dtype[name]) for name, item in zip(names, value))


def _as_field(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        if not isinstance(value, list) or len(value) != dtype.shape[0]:
            raise ValueError(f"{value!r:.60} does not have shape {dtype.shape}")
        return [_as_field(item, np.dtype((dtype.base, dtype.shape[1:]))) for item in value]
    if dtype.names is not None:
        return _as_record(value, dtype)
    return value if dtype.kind in "Mm" else _as_scalar(value, dtype)


def default_to_json(fill: npt.NDArray[Any] | None, data_type: DataType) -> Any:
    """Convert a fill value to ``dflt`` as bcolz writes it.

    Raises
    ------
    UnsupportedError
        If there is no form for it.

    Examples
    --------
    >>> default_to_json(np.array(2.5), DataType(np.dtype("f8")))
    2.5
    """
    if fill is None:
        return 0
    if data_type.variable:
        return _object_to_json(fill[()])
    dtype = data_type.numpy
    if dtype.kind in "Mm":
        number = time_to_int(fill)
        # without a unit, bcolz can't read 0
        return None if number == -(2**63) or (number == 0 and dtype == np.dtype("M8")) else number
    if dtype.kind == "c":
        # JSON has no complex numbers; bcolz assigns the text to an array, and NumPy parses it
        is_real = not fill.imag and not np.signbit(fill.imag)
        return float(fill.real) if is_real else str(fill[()])
    if dtype.names is not None:
        return [_field_to_json(fill[name], dtype[name]) for name in dtype.names]
    return _scalar_to_json(fill.tolist() if dtype.kind != "V" else fill.tobytes(), data_type)


def _field_to_json(value: npt.NDArray[Any], dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is None:
        return default_to_json(value, DataType(dtype))
    return [_field_to_json(item, np.dtype((dtype.base, dtype.shape[1:]))) for item in value]


def _object_to_json(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    try:
        read = json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        read = None
    if value is None or read == value or value != value:  # noqa: PLR0124 - NaN
        return value
    raise UnsupportedError(f"bcolz has no default {value!r:.60} for objects: JSON can't hold it", field="fill_value")


def _scalar_to_json(value: Any, data_type: DataType) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.floating):  # a long double has no Python type
        return float(value)
    raise UnsupportedError(f"bcolz has no default {value!r:.60} for {data_type}", field="fill_value")
