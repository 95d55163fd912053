"""The tables of the design pages: the files they name exist, and hold the functions of their rows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tegula
from tegula.engine.reading import kernel, reference
from tegula.engine.stored.array import Executor

pytestmark = pytest.mark.once(executors="both")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "design"
PAGES = ["a-read.md", "adding.md", "remote-stores.md"]
_ROW = re.compile(r"^\| `([^`]+\.(?:py|rs))` \| ([^|]+) \|", re.MULTILINE)


def text_of(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")


def rows_of(page: str) -> list[tuple[str, list[str]]]:
    return [(file, re.findall(r"`([^`]+)`", names)) for file, names in _ROW.findall(text_of(page))]


ROWS = [(page, file, names) for page in PAGES for file, names in rows_of(page)]


def path_of(file: str) -> Path:
    if file.startswith("tests/"):
        return ROOT / file
    return ROOT / "rust" / file if file.endswith(".rs") else Path(tegula.__file__).parent / file


def defined(file: str) -> set[str]:
    """Return the functions, classes and methods of a file, methods with the name of their class too."""
    text = path_of(file).read_text(encoding="utf-8")
    if file.endswith(".rs"):
        return set(re.findall(r"\b(?:fn|struct|enum|trait) (\w+)", text))
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            found |= {f"{node.name}.{field.id}" for field in fields if isinstance(field, ast.Name)}
    return found


@pytest.mark.slow(always=True)
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("page", "file", "names"), ROWS, ids=[f"{page}:{file}:{names[0]}" for page, file, names in ROWS]
)
def test_the_functions_of_each_row_are_in_its_file(page: str, file: str, names: list[str]) -> None:
    assert path_of(file).is_file()
    assert names
    assert not set(names) - defined(file)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_rows(page: str) -> None:
    assert len(rows_of(page)) > 10


@pytest.mark.slow(always=True)
def test_whatever_else_the_read_names_exists() -> None:
    rows, text = rows_of("a-read.md"), text_of("a-read.md")
    plain = {"a[...]", "None", "out", "executor", "src/tegula", "rust", ".rs", "reference", "kernel"}
    plain |= {"tests/docs/test_design_pages.py"}
    package = Path(tegula.__file__).parent
    texts = {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    for name in set(re.findall(r"`([^`]+)`", text)) - plain - {name for _, names in rows for name in names}:
        if name.endswith((".py", ".rs", ".pyi")):
            assert path_of(name).is_file(), name
        else:
            begins = re.compile(rf"^\s*(?:async def |def |class |){re.escape(name.rpartition('.')[2])}\b", re.MULTILINE)
            assert any(name in defined(file) for file, source in texts.items() if begins.search(source)), name


def test_both_modules_are_executors() -> None:
    functions = {name for name in vars(Executor) if not name.startswith("_")}
    assert len(functions) == 10
    for module in (reference, kernel):
        assert functions <= {*module.__all__}
