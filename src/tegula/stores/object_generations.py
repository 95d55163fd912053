"""Generations of objects, and the history that tells which write made one.

Object storage may carry out a conditional write and fail to say so: the answer is lost, or an attempt that is made
again meets its own result and is refused. So each conditional write has an identifier, and an object keeps, as
metadata, those of the last writes that led to its state. Reading them back answers whether a write took place, even
if others have replaced its result in the meantime.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tegula.stores.arguments import Generation
from tegula.stores.single_writer import digest

__all__ = [
    "ATTRIBUTE",
    "ObjectGeneration",
    "attributes_of",
    "generation_from",
    "history_of",
    "new_write",
    "position",
    "reaches_back",
]

ATTRIBUTE: Final = "tegulawrites"
"""The name of the metadata: letters only, since services disagree about all other characters."""

_WIDTH: Final = 6  # letters of an identifier, 36 bits
_LONGEST: Final = 300 * _WIDTH  # S3 allows 2 KB of metadata; only what is changed very often has so much


@dataclass(frozen=True)
class ObjectGeneration:
    """One state of one object.

    Two generations are equal if the storage takes them for the same state; the history does not count.

    Parameters
    ----------
    token : hashable
        What the storage identifies the state by.
    e_tag, version : str or None
        What conditions are made of.
    history : str
        Identifiers of the last conditional writes that led to it, the last one first.
    superseded : bool
        Whether another state has followed already; no condition can hold then.
    restored : bool
        Whether it comes from what another process has noted, which leaves out the history.
    """

    token: Generation
    e_tag: str | None = field(default=None, compare=False)
    version: str | None = field(default=None, compare=False)
    history: str = field(default="", compare=False, repr=False)
    superseded: bool = False
    restored: bool = field(default=False, compare=False, repr=False)

    @property
    def unknown(self) -> bool:
        """Whether the storage says nothing that tells this state from another; then no other one equals it."""
        return self.e_tag is None and self.version is None and isinstance(self.token, str)

    @property
    def plain(self) -> tuple[object, ...]:
        """The generation as a tuple, for other processes; see `restore`.

        It has no history: by the time it is used, the same bytes may have been written again, and their history is
        another one.
        """
        return self.token, self.e_tag, self.version

    @classmethod
    def restore(cls, plain: tuple[Any, ...]) -> ObjectGeneration:
        """Return the generation that a tuple stands for; a conditional write has to look up its history first."""
        token, e_tag, version = plain
        return cls(token, e_tag, version, restored=True)

    def followed(self) -> ObjectGeneration:
        """Return this generation as one that another state has followed."""
        return replace(self, superseded=True)

    def condition(self) -> dict[str, str]:
        """Return the mode of a PUT that replaces this state only."""
        found = {"e_tag": self.e_tag, "version": self.version}
        return {name: value for name, value in found.items() if value is not None}

    def reading(self) -> dict[str, str]:
        """Return the options of a GET that reads this state only, as far as the server has such conditions.

        A weak ETag is no condition of reading (RFC 9110): servers refuse it even if the object has it.
        """
        return {} if self.e_tag is None or self.e_tag.startswith("W/") else {"if_match": self.e_tag}


def new_write(before: Generation) -> tuple[str, str]:
    """Return the identifier of a new write, and the history of the state that it makes.

    Examples
    --------
    >>> write, history = new_write("absent")
    >>> write == history, len(write)
    (True, 6)
    """
    write = secrets.token_urlsafe(_WIDTH)[:_WIDTH]
    earlier = before.history if isinstance(before, ObjectGeneration) else ""
    return write, (write + earlier)[:_LONGEST]


def attributes_of(history: str) -> dict[str, str]:
    """Return the metadata for an object with that history."""
    return {ATTRIBUTE: history}


def history_of(attributes: Mapping[str, str]) -> str:
    """Return the history that the metadata of an object hold; services may change the case of names."""
    for name, value in attributes.items():
        if str(name).lower() == ATTRIBUTE:
            return value
    return ""


def position(write: str, history: str) -> int | None:
    """Return how many writes have followed one in a history, ``None`` if it is not there.

    Examples
    --------
    >>> position("bbbbbb", "aaaaaabbbbbb"), position("aaaaab", "aaaaaabbbbbb")
    (1, None)
    """
    for start in range(0, len(history), _WIDTH):
        if history[start : start + _WIDTH] == write:
            return start // _WIDTH
    return None


def reaches_back(history: str, before: Generation) -> bool:
    """Return whether a history names all writes that followed a state, so that one that is not there did not happen.

    Examples
    --------
    >>> reaches_back("aaaaaa", ObjectGeneration(1)), reaches_back("aaaaaa" * 300, ObjectGeneration(1))
    (True, False)
    """
    last = before.history[:_WIDTH] if isinstance(before, ObjectGeneration) else ""
    return len(history) < _LONGEST or (last != "" and position(last, history) is not None)


def generation_from(
    kind: str, found: Mapping[str, Any], history: str = "", value: bytes | None = None
) -> ObjectGeneration:
    """Return the generation that an answer of obstore names.

    Parameters
    ----------
    kind : str
        The service, as `tegula.stores.object_library.kind_of` names it.
    found : mapping
        ``e_tag`` and ``version``, and, of reading, ``last_modified`` and ``size``.
    history : str
        The history that came with it.
    value : bytes, optional
        All bytes of the object, if the answer holds them: their digest is the generation if nothing else is.
    """
    e_tag, version = found.get("e_tag"), found.get("version")
    token: Generation = (version or e_tag) if kind == "gs" else (e_tag or version)
    if token is None:
        # A server without ETags. If it has no dates either, only whole values are taken for the same state.
        changed = found.get("last_modified")
        time = 0.0 if changed is None else changed.timestamp()
        if time > 0:
            token = (time, found.get("size"))
        else:
            token = secrets.token_urlsafe(_WIDTH) if value is None else digest(value)
    return ObjectGeneration(token, e_tag, version, history)
