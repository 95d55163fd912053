"""What the pages name exists: commands of the program, and extras to install."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.test_blocks import PAGES, ROOT, blocks

import tegula
from tegula.cli.program import _COMMANDS
from tegula.stores import capabilities

pytestmark = pytest.mark.once(executors="both")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_no_test_runs_exist(page: Path) -> None:
    """Blocks of ``text`` are not run; in them, and in running text, each `tegula COMMAND` is one of the program."""
    source = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`tegula ([a-z]+)[ `]", source))
    for block in blocks(page):
        if block.language in ("text", "sh"):
            named |= set(re.findall(r"^(?:\$ |srun )?tegula ([a-z]+)", block.text, re.MULTILINE))
    assert named <= {*_COMMANDS}


def test_every_extra_is_in_the_table_of_extras() -> None:
    """The page on installing has a row for each optional dependency, and the pages name no other extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {*project["optional-dependencies"]}
    table = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == extras
    for page in PAGES:
        for names in re.findall(r"'\.\[([\w,]+)\]'", page.read_text(encoding="utf-8")):
            assert {*names.split(",")} <= extras, page


def test_the_table_of_capabilities_is_that_of_the_stores() -> None:
    """The page on stores has the attributes of each class of stores, and the capabilities that it inherits from."""
    page = (ROOT / "docs/reference/stores.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| store | `single_writer` |")
    rows = [row.split("|")[1:-1] for row in table.partition("\n\n")[0].splitlines()[2:]]
    bases = {"Locking", *re.findall(r"\b[A-Z]\w+", page.partition("members: [Locking")[2].partition("]")[0])}
    for name, *attributes, operations in rows:
        store = getattr(tegula.stores, name.strip(" `"))
        declared = {base for base in bases if issubclass(store, getattr(capabilities, base))}
        assert declared == {*re.findall(r"`(\w+)`", operations)}, store
        if store is not tegula.ObjectStore:
            given = [getattr(store, flag) for flag in ("single_writer", "conditional_delete", "fresh_generations")]
            assert [text.strip() for text in attributes] == ["yes" if flag else "no" for flag in given], store


def test_a_wrapped_store_lacks_the_capabilities_that_the_page_names(tmp_path: Path) -> None:
    """`CachedStore` is the public store around another one."""
    page = (ROOT / "docs/reference/stores.md").read_text(encoding="utf-8")
    lacking = set(re.findall(r"`(\w+)`", page.partition("its capabilities except")[2].partition(".")[0]))
    every = {
        name for name, kind in vars(capabilities).items() if name in capabilities.__all__ and isinstance(kind, type)
    } - {"Beside"}  # what `Renaming.beside` returns
    assert lacking < every
    kinds = (getattr(capabilities, name) for name in sorted(every))
    bases = tuple(kind for kind in kinds if not issubclass(tegula.MemoryStore, kind))

    class Able(*bases, tegula.MemoryStore):
        """Declares all."""

    Able.__abstractmethods__ = frozenset()
    wrapped = tegula.CachedStore(Able(), tmp_path, 10**6)
    assert {name for name in every if not isinstance(wrapped, getattr(capabilities, name))} == lacking
