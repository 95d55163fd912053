"""Completion by the Tab key: paths, members of a node, and codecs."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import Any, Final

__all__ = ["complete_codecs", "complete_target"]

_PATIENCE: Final = 2.0  # seconds to wait for storage elsewhere while a user types


def complete_target(incomplete: str, ctx: Any = None) -> list[str]:
    """Return the paths that begin with the given text; after ``::``, the members of the node at that path.

    Parameters
    ----------
    incomplete : str
        What the user has typed so far.
    ctx : click.Context, optional
        The words before it, whose storage options are used to look up members of a URL.

    Examples
    --------
    >>> complete_target("/nothing/is/here")
    []
    """
    store, colons, inner = incomplete.rpartition("::")
    if colons and "://" not in inner:
        given = (ctx.params.get("storage_option") if ctx is not None else None) or ()
        return _members(store, inner, dict(given)) if "://" not in store else _in_time(store, inner, dict(given))
    if "bash" in os.environ.get("_TEGULA_COMPLETE", ""):
        return []  # bash then completes file names by itself, and quotes them
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry.name + ("/" if entry.is_dir() else "") for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    return sorted(os.path.join(folder, item) for item in found if name.startswith(".") or not item.startswith("."))


def _in_time(store: str, inner: str, options: dict[str, Any]) -> list[str]:
    """Return the members of a node in storage elsewhere, or nothing if that takes long."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(_members(store, inner, options)), daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return [*found]


def _members(store: str, inner: str, options: dict[str, Any]) -> list[str]:
    above, slash, name = inner.rpartition("/")
    try:
        # imported here, since completing a path needs none of it
        node = import_module("tegula.hierarchy.opening").open(store, path=above, storage_options=options)
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
