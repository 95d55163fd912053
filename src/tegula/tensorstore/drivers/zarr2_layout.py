"""What the metadata of Zarr v2 means for the schema: which dimensions there are, their bounds, chunks and order.

The dimensions are those of the chunks, then those that the elements of a field have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.fill_values import check_broadcast
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.errors import quoted, status
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY
from tegula.tensorstore.json.binding import MISSING, dump, invalid

__all__ = [
    "Ranks",
    "effective_domain",
    "effective_layout",
    "fill_as_shown",
    "fill_of",
    "inner_order",
    "ranks",
    "shown_part",
    "stored_bounds",
]


def shown_part(zarr: ZarrType, field: str, void: bool, records: bool = False) -> Elements:
    """Return what a spec asks to be shown of each stored element: a field, the only part, all of it, or its bytes.

    Raises
    ------
    ValueError
        If there is no field of that name, or several and no name.
    """
    if void:
        return Elements(zarr.data_type, None, True)
    if records:
        return Elements(zarr.data_type)
    names = zarr.names
    if not field and len(zarr.fields) != 1:
        raise status("FAILED_PRECONDITION", f'Must specify a "field" that is one of: {dump(names)}')
    if field and not zarr.named:
        raise status("FAILED_PRECONDITION", f"Requested field {quoted(field)} but dtype does not have named fields")
    if field and field not in names:
        raise status("FAILED_PRECONDITION", f"Requested field {quoted(field)} is not one of: {dump(names)}")
    return Elements(zarr.data_type, (field or names[0]) if zarr.named else None)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Numbers of dimensions as far as they are known: of the chunks, and of all."""

    chunked: int | None
    full: int | None


def ranks(chunked: int | None, full: int | None, shown: Elements | None) -> Ranks:
    """Complete what is known of the numbers of dimensions.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    inner = None if shown is None else len(shown.shape)
    if inner is not None:
        if full is None and chunked is not None:
            full = chunked + inner
        elif full is not None and chunked is None:
            chunked = full - inner
    wrong = full is not None and chunked is not None and (chunked > full if inner is None else chunked + inner != full)
    if wrong or (chunked is not None and chunked < 0):
        raise invalid(f"Rank specified by schema ({full}) is not compatible with metadata")
    return Ranks(chunked, full)


def effective_domain(
    known: Ranks, shape: Any, shown: Elements | None, constraint: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that a shape and the constraint on the domain give together.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    extents = known.chunked == 0 or shape is not MISSING
    complete = extents and (shown is not None or known.chunked == known.full)
    if known.full is None or (constraint is None and not complete):
        return None
    chunked = known.full if known.chunked is None else known.chunked
    inner = () if shown is None else shown.shape
    outer = [EXCLUSIVE_INFINITY] * chunked if shape is MISSING else [*shape]
    upper = [True] * known.full if shown is None else [*[True] * chunked, *[False] * len(inner)]
    base = IndexDomain(
        inclusive_min=[0] * known.full,
        exclusive_max=[*outer, *inner, *[EXCLUSIVE_INFINITY] * (known.full - chunked - len(inner))],
        implicit_upper_bounds=upper,
    )
    if constraint is None:
        return base
    return stored_bounds(merge_domains(base, constraint), upper)


def stored_bounds(domain: IndexDomain, upper: Sequence[bool]) -> IndexDomain:
    """Return a domain with the implicit bounds of a stored array: lower ones are explicit, upper ones as given."""
    return IndexDomain(
        inclusive_min=domain.inclusive_min,
        exclusive_max=domain.exclusive_max,
        labels=domain.labels,
        implicit_lower_bounds=[False] * domain.rank,
        implicit_upper_bounds=upper,
    )


def fill_as_shown(fill: npt.NDArray[Any], shown: Elements) -> npt.NDArray[Any]:
    """Return a fill value of a schema in the shape of an element.

    Raises
    ------
    ValueError
        If it has other dimensions than an element.
    """
    check_broadcast(fill, shown.shape)
    extra = max(0, fill.ndim - len(shown.shape))
    return np.broadcast_to(fill.reshape(fill.shape[extra:]), shown.shape)


def inner_order(order: str, chunked: int, full: int) -> list[int]:
    """Return the order of the dimensions in a chunk: those of an element come last in any case."""
    outer = [*range(chunked)]
    return (outer if order == "C" else outer[::-1]) + [*range(chunked, full)]


def effective_layout(layout: ChunkLayout, known: Ranks, chunks: Any, order: Any, shown: Elements | None) -> ChunkLayout:
    """Return the constraints on the chunks together with what the metadata says of them.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    layout = layout.copy()
    full, chunked = known.full, known.chunked
    if full is None:
        return layout
    layout.set_rank(full)
    with setting("grid_origin"):
        layout.set_grid_origin([0] * full, True)
    inner = () if shown is None else shown.shape
    if full and (chunks is not MISSING or inner):
        outer = [*chunks] if chunks is not MISSING else [0] * (full - len(inner))
        sizes = [*outer, *inner, *[0] * (full - len(outer) - len(inner))]
        for usage in ("write", "read"):
            with setting(f"{usage}_chunk shape"):
                layout.set_part(usage, "shape", sizes, True)
    if order is not MISSING and chunked is not None:
        with setting("inner_order"):
            layout.set_inner_order(inner_order(order, chunked, full), True)
    return layout


def fill_of(fill: npt.NDArray[Any] | None, shown: Elements) -> npt.NDArray[Any] | None:
    """Return what a missing element shows."""
    if fill is None or fill.dtype.kind == "O":
        return None
    return shown.present(fill if shown.field is None else np.asarray(fill[shown.field]))
