"""URLs of storage elsewhere: which library opens which scheme, and archives there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote

from tegula.errors import UnsupportedError
from tegula.runtime.optional import import_failure, library
from tegula.stores import Store
from tegula.stores.names import ARCHIVES
from tegula.stores.secrets import plain_url
from tegula.stores.targets.paths import links, scheme_of, url_path

__all__ = ["ELSEWHERE", "WEB", "split_url", "store_of_url"]

_OBJECT_STORAGE: Final = "tegula.stores.objects.urls"
_FSSPEC: Final = "tegula.stores.fsspec.urls"
_ARCHIVES: Final = "tegula.stores.zip.remote"
WEB: Final = ("http", "https")
"""The schemes of web servers."""

_OPENERS: Final[Mapping[str, str]] = dict.fromkeys(
    ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", *WEB), _OBJECT_STORAGE
)
"""The module whose `open_url` opens URLs of a scheme; fsspec opens all others, and chains."""
ELSEWHERE: Final = frozenset(_OPENERS)
"""The schemes of object storage and web servers; other schemes may name files of this machine."""


def store_of_url(url: str, options: Mapping[str, Any], *, read_only: bool, archives: bool = True) -> Store:
    """Open a URL of storage that is not on this machine, or a chain of such URLs.

    Parameters
    ----------
    url : str
        The URL. One that ends in ``.zip`` or ``.ozx``, or begins with ``zip::``, is that of an archive, which can only
        be read.
    options : mapping
        Settings of the storage; for a chain they may be in mappings by scheme, as in fsspec.
    read_only : bool
        Whether to open the store for reading only.
    archives : bool
        Whether a URL may be that of an archive.

    Raises
    ------
    UnsupportedError
        If the scheme is not known, a package for it is not installed, or an archive is opened for writing.
    StoreError
        If the storage can't be opened.

    Examples
    --------
    >>> store_of_url("memory://x", {}, read_only=True)
    FsspecStore('memory://x')
    """
    if not archives:
        return _open(url, options, read_only)
    outer, *inner_links = links(url)
    inner = "::".join(inner_links)
    if inner and outer.lower() in ("zip", "zip://"):
        scheme = inner.partition(":")[0].lower()
        return _archive(inner, _options_of(scheme, options), read_only)
    if not inner and url_path(url).endswith(ARCHIVES):
        return _archive(url, options, read_only)
    return _open(url, options, read_only)


def _options_of(scheme: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options for one scheme of a chain: those named after it, or all."""
    own = options.get(scheme)
    return own if isinstance(own, Mapping) else options


def _open(url: str, options: Mapping[str, Any], read_only: bool) -> Store:
    match = scheme_of(url)
    scheme = match[1].lower() if match else ""
    chain = len(links(url)) > 1
    if "://" not in url and not chain:
        if scheme in _OPENERS or _fsspec_knows(scheme):
            raise UnsupportedError(
                f"such URLs begin with {scheme}:// and are passed as text, since a Path takes two slashes for one",
                path=plain_url(url),
            )
        raise UnsupportedError(
            f"no store is known for {scheme}: URLs, and no installed package of fsspec has one",
            path=plain_url(url),
        )
    # fsspec also if a query, such as a signature, belongs to each address
    opener = _FSSPEC if chain or (scheme in WEB and "?" in url) else _OPENERS.get(scheme, _FSSPEC)
    # imported when it is used: most programs need neither
    store: Store = import_module(opener).open_url(url, options, read_only)
    return store


def _fsspec_knows(scheme: str) -> bool:
    return import_failure("fsspec") is None and scheme in library("fsspec.registry").known_implementations


def _archive(url: str, options: Mapping[str, Any], read_only: bool) -> Store:
    """Open a zip archive by its URL: the storage that it is in, and its name there."""
    if not read_only:
        raise UnsupportedError(
            "a zip archive in a bucket or on a server can only be read: open it with mode='r', or write a local "
            "archive and copy the file",
            path=plain_url(url),
        )
    folder, name = split_url(url)
    store: Store = import_module(_ARCHIVES).RemoteZipStore(_open(folder, options, True), name)
    return store


def split_url(url: str) -> tuple[str, str]:
    """Split the URL of a file into that of the directory it is in, and its name there as a key.

    Raises
    ------
    UnsupportedError
        If it names no file.

    Examples
    --------
    >>> split_url("s3://bucket/a%20b/x.zip"), split_url("https://host/a/x%20y.zip?token=1")
    (('s3://bucket/a%20b', 'x.zip'), ('https://host/a?token=1', 'x y.zip'))
    """
    chain = links(url)
    web = chain[-1].partition(":")[0].lower() in WEB
    address, mark, query = url.partition("?") if web and len(chain) == 1 else (url, "", "")
    folder, _, name = address.rpartition("/")
    if not name or folder.endswith(("/", ":")):
        raise UnsupportedError("the URL names no file in a bucket or on a server", path=plain_url(url))
    return folder + mark + query, unquote(name) if web else name  # on the web characters are escaped
