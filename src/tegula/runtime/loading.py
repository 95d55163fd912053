"""Importing all modules at once, for programs that can import none later."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tegula.errors import UnsupportedError
from tegula.runtime import deferred
from tegula.runtime.executors import kernel
from tegula.runtime.optional import library

__all__ = ["load_all"]

_INTERFACES: Final = frozenset("arrow bcolz dask references tensorstore xarray zarr zarr1".split())
"""Rooms that programs import by name."""
_NEVER: Final = frozenset(("__main__", "_kernel", "cli", "testing"))
"""Programs, tests of stores, and the kernel, which may not have been built."""

_STANDARD: Final = (
    "asyncio", "base64", "bisect", "ctypes", "dataclasses", "difflib", "encodings.ascii", "encodings.cp437",
    "encodings.idna", "encodings.latin_1", "encodings.utf_16", "encodings.utf_32", "fcntl", "hashlib",
    "http.client", "importlib.machinery", "importlib.metadata", "importlib.util", "logging",
    "multiprocessing.synchronize", "pathlib", "random", "reprlib", "shutil", "tempfile", "threading", "tokenize",
    "urllib.error", "urllib.parse", "urllib.request", "zipfile", "zlib",
)  # fmt: skip
"""Modules of the standard library that functions import, and encodings, which Python imports at their first use."""
_INSTALLED: Final = (
    "boto3", "dask.array", "fsspec.core", "fsspec.registry", "google_crc32c", "ml_dtypes", "msgpack",
    "numcodecs.blosc", "numcodecs.errors", "numcodecs.lz4", "numcodecs.pcodec", "numcodecs.pickles",
    "numcodecs.registry", "numcodecs.zfpy", "numcodecs.zstd", "obstore", "obstore.auth.boto3", "obstore.store",
    "pandas", "pcodec", "pcodec.standalone", "pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet",
    "starlette", "uvicorn", "zfpy",
)  # fmt: skip
"""Other packages that functions import, if they are installed."""
_GIVEN: Final = ("distributed", "polars", "polars.io.plugins", "zarr.abc.store", "zarr.core.buffer")
"""Those that are needed only for objects which a program has made with them."""
_OF_INTERFACES: Final = {
    "arrow": ("polars.io.plugins", "pyarrow.fs"),
    "bcolz": ("numexpr", "tables"),
    "references": (
        "icechunk", "virtualizarr.manifests", "virtualizarr.manifests.manifest", "zarr.core.buffer",
        "zarr.core.metadata.v3", "zarr.core.sync",
    ),
    "xarray": ("dask",),
}  # fmt: skip


def load_all() -> None:
    """Import everything that later operations of tegula would import, so that the process need not find it then.

    tegula imports most of its modules when they are first used, also for arrays that are open already. A process that
    gives up privileges, changes its root directory or loses the disk with its packages calls this function before.

    It imports all modules of tegula itself, the kernel, and the optional packages that are installed, whatever the
    process will use. Interfaces that a program imports by name, such as `tegula.xarray`, are completed if it has
    imported them. It does not import the command line, and what other packages import at their own first use:
    a file system of fsspec, for example, is complete when it has been used once.

    It takes a few seconds. Calling it again takes milliseconds.

    Examples
    --------
    >>> import tegula
    >>> tegula.load_all()
    """
    # modules of tegula
    chosen = {room for room in _INTERFACES if f"tegula.{room}" in sys.modules}
    _import_below(import_module("tegula").__path__, "tegula.", _NEVER | (_INTERFACES - chosen))
    deferred.load()
    kernel()

    # what they import inside functions
    for name in _STANDARD:
        with suppress(ImportError):  # not on every system
            import_module(name)
    given = [name for name in _GIVEN if name.partition(".")[0] in sys.modules]
    for name in (*_INSTALLED, *given, *(name for room in chosen for name in _OF_INTERFACES.get(room, ()))):
        with suppress(UnsupportedError):
            library(name)


def _import_below(path: Iterable[str], prefix: str, without: frozenset[str] = frozenset()) -> None:
    """Import the modules of a package and those below them, except those that need a package which is missing."""
    for found in iter_modules(path, prefix):
        if found.name.removeprefix(prefix) in without:
            continue
        try:
            module = import_module(found.name)
        except UnsupportedError:
            continue
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "tegula":
                raise
            continue
        if found.ispkg:
            _import_below(module.__path__, f"{found.name}.")
