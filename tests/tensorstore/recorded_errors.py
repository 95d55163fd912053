"""Errors that TensorStore has raised, compared with those of this package by what they say, not by their texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_CODE = re.compile(r"([A-Z]+(?:_[A-Z]+)*): ")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)+)"|\'((?:[^\'\\]|\\.)+)\'')
_DIMENSION = re.compile(r"dimension (-?\d+)")


def names_in(value: Any) -> set[str]:
    """Return the names that a request holds: keys and texts of JSON, and what is quoted or a word in an expression."""
    if isinstance(value, dict):
        return {*value}.union(*(names_in(each) for each in value.values()))
    if isinstance(value, list | tuple):
        return set().union(*(names_in(each) for each in value))
    return {value, *re.findall(r"\w+", value)} if isinstance(value, str) else set()


def differences(error: BaseException, recorded: Any, request: Any = ()) -> list[str]:
    """Return how an error differs from a recorded one, in the exception type, the status code and what it names.

    Parameters
    ----------
    error : BaseException
        The error that was raised.
    recorded : dict or str
        The error of TensorStore: its ``"type"`` and ``"message"``, or only its message.
    request : object, optional
        What was asked for: JSON, or an expression. Each name that the recorded text quotes and the request holds is one
        that the error must name too, as it must each dimension.

    Returns
    -------
    list of str
        Nothing, if the errors are the same.
    """
    kind, message = ("", recorded) if isinstance(recorded, str) else (recorded["type"], recorded["message"])
    message, text = re.split(r" \[tensorstore_spec=|\n", message)[0], str(error)
    found = []
    if kind and kind not in [each.__name__ for each in type(error).__mro__]:
        found.append(f"is no {kind}, but a {type(error).__name__}")
    if (ours := _CODE.match(text)) != (theirs := _CODE.match(message)) and (ours and ours[1]) != (theirs and theirs[1]):
        found.append(f"has the code {ours and ours[1]}, not {theirs and theirs[1]}")
    quoted = {first or second for first, second in _QUOTED.findall(message)}
    missing = {name for name in quoted & names_in(request) if name not in text}
    numbers = re.findall(r"-?\d+", text)
    missing.update(f"dimension {number}" for number in _DIMENSION.findall(message) if number not in numbers)
    found.extend(f"does not name {name}" for name in sorted(missing))
    return [f"{each}: {text!r} for {message!r}" for each in found]


def outcome(call: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    """Return ``"ok"`` and what a call returns, or ``"error"`` and the class and status code of what it raises."""
    try:
        return "ok", call(*arguments)
    except Exception as error:
        return "error", kind_and_code(error)


def value_or_error(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, or the class and status code of a `ValueError`."""
    try:
        return call(*arguments)
    except ValueError as error:
        return kind_and_code(error)


def kind_and_code(error: BaseException) -> str:
    """Return the built-in class of an error, and its status code if it has one.

    Examples
    --------
    >>> kind_and_code(ValueError("NOT_FOUND: there is nothing"))
    'ValueError NOT_FOUND'
    """
    kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")
    match = _CODE.match(str(error))
    return f"{kind} {match[1]}" if match else kind


def check(error: BaseException, recorded: Any, request: Any = ()) -> None:
    """Assert that an error is a recorded one, as `differences` compares them."""
    if found := differences(error, recorded, request):
        raise AssertionError("\n".join(found))
