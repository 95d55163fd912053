"""What docs/design/a-read.md names exists: its files, and in each of them the functions of its row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tegula
from tegula.engine import kernel, reference
from tegula.engine.stored import Executor

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "design" / "a-read.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    (file, re.findall(r"`([^`]+)`", names))
    for file, names in re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", TEXT, re.MULTILINE)
]


def path_of(file: str) -> Path:
    if file.startswith("tests/"):
        return ROOT / file
    return ROOT / "rust" / file if file.endswith(".rs") else Path(tegula.__file__).parent / file


def defined(file: str) -> set[str]:
    """Return the functions, classes and methods of a file, methods with the name of their class too."""
    text = path_of(file).read_text(encoding="utf-8")
    if file.endswith(".rs"):
        return set(re.findall(r"\b(?:fn|struct|enum) (\w+)", text))
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            found |= {f"{node.name}.{field.id}" for field in fields if isinstance(field, ast.Name)}
    return found


@pytest.mark.parametrize(("file", "names"), ROWS, ids=[f"{file}:{names[0]}" for file, names in ROWS])
def test_the_functions_of_each_row_are_in_its_file(file: str, names: list[str]) -> None:
    assert path_of(file).is_file()
    assert names
    assert not set(names) - defined(file)


def test_whatever_else_the_page_names_exists() -> None:
    assert len(ROWS) > 20
    plain = {"a[...]", "None", "out", "executor", "src/tegula", "rust", ".rs", "reference", "kernel"}
    package = Path(tegula.__file__).parent
    known = set().union(*(defined(str(path.relative_to(package))) for path in package.rglob("*.py")))
    for name in set(re.findall(r"`([^`]+)`", TEXT)) - plain - {name for _, names in ROWS for name in names}:
        if name.endswith((".py", ".rs", ".pyi")):
            assert path_of(name).is_file(), name
        else:
            assert name in known, name


def test_both_modules_are_executors() -> None:
    functions = {name for name in vars(Executor) if not name.startswith("_")}
    assert len(functions) == 7
    for module in (reference, kernel):
        assert functions <= {*module.__all__}
