"""The errors that tegula raises, all derived from `TegulaError`.

::

    TegulaError
    ├── NotFoundError       (KeyError, FileNotFoundError)  nothing is stored at that path or name
    ├── AlreadyExistsError  (FileExistsError)              something is stored there already
    ├── ReadOnlyError       (PermissionError)              a write through a read-only store, group or array
    ├── MetadataError       (ValueError)                   a document or a creation argument is not valid
    ├── UnsupportedError                                   valid, but not supported by tegula or the format
    ├── CodecError                                         bytes could not be encoded or decoded
    ├── SelectionError      (IndexError)                   a selection does not fit the array
    ├── StoreError          (OSError)                      the store rejected a key, or its I/O failed
    └── ConflictError                                      the stored value changed since it was read

Each error is also an instance of the built-in exceptions in parentheses; one that is an `OSError` has ``errno``,
``strerror`` and ``filename`` if they are known. The attributes ``path`` (of the node), ``key`` (in the store),
``field`` (of the metadata document) and ``codec`` say where the error happened, as far as that is known, and are part
of the message. The attribute ``kind`` is a word for the class, which stays the same: interfaces of other libraries
translate it into the exceptions of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EACCES, EEXIST, ENOENT
from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "CodecError",
    "ConflictError",
    "MetadataError",
    "NotFoundError",
    "ReadOnlyError",
    "SelectionError",
    "StoreError",
    "TegulaError",
    "UnsupportedError",
]


def brief(value: object, most: int = 80) -> str:
    """Write any value for a message, in at most `most` letters.

    Examples
    --------
    >>> brief("abc"), brief([1] * 100, 8), brief((10**5000, 1))
    ("'abc'", '[1, 1, 1', 'a tuple with an integer that is too large to be printed')
    """
    try:
        return repr(value)[:most]
    except ValueError:  # Python prints no more than some thousand digits
        kind = "an integer" if isinstance(value, int) else f"a {type(value).__name__} with an integer"
        return f"{kind} that is too large to be printed"


class TegulaError(Exception):
    """Base class of every error that tegula raises.

    Parameters
    ----------
    message : str
        What is wrong, in one sentence.
    path, key, field, codec : str, optional
        Where it is wrong: path of the node, key in the store, member of a metadata document, name of the codec.

    Examples
    --------
    >>> import tegula
    >>> error = tegula.TegulaError("the checksum does not match", key="c/0/1", codec="crc32c")
    >>> print(error)
    the checksum does not match (key 'c/0/1', codec 'crc32c')
    >>> error.key
    'c/0/1'
    """

    kind: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        key: str | None = None,
        field: str | None = None,
        codec: str | None = None,
    ) -> None:
        # text from a file may hold lone surrogates, which no output stream can encode
        if not message.isascii():
            message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.message = message
        self.path = path
        self.key = key
        self.field = field
        self.codec = codec

    def __str__(self) -> str:
        places = [
            f"{name} {value!r}"
            for name in ("path", "key", "field", "codec")
            if (value := getattr(self, name)) is not None
        ]
        return f"{self.message} ({', '.join(places)})" if places else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message,), self.__dict__)

    def within(
        self,
        *,
        path: str | None = None,
        key: str | None = None,
        field: str | None = None,
        codec: str | None = None,
    ) -> TegulaError:
        """Add where the error happened, without replacing attributes that are already set, and return the error."""
        self.path = self.path if self.path is not None else path
        self.key = self.key if self.key is not None else key
        self.field = self.field if self.field is not None else field
        self.codec = self.codec if self.codec is not None else codec
        return self


def _message(error: TegulaError) -> str:
    return error.message


def _path(error: TegulaError) -> str | None:
    return error.path


class NotFoundError(TegulaError, KeyError, FileNotFoundError):
    """No node or value at that path or under that name.

    Attributes
    ----------
    is_stale : bool
        Whether an open array was deleted, moved or replaced, so that another attempt has to open it again.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="i4")
    >>> b = tegula.create_array(a.store, shape=3, dtype="f4", overwrite=True)
    >>> try:
    ...     a[:]
    ... except tegula.NotFoundError as error:
    ...     error.is_stale
    True
    """

    kind = "not_found"
    errno = ENOENT
    is_stale: bool = False
    _around: Sequence[Sequence[int]] = ()  # of a chunk that is not stored; see `not_stored`
    strerror = property(_message)
    filename = property(_path)


def not_stored(around: Sequence[Sequence[int]]) -> NotFoundError:
    """Make the error for a chunk that is not stored, where reads must not use the fill value in its place.

    `around` has the coordinates of the chunk; for an inner chunk of a shard first those of the shard.
    """
    first, *inner = (f"({', '.join(map(str, coords))}{',' if len(coords) == 1 else ''})" for coords in around)
    which = f"inner chunk {' in '.join(reversed(inner))} of the shard {first}" if inner else f"chunk {first}"
    error = NotFoundError(f"the {which} is not stored")
    error._around = around
    return error


def missing_chunk(error: BaseException) -> tuple[int, ...] | None:
    """Return the coordinates of the chunk whose lack an error reports; ``None`` for any other error.

    Examples
    --------
    >>> missing_chunk(not_stored([(0, 1)])), missing_chunk(not_stored([(0, 1), (2, 3)])), missing_chunk(KeyError())
    ((0, 1), None, None)
    """
    around = error._around if isinstance(error, NotFoundError) else ()
    return tuple(around[0]) if len(around) == 1 else None


class AlreadyExistsError(TegulaError, FileExistsError):
    """A node, key or file that already exists and may not be replaced."""

    kind = "already_exists"
    errno = EEXIST
    strerror = property(_message)
    filename = property(_path)


class ReadOnlyError(TegulaError, PermissionError):
    """A write through a store, group or array that was opened for reading."""

    kind = "read_only"
    errno = EACCES
    strerror = property(_message)
    filename = property(_path)


class MetadataError(TegulaError, ValueError):
    """An invalid metadata document or creation argument; names the document and the field."""

    kind = "metadata"


class UnsupportedError(TegulaError):
    """A valid request that tegula, the format or this installation does not support; says what is needed, if known."""

    kind = "unsupported"


class CodecError(TegulaError):
    """A chunk that could not be encoded or decoded, such as damaged, truncated or mislabelled bytes."""

    kind = "codec"


class SelectionError(TegulaError, IndexError):
    """A selection that does not fit the array it is applied to.

    Attributes
    ----------
    is_stale : bool
        Whether the open array was made smaller by others, so that another attempt has to refresh it or open it again.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="i4")
    >>> tegula.open_array(a.store, "r+").resize(2)
    >>> try:
    ...     a[:]
    ... except tegula.SelectionError as error:
    ...     error.is_stale
    True
    """

    kind = "selection"
    is_stale: bool = False


class StoreError(TegulaError, OSError):
    """A key that the store rejects, or I/O that failed; the cause is chained."""

    kind = "store"


class ConflictError(TegulaError):
    """A conditional write whose target has changed since it was read."""

    kind = "conflict"


def store_failed(error: BaseException) -> bool:
    """Return whether a store failed, rather than refused a key: the same call may succeed later."""
    return isinstance(error, StoreError) and error.__cause__ is not None


def out_of_memory(error: MemoryError) -> StoreError:
    """Return the error to raise when memory runs out while chunks are read or written.

    Examples
    --------
    >>> out_of_memory(MemoryError("Unable to allocate 8.00 GiB for an array"))
    StoreError('there is not enough memory: Unable to allocate 8.00 GiB for an array')
    """
    return StoreError(f"there is not enough memory: {error}".removesuffix(": "))
