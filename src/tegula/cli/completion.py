"""Completion by the Tab key: paths, members of a node, and codecs."""

from __future__ import annotations

import os
from importlib import import_module

__all__ = ["complete_codecs", "complete_target"]


def complete_target(incomplete: str) -> list[str]:
    """Return the paths that begin with the given text; after ``::``, the members of the node at that path.

    Examples
    --------
    >>> complete_target("/nothing/is/here")
    []
    """
    store, colons, inner = incomplete.partition("::")
    if colons:
        return _members(store, inner)
    if "bash" in os.environ.get("_TEGULA_COMPLETE", ""):
        return []  # bash then completes file names by itself, and quotes them
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry.name + ("/" if entry.is_dir() else "") for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    return sorted(os.path.join(folder, item) for item in found if name.startswith(".") or not item.startswith("."))


def _members(store: str, inner: str) -> list[str]:
    above, slash, name = inner.rpartition("/")
    try:
        # imported here, since completing a path needs none of it
        node = import_module("tegula.hierarchy.opening").open(store, path=above)
        with node.store:
            names = [*getattr(node, "names", node)]
    except Exception:  # noqa: BLE001 (a shell has no room for a message while a user types)
        return []
    return [f"{store}::{above}{slash}{item}" for item in names if item.startswith(name)]


def complete_codecs(incomplete: str) -> list[str]:
    """Complete the last name in a comma-separated list of codecs.

    Examples
    --------
    >>> complete_codecs("shuffle,zst")
    ['shuffle,zstd']
    """
    above, comma, name = incomplete.rpartition(",")
    known = import_module("tegula.codecs").known_codecs()
    return [f"{above}{comma}{codec}" for codec in known if codec.startswith(name)]
