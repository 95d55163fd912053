"""Conversion of constraints on a view to constraints on the array."""

from __future__ import annotations

from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["schema_outward"]


def schema_outward(schema: Schema, transform: IndexTransform) -> Schema:
    """Convert constraints on a view to constraints on the array.

    Raises
    ------
    ValueError
        If the ranks differ, or the transform is not invertible.
    """
    if schema.rank is None:
        return schema
    if schema.rank != transform.input_rank:
        raise invalid(
            f"Cannot inverse transform schema of rank {schema.rank} by index transform of rank "
            f"{transform.input_rank} -> {transform.output_rank}"
        )
    domain = schema.domain
    back = _inverse(transform, transform.domain if domain is None else domain)
    return schema._through(back, None if domain is None else back.domain)


def _inverse(transform: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the inverse of a transform; its domain is the image of `domain`."""
    maps: dict[int, OutputIndexMap] = {}
    dims: list[Dim] = []
    for output, output_map in enumerate(transform.output):
        axis, stride = output_map.input_dimension, output_map.stride
        if axis is None or axis in maps or stride not in (1, -1):
            raise invalid(f"Transform is not invertible: output dimension {output}")
        maps[axis] = OutputIndexMap(input_dimension=output, offset=-output_map.offset * stride, stride=stride)
        dim = domain[axis]
        low, high = (dim.inclusive_min, dim.inclusive_max)[::stride]
        implicit_lower, implicit_upper = (dim.implicit_lower, dim.implicit_upper)[::stride]
        upper = _moved(high, stride, output_map.offset) + 1
        dims.append(Dim._make(_moved(low, stride, output_map.offset), upper, implicit_lower, implicit_upper, dim.label))
    if len(maps) != transform.input_rank:
        raise invalid("Transform is not invertible")
    return IndexTransform(dims, output=[maps[axis] for axis in range(transform.input_rank)])


def _moved(bound: int, stride: int, offset: int) -> int:
    infinite = abs(bound) >= 2**62 - 1
    return bound * stride if infinite else bound * stride + offset
