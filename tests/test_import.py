"""Importing tegula: modules that it must not load, although every name is available."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tegula
from tegula.hierarchy import aliases

pytestmark = pytest.mark.once(executors="both")

SOURCE = Path(tegula.__file__).parent


def run(code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TEGULA_EXECUTOR"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    return {*run(f"import sys\n{statement}\nprint(*sys.modules)").split()}


@pytest.mark.slow(always=True)
def test_importing_loads_neither_numpy_nor_anything_of_tegula() -> None:
    found = loaded_by("import tegula") - loaded_by("import atexit, importlib, typing")
    assert {name for name in found if not name.startswith("_")} == {
        "tegula",
        "tegula.runtime",
        "tegula.runtime.deferred",
        "tegula.runtime.version",
    }


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("name", ["open", "create_array", "Array", "MemoryStore"])
def test_first_use_loads_no_module_that_only_special_cases_need(name: str) -> None:
    found = loaded_by(f"import tegula; tegula.{name}")
    needless = {"asyncio", "urllib.request", "http.client", "ssl", "email", "numcodecs", "google_crc32c", "pandas"}
    assert not found & needless


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("command", ["info", "sync"])
def test_commands_load_no_module_that_only_special_cases_need(tmp_path: Path, command: str) -> None:
    tegula.create_array(tmp_path / "a", data=[1, 2])
    words = [command, str(tmp_path / "a"), *([str(tmp_path / "b")] if command == "sync" else [])]
    found = loaded_by(f"from tegula.cli import main\nsys.argv[1:] = {words}\ntry: main()\nexcept SystemExit: pass")
    needless = {
        "asyncio",
        "csv",
        "dask",
        "email",
        "ml_dtypes",
        "obstore",
        "pydantic",
        "rich",
        "secrets",
        "ssl",
        "xarray",
    }
    assert f"tegula.cli.commands.{'listing' if command == 'info' else command}" in found
    assert not found & needless


def test_every_name_comes_from_where_type_checkers_see_it() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen.keys() == {*tegula.__all__, *aliases.__all__} - {"__version__"}
    for name, home in seen.items():
        code = f"import importlib, tegula; assert tegula.{name} is getattr(importlib.import_module({home!r}), {name!r})"
        namespace: dict[str, object] = {}
        exec(code, namespace)


@pytest.mark.slow(always=True)
def test_all_names_are_listed_and_can_be_imported_together() -> None:
    assert [*tegula.__all__] == dir(tegula)
    assert run("from tegula import *\nprint(open.__module__, Array.__name__)") == "tegula.hierarchy.opening Array\n"


def test_no_module_takes_the_place_of_a_name() -> None:
    """A module that is imported becomes an attribute of its package, even if the name had another value."""
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert modules & {*tegula.__all__} == {"config", "jobs"}  # which are meant to be the modules


@pytest.mark.slow(always=True)
def test_rooms_are_attributes_without_importing_them() -> None:
    assert run("import tegula\nprint(tegula.stores.MemoryStore is tegula.MemoryStore)") == "True\n"


def test_a_name_that_is_missing_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tegula.nothing
    with pytest.raises(ImportError):
        exec("from tegula import nothing")


@pytest.mark.slow
def test_a_missing_name_is_answered_with_a_similar_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tegula\ntegula.opn"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "Did you mean: 'open'?" in done.stderr


STANDARD = {"__future__", "_json", "errno", "fcntl", "atexit"}
"""All that the first read imports beside NumPy and tegula."""

SELDOM = (
    "arrays.creation", "arrays.selecting", "views.interop", "codecs.specs", "display.info", "engine.concurrency",
    "engine.reading.cached", "engine.reading.executors", "engine.reading.remote", "engine.reading.reference",
    "formats.json_encoding", "formats.located.members", "hierarchy.drafts", "hierarchy.group", "hierarchy.viewed",
    "indexing.plan", "jobs", "stores.local.directories", "stores.local.open_files",
    "runtime.threads", "stores.memory", "stores.targets.foreign", "stores.targets.urls", "stores.zip.store",
    "stores.mapping", "tables.table",
)  # fmt: skip
"""Modules of tegula that opening an array and reading from it do without."""

FORMATS = {
    "zarr3": {"zarr3"}, "zarr2": {"zarr2"}, "bcolz": {"bcolz.documents"}, "zarr1": {"zarr1"},
}  # fmt: skip


@pytest.mark.parametrize("name", SELDOM)
def test_what_is_seldom_needed_exists(name: str) -> None:
    path = SOURCE / Path(*name.split("."))
    assert path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("format", FORMATS)
def test_the_first_read_imports_what_it_needs_only(format: str, tmp_path: Path, kernel: object) -> None:
    path = str(tmp_path / "a")
    options = {"shards": 4} if format == "zarr3" else {}
    tegula.create_array(path, shape=8, chunks=2, dtype="i4", data=range(8), format=format, **options)
    code = f"import tegula; a = tegula.open({path!r}); assert a[...].tolist() == [*range(8)]"
    found = loaded_by(code) - loaded_by("import numpy")
    ours = {name for name in found if name.partition(".")[0] == "tegula"}
    assert found - ours <= STANDARD
    assert not ours & {f"tegula.{name}" for name in SELDOM}
    others = {"zarr3", "zarr2", "zarr1", "bcolz.documents"} - FORMATS[format]
    assert not ours & {f"tegula.formats.{name}" for name in others}
    rooms = {name for name in ours if (SOURCE.parent / Path(*name.split("."))).is_dir()}
    assert len(ours - rooms) <= 56, sorted(ours - rooms)


@pytest.mark.slow(always=True)
def test_opening_does_not_load_the_names_of_other_libraries() -> None:
    made = "g = tegula.create_group({}); g.create_array('x', shape=1, dtype='i4'); g['x'].shape, dir(g)"
    found = loaded_by(f"import tegula; {made}; tegula.open(g.store)")
    assert "tegula.arrays.foreign_names" not in found


THREADS = """
import sys, threading, numpy as np, tegula
from tegula import config

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread() and name.partition(".")[0] == "tegula":
            late.append(name)

late = []
sys.meta_path.insert(0, Watch())
with config.configure(executor="reference", threads=4):
    a = tegula.create_array({}, shape=(512, 512), chunks=(128, 128), dtype="f8", format=sys.argv[1])
    a.write(..., np.arange(512 * 512.0).reshape(512, 512)).result()
    assert a.read((slice(3, None), [1, 5])).result()[0, 0] == 3 * 512 + 1
    assert a[...].sum() == np.arange(512 * 512.0).sum()
    a.append(np.ones((3, 512)))
print(late)
assert "ml_dtypes" not in sys.modules, "which takes longer to import than all else"
"""

FACE = """
import sys, tegula, tegula.tensorstore as ts
spec = {"driver": sys.argv[1], "kvstore": "memory://"}
a = ts.open(spec, create=True, dtype=ts.int16, shape=[4], context=ts.Context()).result()
a[...] = [1, 2, 3, 4]
assert ts.cast(a, ts.float32)[...].read().result().tolist() == [1, 2, 3, 4]
assert "ml_dtypes" not in sys.modules
assert ts.bfloat16.numpy_dtype == ts.dtype(ts.bfloat16.numpy_dtype).numpy_dtype
"""


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_threads_import_nothing(format: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS, format], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_tensorstore_types_that_numpy_lacks_are_imported_on_use(driver: str) -> None:
    subprocess.run([sys.executable, "-c", FACE, driver], check=True, timeout=300)


@pytest.mark.slow(always=True)
@pytest.mark.parametrize("name", tegula._APART.split())
def test_a_module_that_was_not_imported_says_how_to_get_it(name: str) -> None:
    code = f"import tegula\ntry:\n    tegula.{name}\nexcept AttributeError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"module 'tegula' has no attribute {name!r}; import tegula.{name} to use it"
