"""What all tests share: the hypothesis profiles, the executors, and the comparison with recorded values."""

import base64
import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tegula import config, executors

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
# the same examples each time, unless new ones are asked for: other implementations have bugs to be found, too
settings.load_profile("explore" if os.environ.get("TEGULA_EXPLORE") else "steady")


# how many times as many examples the state machines try: TEGULA_EXPLORE=1 TEGULA_EXAMPLES=100 for a night
_MORE = int(os.environ.get("TEGULA_EXAMPLES", "1"))


def pytest_report_header() -> str:
    setting = config.current().executor
    kernel = executors.kernel()
    if setting != "reference" and kernel is not None:
        return f"tegula: the kernel, {kernel.__file__}"
    reason = "as TEGULA_EXECUTOR says" if setting == "reference" else f"the kernel {executors.obstacle()}"
    return f"tegula: the reference executor ({reason})"


# tests that no executor takes part in; that none does is checked while they run
_WITHOUT_EXECUTORS = """
indexing metadata formats/test_documents.py formats/test_splicing.py
test_expressions.py test_floors.py test_public_api.py
tensorstore/test_context.py tensorstore/index/test_dim.py tensorstore/index/test_transform.py
tensorstore/constraints/test_chunk_layout.py tensorstore/constraints/test_chunk_shapes.py
tensorstore/constraints/test_codec_spec.py tensorstore/constraints/test_dtypes.py
tensorstore/constraints/test_fill_values.py tensorstore/constraints/test_schema.py
tensorstore/constraints/test_unit.py tensorstore/constraints/test_zarr3_codecs.py
""".split()
# tests that run each executor themselves
_WITH_BOTH = ["engine/test_coarse_times.py", "engine/test_executors.py"]
_CHECKED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need not run once more with the other executor."""
    here = Path(__file__).parent
    alone, both = ({here / name for name in names} for names in (_WITHOUT_EXECUTORS, _WITH_BOTH))
    for item in items:
        item.stash[_CHECKED] = not alone.isdisjoint([item.path, item.path.parent])
        if item.stash[_CHECKED] or item.path in both:
            item.add_marker("once")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that is marked as one without executors where it asks for one."""
    asked: list[str] = []
    choose = executors.choose

    def note(executor: str) -> ModuleType | None:
        asked.append(executor)
        return choose(executor)

    with pytest.MonkeyPatch.context() as patch:
        if item.stash.get(_CHECKED, False):
            patch.setattr(executors, "choose", note)
        result = yield
    assert not asked, "this test reads or writes arrays: take its file from _WITHOUT_EXECUTORS in tests/conftest.py"
    return result


@pytest.fixture(scope="session")
def kernel() -> ModuleType:
    """The kernel's module; a test that needs it is skipped where it was not built, but not in CI."""
    module = executors.kernel()
    if module is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"tegula's compiled kernel {executors.obstacle()}")
    return module


@pytest.fixture(scope="session")
def run_machine() -> Callable[..., None]:
    """Run a state machine, made anew for each example, as often as is asked for; always in one order."""

    def run(make: Callable[[], RuleBasedStateMachine], examples: int, steps: int = 20) -> None:
        # faults are counted, so operations have to come in one order
        with config.configure(threads=1):
            run_state_machine_as_test(
                make, settings=settings(max_examples=examples * _MORE, stateful_step_count=steps, deadline=None)
            )

    return run


def plain(value: Any) -> Any:
    """Give a Python object the JSON form in which the generators record it."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, (bytes, bytearray)):
        return {"b64": base64.b64encode(value).decode()}
    return {"dict": value} if isinstance(value, dict) else value


def check_values(values: Any, reference: Path, dtype: str | None = None) -> None:
    """Compare with what is recorded: dtype, shape and bytes in ``.npy``, Python objects in ``.json``.

    Parameters
    ----------
    values : array_like
        What was read.
    reference : Path
        The recorded file.
    dtype : str, optional
        Name of the dtype, where the file only holds its bits because NumPy alone has no such dtype.
    """
    values = np.asarray(values)
    if reference.suffix == ".json":
        recorded = json.loads(reference.read_text())
        assert list(values.shape) == recorded["shape"]
        # as JSON: text, bytes, arrays, true and 1 stay apart
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
