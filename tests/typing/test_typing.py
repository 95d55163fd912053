"""Scripts of users, and the examples of the README, pass ``mypy --strict`` without a cast, and run."""

from __future__ import annotations

import importlib.util
import os
import re
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
"""


def readme() -> str:
    """Return the blocks of Python in the README as one script."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    return "\n".join(blocks)


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # the package that is tested, wherever that is, is looked for as an installed one: its types count by py.typed only
    found = os.pathsep.join([str(Path(tegula.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": found.strip(os.pathsep), "MYPYPATH": ""}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.once(executors="none")
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_users_scripts_pass_a_strict_type_check(tmp_path: Path) -> None:
    (tmp_path / "readme.py").write_text(readme(), encoding="utf-8")
    (tmp_path / "user_script.py").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "none.ini").write_text("[mypy]\n")
    options = ["--strict", "--config-file=none.ini", "--no-error-summary", "--hide-error-context", "--cache-dir=cache"]
    done = run("-m", "mypy", *options, "readme.py", "user_script.py", "wrong.py", folder=tmp_path)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("wrong.py")] == [], done.stdout + done.stderr
    # errors are found, so the package does not count as untyped
    numbers = [int(line.split(":")[1]) for line in lines if ": error: " in line]
    assert numbers == [3, 4, 5, 7, 8], done.stdout + done.stderr


def test_a_users_script_runs(tmp_path: Path) -> None:
    done = run("-W", "error", SCRIPT, tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "73.0 13.875"
