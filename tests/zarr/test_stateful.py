"""The state machines that zarr-python tests its own stores with, on tegula's store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr", minversion="3")
pytest.importorskip("hypothesis")
import zarr
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import tegula
import tegula.zarr

stateful = pytest.importorskip("zarr.testing.stateful")
pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
FEW = settings(max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[*HealthCheck])


@pytest.fixture(autouse=True)
def all_grids() -> Iterator[None]:
    """Let zarr-python use chunks of varying lengths, which its strategies generate where it has them."""
    some = {name: True for name in ["array.rectilinear_chunks"] if zarr.config.get(name, None) is not None}
    with zarr.config.set(some):
        yield


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("place", ["memory", "files"])
@pytest.mark.parametrize("pipeline", ["tegula.zarr.Pipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"])
def test_hierarchies(place: str, pipeline: str, tmp_path: Path) -> None:
    store = tegula.zarr.store(tegula.MemoryStore() if place == "memory" else tmp_path)
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        run_state_machine_as_test(lambda: stateful.ZarrHierarchyStateMachine(store), settings=FEW)


def test_values() -> None:
    store: Any = tegula.zarr.store(tegula.MemoryStore())
    run_state_machine_as_test(lambda: stateful.ZarrStoreStateMachine(store), settings=FEW)
