"""What the metadata of Zarr v3 means for the schema: the domain, the chunks that are read and written, the units."""

from __future__ import annotations

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout, setting
from tegula.tensorstore.constraints.zarr3_codecs import Chain
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_layout import Ranks, stored_bounds
from tegula.tensorstore.drivers.zarr3_metadata import Constraints, Units, units_to_json
from tegula.tensorstore.drivers.zarr3_resolution import decoded_layout
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.index.dim import inf
from tegula.tensorstore.index.domain import IndexDomain, check_labels, merge_domains
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["effective_domain", "effective_layout", "labels_of", "layout_of_chunks", "merge_units"]


def labels_of(names: tuple[str | None, ...] | None) -> list[str] | None:
    """Return names of dimensions as labels; None where there are none, or they can't be labels."""
    if names is None:
        return None
    labels = [name or "" for name in names]
    try:
        check_labels(labels)
    except StatusError:
        return None
    return labels


def effective_domain(
    constraints: Constraints, known: Ranks, shown: Elements | None, schema: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that metadata and schema give together; None if neither says anything.

    Raises
    ------
    ValueError
        If they do not fit together.
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
    outer = full - len(inner)
    sizes = [inf + 1] * outer if constraints.shape is None else [*constraints.shape]
    labels = labels_of(constraints.names)
    upper = [*[True] * outer, *[False] * len(inner)]
    domain = IndexDomain(
        inclusive_min=[0] * full,
        exclusive_max=[*sizes, *inner, *[inf + 1] * (full - len(sizes) - len(inner))],
        implicit_upper_bounds=upper,
        labels=None if labels is None else [*labels, *[""] * (full - len(labels))],
    )
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
    """Return a layout with what a chunk shape and codecs say added; `inner` are the dimensions of an element.

    Raises
    ------
    ValueError
        If that contradicts what is there.
    """
    layout = layout.copy()
    full = rank + len(inner)
    layout.set_rank(full)
    with setting("grid_origin"):
        layout.set_grid_origin([0] * full, True)
    if shape is not None:
        with setting("write_chunk shape"):
            layout.set_part("write", "shape", (*shape, *inner), True)
    if codecs is not None:
        decoded = decoded_layout(codecs, rank, shape)
        if decoded.inner_order is not None:
            with setting("inner_order"):
                layout.set_inner_order((*decoded.inner_order, *range(rank, full)), True)
        if decoded.read_shape is not None:
            with setting("read_chunk shape"):
                layout.set_part("read", "shape", (*decoded.read_shape, *inner), True)
    return layout


def effective_layout(
    constraints: Constraints, known: Ranks, shown: Elements | None, layout: ChunkLayout
) -> ChunkLayout:
    """Return the constraints on the chunks together with what the metadata says of them.

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
    """Return units that are those of both.

    Raises
    ------
    ValueError
        If a dimension has another unit in each.
    """
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second):
        raise invalid(f"Rank of constraints ({len(first)}) does not match rank of domain ({len(second)})")
    if any(a is not None and b is not None and a != b for a, b in zip(first, second)):
        shown = (_shown(units) for units in (second, first))
        raise invalid(f"Cannot merge dimension units {next(shown)} and {next(shown)}")
    return tuple(b if a is None else a for a, b in zip(first, second))


def _shown(units: Units) -> str:
    texts = ["null" if text is None else dump(text) for text in units_to_json(units)]
    return f"[{', '.join(texts)}]"
