"""Every error tegula raises, in one tree.

::

    TegulaError
    ├── NotFoundError       (KeyError, FileNotFoundError)  nothing is stored at that path or name
    ├── AlreadyExistsError  (FileExistsError)              something is stored there already
    ├── ReadOnlyError       (PermissionError)              a write through a read-only store, group or array
    ├── MetadataError       (ValueError)                   a document or a creation argument is not valid
    ├── UnsupportedError                                   valid, but not something tegula or that format can do
    ├── CodecError                                         bytes could not be encoded or decoded
    ├── SelectionError      (IndexError)                   a selection does not fit the array
    ├── StoreError          (OSError)                      the store refused a key or failed to do I/O
    └── ConflictError                                      the stored value changed since it was read

The other base classes let code that already handles the built-in exception go on working: those that are also an
`OSError` have its ``errno``, ``strerror`` and ``filename``, as far as they are known. Each error carries, where they
are known, the ``path`` of the node, the ``key`` in the store, the ``field`` of the document and the ``codec`` as
attributes, and names them in its message.
"""

from __future__ import annotations

import errno
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


class TegulaError(Exception):
    """Base class of every error that tegula raises.

    Parameters
    ----------
    message : str
        What is wrong, in one sentence.
    path, key, field, codec : str, optional
        Where it is wrong: the node, the store's key, the member of a metadata document, the codec's name.

    Examples
    --------
    >>> import tegula
    >>> error = tegula.TegulaError("the checksum does not match", key="c/0/1", codec="crc32c")
    >>> print(error)
    the checksum does not match (key 'c/0/1', codec 'crc32c')
    >>> error.key
    'c/0/1'
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        key: str | None = None,
        field: str | None = None,
        codec: str | None = None,
    ) -> None:
        if not message.isascii():  # what comes of a file may have halves of surrogates, which nobody can print
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
        """Add what an outer floor knows of the place, keeping what an inner floor said; returns the error itself."""
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
    """Nothing is stored at that path or under that name."""

    errno: ClassVar[int] = errno.ENOENT  # type: ignore[misc]
    strerror = property(_message)
    filename = property(_path)


class AlreadyExistsError(TegulaError, FileExistsError):
    """Something is stored there already and may not be replaced."""

    errno: ClassVar[int] = errno.EEXIST  # type: ignore[misc]
    strerror = property(_message)
    filename = property(_path)


class ReadOnlyError(TegulaError, PermissionError):
    """A write was tried through a store, group or array that was opened for reading."""

    errno: ClassVar[int] = errno.EACCES  # type: ignore[misc]
    strerror = property(_message)
    filename = property(_path)


class MetadataError(TegulaError, ValueError):
    """A metadata document or a creation argument is not valid; says which document and which field."""


class UnsupportedError(TegulaError):
    """The request is valid, but tegula, this format or this machine can't do it; says what would be needed."""


class CodecError(TegulaError):
    """Bytes could not be encoded or decoded: damaged, truncated or lying about their size."""


class SelectionError(TegulaError, IndexError):
    """A selection does not fit the array it is applied to."""


class StoreError(TegulaError, OSError):
    """The store refused a key, or reading or writing it failed; the cause is chained."""


class ConflictError(TegulaError):
    """A conditional write found that the stored value had changed since it was read."""


def out_of_memory(error: MemoryError) -> StoreError:
    """Make the error for memory that was missing while chunks were read or written.

    Examples
    --------
    >>> out_of_memory(MemoryError("Unable to allocate 8.00 GiB for an array"))
    StoreError('there is not enough memory: Unable to allocate 8.00 GiB for an array')
    """
    return StoreError(f"there is not enough memory: {error}".removesuffix(": "))
