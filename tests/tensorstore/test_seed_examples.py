"""The examples of TensorStore's page about its zarr driver run with only the import changed."""

import ast
import doctest
import json
from typing import Any

import pytest
from tests.samples import FIXTURES

JSON_OUTPUT = doctest.register_optionflag("JSON_OUTPUT")


EXAMPLES = doctest.DocTestParser().get_examples((FIXTURES / "tensorstore-zarr-examples.txt").read_text())
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line{example.lineno}")
def test_examples_of_the_documentation_give_their_results(example: doctest.Example) -> None:
    if "ts" not in NAMES:
        exec("import json\nimport tegula.tensorstore as ts", NAMES)
        # later examples use what those before them have defined
    for earlier in EXAMPLES[: EXAMPLES.index(example)]:
        if isinstance(ast.parse(earlier.source).body[0], (ast.FunctionDef, ast.Assign)):
            NAMES["OUTPUT"] = earlier.want
            value_of(earlier.source)
    NAMES["OUTPUT"] = example.want
    result = value_of(example.source)
    if JSON_OUTPUT in example.options:
        assert result == json.loads(example.want)
    elif example.want:
        assert repr(result) == example.want.rstrip("\n")
