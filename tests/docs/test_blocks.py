"""Every code block of the READMEs and docs/ does what it says.

The blocks of a page are one story: they run in order, in an empty directory beside a copy of ``examples/``, and names
of earlier blocks are known in later ones.

=============================  ==================================================================================
block                          what is done with it
=============================  ==================================================================================
``python`` with ``>>>``        run as a doctest
``python`` without             run as a script
``python title="x.py"``        saved under that name, to be imported or run by a later block
``sh``                         run with bash; `tegula` is the program of this tree
``text`` right after those     must be what they printed; ``...`` stands for anything
``json``, ``toml``             must be valid
``mermaid``                    nothing
=============================  ==================================================================================

Blocks that name a large library, PyTorch, and what they print are left out where it is not installed.

Only the first two ``sh`` blocks of README, which set up a machine, are left to ``.ci/run``.

``s3://my-bucket`` is a bucket of a server on this machine, which the environment names as that of Amazon.
"""

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>[\w+-]*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^(?P=indent)```$',
    re.MULTILINE | re.DOTALL,
)
FLAGS = doctest.ELLIPSIS
BUCKET = "my-bucket"
LARGE = {"torch": re.compile(r"\btorch\b|PyTorch")}
PROGRAM = "import sys; from tegula.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Block:
    """A fenced block, the line it begins on, and whether nothing but blank lines parts it from the one before."""

    language: str
    title: str | None
    text: str
    line: int
    follows: bool


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    source = page.read_text(encoding="utf-8")
    found = []
    end = -1
    for match in FENCE.finditer(source):
        indent = len(match["indent"])
        text = "".join(line[indent:] or "\n" for line in match["body"].splitlines(keepends=True))
        line = source.count("\n", 0, match.start()) + 1
        follows = end >= 0 and not source[end : match.start()].strip()
        found.append(Block(match["language"], match["title"], text, line, follows))
        end = match.end()
    return found


class Page:
    """Runs the blocks of one page."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.page = page
        self.directory = directory
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.printed: str | None = None

    def run(self, block: Block) -> None:
        """Process a block as the table of this module says."""
        if block.language == "text" and block.follows and self.printed is not None:
            self.compare(block)
        if block.title is None and any(is_missing(name) and word.search(block.text) for name, word in LARGE.items()):
            self.printed = None
            return
        printed = None
        if block.title is not None:
            (self.directory / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = self.doctest(block) if block.text.startswith(">>>") else self.script(block)
        elif block.language == "sh":
            printed = self.shell(block)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language not in ("text", "mermaid"):
            pytest.fail(f"{self.place(block)}: nothing runs a block of {block.language!r}")
        self.printed = printed

    def place(self, block: Block) -> str:
        """Name the block for a message."""
        return f"{self.page.relative_to(ROOT)}:{block.line}"

    def compare(self, block: Block) -> None:
        """Compare what the last block printed with what the page shows."""
        want, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) for text in (block.text, self.printed or ""))
        if not doctest.OutputChecker().check_output(want, got, FLAGS):
            pytest.fail(f"{self.place(block)}: the page shows\n{want}\nand this was printed\n{got}")

    def doctest(self, block: Block) -> None:
        """Run a block with prompts."""
        test = doctest.DocTestParser().get_doctest(
            block.text, self.names, self.page.stem, str(self.page.relative_to(ROOT)), block.line
        )
        report = io.StringIO()
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.write, clear_globs=False)
        self.names = test.globs
        if report.getvalue():
            pytest.fail(report.getvalue())

    def script(self, block: Block) -> str:
        """Run a block without prompts and return what it printed."""
        # blank lines in front of it make the line numbers of a traceback those of the page
        script = self.directory / f"{self.page.stem}-{block.line}.py"
        script.write_text("\n" * block.line + block.text, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.names |= runpy.run_path(str(script), self.names, "__main__")
        script.unlink()
        return printed.getvalue()

    def shell(self, block: Block) -> str:
        """Run a block of commands and return what they printed; each must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self.directory,
            env=environment(self.directory / ".programs"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"{self.place(block)}: ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def is_missing(library: str) -> bool:
    """Return whether a library is not installed here."""
    return importlib.util.find_spec(library) is None


def environment(programs: Path) -> dict[str, str]:
    """Put the `tegula` and the `python` of this test run in front of all others."""
    programs.mkdir(exist_ok=True)
    for name, command in (("tegula", f"'{sys.executable}' -c '{PROGRAM}'"), ("python", f"'{sys.executable}'")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(Path(tegula.__file__).parents[1]),
        "PYTHONIOENCODING": "utf-8",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def use_bucket(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs find an empty bucket of the name that the pages use, and credentials for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "example")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    request = urllib.request.Request(f"{server.endpoint}/{BUCKET}", method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        tegula.store_of(f"s3://{BUCKET}").delete_prefix("")


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if f"s3://{BUCKET}" in page.read_text(encoding="utf-8"):
        use_bucket(request.getfixturevalue("s3_server"), monkeypatch)
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2 if page.name == "README.md" else 1):  # what a newcomer tries works the second time, too
        runner = Page(page, tmp_path)
        for block in todo(page):
            runner.run(block)


def todo(page: Path) -> list[Block]:
    """Return the blocks of a page, without the blocks that set up a machine."""
    found = blocks(page)
    setup = [block for block in found if block.language == "sh"][:2] if page == ROOT / "README.md" else []
    return [block for block in found if block not in setup]


def test_readme_sets_up_with_one_command_each() -> None:
    setup = [block for block in blocks(ROOT / "README.md") if block.language == "sh"][:2]
    assert [block.text.count("\n") for block in setup] == [1, 1]
    assert all(block.text.startswith("python -m pip install ") for block in setup)


def test_every_fence_is_seen() -> None:
    for page in PAGES:
        fences = re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), page


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in navigation
