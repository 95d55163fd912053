"""Arguments of store operations: keys, prefixes, byte ranges, values and generations, and checks of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from importlib import import_module
from operator import index
from typing import Any, Final, TypeAlias

from tegula.errors import ConflictError, StoreError
from tegula.runtime.deferred import matcher

__all__ = [
    "ABSENT",
    "ByteRange",
    "BytesLike",
    "Generation",
    "changed",
    "check_generation",
    "check_key",
    "check_prefix",
    "clip_range",
    "cut",
    "flat_view",
    "is_key",
    "split_children",
    "state_of_bytes",
]

Generation: TypeAlias = Hashable
"""Token for one state of one key; compare it with ``==`` only."""

ABSENT: Final[Generation] = "absent"
"""The generation of a key that has no value."""

ByteRange: TypeAlias = tuple[int, int | None]
"""``(start, length)``; a length of ``None`` means up to the end, a negative start counts from the end (a suffix)."""

BytesLike: TypeAlias = Any
"""Any C-contiguous buffer: ``bytes``, ``bytearray``, ``memoryview``, a C-contiguous ``ndarray``."""

_SEGMENT = r"(?!\.\.?(?:/|\Z))[^/\0\ud800-\udfff]+"
_VALID_KEY = matcher(f"{_SEGMENT}(?:/{_SEGMENT})*")


def _is_valid(key: str) -> bool:
    if key.isascii() and "\0" not in key:
        inner = f"/{key}/"
        return "//" not in inner and "/./" not in inner and "/../" not in inner
    return _VALID_KEY(key) is not None


def check_key(key: str) -> str:
    """Return `key` if it is valid, and raise `StoreError` if not.

    Examples
    --------
    >>> check_key("c/0/1")
    'c/0/1'
    >>> check_key("a//b")
    Traceback (most recent call last):
    ...
    tegula.errors.StoreError: a key can't have an empty, '.' or '..' segment (key 'a//b')
    """
    if not isinstance(key, str):
        raise StoreError(f"a key must be text, not {type(key).__name__}")
    if _is_valid(key):
        return key
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise StoreError("a key can't have an empty, '.' or '..' segment", key=key)
    raise StoreError("a key can't contain NUL or a lone surrogate", key=key)


def is_key(name: object) -> bool:
    """Return whether `name` is a valid key; listings leave out names that are not.

    Examples
    --------
    >>> is_key("c/0"), is_key("c//0"), is_key(b"c")
    (True, False, False)
    """
    return isinstance(name, str) and _is_valid(name)


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it is ``""`` or a valid key followed by ``/``, and raise `StoreError` if not."""
    if prefix == "":
        return prefix
    if not isinstance(prefix, str) or not prefix.endswith("/"):
        hint = f", not {prefix!r:.80}" if isinstance(prefix, str) else ""
        raise StoreError(f"a prefix must be empty or end in '/'{hint}", key=prefix)
    check_key(prefix[:-1])
    return prefix


def clip_range(byte_range: ByteRange, size: int) -> tuple[int, int]:
    """Return the start and stop of `byte_range` in a value of `size` bytes.

    Examples
    --------
    >>> clip_range((4, 10), 6), clip_range((-4, None), 6), clip_range((-9, 2), 6), clip_range((9, 1), 6)
    ((4, 6), (2, 6), (0, 2), (6, 6))
    """
    try:
        start, length = byte_range
        if length is not None and length < 0:
            raise StoreError(f"a byte range can't have the length {length}")
        start, length = index(start), None if length is None else index(length)
    except (TypeError, ValueError) as error:
        raise StoreError(f"a byte range must be (start, length), not {byte_range!r:.60}") from error
    start = max(0, size + start) if start < 0 else min(start, size)
    return start, size if length is None else min(size, start + length)


def cut(value: bytes | None, byte_range: ByteRange | None) -> bytes | None:
    """Return a range of a value, or all of it; ``None`` if there is no value."""
    if value is None or byte_range is None:
        return value
    start, stop = clip_range(byte_range, len(value))
    return value[start:stop]


def state_of_bytes(value: bytes) -> int:
    """Return a digest of bytes as the state of a value, a whole number from 1 up to 2**64."""
    return int.from_bytes(import_module("hashlib").blake2b(value, digest_size=8).digest(), "little") or 1


def changed(key: str | None) -> ConflictError:
    """Return the error for a key whose value is not in the expected state."""
    return ConflictError("the value has changed since it was read", key=key)


def check_generation(key: str | None, found: Generation, expected: Generation | None) -> None:
    """Raise `ConflictError` if a key has another generation than the expected one, if there is one."""
    if expected is not None and found != expected:
        raise changed(key)


def flat_view(value: BytesLike, key: str) -> memoryview:
    """Return the bytes of `value` as a one-dimensional view, without copying where the buffer's format allows it.

    Raises
    ------
    StoreError
        If `value` is not bytes-like or not C-contiguous.

    Examples
    --------
    >>> bytes(flat_view(bytearray(b"abc"), "c/0"))
    b'abc'
    """
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError) as error:
        raise StoreError(f"a value must be bytes-like, not {type(value).__name__}", key=key) from error
    if not view.c_contiguous:
        raise StoreError("a value must be C-contiguous", key=key)
    if view.nbytes == 0:
        return memoryview(b"")
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # a format that memoryview can't cast: big-endian or structured items
        return memoryview(view.tobytes())


def split_children(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and prefixes directly below `prefix` among `keys`, as `Store.list_dir` does.

    Examples
    --------
    >>> split_children(["a/x", "a/b/c", "a/b/d", "z"], "a/")
    (['a/x'], ['a/b/'])
    """
    below = len(prefix)
    children, prefixes = set(), set()
    for key in keys:
        if key.startswith(prefix):
            end = key.find("/", below)
            if end < 0:
                children.add(key)
            else:
                prefixes.add(key[: end + 1])
    return sorted(children), sorted(prefixes)
