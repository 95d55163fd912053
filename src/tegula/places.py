"""Where nodes are: stores behind paths, URLs and mappings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tegula.errors import MetadataError, StoreError, UnsupportedError
from tegula.foreign import refuse_foreign
from tegula.formats import find_format
from tegula.stores import LocalStore, MappingStore, Store, ZipStore
from tegula.stores.names import path_of_url
from tegula.stores.zip import zip_store

__all__ = [
    "abandon",
    "clean",
    "creating",
    "is_missing",
    "local_path",
    "new_format",
    "place",
    "refuse_overlap",
    "store_of",
]

_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):").match  # one letter is a drive of Windows
_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {".bcolz": ("bcolz",), ".zarr": ("zarr3", "zarr2", "zarr1")}


def store_of(target: Any, *, read_only: bool = False) -> Store:
    """Return the store that a path, a ``file:`` or ``zip:`` URL, a mapping or a store stands for.

    Parameters
    ----------
    target : str, path, mapping or Store
        A path to a directory or to a ``.zip`` archive, which need not exist yet. In text ``~`` at the beginning is the
        home directory; ``./~x`` is a name that begins so.
    read_only : bool
        Whether the store is only read.

    Raises
    ------
    UnsupportedError
        If the URL's scheme is not known.
    MetadataError
        If `target` is none of these, or begins with ``~`` and no user's home.

    Examples
    --------
    >>> store_of({"c/0": b"abc"}).get("c/0")
    b'abc'
    """
    if not isinstance(target, str):  # most are text, and telling the others apart takes longer
        if isinstance(target, Store):
            return target
        if isinstance(target, MutableMapping):
            return MappingStore(target, read_only=read_only)
        if not isinstance(target, os.PathLike):
            raise MetadataError(f"{target!r:.80} is no path, URL, store or mapping")
    path = _path_text(target)
    scheme = _scheme(path)
    if scheme:
        return _store_of_url(path, scheme[1].lower(), read_only)
    if path.endswith(".zip"):
        return zip_store(path, read_only=read_only)
    try:
        return LocalStore(path, read_only=read_only)
    except StoreError:
        if os.path.isfile(path) and import_module("zipfile").is_zipfile(path):
            return zip_store(path, read_only=read_only)
        refuse_foreign(path)
        raise


def _path_text(target: str | os.PathLike[Any]) -> str:
    """Return a path as text, the home directory in the place of ``~`` or ``~name`` at its beginning.

    A path object means what it says, as for every function of Python.
    """
    path = os.fspath(target)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if not path.startswith("~") or not isinstance(target, str):
        return path
    whole = os.path.expanduser(path)
    if whole.startswith("~"):
        raise MetadataError(f"{path!r} begins with the home directory of a user that there is not; is it './{path}'?")
    return whole


def _store_of_url(url: str, scheme: str, read_only: bool) -> Store:
    if scheme == "file":
        return store_of(path_of_url(url), read_only=read_only)
    if scheme == "zip":
        parts = urlsplit(url)
        return zip_store(unquote(parts.netloc + parts.path), read_only=read_only)
    if scheme == "memory":
        raise UnsupportedError("memory is no place to open by name; pass a MemoryStore", path=url)
    raise UnsupportedError(f"no store is known for {scheme}: URLs; pass a mapping or a store of your own", path=url)


def local_path(target: Any) -> str | None:
    """Return the path that a target is on this machine's file system, if it is one."""
    if not isinstance(target, (str, os.PathLike)):
        return None
    path = _path_text(target)
    scheme = _scheme(path)
    if scheme is None:
        return path
    if scheme[1].lower() == "zip":
        parts = urlsplit(path)
        return unquote(parts.netloc + parts.path)
    return path_of_url(path) if scheme[1].lower() == "file" else None


@contextmanager
def creating(target: Any) -> Iterator[Store]:
    """Open a store to create something in; if that fails, close it, and remove an archive that was made for it."""
    path = local_path(target)
    fresh = path is not None and not os.path.lexists(path)
    store = store_of(target)
    try:
        yield store
    except BaseException:
        abandon(store, target, remove_empty=fresh)
        raise


def abandon(store: Store, target: Any, *, remove_empty: bool = False) -> None:
    """Close a store that was made for a name and that no node came to use, or else the error would keep it locked.

    With `remove_empty` an archive in which nothing is stored is deleted.
    """
    if isinstance(store, ZipStore) and store is not target:
        store._end(remove_empty=remove_empty)


def clean(path: str) -> str:
    """Return a path in a store, without slashes around it."""
    if not isinstance(path, str):
        raise MetadataError(f"a path in a store must be text, not {path!r:.80}")
    return path.strip("/")


def place(store: Store, path: str) -> str:
    """Return what errors call the place of a node."""
    return f"{store.url}/{path}" if path else store.url


def is_missing(path: str) -> bool:
    """Return whether nothing stands at a path; of one that can't be looked at the store will say why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, ValueError):
        return True
    except OSError:
        return False
    return False


def refuse_overlap(store: Store, path: str, target: Store, target_path: str) -> None:
    """Refuse a target that is the source, or lies within it or above it.

    Raises
    ------
    MetadataError
        If one of the two places lies within the other.
    """
    # a store of one's own may give many the same name
    told = ("file:", "zip:", "memory:", "mapping:")
    same = store == target or (store.url == target.url and target.url.startswith(told))
    old, new = f"{path}/".lstrip("/"), f"{target_path}/".lstrip("/")
    inside = same and (old.startswith(new) or new.startswith(old))
    nested = False
    if isinstance(store, LocalStore) and isinstance(target, LocalStore):
        # links are followed, or a link to the source would be taken for another place
        old, new = (
            os.path.join(os.path.realpath(os.path.join(s.root, p)), "")
            for s, p in ((store, path), (target, target_path))
        )
        nested = old.startswith(new) or new.startswith(old)
    if inside or nested:
        raise MetadataError("the target and the source lie within each other", path=place(target, target_path))


def new_format(target: Any, path: str, given: str | None, usual: str) -> str:
    """Return the format to create a node in: the one that is given, or what the suffix of its name says.

    Of several names with a suffix the last counts, and the one in the store before that of the store.

    Parameters
    ----------
    target, path
        The store, and the path of the node in it.
    given : str, optional
        The format that was asked for.
    usual : str
        The format where neither says anything.

    Raises
    ------
    MetadataError
        If there is no such format, or it contradicts the suffix.

    Examples
    --------
    >>> new_format("prices.bcolz", "", None, "zarr3"), new_format("data.zarr.zip", "a", None, "bcolz")
    ('bcolz', 'zarr3')
    """
    if given is not None:
        find_format(given)
    name, formats = next(_names_with_suffix(target, path), ("", ()))
    if not formats:
        return usual if given is None else given
    if given is None:
        return usual if usual in formats else formats[0]
    if given not in formats:
        raise MetadataError(
            f"the format {given} contradicts the name {name!r}, which is one for {' or '.join(formats)}; "
            "choose another name, or leave out the format",
            field="format",
        )
    return given


def _names_with_suffix(target: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names in a path that have a suffix of formats, the last one first, and these formats."""
    local = local_path(target)
    if local is None:
        # of a store only its own name is known to have been chosen for what is in it
        local = unquote(target.url).rstrip("/").rpartition("/")[2] if isinstance(target, Store) else ""
    for name in reversed([*re.split(r"[/\\]", local), *path.split("/")]):
        formats = _SUFFIXES.get(os.path.splitext(name.lower().removesuffix(".zip"))[1])
        if formats is not None:
            yield name, formats
