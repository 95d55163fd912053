"""``scale_offset``: ``(x - offset) * scale`` in the arithmetic of the array (Zarr extensions registry, "scale_offset").

For integers, a result out of range and a quotient that is not whole are errors. The range is checked for the smallest
and the largest element with Python's integers; if both fit, NumPy's wrapping arithmetic gives the right result.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tegula.codecs.stages import ArrayCodec, Chunk, Context, Decoder, Shape, check_options, option
from tegula.errors import CodecError, MetadataError, TegulaError
from tegula.metadata.data_types import EXTENDED, DataType
from tegula.metadata.fill_value_json import fill_from_json
from tegula.metadata.nodes import CodecSpec

__all__ = ["ScaleOffset", "build"]

_NAME: Final = "scale_offset"
_FLOATS: Final = frozenset(dtype for name, dtype in EXTENDED.items() if "float" in name and name != "float8_e8m0fnu")


class ScaleOffset(ArrayCodec):
    """The codec that subtracts `offset` and then multiplies by `scale`.

    Parameters
    ----------
    data_type : DataType
        Type of the elements.
    offset, scale : 0-d ndarray
        Values of that type; the scale must not be 0.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> ScaleOffset(as_data_type("f4"), np.array(5, "f4"), np.array(0.5, "f4")).encode(np.array([7], "f4"))
    array([1.], dtype=float32)
    """

    name = _NAME

    def __init__(self, data_type: DataType, offset: Chunk, scale: Chunk) -> None:
        self.data_type = data_type
        self.machine = data_type.numpy.newbyteorder("=") if data_type.numpy.kind in "iuf" else data_type.numpy
        self.offset = offset.astype(self.machine)
        self.scale = scale.astype(self.machine)
        self.is_integer = data_type.numpy.kind in "iu"

    def encode(self, chunk: Chunk) -> Chunk:
        chunk = chunk.astype(self.machine, copy=False)
        if self.is_integer and chunk.size:
            offset, scale = int(self.offset), int(self.scale)
            self._check((int(chunk.min()) - offset) * scale, (int(chunk.max()) - offset) * scale)
        with np.errstate(all="ignore"):
            result = (chunk - self.offset) * self.scale
        return np.asarray(result, self.data_type.numpy)

    def decoder(self, shape: Shape) -> Decoder:
        return self._decode

    def _decode(self, chunk: Chunk) -> Chunk:
        chunk = chunk.astype(self.machine, copy=False)
        with np.errstate(all="ignore"):
            if not self.is_integer:
                return np.asarray(chunk / self.scale + self.offset, self.data_type.numpy)
            if np.any(chunk % self.scale):
                raise CodecError(f"an element is not a multiple of the scale {int(self.scale)}", codec=_NAME)
            if chunk.size:
                offset, scale = int(self.offset), int(self.scale)
                self._check(int(chunk.min()) // scale + offset, int(chunk.max()) // scale + offset)
            return np.asarray(chunk // self.scale + self.offset, self.data_type.numpy)

    def _check(self, one: int, other: int) -> None:
        info = np.iinfo(self.machine)
        if not (info.min <= one <= info.max and info.min <= other <= info.max):
            raise CodecError(f"a result is out of the range of {self.machine}", codec=_NAME)


def build(spec: CodecSpec, context: Context) -> ScaleOffset | None:
    """Build the codec with the options ``offset`` and ``scale``."""
    check_options(spec, "offset", "scale")
    data_type = context.data_type
    if data_type.variable or (data_type.numpy.kind not in "iuf" and data_type.numpy not in _FLOATS):
        raise MetadataError(f"{data_type} is neither an integer nor a floating-point type", field="codecs", codec=_NAME)
    offset, scale = _scalar(spec, "offset", 0, data_type), _scalar(spec, "scale", 1, data_type)
    if scale == 0:
        raise MetadataError("the scale must not be zero", field="codecs.scale", codec=_NAME)
    return ScaleOffset(data_type, offset, scale)


def _scalar(spec: CodecSpec, name: str, default: int, data_type: DataType) -> Chunk:
    """Read a scalar as a fill value; a number may be a string, so that JSON parsers lose no digits."""
    value = option(
        spec, name, default, lambda value: isinstance(value, (int, float, str)) and not isinstance(value, bool)
    )
    is_integer = data_type.numpy.kind in "iu"
    try:
        if isinstance(value, str):
            value = _number(value, is_integer)
        if is_integer and isinstance(value, float) and value.is_integer():
            value = int(value)
        return fill_from_json(value, data_type)
    except (TegulaError, ValueError) as error:
        raise MetadataError(
            f"{value!r:.80} is not a value of {data_type}", field=f"codecs.{name}", codec=_NAME
        ) from error


def _number(text: str, is_integer: bool) -> Any:
    if is_integer:
        return int(text)
    return text if text in ("NaN", "Infinity", "-Infinity") or text.startswith("0x") else float(text)
