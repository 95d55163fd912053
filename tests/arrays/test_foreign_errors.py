"""Errors of Python and of other libraries, which users get as errors of tegula."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tegula
import tegula.tensorstore as ts
from tegula.tables.expressions import compile_expression


def run(code: str, *arguments: object, path: str = "", executor: str | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))}
    if executor is not None:
        environment["TEGULA_EXECUTOR"] = executor
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


# --- libraries that can't be imported


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A directory for the front of the path, in which importing numcodecs fails as with some versions of zfpy."""
    package = tmp_path / "first" / "numcodecs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ValueError('numpy.dtype size changed, may indicate binary break')\n")
    return str(package.parent)


@pytest.mark.slow
def test_numcodecs_is_optional_for_arrays_without_its_codecs(broken: str, tmp_path: Path) -> None:
    for format, codecs in (("zarr2", "zlib"), ("zarr3", "zstd"), ("bcolz", "blosc")):
        made = tegula.create_array(tmp_path / format, shape=100, chunks=10, dtype="i4", format=format, codecs=codecs)
        made[:] = np.arange(100)
    code = """
import sys, numpy as np, tegula, tegula.bcolz, tegula.zarr1, tegula.tensorstore
from tegula.cli import main
root = sys.argv[1]
for format in ("zarr2", "zarr3", "bcolz"):
    a = tegula.open_array(f"{root}/{format}", "r+")
    assert (a[:] == np.arange(100)).all()
    a[5:25] = 7
    assert a[5:25].tolist() == [7] * 20
    assert not tegula.check(f"{root}/{format}").findings
tegula.create_array({}, shape=3, dtype="i4", codecs="zstd")[:] = 3
sys.argv[1:] = ["doctor"]
assert main() == 0
"""
    if tegula.runtime.executors.kernel() is not None:
        assert "numcodecs" in run(code, tmp_path, path=broken, executor="kernel")
    code = """
import sys, tegula
from tegula.cli import main
a = tegula.open_array(sys.argv[1] + "/zarr2")  # whose codec is in Python's own library
assert a[99] == 99
sys.argv[1:] = ["doctor"]
assert main() == 0
"""
    run(code, tmp_path, path=broken, executor="reference")


@pytest.mark.slow
def test_codecs_of_numcodecs_say_that_it_is_missing(broken: str, tmp_path: Path) -> None:
    for name, codec in (("delta", {"id": "delta", "dtype": "<i4"}), ("blosc", {"id": "blosc"})):
        made = tegula.create_array(tmp_path / name, shape=100, dtype="i4", format="zarr2", codecs=[codec])
        made[:] = np.arange(100)
    code = """
import sys, tegula, tegula.bcolz
root = sys.argv[1]
for act in (
    lambda: tegula.open(f"{root}/delta"),
    lambda: tegula.open(f"{root}/blosc")[:],
    lambda: tegula.create_array({}, shape=3, dtype="i4", format="zarr2", codecs="shuffle"),
    lambda: tegula.create_array({}, shape=3, dtype="f4", format="zarr2", codecs={"id": "pcodec"}),
    lambda: tegula.bcolz.blosc_version(),
):
    try:
        act()
    except tegula.UnsupportedError as error:
        print(error)
"""
    lines = run(code, tmp_path, path=broken, executor="reference").splitlines()
    assert len(lines) == 5
    for line in lines:
        assert "the package numcodecs can't be imported: ValueError: numpy.dtype size changed" in line
    assert "delta" in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zfpy", "msgpack", "pcodec"])
def test_other_libraries_that_fail(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('wrong version')\n")
    codec = {
        "zfpy": {"id": "zfpy", "mode": 4, "tolerance": 0.1},
        "msgpack": {"id": "msgpack2"},
        "pcodec": {"id": "pcodec"},
    }
    code = f"""
import tegula
try:
    dtype = object if {name!r} == "msgpack" else "f4"
    tegula.create_array({{}}, shape=3, dtype=dtype, format="zarr2", codecs=[{codec[name]!r}])
except tegula.UnsupportedError as error:
    print(error)
"""
    printed = run(code, path=str(tmp_path))
    assert f"the package {name} can't be imported: RuntimeError: wrong version; python -m pip install " in printed


@pytest.mark.slow
def test_the_package_behind_a_failure_is_named(tmp_path: Path) -> None:
    """Importing numcodecs fails with some versions of zfpy; the advice names zfpy."""
    package, info = tmp_path / "numcodecs", tmp_path / "zfpy-1.0.1.post0.dist-info"
    package.mkdir()
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zfpy\nVersion: 1.0.1.post0\n")
    (package / "__init__.py").write_text("from numcodecs import zfpy\n")
    (tmp_path / "zfpy.py").touch()
    (package / "zfpy.py").write_text("version = int('post0')\n")
    code = """
import sys, tegula
from tegula.cli import main
try:
    tegula.create_array({}, shape=3, dtype="f4", format="zarr2", codecs={"id": "quantize", "digits": 1})
except tegula.UnsupportedError as error:
    print(error)
sys.argv[1:] = ["doctor"]
sys.exit(main())
"""
    error, *doctor = run(code, path=str(tmp_path)).splitlines()
    (broken,) = [line for line in doctor if line.startswith("Broken")]
    reason = "the package numcodecs can't be imported: ValueError: invalid literal for int() with base 10: 'post0'"
    advice = "The cause seems to be zfpy 1.0.1.post0: python -m pip install --upgrade 'zfpy>=1.0.1,!=1.0.1.post0'"
    for line in (error, broken):
        assert reason in line
        assert advice in line
    assert "codec 'numcodecs.quantize'" in error


# --- expressions


@pytest.mark.parametrize("rows", [100, 100_000])
def test_long_flat_expressions(rows: int) -> None:
    a = np.arange(rows) % 700
    numbers = range(600)
    for text, wanted in (
        (" or ".join(f"a == {n}" for n in numbers), a < 600),
        (" and ".join(f"a != {n}" for n in numbers), a >= 600),
        (" | ".join(f"(a == {n})" for n in numbers), a < 600),
        (f"a in {[*numbers]}", a < 600),
        (f"a not in {[*numbers]}", a >= 600),
        (" + ".join(["a"] * 600), a * 600),
        (" - ".join(["a"] * 600), a * -598),
        ("a" + " <= a" * 600, a >= 0),
    ):
        found = compile_expression(text).evaluate({"a": a})
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "text", ["-" * 300 + "a", "a**" * 200 + "a", "sin(" * 200 + "a" + ")" * 200, "not " * 200 + "a"]
)
def test_deeply_nested_expressions(text: str) -> None:
    table = tegula.create_table({}, {"a": np.arange(4)})
    with pytest.raises(tegula.MetadataError, match="too deeply nested"):
        table.where(text)


# --- pickles


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
def test_attributes_can_be_pickled(tmp_path: Path, format: str) -> None:
    array = tegula.create_array(tmp_path / "a", shape=3, dtype="i4", format=format, attributes={"x": 1})
    table = tegula.create_table(tmp_path / "t", {"a": [1, 2]}, format=format, attributes={"x": 1})
    group = tegula.create_group(tmp_path / "g", format="zarr3", attributes={"x": 1})
    for node in (array, table, group):
        attributes = pickle.loads(pickle.dumps(node.attrs))
        assert attributes == {"x": 1}
        attributes["y"] = 2
        found = tegula.open(node.store).attrs.asdict()
        found.pop("column-order", None)
        assert found == {"x": 1, "y": 2}


def test_pickling_a_future_explains_the_error() -> None:
    array = tegula.create_array({}, shape=3, dtype="i4")
    for future in (array.read(), array.write(0, 1)):
        with pytest.raises(TypeError, match=r"tegula.Future can't be pickled.*pickle its result"):
            pickle.dumps(future)
        with pytest.raises(TypeError, match=r"can't be pickled"):
            copy.copy(future)
        future.result()
    with pytest.raises(TypeError, match=r"cannot pickle 'tensorstore\.Future'"):
        pickle.dumps(ts.Future(3))


# --- the end of the interpreter


@pytest.mark.slow
def test_reading_and_writing_while_the_interpreter_ends(tmp_path: Path) -> None:
    code = """
import atexit, sys, numpy as np, tegula
import tegula.tensorstore as ts
from tegula.tables.expressions import compile_expression
a = tegula.create_array(sys.argv[1], shape=100_000, chunks=1000, dtype="i4")
used = sys.argv[2] == "used"
if used:
    a.read().result()
@atexit.register
def end():
    a.write(..., np.arange(100_000)).result()
    found = a.read()
    assert (found.result() == np.arange(100_000)).all()
    try:
        a.read(200_000).result()
    except tegula.SelectionError:
        print("error", end=" ")
    assert ts.open({"driver": "zarr3", "kvstore": "file://" + sys.argv[1]}).result()[5].read().result() == 5
    assert a[7] == 7
    print("end")
"""
    for number, state in enumerate(("used", "new")):
        assert run(code, tmp_path / str(number), state) == "error end\n"
