"""Evaluation with dask: dask arrays as variables, schedulers, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula import TegulaError, bcolz
from tegula.bcolz import parameters
from tegula.errors import CodecError, MetadataError

ROWS = np.random.default_rng(1).integers(-9, 9, (47, 3))


def ask(text: str, **options: Any) -> Any:
    variables = {
        "a": ROWS[:, 0],
        "c": bcolz.carray(ROWS[:, 1] / 4, chunklen=7),
        "lazy": da.from_array(ROWS[:, 2], chunks=11),
        "wide": bcolz.carray(ROWS, chunklen=5),
        "text": np.array(["b", "cd", ""] * 16)[:47],
        "k": 2,
    }
    found = bcolz.eval(text, vm="dask", user_dict=variables, out_flavor="numpy", **options)
    functions = {"np": np, "da": np, "contains": lambda s, part: np.char.find(s, part) >= 0, **vars(np)}
    plain = {name: np.asarray(value) for name, value in variables.items()}
    np.testing.assert_allclose(found, eval(text, functions, plain), rtol=1e-12)
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    text=st.sampled_from(
        [
            "a + 2 * c - lazy",
            "da.sin(c) + np.cos(lazy) + abs(a)",
            "(a > c) & (lazy < k) | (text == 'cd')",
            "contains(text, 'd')",
            "c - mean(c)",
            "sum(c + 1) + mean(c + 1) + mean(c + 2)",
            "wide - da.mean(wide, axis=0)",
            "wide * k + 0.5",
            "da.max(wide, axis=1) - a",
            "sum(wide, axis=1) / k + mean(max(wide, axis=1))",
            "where(a > mean(a), c, lazy)",
            "any(a > 100)",
            "da.min(wide)",
            "mean(wide, axis=-2)",
        ]
    ),
    blen=st.none() | st.integers(1, 60),
)
def test_is_what_numpy_computes(text: str, blen: int | None) -> None:
    ask(text, blen=blen)


def test_arrays_of_one_row_and_of_none() -> None:
    one, none = bcolz.carray(np.array([[1, 2]])), bcolz.carray(np.empty((0, 2)))
    found = bcolz.eval("many + one", vm="dask", user_dict={"many": np.ones((9, 1)), "one": one}, blen=4)
    np.testing.assert_array_equal(found[:], [[2, 3]] * 9)
    assert bcolz.eval("none * 2", vm="dask", user_dict={"none": none}).shape == (0, 2)
    assert bcolz.eval("sum(none)", vm="dask", user_dict={"none": none}, out_flavor="numpy").tolist() == [0, 0]


def test_the_type_of_results(tmp_path: Path) -> None:
    known = {"c": bcolz.carray(np.arange(100), chunklen=9)}
    assert type(bcolz.eval("c + 1", vm="dask", user_dict=known)) is bcolz.carray
    assert type(bcolz.eval("c + 1", vm="dask", user_dict=known, out_flavor="numpy")) is np.ndarray
    assert bcolz.eval("sum(c)", vm="dask", user_dict=known) == 4950
    assert type(bcolz.eval("2 * 3", vm="dask")) is int
    options = {"rootdir": str(tmp_path / "d"), "chunklen": 8, "cparams": bcolz.cparams(clevel=1)}
    bcolz.eval("c * 2", vm="dask", user_dict=known, **options)
    stored = bcolz.open(str(tmp_path / "d"), mode="r")
    assert (stored.chunklen, stored.cparams.clevel, stored[:].tolist()) == (8, 1, [*range(0, 200, 2)])


def test_conditions_on_tables() -> None:
    t = bcolz.ctable([np.arange(50), np.arange(50) / 2], names=["n", "half"])
    condition = "(n > 5) & (half >= least)"
    options: dict[str, Any] = {"vm": "dask", "user_dict": {"least": 20}}
    assert [row.n for row in t.where(condition, **options)] == [*range(40, 50)]
    assert t.fetchwhere(condition, out_flavor="numpy", **options)["n"].tolist() == [*range(40, 50)]
    assert [len(block) for block in t.whereblocks(condition, blen=6, **options)] == [6, 4]
    assert t.eval("n + half", vm="dask")[:3].tolist() == [0, 1.5, 3]
    with bcolz.defaults_ctx(vm="dask"):
        half = t["half"]
        assert len(t["half > 24"]) == len(half["half > 24"]) == 1


def test_the_scheduler_is_that_of_dask() -> None:
    known = {"c": bcolz.carray(np.arange(1000), chunklen=10)}
    seen = set()

    def get(graph: Any, keys: Any, **options: Any) -> Any:
        seen.add(threading.get_ident())
        return dask.get(graph, keys, **options)

    with dask.config.set(scheduler=get):
        assert bcolz.eval("c + 1", vm="dask", blen=10, user_dict=known)[:].tolist() == [*range(1, 1001)]
    assert seen == {threading.get_ident()}


@pytest.mark.slow
def test_blocks_can_be_computed_in_other_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, dask, os\n"
        "from tegula import bcolz\n"
        "if __name__ == '__main__':\n"
        f"    c = bcolz.carray(np.arange(40), chunklen=10, rootdir={str(tmp_path / 'c')!r})\n"
        "    m = bcolz.carray(np.arange(40), chunklen=10)\n"
        "    with dask.config.set(scheduler='processes', num_workers=2):\n"
        "        print(bcolz.eval('c + m * 2 - min(m)', vm='dask', blen=10)[:].sum())\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == [str(3 * sum(range(40)))], done.stderr


def test_errors_are_reported() -> None:
    known = {"c": np.arange(4.0), "w": np.ones((4, 3)), "s": np.array(["a", "b", "c", "d"]), "d": np.arange(5)}
    known["vague"] = da.arange(4)[da.arange(4) > 1]
    for text in ("c + w", "c + d", "sum(s)", "c + s", "vague + 1", "sum(c, axis=3)", "max(c) % c.real", "da.no(c)"):
        with pytest.raises(TegulaError):
            bcolz.eval(text, vm="dask", user_dict=known)
    with pytest.raises(TegulaError):
        bcolz.eval("n + 1", vm="python", user_dict={"n": da.arange(4)})
    with pytest.raises(NameError):
        bcolz.eval("c + unheard_of", vm="dask", user_dict=known)
    with pytest.raises(MetadataError):
        bcolz.eval("sum(" + "-" * 200 + "c)", vm="dask", user_dict=known)


def test_a_long_chain_is_not_deep() -> None:
    n = np.arange(3)
    assert bcolz.eval("+".join(["n"] * 500), vm="dask", user_dict={"n": n})[:].tolist() == [0, 500, 1000]


def test_a_failed_evaluation_stores_nothing(tmp_path: Path) -> None:
    c = bcolz.carray(np.arange(100), chunklen=10, rootdir=str(tmp_path / "c"))
    c.flush()
    (tmp_path / "c" / "data" / "__7.blp").write_bytes(b"torn")
    for vm in ("dask", "python", "numexpr"):
        with pytest.raises(CodecError):
            bcolz.eval("c + 1", vm=vm, rootdir=str(tmp_path / "out"), blen=10, user_dict={"c": c})
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_without_dask_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "__init__.py").write_text("raise ModuleNotFoundError('No dask', name='dask')")
    code = (
        "from tegula import bcolz\n"
        "try:\n    bcolz.eval('c', vm='dask', user_dict={'c': bcolz.carray([1])})\n"
        "except ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.startswith("NotInstalledError the package dask is not installed: python -m pip install")


def test_the_default_is_refused_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "dask_here", False)
    with pytest.raises(MetadataError):
        bcolz.defaults.vm = "dask"
    monkeypatch.setattr(parameters, "numexpr_here", False)
    bcolz.defaults.vm = bcolz.defaults.vm
    assert parameters.Defaults().vm == "python"
    monkeypatch.setattr(parameters, "dask_here", True)
    assert parameters.Defaults().vm == "dask"
