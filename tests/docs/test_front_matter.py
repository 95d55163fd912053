"""README, changelog and the navigation of the documentation are short, and the names in them exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from click import Context
from typer.main import get_command

import tegula
from tegula.cli.program import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def sections(text: str, mark: str) -> dict[str, str]:
    """Return the parts of a text below its headings of one level."""
    parts = re.split(rf"^{re.escape(mark)} (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def resolve(name: str) -> object:
    """Return what a dotted name stands for, importing modules on the way."""
    found: object = tegula
    path = "tegula"
    for part in name.split(".")[1:]:
        path += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 110
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    assert len([line for line in blocks[0].splitlines() if line.strip()]) <= 10
    links = re.findall(r"^- \[.*?\]\((.*?)\)", sections(README, "##")["Read on"], re.MULTILINE)
    assert len(links) == 5
    assert all((ROOT / link).is_file() for link in links)


def test_the_changelog_says_what_the_first_release_does() -> None:
    releases = sections(CHANGELOG, "##")
    release = releases[next(name for name in releases if name.startswith("[0.1.0]"))]
    assert len(release.splitlines()) <= 120
    assert [*sections(release, "###")] == ["Added"], "nothing was released that could have been changed or fixed"
    assert all(len(line) <= 150 for line in CHANGELOG.splitlines())


@pytest.mark.parametrize("text", [README, CHANGELOG], ids=["README", "CHANGELOG"])
def test_the_names_in_it_exist(text: str) -> None:
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    names = {name for code in quoted for name in re.findall(r"\btegula(?:\.\w+)+", code)}
    assert names
    for name in sorted(names):
        assert resolve(name) is not None, name


@pytest.mark.parametrize("text", [README, CHANGELOG], ids=["README", "CHANGELOG"])
def test_the_commands_in_it_exist(text: str) -> None:
    names = set(re.findall(r"`tegula ([a-z]+)", text))
    assert names
    assert names <= set(get_command(app).list_commands(Context(get_command(app))))


def test_pages_for_contributors_stand_in_a_section_of_their_own() -> None:
    users, _, contributors = NAVIGATION.partition("  - Contribute:\n")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/design").glob("*.md")}
    for page in pages | {"benchmarks.md"}:
        assert page in contributors
        assert page not in users
    assert not re.search(r"^  - ", contributors, re.MULTILINE), "the section is the last one"
