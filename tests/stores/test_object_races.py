"""Several processes change one node of a bucket, through a proxy whose requests fail before and after they are done.

``just torture --only objects`` does the same for longer, on every server there is.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore as MemoryBucket
from tests.engine.test_races import ACTIONS, act, make, one_after_the_other, state
from tests.servers.buckets import Server
from tests.servers.proxy import Proxy

import tegula
from tegula import config
from tegula.errors import StoreError
from tegula.runtime import executors
from tegula.stores import ObjectStore
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.requests import Retries

ROOT = Path(__file__).parents[2]
WORKERS = 4
EACH = {"s3_server": 5, "gcs_server": 5, "rclone_server": 25}
"""Updates of each process; servers in Python take their time."""
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


@pytest.fixture(params=EACH)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def count(server: Server, request: pytest.FixtureRequest) -> int:
    """Return how many updates all processes make together."""
    return WORKERS * EACH[request.node.callspec.params["server"]]


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@forking
@pytest.mark.parametrize("case", CASES)
def test_no_update_is_lost_or_done_twice(case: str, server: Server, count: int, worker: Any) -> None:
    objects, updates = part("objects"), part("updates")
    kind, layout = updates.CASES[case]
    is_rclone = type(server).__name__ == "Rclone"
    with objects.faulty(server) as buckets:
        paths = [objects.target(bucket, "node") for bucket in buckets]
        facts = updates.race(worker, *paths, kind, layout, count, workers=WORKERS)
    assert facts.get("lost") == facts.get("doubled", 0) == facts.get("resurrected", 0) == 0, facts
    errors = [error for each in [*facts["errors"], facts["reader"]["errors"]] for error in each]
    if is_rclone:  # it sends the beginning of a value that has become longer since it sent the headers
        errors = [error for error in errors if "is not valid JSON" not in error and "the frame says" not in error]
    assert not errors
    assert facts["acknowledged"] == count or is_rclone
    assert facts["reader"]["torn"] == 0 < facts["reader"]["reads"]


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@forking
@pytest.mark.parametrize("case", ["Zarr v2", "Zarr v3", "bcolz array", "bcolz table"])
def test_one_creator_wins(case: str, server: Server, worker: Any) -> None:
    objects, creation = part("objects"), part("creation")
    rounds = 2
    with objects.faulty(server) as (bucket, _):
        facts = creation.trial(worker, objects.target(bucket, "node"), case, rounds).facts
    assert (facts["one"], facts["fine"]) == (rounds, rounds), facts


@pytest.mark.slow
def test_a_listing_that_breaks_off_is_repeated(s3_server: Server, proxied: Callable[..., Proxy]) -> None:
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    store = ObjectStore(bucket.store(), "a", retries=Retries(first=0.001))
    keys = [f"{number % 3}/{number}" for number in range(9)]
    for key in keys:
        store.set(key, b"1")
    for rule in ({"truncate": 7}, {"reset": "before"}, {"reset": "after"}):
        with proxy.fault(query="*list-type=2*", times=2, **rule) as fault:
            assert sorted(store.list_prefix("")) == sorted(keys)
            assert fault.hits == 2
        with proxy.fault(query="*list-type=2*", times=2, **rule) as fault:
            assert store.list_dir("") == ([], ["0/", "1/", "2/"])
            assert fault.hits == 2


def test_a_listing_goes_on_where_it_broke_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.stores.objects.listing._PAGE", 2)
    store = ObjectStore(MemoryBucket(), "a", retries=Retries(first=0.001))
    keys = sorted(f"{number}" for number in range(9))
    for key in keys:
        store.set(key, b"1")
    bulk = store.requests.bulk
    monkeypatch.setattr(store.requests, "bulk", lambda action: bulk(lambda *who: action(Breaking(who[0]), who[1])))
    assert [*store.list_prefix("")] == keys
    assert Breaking.broken == 4


def test_a_listing_without_order_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.stores.objects.listing._PAGE", 2)
    store = ObjectStore(MemoryBucket(), "a", retries=Retries(first=0.001))
    for key in "abcde":
        store.set(key, b"1")
    bulk = store.requests.bulk
    monkeypatch.setattr(store.requests, "bulk", lambda action: bulk(lambda *who: action(Mixing(who[0]), who[1])))
    with pytest.raises(StoreError, match="unordered listing"):
        [*store.list_prefix("")]


@pytest.mark.parametrize(("page", "size"), [(4, 2), (2, 5), (2, 2), (3, 20)])
def test_a_listing_in_a_circle_is_an_error(page: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.stores.objects.listing._PAGE", page)
    store = ObjectStore(MemoryBucket(), "a")
    keys = sorted(f"{number:02}" for number in range(size))
    for key in keys:
        store.set(key, b"1")

    class Circling:
        def list(self, bucket: Any, prefix: Any, *, offset: Any, chunk_size: int) -> Iterator[Any]:
            objects = cycle(importlib.import_module("obstore").list(bucket, prefix).collect())
            while True:
                yield [*islice(objects, chunk_size)]

    bulk = store.requests.bulk
    monkeypatch.setattr(store.requests, "bulk", lambda action: bulk(lambda *who: action(Circling(), who[1])))
    found = []
    with pytest.raises(StoreError, match="lists an object twice"):
        found += islice(store.list_prefix(""), 1000)
    assert len(found) <= 3 * size


def test_a_key_and_the_marker_of_its_folder_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(MemoryBucket(), "a")

    class Marking:
        def list(self, bucket: Any, prefix: Any, *, offset: Any, chunk_size: int) -> Iterator[Any]:
            """List "x", and "x/", which obstore also calls "x"."""
            entry = importlib.import_module("obstore").list(bucket, prefix).collect()[0]
            yield [entry, entry]

    store.set("x", b"1")
    bulk = store.requests.bulk
    monkeypatch.setattr(store.requests, "bulk", lambda action: bulk(lambda *who: action(Marking(), who[1])))
    assert {*store.list_prefix("")} == {"x"}


class Breaking:
    """obstore, whose listings break off after each page but the last."""

    broken = 0

    def __init__(self, library: Any) -> None:
        self.library = library

    def list(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        pages = [*self.library.list(*arguments, **options)]
        yield pages[0]
        if len(pages) > 1:
            Breaking.broken += 1
            raise OSError("kind: Decode")


class Mixing(Breaking):
    """obstore, which lists in no order, too."""

    def list(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        return (page[::-1] if page else page for page in super().list(*arguments, **options))


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
            # in a thread of its own, as in practice: calls in this one are abandoned when the operation has failed
            with ThreadPoolExecutor(1) as other:
                other.submit(interfere).result()
            return Failure("transient", "the answer was lost")

        self.requests.once = lossy


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("second", ["append", "cut", "element", "attribute"])
@pytest.mark.parametrize("first", ACTIONS)
@pytest.mark.parametrize("layout", ["zarr2", "zarr3", "shards", "bcolz"])
def test_a_lost_answer_is_no_lost_change(layout: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the other one can't wait for this one, which waits for it
    monkeypatch.setattr("tegula.engine.concurrency.reservations.PATIENCE", 0.002)
    one, two = ACTIONS[first], ACTIONS[second]
    expected = [one_after_the_other(layout, one, two), one_after_the_other(layout, two, one)]
    for at in range(1, 1000):
        bucket = MemoryBucket()
        make(ObjectStore(bucket), layout)
        store = Lossy(bucket)
        array = tegula.open_array(store, mode="r+")
        other = tegula.open_array(ObjectStore(bucket), mode="r+")
        store.at, store.interfere = store.count + at, lambda other=other: act(two, other)
        act(one, array)
        if store.interfere is not None:
            assert at > 1
            return
        assert state(ObjectStore(bucket)) in expected, f"the answer to request {at} was lost"
    pytest.fail("it never ends")
