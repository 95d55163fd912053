"""The rooms: what each may import. Deferred imports and those for typing alone count like any other."""

from __future__ import annotations

import ast
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tegula

pytestmark = pytest.mark.once(executors="none")

ROOT = Path(tegula.__file__).parent
GROUND = {"errors", "config", "runtime", "_kernel"}
_BYTES = {*GROUND, "metadata", "formats", "codecs", "stores", "indexing"}
_ENGINE = {*_BYTES, "engine"}
_ARRAYS = {*_ENGINE, "display", "views", "arrays"}
_NODES = {*_ARRAYS, "tables", "hierarchy"}
_JOBS = {*_NODES, "reductions"}
_OPERATIONS = {*_NODES, "jobs", "extracts", "reductions", ""}
ROOMS: dict[str, set[str]] = {
    # floor 0
    "errors": set(),
    "_kernel": {"errors"},
    "runtime": {"errors", "_kernel"},
    "config": {"errors", "runtime"},
    # floor 1
    "metadata": GROUND,
    # floor 2: four rooms that do not import each other
    "formats": {*GROUND, "metadata"},
    "codecs": {*GROUND, "metadata"},
    "stores": {*GROUND, "metadata"},
    "indexing": {*GROUND, "metadata"},
    # floor 3
    "engine": _BYTES,
    "reductions": {*GROUND, "metadata"},
    # floor 4: nodes
    "display": {*GROUND, "metadata"},
    "views": {*_ENGINE, "display"},
    "arrays": _ARRAYS - {"arrays"},
    "tables": _ARRAYS,
    "hierarchy": {*_ARRAYS, "tables"},
    # floor 5: operations on whole nodes
    "jobs": _JOBS,
    "extracts": _NODES,
    "zarr3_view": _NODES,
    # floor 6: interfaces of other libraries
    "zarr1": _OPERATIONS,
    "bcolz": _OPERATIONS,
    "tensorstore": _OPERATIONS,
    # floor 6: integrations with other libraries
    "arrow": _OPERATIONS,
    "dask": _NODES,
    "references": _OPERATIONS,
    "xarray": _OPERATIONS,
    "zarr": {*_OPERATIONS, "zarr3_view"},
    # floor 6: a program that other programs run, too
    "server": {*_NODES, "jobs", "extracts", "zarr3_view"},
    # floor 7: programs
    "cli": {*_OPERATIONS, "bcolz", "references", "server"},
    "__main__": {"cli"},
    # the package gathers the names that users import
    "": {*_NODES, "jobs", "server"},
    # the conformance suite for stores, shipped for the authors of others
    "testing": {*GROUND, "stores"},
}
"""What each room, a package or module directly below `tegula`, may import of the others."""

_JSON = {"errors", "json"}
_FUTURES = {"errors", "future"}
_INDEX = {*_JSON, "index"}
_CONSTRAINTS = {*_INDEX, "constraints"}
_KVSTORE = {*_JSON, *_FUTURES, "context", "kvstore"}
_SPEC = {*_CONSTRAINTS, *_KVSTORE, "spec"}
_DRIVERS = {*_SPEC, "views", "drivers"}
TENSORSTORE: dict[str, set[str]] = {
    "errors": set(),
    "json": {"errors"},
    "index": _JSON,
    "constraints": _INDEX,
    "future": {"errors"},
    "context": _JSON,
    "kvstore": {*_JSON, *_FUTURES, "context"},
    "spec": {*_CONSTRAINTS, *_KVSTORE},
    "views": {*_CONSTRAINTS, "spec"},
    "drivers": {*_SPEC, "views"},
    "store": _DRIVERS,
    "adapters": {*_DRIVERS, "store"},
}

_FOLDERS = {"concurrency", "stored"}
_READING = {*_FOLDERS, "caches", "reading"}
_CHANGING = {*_READING, "documents"}
INNER: dict[str, dict[str, set[str]]] = {
    "runtime": {
        "deferred": set(),
        "frozen": set(),
        "optional": set(),
        "threads": {"deferred"},
        "system": {"deferred", "windows"},
        "windows": set(),
        "executors": {"deferred"},
        "loading": {"deferred", "executors", "optional"},
        "watching": {"deferred"},
    },
    "stores": {
        "": {"local", "fsspec"},
        "local": {""},
        "fsspec": {"", "local"},
        "objects": {""},
        "zip": {"", "local", "fsspec"},
        "references": {""},
        "cache": {""},
        "targets": {"", "local", "fsspec", "objects", "zip", "references"},
    },
    "codecs": {"": {"serializers"}, "serializers": {""}, "compressors": {""}},
    "formats": {"": {"located"}, "bcolz": {""}, "located": {""}},
    "engine": {
        "": set(),
        "concurrency": set(),
        "stored": {"concurrency"},
        "caches": _FOLDERS,
        "reading": _READING - {"reading"},
        "documents": _READING,
        "copying": _CHANGING,
        "lengths": _CHANGING,
        "nodes": {*_CHANGING, "lengths"},
    },
    "jobs": {
        "": {"runners"},
        "runners": {""},
        "checking": {""},
        "statistics": {""},
        "comparing": {""},
        "rewriting": {"", "runners"},
        "converting": {"", "rewriting", "runners"},
        "downsampling": {"", "rewriting", "runners"},
        "syncing": {"", "rewriting", "runners"},
    },
    "bcolz": {
        "": {"carrays", "ctables", "evaluating"},
        "carrays": {""},
        "evaluating": {"", "carrays"},
        "ctables": {"", "carrays", "evaluating"},
    },
    "tables": {"": set(), "following": {""}},
    "cli": {"": set(), "commands": {""}},
    "tensorstore": TENSORSTORE,
    "tensorstore.drivers": {"": set(), "zarr2": {""}, "zarr3": {"", "zarr2"}, "adapting": {""}},
}
"""What each room within a package, a folder or module named here, may import of the others; ``""`` is the rest."""


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):  # the kernel is represented by its stub
        parts = ("tegula", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Yield every module of tegula that the file imports, at any depth of the code, and the line."""
    for node in trees()[module]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.partition(".")[0] == "tegula")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            if node.module is not None and node.module.partition(".")[0] == "tegula":
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    yield (below if below in MODULES else node.module), node.lineno


LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.Constant, ast.Name, ast.arg, ast.keyword)
"""Three quarters of all nodes, which no test asks for."""


@cache  # and not when tests are collected, which each process does
def trees() -> dict[str, list[ast.AST]]:
    """Return the nodes of the syntax tree of each module, without leaves; the first is the module."""
    parsed = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}
    walked = {
        module: [node for node in ast.walk(tree) if not isinstance(node, LEAVES)] for module, tree in parsed.items()
    }
    gc.freeze()  # or each collection of other tests would visit two million nodes
    return walked


@cache
def all_imports() -> list[tuple[str, str, int]]:
    """Return each import: the module, what it imports, and the line."""
    return [(module, target, line) for module in MODULES for target, line in imports(module)]


def test_every_room_has_a_rule() -> None:
    found = {room(module) for module in MODULES}
    assert found == {*ROOMS}, f"say in ROOMS what these import: {sorted(found ^ {*ROOMS})}"
    assert len(all_imports()) > 100  # the reader of imports works


def test_rooms_import_those_below_only() -> None:
    wrong = [
        f"{module}:{line} imports {target}"
        for module, target, line in all_imports()
        if room(module) != room(target) and room(target) not in ROOMS[room(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_rule_lets_rooms_import_each_other() -> None:
    TopologicalSorter({here: there - {here} for here, there in ROOMS.items()}).prepare()


def test_no_import_goes_round_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, target, _ in all_imports():
        # a package's __init__ gathers its modules; a module that imports its own package would close a cycle
        graph[module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' → '.join(reversed(error.args[1]))}")


def inner_room(package: str, module: str) -> str | None:
    """Return the room of a module within a package; None for the package itself, which gathers names, and others."""
    prefix = f"tegula.{package}."
    if not module.startswith(prefix):
        return None
    name = module.removeprefix(prefix).partition(".")[0]
    return name if name in INNER[package] else ""


@pytest.mark.parametrize("package", INNER)
def test_rooms_within_a_package_import_those_below_only(package: str) -> None:
    folders = {path.parent.name for path in (ROOT / Path(*package.split("."))).glob("*/__init__.py")}
    assert folders <= {*INNER[package]}, f"say in INNER what these import: {sorted(folders - {*INNER[package]})}"
    wrong = []
    for module, target, line in all_imports():
        here, there = inner_room(package, module), inner_room(package, target)
        if here is not None and there is not None and here != there and there not in INNER[package][here]:
            wrong.append(f"{module}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


OF_LIBRARIES = {"_asdict", "_fields", "_local", "_make", "_meta", "_replace"}
"""Names of named tuples, of threads and of dask, which classes here have, too."""


def private_names() -> dict[str, set[Path]]:
    """Return, for each private name of an attribute, the files with a class that defines it."""
    found: dict[str, set[Path]] = {}
    for module, path in MODULES.items():
        for node in trees()[module]:
            names: list[str] = []
            if isinstance(node, ast.ClassDef):
                names = [item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
                fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                names += [target.id for target in fields if isinstance(target, ast.Name)]
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names = [node.attr]
            for name in names:
                if name.startswith("_") and not name.startswith("__"):
                    found.setdefault(name, set()).add(path)
    return found


def test_no_room_uses_private_names_of_another() -> None:
    defined, wrong = private_names(), []
    for module, path in MODULES.items():
        for node in trees()[module]:
            if not isinstance(node, ast.Attribute) or node.attr not in defined or node.attr in OF_LIBRARIES:
                continue
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                continue
            rooms = {place.relative_to(ROOT).parts[0] for place in defined[node.attr]}
            if path.relative_to(ROOT).parts[0] not in rooms:
                wrong.append(f"{module}:{node.lineno} uses {node.attr}")
    assert not wrong, "\n".join(wrong)


def test_what_is_below_arrays_knows_no_targets() -> None:
    """Paths and URLs become stores where users pass them; what works on stores never makes one of a path."""
    below = {*_ENGINE, "display", "testing"} - {"stores"}
    wrong = [f"{module}:{line} imports {target}" for module, target, line in all_imports()
             if target.startswith("tegula.stores.targets") and room(module) in below]  # fmt: skip
    assert not wrong, "\n".join(wrong)


SEEN_THROUGH = {
    "zarr.zarr_store": {"Zarr3View"},  # a view has no document of its own that consolidated metadata could be added to
    "zarr.engine_arrays": {"Zarr3View"},  # a view stores nothing: the engine reads the array that it shows
}
"""Classes of stores for which a module outside of `stores` may test, since they are no storage."""

OF_OTHERS = {
    "stores.targets.libraries": "classes of zarr-python, which is not imported",
    "zarr.engine_arrays": "a class that not every version of zarr-python has",
}
"""Modules that recognise classes of other libraries by names which classes here have, too."""


def origins(nodes: list[ast.AST]) -> dict[str, str]:
    """Return the module or package that each name in a file is imported from; of its own classes, the empty text."""
    found = {node.name: "" for node in nodes if isinstance(node, ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: str(node.module) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.asname or alias.name).partition(".")[0]: alias.name for alias in node.names}
    return found


def own_names(expression: ast.AST, known: dict[str, str]) -> set[str]:
    """Return the names in an expression that are, or are attributes of, what is defined in or imported from tegula."""
    found = set()
    for node in ast.walk(expression):
        name, root = (node.attr, node.value) if isinstance(node, ast.Attribute) else (getattr(node, "id", ""), node)
        origin = known.get(root.id) if isinstance(root, ast.Name) else None
        if origin is not None and origin.partition(".")[0] in ("", "tegula"):
            found.add(name)
    return found


def is_store(module: str) -> bool:
    """Return whether the module belongs to stores, which may know each other's classes; targets are no stores."""
    return room(module) == "stores" and not module.startswith("tegula.stores.targets")


def classes_of_stores() -> set[str]:
    """Return the names of all classes derived from `Store`, without `Store` itself."""
    classes = [(node, known) for nodes in trees().values() for known in [origins(nodes)] for node in nodes
               if isinstance(node, ast.ClassDef)]  # fmt: skip
    found = {"Store"}
    while True:
        more = {node.name for node, known in classes if any(own_names(base, known) & found for base in node.bases)}
        if more <= found:
            return found - {"Store"}
        found |= more


def compared_classes(nodes: list[ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield expressions that a file compares the class of an object with, and where it does so."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            if node.func.id in ("isinstance", "issubclass"):
                yield node, node.args[1]
        elif isinstance(node, ast.Compare):
            yield from ((node, part) for part in [node.left, *node.comparators])
        elif isinstance(node, ast.MatchClass):
            yield node, node.cls


def test_no_room_asks_for_a_class_of_store() -> None:
    """Stores say by attributes and capabilities what they are; a class may compare objects with itself."""
    classes, wrong = classes_of_stores(), []
    assert {"LocalStore", "ZipStore", "FaultyStore", "Zarr3View"} <= classes
    for module, nodes in trees().items():
        known, name = origins(nodes), module.removeprefix("tegula.")
        allowed = SEEN_THROUGH.get(name, set()) | {here for here, origin in known.items() if not origin}
        if is_store(module):
            continue
        aliases = {node.targets[0].id: node.value for node in getattr(nodes[0], "body", [])
                   if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
        for where, expression in compared_classes(nodes):
            parts = [expression, *(aliases[each.id] for each in ast.walk(expression)
                                   if isinstance(each, ast.Name) and each.id in aliases)]  # fmt: skip
            found = {each for part in parts for each in own_names(part, known)} & classes
            wrong += [f"{module}:{where.lineno} asks for {each}" for each in found - allowed]  # type: ignore[attr-defined]
    assert not wrong, "\n".join(wrong)


def test_no_room_asks_for_the_name_of_a_class() -> None:
    classes = {node.name for nodes in trees().values() for node in nodes if isinstance(node, ast.ClassDef)}
    wrong = []
    for module, nodes in trees().items():
        for node in nodes:
            if not isinstance(node, ast.Compare) or is_store(module):
                continue
            parts = [*ast.walk(node)]
            names = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
            named = any(isinstance(part, ast.Attribute) and part.attr == "__name__" for part in parts)
            if named and names & classes and module.removeprefix("tegula.") not in OF_OTHERS:
                wrong.append(f"{module}:{node.lineno} asks for {', '.join(names & classes)}")
    assert not wrong, "\n".join(wrong)


NUMBERS = {
    "engine.concurrency.pool",  # how many threads to start, whatever for
    "stores.operations",  # `is_remote` itself
    "stores.objects.store",  # whether the user gives a number
}
"""Modules in which a number of requests may decide."""


def conditions(node: ast.AST) -> list[ast.expr]:
    """Return the expressions whose truth the node asks for."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("bool", "any", "all"):
        return [part.elt if isinstance(part, ast.GeneratorExp) else part for part in node.args]
    return []


def test_only_is_remote_says_whether_a_store_is_remote() -> None:
    """No number of requests decides: neither by itself nor as the largest of several."""
    wrong = []
    for module, nodes in trees().items():
        if module.removeprefix("tegula.") in NUMBERS:
            continue
        for node in nodes:
            for asked in conditions(node):
                part: ast.expr = asked.value if isinstance(asked, ast.NamedExpr) else asked
                parts = part.args if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "max" else [part]
                names = {getattr(each, "attr", getattr(each, "id", "")).lstrip("_") for each in parts}
                if names & {"concurrency", "requests"}:
                    wrong.append(f"{module}:{asked.lineno} {ast.unparse(asked)}")
    assert not wrong, "\n".join(wrong)


def test_every_package_with_rooms_has_rules() -> None:
    packages = {module.rpartition(".")[0].removeprefix("tegula.") for module, path in MODULES.items()
                if path.name == "__init__.py" and module.count(".") > 1}  # fmt: skip
    assert packages <= {*INNER}


def test_no_module_has_more_than_seven_hundred_lines() -> None:
    lines = {path.relative_to(ROOT).as_posix(): path.read_bytes().count(b"\n") for path in ROOT.rglob("*.py")}
    assert {file: count for file, count in lines.items() if count > 700} == {}


def test_no_folder_has_more_than_twenty_modules() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    assert {folder: count for folder, count in counts.items() if count > 20} == {}


@pytest.mark.slow(always=True)
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
    for module in MODULES:
        if room(module) in ("cli", "__main__"):
            continue
        for node in trees()[module]:
            if isinstance(node, ast.Import):
                import_names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                import_names.add(node.module.partition(".")[0])
    assert import_names - {"tegula"} - set(sys.stdlib_module_names) <= declared | extras
