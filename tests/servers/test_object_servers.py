"""What tegula relies on, checked on each server by obstore alone: conditions, ranges, listings and races."""

import socket
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore as obs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.exceptions import AlreadyExistsError, GenericError, NotSupportedError, PreconditionError
from tests.servers.azurite import Azurite
from tests.servers.buckets import Bucket, Server
from tests.servers.fixtures import OBJECT_SERVERS
from tests.servers.gcs import Gcs
from tests.servers.rclone import Rclone

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]

VALUE = bytes(range(200))


@pytest.fixture(scope="module", params=OBJECT_SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


@pytest.fixture
def bucket(server: Server) -> Bucket:
    return server.bucket()


@pytest.fixture(scope="module")
def store(server: Server) -> Any:
    """A store with one value, under the key ``ranges``."""
    store = server.bucket().store("prefix")
    obs.put(store, "ranges", VALUE)
    return store


def generation(answer: Any) -> dict[str, str]:
    """Return what a conditional update asks for: obstore takes no member that is None."""
    return {name: answer[name] for name in ("e_tag", "version") if answer.get(name) is not None}


@pytest.mark.sampled(one_in=5)
def test_a_second_creation_is_refused(bucket: Bucket) -> None:
    store = bucket.store()
    obs.put(store, "a/key", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obs.put(store, "a/key", b"second", mode="create")
    assert obs.get(store, "a/key").bytes() == b"first"


def test_an_update_needs_the_present_generation(bucket: Bucket) -> None:
    store = bucket.store()
    first = generation(obs.put(store, "key", b"first"))
    second = generation(obs.put(store, "key", b"second", mode=first))
    with pytest.raises(PreconditionError):
        obs.put(store, "key", b"stale", mode=first)
    assert obs.get(store, "key").bytes() == b"second"
    assert generation(obs.head(store, "key")) == generation(obs.get(store, "key").meta) == second
    obs.put(store, "key", b"third", mode=second)
    assert obs.get(store, "key").bytes() == b"third"


def test_an_update_of_what_was_deleted_is_refused(bucket: Bucket) -> None:
    store = bucket.store()
    first = generation(obs.put(store, "key", b"first"))
    obs.delete(store, "key")
    with pytest.raises((PreconditionError, FileNotFoundError)):
        obs.put(store, "key", b"second", mode=first)
    with pytest.raises(FileNotFoundError):
        obs.head(store, "key")


@pytest.mark.parametrize("name", ["s3_server", "rclone_server"])
def test_a_signed_deletion_has_a_condition(name: str, request: pytest.FixtureRequest) -> None:
    """obstore deletes without conditions only, but signs requests to which a header may be added."""
    store = request.getfixturevalue(name).bucket().store()
    stale = obs.put(store, "key", b"first")["e_tag"]
    present = obs.put(store, "key", b"second")["e_tag"]

    def delete(etag: str) -> int:
        signed = obs.sign(store, "DELETE", "key", timedelta(minutes=1))
        demand = urllib.request.Request(signed, method="DELETE", headers={"If-Match": etag})
        try:
            with urllib.request.urlopen(demand, timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert delete(stale) == 412
    assert obs.get(store, "key").bytes() == b"second"
    assert delete(present) == 204
    with pytest.raises(FileNotFoundError):
        obs.head(store, "key")


def test_the_same_bytes_again_are_a_new_generation_except_on_s3(bucket: Bucket) -> None:
    store = bucket.store()
    first, second = (generation(obs.put(store, "key", b"same")) for _ in range(2))
    assert (first == second) == bucket.url.startswith("s3")


def test_a_condition_holds_for_reading(bucket: Bucket) -> None:
    store = bucket.store()
    first = obs.put(store, "key", b"first")["e_tag"]
    assert obs.get(store, "key", options={"if_match": first, "range": (0, 2)}).bytes() == b"fi"
    obs.put(store, "key", b"second")
    with pytest.raises(PreconditionError):
        obs.get(store, "key", options={"if_match": first, "range": (0, 2)})


def test_absent_keys_are_not_found(bucket: Bucket) -> None:
    store = bucket.store("prefix")
    for read in (obs.get, obs.head):
        with pytest.raises(FileNotFoundError):
            read(store, "absent")
    assert obs.list(store).collect() == []


@pytest.mark.sampled(one_in=6)
def test_a_value_in_parts_is_put_together_and_copied(bucket: Bucket) -> None:
    store = bucket.store()
    value = bytes(range(256)) * (48 << 10)  # 12 MiB
    obs.put(store, "parts", value, use_multipart=True)
    obs.copy(store, "parts", "copy")
    obs.delete(store, ["parts"])
    assert bytes(obs.get(store, "copy").bytes()) == value
    assert [entry["path"] for entry in obs.list(store).collect()] == ["copy"]


@settings(max_examples=25)
@given(start=st.integers(0, len(VALUE) - 1), length=st.integers(1, 300), suffix=st.integers(1, len(VALUE)))
def test_ranges_are_slices(store: Any, start: int, length: int, suffix: int) -> None:
    assert obs.get_range(store, "ranges", start=start, length=length) == VALUE[start : start + length]
    if "Azure" not in type(store).__name__:  # obstore refuses suffixes there, since Azure has none
        suffixed = obs.get(store, "ranges", options={"range": {"suffix": suffix}}).bytes()
        assert suffixed == VALUE[-suffix:]
    rest = obs.get(store, "ranges", options={"range": {"offset": start}}).bytes()
    assert rest == VALUE[start:]


def test_a_suffix_longer_than_the_value_is_the_value_except_on_rclone(server: Server, bucket: Bucket) -> None:
    store = bucket.store()
    obs.put(store, "key", b"short")
    refused = {Rclone: GenericError, Azurite: NotSupportedError}.get(type(server))
    with pytest.raises(refused) if refused else nullcontext():
        assert obs.get(store, "key", options={"range": {"suffix": 100}}).bytes() == b"short"


def test_listings_are_what_was_stored(bucket: Bucket) -> None:
    keys = {"x/y", "x/z", "x/deep/er", "a b", "é/ü", "plus+and&<", "100%/0", "x.y"}
    store = bucket.store("base")
    for key in keys:
        obs.put(store, key, key.encode())
    assert {entry["path"] for entry in obs.list(store).collect()} == keys
    level = obs.list_with_delimiter(store)
    assert {entry["path"] for entry in level["objects"]} == {"a b", "plus+and&<", "x.y"}
    assert set(level["common_prefixes"]) == {"x", "é", "100%"}
    below = obs.list_with_delimiter(store, "x/")
    assert {entry["path"] for entry in below["objects"]} == {"x/y", "x/z"}
    assert below["common_prefixes"] == ["x/deep"]
    for key in keys:
        assert obs.get(store, key).bytes() == key.encode()


def test_racing_creations_have_one_winner(bucket: Bucket) -> None:
    store = bucket.store()

    def create(key: str, name: int) -> bytes | None:
        try:
            obs.put(store, key, b"%d" % name, mode="create")
        except AlreadyExistsError:
            return None
        return b"%d" % name

    with ThreadPoolExecutor(12) as threads:
        for race in range(8):
            key = f"race/{race}"
            winners = [won for won in threads.map(create, 12 * [key], range(12)) if won is not None]
            assert winners == [obs.get(store, key).bytes()]


def test_no_increment_is_lost_under_conditions(server: Server, bucket: Bucket) -> None:
    """Each thread reads, adds one and writes until nothing has come between."""
    store = bucket.store()
    obs.put(store, "count", b"0")

    cut_off = GenericError if isinstance(server, Rclone) else ()  # see there

    def increment(_: int) -> int:
        refused = 0
        while True:
            read = obs.get(store, "count")
            try:
                number = int(bytes(read.bytes())) + 1
            except cut_off:
                continue
            try:
                obs.put(store, "count", b"%d" % number, mode=generation(read.meta))
            except PreconditionError:
                refused += 1
            else:
                return refused

    with ThreadPoolExecutor(6) as threads:
        refused = sum(threads.map(increment, range(24)))
    assert obs.get(store, "count").bytes() == b"24"
    assert refused > 0, "no two threads met, so this has tested nothing"


def test_the_environment_variables_of_a_bucket_reach_it(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    obs.put(bucket.store(), "key", b"value")
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    store = obs.store.from_url(bucket.url, client_options={"allow_http": True})
    assert obs.get(store, "key").bytes() == b"value"


@given(keys=st.sets(st.text("ab/", min_size=1, max_size=4), max_size=12))
def test_a_listing_in_small_pages_is_complete(paged: Gcs, keys: set[str]) -> None:
    stored = {key for key in keys if "//" not in key and not key.startswith("/") and not key.endswith("/")}
    store = paged.bucket().store()
    for key in stored:
        obs.put(store, key, b"")
    assert [entry["path"] for entry in obs.list(store).collect()] == sorted(stored)
    level = obs.list_with_delimiter(store)
    assert [entry["path"] for entry in level["objects"]] == sorted(key for key in stored if "/" not in key)
    assert level["common_prefixes"] == sorted({key.partition("/")[0] for key in stored if "/" in key})


@pytest.fixture(scope="module")
def paged() -> Any:
    with Gcs(page=2) as server:
        yield server


def test_a_client_that_sends_half_a_body_keeps_no_other_waiting(s3_server: Server) -> None:
    """Otherwise one test that ends in the middle of a request could stop all that come after it."""
    store = s3_server.bucket().store()
    parts = urlsplit(s3_server.endpoint)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 10) as stalled:
        stalled.sendall(b"PUT /bucket/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        time.sleep(0.2)
        obs.put(store, "b", b"1")
        assert bytes(obs.get(store, "b").bytes()) == b"1"
