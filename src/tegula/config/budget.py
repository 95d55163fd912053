"""What reading an input of unknown origin may cost, counted while it is read and never taken from what it says.

A small document, archive or set of references can describe any amount of work: templates that call each other,
generators, members that inflate, tables of one repeated value. Each reader spends from the budget of its input before
it allocates memory or does the work. The unit is a byte of memory, or the time in which a byte is made, about 10 ns. An
input that says much in its own bytes may cost more than a short one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tegula import config
from tegula.errors import MetadataError, StoreError, TegulaError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import json
else:
    json = Later("json")

__all__ = ["OWN", "Budget", "check_size", "check_values", "parse_json", "text_of"]

OWN: Final = 6
"""How many times its own size an input may cost, if that is more than the setting ``max_input_bytes``."""

_CONTAINER: Final = 56  # bytes of an empty list or object
_VALUE: Final = 24  # about the bytes of a number, or of what a text takes besides its characters
_DENSEST: Final = 40  # bytes that one byte of JSON can become
_OTHER: Final = {
    b"\x1f\x8b": "compressed by gzip, and the server or the file system does not say so",
    b"version https://git-lfs": "a pointer of Git LFS; get the file itself, by git lfs pull",
}
_BEYOND_16_BITS: Final = range(0xF0, 0xF5)  # the bytes with which such characters begin in UTF-8


class Budget:
    """What one input may still cost.

    Parameters
    ----------
    size : int
        The bytes that the input really has.
    fail : type
        The error to raise.

    Attributes
    ----------
    left : int
        What is left.

    Examples
    --------
    >>> from tegula.config.budget import Budget
    >>> budget = Budget(100)
    >>> budget.spend(2**20, "its templates")
    >>> budget.left < config.current().max_input_bytes
    True
    """

    def __init__(self, size: int = 0, fail: type[TegulaError] = StoreError) -> None:
        self._fail = fail
        self.left = max(config.current().max_input_bytes, OWN * size)

    def spend(self, cost: int, what: str) -> None:
        """Count a cost before it arises.

        Parameters
        ----------
        cost : int
            Bytes, or units of about 10 ns.
        what : str
            What costs it, for the error.

        Raises
        ------
        TegulaError
            If it is more than what is left; from then on, nothing is.
        """
        self.left -= cost
        if self.left < 0:
            raise self._fail(_refusal(what))


def check_size(size: int, what: str, fail: type[TegulaError] = StoreError) -> None:
    """Raise an error if an input, before it is read, has more than ``max_input_bytes``."""
    if size > config.current().max_input_bytes:
        raise fail(_refusal(f"{what} of {size} bytes"))


def _refusal(what: str) -> str:
    limit = config.current().max_input_bytes
    return (
        f"{what} would cost more than the setting max_input_bytes, {limit}, allows; if you trust the source, raise it "
        "with tegula.config.configure(max_input_bytes=...) or the environment variable TEGULA_MAX_INPUT"
    )


def parse_json(raw: bytes, fail: type[TegulaError] = MetadataError, budget: Budget | None = None) -> Any:
    """Parse a JSON document.

    Parameters
    ----------
    raw : bytes
        The document, in UTF-8, or in another encoding of Unicode that JSON may have.
    fail : type
        The error to raise.
    budget : Budget, optional
        The budget of an input that has more than the document.

    Raises
    ------
    TegulaError
        If it is not valid JSON, too large, or its values would take more memory than the budget has.

    Examples
    --------
    >>> parse_json(b'{"a": [1, NaN]}')
    {'a': [1, nan]}
    """
    check_values(raw, fail, budget)
    try:
        return _values(text_of(raw))
    except RecursionError as error:
        raise fail("the document is nested too deeply") from error
    except ValueError as error:
        raise fail(f"the document is not valid JSON: {_other_format(raw) or error}") from error


def _values(text: str) -> Any:
    """Do what `json.loads` does; an object takes half the time, and does not import `json`."""
    if _scan is not None and text.startswith("{"):
        with suppress(StopIteration):  # a value is missing, and `json.loads` says where
            value, end = _scan(text, 0)
            if not text[end:].strip(" \t\n\r"):
                return value
    return json.loads(text)


def _scanner() -> Callable[[str, int], tuple[Any, int]] | None:
    """Return the function in C that reads a value for `json.loads`; ``None`` where the interpreter has none."""
    hooks = dict.fromkeys(("object_hook", "object_pairs_hook", "array_hook"))
    options = SimpleNamespace(strict=True, parse_float=float, parse_int=int, parse_constant=float, **hooks)
    scan: Callable[[str, int], tuple[Any, int]] | None = None
    with suppress(ImportError, AttributeError):
        scan = import_module("_json").make_scanner(options)
    return scan


_scan: Final = _scanner()


def _other_format(raw: bytes) -> str:
    """Return what a document is that is no JSON, if it begins as such documents do."""
    begin = raw[:200].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if begin.startswith(b"<"):
        what = "HTML" if b"html" in begin else "XML or HTML"
        return f"it is {what}, which web servers send for names that they do not have; check the URL"
    return next((f"it is {what}" for magic, what in _OTHER.items() if begin.startswith(magic)), "")


def text_of(raw: bytes) -> str:
    """Decode a JSON document, which may begin with a byte order mark or be in UTF-16 or UTF-32, as `json.loads` does.

    Raises
    ------
    UnicodeDecodeError
        If it is not Unicode.

    Examples
    --------
    >>> text_of("{}".encode("utf-8-sig")), text_of("{}".encode("utf-16"))
    ('{}', '{}')
    """
    usual = raw[:1] == b"{" and raw[1:2] != b"\0"
    return raw.decode("utf-8" if usual else json.detect_encoding(raw))


def check_values(raw: bytes, fail: type[TegulaError] = MetadataError, budget: Budget | None = None) -> None:
    """Raise an error if a JSON document is too large, or its values would take more memory than its budget has."""
    if len(raw) * _DENSEST <= (config.current().max_input_bytes if budget is None else budget.left):
        return
    check_size(len(raw), "a document", fail)
    # at most so many values, and the text, whose characters all take as much as the widest of them
    width = 1 if raw.isascii() else 4 if any(first in raw for first in _BEYOND_16_BITS) else 2
    count = raw.count
    containers = count(b"[") + count(b"{") - 2 * count(b"{{")  # which can only be in a text
    values = count(b",") + count(b":") + count(b'"') // 2
    cost = width * len(raw) + containers * _CONTAINER + values * _VALUE
    (budget or Budget(len(raw), fail)).spend(cost, f"the values of a JSON document of {len(raw)} bytes")
