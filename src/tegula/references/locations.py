"""Locations: the URLs by which other libraries reach the values of a store."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

from tegula.errors import UnsupportedError
from tegula.stores import LocalStore, Store

__all__ = ["base_url", "plain_location", "quoted_location"]

_SCHEMES: Final = ("s3://", "gs://", "az://", "abfs://", "abfss://", "http://", "https://")


def base_url(store: Store) -> str:
    """Return the URL of a store, with a slash at the end, to which keys are added as they are.

    Raises
    ------
    UnsupportedError
        If nothing outside of this process reaches the values by URL, or they are packed.

    Examples
    --------
    >>> base_url(LocalStore("/data/x.zarr"))
    'file:///data/x.zarr/'
    """
    if isinstance(store, LocalStore):
        root = os.path.abspath(store.root).replace(os.sep, "/")
        return f"file:///{root.lstrip('/')}".rstrip("/") + "/"
    url = store.url
    # a file system of fsspec by its own URL: others open it with fsspec, too
    known = url.startswith(_SCHEMES) or (hasattr(store, "storage") and "://" in url and "::" not in url)
    if not known or type(store).__name__ == "ReferenceStore":
        raise UnsupportedError(
            "references name files and objects by URL, and this store has none by which others could reach its "
            "values: write the arrays to a directory or a bucket first",
            path=url,
        )
    return url.rstrip("/") + "/"


def plain_location(base: str, key: str) -> str:
    """Return the URL of a value as fsspec expects it: characters are escaped for web servers only.

    Examples
    --------
    >>> plain_location("s3://b/x/", "a b/0.0"), plain_location("https://h/x/", "a b/0.0")
    ('s3://b/x/a b/0.0', 'https://h/x/a%20b/0.0')
    """
    return base + (quote(key) if base.startswith("http") else key)


def quoted_location(base: str, key: str) -> str:
    """Return the URL of a value with all reserved characters escaped, as icechunk expects it.

    Examples
    --------
    >>> quoted_location("file:///a b/", "c?/0")
    'file:///a%20b/c%3F/0'
    """
    if base.startswith("http"):
        return base + quote(key)
    scheme, _, rest = base.partition("://")
    return f"{scheme}://{quote(rest + key)}"
