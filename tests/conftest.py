"""What all tests share: the hypothesis profiles, the executors, and the comparison with recorded values."""

import base64
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from tests import crude, effort

from tegula import config
from tegula.runtime import executors

pytest_plugins = ["tests.samples", *(["tests.servers.fixtures"] if find_spec("obstore") else [])]

POSIX_FIXTURES = frozenset(("linked",))
"""Fixtures that make symbolic links."""

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
# the same examples each time by default: other implementations have undiscovered bugs, too
settings.load_profile("explore" if effort.NIGHTLY else "steady")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let processes that have done their share take tests of the others: in some folders most tests are slow."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_configure() -> None:
    """Load the kernel in each process of the tests, since stores use it once it is loaded."""
    executors.kernel()
    if crude.CRUDE:
        crude.apply()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only in those files of tests that have some, since to look takes a tenth of the collection."""
    collectors = yield
    if b">>> " in file_path.read_bytes():
        return collectors
    return [found for found in collectors if not isinstance(found, DoctestModule)]


def pytest_report_header() -> list[str]:
    tries = f"tegula: {effort.EFFORT} effort" + (f", TEGULA_SEED={effort.SEED}" if effort.NIGHTLY else "")
    tries += ", a crude file system" * bool(crude.CRUDE)
    setting = config.current().executor
    kernel = executors.kernel()
    if setting != "reference" and kernel is not None:
        return [tries, f"tegula: the kernel, {kernel.__file__}"]
    reason = "as TEGULA_EXECUTOR says" if setting == "reference" else f"the kernel {executors.load_error()}"
    return [tries, f"tegula: the reference executor ({reason})"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let properties try as many examples as there is time for, and leave out the tests that there is no time for."""
    tests = [item for item in items if isinstance(item, pytest.Function)]
    for function, slow in {getattr(item.obj, "__func__", item.obj): is_slow(item) for item in tests}.items():
        if (own := getattr(function, "_hypothesis_internal_use_settings", None)) is not None:
            tries = effort.examples(own.max_examples, slow=slow)
            function._hypothesis_internal_use_settings = settings(own, max_examples=tries)
    for case, slow in {item.cls: is_slow(item) for item in tests if item.cls is not None}.items():
        if isinstance(own := getattr(case, "settings", None), settings):  # of a state machine
            case.settings = settings(own, max_examples=effort.examples(own.max_examples, slow=slow))
    left = {*left_to_the_night(items), *(item for item in items if effort.QUICK and is_slow(item))}
    if sys.platform == "win32":
        left.update(item for item in items if is_posix(item))
    if crude.IGNORES_CASE:
        marks = ((item, item.get_closest_marker("posix")) for item in items)
        left.update(
            item for item, mark in marks if mark is not None and mark.args == ("a file system that heeds case",)
        )
    if left:
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]


def is_posix(item: pytest.Item) -> bool:
    """Return whether a test needs what Windows does not have; a fixture may say so, too."""
    return item.get_closest_marker("posix") is not None or not POSIX_FIXTURES.isdisjoint(item.fixturenames)


def left_to_the_night(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that are tried only if there is a whole night.

    That is those that are marked so. A test that is marked as sampled keeps one in so many of its cases, and CI tries
    one in seven of the other slow tests, and those that are always tried. The name of a test says which, so that
    all tests together try all formats, stores and executors; another seed tries others.
    """
    if effort.NIGHTLY:
        return []
    left, seen = [], Counter[tuple[Path, object, str]]()
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            left.append(item)
        elif (mark := item.get_closest_marker("sampled")) is not None or effort.SAMPLE > 1:
            test = item.path, getattr(item, "cls", None), getattr(item, "originalname", None) or item.name
            one_in = effort.SAMPLE * (1 if mark is None else mark.kwargs["one_in"])
            if (seen[test] - effort.turn(f"{item.path.name} {test[2]}")) % one_in:
                left.append(item)
            seen[test] += 1
        elif is_slow(item) and not is_always_tried(item) and effort.turn(item.nodeid) % effort.SLOW_TESTS_SHARE:
            left.append(item)
    return left


def is_always_tried(item: pytest.Item) -> bool:
    """Tell whether a slow test is one that each change has to pass, such as the pages of documentation."""
    mark = item.get_closest_marker("slow")
    return mark is not None and bool(mark.kwargs.get("always"))


def is_slow(item: pytest.Item) -> bool:
    """Tell whether a test starts processes, servers or browsers, or takes long for another reason."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return item.get_closest_marker("slow") is not None or any(name.endswith("_server") for name in fixtures)


def pytest_collection_finish() -> None:
    """Leave what is collected out of later garbage collections, which many tests ask for."""
    gc.collect()
    gc.freeze()
    _started.clear()  # by what was imported


_started: list[str] = []


def _note_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"):
        _started.append(f"{event} {arguments[:2]}")


if effort.QUICK:
    sys.addaudithook(_note_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fail a test of a quick run that has started a process."""
    result = yield
    started = [*_started]
    _started.clear()
    assert not started, f"this test starts processes, so it is slow and has to be marked so: {started}"
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that is marked as one without executors where it asks for one."""
    mark = item.get_closest_marker("once")
    without = mark is not None and mark.kwargs["executors"] == "none"
    asked: list[str] = []
    choose = executors.choose

    def note(executor: str) -> ModuleType | None:
        asked.append(executor)
        return choose(executor)

    with pytest.MonkeyPatch.context() as patch:
        if without:
            patch.setattr(executors, "choose", note)
        result = yield
    assert not asked, "this test reads or writes arrays, so its mark must not say that it uses no executor"
    return result


@pytest.fixture(scope="session")
def kernel() -> ModuleType:
    """The kernel's module; a test that needs it is skipped where it was not built, but not in CI."""
    module = executors.kernel()
    if module is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"tegula's compiled kernel {executors.load_error()}")
    return module


@pytest.fixture
def by_reference() -> Generator[None, None, None]:
    """Use the reference executor: for tests that replace functions of Python's implementation."""
    with config.configure(executor="reference"):
        yield


@pytest.fixture(scope="session")
def run_machine() -> Callable[..., None]:
    """Run a state machine, made anew for each example, as often as is asked for; always in one order."""

    def run(make: Callable[[], RuleBasedStateMachine], examples: int, steps: int = 20) -> None:
        # faults are counted, so operations have to come in one order
        with config.configure(threads=1):
            run_state_machine_as_test(
                make,
                settings=settings(
                    max_examples=effort.examples(examples, slow=True), stateful_step_count=steps, deadline=None
                ),
            )

    return run


def plain(value: Any) -> Any:
    """Convert a Python object to the JSON in which the generators record it."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, (bytes, bytearray)):
        return {"b64": base64.b64encode(value).decode()}
    return {"dict": value} if isinstance(value, dict) else value


def check_values(values: Any, reference: Path, dtype: str | None = None) -> None:
    """Compare with recorded values: dtype, shape and bytes in ``.npy``, Python objects in ``.json``.

    Parameters
    ----------
    values : array_like
        The values read.
    reference : Path
        The recorded file.
    dtype : str, optional
        Name of the dtype, where the file only holds its bits because NumPy alone has no such dtype.
    """
    values = np.asarray(values)
    if reference.suffix == ".json":
        recorded = json.loads(reference.read_text())
        assert list(values.shape) == recorded["shape"]
        # as JSON, which distinguishes text, bytes, arrays, true and 1
        assert [json.dumps(plain(item)) for item in values.flat] == [json.dumps(item) for item in recorded["flat"]]
        return
    expected = np.load(reference, allow_pickle=False)
    if dtype is not None:
        assert values.dtype.name == dtype
        values = values.view(expected.dtype)
    assert values.shape == expected.shape
    assert values.dtype == expected.dtype
    assert values.tobytes() == expected.tobytes()


@pytest.fixture(name="check_values", scope="session")
def _check_values() -> Callable[..., None]:
    return check_values
