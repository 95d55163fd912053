"""Completion by the Tab key: paths, members of a node, and codecs."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

__all__ = ["complete_codecs", "complete_target", "join_words"]

_PATIENCE: Final = 2.0  # seconds to wait for remote storage while a user types
_BREAKS: Final = frozenset(":=@")  # bash splits words at these characters, too (COMP_WORDBREAKS)
_before: list[str] = []  # the part of the word that bash has cut off; completions must not repeat it


def join_words(environment: MutableMapping[str, str]) -> None:
    """Join the words that bash has cut at colons and equals signs, in the variables that the shell's script sets.

    bash replaces only the ``te`` of ``a.zarr::te``, so ``te`` stays the word to complete; `_before` keeps the part
    before it for `complete_target`.

    Examples
    --------
    >>> variables = {"COMP_WORDS": "tegula\\ncp\\ns3\\n:\\n//b/x\\na.zarr\\n::\\nte", "COMP_CWORD": "7"}
    >>> join_words(variables)
    >>> variables
    {'COMP_WORDS': 'tegula\\ncp\\ns3://b/x\\nte', 'COMP_CWORD': '3'}
    >>> _before.clear()
    """
    current = environment.get("COMP_CWORD", "")
    if not current.isdecimal():
        return
    groups: list[list[str]] = []  # the parts of each word
    for word in environment.get("COMP_WORDS", "").split("\n")[: int(current) + 1]:
        if groups and word and (_BREAKS.issuperset(word) or (groups[-1][-1] and _BREAKS.issuperset(groups[-1][-1]))):
            groups[-1].append(word)
        else:
            groups.append([word])
    if all(len(parts) == 1 for parts in groups):
        return
    *previous, last = groups
    if len(last) > 1 and not last[0].startswith("-"):  # values of options are split by click
        part = "" if _BREAKS.issuperset(last[-1]) else last[-1]
        before = "".join(last).removesuffix(part)
        with suppress(ValueError):  # a quotation mark that is not closed
            before = " ".join(shlex.split(before))
        _before[:] = [before]
        last = [part]
    environment["COMP_WORDS"] = "\n".join("".join(parts) for parts in [*previous, last])
    environment["COMP_CWORD"] = str(len(previous))


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
    before = "".join(_before)
    store, colons, inner = f"{before}{incomplete}".rpartition("::")
    if colons and "://" not in inner:
        settings = (ctx.params.get("storage_option") if ctx is not None else None) or ()
        find = _members if "://" not in store else _members_in_time
        return [name.removeprefix(before) for name in find(store, inner, dict(settings))]
    if os.environ.get("_TEGULA_COMPLETE", "").endswith(("bash", "zsh", "fish")):
        return []  # these shells then complete file names by themselves, and quote them
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    return sorted(
        os.path.join(folder, candidate) for candidate in names if name.startswith(".") or not candidate.startswith(".")
    )


def _members_in_time(store: str, inner: str, options: dict[str, Any]) -> list[str]:
    """Return the members of a node in remote storage, or none if that takes long."""
    members: list[str] = []
    thread = threading.Thread(target=lambda: members.extend(_members(store, inner, options)), daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return [*members]


def _members(store: str, inner: str, options: dict[str, Any]) -> list[str]:
    above, slash, name = inner.rpartition("/")
    try:
        # imported here, since completing a path needs none of it
        node = import_module("tegula.hierarchy.opening").open(store, path=above, storage_options=options)
        with node.store:
            names = [*getattr(node, "names", node)]
    except Exception:  # noqa: BLE001 (a shell can't show a message while a user types)
        return []
    return [f"{store}::{above}{slash}{member}" for member in names if member.startswith(name)]


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
