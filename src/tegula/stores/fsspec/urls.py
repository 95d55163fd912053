"""Opening URLs of fsspec, and chains of them, as stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula.errors import NotFoundError, StoreError, UnsupportedError
from tegula.runtime.optional import import_failure, library, tegula_command
from tegula.stores.fsspec.store import FsspecStore
from tegula.stores.interface import Store
from tegula.stores.local.store import LocalStore
from tegula.stores.secrets import plain_url, redacted

__all__ = ["open_url", "store_for"]


def open_url(url: str, options: Mapping[str, Any], read_only: bool) -> Store:
    """Open a URL that fsspec knows, such as ``memory://x``, ``sftp://host/x`` or ``simplecache::https://host/x``.

    Parameters
    ----------
    url : str
        The URL.
    options : mapping
        Arguments of the file system; for a chain of URLs, also mappings of arguments by scheme.
    read_only : bool
        Whether to open the store for reading only.

    Raises
    ------
    UnsupportedError
        If fsspec, or a package that it needs for the scheme, is not installed, or the scheme is not known.
    NotFoundError
        If the file that the URL goes through, such as an archive, does not exist.
    StoreError
        If the file system can't be opened.

    Examples
    --------
    >>> store = open_url("memory://measured/x.zarr", {}, read_only=False)
    >>> store.url
    'memory://measured/x.zarr'
    """
    shown = plain_url(url)
    scheme = shown.partition(":")[0]
    if import_failure("fsspec") is not None:
        raise UnsupportedError(f"URLs with {scheme}: need fsspec: {tegula_command('cloud')}", path=shown)
    core = library("fsspec.core")
    try:
        fs, root = core.url_to_fs(url, **options)
    except ImportError as error:
        raise UnsupportedError(f"URLs with {scheme}: need another package: {error}", path=shown) from None
    except FileNotFoundError:
        raise NotFoundError("there is no such file", path=shown) from None
    except Exception as error:  # noqa: BLE001 - a file system may raise anything
        text = redacted(f"{type(error).__name__}: {error}".replace(url, shown), options)
        if isinstance(error, ValueError) and "Protocol not known" in text:
            message = f"no store is known for {scheme}: URLs, and no installed package of fsspec has one"
            raise UnsupportedError(message, path=shown) from None
        raise StoreError(f"{shown} can't be opened: {text}") from None
    return store_for(fs, root, read_only=read_only, url=shown)


def store_for(fs: Any, root: str, *, read_only: bool, url: str | None = None) -> Store:
    """Return the store for a directory of a file system; for the local file system, a `LocalStore`.

    Raises
    ------
    StoreError
        If `root` is not a directory.

    Examples
    --------
    >>> import fsspec
    >>> store_for(fsspec.filesystem("memory"), "x", read_only=True).read_only
    True
    """
    if type(fs).__module__ == "fsspec.implementations.local" and type(fs).__name__ == "LocalFileSystem":
        return LocalStore(fs._strip_protocol(root), read_only=read_only)
    return FsspecStore(fs, root, read_only=read_only, url=url)
