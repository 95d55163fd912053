"""Stores for paths, URLs and mappings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tegula import stores
from tegula.errors import MetadataError, StoreError, brief
from tegula.runtime.deferred import Later
from tegula.stores.capabilities import Exclusive
from tegula.stores.interface import Store
from tegula.stores.local.store import LocalStore
from tegula.stores.names import ARCHIVES, path_of_url
from tegula.stores.targets.paths import (
    address_of,
    is_remote,
    links,
    local_path,
    may_be_local,
    path_text,
    scheme_of,
    split_inner,
    url_path,
)

if TYPE_CHECKING:
    from tegula.stores import secrets
    from tegula.stores.targets import foreign, libraries, urls
    from tegula.stores.zip import store as zip
else:
    secrets, zip = Later("tegula.stores.secrets"), Later("tegula.stores.zip.store")
    foreign, libraries = Later("tegula.stores.targets.foreign"), Later("tegula.stores.targets.libraries")
    urls = Later("tegula.stores.targets.urls")

__all__ = ["abandon", "check_options", "creating", "options_of_both", "store_of"]


def store_of(target: Any, *, read_only: bool = False, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store for a target: a path, a URL, a mapping, a store of tegula or of another library.

    Parameters
    ----------
    target : str, path, mapping, View or Store
        A path of a directory or a ``.zip`` archive, which need not exist yet, or a URL such as ``s3://bucket/path``.
        In text, ``~`` at the beginning is the home directory; write ``./~x`` for a name that begins with it. An obstore
        or zarr-python store, or an fsspec file system or mapper, is used through a tegula store over the same
        storage. kerchunk references are a JSON file, a directory of Parquet files, or a URL of either; they can only
        be read.
    read_only : bool
        Whether to open the store for reading only.
    storage_options : mapping, optional
        Settings of the storage that a URL names, such as region, endpoint and credentials.

    Raises
    ------
    UnsupportedError
        If the URL's scheme is not known, or a package for it is not installed.
    MetadataError
        If `target` is none of these, ``~name`` names an unknown user, ``::`` is not followed by a URL, or options
        are given for a target that takes none.

    Examples
    --------
    >>> store_of({"c/0": b"abc"}).get("c/0")
    b'abc'
    """
    if storage_options is not None:
        check_options(target, storage_options)
    if not isinstance(target, str):  # the common case first
        if isinstance(target, Store):
            return target
        if (adapted := libraries.store_of_library(target, read_only=read_only)) is not None:
            return adapted
        if isinstance(target, MutableMapping):
            return stores.MappingStore(target, read_only=read_only)
        if not isinstance(target, os.PathLike):
            raise MetadataError(f"{brief(target)} is not a path, URL, store or mapping")
    path = path_text(target)
    scheme = scheme_of(path)
    if scheme:
        return _store_of_url(path, scheme[1].lower(), read_only, storage_options or {})
    if path.endswith(ARCHIVES):
        return zip.zip_store(path, read_only=read_only)
    # `os.access` is faster than `os.path.exists` if nothing exists, usually
    try:
        has_index = read_only and os.access(f"{path}/{_INDEX}", 0)
    except ValueError:  # no path can have a NUL or a lone surrogate, as `LocalStore` says
        has_index = False
    if storage_options or (has_index and _references().local_references(path)):
        return _open_references(path, storage_options or {}, read_only)
    try:
        return LocalStore(path, read_only=read_only)
    except StoreError:
        if os.path.isfile(path) and import_module("zipfile").is_zipfile(path):
            return zip.zip_store(path, read_only=read_only)
        if os.path.isfile(path) and _references().local_references(path):
            return _open_references(path, {}, read_only)
        foreign.refuse_foreign(path)
        raise


_INDEX: Final = ".zmetadata"  # references in Parquet have it, and groups with consolidated metadata


def _references() -> Any:
    return import_module("tegula.stores.targets.references")  # few programs read references


def _open_references(target: str, options: Mapping[str, Any], read_only: bool) -> Store:
    store: Store = _references().open_references(target, options, read_only=read_only)
    return store


def _store_of_url(url: str, scheme: str, read_only: bool, options: Mapping[str, Any]) -> Store:
    if split_inner(url)[0] != url:  # fsspec would take one of the two for the whole
        raise MetadataError(
            "what follows '::' names a node inside a store, and here a store is needed; if it is part of a name on this"
            " machine, pass a pathlib.Path",
            path=secrets.plain_url(url),
        )
    last = links(url)[-1]
    if "#" in last and last.lower().startswith(("http:", "https:")):
        raise MetadataError(
            "servers are not sent the fragment of a URL, '#' and what follows; write '%23' for a '#' in a name",
            path=secrets.plain_url(url).partition("#")[0],
        )
    if scheme == "file" and len(links(url)) == 1:
        return store_of(path_of_url(url), read_only=read_only)
    archive = local_path(url) if may_be_local(url, scheme) else None
    if archive is not None:
        return zip.zip_store(archive, read_only=read_only)
    if scheme == "reference" or url_path(url).rstrip("/").endswith((".json", ".parq", ".parquet")):
        return _open_references(url, options, read_only)
    return urls.store_of_url(url, options, read_only=read_only)


def check_options(target: Any, options: Any, field: str = "storage_options") -> None:
    """Refuse storage options for a target that takes none: everything but the URL of storage elsewhere.

    Parameters
    ----------
    target
        A target.
    options : mapping or None
        The options for it; an empty mapping is the same as ``None``.
    field : str
        Name of the argument, for errors.

    Raises
    ------
    MetadataError
        If there are such options, or they are not a mapping of names. The message contains no values, which may be
        secrets.

    Examples
    --------
    >>> check_options("s3://bucket/x.zarr", {"region": "eu-central-1"})
    >>> check_options("x.zarr", {"region": "eu-central-1"})
    Traceback (most recent call last):
    tegula.errors.MetadataError: a path on this machine takes no storage options (field 'storage_options')
    """
    if options is None:
        return
    if not isinstance(options, Mapping) or [name for name in options if not isinstance(name, str)]:
        raise MetadataError("storage options are a mapping of names to values", field=field)
    if options and not is_remote(target):
        if isinstance(target, str | os.PathLike) and _references().has_reference_options(options):
            return  # of files of references
        what = "a path on this machine" if local_path(target) is not None else f"a {type(target).__name__}"
        raise MetadataError(f"{what} takes no storage options", field=field)


def options_of_both(
    source: Any,
    target: Any,
    options: Mapping[str, Any] | None,
    target_options: Mapping[str, Any] | None,
    field: str = "target_storage_options",
) -> Mapping[str, Any] | None:
    """Return the storage options of the second of two targets: its own, or those of the first in the same bucket.

    Parameters
    ----------
    source, target
        The two targets.
    options, target_options : mapping or None
        The options for each.
    field : str
        Name of the second argument, for errors.

    Raises
    ------
    MetadataError
        As `check_options`.

    Examples
    --------
    >>> options_of_both("s3://b/x", "s3://b/y", {"region": "us-east-1"}, None)
    {'region': 'us-east-1'}
    >>> options_of_both("s3://b/x", "s3://other/y", {"region": "us-east-1"}, None)
    """
    if options and not is_remote(source) and is_remote(target):
        raise MetadataError(
            f"only the second of the two is a remote URL: pass its options as {field}", field="storage_options"
        )
    check_options(source, options)
    check_options(target, target_options, field)
    if target_options is None and is_remote(source) and is_remote(target):
        return options if _bucket(source) == _bucket(target) else None
    return target_options


def _bucket(url: str) -> list[str]:
    """Return scheme and bucket, or host, of a URL, or of the last one in a chain."""
    return links(address_of(url, "")[0])[-1].split("/", 3)[:3]


@contextmanager
def creating(target: Any, storage_options: Mapping[str, Any] | None = None) -> Iterator[Store]:
    """Open a store to create a node in; after an error close it, and delete an archive that was created for it."""
    path = local_path(target)
    fresh = path is not None and not os.path.lexists(path)
    store = store_of(target, storage_options=storage_options)
    try:
        yield store
    except BaseException:
        abandon(store, target, remove_empty=fresh)
        raise


def abandon(store: Store, target: Any, *, remove_empty: bool = False) -> None:
    """Close a store that was opened by name and that no node uses, so that an archive does not stay locked.

    With `remove_empty` an empty archive is deleted.
    """
    if isinstance(store, Exclusive) and store is not target:
        store.end(remove_empty=remove_empty)
