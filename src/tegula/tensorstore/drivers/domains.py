"""Number and bounds of the dimensions of stored arrays.

The dimensions of the array come first, then those of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.errors import StatusError
from tegula.tensorstore.index.domain import IndexDomain, check_labels, merge_domains
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY
from tegula.tensorstore.json.binding import invalid

__all__ = ["Ranks", "effective_domain", "ranks", "stored_bounds", "stored_domain"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The number of chunked dimensions and of all dimensions; None if unknown."""

    chunked: int | None
    full: int | None


def ranks(chunked: int | None, full: int | None, shown: Elements | None) -> Ranks:
    """Derive either number of dimensions from the other, if the shown part of the elements is known."""
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


def stored_domain(
    full: int, shape: tuple[int, ...] | None, inner: Sequence[int], labels: Sequence[str] | None = None
) -> IndexDomain:
    """Return the domain of a stored array; the upper bounds of its own dimensions are implicit.

    Parameters
    ----------
    full : int
        Number of all dimensions.
    shape : tuple of int or None
        Shape of the array; None if unknown.
    inner : sequence of int
        Shape of an element.
    labels : sequence of str, optional
        Labels of the first dimensions.
    """
    outer = full - len(inner)
    sizes = shape or ()
    return IndexDomain(
        inclusive_min=[0] * full,
        exclusive_max=[*sizes, *[EXCLUSIVE_INFINITY] * (outer - len(sizes)), *inner],
        implicit_upper_bounds=[*[True] * outer, *[False] * len(inner)],
        labels=None if labels is None else [*labels, *[""] * (full - len(labels))],
    )


def stored_bounds(domain: IndexDomain, upper: Sequence[bool]) -> IndexDomain:
    """Return a domain with explicit lower bounds; `upper` says which upper bounds are implicit."""
    return IndexDomain(
        inclusive_min=domain.inclusive_min,
        exclusive_max=domain.exclusive_max,
        labels=domain.labels,
        implicit_lower_bounds=[False] * domain.rank,
        implicit_upper_bounds=upper,
    )


def effective_domain(
    metadata: Metadata, known: Ranks, shown: Elements | None, wanted: IndexDomain | None
) -> IndexDomain | None:
    """Return the domain that metadata and a constraint on the domain together determine; None if it is unknown."""
    extents = known.chunked == 0 or metadata.shape is not None or metadata.names is not None
    complete = extents and (shown is not None or known.chunked == known.full)
    if known.full is None or (wanted is None and not complete):
        return None
    inner = () if shown is None else shown.shape
    domain = stored_domain(known.full, metadata.shape, inner, _labels_of(metadata.names))
    upper = domain.implicit_upper_bounds
    return stored_bounds(domain if wanted is None else merge_domains(wanted, domain), upper)


def _labels_of(names: Sequence[str | None] | None) -> list[str] | None:
    """Return dimension names as labels; ``None`` if there are no names, or they are not valid as labels."""
    if names is None:
        return None
    labels = [name or "" for name in names]
    try:
        check_labels(labels)
    except StatusError:
        return None
    return labels
