"""Documents of each format: their keys, relative to the node, and their layout."""

from __future__ import annotations

from typing import Final

from tegula.runtime.frozen import Frozen

__all__ = [
    "BCOLZ_KEYS", "BCOLZ_NODE_KEYS", "BCOLZ_SHAPE_KEY", "CONSOLIDATED_KEY", "DRAFTS", "N5_KEY", "N5_MEMBERS",
    "NETCDF", "NETCDF_KEY",
    "OLD_KEYS", "ZARR1_KEYS", "ZARR2_KEYS", "ZARR3_KEY", "Style",
]  # fmt: skip

ZARR3_KEY: Final = "zarr.json"
DRAFTS: Final = ("https://purl.org/zarr/spec/", "http://purl.org/zarr/spec/")
"""How the versions of drafts of Zarr v3 begin, in ``zarr_format``."""
ZARR2_KEYS: Final = (".zarray", ".zgroup", ".zattrs")
NETCDF: Final = "_nczarr_array"
"""The attribute in which the netCDF library names dimensions."""
NETCDF_KEY: Final = ".nczarray"
"""The document beside ``.zarray`` in which netCDF 4.8.0 names dimensions; remote stores are not asked for it."""
CONSOLIDATED_KEY: Final = ".zmetadata"
"""Consolidated metadata of Zarr v2."""
ZARR1_KEYS: Final = ("meta", "attrs")
OLD_KEYS: Final = ("__zmeta__", "__zattr__")
"""Keys of zarr 0.4."""
BCOLZ_NODE_KEYS: Final = ("meta/storage", "__rootdirs__")
BCOLZ_SHAPE_KEY: Final = "meta/sizes"
BCOLZ_KEYS: Final = (*BCOLZ_NODE_KEYS, BCOLZ_SHAPE_KEY, "__attrs__")
N5_KEY: Final = "attributes.json"
N5_MEMBERS: Final = frozenset(("n5", "dimensions", "blockSize", "dataType", "compression", "compressionType"))
"""The members of ``attributes.json`` that are not attributes of users."""


class Style(Frozen):
    """The layout of a JSON document.

    Parameters
    ----------
    indent : int or None
        Spaces for each level; ``None`` writes everything on one line.
    ascii : bool
        Whether characters outside of ASCII are escaped.
    ending : str
        Text after the document, such as a newline.
    sort_keys : bool
        Whether members are sorted by name.
    spaced : bool
        Whether a space follows each comma and colon, on one line.
    """

    indent: int | None = 4
    ascii: bool = True
    ending: str = ""
    sort_keys: bool = False
    spaced: bool = False
