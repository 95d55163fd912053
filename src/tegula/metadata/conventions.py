"""The conventions of netCDF and CF: which elements are missing, and which are packed numbers, times or booleans.

Attributes say what stored elements stand for. `conventions_of` reads them as xarray does:

==================================  ==================================================================================
``_FillValue``, ``missing_value``   elements equal to these are missing, as NaN and NaT are
``scale_factor``, ``add_offset``    ``value = stored * scale_factor + add_offset``
``_Unsigned``                       integers are stored with the wrong sign
``units``, ``calendar``             times: ``days since 2000-01-01``
``dtype``                           booleans and durations, stored as integers
==================================  ==================================================================================

In Zarr v2 the fill value of an array with names for its dimensions takes the place of ``_FillValue``. In v3 xarray
writes floating-point numbers in this attribute as base64. Other programs write plain numbers, lists of one, or the
names ``"NaN"`` and ``"Infinity"``; all of these are read.
"""

from __future__ import annotations

import base64
import binascii
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.errors import MetadataError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, as_data_type
from tegula.metadata.fill_values import Fill, scalar_array
from tegula.metadata.times import TimeUnits, time_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tegula.metadata.nodes import ArrayMetadata

__all__ = [
    "FILL",
    "Conventions",
    "conventions_of",
    "coordinates_among",
    "fill_attribute",
    "fill_of",
    "fill_of_attribute",
    "is_described",
    "missing_in",
    "text_attribute",
]

FILL: Final = "_FillValue"
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_SIGNS: Final = {("i", "true"): "u", ("u", "false"): "i"}


@dataclass(frozen=True, slots=True)
class Conventions:
    """What the stored elements of an array stand for.

    Parameters
    ----------
    stored : numpy.dtype
        The type of the stored elements.
    read_as : numpy.dtype
        The type of the same size that they are read as: that with the other sign if ``_Unsigned`` says so.
    masks : tuple of 0-d ndarray
        Values, of the type `read_as`, that mark missing elements, besides NaN and NaT.
    fill : 0-d ndarray, optional
        The first mask, of ``_FillValue``, as it is stored; also if it is NaN.
    scale, offset : int or float, optional
        ``scale_factor`` and ``add_offset``.
    times : TimeUnits, optional
        What numbers mean that are times or durations.
    is_boolean : bool
        Whether integers are booleans.
    title, units : str
        Name and units of the values, ``""`` if there are none.
    """

    stored: np.dtype[Any]
    read_as: np.dtype[Any]
    masks: tuple[Fill, ...] = ()
    fill: Fill | None = None
    scale: float | None = None
    offset: float | None = None
    times: TimeUnits | None = None
    is_boolean: bool = False
    title: str = ""
    units: str = field(default="", compare=False)

    @property
    def is_packed(self) -> bool:
        """Whether values are stored with a scale or an offset."""
        return self.scale is not None or self.offset is not None

    @property
    def changes_values(self) -> bool:
        """Whether `unpacked` returns other values than those stored."""
        return self.is_packed or self.times is not None or self.is_boolean or self.read_as != self.stored

    @property
    def is_plain(self) -> bool:
        """Whether elements stand for themselves, and none but NaN and NaT is missing."""
        return not self.masks and not self.changes_values

    @property
    def stored_masks(self) -> list[Any]:
        """The masks as scalars of the stored type."""
        return [mask.view(self.stored)[()] for mask in self.masks]

    def missing(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Return which stored values are missing; ``None`` if none is.

        Examples
        --------
        >>> marked = Conventions(np.dtype("i2"), np.dtype("i2"), (np.array(-9, "i2"),))
        >>> marked.missing(np.array([1, -9], "i2"))
        array([False,  True])
        """
        is_missing: npt.NDArray[np.bool_] | None = None
        if values.dtype.kind in "fc":
            is_missing = np.isnan(values)
        elif values.dtype.kind in "mM":
            is_missing = np.isnat(values)
        for mask in self.masks:
            same = np.asarray(values == mask, bool)
            is_missing = same if is_missing is None else is_missing | same
        return is_missing if is_missing is not None and is_missing.any() else None

    def decode(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return stored values as what they stand for, missing ones as NaN or NaT, in the types that xarray chooses.

        Examples
        --------
        >>> packed = Conventions(np.dtype("i2"), np.dtype("i2"), (np.array(-9, "i2"),), scale=0.5, offset=1.0)
        >>> packed.decode(np.array([4, -9], "i2"))
        array([ 3., nan])
        """
        values = values.view(self.read_as) if self.read_as != self.stored else values
        missing = self.missing(values) if self.masks else None
        is_time = self.times is not None and values.dtype.kind in "iu"
        if self.is_packed:
            values = values.astype(_float_dtype(values.dtype, self))
            if missing is not None:
                values[missing] = np.nan
            values = values if self.scale is None else values * self.scale
            values = values if self.offset is None else values + self.offset
            missing = None
        elif self.masks and not is_time and not self.is_boolean:
            values = values.astype(_promoted(values.dtype))
            if missing is not None:
                values[missing] = np.nan
        if self.times is not None:
            values = self.times.decode(values, missing)
        return values.astype(bool) if self.is_boolean else values

    def unpacked(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], tuple[Fill, ...]]:
        """Return values as what they stand for, and the masks that still mark missing ones among them.

        Unlike `decode` it leaves integers with missing values exact.
        """
        return (self.decode(values), ()) if self.changes_values else (values, self.masks)

    def describe(self) -> str:
        """Return how stored values are decoded, in words; ``""`` if they stand for themselves.

        Examples
        --------
        >>> Conventions(np.dtype("i2"), np.dtype("i2"), (np.array(-9, "i2"),), scale=0.5).describe()
        'unpacked with scale_factor 0.5; -9 is missing'
        """
        parts = []
        if self.is_packed:
            named = [("scale_factor", self.scale), ("add_offset", self.offset)]
            parts.append(
                "unpacked with " + " and ".join(f"{name} {value}" for name, value in named if value is not None)
            )
        elif self.read_as != self.stored:
            parts.append(f"read as {self.read_as}")
        if self.is_boolean:
            parts.append("read as booleans")
        if self.times is not None:
            parts.append(f"{'dates' if self.times.reference is not None else 'durations'} from {self.units!r:.60}")
        if self.masks:
            shown = " and ".join(f"{mask.item()!r:.40}" for mask in self.masks)
            parts.append(f"{shown} {'is' if len(self.masks) == 1 else 'are'} missing")
        return "; ".join(parts)


def conventions_of(metadata: ArrayMetadata, way: str) -> Conventions:
    """Return what the stored elements of an array stand for.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array.
    way : {"fill_value", "attribute", ""}
        Where the value that marks missing elements is: for variables (`is_described`) as `tegula.formats.Format.mask`
        says, in other arrays ``""``.

    Examples
    --------
    >>> from tegula.metadata.nodes import ArrayMetadata
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="i2", attributes={"_FillValue": -9, "scale_factor": 0.5})
    >>> conventions = conventions_of(a.metadata, "attribute")
    >>> conventions.masks, conventions.scale
    ((array(-9, dtype=int16),), 0.5)
    """
    attributes, stored = metadata.attributes, metadata.data_type.numpy
    is_numeric = stored.kind in "iuf"
    sign = _SIGNS.get((stored.kind, str(attributes.get("_Unsigned")).lower()))
    read_as = stored if sign is None else np.dtype(f"{stored.byteorder}{sign}{stored.itemsize}")
    fill, times = fill_of(metadata, way), time_units(attributes) if is_numeric else None
    return Conventions(
        stored,
        read_as,
        _masks(metadata, fill, read_as),
        fill,
        _number(attributes.get("scale_factor")) if is_numeric else None,
        _number(attributes.get("add_offset")) if is_numeric else None,
        times if times is not None and times.is_known else None,
        stored.kind in "iu" and attributes.get("dtype") == "bool",
        _text(attributes.get("long_name")) or _text(attributes.get("standard_name")).replace("_", " "),
        _text(attributes.get("units")),
    )


def _masks(metadata: ArrayMetadata, fill: Fill | None, read_as: np.dtype[Any]) -> tuple[Fill, ...]:
    """Return the values that mark missing elements, each once; times and structured elements have none."""
    data_type, missing_value = metadata.data_type, metadata.attributes.get("missing_value")
    if data_type.numpy.kind in "mMV" or data_type.variable == "object":
        return ()
    if read_as != data_type.numpy:
        fill, data_type = None if fill is None else fill.view(read_as), as_data_type(read_as)
    several = missing_value if isinstance(missing_value, list) and data_type.numpy.kind != "c" else [missing_value]
    candidates = [fill, *(fill_of_attribute(value, data_type) for value in several)]
    masks = [mask for mask in candidates if mask is not None and not (mask.dtype.kind in "fc" and np.isnan(mask))]
    return tuple({mask.item(): mask for mask in masks}.values())


def fill_of(metadata: ArrayMetadata, way: str) -> Fill | None:
    """Return the value of ``_FillValue`` in the type of the elements, or of what takes its place in a format."""
    data_type = metadata.data_type
    if data_type.numpy.names is not None or data_type.numpy.kind == "V" or data_type.variable == "object":
        return None
    fill = metadata.fill_value
    if way == "fill_value" and fill is not None and not (data_type.variable and fill.item() is None):
        return fill
    return fill_of_attribute(metadata.attributes.get(FILL), data_type)


def is_described(metadata: ArrayMetadata) -> bool:
    """Return whether an array is a variable of xarray or netCDF: it has names for its dimensions."""
    return metadata.dimension_names is not None


def coordinates_among(arrays: Mapping[str, ArrayMetadata]) -> set[str]:
    """Return the names of the coordinates among arrays.

    A coordinate is a one-dimensional array that is called like its dimension, or an array that the attribute
    ``coordinates`` of another one names (CF conventions 1.11, sections 5.0 and 5.2).
    """
    named = [array.attributes.get("coordinates") for array in arrays.values()]
    auxiliary = {name for names in named if isinstance(names, str) for name in names.split()}
    return {name for name in arrays if (name,) == arrays[name].dimension_names or name in auxiliary}


def fill_of_attribute(value: Any, data_type: DataType) -> Fill | None:
    """Return the value that an attribute says is missing, in a data type; ``None`` if no element can be equal to it.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_of_attribute("AAAAAAA4j8A=", as_data_type("f4")), fill_of_attribute([-999], as_data_type("i2"))
    (array(-999., dtype=float32), array(-999, dtype=int16))
    >>> fill_of_attribute("NaN", as_data_type("i2")) is None
    True
    """
    dtype = data_type.numpy
    kind = "O" if data_type.variable else "f" if dtype in EXTENDED_DTYPES and "int" not in dtype.name else dtype.kind
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    with suppress(MetadataError, TypeError, ValueError, OverflowError):
        if kind == "b":
            return scalar_array(bool(value), data_type) if isinstance(value, (bool, int, float)) else None
        if kind in "iu":
            return scalar_array(int(value), data_type) if not isinstance(value, (list, bytes)) else None
        if kind == "f":
            return scalar_array(_real(value), data_type)
        if kind == "c":
            parts = [_real(part) for part in value] if isinstance(value, list) else [_real(value), 0.0]
            return scalar_array(complex(*parts), data_type)
        if kind == "S" or data_type.variable == "bytes":
            return scalar_array(_bytes(value, dtype.itemsize if kind == "S" else None), data_type)
        if (kind == "U" or data_type.variable == "string") and isinstance(value, str):
            return scalar_array(value, data_type)
    return None


def fill_attribute(value: Any, data_type: DataType, way: str) -> Any:
    """Return the value that marks missing elements as the attribute ``_FillValue``; ``None`` if it has no form there.

    Parameters
    ----------
    value : scalar
        The value, of `data_type`.
    data_type : DataType
        Type of the elements.
    way : {"fill_value", "attribute", ""}
        As for `conventions_of`: in Zarr v3 the attribute has the form that xarray writes.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fill_attribute(-999.0, as_data_type("f4"), "attribute"), fill_attribute(-999.0, as_data_type("f4"), "")
    ('AAAAAAA4j8A=', -999.0)
    """
    plain = np.asarray(value).item()
    kind = "O" if data_type.variable else data_type.numpy.kind
    if way != "attribute":
        return "NaN" if isinstance(plain, float) and np.isnan(plain) else plain
    if kind == "b":
        return bool(plain)
    if kind in "iu":
        return int(plain)
    if kind == "f":
        return _packed_real(plain)
    if kind == "c":
        return [_packed_real(complex(plain).real), _packed_real(complex(plain).imag)]
    return None  # xarray can't open arrays of other types with this attribute


def text_attribute(value: str | bytes) -> str:
    """Return text or bytes that mark missing elements as the attribute ``missing_value``.

    xarray can't open such arrays of Zarr v3 with the attribute ``_FillValue``.

    Examples
    --------
    >>> text_attribute("none"), text_attribute(b"X")
    ('none', 'WA==')
    """
    return value if isinstance(value, str) else base64.b64encode(value).decode()


def missing_in(values: npt.NDArray[Any], masks: Sequence[Any]) -> npt.NDArray[np.bool_] | None:
    """Return for each value, of a type that NumPy can compute with, whether it is missing; ``None`` if none is."""
    kind = values.dtype.kind
    missing: npt.NDArray[np.bool_] | None = None
    if kind == "f":
        # the minimum is NaN if any element is
        missing = np.isnan(values) if values.size and np.isnan(values.min()) else None
    elif kind == "c":
        missing = np.isnan(values)
    elif kind in "Mm":
        missing = np.isnat(values)
    elif kind == "O":
        missing = np.fromiter((item is None or item is np.ma.masked for item in values), bool, values.size)
    for mask in masks:
        same = values == mask
        if isinstance(same, np.ndarray):
            missing = same.astype(bool) if missing is None else missing | same.astype(bool)
    return missing if missing is not None and missing.any() else None


# --- values of attributes


def _real(value: Any) -> float:
    """Return a floating-point number: plain, by name, or as xarray stores it."""
    if not isinstance(value, str):
        return float(value)
    if value in _SPECIAL:
        return _SPECIAL[value]
    with suppress(binascii.Error, struct.error, ValueError):
        return float(struct.unpack("<d", base64.b64decode(value, validate=True))[0])
    return float(value)


def _packed_real(value: float) -> str:
    return base64.b64encode(struct.pack("<d", float(value))).decode()


def _bytes(value: Any, length: int | None) -> bytes:
    """Return bytes: in base64, as xarray stores them, unless they are too long then."""
    text = value if isinstance(value, bytes) else str(value).encode()
    with suppress(binascii.Error, ValueError):
        raw = base64.b64decode(text, validate=True)
        if length is None or len(raw) <= length:
            return raw
    if length is not None and len(text) > length:
        raise ValueError("it is longer than the elements")
    return text


def _number(value: Any) -> float | None:
    """Return a number, also one in a list or as text; ``None`` for anything else."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        with suppress(ValueError):
            return _real(value)
        return None
    with suppress(OverflowError):  # an integer that no float can hold
        if isinstance(value, (int, float)) and not isinstance(value, bool) and float(value) == float(value):
            return value
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- types of decoded values


def _promoted(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that also holds NaN."""
    if dtype.kind in "fcmM":
        return dtype
    if dtype.kind in "iu":
        return np.dtype("f4" if dtype.itemsize <= 2 else "f8")
    return np.dtype(object)


def _float_dtype(dtype: np.dtype[Any], of: Conventions) -> np.dtype[Any]:
    """Return the type of unpacked numbers."""
    if of.fill is not None and not of.masks and dtype.kind == "f":
        return dtype.newbyteorder("=")
    is_whole = not any(isinstance(one, float) for one in (of.scale, of.offset))
    return np.dtype("i8" if is_whole and of.offset is None and not of.masks else "f8")
