"""Generations of objects, and the history that shows which writes led to one.

Object storage may carry out a conditional write without confirming it: the answer is lost, or a repeated attempt
conflicts with its own result. So each conditional write has an identifier, and an object keeps the identifiers of the
last writes that led to its state as metadata. Reading them back shows whether a write took place, even if other writers
have replaced its result in the meantime.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tegula.stores.arguments import Generation, state_of_bytes
from tegula.stores.single_writer import digest

__all__ = [
    "ATTRIBUTE", "ObjectGeneration", "generation_from", "history_of", "listed_state", "new_write", "position",
    "reaches_back", "state_of",
]  # fmt: skip

ATTRIBUTE: Final = "tegulawrites"
"""The name of the metadata; only letters, since services treat other characters differently."""

_WIDTH: Final = 6  # letters of an identifier, 36 bits
_LONGEST: Final = 300 * _WIDTH  # S3 allows 2 KB of metadata; only objects that change very often need so much


@dataclass(frozen=True)
class ObjectGeneration:
    """One state of one object.

    Two generations are equal if the storage identifies them as the same state; the history is not compared.

    Parameters
    ----------
    token : hashable
        Identifies the state in the storage.
    e_tag, version : str or None
        The values for conditions.
    history : str
        Identifiers of the last conditional writes that led to this state, the last one first.
    superseded : bool
        Whether another state has already followed, so that no condition can hold.
    restored : bool
        Whether it was restored from the record of another process, without its history.
    """

    token: Generation
    e_tag: str | None = field(default=None, compare=False)
    version: str | None = field(default=None, compare=False)
    history: str = field(default="", compare=False, repr=False)
    superseded: bool = False
    restored: bool = field(default=False, compare=False, repr=False)

    @property
    def unknown(self) -> bool:
        """Whether the storage does not identify this state; it is then not equal to any other."""
        return self.e_tag is None and self.version is None and isinstance(self.token, str)

    @property
    def plain(self) -> tuple[object, ...]:
        """The generation as a tuple, for other processes; see `restore`.

        It has no history: by the time it is used, the same bytes may have been written again, with another history.
        """
        return self.token, self.e_tag, self.version

    @classmethod
    def restore(cls, plain: tuple[Any, ...]) -> ObjectGeneration:
        """Return the generation for a tuple of `plain`; a conditional write first has to look up its history."""
        token, e_tag, version = plain
        return cls(token, e_tag, version, restored=True)

    def condition(self) -> dict[str, str]:
        """Return the mode of a PUT that replaces only this state."""
        tags = {"e_tag": self.e_tag, "version": self.version}
        return {name: value for name, value in tags.items() if value is not None}

    def reading(self) -> dict[str, str]:
        """Return the options of a GET that reads only this state, as far as the server supports such conditions.

        A weak ETag can't be a condition for reading (RFC 9110): servers refuse it even if the object has it.
        """
        return {} if self.e_tag is None or self.e_tag.startswith("W/") else {"if_match": self.e_tag}


def new_write(before: Generation) -> tuple[str, str]:
    """Return the identifier of a new write, and the history of the state that it creates."""
    write = secrets.token_urlsafe(_WIDTH)[:_WIDTH]
    earlier = before.history if isinstance(before, ObjectGeneration) else ""
    return write, (write + earlier)[:_LONGEST]


def history_of(attributes: Mapping[str, str]) -> str:
    """Return the history in the metadata of an object; services may change the case of names."""
    for name, value in attributes.items():
        if str(name).lower() == ATTRIBUTE:
            return value
    return ""


def position(write: str, history: str) -> int | None:
    """Return how many writes followed a given one in a history; ``None`` if it is not there."""
    for start in range(0, len(history), _WIDTH):
        if history[start : start + _WIDTH] == write:
            return start // _WIDTH
    return None


def reaches_back(history: str, before: Generation) -> bool:
    """Return whether a history has all writes that followed a state, so that a write missing in it did not happen."""
    last = before.history[:_WIDTH] if isinstance(before, ObjectGeneration) else ""
    return len(history) < _LONGEST or (last != "" and position(last, history) is not None)


def listed_state(meta: Mapping[str, Any]) -> int:
    """Return the state of a listed object: a number made of its ETag, or else of its size and time.

    Listings of some services leave out the quotes around ETags, and versions.
    """
    if (e_tag := meta.get("e_tag")) is not None:
        return state_of_bytes(e_tag.removeprefix("W/").strip('"').encode())
    changed = meta.get("last_modified")
    time = 0.0 if changed is None else changed.timestamp()
    return state_of_bytes(repr((time, meta.get("size"))).encode()) if time > 0 else 0


def state_of(generation: ObjectGeneration) -> int:
    """Return the `listed_state` of an object that has this generation."""
    if generation.e_tag is not None:
        return listed_state({"e_tag": generation.e_tag})
    return state_of_bytes(repr(generation.token).encode()) if type(generation.token) is tuple else 0


def generation_from(
    kind: str, meta: Mapping[str, Any], history: str = "", value: bytes | None = None
) -> ObjectGeneration:
    """Return the generation for an answer of obstore: for its metadata and the history that came with it.

    If the answer has all bytes of the object, their digest is the generation in case the metadata tell no other.
    """
    e_tag, version = meta.get("e_tag"), meta.get("version")
    token: Generation = (version or e_tag) if kind == "gs" else (e_tag or version)
    if token is None:
        # A server without ETags. If it has no dates either, only whole values can show that the state is the same.
        changed = meta.get("last_modified")
        time = 0.0 if changed is None else changed.timestamp()
        if time > 0:
            token = (time, meta.get("size"))
        else:
            token = secrets.token_urlsafe(_WIDTH) if value is None else digest(value)
    return ObjectGeneration(token, e_tag, version, history)
