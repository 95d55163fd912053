"""The names that are most like one that does not exist, for errors."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

from tegula.errors import TegulaError
from tegula.stores.interface import Store

__all__ = ["member_advice", "nearest", "path_advice"]


def nearest(wanted: str, names: Iterable[str]) -> str:
    """Return advice that names what is most like a missing name; empty if nothing is.

    Examples
    --------
    >>> nearest("t2", ["t2m", "lat"]), nearest("x", ["lat"])
    ("; the closest name is 't2m'", '')
    >>> nearest("t2m[0, 1:", ["t2m", "lat"])
    "; the closest name is 't2m'"
    >>> nearest("era.zar", ["era.zarr"]), nearest("half.zarr", ["era.zarr"])
    ("; the closest name is 'era.zarr'", '')
    """
    bare, bracket, _ = wanted.partition("[")
    if bracket and "]" not in wanted:  # the beginning of a selection
        return nearest(bare, names)
    folded = {name.casefold(): name for name in names if not name.startswith(".")}
    # a beginning counts more than the number of letters that differ
    begun = [name for name in folded if wanted and name.startswith(wanted.casefold())]
    close = sorted(begun, key=len)[:1] or [
        name
        for name in difflib.get_close_matches(wanted.casefold(), folded, n=10)
        if _without_suffix(name, wanted.casefold())
    ]
    return f"; the closest name is {folded[close[0]]!r}" if close else ""


def _without_suffix(name: str, wanted: str) -> bool:
    """Return whether two names are alike without the suffix that they share, such as ``.zarr``."""
    (bare, suffix), (other, others) = os.path.splitext(name), os.path.splitext(wanted)
    return suffix != others or bool(difflib.get_close_matches(other, [bare]))


def member_advice(store: Store, path: str) -> str:
    """Return advice on the path of a node that is missing: the closest member where the path ends to exist.

    Remote stores are not asked, since an answer takes requests.
    """
    if store.is_remote or not store.listable or not path:
        return ""
    above = ""
    for name in path.split("/"):
        try:
            names = [prefix[len(above) : -1] for prefix in store.list_dir(above)[1]]
        except TegulaError:
            return ""
        if name not in names:
            return nearest(name, names)
        above += f"{name}/"
    return ""


def path_advice(path: str) -> str:
    """Return advice on a path on this machine at which nothing exists: the closest name in its directory."""
    folder, name = os.path.split(path.rstrip("/" + os.sep))
    try:
        return nearest(name, os.listdir(folder or "."))
    except OSError:
        return ""
