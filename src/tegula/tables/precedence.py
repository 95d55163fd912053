"""Precedence: expressions where ``&`` or ``|`` binds more tightly than a comparison, which is rarely intended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from itertools import accumulate

from tegula.errors import MetadataError

__all__ = ["check_precedence"]

_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)
_SIGNS = ("&", "|", "^")
_COMPARISONS = ("<", "<=", "==", "!=", ">=", ">", "in")


def check_precedence(tree: ast.expr, text: str) -> None:
    """Refuse ``a > 10 & b < 5``, which Python reads as ``a > (10 & b) < 5``, and suggest parentheses.

    Chains of comparisons with ``&``, ``|`` or ``^`` between them are refused, and so are single comparisons with a
    constant before such an operator, as in ``a > 10 & b``. Operations in parentheses, as in ``0 < (a & 3) < 2``, are
    clear, and so is ``a & 1 == 0``, which tests a bit.

    Parameters
    ----------
    tree : ast.expr
        The expression, as parsed from `text`.
    text : str
        The expression.

    Raises
    ------
    MetadataError
        If the expression contains such a comparison.

    Examples
    --------
    >>> check_precedence(ast.parse("1 < a < 5", mode="eval").body, "1 < a < 5")
    >>> check_precedence(ast.parse("a > 1 & b < 5", mode="eval").body, "a > 1 & b < 5")
    Traceback (most recent call last):
    ...
    tegula.errors.MetadataError: in 'a > 1 & b < 5' the & comes before the comparisons; write "(a > 1) & (b < 5)"...
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not _is_suspicious(node):
            continue
        source = (ast.get_source_segment(text, node) or "").replace("\r\n", "\n").replace("\r", "\n")
        signs, parts = _split(source)
        if signs:
            clear = "".join(part + sign for part, sign in zip(parts, [*(f" {sign} " for sign in signs), ""]))
            raise MetadataError(
                f'in {source!r:.200} the {signs[0]} comes before the comparisons; write "{clear:.400}"',
                field="expression",
            )


def _is_suspicious(node: ast.Compare) -> bool:
    """Return whether an operator without parentheses was probably meant to come after the comparison."""
    if len(node.ops) > 1:
        return any(_is_bitwise(operand) for operand in (node.left, *node.comparators))
    first: ast.expr = node.comparators[0]
    if not _is_bitwise(first) or not _has_name(first):
        return False
    while isinstance(first, ast.BinOp) and isinstance(first.op, _BITWISE):
        first = first.left
    return not _has_name(first)


def _is_bitwise(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, _BITWISE)


def _has_name(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Name) for inner in ast.walk(node))


def _split(source: str) -> tuple[list[str], list[str]]:
    """Return the operators outside of parentheses, and the operands, comparisons among them in parentheses."""
    signs: list[str] = []
    parts: list[str] = []
    start, compares = 0, False
    for sign, at in [*_outer_operators(source), ("&", len(source))]:
        if sign not in _SIGNS:
            compares = True
            continue
        part = " ".join(source[start:at].split())
        parts.append(f"({part})" if compares else part)
        signs.append(sign)
        start, compares = at + 1, False
    return signs[:-1], parts


def _outer_operators(source: str) -> Iterator[tuple[str, int]]:
    """Yield operators and comparisons outside of parentheses, and their positions."""
    # the expression may have been in parentheses, with line breaks and comments
    lines = [f"{line}\n" for line in f"({source}\n)".split("\n")]
    starts = [*accumulate(map(len, lines), initial=-1)]
    depth = 0
    for token in import_module("tokenize").generate_tokens(iter(lines).__next__):
        if token.string in ("(", "[", "{"):
            depth += 1
        elif token.string in (")", "]", "}"):
            depth -= 1
        elif depth == 1 and token.string in (*_SIGNS, *_COMPARISONS):
            yield token.string, starts[token.start[0] - 1] + token.start[1]
