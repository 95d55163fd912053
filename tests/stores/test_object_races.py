"""Several processes change one node of a bucket, through a proxy whose requests fail before and after they are done.

``just torture --only objects`` does the same for longer, on every server there is.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore as MemoryBucket
from tests.engine.test_races import ACTIONS, act, make, one_after_the_other, state
from tests.servers.buckets import Server

import tegula
from tegula import config, executors
from tegula.stores import ObjectStore
from tegula.stores.object_failures import Failure
from tegula.stores.object_retries import Retries

ROOT = Path(__file__).parents[2]
WORKERS, EACH = 4, 25
CASES = [
    "elements of one chunk, Zarr v3",
    "elements of one shard",
    "attributes, Zarr v2",
    "attributes, Zarr v3",
    "appends, Zarr v3",
    "appends, bcolz table",
    "resizes, Zarr v3",
]
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def part(name: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        return importlib.import_module(f"torture.{name}")


@pytest.fixture(scope="module")
def worker() -> Iterator[Any]:
    """A process that forks others, with the executor of this one."""
    of_kernel = executors.kernel() is not None and config.current().executor != "reference"
    found = part("workers").Worker("tegula" if of_kernel else "reference")
    yield found
    found.stop()


@pytest.fixture(params=["s3_server", "rclone_server"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@forking
@pytest.mark.parametrize("case", CASES)
def test_no_update_is_lost_or_done_twice(case: str, server: Server, worker: Any) -> None:
    objects, updates = part("objects"), part("updates")
    kind, layout = updates.CASES[case]
    count = WORKERS * EACH
    with objects.faulty(server) as buckets:
        paths = [objects.target(bucket, "node") for bucket in buckets]
        facts = updates.race(worker, *paths, kind, layout, count, workers=WORKERS)
    assert facts["acknowledged"] == count, facts
    assert facts.get("lost") == facts.get("doubled", 0) == facts.get("resurrected", 0) == 0, facts
    assert facts["reader"]["torn"] == facts["reader"]["refused"] == 0
    assert facts["reader"]["reads"] > 0


@forking
@pytest.mark.parametrize("case", ["Zarr v2", "Zarr v3", "bcolz array", "bcolz table"])
def test_one_creator_wins(case: str, server: Server, worker: Any) -> None:
    objects, creation = part("objects"), part("creation")
    rounds = 3
    with objects.faulty(server) as (bucket, _):
        facts = creation.trial(worker, objects.target(bucket, "node"), case, rounds).facts
    assert (facts["one"], facts["fine"]) == (rounds, rounds), facts


# --- one step at a time: an answer is lost, and another writer comes before the request is repeated


class Lossy(ObjectStore):
    """A store in memory that loses the answer to one request, and lets another action run before it is repeated."""

    count = 0
    at = -1
    interfere: Callable[[], Any] | None = None

    def __init__(self, bucket: Any) -> None:
        super().__init__(bucket, retries=Retries(first=0.0001))
        once = self.requests.once

        def lossy(action: Callable[[Any, Any], Any]) -> Any:
            self.count += 1
            answer = once(action)
            if self.interfere is None or self.count < self.at:
                return answer
            interfere, self.interfere = self.interfere, None
            interfere()
            return Failure("transient", "the answer was lost")

        self.requests.once = lossy  # type: ignore[method-assign]


@pytest.mark.parametrize("second", ["append", "cut", "element", "attribute"])
@pytest.mark.parametrize("first", ACTIONS)
@pytest.mark.parametrize("layout", ["zarr2", "zarr3", "shards", "bcolz"])
def test_a_lost_answer_is_no_lost_change(layout: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the other one can't wait for this one, which waits for it
    monkeypatch.setattr("tegula.engine.reservations.PATIENCE", 0.002)
    one, two = ACTIONS[first], ACTIONS[second]
    expected = [one_after_the_other(layout, one, two), one_after_the_other(layout, two, one)]
    for at in range(1, 1000):
        bucket = MemoryBucket()
        make(ObjectStore(bucket), layout)
        store = Lossy(bucket)
        array = tegula.open_array(store, mode="r+")
        other = tegula.open_array(ObjectStore(bucket), mode="r+")
        store.at, store.interfere = store.count + at, lambda other=other: act(two, other)  # type: ignore[misc]
        act(one, array)
        if store.interfere is not None:
            assert at > 1
            return
        assert state(ObjectStore(bucket)) in expected, f"the answer to request {at} was lost"
    pytest.fail("it never ends")
