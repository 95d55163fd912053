"""Formats are detected as TensorStore has detected them."""

from typing import Any

import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts


def steps() -> list[dict[str, Any]]:
    [case] = [case for case in recorded("golden_txn")["cases"] if case["name"] == "auto detect"]
    results: list[dict[str, Any]] = case["steps"]
    return results


def test_formats_are_detected_as_recorded() -> None:
    names: dict[str, Any] = {"ts": ts, "ctx": ts.Context()}
    for step in steps():
        text = step["step"]
        if "error" in step:
            with pytest.raises((ValueError, NotImplementedError)) as caught:
                eval(text, names)
            check(caught.value, step["error"], text)
        elif "result" in step:
            assert eval(text, names) == step["result"]
        else:
            exec(text, names)
