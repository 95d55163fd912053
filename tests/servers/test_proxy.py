"""The proxy: what passes it, what it remembers, and each of its faults as obstore meets it."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import obstore as obs
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError
from tests.servers.buckets import Bucket, Server
from tests.servers.faults import Rule
from tests.servers.fixtures import OBJECT_SERVERS
from tests.servers.gcs import Gcs
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.once(executors="none")

ONCE: Any = {"retry_config": {"max_retries": 0}}


@pytest.fixture(scope="module")
def shared(gcs_server: Gcs) -> Iterator[Proxy]:
    with Proxy(gcs_server) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared: Proxy) -> Proxy:
    """A proxy that has seen nothing but the creation of a bucket."""
    shared.set(latency=0, bandwidth=0, stream_bandwidth=0)
    shared.forget()
    return shared


@pytest.fixture
def store(proxy: Proxy) -> Any:
    return proxy.bucket().store(**ONCE)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OBJECT_SERVERS])
def test_requests_pass_unchanged_and_without_secrets(
    name: str, request: pytest.FixtureRequest, proxied: Callable[..., Proxy]
) -> None:
    """Signatures hold behind the proxy where a server checks them, and nothing of them is remembered."""
    server: Server = request.getfixturevalue(name)
    proxy = proxied(server)
    bucket = proxy.bucket()
    value = bytes(range(256)) * (4 << 10)
    store = bucket.store("some where", **ONCE)
    with proxy.counted() as seen:
        obs.put(store, "key", value, mode="create")
        assert bytes(obs.get(store, "key").bytes()) == value
        with pytest.raises(AlreadyExistsError):
            obs.put(store, "key", b"", mode="create")
        assert [entry["path"] for entry in obs.list(store).collect()] == ["key"]
    written, read, refused, listed = seen
    assert (written.method, written.received, written.path.endswith("/some where/key")) == ("PUT", len(value), True)
    assert (read.method, read.sent, read.status, read.upstream) == ("GET", len(value), 200, 200)
    assert refused.status == refused.upstream
    assert refused.status in (409, 412)
    assert "list" in listed.query
    secrets = {"authorization", "x-amz-security-token", "cookie"}
    assert not any(secrets & set(entry.headers) for entry in seen)
    account_key = bucket.options.get("account_key", "test-secret")
    assert not any(account_key in repr(entry) for entry in seen)


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_status_instead_of_the_request(proxy: Proxy, store: Any, status: int) -> None:
    with proxy.fault(status=status, method="PUT") as fault, pytest.raises(BaseError, match=str(status)):
        obs.put(store, "key", b"value")
    assert fault.hits == 1
    assert (proxy.requests[-1].status, proxy.requests[-1].upstream, proxy.requests[-1].fault) == (status, 0, "status")
    with pytest.raises(FileNotFoundError):
        obs.get(store, "key")


@pytest.mark.slow
def test_forbidden_is_an_error_of_its_own(proxy: Proxy, store: Any) -> None:
    with proxy.fault(status=403), pytest.raises(PermissionDeniedError):
        obs.get(store, "key")


@pytest.mark.slow
def test_a_status_after_the_request_was_carried_out(proxy: Proxy) -> None:
    store = proxy.bucket().store()
    with proxy.fault(after_commit=503, method="PUT", times=1) as fault, pytest.raises(AlreadyExistsError):
        obs.put(store, "key", b"value", mode="create")  # the second attempt meets what the first one created
    assert fault.hits == 1
    assert [(seen.status, seen.upstream) for seen in proxy.requests[-2:]] == [(503, 200), (412, 412)]
    assert obs.get(store, "key").bytes() == b"value"


@pytest.mark.slow
@pytest.mark.parametrize(("reset", "stored"), [("before", False), ("after", True)])
def test_a_reset_connection(proxy: Proxy, store: Any, reset: str, stored: bool) -> None:
    with proxy.fault(reset=reset, method="PUT"), pytest.raises(BaseError):
        obs.put(store, "key", b"value")
    assert [entry["path"] for entry in obs.list(store).collect()] == ["key"] * stored
    parts = urlsplit(proxy.endpoint)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 10) as plain, proxy.fault(reset=reset):
        plain.sendall(b"GET /absent/key HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            plain.recv(1)


@pytest.mark.slow
def test_a_body_that_is_cut_off(proxy: Proxy, store: Any) -> None:
    obs.put(store, "key", bytes(1000))
    with proxy.fault(truncate=10, method="GET"):
        with pytest.raises(BaseError):
            obs.get(store, "key").bytes()
        with pytest.raises(http.client.IncompleteRead) as error:
            _get(proxy, proxy.requests[-1].path)
    assert error.value.partial == bytes(10)
    assert len(obs.get(store, "key").bytes()) == 1000


def _get(proxy: Proxy, path: str) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.mark.slow
def test_a_redirect(proxy: Proxy, gcs_server: Gcs) -> None:
    bucket = proxy.bucket()
    store = bucket.store(**ONCE)
    obs.put(store, "key", b"value")
    proxy.forget()
    with proxy.fault(redirect=gcs_server.endpoint, method="GET") as fault:
        assert obs.get(store, "key").bytes() == b"value"
    assert fault.hits == 1
    assert [(seen.status, seen.upstream) for seen in proxy.requests] == [(307, 0)]


@pytest.mark.slow
def test_retry_after_is_sent(proxy: Proxy, store: Any) -> None:
    for seconds, header in ((None, None), (2, "2")):
        with proxy.fault(status=429, retry_after=seconds):
            connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=20)
            connection.request("GET", "/bucket/key")
            response = connection.getresponse()
            assert (response.status, response.getheader("Retry-After")) == (429, header)
            connection.close()


def _seconds(operation: Callable[[], object]) -> float:
    started = time.monotonic()
    operation()
    return time.monotonic() - started


def _fastest(operation: Callable[[], object]) -> float:
    """Return how long an operation takes where nothing else holds it up: the machine may be busy."""
    return min(_seconds(operation) for _ in range(3))


@pytest.mark.slow
def test_slow_bodies_and_delays_take_their_time(proxy: Proxy, store: Any) -> None:
    obs.put(store, "key", bytes(20_000))
    with proxy.fault(drip=50_000):
        assert _seconds(lambda: obs.get(store, "key").bytes()) >= 0.35
    with proxy.fault(delay=0.3, times=1):
        assert _seconds(lambda: obs.head(store, "key")) >= 0.3
        assert _fastest(lambda: obs.head(store, "key")) < 0.3


@pytest.mark.slow
def test_concurrent_requests_wait_together(proxy: Proxy, store: Any) -> None:
    proxy.set(latency=0.2)
    with ThreadPoolExecutor(20) as threads, proxy.counted() as seen:
        together = _fastest(lambda: list(threads.map(lambda n: obs.put(store, str(n), b""), range(20))))
    assert 0.2 <= together < 20 * 0.2 / 2
    assert len(seen) == 3 * 20
    assert min(entry.seconds for entry in seen) >= 0.2
    assert proxy.peak > 10


@pytest.mark.slow
def test_a_bandwidth_is_shared_and_a_streams_is_not(proxy: Proxy, store: Any) -> None:
    obs.put(store, "key", bytes(50_000))

    def read_four() -> None:
        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(lambda _: len(obs.get(store, "key").bytes()), range(4))) == 200_000

    proxy.set(bandwidth=500_000)
    shared = _seconds(read_four)
    proxy.set(bandwidth=0, stream_bandwidth=500_000)
    own = _fastest(read_four)
    assert shared >= 0.35
    assert 0.08 <= own < shared


@pytest.mark.slow
def test_rules_choose_requests(proxy: Proxy, store: Any) -> None:
    def statuses(count: int) -> list[int]:
        proxy.forget()
        for number in range(count):
            connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=20)
            connection.request(("GET", "HEAD")[number % 2], f"/b/{number}/zarr.json?list-type=2&n={number}")
            connection.getresponse().read()
            connection.close()
        return [seen.status for seen in proxy.requests]

    passed, failed = 404, 503
    with proxy.fault(status=failed, method="HEAD"):
        assert statuses(4) == [passed, failed] * 2
    with proxy.fault(status=failed, method="PUT|GET", key="/b/[01]/*.json", query="*n=0"):
        assert statuses(4) == [failed, passed, passed, passed]
    with proxy.fault(status=failed, every=3):
        assert statuses(7) == [passed, passed, failed, passed, passed, failed, passed]
    with proxy.fault(status=failed, skip=2, times=2) as fault:
        assert statuses(6) == [passed, passed, failed, failed, passed, passed]
        assert fault.hits == 2
    with proxy.fault(status=failed, times=1), proxy.fault(status=500, times=2):
        assert statuses(4) == [failed, 500, 500, passed]
    runs = []
    for seed in (1, 1, 2):
        with proxy.fault(status=failed, probability=0.5, seed=seed):
            runs.append(statuses(30))
    assert runs[0] == runs[1] != runs[2]
    assert {passed, failed} == set(runs[0])


def test_a_rule_has_one_fault() -> None:
    with pytest.raises(ValueError, match="one fault"):
        Rule()
    with pytest.raises(ValueError, match="one fault"):
        Rule(status=503, reset="after")


@pytest.mark.slow
def test_what_the_proxy_does_not_know_is_refused_and_it_goes_on(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="has no setting 'lateness'"):
        proxy.set(lateness=1.0)
    assert proxy.count == 0


@pytest.mark.slow
def test_an_unreachable_server_is_a_bad_gateway(proxied: Callable[..., Proxy]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    proxy = proxied(address)
    bucket = Bucket("s3://b", address, {}, "b").through(proxy.endpoint)
    assert b"the server behind the proxy" in _get(proxy, "/b/key")
    assert proxy.requests[-1].status == 502
    assert bucket.endpoint == proxy.endpoint
    with pytest.raises(TypeError, match="make a bucket"):
        proxy.bucket()
