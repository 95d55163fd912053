"""`load_all`: afterwards nothing has to be imported, in processes that can't find their packages any more."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tegula
from tegula.runtime import loading

pytestmark = pytest.mark.slow

SOURCE = Path(tegula.__file__).parent
ROOT = Path(__file__).parents[2]


def run(code: str, *arguments: str, executor: str = "auto", packages: str = str(SOURCE.parent)) -> str:
    path = os.pathsep.join([packages, str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "TEGULA_EXECUTOR": executor, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False, timeout=600, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


WITHOUT_IMPORTS = """
import sys
from importlib.machinery import PathFinder
import tegula
from tests import everything

late = []

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if PathFinder.find_spec(name, path) is not None:  # packages that are not installed may be looked for
            late.append(name)
            raise ModuleNotFoundError(f"{name} is imported late", name=name)

def opened(event, arguments):
    if event == "open" and str(arguments[0]).endswith((".py", ".pyc", ".so", ".pyd")):
        late.append(arguments[0])

everything.fails(tegula.open, "memory://nothing")  # fsspec imports its file systems itself
if sys.argv[2] == "loaded":
    tegula.load_all()
sys.meta_path.insert(0, Refuse())
sys.addaudithook(opened)
try:
    everything.run(sys.argv[1])
finally:
    print(late)
"""


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_after_it_nothing_is_imported(tmp_path: Path, executor: str) -> None:
    assert run(WITHOUT_IMPORTS, str(tmp_path), "loaded", executor=executor) == "[]\n"


def test_without_it_something_is(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is imported late"):
        run(WITHOUT_IMPORTS, str(tmp_path), "not loaded")


# --- what functions import


_IMPORTERS = ("import_module", "library", "Later")


def names_imported_later(node: ast.AST, in_function: bool = False) -> Iterator[str]:
    """Yield the names of modules that code imports when a function is called, as far as they are written out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield from names_imported_later(other, in_function)
            continue
        if in_function and isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        if in_function and isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        if isinstance(child, ast.Call) and ast.unparse(child.func).rpartition(".")[2] in _IMPORTERS:
            yield from (str(given.value) for given in child.args[:1] if isinstance(given, ast.Constant))
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from names_imported_later(child, in_function or is_function)


COMPLETE = """
import sys
from importlib import import_module
import tegula
chosen, wanted = (text.split() for text in sys.argv[1:])
for name in chosen:
    try:
        import_module(f"tegula.{name}")
    except tegula.UnsupportedError:
        pass
tegula.load_all()
missing = [name for name in wanted if name not in sys.modules]
for name in missing:
    try:
        import_module(name)
    except ImportError:
        continue  # it is not installed
    print(name)
"""


def test_it_loads_what_functions_import() -> None:
    wanted: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in ("cli", "testing", "__main__.py"):
            wanted |= {*names_imported_later(ast.parse(path.read_text(encoding="utf-8")))}
    wanted -= {"matplotlib", "matplotlib.pyplot", *loading._GIVEN}
    assert {"tegula._kernel", "fcntl", "pyarrow.parquet", "dask.array", "difflib", "icechunk"} <= wanted
    assert run(COMPLETE, " ".join(loading._INTERFACES), " ".join(sorted(wanted))) == ""


ALL_MODULES = """
import sys
from pkgutil import walk_packages
import tegula
tegula.load_all()
print(*(name for name in sys.modules if name.startswith("tegula.")))
"""


def test_interfaces_are_loaded_if_they_were_imported_and_programs_never() -> None:
    rooms = {name.split(".")[1] for name in run(ALL_MODULES).split()}
    assert not rooms & {"cli", "testing", "__main__", *loading._INTERFACES}
    assert {"arrays", "codecs", "formats", "hierarchy", "jobs", "stores", "tables"} <= rooms
    assert {*tegula._APART.split()} - {"testing"} == loading._INTERFACES
    found = {*run("import tegula.bcolz, tegula.zarr1\n" + ALL_MODULES).split()}
    for room in ("bcolz", "zarr1"):
        files = {path.stem for path in (SOURCE / room).glob("*.py")} - {"__init__"}
        assert {f"tegula.{room}.{name}" for name in files} <= found


def test_calling_it_again_does_nothing() -> None:
    code = "import sys, tegula\ntegula.load_all()\nn = len(sys.modules)\ntegula.load_all()\nprint(len(sys.modules) - n)"
    assert run(code) == "0\n"


# --- processes that can't find their packages


ELSEWHERE = """
import os, sys
import tegula
from tests import everything
place, lost, packages = sys.argv[1:]
tegula.load_all()
os.mkdir(place + "/files", mode=0o777)
os.chmod(place + "/files", 0o777)
if lost == "root directory":
    os.chroot(place)
    os.chdir("/")
    place = ""
else:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    os.listdir(packages)
except OSError:
    everything.run(place + "/files")
    print("done")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="tegula-") as name:
        path = Path(name)
        path.chmod(0o711)
        if not all(folder.stat().st_mode & 0o001 for folder in path.parents):
            pytest.skip("other users may not enter the directory for temporary files")
        yield path


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can do this")
@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("lost", ["root directory", "privileges"])
def test_a_daemon_that_can_not_find_its_packages(place: Path, lost: str, executor: str) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    (private / "src").symlink_to(SOURCE.parent)
    packages = str(private / "src")
    assert run(ELSEWHERE, str(place), lost, packages, executor=executor, packages=packages) == "done\n"
