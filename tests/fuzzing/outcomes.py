"""The possible outcomes of an input, and their counts.

An input may be accepted or refused; it is refused by an exception of the tree in `tegula.errors` whose text is one that
can be shown. Anything else is a violation: another exception, values that no honest reading gives, a process that dies
or does not end, memory beyond the bound.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tegula.errors import TegulaError

__all__ = [
    "GROWTH", "Case", "Skipped", "Tally", "Target", "Violation", "attempt", "from_json", "refusal",
    "short", "to_json",
]  # fmt: skip

GROWTH = 64 << 20
"""How much more resident memory one input may take than any before it took, in bytes; chunks are at most 1 MiB."""
_LONGEST = 20_000

Case = dict[str, Any]
"""An input: text, numbers, lists, mappings and bytes."""


class Violation(AssertionError):
    """The library broke a promise; `kind` says which."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Skipped(Exception):
    """An input that can't be tried here, such as one for a codec that is not installed."""


class Target(Protocol):
    """A part of the library that takes input."""

    name: str

    def make(self, rng: Any) -> Case:
        """Make an input."""

    def run(self, case: Case) -> str:
        """Carry out an input; returns ``accepted`` or ``refused``, or raises."""


@dataclass
class Tally:
    """The counts of many inputs of one target; `seconds` are those of a core."""

    inputs: int = 0
    accepted: int = 0
    checksum_detected: int = 0
    skipped: int = 0
    seconds: float = 0.0
    growth: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the counts of other inputs."""
        for name in ("inputs", "accepted", "checksum_detected", "skipped", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.growth = max(self.growth, other.growth)
        for name in ("refused", "notes", "violations"):
            getattr(self, name).update(getattr(other, name))

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        rate = round(self.inputs / self.seconds) if self.seconds else None
        return {**vars(self), "seconds": round(self.seconds, 3), "inputs_per_second": rate}


def peak_memory() -> int:
    """Return the most resident memory this process has had, in bytes; 0 where that is not known."""
    # the peak of getrusage begins with that of the parent process
    try:
        with open("/proc/self/status", "rb", 0) as file:
            text = file.read()
    except OSError:
        return 0
    return int(text[text.index(b"VmHWM:") + 6 :].split(None, 1)[0]) * 1024


def short(value: object, length: int = 300) -> str:
    """Return the representation of a value, or the beginning of it."""
    text = repr(value)
    return text if len(text) <= length else text[:length] + "…"


def refusal(error: TegulaError, case: Case) -> str:
    """Return the name of an error, after checking that its message is not much longer than a long input."""
    text = f"{error} {error!r}"
    if len(text) > _LONGEST + 10 * len(repr(case)):
        raise Violation("message", f"an error of {len(text)} characters: {text[:200]}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Violation("message", f"an error that can't be printed: {text[:200]!r}") from None
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "tegula.errors")


def attempt(target: Target, case: Case, tally: Tally) -> tuple[str, str] | None:
    """Carry out one input and count its outcome; return kind and text of a violation."""
    before = peak_memory()
    found: tuple[str, str] | None = None
    tally.inputs += 1
    try:
        for note in (target.run(case) or "accepted").split(","):
            if note == "accepted":
                tally.accepted += 1
            elif note == "checksum":
                tally.checksum_detected += 1
            elif note.startswith("refused "):
                tally.refused[note.removeprefix("refused ")] += 1
            else:
                tally.notes[note] += 1
    except TegulaError as error:
        try:
            tally.refused[refusal(error, case)] += 1
        except Violation as violation:
            found = violation.kind, str(violation)
    except Skipped:
        tally.skipped += 1
    except Violation as violation:
        found = violation.kind, str(violation)
    except Exception as error:
        found = f"other exception: {type(error).__name__}", short(error)
    growth = peak_memory() - before
    tally.growth = max(tally.growth, growth)
    if growth > GROWTH and found is None:
        found = "memory", f"resident memory grew by {growth >> 20} MiB"
    if found is not None:
        tally.violations[found[0]] += 1
    return found


def to_json(value: Any) -> Any:
    """Return an input as JSON values."""
    if isinstance(value, (bytes, bytearray)):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(value: Any) -> Any:
    """Return an input as it was before `to_json`."""
    if isinstance(value, dict):
        if value.keys() == {"b64"}:
            return base64.b64decode(value["b64"])
        return {key: from_json(item) for key, item in value.items()}
    return [from_json(item) for item in value] if isinstance(value, list) else value
