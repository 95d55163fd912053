"""Files and directories of other formats: how to recognise them, and advice on how to open them."""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from typing import Final, NamedTuple

from tegula.errors import UnsupportedError

__all__ = ["Foreign", "recognise", "refuse_foreign"]

_HEAD: Final = 4096  # bytes that are read of a file


class Foreign(NamedTuple):
    """A format that tegula does not read.

    Parameters
    ----------
    name : str
        Its name, with an article.
    advice : str
        How to open it, and how to store its arrays with tegula.
    """

    name: str
    advice: str


_HDF5: Final = Foreign("an HDF5 file", "open it with h5py or xarray, and store its arrays with tegula.save")
_NETCDF4: Final = Foreign("a netCDF-4 file", "open it with xarray or netCDF4, and store its arrays with tegula.save")
_NETCDF3: Final = Foreign("a netCDF-3 file", "open it with xarray or scipy.io, and store its arrays with tegula.save")
_NPY: Final = Foreign("a NumPy file", "store it with tegula.save(target, numpy.load(path, mmap_mode='r'))")
_NPZ: Final = Foreign("a NumPy archive", "store its arrays with tegula.save(target, **numpy.load(path))")
_PARQUET: Final = Foreign("Parquet data", "read it with pyarrow or pandas, and store it with tegula.create_table")
_ARROW: Final = Foreign("an Arrow file", "read it with pyarrow.feather, and store it with tegula.create_table")
_TIFF: Final = Foreign("a TIFF file", "read it with tifffile, and store it with tegula.save")
_FITS: Final = Foreign("a FITS file", "open it with astropy.io.fits, and store its arrays with tegula.save")
_GRIB: Final = Foreign("a GRIB file", "open it with xarray and cfgrib, and store its arrays with tegula.save")
_BLOSC2: Final = Foreign("a Blosc2 file", "open it with blosc2.open, and store it with tegula.save")
_BLOSCPACK: Final = Foreign("a bloscpack file", "read it with bloscpack; a bcolz array is the directory above it")
_SQLITE: Final = Foreign("an SQLite database", "if it is a zarr.SQLiteStore, copy it into a directory with zarr 2")

_MAGIC: Final = (
    (b"\x89HDF\r\n\x1a\n", _HDF5),
    (b"CDF\x01", _NETCDF3),
    (b"CDF\x02", _NETCDF3),
    (b"CDF\x05", _NETCDF3),
    (b"\x93NUMPY", _NPY),
    (b"PAR1", _PARQUET),
    (b"ARROW1", _ARROW),
    (b"II*\0", _TIFF),
    (b"MM\0*", _TIFF),
    (b"II+\0", _TIFF),
    (b"MM\0+", _TIFF),
    (b"SIMPLE  =", _FITS),
    (b"GRIB", _GRIB),
    (b"\x9e\xa8b2frame\0", _BLOSC2),
    (b"blpk", _BLOSCPACK),
    (b"SQLite format 3\0", _SQLITE),
)


def recognise(path: str) -> Foreign | None:
    """Recognise a file or directory by its first bytes and names; return ``None`` if that fails.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(os.path.join(folder, "x.npy"), np.arange(3))
    ...     recognise(os.path.join(folder, "x.npy")).name
    'a NumPy file'
    """
    with suppress(OSError, ValueError):
        if os.path.isdir(path):
            return _directory(path)
        if not os.path.isfile(path):  # opening a pipe would wait for its writer
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        kind = next((item for magic, item in _MAGIC if head.startswith(magic)), None)
        if kind is _HDF5 and (path.endswith((".nc", ".nc4", ".cdf")) or b"_NCProperties" in head):
            return _NETCDF4
        if kind is None and head[:2] == b"PK":
            return _archive(path)
        return kind
    return None


def _directory(path: str) -> Foreign | None:
    with os.scandir(path) as entries:
        return _PARQUET if any(entry.name.endswith(".parquet") for entry in entries) else None


def _archive(path: str) -> Foreign | None:
    with suppress(zipfile.BadZipFile, NotImplementedError), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        return _NPZ if names and all(name.endswith(".npy") for name in names) else None
    return None


def refuse_foreign(path: str | None) -> None:
    """Raise an error with advice if a file or directory is of a format that tegula does not read.

    Parameters
    ----------
    path : str or None
        A path on this machine; nothing is done for ``None``.

    Raises
    ------
    UnsupportedError
        If it has such a format.
    """
    kind = recognise(path) if path is not None else None
    if kind is not None:
        raise UnsupportedError(f"this is {kind.name}, not an array or group of Zarr or bcolz: {kind.advice}", path=path)
