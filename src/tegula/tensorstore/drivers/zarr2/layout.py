"""The schema that Zarr v2 metadata implies: domain, chunks and codecs."""

from __future__ import annotations

from typing import Any

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.drivers.domains import Ranks, stored_bounds, stored_domain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.index.domain import IndexDomain, merge_domains

__all__ = ["codec_of", "effective_domain", "effective_layout", "inner_order"]


def effective_domain(
    known: Ranks, shape: tuple[int, ...] | None, shown: Elements | None, constraint: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that a shape and a constraint on the domain together determine; None if it is unknown.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    extents = known.chunked == 0 or shape is not None
    complete = extents and (shown is not None or known.chunked == known.full)
    if known.full is None or (constraint is None and not complete):
        return None
    domain = stored_domain(known.full, shape, () if shown is None else shown.shape)
    if constraint is None:
        return domain
    return stored_bounds(merge_domains(domain, constraint), domain.implicit_upper_bounds)


def inner_order(order: str, chunked: int, full: int) -> list[int]:
    """Return the order of the dimensions in a chunk; the dimensions of an element always come last."""
    outer = [*range(chunked)]
    return (outer if order == "C" else outer[::-1]) + [*range(chunked, full)]


def effective_layout(layout: ChunkLayout, known: Ranks, metadata: Metadata, shown: Elements | None) -> ChunkLayout:
    """Return the constraints on the chunks, merged with those that the metadata implies.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    layout = layout.copy()
    full, chunked = known.full, known.chunked
    if full is None:
        return layout
    layout._set_rank(full)
    with setting("grid_origin"):
        layout._set_grid_origin([0] * full, True)
    inner = () if shown is None else shown.shape
    chunks = metadata.chunk_shape
    if full and (chunks is not None or inner):
        outer = [0] * (full - len(inner)) if chunks is None else [*chunks]
        sizes = [*outer, *inner, *[0] * (full - len(outer) - len(inner))]
        for usage in ("write", "read"):
            with setting(f"{usage}_chunk shape"):
                layout._set_part(usage, "shape", sizes, True)
    order = metadata.json.get("order")
    if order is not None and chunked is not None:
        with setting("inner_order"):
            layout._set_inner_order(inner_order(order, chunked, full), True)
    return layout


def codec_of(metadata: Metadata) -> CodecSpec:
    """Return the codec spec that metadata determines; unknown parts are unconstrained."""
    members: dict[str, Any] = {"driver": "zarr", "filters": metadata.json.get("filters")}
    if "compressor" in metadata.json:
        members["compressor"] = metadata.json["compressor"]
    return CodecSpec(members)
