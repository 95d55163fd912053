"""Locations: the URLs by which other libraries reach the values of a store."""

from __future__ import annotations

from urllib.parse import quote

from tegula.errors import UnsupportedError
from tegula.stores import Store

__all__ = ["base_url", "plain_location", "quoted_location"]


def base_url(store: Store) -> str:
    """Return the URL of a store, with a slash at the end, to which keys are added as they are.

    Raises
    ------
    UnsupportedError
        If nothing outside of this process reaches the values by URL, or they are packed.

    Examples
    --------
    >>> from tegula import LocalStore
    >>> base_url(LocalStore("/data/x.zarr"))
    'file:///data/x.zarr/'
    """
    if store.values_url is None:
        raise UnsupportedError(
            "references name files and objects by URL, and this store has none by which others could reach its "
            "values: write the arrays to a directory or a bucket first",
            path=store.url,
        )
    return store.values_url


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
