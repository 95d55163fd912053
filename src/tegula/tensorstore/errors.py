"""What this package raises: TegulaErrors that are also the built-in exception TensorStore raises in that place.

A failure is a *status*: one of a dozen codes and a sentence. The code decides the Python class; it is written before
the sentence unless it is INVALID_ARGUMENT or UNIMPLEMENTED, which their classes already say.
"""

from __future__ import annotations

from tegula.errors import (
    AlreadyExistsError,
    CodecError,
    ConflictError,
    NotFoundError,
    ReadOnlyError,
    SelectionError,
    TegulaError,
    UnsupportedError,
)

__all__ = [
    "ArgumentTypeError",
    "IndexStatusError",
    "StatusError",
    "UnimplementedError",
    "ValueStatusError",
    "annotate",
    "as_status",
    "index_error",
    "key_bytes",
    "quoted",
    "status",
    "type_error",
]

_SILENT = frozenset(("INVALID_ARGUMENT", "UNIMPLEMENTED"))
_ESCAPES = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class StatusError(TegulaError):
    """A failure with a status ``code`` and a ``sentence``; its text is the sentence, after the code if shown."""

    code: str
    sentence: str

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence if code in _SILENT else f"{code}: {sentence}")
        self.code = code
        self.sentence = sentence

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.sentence), self.__dict__)


class ValueStatusError(StatusError, ValueError):
    """Every status that has no class of its own."""


class UnimplementedError(StatusError, NotImplementedError):
    """Something that can be asked for but not done."""


class IndexStatusError(StatusError, IndexError):
    """An index or an index array that does not fit its domain."""


class ArgumentTypeError(StatusError, TypeError):
    """An argument of a type that is not accepted."""


def status(code: str, message: str) -> StatusError:
    """Return the exception for a status.

    Parameters
    ----------
    code : str
        The name of the status code: ``"INVALID_ARGUMENT"``, ``"NOT_FOUND"``, ``"ALREADY_EXISTS"`` and so on.
    message : str
        What is wrong, without the code.

    Examples
    --------
    >>> status("NOT_FOUND", 'Metadata at ".zarray" does not exist')
    ValueStatusError('NOT_FOUND: Metadata at ".zarray" does not exist')
    >>> isinstance(status("UNIMPLEMENTED", "Dimension units not supported by zarr driver"), NotImplementedError)
    True
    """
    return UnimplementedError(code, message) if code == "UNIMPLEMENTED" else ValueStatusError(code, message)


def index_error(message: str, code: str = "INVALID_ARGUMENT") -> IndexStatusError:
    """Return the IndexError for a message; an ``OUT_OF_RANGE`` one shows its code."""
    return IndexStatusError(code, message)


def type_error(message: str) -> ArgumentTypeError:
    """Return the TypeError for a message."""
    return ArgumentTypeError("INVALID_ARGUMENT", message)


def annotate(error: BaseException, context: str) -> StatusError:
    """Say where a failure happened: the same kind of error with ``context`` and a colon before its sentence."""
    inner = as_status(error)
    return type(inner)(inner.code, f"{context}: {inner.sentence}")


def as_status(error: BaseException) -> StatusError:
    """Return a lower floor's error as a status of the fitting code; a status is returned as it is."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, CodecError) and error.key is not None:
        return status("FAILED_PRECONDITION", f'Error reading "{error.key}": {error.message}')
    message = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
    return status(_code(error), str(message) if not isinstance(error, TegulaError) else str(error))


def _code(error: BaseException) -> str:
    if isinstance(error, NotFoundError):
        return "NOT_FOUND"
    if isinstance(error, AlreadyExistsError):
        return "ALREADY_EXISTS"
    if isinstance(error, ConflictError):
        return "ABORTED"
    if isinstance(error, (UnsupportedError, NotImplementedError)):
        return "UNIMPLEMENTED"
    if isinstance(error, (SelectionError, IndexError)):
        return "OUT_OF_RANGE"
    if isinstance(error, ReadOnlyError):
        return "INVALID_ARGUMENT"
    if isinstance(error, PermissionError):
        return "PERMISSION_DENIED"
    if isinstance(error, (OSError, CodecError)):
        return "FAILED_PRECONDITION"
    return "INVALID_ARGUMENT"


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key; they are what keys are ordered by."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise type_error(f"text can't have lone surrogates: {key!r:.80}") from None


def quoted(text: str) -> str:
    r"""Return text in quotes, as messages show keys: what is not printable ASCII as hexadecimal escapes.

    Examples
    --------
    >>> print(quoted("a\0l"), quoted("a\0b"))
    "a\x00l" "a\x00\x62"
    """
    shown = []
    after_hex = False
    for byte in key_bytes(text):
        hexadecimal = False
        if byte in _ESCAPES:
            shown.append(_ESCAPES[byte])
        elif not 0x20 <= byte < 0x7F or (after_hex and byte in _HEX_DIGITS):
            shown.append(f"\\x{byte:02x}")
            hexadecimal = True
        else:
            shown.append(chr(byte))
        after_hex = hexadecimal
    return f'"{"".join(shown)}"'
