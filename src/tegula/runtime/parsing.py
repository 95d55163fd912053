"""Parse Python expressions in any number of threads."""

from __future__ import annotations

import ast
from typing import Final

_TRIES: Final = 20


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression, as `ast.parse` does.

    Before 3.14, Python counts the depth of the parser in one variable for all threads, and raises ``SystemError`` if
    another thread parses at the same time. The error changes nothing, so this function parses the text again.

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
