"""The interface of bcolz 1.x: replace ``import bcolz`` by ``from tegula import bcolz``.

Objects in a directory are stored in the format of bcolz 1.x: both libraries can read and change them. Functions and
classes have the names, arguments and results of bcolz.

>>> from tegula import bcolz
>>> c = bcolz.carray([1, 2, 3])
>>> c.append([4, 5])
>>> c.sum(), [n for n in c.where(c[:] > 3)]
(np.int64(15), [4, 5])
"""

from tegula.bcolz import attrs, chunked_eval, utils, version
from tegula.bcolz.arrayprint import array2string, get_printoptions, set_printoptions
from tegula.bcolz.carray_ext import blosc_compressor_list, blosc_version, carray

# as in bcolz, these two names first mean a module and, after these imports, the class or object in it
from tegula.bcolz.ctable import ctable
from tegula.bcolz.defaults import defaults, defaults_ctx
from tegula.bcolz.evaluating.expressions import eval, evaluate
from tegula.bcolz.parameters import (
    BITSHUFFLE,
    NOSHUFFLE,
    SHUFFLE,
    blosc_set_nthreads,
    dask_here,
    filters,
    numexpr_here,
    pandas_here,
    tables_here,
)
from tegula.bcolz.toplevel import (
    arange,
    cparams,
    detect_number_of_cores,
    fill,
    fromiter,
    iterblocks,
    ones,
    open,
    print_versions,
    set_nthreads,
    walk,
    zeros,
)
from tegula.runtime.version import __version__

__all__ = [
    "BITSHUFFLE",
    "NOSHUFFLE",
    "SHUFFLE",
    "__version__",
    "arange",
    "array2string",
    "attrs",
    "blosc_compressor_list",
    "blosc_set_nthreads",
    "blosc_version",
    "carray",
    "chunked_eval",
    "cparams",
    "ctable",
    "dask_here",
    "defaults",
    "defaults_ctx",
    "detect_number_of_cores",
    "eval",
    "fill",
    "filters",
    "fromiter",
    "get_printoptions",
    "iterblocks",
    "numexpr_here",
    "ones",
    "open",
    "pandas_here",
    "print_versions",
    "set_nthreads",
    "set_printoptions",
    "tables_here",
    "utils",
    "version",
    "walk",
    "zeros",
]

carray._evaluate = staticmethod(evaluate)  # set here, since the module of expressions imports that of carrays
