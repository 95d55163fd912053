"""Reductions: computations on arrays of values, which know nothing of stores and jobs.

Sums for checksums, moments for statistics, the blocks of pyramids, the errors of a reduced precision, and equality. The
results of parts merge into those of the whole.

>>> import numpy as np
>>> measure(np.array([1.0, 2.0])).merge(measure(np.array([6.0]))).average
3.0
"""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.reductions.blocks import METHODS, Reduction, downsample_values, supports
    from tegula.reductions.dtypes import computable, is_floating, is_integer, is_number
    from tegula.reductions.equality import are_comparable, equal_values, identical, native
    from tegula.reductions.moments import MOST_BINS, Bins, Moments, measure
    from tegula.reductions.precision import BITS, Loss, Precision, bounds_of, cast
    from tegula.reductions.sums import PRIME, Sums, digest_of, sums_of_fill, sums_of_values, type_name

__all__ = [
    "BITS",
    "METHODS",
    "MOST_BINS",
    "PRIME",
    "Bins",
    "Loss",
    "Moments",
    "Precision",
    "Reduction",
    "Sums",
    "are_comparable",
    "bounds_of",
    "cast",
    "computable",
    "digest_of",
    "downsample_values",
    "equal_values",
    "identical",
    "is_floating",
    "is_integer",
    "is_number",
    "measure",
    "native",
    "sums_of_fill",
    "sums_of_values",
    "supports",
    "type_name",
]

_HOMES = {
    "blocks": "METHODS Reduction downsample_values supports",
    "dtypes": "computable is_floating is_integer is_number",
    "equality": "are_comparable equal_values identical native",
    "moments": "MOST_BINS Bins Moments measure",
    "precision": "BITS Loss Precision bounds_of cast",
    "sums": "PRIME Sums digest_of sums_of_fill sums_of_values type_name",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
