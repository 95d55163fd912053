"""Keys of the documents of each format, relative to their node."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BCOLZ_KEYS", "BCOLZ_NODE_KEYS", "BCOLZ_SHAPE_KEY", "CONSOLIDATED_KEY", "DRAFTS", "OLD_KEYS", "ZARR1_KEYS",
    "ZARR2_KEYS", "ZARR3_KEY",
]  # fmt: skip

ZARR3_KEY: Final = "zarr.json"
DRAFTS: Final = ("https://purl.org/zarr/spec/", "http://purl.org/zarr/spec/")
"""How the versions of drafts of Zarr v3 begin, in ``zarr_format``."""
ZARR2_KEYS: Final = (".zarray", ".zgroup", ".zattrs")
CONSOLIDATED_KEY: Final = ".zmetadata"
"""Consolidated metadata of Zarr v2."""
ZARR1_KEYS: Final = ("meta", "attrs")
OLD_KEYS: Final = ("__zmeta__", "__zattr__")
"""Keys of zarr 0.4."""
BCOLZ_NODE_KEYS: Final = ("meta/storage", "__rootdirs__")
BCOLZ_SHAPE_KEY: Final = "meta/sizes"
BCOLZ_KEYS: Final = (*BCOLZ_NODE_KEYS, BCOLZ_SHAPE_KEY, "__attrs__")
