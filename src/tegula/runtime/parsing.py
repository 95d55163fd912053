"""Parse Python expressions in any number of threads."""

from __future__ import annotations

import ast
from typing import Final

_TRIES: Final = 20


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression, as `ast.parse` does.

    Python before 3.14 counts how deep the parser is in one variable for all threads, and raises ``SystemError`` when
    another thread has parsed meanwhile. That lasts microseconds and leaves no trace, so the text is parsed again.

    Raises
    ------
    SyntaxError, ValueError, RecursionError, MemoryError
        If the text is not an expression, or is too deeply nested.

    Examples
    --------
    >>> ast.unparse(parse_expression("a+1"))
    'a + 1'
    """
    for _ in range(_TRIES):
        try:
            return ast.parse(text, mode="eval").body
        except SystemError as error:
            disturbed = error
    raise disturbed
