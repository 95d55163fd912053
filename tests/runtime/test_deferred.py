"""Names and modules that are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import tegula
from tegula.runtime import deferred
from tegula.runtime.deferred import Later, before_threads, load, matcher, on_first_use

ROOT = Path(tegula.__file__).parent
PACKAGES = [
    ".".join(("tegula", *path.parent.relative_to(ROOT).parts))
    for path in sorted(ROOT.rglob("__init__.py"))
    if "_HOMES" in path.read_text(encoding="utf-8")
]


def typed(package: str) -> dict[str, set[str]]:
    """Return what a package imports for type checkers: names by the module that they come from."""
    module = importlib.import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    found: dict[str, set[str]] = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and node.module != package:
                    home = str(node.module).removeprefix(f"{package}.")
                    found.setdefault(home, set()).update(alias.name for alias in node.names)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_tables_say_what_type_checkers_see(package: str) -> None:
    module = importlib.import_module(package)
    assert {home: {*names.split()} for home, names in module._HOMES.items()} == typed(package)
    for home, names in module._HOMES.items():
        for name in names.split():
            assert getattr(module, name) is not None
            assert (name in dir(module)) is (home != "hierarchy.aliases")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from tegula.runtime.deferred import on_first_use\n"
        "__getattr__, __dir__ = on_first_use(__name__, {'one': 'a b', 'two': 'c'}, rooms='two', in_threads=True)\n"
    )
    (folder / "one.py").write_text("a, b = 1, 2\n")
    (folder / "two.py").write_text("c = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(deferred, "_left", {})
    for name in ("late_package", "late_package.one", "late_package.two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("late_package")


def test_a_module_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_module.py").write_text("import time\nfirst = 1\ntime.sleep(0.3)\nlast = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(deferred, "_left", {})
    module = Later("slow_module")
    with ThreadPoolExecutor(1) as pool:
        imported = pool.submit(importlib.import_module, "slow_module")
        while not hasattr(sys.modules.get("slow_module"), "first"):
            time.sleep(0.001)
        assert module.last == 2
        imported.result()
    monkeypatch.delitem(sys.modules, "slow_module")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_waits_for_a_slow_import_of_another_thread(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\nfirst = 1\ntime.sleep(0.3)\nlast = 2\n")
    code = """
import os, sys, threading, time, warnings
from tegula.runtime import deferred

warnings.simplefilter("ignore")  # about a fork of a process with threads
deferred._SLOW = {"slow_module"}
module = deferred.Later("slow_module")
deferred.load()
assert "slow_module" not in sys.modules
thread = threading.Thread(target=lambda: module.last)
thread.start()
while not hasattr(sys.modules.get("slow_module"), "first"):
    time.sleep(0.001)
child = os.fork()
if not child:
    os._exit(module.last)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
thread.join()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_a_name_imports_its_module_and_no_other(package: ModuleType) -> None:
    assert "late_package.one" not in sys.modules
    assert package.a == 1
    assert "late_package.one" in sys.modules
    assert "late_package.two" not in sys.modules
    assert vars(package)["a"] == 1  # from now on found without a call
    assert {"a", "b", "c"} <= {*dir(package)}


def test_a_missing_name_is_an_attribute_error_that_names_it(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="'late_package' has no attribute 'd'") as caught:
        _ = package.d
    assert caught.value.name == "d"


def test_rooms_are_attributes(package: ModuleType) -> None:
    assert package.two.c == 3


def test_load_imports_all_that_threads_may_need(package: ModuleType) -> None:
    late = Later("late_package.two")
    load()
    assert {"late_package.one", "late_package.two"} <= {*sys.modules}
    assert late.c == 3
    assert not deferred._left


def test_an_import_that_fails_is_tried_again(package: ModuleType) -> None:
    before_threads(["late_package.three"])
    with pytest.raises(ModuleNotFoundError):
        load()
    (Path(str(package.__file__)).parent / "three.py").write_text("")
    importlib.invalidate_caches()
    load()
    assert "late_package.three" in sys.modules


def test_a_matcher_is_that_of_the_pattern() -> None:
    match = matcher("[a-c]+")
    assert match("abc") is not None
    assert match("abcd") is None
    assert match("") is None


def test_no_table_is_needed_twice() -> None:
    get, names = on_first_use("json", {"decoder": "JSONDecodeError"})
    assert get("JSONDecodeError") is importlib.import_module("json").JSONDecodeError
    assert "JSONDecodeError" in names()


EXIT = """
import atexit, sys
import tegula

def last():
    from tegula import stores
    g = tegula.create_group(sys.argv[1])  # imports archives while the process ends
    g["a"] = [1, 2, 3]
    tegula.keep = g

atexit.register(last)
"""


@pytest.mark.slow
def test_what_is_imported_at_the_end_of_a_process_is_ended_as_well(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    done = subprocess.run(
        [sys.executable, "-c", EXIT, str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert tegula.open_array(path, path="a")[:].tolist() == [1, 2, 3]


def test_deferred_module_has_the_attributes_of_the_module(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Later("late_package.one")
    assert later.a == 1
    assert vars(later)["b"] == 2  # found without calling a function
    monkeypatch.setattr(importlib.import_module("late_package.one"), "a", 5)
    assert later.a == 5
    with pytest.raises(AttributeError, match="nothing"):
        _ = later.nothing
    whole = Later("late_package")
    assert (whole.c, whole.a) == (package.c, package.a)  # which the package imports at their first use
