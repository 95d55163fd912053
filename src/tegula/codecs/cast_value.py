"""``cast_value``: conversion of elements to another data type by value (Zarr extensions registry, "cast_value codec").

Where the specification leaves a choice, this module follows zarr-python 3.4: the scalar map is applied first; NaN and
infinity become integers only through the map; clamping to a floating-point type gives infinity if the type has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tegula.codecs.stages import REQUIRED, ArrayCodec, Chunk, Context, Decoder, Shape, check_options, option
from tegula.errors import CodecError, MetadataError, TegulaError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, data_type_from_json
from tegula.metadata.fill_value_json import fill_from_document
from tegula.metadata.nodes import CodecSpec
from tegula.metadata.rounding import MODES, float_format, round_big_integers, round_to_format, round_to_integers
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = Later("ml_dtypes")

__all__ = ["CastValue", "build", "cast"]

_NAME: Final = "cast_value"
_EXACT: Final = 2**53

ScalarMap = Sequence[tuple[Chunk, Chunk]]


@np.errstate(all="ignore")
def cast(chunk: Chunk, dtype: np.dtype[Any], rounding: str, out_of_range: str, scalars: ScalarMap) -> Chunk:
    """Convert an array by value.

    Parameters
    ----------
    chunk : ndarray
        Integers or floating-point numbers.
    dtype : numpy.dtype
        Type of the result.
    rounding : str
        One of the keys of `MODES`.
    out_of_range : {"error", "clamp", "wrap"}
        How to treat values that `dtype` can't hold.
    scalars : sequence of pairs of 0-d arrays
        Values, each with its replacement, which is used instead of a conversion.

    Returns
    -------
    ndarray
        An array of the same shape and of `dtype`.

    Raises
    ------
    CodecError
        If `dtype` can't represent a value.

    Examples
    --------
    >>> cast(np.array([1.5, 300.0]), np.dtype("u1"), "towards-zero", "wrap", ()).tolist()
    [1, 44]
    """
    # scalars first
    mapped = np.zeros(chunk.shape, bool)
    values = np.zeros(chunk.shape, dtype)
    for old, new in scalars:
        equal = ((chunk == old) | (_is_nan(chunk) & _is_nan(old))) & ~mapped
        values[equal] = new
        mapped |= equal
    if mapped.any():
        chunk = np.where(mapped, np.zeros((), chunk.dtype), chunk)

    # then everything else
    if chunk.dtype == dtype:
        result = chunk
    elif _is_integer(dtype):
        result = _to_integers(chunk, dtype, rounding, out_of_range)
    else:
        result = _to_floats(chunk, dtype, rounding, out_of_range)
    return np.where(mapped, values, result) if mapped.any() else result


def _is_nan(values: Chunk) -> Any:
    return np.isnan(values) if not _is_integer(values.dtype) else False


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return _in_bytes(dtype).kind in "iu"


def _in_bytes(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of bytes for one of smaller integers, and any other type itself."""
    if dtype in EXTENDED_DTYPES and "int" in dtype.name:
        return np.dtype("u1" if dtype.name[0] == "u" else "i1")
    return dtype


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    info: Any = (np.iinfo if dtype.kind in "iu" else ml_dtypes.iinfo)(dtype)
    return int(info.min), int(info.max)


def _out_of_range(value: Any, dtype: np.dtype[Any]) -> CodecError:
    return CodecError(f"{value} is out of the range of {dtype}", codec=_NAME)


def _to_integers(chunk: Chunk, dtype: np.dtype[Any], rounding: str, out_of_range: str) -> Chunk:
    low, high = _bounds(dtype)
    work = _in_bytes(dtype)
    if _is_integer(chunk.dtype):
        chunk = chunk.astype(_in_bytes(chunk.dtype))
        least, most = _bounds(chunk.dtype)
        # compare in the type of the chunk, with limits that it can hold
        below, above = chunk < max(low, least), chunk > min(high, most)
    else:
        chunk = chunk.astype("f8")
        if not np.isfinite(chunk).all():
            raise CodecError(f"{dtype} can't hold NaN and infinity; map them to other values (scalar_map)", codec=_NAME)
        chunk = round_to_integers(chunk, rounding)
        below, above = chunk < low, chunk >= float(high + 1)
    outside = below | above
    if not outside.any():
        return chunk.astype(work).astype(dtype)
    if out_of_range == "error":
        raise _out_of_range(chunk[outside].reshape(-1)[0], dtype)
    if out_of_range == "wrap":
        return _wrap(chunk, low, high, work).astype(dtype)
    result = np.where(outside, chunk.dtype.type(0), chunk).astype(work)
    result[below], result[above] = low, high
    return result.astype(dtype)


def _wrap(chunk: Chunk, low: int, high: int, work: np.dtype[Any]) -> Chunk:
    """Reduce values modulo the number of values of the type, using 64-bit arithmetic, which itself wraps."""
    if chunk.dtype.kind == "f":
        remainder = np.fmod(chunk, 2.0**64)
        magnitude = np.abs(remainder).astype("u8")
        bits: npt.NDArray[np.uint64] = np.where(remainder < 0, np.uint64(0) - magnitude, magnitude)
    else:
        bits = chunk.astype("i8").view("u8") if chunk.dtype.kind == "i" else chunk.astype("u8")
    if high - low < 255:
        count = np.uint64(high - low + 1)
        bits = (bits - np.uint64(low % 2**64)) % count + np.uint64(low % 2**64)
    return bits.astype(work)


def _to_floats(chunk: Chunk, dtype: np.dtype[Any], rounding: str, out_of_range: str) -> Chunk:
    # round to the precision of the target; 64-bit integers have more digits than float64
    target = float_format(dtype)
    chunk = chunk.astype(_in_bytes(chunk.dtype))
    wide = chunk.astype("f8")
    nan, finite = np.isnan(wide), np.isfinite(wide)
    rounded = np.where(finite, round_to_format(np.where(finite, wide, 0.0), target, rounding), wide)
    if chunk.dtype.kind in "iu" and chunk.dtype.itemsize == 8:
        big = np.abs(wide) >= _EXACT
        rounded[big] = round_big_integers(chunk[big].tolist(), target.precision, rounding)

    # check the range
    if nan.any() and not target.nan:
        raise CodecError(f"{dtype} has no NaN", codec=_NAME)
    above, below = rounded > target.largest, rounded < target.smallest
    outside = (above | below) & finite if target.infinite else above | below
    if outside.any():
        if out_of_range != "clamp":
            raise _out_of_range(wide[outside].reshape(-1)[0], dtype)
        rounded[above & outside] = np.inf if target.infinite else target.largest
        rounded[below & outside] = -np.inf if target.infinite else target.smallest
    result = rounded.astype(dtype)
    if chunk.dtype.kind == "f" and nan.any():  # NumPy's conversion keeps sign and payload of a NaN
        result = np.where(nan, chunk.astype(dtype), result)
    return result


class CastValue(ArrayCodec):
    """The conversion of chunks between two data types.

    Parameters
    ----------
    source, target : DataType
        Types of the elements before and after encoding.
    rounding, out_of_range : str
        As in `cast`.
    maps : pair of sequences of pairs of 0-d arrays
        The scalars of encoding and of decoding, as in `cast`.
    """

    name = _NAME

    def __init__(
        self, source: DataType, target: DataType, rounding: str, out_of_range: str, maps: tuple[ScalarMap, ScalarMap]
    ) -> None:
        self.source = source
        self.data_type = target
        self.rule = (rounding, out_of_range)
        self.maps = maps

    def encode(self, chunk: Chunk) -> Chunk:
        return cast(chunk, self.data_type.numpy, *self.rule, self.maps[0])

    def decoder(self, shape: Shape) -> Decoder:
        dtype, rule, scalars = self.source.numpy, self.rule, self.maps[1]
        return lambda chunk: cast(chunk, dtype, *rule, scalars)


def build(spec: CodecSpec, context: Context) -> CastValue:
    """Build the codec with the options ``data_type``, ``rounding``, ``out_of_range`` and ``scalar_map``."""
    # data types
    check_options(spec, "data_type", "rounding", "out_of_range", "scalar_map")
    source = context.data_type
    target = data_type_from_json(option(spec, "data_type", REQUIRED, lambda value: isinstance(value, (str, Mapping))))
    for data_type in (source, target):
        dtype = data_type.numpy
        if data_type.variable or (dtype.kind not in "iuf" and dtype not in EXTENDED_DTYPES) or dtype.itemsize > 8:
            raise MetadataError(f"{data_type} can't be cast by value", field="codecs.data_type", codec=_NAME)

    # rule
    rounding = option(spec, "rounding", "nearest-even", {mode: mode for mode in MODES})
    ranges = {"error": "error", None: "error", "clamp": "clamp", "wrap": "wrap"}
    out_of_range = option(spec, "out_of_range", None, ranges)
    if out_of_range == "wrap" and not _is_integer(target.numpy):
        raise MetadataError("only integers can wrap", field="codecs.out_of_range", codec=_NAME)

    # scalars
    maps = option(spec, "scalar_map", None, lambda value: value is None or isinstance(value, Mapping)) or {}
    if set(maps) - {"encode", "decode"}:
        raise MetadataError(
            "a scalar map has only the members encode and decode", field="codecs.scalar_map", codec=_NAME
        )
    encode = _scalars(maps.get("encode") or (), source, target)
    decode = _scalars(maps.get("decode") or (), target, source)
    return CastValue(source, target, rounding, out_of_range, (encode, decode))


def _scalars(pairs: Any, old: DataType, new: DataType) -> ScalarMap:
    """Read the scalars of one direction, a list of pairs or an object."""
    if isinstance(pairs, Mapping):
        pairs = [*pairs.items()]
    if not _is_list(pairs) or not all(_is_list(pair) and len(pair) == 2 for pair in pairs):
        raise MetadataError("a scalar map must be a list of pairs", field="codecs.scalar_map", codec=_NAME)
    try:
        return [(_scalar(source, old), _scalar(target, new)) for source, target in pairs]
    except TegulaError as error:
        raise MetadataError(error.message, field="codecs.scalar_map", codec=_NAME) from error


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _scalar(value: Any, data_type: DataType) -> Chunk:
    """Read a scalar as a fill value of a document; an integer may be written as a float."""
    is_integer = isinstance(value, float) and value.is_integer() and _is_integer(data_type.numpy)
    return fill_from_document(int(value) if is_integer else value, data_type)
