"""Conditional writes to object storage happen once or not at all, and endpoints are tested before they are trusted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.servers.buckets import Server
from tests.servers.fixtures import OBJECT_SERVERS
from tests.stores.crude_s3 import CrudeS3, crude_s3
from tests.waiting import join, until

from tegula.errors import ConflictError, ReadOnlyError, StoreError
from tegula.stores import ABSENT, ObjectStore
from tegula.stores.objects import writes as object_writes
from tegula.stores.objects.conditions import known_conditions, storage_of
from tegula.stores.objects.failures import Failure
from tegula.stores.objects.generations import new_write, position, reaches_back
from tegula.stores.objects.requests import Requests, Retries
from tegula.stores.objects.urls import open_url
from tegula.testing.suite import run_together

obstore = pytest.importorskip("obstore")

pytestmark = pytest.mark.once(executors="none")
QUICK = Retries(count=40, budget=60, first=0.0005, longest=0.01)


@pytest.fixture
def crude() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


def opened(server: CrudeS3, **options: Any) -> ObjectStore:
    backoff = {"retry_config": {"backoff": {"init_backoff": 0.001, "max_backoff": 0.01}}}
    return open_url("s3://bucket/data", {**server.options, **backoff, **options})


def increment(store: ObjectStore, times: int, done: list[int] | None = None) -> None:
    for _ in range(times):
        while True:
            value, generation = store.get("n", with_generation=True)
            number = int(value or b"0") + 1
            try:
                store.set("n", b"%d" % number, if_generation=generation)
            except ConflictError:
                continue
            if done is not None:
                done.append(number)
            break


# -- writes whose answers get lost


class Unreliable(Requests):
    """Requests that are lost before or after they are carried out, or carried out twice, at random."""

    def __init__(self, requests: Requests, seed: int, *, twice: bool = True) -> None:
        self.__dict__ = requests.__dict__
        self.twice = twice
        self.random, self.guard = random.Random(seed), threading.Lock()
        self.struck = 0

    def once(self, action: Any) -> Any:
        time.sleep(0.0005)  # as over a network: no thread lags hundreds of writes behind the others
        with self.guard:
            fate = self.random.random()
            self.struck += fate < 0.3
        if fate < 0.06:
            return Failure("throttled", "the server answers 503", 503)
        if fate < 0.2:
            super().once(action)
            return Failure("transient", "the connection was lost")
        if fate < 0.3 and self.twice:
            super().once(action)
        return super().once(action)


@pytest.mark.slow
def test_each_increment_happens_once_even_if_answers_are_lost() -> None:
    storage = obstore.store.MemoryStore()
    stores = [ObjectStore(storage, retries=QUICK) for _ in range(8)]
    for seed, store in enumerate(stores):
        store.requests = Unreliable(store.requests, seed)
    done: list[int] = []
    run_together([partial(increment, store, 200, done) for store in stores])
    assert ObjectStore(storage).get("n") == b"1600"
    assert sorted(done) == [*range(1, 1601)]  # and no two writers took the same step
    assert sum(store.requests.struck for store in stores) > 1000


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("server", OBJECT_SERVERS)
def test_increments_through_a_proxy_that_fails_after_the_commit(server: str, request: Any, proxied: Any) -> None:
    origin: Server = request.getfixturevalue(server)
    proxy = proxied(origin)
    bucket = proxy.bucket()
    stores = [ObjectStore(bucket.store(), retries=QUICK) for _ in range(3)]
    stores[0].probe()
    done: list[int] = []
    with (
        proxy.fault(method="PUT", after_commit=500, probability=0.15, seed=1) as failed,
        proxy.fault(method="PUT", reset="after", probability=0.1, seed=2) as reset,
        proxy.fault(status=503, probability=0.05, seed=3),
    ):
        run_together([partial(increment, store, 15, done) for store in stores])
    assert stores[0].get("n") == b"45"
    assert sorted(done) == [*range(1, 46)]
    assert failed.hits
    assert reset.hits


def test_overtaken_write_counts_but_its_generation_is_outdated(crude: CrudeS3) -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    first = store.set("a", b"1", if_generation=ABSENT)
    inner = store.requests

    class Overtaken(Requests):
        """The first write is carried out, its answer lost, and another writer is quicker than the second look."""

        def __init__(self) -> None:
            self.__dict__ = inner.__dict__

        def once(self, action: Any) -> Any:
            super().once(action)
            store.requests = inner
            value, generation = store.get("a", with_generation=True)
            assert value == b"2"
            store.set("a", b"3", if_generation=generation)
            return Failure("transient", "the connection was lost")

    store.requests = Overtaken()
    second = store.set("a", b"2", if_generation=first)
    assert store.get("a") == b"3"
    assert second not in (first, store.get("a", with_generation=True)[1])
    with pytest.raises(ConflictError):
        store.set("a", b"4", if_generation=second)


@pytest.mark.parametrize("count", [0, 1, 5, 299, 300, 301, 450])
def test_a_history_names_the_last_300_writes(count: int) -> None:
    storage = ObjectStore(obstore.store.MemoryStore())
    generations: list[Any] = []
    for _ in range(count):
        generations.append(storage.set("a", b"", if_generation=generations[-1] if generations else ABSENT))
    last = generations[-1].history if count else ""
    writes = [generation.history[:6] for generation in reversed(generations)]
    assert [position(write, last) for write in writes] == [*range(min(count, 300))] + [None] * (count - 300)
    assert len(new_write(generations[-1] if count else ABSENT)[1]) <= 1800  # bytes of metadata
    assert [reaches_back(last, generation) for generation in reversed(generations)] == [
        number < 300 or count < 300 for number in range(count)
    ]
    assert not count or storage.get("a", (0, 0), with_generation=True)[1] == generations[-1]


def test_unresolvable_lost_answer_is_an_error_not_a_conflict() -> None:
    store = ObjectStore(obstore.store.MemoryStore())
    first = store.set("a", b"0", if_generation=ABSENT)
    inner = store.requests

    class Overrun(Requests):
        """The answer to the first write is lost, and 400 others follow before the second look."""

        def __init__(self) -> None:
            self.__dict__ = inner.__dict__

        def once(self, action: Any) -> Any:
            super().once(action)
            store.requests = inner
            increment_from(store, 400)
            return Failure("transient", "the connection was lost")

    def increment_from(store: ObjectStore, times: int) -> None:
        generation = store.get("a", (0, 0), with_generation=True)[1]
        for _ in range(times):
            generation = store.set("a", b"x", if_generation=generation)

    store.requests = Overrun()
    with pytest.raises(StoreError, match="to tell whether"):
        store.set("a", b"1", if_generation=first)


# -- endpoints without the conditions that they promise


@pytest.mark.slow
@pytest.mark.parametrize("conditions", ["ignored", "creation", "refused"])
def test_a_service_that_ignores_conditions_has_a_single_writer(crude: CrudeS3, conditions: str) -> None:
    crude.conditions = conditions
    store = opened(crude)
    assert not store.single_writer
    first = store.set("a", b"1", if_generation=ABSENT)
    assert store.single_writer
    assert not store.capabilities.conditional_write
    assert opened(crude).single_writer  # known by now
    with pytest.raises(ConflictError):
        store.set("a", b"2", if_generation=ABSENT)
    second = store.set("a", b"2", if_generation=first)
    with pytest.raises(ConflictError):
        opened(crude).set("a", b"3", if_generation=first)
    assert store.get("a", with_generation=True) == (b"2", second)
    run_together([partial(increment, opened(crude), 25)] * 4)  # threads of this process do not lose anything
    assert store.get("n") == b"100"


@pytest.mark.slow
def test_stores_of_one_bucket_exclude_each_other_whatever_their_names(crude: CrudeS3) -> None:
    crude.conditions = "ignored"
    options = crude.options
    stores = [open_url(url, options) for url in ("s3://bucket/data", "s3://bucket//data", "s3a://bucket/data/")]
    stores.append(ObjectStore(stores[0].requests.single.get(), "data", url="mine", missing=(403, 404)))
    stores[0].set("n", b"0", if_generation=ABSENT)
    assert [store.probe().single_writer for store in stores] == [True] * 4
    run_together([partial(increment, store, 20) for store in stores])
    assert stores[0].get("n") == b"80"


CHANGES: dict[str, tuple[Callable[[ObjectStore], object], bytes | None]] = {
    "set": (lambda store: store.set("a", b"3"), b"3"),
    "delete": (lambda store: store.delete("a"), None),
    "delete_prefix": (lambda store: store.delete_prefix(""), None),
}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_comparison_and_write_are_atomic_between_threads(
    crude: CrudeS3, change: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crude.conditions = "ignored"
    early = opened(crude)  # before the test of conditions, so that it has not heard of the result
    store = opened(crude)
    first = store.set("a", b"1", if_generation=ABSENT)
    other = early if before else opened(crude)
    act, expected = CHANGES[change]
    look, lock_of = object_writes._look, ObjectStore._lock_of
    waits = threading.Event()
    thread = threading.Thread(target=act, args=(other,))

    def lock_asked_for(self: ObjectStore, key: str) -> Any:
        if threading.current_thread() is not writer:
            waits.set()
        return lock_of(self, key)

    def look_and_let_another_act(*arguments: Any) -> Any:
        found = look(*arguments)
        thread.start()
        until(lambda: waits.is_set() or not thread.is_alive())
        return found

    writer = threading.current_thread()
    monkeypatch.setattr(ObjectStore, "_lock_of", lock_asked_for)
    monkeypatch.setattr(object_writes, "_look", look_and_let_another_act)
    store.set("a", b"2", if_generation=first)
    join([thread])
    assert store.get("a") == expected  # it came after the write


@pytest.mark.slow
def test_a_service_with_conditions_has_many_writers(crude: CrudeS3) -> None:
    store = opened(crude)
    store.set("a", b"1", if_generation=ABSENT)
    assert not store.single_writer
    assert store.probe().conditional_write
    run_together([partial(increment, opened(crude), 25)] * 4)
    assert store.get("n") == b"100"
    assert sorted(crude.values) == ["/bucket/data/a", "/bucket/data/n"]


def test_a_bucket_is_tested_once_and_nothing_is_left_of_that(crude: CrudeS3) -> None:
    store = opened(crude)
    store.set("a", b"1")
    store.get("a"), store.get("b"), store.size("a")
    assert not any(".tegula-probe-" in key for _, key, _ in crude.seen)  # reading, and writing without a condition
    for key in "bcd":
        opened(crude).set(key, b"1", if_generation=ABSENT)
    tested = [key for _, key, _ in crude.seen if ".tegula-probe-" in key]
    assert len(tested) <= 8
    assert len({*tested}) == 1
    assert not any(".tegula-probe-" in key for key in crude.values)
    with pytest.raises(ReadOnlyError):
        open_url("s3://elsewhere", crude.options, read_only=True).set("a", b"", if_generation=ABSENT)
    assert not open_url("s3://elsewhere", crude.options, read_only=True).probe().write
    assert not any("elsewhere" in key for _, key, _ in crude.seen)


def test_read_only_bucket_is_not_mistaken_for_one_without_conditions(crude: CrudeS3) -> None:
    crude.answers = [403]
    store = opened(crude)
    with pytest.raises(StoreError, match="403 Forbidden"):
        store.set("a", b"1", if_generation=ABSENT)
    store.set("a", b"1", if_generation=ABSENT)  # the permission has been granted
    assert not store.single_writer


def test_lost_answer_is_judged_by_bytes_if_objects_keep_no_metadata(crude: CrudeS3) -> None:
    crude.metadata = False
    store = opened(crude)
    first = store.set("a", b"1", if_generation=ABSENT)
    store.requests = Unreliable(store.requests, 5, twice=False)
    for number in range(20):
        first = store.set("a", b"%d" % number, if_generation=first)
    assert store.get("a") == b"19"
    assert not store.single_writer


def test_endpoints_of_the_services_themselves_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)

    def storage(**options: Any) -> object:
        store = open_url("s3://bucket", {"skip_signature": True, **options})
        return storage_of("s3", store.requests.single.settings)

    assert known_conditions(storage()) == (True, True, False)
    assert known_conditions(storage(endpoint="https://minio.example.org")) is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example.org")
    assert known_conditions(storage()) is None


@pytest.mark.slow
def test_a_key_of_google_may_name_another_server(gcs_server: Server, tmp_path: Any) -> None:
    bucket = gcs_server.bucket()
    (tmp_path / "key.json").write_text(bucket.options["service_account_key"])
    by_text = open_url(bucket.url, {**bucket.options, "allow_http": True})
    by_path = open_url(bucket.url, {"service_account": str(tmp_path / "key.json"), "allow_http": True})
    for store in (by_text, by_path):
        found = storage_of("gs", store.requests.single.settings)
        assert found is not None
        assert "private_key" not in repr(found)
    assert storage_of("gs", open_url("gs://bucket", {"anonymous": True}).requests.single.settings) is None


def test_files_through_obstore_have_a_single_writer(tmp_path: Any) -> None:
    store = ObjectStore(obstore.store.LocalStore(tmp_path))
    run_together([partial(increment, store, 25)] * 4)
    assert store.get("n") == b"100"
    assert store.single_writer
