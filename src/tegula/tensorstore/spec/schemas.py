"""A schema seen through the transform of a spec, from the array's dimensions to the spec's and back."""

from __future__ import annotations

from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.schema_views import fill_through, layout_through, units_through
from tegula.tensorstore.errors import status
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["schema_inward", "schema_outward"]


def schema_inward(schema: Schema, transform: IndexTransform) -> Schema:
    """Return the schema of the view that a transform makes of an array."""
    return _through(schema, transform, transform.domain)


def _through(schema: Schema, transform: IndexTransform, domain: IndexDomain | None) -> Schema:
    found = Schema(rank=transform.input_rank)
    if schema.dtype is not None:
        found.update(dtype=schema.dtype)
    if domain is not None:
        found.update(domain=domain)
    if schema.chunk_layout.rank != -1:
        found.update(chunk_layout=layout_through(schema.chunk_layout, transform))
    if schema.codec is not None:
        found.update(codec=schema.codec)
    if schema.fill_value is not None:
        found.update(fill_value=fill_through(schema.fill_value, schema.domain, transform))
    if schema.dimension_units is not None:
        found.update(dimension_units=units_through(schema.dimension_units, transform))
    return found


def schema_outward(schema: Schema, transform: IndexTransform) -> Schema:
    """Return the constraints on an array that constraints on a view of it mean.

    Raises
    ------
    ValueError
        If they are of another rank, or the transform can't be turned round.
    """
    if schema.rank is None:
        return schema
    if schema.rank != transform.input_rank:
        raise status(
            "INVALID_ARGUMENT",
            f"Cannot inverse transform schema of rank {schema.rank} by index transform of rank "
            f"{transform.input_rank} -> {transform.output_rank}",
        )
    domain = schema.domain
    back = _inverse(transform, transform.domain if domain is None else domain)
    return _through(schema, back, None if domain is None else back.domain)


def _inverse(transform: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the transform from the output space to the input space, and over the output of `domain`."""
    places: dict[int, tuple[int, int, int]] = {}
    lower, upper, implicit_lower, implicit_upper, labels = [], [], [], [], []
    for place, found in enumerate(transform.output):
        axis = found.input_dimension
        if axis is None or axis in places or found.stride not in (1, -1):
            raise status("INVALID_ARGUMENT", f"Transform is not invertible: output dimension {place}")
        stride = found.stride
        places[axis] = (place, -found.offset * stride, stride)
        dim = domain[axis]
        ends = (dim.inclusive_min, dim.exclusive_max - 1)
        flags = (dim.implicit_lower, dim.implicit_upper)
        low, high = ends[::stride]
        lower.append(_moved(low, stride, found.offset))
        upper.append(_moved(high, stride, found.offset) + 1)
        implicit_lower.append(flags[::stride][0])
        implicit_upper.append(flags[::stride][1])
        labels.append(domain.labels[axis])
    if len(places) != transform.input_rank:
        raise status("INVALID_ARGUMENT", "Transform is not invertible")
    output = [
        OutputIndexMap(input_dimension=place, offset=offset, stride=stride)
        for place, offset, stride in (places[axis] for axis in range(transform.input_rank))
    ]
    return IndexTransform(
        input_inclusive_min=lower,
        input_exclusive_max=upper,
        implicit_lower_bounds=implicit_lower,
        implicit_upper_bounds=implicit_upper,
        input_labels=labels,
        output=output,
    )


def _moved(bound: int, stride: int, offset: int) -> int:
    infinite = abs(bound) >= 2**62 - 1
    return bound * stride if infinite else bound * stride + offset
