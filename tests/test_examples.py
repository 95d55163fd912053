"""Every program in ``examples/`` runs, runs again over what it has written, and prints what its docstring shows."""

from __future__ import annotations

import ast
import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests import effort

import tegula

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow(always=True)]


def shown(example: Path) -> str:
    """Return what an example prints according to its docstring."""
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    assert text is not None, example
    return dedent(text.partition("prints::\n\n")[2]) + "\n"


def plain(text: str) -> str:
    """Leave out blanks at the ends of lines, and paths as Windows writes them."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).replace("\\", "/")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_prints_what_it_shows(example: Path, tmp_path: Path) -> None:
    wanted = shown(example)
    assert wanted.strip(), f"the docstring of {example.name} does not show what it prints"
    environment = {**os.environ, "PYTHONPATH": str(Path(tegula.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}
    for _ in range(2 if effort.NIGHTLY else 1):
        done = subprocess.run(
            [sys.executable, "-W", "error", example],
            cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        printed = plain(done.stdout)
        assert doctest.OutputChecker().check_output(wanted, printed, doctest.ELLIPSIS), printed
    assert {path.name for path in tmp_path.iterdir()} == {"example-output"}


def test_the_list_of_examples_is_complete() -> None:
    listed = re.findall(r"^\| \[`(\w+\.py)`\]\(\1\) \|", (ROOT / "examples/README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == [example.name for example in EXAMPLES]
    assert len(listed) == 8
