"""The modules of the kernel's crates: none imports itself by way of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.once(executors="none")

RUST = Path(__file__).parents[1] / "rust"
CRATES = sorted(path.parents[1].name for path in RUST.glob("*/src/lib.rs"))

Module = tuple[str, ...]
TOKEN = re.compile(r"\bmod\s+(\w+)\s*\{|\buse\s+([^;]+);|((?:crate|self|super)(?:::\w+)+)|([{}])")


def modules(crate: str) -> dict[Module, str]:
    """Return the source of each module without tests and comments; a crate's root is the empty name."""
    found = {}
    source = RUST / crate / "src"
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        text = re.sub(r"//[^\n]*|pub\(in [^)]*\)", "", path.read_text(encoding="utf-8"))
        found[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = text.partition("#[cfg(test)]")[0]
    return found


def expanded(tree: str) -> Iterator[list[str]]:
    """Yield the paths of a use declaration.

    Examples
    --------
    >>> [*expanded("super::{axes::{Axis, Side}, rows as r}")]
    [['super', 'axes', 'Axis'], ['super', 'axes', 'Side'], ['super', 'rows']]
    """
    head, brace, rest = tree.partition("{")
    if not brace:
        yield [part.strip() for part in head.partition(" as ")[0].split("::")]
        return
    depth, begin = 0, 0
    inner = rest.rpartition("}")[0] + ","
    for at, character in enumerate(inner):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if inner[begin:at].strip():
                yield from expanded(head.strip() + inner[begin:at].strip())
            begin = at + 1


def imports(module: Module, text: str, known: dict[Module, str]) -> Iterator[Module]:
    """Yield the modules that a module names, in `use` declarations and in paths from crate, self or super."""
    depth = 0
    inline: list[tuple[str, int]] = []  # modules written within this one, and how deep in braces
    for found in TOKEN.finditer(text):
        opened, tree, path, brace = found.groups()
        if opened:
            inline.append((opened, depth))
            depth += 1
        elif brace:
            depth += 1 if brace == "{" else -1
            if inline and brace == "}" and depth == inline[-1][1]:
                inline.pop()
        else:
            for parts in expanded(" ".join((tree or path).split())):
                target = resolved((*module, *(name for name, _ in inline)), parts, known)
                if target is not None and target != module:
                    yield target


def resolved(here: Module, parts: list[str], known: dict[Module, str]) -> Module | None:
    """Return the module that a path leads to or into; ``None`` if it is of another crate, or a name of this module."""
    at = here
    if parts[0] == "crate":
        at, parts = (), parts[1:]
    elif parts[0] in ("self", "super"):
        while parts and parts[0] in ("self", "super"):
            at, parts = at[:-1] if parts[0] == "super" else at, parts[1:]
    elif (*here, parts[0]) not in known:
        return None
    for part in parts:
        if (*at, part) not in known:
            break
        at = (*at, part)
    while at not in known:  # a module written within another
        at = at[:-1]
    return at


def test_the_reader_of_imports_works() -> None:
    assert {"kernel", "python"} <= {*CRATES}
    found = modules("kernel")
    assert len(found) > 50
    assert ("strided", "axes") in set(imports(("strided", "tiles"), found["strided", "tiles"], found))
    circle = {("a",): "use super::b::{self, C};", ("b",): "mod inner { use super::super::a; }\nfn f() { self::g() }"}
    assert [*imports(("a",), circle["a",], circle)] == [("b",), ("b",)]
    assert [*imports(("b",), circle["b",], circle)] == [("a",)]


@pytest.mark.parametrize("crate", CRATES)
def test_no_import_goes_round_in_a_circle(crate: str) -> None:
    found = modules(crate)
    graph = {module: set(imports(module, text, found)) for module, text in found.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names = ["::".join(("crate", *module)) for module in reversed(error.args[1])]
        pytest.fail(f"a circle of imports: {' → '.join(names)}")
