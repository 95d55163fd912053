"""Object storage through the published conformance suite, offline."""

import pickle
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.buckets import Bucket

from tegula.errors import MetadataError, StoreError, UnsupportedError
from tegula.stores import ObjectStore, Store
from tegula.testing import StoreConformance

obstore = pytest.importorskip("obstore")

pytestmark = pytest.mark.once(executors="none")


class TestObjectStoreInMemory(StoreConformance):
    picklable = False

    def make(self) -> Store:
        self.storage = obstore.store.MemoryStore()
        return ObjectStore(self.storage, "a prefix/of two")

    def reopen(self, store: Store) -> Store:
        return ObjectStore(self.storage, "a prefix/of two")

    def reopen_read_only(self, store: Store) -> Store:
        return ObjectStore(self.storage, "a prefix/of two", read_only=True)


RANGES = st.one_of(
    st.tuples(st.integers(0, 60), st.integers(0, 30)),
    st.tuples(st.integers(-60, 60), st.none() | st.integers(0, 30)),
)


@given(st.binary(max_size=50), st.lists(RANGES, max_size=12))
def test_several_ranges_are_what_each_of_them_is(value: bytes, ranges: list[Any]) -> None:
    store = ObjectStore(obstore.store.MemoryStore(), "p")
    generation = store.set("a", value)
    expected = [store.get("a", each) for each in ranges]
    assert store.get_ranges("a", ranges) == (expected, generation)
    assert store.get_ranges("a", ranges, generation) == (expected, generation)


@given(st.binary(max_size=50))
def test_a_view_is_what_get_returns_also_of_a_subclass(value: bytes) -> None:
    class Reversed(ObjectStore):
        def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
            found, generation = super().get(key, byte_range, with_generation=True)
            found = found and found[::-1]
            return (found, generation) if with_generation else found

    storage = obstore.store.MemoryStore()
    for store in (ObjectStore(storage, "p"), Reversed(storage, "p")):
        store.set("a", value)
        view, generation = store.view("a", with_generation=True)
        assert memoryview(view).readonly
        assert (bytes(view), generation) == store.get("a", with_generation=True)
        assert bytes(store.view("a")) == store.get("a")
        assert store.view("b") is None
        assert store.view("b", with_generation=True) == store.get("b", with_generation=True)


def test_a_store_in_memory_stays_in_its_process() -> None:
    with pytest.raises(UnsupportedError, match="memory"):
        pickle.dumps(ObjectStore(obstore.store.MemoryStore()))


def test_stores_over_the_same_objects_are_equal() -> None:
    storage, settings = obstore.store.MemoryStore(), {"skip_signature": True}
    one, two = (ObjectStore(storage, "a") for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != ObjectStore(storage, "b")
    assert one != ObjectStore(obstore.store.MemoryStore(), "a")
    assert ObjectStore(obstore.store.S3Store("b", config=settings)) == ObjectStore(
        obstore.store.S3Store("b", config=settings)
    )
    assert ObjectStore(obstore.store.S3Store("b", config=settings)) != ObjectStore(
        obstore.store.S3Store("b", config={**settings, "endpoint": "https://example.org"})
    )
    assert one != "memory://"


@pytest.mark.parametrize(
    ("store", "prefix", "url"),
    [
        (lambda: obstore.store.S3Store("bkt", prefix="in/ner"), "a", "s3://bkt/in/ner/a"),
        (lambda: obstore.store.GCSStore("bkt", skip_signature=True), "", "gs://bkt"),
        (lambda: obstore.store.AzureStore("box", account_name="x", skip_signature=True), "a/b/", "az://box/a/b"),
        (lambda: obstore.store.LocalStore("/tmp"), "a", "file:///tmp/a"),
        (lambda: obstore.store.HTTPStore("https://example.org/data/?sig=secret"), "", "https://example.org/data"),
    ],
)
def test_urls_of_stores_that_a_user_has_built(store: Any, prefix: str, url: str) -> None:
    assert ObjectStore(store(), prefix).url == url
    assert repr(ObjectStore(store(), prefix)) == f"ObjectStore({url!r})"


def test_arguments_that_can_not_be_used() -> None:
    for wrong in ({}, "s3://bucket", ObjectStore(obstore.store.MemoryStore())):
        with pytest.raises(MetadataError, match="obstore"):
            ObjectStore(wrong)
    mixed = obstore.store.S3Store("b", config={"allow_http": True, "skip_signature": True})
    with pytest.raises(MetadataError, match="client_options"):
        ObjectStore(mixed)
    with pytest.raises(MetadataError, match="concurrency"):
        ObjectStore(obstore.store.MemoryStore(), concurrency=0)
    with pytest.raises(StoreError, match="segment"):
        ObjectStore(obstore.store.MemoryStore(), "a/../b")


def test_a_long_value_is_uploaded_in_parts_unless_it_is_conditional(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server)
    store = ObjectStore(proxy.bucket().store())
    value = bytes(range(256)) * (1 << 17)  # 32 MiB
    with proxy.counted() as seen:
        generation = store.set("a", value + b"x")
    assert [request.method for request in seen].count("PUT") == 3
    assert any("uploads" in request.query for request in seen)
    store.probe()
    with proxy.counted() as seen:
        store.set("a", value, if_generation=generation)
    assert [request.method for request in seen] == ["PUT"]
    assert store.get("a") == value


def test_a_prefix_is_deleted_with_few_requests(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server)
    store = ObjectStore(proxy.bucket().store(), "x")
    for number in range(30):
        store.set(f"a/{number}", b"1")
    store.set("ab", b"1")
    with proxy.counted() as seen:
        store.delete_prefix("a/")
    assert [request.method for request in seen] == ["GET", "POST"]
    assert [*store.list()] == ["ab"]


def put_objects(bucket: Bucket, names: list[str]) -> None:
    """Store empty objects under names that no store would give them."""
    client = import_module("boto3").client(
        "s3",
        endpoint_url=bucket.endpoint,
        aws_access_key_id=bucket.options["access_key_id"],
        aws_secret_access_key=bucket.options["secret_access_key"],
        region_name="us-east-1",
    )
    for name in names:
        client.put_object(Bucket=bucket.name, Key=name, Body=b"")


def test_objects_that_stand_for_directories_are_no_keys(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    store = ObjectStore(bucket.store(), "x")
    put_objects(bucket, ["x/", "x/a/", "x/a/b/"])
    store.set("a/b/empty", b"")
    store.set("a/full", b"1")
    assert sorted(store.list()) == ["a/b/empty", "a/full"]
    assert store.list_dir("") == ([], ["a/"])
    assert store.list_dir("a/") == (["a/full"], ["a/b/"])
    assert store.list_dir("a/b/") == (["a/b/empty"], [])
    assert not store.exists("a/b")


def test_a_name_that_obstore_can_not_list_is_said_to_be_there(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    put_objects(bucket, ["x/a//c"])
    with pytest.raises(StoreError, match="empty"):
        list(ObjectStore(bucket.store(), "x").list())
