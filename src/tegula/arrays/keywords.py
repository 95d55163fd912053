"""Errors for wrong keyword arguments, which name the equivalent if another library has the keyword."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from tegula.errors import MetadataError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.arrays import foreign_names
else:
    foreign_names = Later("tegula.arrays.foreign_names")

__all__ = ["KeywordError", "check_keywords", "known_keywords"]

P = ParamSpec("P")
T = TypeVar("T")

_HAS_MORE: Final = 4  # inspect.CO_VARARGS; importing inspect takes long
_HAS_OPTIONS: Final = 8  # inspect.CO_VARKEYWORDS


class KeywordError(MetadataError, TypeError):
    """An unknown keyword argument; the message names the equivalent if another library has the keyword."""


def check_keywords(function: str, used: Collection[str], known: Collection[str]) -> None:
    """Refuse keyword arguments that are not known.

    Raises
    ------
    KeywordError
        If a keyword is unknown; the message names its equivalent.

    Examples
    --------
    >>> check_keywords("create_array", ["fillvalue"], ["fill_value", "shape"])
    Traceback (most recent call last):
    ...
    tegula.arrays.keywords.KeywordError: create_array has no keyword 'fillvalue'; in tegula that is fill_value=
    """
    unknown = next((name for name in used if name not in known), None)
    if unknown is None:
        return
    ours = foreign_names.KEYWORDS_OF.get(function, {}).get(unknown) or foreign_names.KEYWORDS.get(unknown)
    if ours is not None:
        hint = ours if ours.startswith("leave it out") else f"in tegula that is {ours}"
    elif close := import_module("difflib").get_close_matches(unknown, known, 1):
        hint = f"did you mean {close[0]}=?"
    else:
        hint = f"the keywords are {', '.join(sorted(known))}" if known else "it takes none"
    raise KeywordError(f"{function} has no keyword {unknown!r}; {hint}")


def known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, so that unknown keywords raise the error of `check_keywords`.

    A function with ``**options`` checks those itself. Too many arguments by position, and one that is also given by
    name, are a `KeywordError`, too. A target, or a source that comes first, is also called `store`, as in zarr-python;
    if both are there, the target is once the source is given.

    Examples
    --------
    >>> @known_keywords
    ... def create(shape, dtype="f8"): ...
    >>> create(5, dtyp="i4")
    Traceback (most recent call last):
    ...
    tegula.arrays.keywords.KeywordError: create has no keyword 'dtyp'; did you mean dtype=?
    """
    code: Any = function.__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    name, most = function.__name__, code.co_argcount
    first = code.co_varnames[0] if code.co_varnames[:1] in (("target",), ("source",)) else ""
    takes_store = bool(first or "target" in names)
    takes_more, checks_itself = bool(code.co_flags & _HAS_MORE), bool(code.co_flags & _HAS_OPTIONS)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if takes_store and "store" in kwargs:
            called = "target" if "target" in names and (not first or args or first in kwargs) else first
            if called not in kwargs:
                kwargs[called] = kwargs.pop("store")
        if not checks_itself and not names.issuperset(kwargs):
            check_keywords(name, kwargs, names)
        if len(args) > most and not takes_more:
            others = ", ".join([f"{other}=" for other in code.co_varnames[most : most + code.co_kwonlyargcount]])
            more = f"; give the others by name: {others}" if others else ""
            raise KeywordError(f"{name} got too many arguments by position{more}")
        if kwargs and (twice := [keyword for keyword in code.co_varnames[: min(len(args), most)] if keyword in kwargs]):
            raise KeywordError(f"{name} got {twice[0]} by position and again by name ({twice[0]}=)")
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            if type(error) is ValueError and "integer string conversion" in str(error):
                raise MetadataError(f"{name} got an integer that is too large to be printed") from error
            raise

    return checked
