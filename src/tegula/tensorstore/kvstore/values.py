"""Arguments and results of key-value stores: key ranges, read results, generations."""

from __future__ import annotations

import json
import struct
import time as clock
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import index
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from tegula.stores import ABSENT, ByteRange, Generation, Store
from tegula.stores.objects.generations import ObjectGeneration
from tegula.tensorstore.errors import invalid, status, type_error, unhashable
from tegula.tensorstore.json import as_bytes, key_text

__all__ = [
    "NO_VALUE", "UNKNOWN", "ByteSlice", "KeyRange", "ReadResult", "TimestampedStorageGeneration", "decode_generation",
    "encode_generation", "keys_below", "listing_prefix", "made", "prefix_of_range", "stamp",
]  # fmt: skip

T = TypeVar("T")
State: TypeAlias = Literal["unspecified", "missing", "value"]

_OBJECT: Final = b"\5"
NO_VALUE: Final = b"\2"
"""The generation of a key without a value; as a condition, it requires that the key has no value."""
UNKNOWN: Final = b""
"""The generation that a conditional write returns if its condition is not met."""


def encode_generation(generation: Generation) -> bytes:
    """Return a store's generation as bytes; the inverse of `decode_generation`."""
    if isinstance(generation, bytes):
        return generation
    if generation == ABSENT:
        return NO_VALUE
    if isinstance(generation, ObjectGeneration):
        parts = [generation.token, generation.e_tag, generation.version, generation.history]
        return _OBJECT + json.dumps(parts).encode()
    numbers = generation if isinstance(generation, tuple) else (cast(int, generation),)
    return b"\0" + struct.pack(f"<{len(numbers)}Q", *(number & 0xFFFFFFFFFFFFFFFF for number in numbers))


def decode_generation(token: bytes) -> Generation:
    """Return a store's generation from bytes; bytes from elsewhere never match the generation of a key."""
    if token == NO_VALUE:
        return ABSENT
    if token[:1] == _OBJECT:
        with suppress(ValueError, TypeError):
            object_token, e_tag, version, history = json.loads(token[1:])
            return ObjectGeneration(
                tuple(object_token) if isinstance(object_token, list) else object_token, e_tag, version, history
            )
    if token[:1] != b"\0" or len(token) % 8 != 1 or len(token) == 1:
        return token
    numbers = struct.unpack(f"<{len(token) // 8}Q", token[1:])
    return numbers[0] if len(numbers) == 1 else numbers


def _checked_state(value: Any, name: str) -> State:
    if value not in ("unspecified", "missing", "value"):
        raise type_error(f"{name} must be 'unspecified', 'missing' or 'value', not {value!r}")
    return cast(State, value)


_CONVERSIONS: Final[dict[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("inclusive_min", "exclusive_max", "generation", "value"), as_bytes),
    "time": lambda value, _: float(value),
    "state": _checked_state,
}


_keep: Final = object.__setattr__


class _Members:
    """Base class of values whose members are converted when they are set."""

    __slots__ = ()
    __hash__ = unhashable

    def __setattr__(self, name: str, value: Any) -> None:
        convert = _CONVERSIONS.get(name)
        _keep(self, name, value if convert is None else convert(value, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        names: Iterable[str] = self.__slots__
        return all(getattr(self, name) == getattr(other, name) for name in names)


def made(kind: type[T], *values: Any) -> T:
    """Return an object whose members need no conversion."""
    new = object.__new__(kind)
    names: Iterable[str] = getattr(kind, "__slots__", ())
    for name, value in zip(names, values):
        _keep(new, name, value)
    return new


class KeyRange(_Members):
    """A half-open range of keys, in the order of their bytes; an empty upper bound means no bound.

    Examples
    --------
    >>> KvStore.KeyRange("a", "b")
    KvStore.KeyRange(b'a', b'b')
    >>> KvStore.KeyRange("b", "a").empty
    True
    """

    __slots__ = {  # noqa: RUF023 - in the order of the parameters
        "inclusive_min": "The lower bound.",
        "exclusive_max": "The upper bound; empty if there is none.",
    }

    inclusive_min: bytes
    exclusive_max: bytes

    def __init__(self, inclusive_min: str | bytes = "", exclusive_max: str | bytes = "") -> None:
        self.inclusive_min = inclusive_min  # type: ignore[assignment]
        self.exclusive_max = exclusive_max  # type: ignore[assignment]

    @property
    def empty(self) -> bool:
        """Whether the range contains no key."""
        return bool(self.exclusive_max) and self.inclusive_min >= self.exclusive_max

    def copy(self) -> KeyRange:
        """Return a copy."""
        return KeyRange(self.inclusive_min, self.exclusive_max)

    def __contains__(self, key: bytes) -> bool:
        return self.inclusive_min <= key and not (self.exclusive_max and key >= self.exclusive_max)

    def __repr__(self) -> str:
        return f"KvStore.KeyRange({self.inclusive_min!r}, {self.exclusive_max!r})"


class TimestampedStorageGeneration(_Members):
    """The generation of a key, and the time at which it was current."""

    __slots__ = {"generation": "The generation.", "time": "Seconds since the epoch."}

    generation: bytes
    time: float

    def __init__(self, generation: str | bytes = b"", time: float = float("-inf")) -> None:
        self.generation = generation  # type: ignore[assignment]
        self.time = time

    def __repr__(self) -> str:
        shown = f"{self.time:.6f}" if abs(self.time) != float("inf") else str(self.time)
        return f"KvStore.TimestampedStorageGeneration({self.generation!r}, {shown})"


def stamp(generation: bytes, time: float | None = None) -> TimestampedStorageGeneration:
    """Return a generation with a time, by default now."""
    return made(TimestampedStorageGeneration, generation, clock.time() if time is None else time)


class ReadResult(_Members):
    """The result of a read; the state is unspecified if the value still has the known generation `if_not_equal`.

    Examples
    --------
    >>> KvStore.ReadResult("value", b"abc").value
    b'abc'
    """

    __slots__ = {  # noqa: RUF023 - as above
        "state": "Whether there is a value.",
        "value": "The value; empty if there is none.",
        "stamp": "The generation of the key.",
    }
    __eq__, __hash__ = object.__eq__, object.__hash__

    state: State
    value: bytes
    stamp: TimestampedStorageGeneration

    def __init__(
        self, state: State = "unspecified", value: str | bytes = "", stamp: TimestampedStorageGeneration | None = None
    ) -> None:
        self.state = state
        self.value = value  # type: ignore[assignment]
        self.stamp = TimestampedStorageGeneration() if stamp is None else stamp

    def __repr__(self) -> str:
        return f"KvStore.ReadResult(state={self.state!r}, value={self.value!r}, stamp={self.stamp!r})"


class ByteSlice:
    """A range of the bytes of a value; `request` has it in the form that stores accept."""

    __slots__ = ("_start", "_stop", "least", "request")

    def __init__(self, wanted: slice) -> None:
        if not isinstance(wanted, slice) or wanted.step is not None:
            raise type_error(f"byte_range must be a slice without a step, not {wanted!r}")
        try:
            self._start = 0 if wanted.start is None else index(wanted.start)
            self._stop = None if wanted.stop is None else index(wanted.stop)
        except TypeError:
            raise type_error(f"byte_range must be a slice of integers, not {wanted!r}") from None
        start, stop = self._start, self._stop
        if stop is not None and (start < 0 or stop < start):
            raise invalid(f"Unsupported byte_range slice: {wanted.start}:{wanted.stop}")
        self.request: ByteRange = (start, None if stop is None else stop - start)
        self.least = max(1, -start if stop is None else stop - start)  # of fewer bytes, some may be missing

    def check(self, size: int) -> None:
        """Raise ValueError unless a value of `size` bytes contains the range."""
        if max(abs(self._start), 0 if self._stop is None else self._stop) > size:
            raise status("OUT_OF_RANGE", f"{self._start}:{self._stop} is outside of a value of {size} bytes")


def prefix_of_range(path: str, range: KeyRange) -> str | None:
    """Return the prefix (empty or ending in a slash) with exactly the keys of a range; ``None`` if there is none."""
    start, stop = range.inclusive_min, range.exclusive_max
    if start and stop != (start[:-1] + b"0" if start.endswith(b"/") else None):
        return None
    prefix = path + key_text(start)
    return prefix if (start or not stop) and (not prefix or prefix.endswith("/")) else None


def listing_prefix(path: str, range: KeyRange) -> str:
    """Return a directory of the store that contains all keys of a range."""
    start, stop = range.inclusive_min, range.exclusive_max
    common = start.rpartition(b"/")
    directory = common[0] + common[1]
    if directory and stop and stop <= directory[:-1] + b"0":
        path += key_text(directory)
    return path[: path.rfind("/") + 1]


def keys_below(store: Store, path: str, directory: str) -> Iterator[str]:
    """Yield the keys of a directory, except those in subdirectories whose names do not start with the path."""
    if len(path) <= len(directory):
        yield from store.list_prefix(directory)
        return
    keys, children = store.list_dir(directory)
    yield from keys
    for child in children:
        if child.startswith(path):
            yield from store.list_prefix(child)
