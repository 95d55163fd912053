"""Importing tegula: what it must not load, and that every name is there all the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tegula

SOURCE = Path(tegula.__file__).parent


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    return {*run(f"import sys\n{statement}\nprint(*sys.modules)").split()}


def test_importing_loads_neither_numpy_nor_anything_of_tegula() -> None:
    found = loaded_by("import tegula") - loaded_by("import importlib, typing")
    assert {name for name in found if not name.startswith("_")} == {"tegula"}


@pytest.mark.parametrize("name", ["open", "create_array", "Array", "MemoryStore"])
def test_first_use_loads_no_module_that_only_special_cases_need(name: str) -> None:
    found = loaded_by(f"import tegula; tegula.{name}")
    needless = {"asyncio", "urllib.request", "http.client", "ssl", "email", "numcodecs", "google_crc32c", "pandas"}
    assert not found & needless


def test_every_name_comes_from_where_type_checkers_see_it() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen.keys() == {*tegula.__all__} - {"__version__"}
    for name, home in seen.items():
        code = f"import importlib, tegula; assert tegula.{name} is getattr(importlib.import_module({home!r}), {name!r})"
        namespace: dict[str, object] = {}
        exec(code, namespace)


def test_all_names_are_listed_and_can_be_imported_together() -> None:
    assert {*tegula.__all__} <= {*dir(tegula)}
    assert run("from tegula import *\nprint(open.__module__, Array.__name__)") == "tegula.hierarchy.opening Array\n"


def test_no_module_takes_the_place_of_a_name() -> None:
    """A module that is imported becomes an attribute of its package, whatever stood there before."""
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert modules & {*tegula.__all__} == {"config", "jobs"}  # which are meant to be the modules


def test_rooms_are_attributes_without_importing_them() -> None:
    assert run("import tegula\nprint(tegula.stores.MemoryStore is tegula.MemoryStore)") == "True\n"


def test_a_name_that_is_missing_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tegula.nothing  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from tegula import nothing")
