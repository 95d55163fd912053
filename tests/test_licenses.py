"""The licenses of what is linked into the kernel are those of the packages that it is built from."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.once(executors="none")

ROOT = Path(__file__).parents[1]
LICENSES = ROOT / "THIRD_PARTY_LICENSES"


@pytest.mark.skipif(not LICENSES.exists(), reason="not run in a clone")
def test_every_package_is_listed() -> None:
    contained, built = LICENSES.read_text().split("Used while the kernel is built")
    listed = re.findall(r"^(\S+ \d\S+) \(.+\)$", contained, re.MULTILINE) + built.splitlines()[1:]
    locked = tomllib.loads((ROOT / "rust" / "Cargo.lock").read_text())["package"]
    expected = {f"{package['name']} {package['version']}" for package in locked if "source" in package}
    assert sorted(listed) == sorted(expected), "run: python .ci/licenses.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None or not LICENSES.exists(), reason="cargo or the clone is missing")
def test_the_texts_are_those_of_the_packages() -> None:
    command = [sys.executable, ROOT / ".ci" / "licenses.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "CalledProcessError" in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"cargo has not all packages: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
