"""The page in the package is the build of its sources, whose parts pass their own tests."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "viewer"
PAGE = Path(tegula.__file__).parent / "server" / "page"
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the packages that the lock file names."""
    npm = shutil.which("npm")
    if npm is None or not SOURCES.is_dir():
        pytest.skip("npm is not installed" if npm is None else "not run in a clone")
    copy = tmp_path_factory.mktemp("viewer") / "viewer"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules", "build"))
    done = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=copy, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        reason = f"npm can't install what the page is built with: {done.stderr[-500:]}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return copy


def run(sources: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.slow
def test_the_page_is_the_build_of_its_sources(sources: Path, tmp_path: Path) -> None:
    run(sources, "node", "build.mjs", "--to", str(tmp_path / "page"))
    assert files(tmp_path / "page") == files(PAGE), "run: just page"


@pytest.mark.slow
def test_the_sources_have_types_and_pass_their_tests(sources: Path) -> None:
    run(sources, "npm", "run", "check")
    assert re.search(r"^# fail 0$", run(sources, "npm", "test"), re.MULTILINE)


def test_the_page_is_small_and_whole() -> None:
    result = files(PAGE)
    assert sorted(result) == ["app.css", "app.js", "index.html", "licenses.txt"]
    assert sum(map(len, result.values())) < MOST_BYTES
    # nothing comes from elsewhere, and no code is made of text, which the page's security policy forbids
    text = b"".join(result[name] for name in result if name != "licenses.txt").replace(
        b"http://www.w3.org/2000/svg", b""
    )
    assert not re.search(rb"\b(?:src|href|url)\s*[=(:]\s*[\"']?(?:https?:)?//", text)
    assert not re.search(rb"\beval\(|\bnew Function\b|sourceMappingURL", text)


def test_packages_have_exact_versions() -> None:
    if not SOURCES.is_dir():
        pytest.skip("not run in a clone")
    package = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    wanted = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+(\.\d+)+", version) for version in wanted.values())
    locked = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
