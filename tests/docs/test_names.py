"""What the pages name exists: commands of the program, and extras to install."""

import re
import tomllib

import pytest
from tests.docs.test_blocks import PAGES, ROOT, blocks

from tegula.cli.program import _COMMANDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_no_test_runs_exist(page):
    """Blocks of ``text`` are not run; in them, and in running text, each `tegula COMMAND` is one of the program."""
    source = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`tegula ([a-z]+)[ `]", source))
    for block in blocks(page):
        if block.language in ("text", "sh"):
            named |= set(re.findall(r"^(?:\$ |srun )?tegula ([a-z]+)", block.text, re.MULTILINE))
    assert named <= {*_COMMANDS}


def test_every_extra_is_in_the_table_of_extras():
    """The page on installing has a row for each optional dependency, and the pages name no other extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {*project["optional-dependencies"]}
    table = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == extras
    for page in PAGES:
        for names in re.findall(r"'\.\[([\w,]+)\]'", page.read_text(encoding="utf-8")):
            assert {*names.split(",")} <= extras, page
