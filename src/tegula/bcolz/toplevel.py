"""``bcolz.toplevel``: functions that create, open and iterate over carrays and ctables."""

from tegula.bcolz.creating import arange, fill, fromiter, iterblocks, ones, open, walk, zeros
from tegula.bcolz.parameters import cparams, detect_number_of_cores, print_versions, set_nthreads

__all__ = [
    "arange",
    "cparams",
    "detect_number_of_cores",
    "fill",
    "fromiter",
    "iterblocks",
    "ones",
    "open",
    "print_versions",
    "set_nthreads",
    "walk",
    "zeros",
]
