"""Compression parameters, default values of arguments, and facts about Blosc and threads."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np

import tegula
from tegula.errors import MetadataError
from tegula.runtime.optional import how_to_install, library

__all__ = [
    "BITSHUFFLE",
    "NOSHUFFLE",
    "SHUFFLE",
    "Defaults",
    "Engine",
    "blosc_compressor_list",
    "blosc_set_nthreads",
    "blosc_version",
    "checked_flavor",
    "checked_vm",
    "cparams",
    "dask_here",
    "defaults",
    "defaults_ctx",
    "detect_number_of_cores",
    "filters",
    "numexpr_here",
    "pandas_here",
    "print_versions",
    "set_nthreads",
    "tables_here",
]

NOSHUFFLE, SHUFFLE, BITSHUFFLE = 0, 1, 2
filters = {NOSHUFFLE: "noshuffle", SHUFFLE: "shuffle", BITSHUFFLE: "bitshuffle"}

numexpr_here = find_spec("numexpr") is not None
dask_here = find_spec("dask") is not None
pandas_here = find_spec("pandas") is not None
tables_here = find_spec("tables") is not None

_NAMES = ("clevel", "shuffle", "cname", "quantize")
Engine = Literal["numexpr", "python", "dask"]


def blosc_compressor_list() -> list[str]:
    """Return the names of the compressors in this build of Blosc.

    Examples
    --------
    >>> "lz4" in blosc_compressor_list()
    True
    """
    return [*library("numcodecs.blosc").list_compressors()]


def blosc_version() -> tuple[str, str]:
    """Return the version of the Blosc library and the date of its release.

    Examples
    --------
    >>> blosc_version()[0].split(".")[0]
    '1'
    """
    blosc = library("numcodecs.blosc")
    return blosc.VERSION_STRING, blosc.VERSION_DATE


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compression parameters that are not ``None``, and raise `MetadataError` if one is not valid."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in ("clevel", "shuffle", "quantize"):
        if name in given and not isinstance(given[name], int):
            raise MetadataError(f"{name} must be an int, not {given[name]!r:.80}", field=name)
    for name in ("clevel", "quantize"):
        if given.get(name, 0) < 0:
            raise MetadataError(f"{name} can't be negative: {given[name]}", field=name)
    if given.get("shuffle", SHUFFLE) not in filters:
        raise MetadataError(f"shuffle must be one of {[*filters]}, not {given['shuffle']}", field="shuffle")
    if "cname" in given and given["cname"] not in blosc_compressor_list():
        raise MetadataError(f"this build of Blosc has no compressor {given['cname']!r:.80}", field="cname")
    return given


class cparams:
    """Compression parameters; `defaults` has the values of parameters that are left out.

    Parameters
    ----------
    clevel : int, optional
        Compression level, 0 to 9.
    shuffle : int, optional
        `NOSHUFFLE`, `SHUFFLE` or `BITSHUFFLE`.
    cname : str, optional
        Name of the compressor within Blosc.
    quantize : int, optional
        Number of significant digits of floating-point numbers to keep; 0 keeps all of them.

    Raises
    ------
    MetadataError
        If a value is not valid.

    Examples
    --------
    >>> cparams(clevel=9, cname="zstd")
    cparams(clevel=9, shuffle=1, cname='zstd', quantize=0)
    """

    def __init__(
        self,
        clevel: int | None = None,
        shuffle: int | None = None,
        cname: str | None = None,
        quantize: int | None = None,
    ) -> None:
        given = {"clevel": clevel, "shuffle": shuffle, "cname": cname, "quantize": quantize}
        self._values = {**defaults.cparams, **_checked(given)}

    @classmethod
    def _of(cls, **values: Any) -> cparams:
        """Return the parameters of a stored array, which need not be valid for a new array."""
        made = cls()
        made._values.update(values)
        return made

    @property
    def clevel(self) -> int:
        """Compression level."""
        return int(self._values["clevel"])

    @property
    def shuffle(self) -> int:
        """The shuffle filter: `NOSHUFFLE`, `SHUFFLE` or `BITSHUFFLE`."""
        value: int = self._values["shuffle"]
        return value

    @property
    def cname(self) -> str:
        """Name of the compressor within Blosc."""
        return str(self._values["cname"])

    @property
    def quantize(self) -> int:
        """Number of significant digits that are kept; 0 means all of them."""
        return int(self._values["quantize"])

    @staticmethod
    def setdefaults(
        clevel: int | None = None,
        shuffle: int | None = None,
        cname: str | None = None,
        quantize: int | None = None,
    ) -> None:
        """Change the defaults of the given parameters; see `cparams`.

        Examples
        --------
        >>> before = defaults.cparams["clevel"]
        >>> cparams.setdefaults(clevel=9)
        >>> cparams().clevel
        9
        >>> cparams.setdefaults(clevel=before)
        """
        given = {"clevel": clevel, "shuffle": shuffle, "cname": cname, "quantize": quantize}
        defaults.cparams.update(_checked(given))

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, cparams) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._values.values()))

    def __repr__(self) -> str:
        return f"cparams(clevel={self.clevel}, shuffle={self.shuffle}, cname={self.cname!r}, quantize={self.quantize})"


def checked_vm(value: str) -> Engine:
    """Return `value` if it is a valid ``vm``."""
    engines: tuple[Engine, ...] = get_args(Engine)
    for engine in engines:
        if value == engine:
            return engine
    raise MetadataError(f"vm must be 'numexpr', 'python' or 'dask', not {value!r:.80}", field="vm")


def checked_flavor(value: str) -> str:
    """Return `value` if it is a valid ``out_flavor``."""
    if value not in ("bcolz", "carray", "numpy"):
        raise MetadataError(f"out_flavor must be 'bcolz', 'carray' or 'numpy', not {value!r:.80}", field="out_flavor")
    return value


class Defaults:
    """Default values of arguments; `defaults` is the instance in use.

    Examples
    --------
    >>> defaults.out_flavor, defaults.allow_pickle
    ('bcolz', False)
    """

    def __init__(self) -> None:
        self._vm = "numexpr" if numexpr_here else "dask" if dask_here else "python"
        self._out_flavor = "bcolz"
        self._cparams: dict[str, Any] = {"clevel": 5, "shuffle": SHUFFLE, "cname": "lz4", "quantize": 0}
        self.allow_pickle = False

    @property
    def vm(self) -> str:
        """The engine that evaluates expressions: ``"numexpr"``, ``"python"`` or ``"dask"``."""
        return self._vm

    @vm.setter
    def vm(self, value: str) -> None:
        checked_vm(value)
        if value == "dask" and not dask_here:
            raise MetadataError(f"{value} is not installed: {how_to_install(value)}", field="vm")
        self._vm = value

    @property
    def out_flavor(self) -> str:
        """The type of results of an evaluation: ``"bcolz"`` (or ``"carray"``), or ``"numpy"``."""
        return self._out_flavor

    @out_flavor.setter
    def out_flavor(self, value: str) -> None:
        self._out_flavor = checked_flavor(value)

    eval_vm = vm
    eval_out_flavor = out_flavor

    @property
    def cparams(self) -> dict[str, Any]:
        """The compression parameters of new objects, by name."""
        return self._cparams

    @cparams.setter
    def cparams(self, value: Any) -> None:
        if isinstance(value, cparams):
            value = value._values
        if not isinstance(value, Mapping) or not {*_NAMES} <= {*value}:
            raise MetadataError(f"cparams must be cparams or a dict with {', '.join(_NAMES)}, not {value!r:.80}")
        self._cparams = {**self._cparams, **_checked({name: value[name] for name in _NAMES})}


defaults = Defaults()


@contextmanager
def defaults_ctx(
    cparams: Any = None, vm: str | None = None, out_flavor: str | None = None, allow_pickle: bool | None = None
) -> Iterator[None]:
    """Change defaults within a ``with`` block.

    Examples
    --------
    >>> with defaults_ctx(cparams=cparams(clevel=1)):
    ...     defaults.cparams["clevel"]
    1
    """
    before = vars(defaults).copy()
    try:
        if cparams is not None:
            defaults.cparams = cparams
        for name, value in (("vm", vm), ("out_flavor", out_flavor), ("allow_pickle", allow_pickle)):
            if value is not None:
                setattr(defaults, name, value)
        yield
    finally:
        vars(defaults).update(before)


def blosc_set_nthreads(nthreads: int) -> int:
    """Set the number of chunks that are processed in parallel, and return the previous number.

    Examples
    --------
    >>> before = blosc_set_nthreads(2)
    >>> blosc_set_nthreads(before)
    2
    """
    return tegula.config.put(threads=nthreads).threads


def set_nthreads(nthreads: int) -> int:
    """Set the number of threads, and return the previous number.

    Examples
    --------
    >>> before = set_nthreads(2)
    >>> set_nthreads(before)
    2
    """
    return blosc_set_nthreads(nthreads)


def detect_number_of_cores() -> int:
    """Return the number of cores of this machine.

    Examples
    --------
    >>> detect_number_of_cores() >= 1
    True
    """
    return os.cpu_count() or 1


def print_versions() -> None:
    """Print the versions of tegula and of the libraries that this interface uses."""
    print(f"tegula version:    {tegula.__version__}")
    print(f"NumPy version:     {np.__version__}")
    print(f"Blosc version:     {' '.join(blosc_version())}")
    print(f"Blosc compressors: {blosc_compressor_list()}")
    here_or_not = {"numexpr": numexpr_here, "dask": dask_here, "pandas": pandas_here, "tables": tables_here}
    for name, here in here_or_not.items():
        version = importlib.import_module(name).__version__ if here else "not available"
        print(f"{name + ' version:':<18} {version}")
    print(f"Python version:    {sys.version}")
    print(f"Platform:          {platform.platform()}")
    print(f"Byte order:        {sys.byteorder}")
    print(f"Detected cores:    {detect_number_of_cores()}")
