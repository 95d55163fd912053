"""Scripts of users, and the code of the README and of the tutorial, pass ``mypy --strict`` and pyright without a cast.

Pyright is looked for on the PATH: ``npm install pyright`` or ``pip install pyright`` brings it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tegula

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("user_script.py")
ROOT = Path(__file__).resolve().parents[2]
WRONG = """
import tegula
tegula.open_array("x").shape.no_such_method()
tegula.zeros(3) + 1
tegula.create_array("x", shape=3, dtype="u1", compressor=None)
for name in tegula.open_group("x"):
    name.append(1)
tegula.open_table("x")["price"].no_such_method()
tegula.open_array("x", mode="rw")
tegula.create_array("x", shape=3, dtype="u1", format="zarr4")
tegula.create_array("x", shape=3, dtype="u1", chunks="large")
tegula.create_array(17, shape=3, dtype="u1")
tegula.open_group("x").get_array("y").no_such_method()
tegula.open_group("x").get_group("y").shape
tegula.convert("x", "y", format="zarr4")
"""
WRONG_LINES = [3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15]


def code_of(page: str) -> str:
    """Return the blocks of Python of a page as one script, without what their lines print."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    lines: list[str] = []
    for block in blocks:
        session = block.startswith(">>> ")
        lines += [line[4:] for line in block.splitlines() if line[:4] in (">>> ", "... ")] if session else [block]
    return "\n".join(lines) + "\n"


@pytest.fixture
def scripts(tmp_path: Path) -> list[str]:
    """Write what is checked to files, and return their names; the last one is wrong in all its lines."""
    texts = {
        "readme": code_of("README.md"), "tutorial": code_of("docs/tutorials/first-steps.md"),
        "user_script": SCRIPT.read_text(encoding="utf-8"), "wrong": WRONG,
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return [f"{name}.py" for name in texts]


def run(*command: str | Path, folder: Path, program: str = sys.executable) -> subprocess.CompletedProcess[str]:
    # the package that is tested, wherever that is, is looked for as an installed one: its types count by py.typed only
    found = os.pathsep.join([str(Path(tegula.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": found.strip(os.pathsep), "MYPYPATH": ""}
    return subprocess.run(
        [program, *map(str, command)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.once(executors="none")
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_passes_what_users_write(scripts: list[str], tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("[mypy]\n")
    options = ["--strict", "--config-file=none.ini", "--no-error-summary", "--hide-error-context", "--cache-dir=cache"]
    done = run("-m", "mypy", *options, *scripts, folder=tmp_path)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("wrong.py")] == [], done.stdout + done.stderr
    # errors are found, so the package does not count as untyped
    numbers = [int(line.split(":")[1]) for line in lines if ": error: " in line]
    assert numbers == WRONG_LINES, done.stdout + done.stderr


@pytest.mark.once(executors="none")
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not on the PATH")
def test_pyright_passes_what_users_write(scripts: list[str], tmp_path: Path) -> None:
    package = str(Path(tegula.__file__).parents[1])
    settings = {"typeCheckingMode": "standard", "include": scripts, "extraPaths": [package], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    python = ["--pythonpath", sys.executable]
    done = run("--outputjson", *python, folder=tmp_path, program=shutil.which("pyright") or "")
    found = [
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1, error["message"])
        for error in json.loads(done.stdout)["generalDiagnostics"]
        if error["severity"] == "error"
    ]
    assert [error for error in found if error[0] != "wrong.py"] == []
    assert [*dict.fromkeys(line for _, line, _ in found)] == WRONG_LINES, found


def test_a_users_script_runs(tmp_path: Path) -> None:
    done = run("-W", "error", SCRIPT, tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "73.0 13.875"
