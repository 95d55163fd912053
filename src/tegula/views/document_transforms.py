"""Transforms in JSON, as TensorStore has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.indexing import Affine, Transform
from tegula.indexing.transform import OutputMap, axes_of, extent

__all__ = ["counted_from", "transform_from_json", "transform_to_json"]

_MOST: Final = 2**62


def transform_to_json(transform: Transform) -> dict[str, Any]:
    """Return the document of a transform.

    Examples
    --------
    >>> from tegula.indexing import whole
    >>> transform_to_json(whole((9,)).index(slice(4, None, 2)))["output"]
    [{'input_dimension': 0, 'offset': 4, 'stride': 2}]
    """
    output: list[dict[str, Any]] = []
    for one in transform.maps:
        if not isinstance(one, Affine):
            # JSON does not tell the shape of an array without elements
            output.append({"index_array": one.tolist()} if 0 not in transform.shape else {"offset": 0})
        elif one.axis < 0:
            output.append({"offset": one.start})
        else:
            output.append({"input_dimension": one.axis, "offset": one.start, "stride": one.step})
    document: dict[str, Any] = {
        "input_inclusive_min": [0] * len(transform.shape),
        "input_exclusive_max": [*transform.shape],
        "output": output,
    }
    if transform.names is not None:
        document["input_labels"] = [name or "" for name in transform.names]
    return document


def transform_from_json(document: Any) -> tuple[Transform, tuple[int, ...]]:
    """Return a transform whose domain begins at 0, and where the domain of the document begins.

    Raises
    ------
    MetadataError, UnsupportedError
        If the document is not valid, or says something that tegula does not read.

    Examples
    --------
    >>> document = {"input_inclusive_min": [2], "input_exclusive_max": [5]}
    >>> transform, begin = transform_from_json(document)
    >>> transform.shape, transform.maps, begin
    ((3,), (Affine(axis=0, start=2, step=1),), (2,))
    """
    known = {
        "input_inclusive_min", "input_exclusive_max", "input_inclusive_max", "input_shape", "input_labels", "output",
        "input_rank",
    }  # fmt: skip
    if not isinstance(document, Mapping) or set(document) - known:
        raise MetadataError("a transform has members that are not known", field="transform")
    lows, highs = document.get("input_inclusive_min"), document.get("input_exclusive_max")
    if highs is None and "input_inclusive_max" in document:
        highs = [number + 1 for number in _integers(document["input_inclusive_max"])]
    if highs is None and "input_shape" in document:
        sizes = _integers(document["input_shape"])
        lows = [0] * len(sizes) if lows is None else _integers(lows)
        highs = [low + size for low, size in zip(lows, sizes)]
    if highs is None:
        raise UnsupportedError("a transform without bounds is not read", field="transform")
    highs = _integers(highs)
    lows = [0] * len(highs) if lows is None else _integers(lows)
    if len(lows) != len(highs) or any(low > high for low, high in zip(lows, highs)) or len(lows) > 32:
        raise MetadataError("the bounds of a transform are not valid", field="transform")
    shape = tuple([high - low for low, high in zip(lows, highs)])
    labels = document.get("input_labels")
    names = None
    if labels is not None:
        if not isinstance(labels, list) or len(labels) != len(shape) or not all(isinstance(one, str) for one in labels):
            raise MetadataError("the labels of a transform are not valid", field="transform")
        names = tuple([label or None for label in labels]) if any(labels) else None
    output = document.get("output")
    if output is None:
        output = [{"input_dimension": axis} for axis in range(len(shape))]
    if not isinstance(output, list) or len(output) > 32:
        raise MetadataError("the output of a transform is not valid", field="transform")
    maps = [_map_from_json(one, lows, shape) for one in output]
    used = [one.axis for one in maps if isinstance(one, Affine) and one.axis >= 0]
    if len(used) != len({*used}):
        raise UnsupportedError("a transform that uses a dimension twice is not read", field="transform")
    varied = {axis for one in maps for axis in axes_of(one)}
    if 0 not in shape and any(size != 1 and axis not in varied for axis, size in enumerate(shape)):
        raise UnsupportedError("a transform that repeats elements along a dimension is not read", field="transform")
    return Transform(shape, tuple(maps), (), names), tuple(lows)


def _map_from_json(document: Any, lows: list[int], shape: tuple[int, ...]) -> OutputMap:
    known = {"offset", "stride", "input_dimension", "index_array", "index_array_bounds"}
    if not isinstance(document, Mapping) or set(document) - known:
        raise MetadataError("an output map of a transform is not valid", field="transform")
    offset, stride = _integers([document.get("offset", 0), document.get("stride", 1)])
    if "index_array" in document:
        try:
            array = np.array(document["index_array"])
        except (ValueError, TypeError, OverflowError):
            array = np.zeros(0)
        fits = array.ndim == len(shape) and all(length in (1, size) for length, size in zip(array.shape, shape))
        if array.dtype.kind not in "iu" or not fits:
            raise MetadataError("an index array of a transform is not valid", field="transform")
        if "index_array_bounds" in document and array.size:
            least, most = _pair(document["index_array_bounds"])
            if int(array.min()) < least or int(array.max()) > most:
                raise MetadataError("an index array of a transform leaves its bounds", field="transform")
        made = array.astype(np.int64) * stride + offset
        return Affine(-1, int(made.reshape(-1)[0]), 0) if made.size == 1 else made
    axis = document.get("input_dimension")
    if axis is None:
        return Affine(-1, offset, 0)
    if type(axis) is not int or not 0 <= axis < len(shape) or not stride:
        raise MetadataError("an input dimension of a transform is not valid", field="transform")
    return Affine(axis, offset + stride * lows[axis], stride)


def counted_from(origin: Sequence[int], transform: Transform) -> Transform:
    """Return a transform with indices that count from the origin of what it is of.

    Raises
    ------
    MetadataError
        If there are elements before the origin.
    """
    made = transform.moved([-low for low in origin], transform.base)
    if 0 not in made.shape and any(extent(one, made.shape)[0] < 0 for one in made.maps):
        raise MetadataError("a transform leaves the array or view that it is of", field="transform")
    return made


def _pair(bounds: Any) -> list[int]:
    made = _integers(bounds)
    if len(made) != 2:
        raise MetadataError("the bounds of an index array are not valid", field="transform")
    return made


def _integers(values: Any) -> list[int]:
    """Return integers of a document; one in brackets is a bound that may move."""
    made: list[Any] = [*values] if isinstance(values, list) else [""]
    made = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in made]
    if not all(type(one) is int and abs(one) < _MOST for one in made):
        raise MetadataError("a transform has bounds that are no integers", field="transform")
    return made
