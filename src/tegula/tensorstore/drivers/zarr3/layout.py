"""The schema that Zarr v3 metadata implies: domain, read and write chunks, and units."""

from __future__ import annotations

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.domains import Ranks, stored_bounds, stored_domain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.zarr3.metadata import Units, units_to_json
from tegula.tensorstore.drivers.zarr3.resolution import decoded_layout
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.domain import IndexDomain, check_labels, merge_domains
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["effective_domain", "effective_layout", "labels_of", "layout_of_chunks", "merge_units"]


def labels_of(names: tuple[str | None, ...] | None) -> list[str] | None:
    """Return dimension names as labels; ``None`` if there are no names, or they are not valid as labels."""
    if names is None:
        return None
    labels = [name or "" for name in names]
    try:
        check_labels(labels)
    except StatusError:
        return None
    return labels


def effective_domain(
    constraints: Metadata, known: Ranks, shown: Elements | None, schema: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that metadata and schema together determine; ``None`` if neither constrains it.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    chunked, full = known.chunked, known.full
    if constraints.shape is None and constraints.names is None and schema is None:
        return IndexDomain(rank=0) if full == 0 else None
    if full is None:
        full = chunked if schema is None else schema.rank
    if full is None:
        return None
    if full == 0:
        return IndexDomain(rank=0)
    inner = () if shown is None else shown.shape
    domain = stored_domain(full, constraints.shape, inner, labels_of(constraints.names))
    upper = domain.implicit_upper_bounds
    if schema is not None:
        try:
            domain = merge_domains(schema, domain)
        except StatusError as error:
            raise annotate(status("FAILED_PRECONDITION", error.sentence), _MISMATCH) from None
    return stored_bounds(domain, upper)


_MISMATCH = "Mismatch between metadata and schema"


def layout_of_chunks(
    layout: ChunkLayout, rank: int, inner: tuple[int, ...], shape: tuple[int, ...] | None, codecs: Chain | None
) -> ChunkLayout:
    """Return a layout merged with the constraints of a chunk shape and of codecs; `inner` is the shape of an element.

    Raises
    ------
    ValueError
        If they contradict the layout.
    """
    layout = layout.copy()
    full = rank + len(inner)
    layout._set_rank(full)
    with setting("grid_origin"):
        layout._set_grid_origin([0] * full, True)
    if shape is not None:
        with setting("write_chunk shape"):
            layout._set_part("write", "shape", (*shape, *inner), True)
    if codecs is not None:
        decoded = decoded_layout(codecs, rank, shape)
        if decoded.inner_order is not None:
            with setting("inner_order"):
                layout._set_inner_order((*decoded.inner_order, *range(rank, full)), True)
        if decoded.read_shape is not None:
            with setting("read_chunk shape"):
                layout._set_part("read", "shape", (*decoded.read_shape, *inner), True)
    return layout


def effective_layout(constraints: Metadata, known: Ranks, shown: Elements | None, layout: ChunkLayout) -> ChunkLayout:
    """Return the constraints on the chunks, merged with those that the metadata implies.

    Raises
    ------
    ValueError
        If they contradict each other.
    """
    inner = () if shown is None else shown.shape
    rank = known.chunked if known.chunked is not None else known.full
    if rank is None:
        return layout.copy()
    return layout_of_chunks(layout, rank, inner, constraints.chunk_shape, constraints.codecs)


def merge_units(first: Units | None, second: Units | None) -> Units | None:
    """Merge two sequences of units.

    Raises
    ------
    ValueError
        If they have different units for a dimension.
    """
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second):
        raise invalid(f"Rank of constraints ({len(first)}) does not match rank of domain ({len(second)})")
    # compared as text, the form of units in documents
    if any(a is not None and b is not None and str(a) != str(b) for a, b in zip(first, second)):
        shown = (_shown(units) for units in (second, first))
        raise invalid(f"Cannot merge dimension units {next(shown)} and {next(shown)}")
    return tuple(b if a is None else a for a, b in zip(first, second))


def _shown(units: Units) -> str:
    texts = ["null" if text is None else dump(text) for text in units_to_json(units)]
    return f"[{', '.join(texts)}]"
