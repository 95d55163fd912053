"""What docs/design/local-files.md names exists: its files, functions and methods, in Python and in the kernel."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

import tegula
from tegula.stores import names
from tegula.stores.local.directories import is_temporary

pytestmark = pytest.mark.once(executors="both")

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "design" / "local-files.md").read_text(encoding="utf-8")
PYTHON = [Path(tegula.__file__).parent / room for room in ("stores", "runtime")]
KERNEL = ROOT / "rust" / "kernel" / "src" / "stores"
OTHERS = {"a/b/c", "flock", "os.open", "linkat", "O_TMPFILE", "StoreError", "LocalStore"}
OTHERS |= {'durability="fsync"', "tegula check --repair", "new"}
"""What the page names that is neither a file nor defined in these folders."""


@cache
def python_names() -> set[str]:
    found = set()
    for path in chain.from_iterable(folder.rglob("*.py") for folder in PYTHON):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


@cache
def kernel_names() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in KERNEL.rglob("*.rs"))
    return {*re.findall(r"\b(?:fn|struct|enum|const) (\w+)", text), *re.findall(r"^    (\w+): ", text, re.MULTILINE)}


@pytest.mark.slow(always=True)
def test_whatever_the_page_names_exists() -> None:
    # operations that `LocalStore` inherits from the classes that it is made of
    inherited = {f"LocalStore.{name}" for kind in tegula.LocalStore.__mro__ for name in vars(kind)}
    python, kernel = python_names() | inherited, kernel_names()
    unknown = []
    for name in set(re.findall(r"`([^`]+)`", TEXT)) - OTHERS:
        if "/" in name:
            known = (ROOT / name).exists()
        elif name.startswith(".tegula-"):
            known = name.startswith(names.HIDDEN)
        else:
            known = name in python or name in kernel
        if not known:
            unknown.append(name)
    assert not unknown


@pytest.mark.parametrize(("column", "defined"), [(1, python_names), (2, kernel_names)])
def test_each_step_is_in_the_implementation_of_its_column(column: int, defined: Callable[[], set[str]]) -> None:
    rows = re.findall(r"^\| \d\. [^|]+\|([^|]+)\|([^|]+)\|", TEXT, re.MULTILINE)
    assert len(rows) == 12
    for row in rows:
        found = re.findall(r"`(\w[^`]+)`", row[column - 1])
        assert found
        assert not set(found) - defined() - {"agree_absent", "LocalStore.prepare"}


def test_the_names_of_temporary_files_are_those_of_the_page() -> None:
    assert "`.tegula-<process>-<16 hex digits>.tmp`" in TEXT
    assert is_temporary(".tegula-1234-0123456789abcdef.tmp")
    assert not is_temporary(".tegula-lock")
