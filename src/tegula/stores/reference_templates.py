"""Templates of kerchunk references: ``{{name}}`` in URLs, and generators of many references.

kerchunk's specification (version 1) uses Jinja for them. Writers use a small part of it, which this module supports:
names, integer arithmetic, and calls of templates with named arguments. Nothing else is evaluated.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Final

from tegula import config
from tegula.errors import StoreError

__all__ = ["generated", "render"]

_MARKED = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_LONGEST: Final = 2**16  # characters of a result
_DEEPEST: Final = 16  # nested calls of templates
_LARGEST: Final = 2**63
_ARITHMETIC: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def render(text: Any, names: Mapping[str, Any], depth: int = 0) -> str:
    """Replace expressions between double braces by their values.

    Parameters
    ----------
    text : str
        The text.
    names : mapping
        The templates, and the values of a generator's dimensions.
    depth : int
        How deeply calls of templates are nested.

    Raises
    ------
    StoreError
        If a name is not known, or an expression is not supported.

    Examples
    --------
    >>> render("{{host}}/{{f(name='x')}}.{{i * 10 + 1}}", {"host": "s3://b", "f": "d/{{name}}", "i": 2})
    's3://b/d/x.21'
    """
    if not isinstance(text, str):
        raise StoreError(f"a template must be text, not {text!r:.60}")
    if depth > _DEEPEST:
        raise StoreError("templates refer to each other endlessly")
    found = _MARKED.sub(lambda match: str(_value(match[1], names, depth)), text)
    if len(found) > _LONGEST:
        raise StoreError(f"a template gives more than {_LONGEST} characters")
    return found


def _value(text: str, names: Mapping[str, Any], depth: int) -> Any:
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body, names, depth)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError, TypeError) as error:
        raise StoreError(f"the template {text.strip()!r:.60} can't be evaluated: {error}") from None


def _evaluate(node: ast.expr, names: Mapping[str, Any], depth: int) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, str):
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, names, depth)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        operands = [_evaluate(part, names, depth) for part in (node.left, node.right)]
        if any(type(operand) is not int for operand in operands):
            raise ValueError("only whole numbers have arithmetic")
        result: int = _ARITHMETIC[type(node.op)](*operands)
        if abs(result) >= _LARGEST:
            raise ValueError("the number is too large")
        return result
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        given = {word.arg: _evaluate(word.value, names, depth) for word in node.keywords if word.arg is not None}
        return _named(node.func.id, {**names, **given}, depth)
    raise ValueError("only names, whole numbers, + - * // % and templates are supported")


def _named(name: str, names: Mapping[str, Any], depth: int) -> Any:
    if name not in names:
        raise ValueError(f"there is no template {name!r:.60}")
    found = names[name]
    return found if type(found) is int else render(found, names, depth + 1)


def generated(entry: Any, names: Mapping[str, str]) -> Iterator[tuple[str, list[Any]]]:
    """Yield keys and references of one entry of ``gen``.

    Raises
    ------
    StoreError
        If the entry is not valid, or generates more than ``max_chunks`` references.

    Examples
    --------
    >>> entry = {"key": "x/{{i}}", "url": "{{u}}", "offset": "{{i * 8}}", "length": "8"}
    >>> entry["dimensions"] = {"i": {"stop": 2}}
    >>> [*generated(entry, {"u": "s3://b/x.nc"})]
    [('x/0', ['s3://b/x.nc', 0, 8]), ('x/1', ['s3://b/x.nc', 8, 8])]
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("dimensions"), dict):
        raise StoreError(f"{entry!r:.80} is not a generator of references")
    if ("offset" in entry) != ("length" in entry):
        raise StoreError("a generator needs both an offset and a length, or neither")
    dimensions = {name: _dimension(name, values) for name, values in entry["dimensions"].items()}
    count, limit = prod(map(len, dimensions.values())), config.current().max_chunks
    if count > limit:
        raise StoreError(f"a generator makes {count} references, more than max_chunks, {limit}")
    for values in itertools.product(*dimensions.values()):
        known = {**names, **dict(zip(dimensions, values))}
        made: list[Any] = [render(entry.get("url"), known)]
        if "offset" in entry:
            made += [_integer(render(str(entry[part]), known)) for part in ("offset", "length")]
        yield render(entry.get("key"), known), made


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StoreError(f"{text!r:.60} is not a whole number") from None


def _dimension(name: str, values: Any) -> range | list[Any]:
    if isinstance(values, list) and all(type(value) in (int, str) for value in values):
        return values
    try:
        return range(values.get("start", 0), values["stop"], values.get("step", 1))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise StoreError(f"{values!r:.60} are not the values of the dimension {name!r:.60}") from None
