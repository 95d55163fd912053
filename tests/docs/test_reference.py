"""Each public name stands on one page of the reference.

``python -m tests.docs.test_reference`` writes the list of pages again.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.docs.test_front_matter import NAVIGATION, ROOT, resolve
from tests.test_public_api import SNAPSHOT

from tegula.arrays.foreign_names import ArrayAliases, GroupAliases

pytestmark = pytest.mark.once(executors="none")

REFERENCE = ROOT / "docs/reference"
INDEX = REFERENCE / "api/index.md"
ENTRY = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)
WHOLE = "tegula.bcolz", "tegula.codecs", "tegula.indexing", "tegula.tensorstore", "tegula.zarr1"
"""Modules whose names the list of pages leaves to their pages."""
INSIDE = (*(f"{module}." for module in WHOLE), "tegula.stores.capabilities.")


@cache
def entries(page: Path) -> tuple[str, ...]:
    """Return the names that a page documents: modules, and what it documents of these, as well."""
    found = []
    for name, options in ENTRY.findall(page.read_text(encoding="utf-8") + "\n"):
        found.append(name)
        value = resolve(name)
        if inspect.ismodule(value):
            listed = re.search(r"^ +members: \[(.*)\]$", options, re.MULTILINE)
            found += [f"{name}.{member}" for member in (re.findall(r"\w+", listed[1]) if listed else value.__all__)]
    return tuple(found)


def public_names() -> Iterator[str]:
    """Yield the recorded names, those of other modules without what `tegula` has, too."""
    place = ""
    for line in SNAPSHOT.read_text(encoding="utf-8").splitlines():
        name = re.match(r"\w+", line)
        if line.startswith("["):
            place = line.strip("[]")
        elif name and name[0] != "__version__" and not line.endswith(": as above"):
            yield f"{place}.{name[0]}"


def same(name: str, other: str) -> bool:
    """Tell whether two names are of one function, class or module; constants are known by their names."""
    value = resolve(name)
    is_made = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
    return name == other or (is_made and value is resolve(other))


@pytest.mark.parametrize("name", [*public_names()])
def test_a_public_name_stands_on_exactly_one_page(name: str) -> None:
    places = [page for page in REFERENCE.rglob("*.md") for entry in entries(page) if same(name, entry)]
    assert len(places) == 1, places


@pytest.mark.parametrize(("page", "aliases"), [("arrays", ArrayAliases), ("groups", GroupAliases)])
def test_names_of_other_libraries_are_left_to_their_table(page: str, aliases: type) -> None:
    left_out = re.findall(r'"!(\^.*\$)"', (REFERENCE / f"api/{page}.md").read_text(encoding="utf-8"))
    names = {name for name in vars(aliases) if not name.startswith("_")}
    assert {name for name in names if any(re.search(pattern, name) for pattern in left_out)} == names


def rows() -> str:
    """Return the list of pages, in the order of the navigation, each with its names."""
    lines = ["| page | what stands there |", "|---|---|"]
    for title, path in re.findall(r"^ +- (.+): reference/(\S+\.md)$", NAVIGATION, re.MULTILINE):
        page = REFERENCE / path
        if not entries(page):
            continue
        names = [
            entry
            for entry in entries(page)
            if entry in WHOLE or not (inspect.ismodule(resolve(entry)) or entry.startswith(INSIDE))
        ]
        shown = ", ".join(f"[`{short(name)}`][{name}]" for name in names)
        link = path.removeprefix("api/") if path.startswith("api/") else f"../{path}"
        lines.append(f"| [{title}]({link}) | {shown} |")
    return "\n".join(lines) + "\n"


def short(name: str) -> str:
    """Return a name as programs write it, if they can import it by that name."""
    _, *parts = name.split(".")
    return ".".join(parts) if len(parts) < 3 else parts[-1]


def test_the_list_of_pages_is_complete() -> None:
    text = INDEX.read_text(encoding="utf-8")
    assert text[text.index("| page |") :] == rows()
    assert "`tegula.__version__`" in text


@pytest.mark.slow
def test_the_site_has_each_name_once_and_each_page_leads_to_the_next(tmp_path: Path) -> None:
    """What stands in the built pages, whatever their sources say."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    pages = {path: path.read_text(encoding="utf-8") for path in (tmp_path / "reference").rglob("index.html")}
    assert len(pages) > 25
    headings = {path: re.findall(r'<h\d id="(tegula[\w.]+)"', text) for path, text in pages.items()}
    known = [(path, name) for path, names in headings.items() for name in names]
    assert len(known) == len({name for _, name in known}), "a heading stands twice"
    assert {*public_names()} - {name for _, name in known} == set()
    for path, text in pages.items():
        assert 'rel="prev"' in text, path
        assert 'rel="next"' in text, path


if __name__ == "__main__":
    head, _, _ = INDEX.read_text(encoding="utf-8").partition("| page |")
    INDEX.write_text(head + rows(), encoding="utf-8")
