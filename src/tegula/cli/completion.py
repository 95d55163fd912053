"""What a shell offers when the Tab key is pressed: paths, members of a node, codecs."""

from __future__ import annotations

import os
from importlib import import_module

__all__ = ["complete_codecs", "complete_place"]


def complete_place(incomplete: str) -> list[str]:
    """Return the paths that begin so and, after ``::``, the members of the node there.

    Examples
    --------
    >>> complete_place("/nothing/is/here")
    []
    """
    target, colons, inner = incomplete.partition("::")
    if colons:
        return _members(target, inner)
    if "bash" in os.environ.get("_TEGULA_COMPLETE", ""):
        return []  # bash goes on with file names, and quotes them
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry.name + ("/" if entry.is_dir() else "") for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    return sorted(os.path.join(folder, item) for item in found if name.startswith(".") or not item.startswith("."))


def _members(target: str, inner: str) -> list[str]:
    above, slash, name = inner.rpartition("/")
    try:
        node = import_module("tegula.opening").open(target, path=above)
        with node.store:
            names = [*getattr(node, "names", node)]
    except Exception:  # noqa: BLE001 (the shell has no place for a message while a user types)
        return []
    return [f"{target}::{above}{slash}{item}" for item in names if item.startswith(name)]


def complete_codecs(incomplete: str) -> list[str]:
    """Return the codecs whose names begin as the last of several does.

    Examples
    --------
    >>> complete_codecs("shuffle,zst")
    ['shuffle,zstd']
    """
    above, comma, name = incomplete.rpartition(",")
    known = import_module("tegula.codecs").known_codecs()
    return [f"{above}{comma}{codec}" for codec in known if codec.startswith(name)]
