"""The files from which tegula is built."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tegula

ROOT = Path(tegula.__file__).parents[2]

pytestmark = [
    pytest.mark.once(executors="none"),
    pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not run in a clone"),
]


def load(name):
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def test_all_parts_have_one_version():
    declared = load("pyproject.toml")["project"]["version"]
    kernel = load("rust/Cargo.toml")["workspace"]["package"]["version"]
    locked = {package["name"]: package["version"] for package in load("rust/Cargo.lock")["package"]}
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"copyright: tegula {declared}\n" in site  # the foot of each page
    assert {declared, kernel, locked["tegula-kernel"], locked["tegula-python"]} == {tegula.__version__}


def test_the_kernel_is_built_as_declared_and_may_be_missing():
    (extension,) = load("pyproject.toml")["tool"]["setuptools-rust"]["ext-modules"]
    assert extension["optional"]
    assert extension["debug"] is False  # in editable installations, too
    library = load(extension["path"])
    assert library["lib"]["name"] == extension["target"].rpartition(".")[2]
    assert "abi3-py311" in library["dependencies"]["pyo3"]["features"]
    assert "cp311" in (ROOT / "setup.py").read_text(encoding="utf-8")  # the tag of the wheel


def test_the_licenses_of_all_that_is_linked_in_are_there():
    assert "THIRD_PARTY_LICENSES" in load("pyproject.toml")["project"]["license-files"]
    contained, built = (ROOT / "THIRD_PARTY_LICENSES").read_text().split("Used while the kernel is built")
    listed = re.findall(r"^(\S+ \d\S+) \(.+\)$", contained, re.MULTILINE) + built.splitlines()[1:]
    locked = [package for package in load("rust/Cargo.lock")["package"] if "source" in package]
    expected = [f"{package['name']} {package['version']}" for package in locked]
    assert sorted(listed) == sorted(expected), "run: python .ci/licenses.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_the_licenses_are_those_of_the_packages():
    command = [sys.executable, ROOT / ".ci" / "licenses.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "CalledProcessError" in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"cargo can't fetch the packages: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
