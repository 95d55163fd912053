"""The choice of the executor, and what is reported if the kernel is missing."""

import logging
import os
import subprocess
import sys
from types import ModuleType

import pytest

from tegula import config
from tegula.errors import UnsupportedError
from tegula.runtime import executors


@pytest.fixture(autouse=True)
def _as_after_the_start():
    executors._load.cache_clear()
    executors._warn_missing.cache_clear()
    yield
    executors._load.cache_clear()
    executors._warn_missing.cache_clear()


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
    assert executors.load_error() is None
    assert executors.choose("reference") is None
    with config.configure(executor="kernel") as inside:
        assert inside.executor == "kernel"
    assert not caplog.records


def test_a_missing_kernel_is_reported_once(missing, caplog):
    assert executors.load_error() == missing
    assert executors.kernel() is None
    assert executors.choose("reference") is None
    assert not caplog.records
    with caplog.at_level(logging.WARNING, logger="tegula"):
        assert [executors.choose("auto") for _ in range(3)] == [None] * 3
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tegula", "WARNING")
    assert record.getMessage().startswith(f"tegula's compiled kernel {missing}: arrays are read and written by the ref")


def test_requesting_a_missing_kernel_is_an_error(missing):
    before = config.current()
    for ask in (lambda: executors.choose("kernel"), lambda: config.configure(executor="kernel")):
        with pytest.raises(UnsupportedError) as caught:
            ask()
        assert str(caught.value).startswith(f"tegula's compiled kernel {missing}")
        assert caught.value.field == "executor"
    assert config.current() is before


@pytest.mark.slow
def test_a_program_that_turns_warnings_into_errors_runs_without_the_kernel():
    code = """if True:
        import sys
        sys.modules["tegula._kernel"] = None
        import tegula.runtime.executors
        assert tegula.runtime.executors.choose("auto") is None
        a = tegula.create_array({}, shape=3, dtype="u1")
        a[:] = 1
        assert a[:].tolist() == [1, 1, 1]
    """
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "TEGULA_EXECUTOR": "auto"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr.count("\n") == 1  # without a handler, logging writes the record to stderr
    assert "the reference executor, which gives the same results but is slower" in done.stderr


@pytest.mark.slow
def test_open_configure_block_does_not_disturb_interpreter_exit():
    code = "import tegula\nfrom tegula import config\nkept = config.configure(executor='reference')\nkept.__enter__()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == ""


@pytest.mark.slow
def test_an_interrupt_while_the_kernel_is_loaded_is_an_interrupt(kernel):
    code = """if True:
        import signal
        import numpy.lib
        import tegula

        class Interrupted(numpy.lib.NumpyVersion):
            def __init__(self, version):
                signal.raise_signal(signal.SIGINT)

        usual, numpy.lib.NumpyVersion = numpy.lib.NumpyVersion, Interrupted
        for _ in range(2):
            try:
                a = tegula.create_array({}, shape=3, dtype="u1")
                a[:] = 2
            except KeyboardInterrupt:
                numpy.lib.NumpyVersion = usual
        assert a[:].tolist() == [2, 2, 2]
    """
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "TEGULA_EXECUTOR": "kernel"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == ""
