"""Suffixes: the format that the name of a target implies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from tegula.errors import MetadataError
from tegula.formats import find_format
from tegula.stores import Store
from tegula.stores.targets.paths import is_remote, local_path, url_path

__all__ = ["new_format"]

_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    ".bcolz": ("bcolz",), ".n5": ("n5",), ".zarr": ("zarr3", "zarr2", "zarr1"), ".ozx": ("zarr3",),
}  # fmt: skip


def new_format(target: Any, path: str, stated: str | None, usual: str) -> Any:
    """Return the format of a new node: the given one, or the one that the suffix of its name implies.

    The last name with a suffix counts; names in the store come after that of the store.

    Parameters
    ----------
    target, path
        The store, and the path of the node in it.
    stated : str, optional
        The requested format.
    usual : str
        The format if neither `stated` nor a suffix decides.

    Raises
    ------
    MetadataError
        If the format is unknown, or contradicts the suffix.

    Examples
    --------
    >>> new_format("prices.bcolz", "", None, "zarr3"), new_format("s3://b/data.zarr.zip", "a", None, "bcolz")
    ('bcolz', 'zarr3')
    """
    if stated is not None:
        find_format(stated)
    name, formats = next(_names_with_suffix(target, path), ("", ()))
    if not formats:
        return usual if stated is None else stated
    if stated is None:
        return usual if usual in formats else formats[0]
    if stated not in formats:
        raise MetadataError(
            f"the format {stated} contradicts the name {name!r}, which is one for {' or '.join(formats)}; "
            "choose another name, or leave out the format",
            field="format",
        )
    return stated


def _names_with_suffix(target: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names with a suffix in a path, last one first, and the formats they imply."""
    local = local_path(target)
    if local is None and is_remote(target):
        local = url_path(target)
    if local is None:
        # only the last name of a store's URL was chosen for its contents
        local = unquote(target.url).rstrip("/").rpartition("/")[2] if isinstance(target, Store) else ""
    for name in reversed([*re.split(r"[/\\]", local), *path.split("/")]):
        formats = _SUFFIXES.get(os.path.splitext(name.lower().removesuffix(".zip"))[1])
        if formats is not None:
            yield name, formats
