"""Which executor is used, and what is said where the kernel is missing."""

import logging
import os
import subprocess
import sys
from types import ModuleType

import pytest

from tegula import config, executors
from tegula.errors import UnsupportedError


@pytest.fixture(autouse=True)
def _as_after_the_start():
    executors._load.cache_clear()
    executors._say_missing.cache_clear()
    yield
    executors._load.cache_clear()
    executors._say_missing.cache_clear()


@pytest.fixture
def built(monkeypatch):
    module = ModuleType("tegula._kernel")
    monkeypatch.setitem(sys.modules, "tegula._kernel", module)
    return module


@pytest.fixture(params=["missing", "broken"])
def missing(monkeypatch, request):
    def fail(name):
        if request.param == "missing":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        raise ImportError(f"{name}: undefined symbol")

    monkeypatch.setattr(executors, "import_module", fail)
    return "was not built" if request.param == "missing" else "can't be loaded: tegula._kernel: undefined symbol"


def test_with_the_kernel(built, caplog):
    assert executors.kernel() is executors.choose("auto") is executors.choose("kernel") is built
    assert executors.obstacle() is None
    assert executors.choose("reference") is None
    with config.configure(executor="kernel") as inside:
        assert inside.executor == "kernel"
    assert not caplog.records


def test_without_it_that_is_said_once(missing, caplog):
    assert executors.obstacle() == missing
    assert executors.kernel() is None
    assert executors.choose("reference") is None
    assert not caplog.records
    with caplog.at_level(logging.WARNING, logger="tegula"):
        assert [executors.choose("auto") for _ in range(3)] == [None] * 3
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tegula", "WARNING")
    assert record.getMessage().startswith(f"tegula's compiled kernel {missing}: arrays are read and written by the ref")


def test_without_it_asking_for_it_is_an_error(missing):
    before = config.current()
    for ask in (lambda: executors.choose("kernel"), config.configure(executor="kernel").__enter__):
        with pytest.raises(UnsupportedError) as caught:
            ask()
        assert str(caught.value).startswith(f"tegula's compiled kernel {missing}")
        assert caught.value.field == "executor"
    assert config.current() is before


def test_a_program_that_makes_errors_of_warnings_goes_on_without_it():
    code = """if True:
        import sys
        sys.modules["tegula._kernel"] = None
        import tegula.executors
        assert tegula.executors.choose("auto") is None
        a = tegula.create_array({}, shape=3, dtype="u1")
        a[:] = 1
        assert a[:].tolist() == [1, 1, 1]
    """
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "TEGULA_EXECUTOR": "auto"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("\n") == 1  # where logging is not set up, it writes the warning there
    assert "the reference executor, which gives the same results and takes longer" in done.stderr


def test_a_setting_that_is_in_force_when_the_interpreter_ends_leaves_quietly():
    code = "import tegula\nfrom tegula import config\nkept = config.configure(executor='reference')\nkept.__enter__()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
