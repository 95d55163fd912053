"""The examples of TensorStore's page about its zarr driver run with only the import changed."""

import ast
import doctest
import json
import os
from pathlib import Path
from typing import Any

import pytest

JSON_OUTPUT = doctest.register_optionflag("JSON_OUTPUT")


def page() -> str:
    shared = Path(os.environ.get("TEGULA_SAMPLES", Path(__file__).resolve().parents[3] / "shared"))
    file = shared / "seeds" / "tensorstore-zarr-driver.rst"
    return file.read_text() if file.is_file() else ""


EXAMPLES = doctest.DocTestParser().get_examples(page())
NAMES: dict[str, Any] = {}


def value_of(source: str) -> Any:
    """Run the statements of an example and return the value of the last, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "example", "exec"), NAMES)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "example", "exec"), NAMES)
    return eval(compile(ast.Expression(last.value), "example", "eval"), NAMES)


@pytest.mark.parametrize("example", EXAMPLES or [None], ids=lambda e: f"line{e.lineno}" if e else "none")
def test_example(example: doctest.Example | None) -> None:
    if example is None:
        return
    if "ts" not in NAMES:
        exec("import json\nimport tegula.tensorstore as ts", NAMES)
        # later examples use what those before them have defined
    for earlier in EXAMPLES[: EXAMPLES.index(example)]:
        if isinstance(ast.parse(earlier.source).body[0], (ast.FunctionDef, ast.Assign)):
            NAMES["OUTPUT"] = earlier.want
            value_of(earlier.source)
    NAMES["OUTPUT"] = example.want
    found = value_of(example.source)
    if JSON_OUTPUT in example.options:
        assert found == json.loads(example.want)
    elif example.want:
        assert repr(found) == example.want.rstrip("\n")


def test_the_page_has_examples() -> None:
    assert not page() or len(EXAMPLES) >= 10
