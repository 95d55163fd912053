"""The errors of this package: each is a TegulaError and also the built-in exception that TensorStore raises.

An error has a *status*: one of a dozen codes, and a sentence. The text of the error is the sentence, after the code
unless that is INVALID_ARGUMENT or UNIMPLEMENTED.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tegula.errors import CodecError, TegulaError

__all__ = [
    "ArgumentTypeError", "IndexStatusError", "StatusError", "ValueStatusError", "annotate", "as_status", "checked",
    "checked_or_none", "index_error", "invalid", "stating", "status", "type_error", "unhashable",
]  # fmt: skip

T = TypeVar("T")
_SILENT = frozenset(("INVALID_ARGUMENT", "UNIMPLEMENTED"))


class StatusError(TegulaError):
    """An error with a status ``code`` and a ``sentence``."""

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
    """An error whose code has no class of its own."""


class UnimplementedError(StatusError, NotImplementedError):
    """A valid request that is not supported."""


class IndexStatusError(StatusError, IndexError):
    """An index expression that is invalid or does not fit its domain."""


class ArgumentTypeError(StatusError, TypeError):
    """An argument of a type that is not accepted."""


def status(code: str, message: str) -> StatusError:
    """Return the exception for a status, whose sentence is without the code."""
    return UnimplementedError(code, message) if code == "UNIMPLEMENTED" else ValueStatusError(code, message)


def invalid(message: str) -> StatusError:
    """Return the ValueError for an invalid argument or value."""
    return ValueStatusError("INVALID_ARGUMENT", message)


def index_error(message: str, code: str = "INVALID_ARGUMENT") -> IndexStatusError:
    """Return the IndexError for a message."""
    return IndexStatusError(code, message)


def type_error(message: str) -> ArgumentTypeError:
    """Return the TypeError for a message."""
    return ArgumentTypeError("INVALID_ARGUMENT", message)


def checked(name: str, value: Any, kind: type[T]) -> T:
    """Return an argument if it is an instance of a class; raise TypeError otherwise."""
    if not isinstance(value, kind):
        raise type_error(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def checked_or_none(name: str, value: Any, kind: type[T]) -> T | None:
    """Return an optional argument if it is ``None`` or an instance of a class; raise TypeError otherwise."""
    return None if value is None else checked(name, value, kind)


def unhashable(value: object) -> int:
    """Refuse to hash an object that can change: ``__hash__`` of its class."""
    raise type_error(f"unhashable type: '{type(value).__name__}'")


def annotate(error: BaseException, context: str) -> StatusError:
    """Return the same error with ``context`` and a colon before its sentence."""
    inner = as_status(error)
    return type(inner)(inner.code, f"{context}: {inner.sentence}")


class stating:
    """A context manager that converts errors to statuses, with a text before their sentences, if one is given."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TegulaError):
            raise annotate(error, self._text) if self._text else as_status(error) from error.__cause__


def as_status(error: BaseException) -> StatusError:
    """Convert an error of tegula or Python to a status; a status is returned unchanged."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, CodecError) and error.key is not None:
        return status("FAILED_PRECONDITION", f'Error reading "{error.key}": {error.message}')
    if isinstance(error, TegulaError):
        return status(_CODES.get(error.kind, "INVALID_ARGUMENT"), str(error))
    code = next((code for kind, code in _BUILT_IN if isinstance(error, kind)), "INVALID_ARGUMENT")
    return status(code, str(error.args[0] if isinstance(error, KeyError) and error.args else error))


_CODES = {
    "not_found": "NOT_FOUND",
    "already_exists": "ALREADY_EXISTS",
    "conflict": "ABORTED",
    "unsupported": "UNIMPLEMENTED",
    "selection": "OUT_OF_RANGE",
    "store": "FAILED_PRECONDITION",
    "codec": "FAILED_PRECONDITION",
}
"""The status code for each kind of error of tegula; those of other kinds are invalid arguments."""
_BUILT_IN = (
    (NotImplementedError, "UNIMPLEMENTED"),
    (IndexError, "OUT_OF_RANGE"),
    (PermissionError, "PERMISSION_DENIED"),
    (OSError, "FAILED_PRECONDITION"),
)
"""The status code for classes of Python's errors; the first that matches is used."""
