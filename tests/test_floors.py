"""The rooms: what each may import. Deferred imports and those for typing alone count like any other."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tegula

ROOT = Path(tegula.__file__).parent
GROUND = {"errors", "config", "deferred", "executors", "frozen", "optional", "threads", "_kernel"}
_BYTES = {*GROUND, "metadata", "formats", "codecs", "stores", "indexing"}
_ENGINE = {*_BYTES, "engine"}
_ARRAYS = {*_ENGINE, "display", "targets", "arrays"}
_NODES = {*_ARRAYS, "tables", "hierarchy"}
_OPERATIONS = {*_NODES, "jobs", "extracts", ""}
ROOMS: dict[str, set[str]] = {
    # floor 0
    "deferred": set(),
    "errors": set(),
    "frozen": set(),
    "optional": {"errors"},
    "threads": {"deferred"},
    "_kernel": {"errors"},
    "executors": {"deferred", "errors", "optional", "_kernel"},
    "config": {"errors", "executors", "frozen"},
    # floor 1
    "metadata": GROUND,
    # floor 2: four rooms that do not import each other
    "formats": {*GROUND, "metadata"},
    "codecs": {*GROUND, "metadata"},
    "stores": {*GROUND, "metadata"},
    "indexing": {*GROUND, "metadata"},
    # floor 3
    "engine": _BYTES,
    # floor 4: nodes
    "display": {*GROUND, "metadata"},
    "targets": {*GROUND, "metadata", "formats", "stores"},
    "arrays": _ARRAYS - {"arrays"},
    "tables": _ARRAYS,
    "hierarchy": {*_ARRAYS, "tables"},
    # floor 5: operations on whole nodes
    "jobs": _NODES,
    "extracts": _NODES,
    "showing": {*_NODES, "jobs"},
    # floor 6: interfaces of other libraries
    "zarr1": _OPERATIONS,
    "bcolz": _OPERATIONS,
    "tensorstore": _OPERATIONS,
    # floor 6: integrations with other libraries
    "arrow": _OPERATIONS,
    "dask": _NODES,
    "references": _OPERATIONS,
    "xarray": {*_OPERATIONS, "dask"},
    "zarr": {*_OPERATIONS, "showing"},
    # floor 6: a program that other programs run, too
    "server": {*_NODES, "jobs", "extracts", "showing"},
    # floor 7: programs
    "cli": {*_OPERATIONS, "bcolz", "references", "server"},
    "__main__": {"cli"},
    # the package gathers the names that users import
    "": {"deferred", *_NODES, "jobs", "server"},
    # the conformance suite for stores, shipped for the authors of others
    "testing": {*GROUND, "stores"},
}
"""What each room, a package or module directly below `tegula`, may import of the others."""

_JSON = {"errors", "json"}
_FUTURES = {"errors", "resumable", "future"}
_INDEX = {*_JSON, "index"}
_CONSTRAINTS = {*_INDEX, "constraints"}
_KVSTORE = {*_JSON, *_FUTURES, "batch", "context", "kvstore"}
_SPEC = {*_CONSTRAINTS, *_KVSTORE, "spec"}
_DRIVERS = {*_SPEC, "views", "drivers"}
TENSORSTORE: dict[str, set[str]] = {
    "errors": set(),
    "aliases": set(),
    "json": {"errors"},
    "index": _JSON,
    "constraints": _INDEX,
    "resumable": set(),
    "future": {"errors", "resumable"},
    "batch": _FUTURES,
    "context_resources": _JSON,
    "context": {*_JSON, "context_resources"},
    "kvstore": {*_JSON, *_FUTURES, "batch", "context"},
    "spec": {*_CONSTRAINTS, *_KVSTORE},
    "views": {*_INDEX, "spec"},
    "drivers": {*_SPEC, "views"},
    "sources": _CONSTRAINTS,
    "store": {*_DRIVERS, "sources"},
    "opening": {*_DRIVERS, "store"},
    "adapters": {*_DRIVERS, "sources", "store"},
}
"""What each room of `tegula.tensorstore`, a folder or a module at its top, may import of the others."""


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):  # the kernel is represented by its stub
        parts = ("tegula", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module: str, path: Path) -> Iterator[tuple[str, int]]:
    """Yield every module of tegula that the file imports, at any depth of the code, and the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.partition(".")[0] == "tegula")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            if node.module is not None and node.module.partition(".")[0] == "tegula":
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    yield (below if below in MODULES else node.module), node.lineno


IMPORTS = [(module, target, line) for module, path in MODULES.items() for target, line in imports(module, path)]


def test_every_room_has_a_rule() -> None:
    found = {room(module) for module in MODULES}
    assert found == {*ROOMS}, f"say in ROOMS what these import: {sorted(found ^ {*ROOMS})}"
    assert len(IMPORTS) > 100  # the reader of imports works


def test_rooms_import_those_below_only() -> None:
    wrong = [
        f"{module}:{line} imports {target}"
        for module, target, line in IMPORTS
        if room(module) != room(target) and room(target) not in ROOMS[room(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_rule_lets_rooms_import_each_other() -> None:
    TopologicalSorter({here: there - {here} for here, there in ROOMS.items()}).prepare()


def test_no_import_goes_round_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, target, _ in IMPORTS:
        # a package's __init__ gathers its modules; a module that imports its own package would close a cycle
        graph[module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' → '.join(reversed(error.args[1]))}")


def tensorstore_room(module: str) -> str:
    return module.split(".")[2] if module.startswith("tegula.tensorstore.") else ""


def test_rooms_of_tensorstore_import_those_below_only() -> None:
    found = {tensorstore_room(module) for module in MODULES} - {""}
    assert found == {*TENSORSTORE}, f"say in TENSORSTORE what these import: {sorted(found ^ {*TENSORSTORE})}"
    wrong = []
    for module, target, line in IMPORTS:
        here, there = tensorstore_room(module), tensorstore_room(target)
        if here and there and here != there and there not in TENSORSTORE[here]:
            wrong.append(f"{module}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_only_what_is_declared_is_imported() -> None:
    """What an installation without extras imports is the standard library and the declared dependencies."""
    declared = {"numpy", "numcodecs", "ml_dtypes", "google_crc32c"}
    extras = {
        "numexpr",
        "pandas",
        "pyarrow",
        "tables",
        "typer",
        "rich",
        "click",
        "pcodec",
        "zfpy",
        "msgpack",
        "xarray",
        "zarr",
        "starlette",
        "uvicorn",
        "httptools",
    }
    import_names = set()
    for module, path in MODULES.items():
        if room(module) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                import_names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                import_names.add(node.module.partition(".")[0])
    assert import_names - {"tegula"} - set(sys.stdlib_module_names) <= declared | extras
