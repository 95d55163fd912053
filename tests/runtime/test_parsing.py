"""Tests of tegula.runtime.parsing."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tegula.runtime.parsing import parse_expression


def test_expressions() -> None:
    assert ast.unparse(parse_expression("(a > 1) & b")) == "(a > 1) & b"
    for text in ("", "a = 1", "1 +", "a\0b"):
        with pytest.raises((SyntaxError, ValueError)):
            parse_expression(text)


@pytest.mark.parametrize("times", [1, 5])
def test_another_thread_that_parses_does_no_harm(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [SystemError("AST constructor recursion depth mismatch (before=183, after=33)")] * times
    parse = ast.parse

    def disturbed(*args: Any, **kwargs: Any) -> ast.AST:
        if errors:
            raise errors.pop()
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parse_expression("a+1")) == "a + 1"
    assert not errors


def test_an_error_that_lasts_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> ast.AST:
        raise SystemError("broken")

    monkeypatch.setattr(ast, "parse", broken)
    with pytest.raises(SystemError, match="broken"):
        parse_expression("a")
