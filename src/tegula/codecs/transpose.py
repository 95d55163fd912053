"""``transpose``: permutation of the axes of a chunk (Zarr v3 core, "transpose codec")."""

from __future__ import annotations

from tegula.codecs.stages import REQUIRED, ArrayCodec, Chunk, Context, Decoder, Shape, check_options, option
from tegula.errors import MetadataError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["Transpose", "build"]


class Transpose(ArrayCodec):
    """The codec for one permutation of the axes.

    Parameters
    ----------
    order : tuple of int
        Axis ``i`` of the encoded chunk is axis ``order[i]`` of the chunk.
    data_type : DataType
        Type of the elements.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula.metadata.data_types import as_data_type
    >>> Transpose((1, 0), as_data_type("u1")).encode(np.array([[1, 2, 3]])).tolist()
    [[1], [2], [3]]
    """

    name = "transpose"

    def __init__(self, order: tuple[int, ...], data_type: DataType) -> None:
        self.order = order
        self.inverse = tuple(order.index(axis) for axis in range(len(order)))
        self.data_type = data_type

    def shape(self, shape: Shape) -> Shape:
        return tuple(shape[axis] for axis in self.order)

    def fill(self, fill: Chunk) -> Chunk:
        return fill

    def encode(self, chunk: Chunk) -> Chunk:
        return chunk.transpose(self.order)

    def decoder(self, shape: Shape) -> Decoder:
        inverse = self.inverse
        return lambda chunk: chunk.transpose(inverse)


def build(spec: CodecSpec, context: Context) -> Transpose | None:
    """Build the codec with the option ``order``: a permutation, or ``"C"`` or ``"F"`` as in early drafts."""
    check_options(spec, "order")
    ndim = context.ndim
    order = option(spec, "order", REQUIRED, lambda value: isinstance(value, (list, tuple)) or value in ("C", "F"))
    if isinstance(order, str):
        order = range(ndim) if order == "C" else range(ndim)[::-1]
    if any(type(axis) is not int for axis in order) or sorted(order) != [*range(ndim)]:
        raise MetadataError(f"the order must name each of {ndim} axes once", field="codecs.order", codec="transpose")
    return None if [*order] == [*range(ndim)] else Transpose(tuple(order), context.data_type)
