"""What all tests share: the hypothesis profiles, the executors, and the comparison with recorded values."""

import base64
import gc
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

pytest_plugins = ["tests.servers.fixtures"]

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
# the same examples each time by default: other implementations have undiscovered bugs, too
settings.load_profile("explore" if os.environ.get("TEGULA_EXPLORE") else "steady")


# how many times as many examples the state machines try: TEGULA_EXPLORE=1 TEGULA_EXAMPLES=100 for a night
_MORE = int(os.environ.get("TEGULA_EXAMPLES", "1"))


def pytest_configure() -> None:
    """Load the kernel in each process of the tests, since stores use it once it is loaded."""
    executors.kernel()


def pytest_report_header() -> str:
    setting = config.current().executor
    kernel = executors.kernel()
    if setting != "reference" and kernel is not None:
        return f"tegula: the kernel, {kernel.__file__}"
    reason = "as TEGULA_EXECUTOR says" if setting == "reference" else f"the kernel {executors.load_error()}"
    return f"tegula: the reference executor ({reason})"


# tests that use no executor, by file, folder or function; that they use none is checked while they run
_WITHOUT_EXECUTORS = """
indexing metadata formats/test_documents.py formats/test_splicing.py
typing/test_typing.py::test_a_users_scripts_pass_a_strict_type_check
codecs/test_rounding.py codecs/test_hostile.py codecs/test_chain.py codecs/test_equivalence.py codecs/test_blosc.py
codecs/test_scale_offset.py codecs/test_sharding.py codecs/test_cast_value.py codecs/test_native.py
codecs/test_checksums.py codecs/test_objects.py codecs/test_packbits.py codecs/test_vlen.py
codecs/test_numcodecs_bridge.py
stores/test_mapping.py stores/test_key_tree.py
stores/test_fsspec_conformance.py stores/test_local_faults.py stores/test_object_store.py stores/test_zip_keys.py
stores/test_object_store_conditions.py stores/test_object_store_processes.py stores/test_object_store_servers.py
stores/test_zip_remote.py stores/test_references.py engine/test_kept_values.py engine/test_pool.py
tables/test_expressions.py test_floors.py test_public_api.py
jobs/measuring/test_moments.py jobs/measuring/test_histograms.py jobs/summing/test_sums.py
jobs/downsampling/test_reducing.py jobs/converting/test_passes.py
tensorstore/index tensorstore/json tensorstore/kvstore tensorstore/test_context.py tensorstore/test_recorded_index.py
tensorstore/test_recorded_golden_schema.py tensorstore/test_recorded_chunk_layout_cases.py
tensorstore/constraints/test_chunk_layout.py tensorstore/constraints/test_chunk_shapes.py
tensorstore/constraints/test_codec_spec.py tensorstore/constraints/test_dtypes.py
tensorstore/constraints/test_fill_values.py tensorstore/constraints/test_schema.py
tensorstore/constraints/test_unit.py tensorstore/constraints/test_zarr3_codecs.py
test_rust_modules.py test_packaging.py servers
cli/test_process.py::test_help_is_wrapped_and_not_cut_off
test_scale.py::test_the_program_shows_a_deep_hierarchy_or_says_why_it_can_not
test_scale.py::test_a_hierarchy_deeper_than_the_interpreter_recurses
""".split()
# tests that choose the executor themselves, wait for requests, which both executors send alike, or are about what
# stands above both: pages, another library's tests
_WITH_BOTH = """
docs bcolz/test_upstream.py hierarchy/test_waves.py engine/test_waves.py jobs/checking/test_hostile.py dask
references server xarray zarr cli/test_plot.py test_import.py tables/test_arrow.py test_arrow.py
targets/test_references.py cli/test_references.py codecs/test_snappy.py engine/test_coarse_times.py
engine/test_executors.py engine/test_forks.py fuzzing engine/test_shard_index_law.py
engine/test_local_shard_indexes.py engine/test_local_protocol.py engine/test_shards_over_fsspec.py
engine/test_windows.py jobs/test_waves.py jobs/test_unlisted.py jobs/test_kills.py jobs/test_copies.py
jobs/test_resume.py jobs/test_races.py jobs/test_sharing.py stores/test_copies.py
""".split()
_CHECKED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need not run once more with the other executor."""
    here = Path(__file__).parent
    alone, both = ({here / name for name in names} for names in (_WITHOUT_EXECUTORS, _WITH_BOTH))
    for item in items:
        function = item.path.with_name(f"{item.path.name}::{item.name.partition('[')[0]}")
        names = [function, item.path, item.path.parent]
        item.stash[_CHECKED] = not alone.isdisjoint(names)
        if item.stash[_CHECKED] or not both.isdisjoint(names):
            item.add_marker("once")


def pytest_collection_finish() -> None:
    """Leave what is collected out of later garbage collections, which many tests ask for."""
    gc.collect()
    gc.freeze()


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
                make, settings=settings(max_examples=examples * _MORE, stateful_step_count=steps, deadline=None)
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
