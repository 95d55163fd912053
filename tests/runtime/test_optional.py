"""Messages about optional packages that are not installed, and that all of them come from one module."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import tegula
from tegula.errors import UnsupportedError
from tegula.runtime import optional

ROOT = Path(tegula.__file__).parents[2]
in_clone = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not run in a clone")


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.part"])
def test_a_package_that_is_not_installed(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        optional.library(name)
    assert caught.value.message == "the package no_such_package is not installed: python -m pip install no_such_package"
    assert optional.import_failure(name) == caught.value.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemError('initialization failed')", "SystemError: initialization failed"),
        ("import no_such_dependency", "ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_package_that_can_not_be_imported(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quarrelsome.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    advice = "python -m pip install --upgrade quarrelsome"
    assert optional.import_failure("quarrelsome") == f"the package quarrelsome can't be imported: {reason}; {advice}"


def test_a_room_whose_library_is_not_installed_names_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    monkeypatch.delitem(sys.modules, "tegula.server.connections", raising=False)
    optional.library.cache_clear()
    advice = "python -m pip install 'httptools>=0.6.3'"
    assert optional.import_failure("tegula.server.connections") == f"the package httptools is not installed: {advice}"


def test_an_interrupt_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        optional.library("interrupted")


def test_the_command_that_installs_tegula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "RELEASED", False)
    assert optional.tegula_command("cli") == "python -m pip install '.[cli]' in a clone of the repository"
    monkeypatch.setattr(optional, "RELEASED", True)
    assert optional.tegula_command("cli") == "python -m pip install 'tegula[cli]'"
    assert optional.tegula_command("", "--upgrade") == "python -m pip install --upgrade tegula"


@in_clone
def test_requirements_match_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    command = optional.how_to_install("zfpy")
    assert command.removeprefix("python -m pip install ").strip("'") in extras["codecs"]


@in_clone
def test_no_page_recommends_to_install_an_unreleased_version() -> None:
    """One constant says how to install tegula, and pages that name a release say that there is none yet."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    sources = [path for path in (ROOT / "src").rglob("*.py") if path.name != "optional.py"]
    for path in [*pages, *sources]:
        for command in re.findall(r"pip install[^\n`]*", path.read_text(encoding="utf-8")):
            assert path not in sources, f"{path} words an installation itself: {command}"
            is_plain = "There is none yet" in path.read_text(encoding="utf-8")
            assert optional.RELEASED or "tegula" not in command or is_plain, f"{path}: {command}"
