"""Templates of kerchunk references: ``{{name}}`` in URLs, and generators of many references.

kerchunk's specification (version 1) uses Jinja for them. Writers use a small part of it, which this module supports:
names, integer arithmetic, and calls of templates with named arguments. Nothing else is evaluated. A short text can
describe very much of this, so each step is taken from a budget before it is made.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from tegula.config.budget import Budget
from tegula.errors import StoreError
from tegula.runtime.parsing import parse_expression

__all__ = ["Generator", "render"]

Dimension: TypeAlias = "range | list[int | str]"

_DEEPEST: Final = 16  # nested calls of templates
_LARGEST: Final = 2**63
_LONGEST: Final = 2**12  # characters of an expression, and of a text whose expressions are kept
_ARITHMETIC: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

# what costs how much of a budget
_NAME: Final = 64
_PARSE: Final = 1024
_EXPRESSION: Final = 128
_CHARACTER: Final = 16
_CALL: Final = 2048
_REFERENCE: Final = 160
_VALUE: Final = 8  # in a text of nothing else than plain texts and values
_WORK: Final = "evaluating the templates of the references"
_GENERATED: Final = "the references that gen describes"
_UNKNOWN: Final = object()
_NOTHING: Final[Mapping[str, Any]] = {}


def render(
    text: Any, names: Mapping[str, Any], budget: Budget, given: Mapping[str, Any] = _NOTHING, depth: int = 0
) -> str:
    """Replace expressions between double braces by their values.

    Parameters
    ----------
    text : str
        The text.
    names : mapping
        The templates.
    budget : Budget
        What the text may cost.
    given : mapping
        The values of a generator's dimensions, and the arguments of calls; they hide templates of the same name.
    depth : int
        How deeply calls of templates are nested.

    Raises
    ------
    StoreError
        If a name is not known, an expression is not supported, or the budget is used up.

    Examples
    --------
    >>> render("{{host}}/{{f(name='x')}}.{{i * 10 + 1}}", {"host": "s3://b", "f": "d/{{name}}"}, Budget(), {"i": 2})
    's3://b/d/x.21'
    """
    if not isinstance(text, str):
        raise StoreError(f"a template must be text, not {text!r:.60}")
    if depth > _DEEPEST:
        raise StoreError("templates refer to each other endlessly")
    scope = _Scope(names, given, budget, depth)
    pieces: list[str] = []
    for part in _kept_parts(text) if len(text) <= _LONGEST else _parts(text):
        piece = part if isinstance(part, str) else part.value(scope)
        budget.spend(len(piece) * (2 if piece.isascii() else 8), _WORK)
        pieces.append(piece)
    return "".join(pieces)


class _Scope(NamedTuple):
    """The names that an expression may use, and what its evaluation may cost."""

    names: Mapping[str, Any]
    given: Mapping[str, Any]
    budget: Budget
    depth: int

    def value(self, name: str, arguments: Mapping[str, Any] = _NOTHING) -> Any:
        """Return the value of a name; that of a template is its text with its own expressions replaced."""
        found = self.given.get(name)
        if found is None:
            found = self.names.get(name)
        if type(found) is int or (isinstance(found, str) and "{{" not in found):
            return found
        if found is None:
            raise ValueError(f"there is no template {name!r:.60}")
        given = {**self.given, **arguments}
        self.budget.spend(_CALL + _NAME * len(given), _WORK)
        return render(found, self.names, self.budget, given, self.depth + 1)


class _Expression:
    """What stands between two double braces."""

    __slots__ = ("_cost", "_text", "_tree", "name")

    def __init__(self, text: str) -> None:
        self.name = text if text.isidentifier() else None
        self._text = text
        self._cost = _NAME if self.name else _EXPRESSION + _CHARACTER * len(text)
        self._tree: ast.expr | None = None

    def value(self, scope: _Scope) -> str:
        """Return the value as text."""
        scope.budget.spend(self._cost, _WORK)
        try:
            return str(scope.value(self.name) if self.name is not None else _evaluate(self._parsed(scope), scope))
        except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError, TypeError) as error:
            raise StoreError(f"the template {self._text!r:.60} can't be evaluated: {error}") from None

    def _parsed(self, scope: _Scope) -> ast.expr:
        if self._tree is None:
            if len(self._text) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST} characters")
            scope.budget.spend(_PARSE + _CHARACTER * len(self._text), _WORK)
            self._tree = parse_expression(self._text)
        return self._tree


def _parts(text: str) -> Iterator[str | _Expression]:
    """Yield the plain texts and the expressions of a text."""
    at = 0
    while True:
        start = text.find("{{", at)
        stop = text.find("}}", start + 2) if start >= 0 else -1
        if stop < 0:
            break
        if start > at:
            yield text[at:start]
        yield _Expression(text[start + 2 : stop].strip())
        at = stop + 2
    if at < len(text):
        yield text[at:]


@lru_cache(maxsize=256)
def _kept_parts(text: str) -> tuple[str | _Expression, ...]:
    return tuple(_parts(text))


def _evaluate(node: ast.expr, scope: _Scope) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, str):
        return node.value
    if isinstance(node, ast.Name):
        return scope.value(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        operands = [_evaluate(part, scope) for part in (node.left, node.right)]
        if any(type(operand) is not int for operand in operands):
            raise ValueError("only whole numbers have arithmetic")
        result: int = _ARITHMETIC[type(node.op)](*operands)
        if abs(result) >= _LARGEST:
            raise ValueError("the number is too large")
        return result
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        given = {word.arg: _evaluate(word.value, scope) for word in node.keywords if word.arg is not None}
        return scope.value(node.func.id, given)
    raise ValueError("only names, whole numbers, + - * // % and templates are supported")


class _Pattern(NamedTuple):
    """A text with places for values, for the operator ``%``, and the names of the values."""

    form: str
    names: list[str]


class Generator:
    """One entry of ``gen``: many references by one description. Keys are generated at once, references when needed.

    Parameters
    ----------
    entry : JSON value
        The entry.
    names : mapping
        The templates.

    Raises
    ------
    StoreError
        If the entry is not valid.

    Examples
    --------
    >>> entry = {"key": "x/{{i}}", "url": "{{u}}", "offset": "{{i * 8}}", "length": "8"}
    >>> entry["dimensions"] = {"i": {"stop": 2}}
    >>> found, names = Generator(entry), {"u": "s3://b/x.nc"}
    >>> [*found.keys(names, Budget())], found.reference(1, names, Budget())
    (['x/0', 'x/1'], ['s3://b/x.nc', 8, 8])
    """

    def __init__(self, entry: Any) -> None:
        if not isinstance(entry, dict) or not isinstance(entry.get("dimensions"), dict):
            raise StoreError(f"{entry!r:.80} is not a generator of references", field="gen")
        self._parts = tuple(name for name in ("offset", "length") if name in entry)
        if len(self._parts) == 1:
            raise StoreError("a generator needs both an offset and a length, or neither", field="gen")
        self._entry = entry
        self._url: Any = _UNKNOWN
        self._dimensions = {name: _dimension(name, values) for name, values in entry["dimensions"].items()}

    def keys(self, names: Mapping[str, Any], budget: Budget) -> Iterator[str]:
        """Yield the key of each reference, the last dimension fastest; keys may repeat.

        Parameters
        ----------
        names : mapping
            The templates.
        budget : Budget
            What the keys may cost.
        """
        text = self._entry.get("key")
        given: dict[str, Any] = {}
        pattern = self._pattern(text, names)
        if pattern is None:
            for _ in self._run(given):
                budget.spend(_REFERENCE, _GENERATED)
                yield render(text, names, budget, given)
            return
        form, used = pattern
        cost = _REFERENCE + _VALUE * len(used)
        for _ in self._run(given):
            key = form % tuple([given[name] for name in used])
            budget.spend(cost + (2 if key.isascii() else 8) * len(key), _GENERATED)
            yield key

    def _pattern(self, text: Any, names: Mapping[str, Any]) -> _Pattern | None:
        """Return the pattern of a text of plain texts and values only, as most are."""
        if not isinstance(text, str) or len(text) > _LONGEST:
            return None
        form, used = "", []
        for part in _kept_parts(text):
            name = "" if isinstance(part, str) else part.name or ""
            plain = part if isinstance(part, str) else names.get(name)
            if name in self._dimensions:
                values = self._dimensions[name]
                if isinstance(values, list) and any("{{" in value for value in values if isinstance(value, str)):
                    return None
                form += "%s"
                used.append(name)
            elif isinstance(plain, str) and "{{" not in plain and len(form) + len(plain) <= _LONGEST:
                form += plain.replace("%", "%%")
            else:
                return None
        return _Pattern(form, used)

    def _run(self, given: dict[str, Any]) -> Iterator[None]:
        """Put the values of the dimensions into `given`, one combination after the other, without counting them."""
        if not all(self._dimensions.values()):
            return
        if not self._dimensions:
            yield
            return
        *outer, last = self._dimensions
        running = {name: iter(self._dimensions[name]) for name in outer}
        given.update((name, next(values)) for name, values in running.items())
        while True:
            for value in self._dimensions[last]:
                given[last] = value
                yield
            for name in reversed(outer):
                following = next(running[name], None)
                if following is not None:
                    given[name] = following
                    break
                running[name] = iter(self._dimensions[name])
                given[name] = next(running[name])
            else:
                return

    def reference(self, number: int, names: Mapping[str, Any], budget: Budget) -> list[Any]:
        """Return the reference of a key by its number; see `keys`."""
        given: dict[str, Any] = {}
        for name, dimension in reversed(self._dimensions.items()):
            number, place = divmod(number, len(dimension))
            given[name] = dimension[place]
        if self._url is _UNKNOWN:
            self._url = self._pattern(self._entry.get("url"), names)
        if self._url is None:
            url = render(self._entry.get("url"), names, budget, given)
        else:
            form, used = self._url
            url = form % tuple([given[name] for name in used])
        return [url, *(_integer(render(str(self._entry[part]), names, budget, given)) for part in self._parts)]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StoreError(f"{text!r:.60} is not a whole number") from None


def _dimension(name: str, values: Any) -> Dimension:
    """Return the values of a dimension, which may be more than anybody could count."""
    found = values
    if isinstance(values, dict):
        bounds = [values.get("start", 0), values.get("stop"), values.get("step", 1)]
        small = all(type(bound) is int and abs(bound) < _LARGEST for bound in bounds)
        found = range(*bounds) if small and bounds[2] else None
    elif not isinstance(values, list) or not all(type(value) in (int, str) for value in values):
        found = None
    if found is None:
        raise StoreError(f"{values!r:.60} are not the values of the dimension {name!r:.60}", field="gen")
    return found  # type: ignore[no-any-return]
