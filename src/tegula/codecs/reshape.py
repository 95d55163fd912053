"""``reshape``: the elements of a chunk in another shape, in C order (Zarr extensions registry, "reshape codec").

``zarrs.squeeze``, its predecessor in zarrs, leaves out the axes along which a chunk has one element.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from tegula.codecs.stages import REQUIRED, ArrayCodec, Chunk, Context, Decoder, Shape, check_options, option
from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["Reshape", "build"]

_NAME: Final = "reshape"
_SQUEEZE: Final = "zarrs.squeeze"
_MOST: Final = 2**62


class Reshape(ArrayCodec):
    """The codec for one rule of shapes.

    Parameters
    ----------
    lengths : sequence of int or sequence of int
        For each axis of the encoded chunk its length, the axes of the chunk whose lengths are multiplied, or -1 for
        what remains.
    data_type : DataType
        Type of the elements.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> Reshape([[0, 1], 2, -1], as_data_type("u1")).shape((4, 3, 10))
    (12, 2, 5)
    """

    name = _NAME

    def __init__(self, lengths: list[Any], data_type: DataType) -> None:
        self.lengths = lengths
        self.data_type = self.before = data_type

    def ndim(self, ndim: int) -> int:
        return len(self.lengths)

    def shape(self, shape: Shape) -> Shape:
        total = prod(shape)
        out = [each if type(each) is int else prod(shape[axis] for axis in each) for each in self.lengths]
        if -1 in out:
            rest = prod(length for length in out if length != -1)
            out[out.index(-1)] = total // rest if rest and total % rest == 0 else -1
        fits = prod(out) == total and -1 not in out
        for position, axes in enumerate(self.lengths):
            if fits and type(axes) is not int and axes:
                fits = prod(out[:position]) == prod(shape[: axes[0]])
                fits = fits and prod(out[position + 1 :]) == prod(shape[axes[-1] + 1 :])
        if not fits:
            raise MetadataError(
                f"chunks of shape {shape} can't be reshaped by {self.lengths!r:.80}", field="codecs.shape", codec=_NAME
            )
        return tuple(out)

    def fill(self, fill: Chunk) -> Chunk:
        return fill

    def encode(self, chunk: Chunk) -> Chunk:
        return chunk.reshape(self.shape(chunk.shape))

    def decoder(self, shape: Shape) -> Decoder:
        self.shape(shape)
        return lambda chunk: chunk.reshape(shape)


def build(spec: CodecSpec, context: Context) -> Reshape:
    """Build the codec with the option ``shape``, or ``zarrs.squeeze``."""
    if spec.name == _SQUEEZE:
        return _squeeze(spec, context)
    check_options(spec, "shape")
    lengths = option(spec, "shape", REQUIRED, lambda value: isinstance(value, (list, tuple)) and len(value) <= 64)
    lengths = [[*each] if isinstance(each, (list, tuple)) else each for each in lengths]
    axes = [axis for each in lengths if isinstance(each, list) for axis in each]
    ordered = all(type(axis) is int and 0 <= axis < context.ndim for axis in axes) and axes == sorted({*axes})
    numbers = [each for each in lengths if not isinstance(each, list)]
    valid = all(type(each) is int and (each == -1 or 0 < each < _MOST) for each in numbers)
    if not ordered or not valid or numbers.count(-1) > 1:
        raise MetadataError(
            f"{lengths!r:.80} is no shape: lengths from 1, -1 at most once, and axes of {context.ndim} in order",
            field="codecs.shape",
            codec=_NAME,
        )
    return Reshape(lengths, context.data_type)


def _squeeze(spec: CodecSpec, context: Context) -> Reshape:
    check_options(spec)
    if context.shape is None:
        raise UnsupportedError("chunks of different shapes can't be squeezed; use the codec 'reshape'", codec=_SQUEEZE)
    kept = [[axis] for axis, length in enumerate(context.shape) if length != 1]
    return Reshape(kept or [1], context.data_type)
