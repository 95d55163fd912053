"""Checked expressions in the words of numexpr."""

from __future__ import annotations

import ast
import math
from cmath import isnan
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Rewritten", "rewrite", "terms_of"]

_ELEMENTARY = """
sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sqrt exp expm1 log log10 log1p arctan2
""".split()
_MAX_TERMS = 60  # numexpr calls itself for each operator of a chain
_WORDS = {name: name for name in [*_ELEMENTARY, *"abs floor ceil conj real imag complex fmod where contains".split()]}
_WORDS |= {"absolute": "abs", "ones_like": "ones_like", "sum": "sum", "prod": "prod", "min": "min", "max": "max"}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Text for numexpr, and what the variables are called in it."""

    text: str
    names: Mapping[str, str]


class _NoWordError(Exception):
    """numexpr has no form for something."""


def terms_of(node: ast.BinOp) -> tuple[ast.expr, list[tuple[ast.operator, ast.expr]]]:
    """Return a chain of operators as its first operand, and each operator with the operand to the right of it.

    Python nests such a chain to the left, as deep as it is long.

    Examples
    --------
    >>> first, others = terms_of(ast.parse("a + b - c * d", mode="eval").body)
    >>> first.id, [ast.unparse(operand) for _, operand in others]
    ('a', ['b', 'c * d'])
    """
    others = [(node.op, node.right)]
    first = node.left
    while isinstance(first, ast.BinOp):
        others.append((first.op, first.right))
        first = first.left
    return first, others[::-1]


def rewrite(tree: ast.expr, values: Mapping[str, Any]) -> Rewritten | None:
    """Write a checked expression for numexpr; ``None`` if it has no such form.

    Variables get names of our own, since numexpr has rules for names; ``and``, ``or``, ``not``, ``in`` and chains of
    comparisons, which it does not know, become what it knows.

    Examples
    --------
    >>> import numpy as np
    >>> rewrite(ast.parse("1 < price <= 5", mode="eval").body, {"price": np.arange(3)}).text
    '(1 < v0) & (v0 <= 5)'
    """
    # numbers are written into the text: as variables they would be arrays, and decide on the type of the result
    names = {name: f"v{position}" for position, name in enumerate(values) if hasattr(values[name], "dtype")}
    if not names or any(values[name].dtype.kind not in "biufcS" or values[name].dtype == "u8" for name in names):
        return None
    leaves = {name: ast.Name(names[name]) if name in names else None for name in values}
    try:
        known = {name: leaf or _number(values[name]) for name, leaf in leaves.items()}
        return Rewritten(ast.unparse(_written(tree, known)), names)
    except _NoWordError:
        return None


def _written(node: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Invert(), _truth(node.operand, known))
        return ast.UnaryOp(node.op, _written(node.operand, known))
    if isinstance(node, ast.BinOp):
        first, others = terms_of(node)
        if len(others) > _MAX_TERMS:
            raise _NoWordError
        result = _written(first, known)
        for op, operand in others:
            result = ast.BinOp(result, op, _written(operand, known))
        return result
    if isinstance(node, ast.BoolOp):
        op = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        return _joined(op, [_truth(value, known) for value in node.values])
    if isinstance(node, ast.Compare):
        return _comparison(node, known)
    call = cast(ast.Call, node)
    word = _WORDS.get(cast(ast.Name, call.func).id)
    if word is None:
        raise _NoWordError
    return ast.Call(ast.Name(word), [_written(argument, known) for argument in call.args], call.keywords)


def _comparison(node: ast.Compare, known: Mapping[str, ast.expr]) -> ast.expr:
    left = _written(node.left, known)
    parts: list[ast.expr] = []
    for op, other in zip(node.ops, node.comparators):
        if isinstance(other, ast.List):
            if not other.elts:
                raise _NoWordError
            found = _joined(
                ast.BitOr(), [ast.Compare(left, [ast.Eq()], [_written(item, known)]) for item in other.elts]
            )
            return ast.UnaryOp(ast.Invert(), found) if isinstance(op, ast.NotIn) else found
        right = _written(other, known)
        parts.append(ast.Compare(left, [op], [right]))
        left = right
    return _joined(ast.BitAnd(), parts)


def _joined(op: ast.operator, parts: list[ast.expr]) -> ast.expr:
    """Join conditions in pairs, and the pairs in pairs: the result is nested no deeper than need be."""
    while len(parts) > 1:
        pairs: list[ast.expr] = [ast.BinOp(left, op, right) for left, right in zip(parts[::2], parts[1::2])]
        parts = [*pairs, *parts[len(parts) // 2 * 2 :]]
    return parts[0]


def _truth(node: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
    written = _written(node, known)
    if isinstance(node, (ast.Compare, ast.BoolOp)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return written
    return ast.Compare(written, [ast.NotEq()], [ast.Constant(0)])


def _number(value: Any) -> ast.expr:
    if type(value) not in (bool, int, float, complex, bytes):
        raise _NoWordError
    if (type(value) is int and abs(value) >= 2**63) or (isinstance(value, (float, complex)) and isnan(value)):
        raise _NoWordError
    negative = type(value) in (int, float) and (value < 0 or math.copysign(1, value) < 0)
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if negative else ast.Constant(value)
