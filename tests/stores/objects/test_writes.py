"""Conditional deletion of objects, where a service was found to have it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.servers.buckets import Server
from tests.servers.proxy import Proxy
from tests.stores.crude_s3 import CrudeS3, crude_s3

import tegula
from tegula.errors import ConflictError, StoreError, UnsupportedError
from tegula.stores import ABSENT, ObjectStore
from tegula.stores.objects import store as object_store
from tegula.stores.objects.requests import Retries
from tegula.stores.objects.urls import open_url
from tegula.testing.suite import run_together

pytest.importorskip("obstore")
QUICK = {"backoff": {"init_backoff": 0.001, "max_backoff": 0.01}}


@pytest.fixture
def crude() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


def opened(server: CrudeS3, **options: Any) -> ObjectStore:
    return open_url("s3://bucket/data", {**server.options, **QUICK, **options})


@pytest.mark.parametrize("deletes", ["hold", "ignored", "refused", "missing"])
def test_an_endpoint_is_used_only_if_it_keeps_the_condition(crude: CrudeS3, deletes: str) -> None:
    crude.deletes = deletes
    store = opened(crude)
    assert not store.capabilities.conditional_delete
    array = tegula.create_array(store, shape=8, chunks=4, dtype="i4")
    array[:4] = 7
    array[0] = 8  # the first conditional write of a chunk: the endpoint is tested
    assert store.capabilities.conditional_delete == (deletes == "hold")
    assert (
        opened(crude).conditional_delete == pickle.loads(pickle.dumps(store)).conditional_delete == (deletes == "hold")
    )
    assert not [key for key in crude.values if "probe" in key]
    # the engine deletes a chunk that is empty again, where that is safe
    array[:4] = 0
    assert store.exists("c/0") == (deletes != "hold")
    assert (array[:] == 0).all()
    generation = store.set("x", b"1")
    if deletes != "hold":
        with pytest.raises(UnsupportedError):
            store.delete("x", if_generation=generation)
        assert store.get("x") == b"1"


def test_an_outdated_condition_leaves_the_object(crude: CrudeS3) -> None:
    crude.deletes = "hold"
    store = opened(crude)
    store.probe()
    old = store.set("a", b"1")
    new = store.set("a", b"2", if_generation=old)
    for wrong in (old, ABSENT, replace(new, superseded=True), b"of another store"):
        with pytest.raises(ConflictError):
            store.delete("a", if_generation=wrong)
    assert store.get("a") == b"2"
    store.delete("a", if_generation=new)
    store.delete("a", if_generation=ABSENT)
    with pytest.raises(ConflictError):
        store.delete("a", if_generation=new)


def test_no_conditional_delete_without_signature_or_behind_a_proxy(crude: CrudeS3) -> None:
    crude.deletes = "hold"
    where = {"endpoint": crude.endpoint, "region": "us-east-1"}
    for store in (
        opened(crude, client_options={"proxy_excludes": "x"}),
        open_url("s3://open/data", {**where, "anonymous": True}),
    ):
        able = store.probe()
        assert able.conditional_write
        assert not able.conditional_delete


@pytest.mark.slow
def test_other_services_have_no_such_request(rclone_server: Server, azure_server: Server) -> None:
    for server in (rclone_server, azure_server):  # rclone deletes what is not there on any condition
        store = ObjectStore(server.bucket().store())
        assert not store.probe().conditional_delete
        assert [*store.list()] == []


def test_endpoints_that_need_no_test_are_tested_for_it_on_demand(
    crude: CrudeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "storage_of", lambda *_: None)  # as for those of AWS
    crude.deletes = "hold"
    store = opened(crude)
    store.set("a", b"1", if_generation=ABSENT)
    assert not [key for _, key, _ in crude.seen if "probe" in key]
    assert not store.conditional_delete
    assert store.probe().conditional_delete
    store.set("b", b"1", if_generation=ABSENT)
    assert store.conditional_delete


def test_a_lost_answer_is_looked_after(crude: CrudeS3) -> None:
    crude.deletes = "hold"
    store = opened(crude)
    store.probe()
    # it was deleted: the next attempt does not find it
    generation = store.set("a", b"1")

    class Lost(dict[str, Any]):
        def pop(self, key: str, *default: Any) -> Any:
            found = super().pop(key, *default)
            if key.endswith("/a"):
                raise ConnectionError  # instead of an answer
            return found

    crude.values = Lost(crude.values)
    store.delete("a", if_generation=generation)
    assert not store.exists("a")
    # it was not
    generation = store.set("b", b"1")
    crude.answers = [500, 503]
    store.delete("b", if_generation=generation)
    assert not store.exists("b")
    crude.answers = [500]
    with pytest.raises(ConflictError):
        store.delete("c", if_generation=replace(generation, superseded=True))


@pytest.mark.parametrize("status", [400, 403, 500, 307])
def test_messages_hold_nothing_of_a_signed_url(crude: CrudeS3, status: int) -> None:
    crude.deletes = "hold"
    store = opened(crude, retries=2, secret_access_key="very-secret", access_key_id="hidden-id")
    store.probe()
    generation = store.set("a", b"1")
    crude.answers = [status] * 3
    with pytest.raises(StoreError) as caught:
        store.delete("a", if_generation=generation)
    shown = [caught.value, caught.value.__cause__, caught.value.__context__]
    for text in ("Signature", "X-Amz", "very-secret", "hidden-id", "://127"):
        assert text not in " ".join(map(str, shown))
    assert "delete" in str(caught.value)
    crude.answers = []
    assert store.get("a") == b"1"


@pytest.mark.slow
def test_of_many_writers_none_loses_its_elements(s3_server: Server, proxied: Callable[..., Proxy]) -> None:
    """Each owns an element of one chunk, which is deleted whenever all of them are 0."""
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    stores = [ObjectStore(bucket.store(), retries=Retries(count=40, budget=60, first=0.001)) for _ in range(3)]
    tegula.create_array(stores[0], shape=len(stores), chunks=len(stores), dtype="i4")
    assert stores[0].probe().conditional_delete
    stores[1].probe(), stores[2].probe()

    def work(number: int) -> None:
        array, draw = tegula.open_array(stores[number], mode="r+"), random.Random(number)
        for turn in range(1, 15):
            value = turn if draw.random() < 0.3 else 0
            array[number] = value
            assert array[number] == value
        array[number] = -number

    with (
        proxy.fault(method="DELETE", after_commit=500, probability=0.3, seed=1) as failed,
        proxy.fault(method="DELETE", reset="after", probability=0.2, seed=2) as reset,
        proxy.fault(method="PUT", after_commit=500, probability=0.1, seed=3),
    ):
        run_together([partial(work, number) for number in range(len(stores))])
    assert np.array_equal(tegula.open_array(stores[0])[:], [-number for number in range(len(stores))])
    assert failed.hits + reset.hits  # which of the two depends on the order of the requests
    assert [each for each in proxy.requests if each.method == "DELETE" and each.upstream == 412]
