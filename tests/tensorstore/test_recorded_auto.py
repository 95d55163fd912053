"""Formats are detected as TensorStore has detected them; recorded beside a checkout of the repository."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tegula.tensorstore as ts


def steps() -> list[dict[str, Any]]:
    shared = Path(os.environ.get("TEGULA_SAMPLES", Path(__file__).resolve().parents[3] / "shared"))
    file = shared / "corpus" / "tensorstore" / "golden_txn.json"
    cases = json.loads(file.read_text())["cases"] if file.is_file() else []
    return [step for case in cases if case["name"] == "auto detect" for step in case["steps"]]


def test_auto() -> None:
    names: dict[str, Any] = {"ts": ts, "ctx": ts.Context()}
    for step in steps():
        text = step["step"]
        if "error" in step:
            with pytest.raises((ValueError, NotImplementedError)) as caught:
                eval(text, names)
            assert str(caught.value) == step["error"]["message"]
        elif "result" in step:
            assert eval(text, names) == step["result"]
        else:
            exec(text, names)
