"""Evaluates chains of indexing expressions with TensorStore, in a process of its own: some crash it.

Each line on standard input is a JSON array of expressions; the answer is a line with the outcome of each, up to the
first error.
"""

import json
import re
import sys
from typing import Any

import numpy as np


def outcome(ts: Any, source: str, x: Any) -> tuple[list[str], Any]:
    """Evaluate an expression; return the kind of the result, its text or its error's status code, and the result."""
    try:
        value = eval(source, {"ts": ts, "np": np, "x": x})
    except (IndexError, ValueError, TypeError) as error:
        kind = next(each for each in (IndexError, ValueError, TypeError) if isinstance(error, each)).__name__
        code = re.match(r"([A-Z_]+): ", str(error))
        return [kind, code[1] if code else ""], None
    return ["value", json.dumps(value.to_json(), sort_keys=True), repr(value)], value


def outcomes(ts: Any, sources: list[str]) -> list[list[str]]:
    """Evaluate expressions, each on the result of the one before."""
    results, x = [], None
    for source in sources:
        result, x = outcome(ts, source, x)
        results.append(result)
        if x is None:
            break
    return results


if __name__ == "__main__":
    import tensorstore

    for line in sys.stdin:
        print(json.dumps(outcomes(tensorstore, json.loads(line))), flush=True)
