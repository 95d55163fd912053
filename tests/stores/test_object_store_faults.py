"""Failed requests to object storage: they are repeated or reported, and never count as a missing value."""

from __future__ import annotations

import logging
import pickle
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.servers.buckets import Server
from tests.stores.crude_s3 import CrudeS3, crude_s3

import tegula
from tegula import config
from tegula.errors import MetadataError, StoreError, TegulaError
from tegula.stores import ABSENT, ObjectStore
from tegula.stores.objects.failures import failure_of
from tegula.stores.objects.requests import Limiter, Retries
from tegula.stores.objects.urls import open_url

obstore = pytest.importorskip("obstore")
SECRET = "marker5ecret"
VALUE = bytes(range(200))
QUICK = {"retries": 4, "backoff": {"init_backoff": 0.001, "max_backoff": 0.01}}


@pytest.fixture
def crude() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


def opened(server: CrudeS3, **options: Any) -> ObjectStore:
    return open_url("s3://bucket/data", {**server.options, **QUICK, **options})


@pytest.fixture
def store(crude: CrudeS3) -> ObjectStore:
    store = opened(crude)
    store.set("a", VALUE)
    crude.seen.clear()
    return store


OPERATIONS = {
    "get": lambda store: store.get("a"),
    "range": lambda store: store.get("a", (3, 5)),
    "generation": lambda store: store.get("a", (0, 0), with_generation=True),
    "many": lambda store: store.get_many([("a", None), ("a", (1, 2))]),
    "ranges": lambda store: store.get_ranges("a", [(1, 2), (-3, None)]),
    "changed": lambda store: store.get_if_changed("a", ABSENT),
    "size": lambda store: store.size("a"),
    "set": lambda store: store.set("b", b"1"),
    "create": lambda store: store.set("c", b"1", if_generation=ABSENT),
    "delete": lambda store: store.delete("d"),
}


# -- passing failures


@pytest.mark.slow
@pytest.mark.sampled(one_in=15)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_passing_failures_are_repeated(crude: CrudeS3, store: ObjectStore, operation: str, status: int) -> None:
    expected = OPERATIONS[operation](store)
    store.delete("c")
    crude.answers = [status] * 3
    assert OPERATIONS[operation](store) == expected
    assert not crude.answers


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", [400, 403, 500, 503, 418])
def test_lasting_failures_are_errors(crude: CrudeS3, store: ObjectStore, operation: str, status: int) -> None:
    crude.answers = [status] * 30
    with pytest.raises(StoreError, match=str(status)) as caught:
        OPERATIONS[operation](store)
    assert "s3://bucket/data" in str(caught.value)
    sent = 30 - len(crude.answers)
    assert sent <= (2 if status in (400, 403, 418) else 5) * (2 if operation in ("many", "create") else 1)


def test_faults_of_the_connection_are_repeated(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    store = open_url(f"{bucket.url}/x", {**bucket.options, **QUICK})
    store.set("a", VALUE)
    for rule in ({"truncate": 50}, {"reset": "before"}, {"reset": "after"}):
        with proxy.fault(method="GET", times=2, **rule) as fault:
            assert store.get("a") == VALUE
            assert store.get("a", (10, 100)) == VALUE[10:110]
            assert fault.hits == 2
        with proxy.fault(method="GET", **rule), pytest.raises(StoreError, match="'a'"):
            store.get("a")
    store.set("certificates/no dns error", VALUE)
    with proxy.fault(method="GET", reset="before", times=2) as fault:
        assert store.get("certificates/no dns error") == VALUE
        assert fault.hits == 2
    with proxy.fault(method="GET", key="*/a", delay=5):
        slow = open_url(f"{bucket.url}/x", {**bucket.options, "timeout": 0.1, "retries": 1})
        with pytest.raises(StoreError, match="in time"):
            slow.get("a")


def test_a_bucket_that_does_not_exist_is_named_as_the_cause(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    store = open_url("s3://no-such-bucket", {**bucket.options, **QUICK})
    for action in (
        lambda: store.get("a"),
        lambda: store.list_dir(""),
        lambda: list(store.list()),
        lambda: store.set("a", b"1"),
        lambda: tegula.open(store),
        lambda: tegula.create_array(store, shape=3, dtype="i4"),
    ):
        with pytest.raises(StoreError, match="no such bucket"):
            action()
    with pytest.raises(StoreError, match="no such"):
        store.set("a", b"1", if_generation=ABSENT)


@pytest.mark.parametrize(
    ("code", "status", "advice"),
    [
        ("AccessDenied", 403, "anonymous=True"),
        ("SignatureDoesNotMatch", 403, "credentials are wrong"),
        ("RequestTimeTooSkewed", 403, "clock"),
        ("AuthenticationFailed", 403, "clock"),
        ("AuthorizationHeaderMalformed", 400, "region"),
        ("Unknown", 403, "anonymous=True"),
        ("NoSuchBucket", 404, "no such bucket"),
        ("ContainerNotFound", 404, "no such bucket"),
        ("BlobArchived", 409, "archived"),
        ("InvalidObjectState", 403, "archived"),
        ("LeaseIdMissing", 412, "holds a lease"),
        ("InvalidResourceName", 400, r"400 Bad Request (InvalidResourceName)"),
    ],
)
def test_a_refusal_says_what_to_do(code: str, status: int, advice: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>"
    failure = failure_of(PermissionError(f"Server returned non-2xx status code: {status} Any: {body}"))
    assert failure.kind == "fatal"
    assert advice in failure.reason
    assert SECRET not in failure.reason


@pytest.mark.parametrize("operation", ["get", "range", "generation", "many", "ranges", "changed", "size"])
@pytest.mark.parametrize("status", [409, 412])
def test_refused_read_is_an_error_not_a_missing_value(
    crude: CrudeS3, store: ObjectStore, operation: str, status: int
) -> None:
    crude.answers = [status]
    with pytest.raises(StoreError, match=str(status)) as caught:
        OPERATIONS[operation](store)
    assert type(caught.value) is StoreError  # no ConflictError, since there was no condition
    crude.answers = [status]
    with pytest.raises(StoreError, match=rf"{status} .*\(Wrong\)"):
        store.get_ranges("a", [(1, 2)])


@pytest.mark.parametrize(
    ("url", "options", "advice"),
    [
        ("s3://bucket/x", {"access_key_id": "a", "secret_access_key": "b"}, "access_key_id .* AWS_ACCESS_KEY_ID"),
        ("gs://bucket/x", {"bearer_token": "a"}, "service_account .* GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://box/x", {"account_name": "a", "token": "b"}, "account_name .* AZURE_STORAGE_ACCOUNT_KEY"),
        ("", {}, "USER:PASSWORD@host.* default_headers"),
    ],
)
def test_an_answer_401_says_which_credentials_to_pass(
    crude: CrudeS3, url: str, options: dict[str, str], advice: str
) -> None:
    endpoint = {"s3": "endpoint", "gs": "base_url", "az": "endpoint"}.get(url[:2])
    place = {} if endpoint is None else {endpoint: crude.endpoint}
    store = open_url(url or f"{crude.endpoint}/x", {**place, **options, "retries": 0})
    wanted = f"401 Unauthorized: the credentials are missing, wrong or have expired; .*{advice}"
    for name in ("get", "size", "ranges", "set", "create", "delete") if url else ("get", "size", "ranges"):
        crude.answers = [401] * 20
        with pytest.raises(StoreError, match=wanted) as caught:
            OPERATIONS[name](store)
        assert ("public data are read with the option anonymous=True" in str(caught.value)) == bool(url)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("ExpiredToken", "get new ones"),
        ("RequestExpired", "get new ones"),
        ("InvalidToken", "are wrong"),
        ("AuthenticationFailed</Code><Detail>Signature not valid in the specified time frame", "have expired"),
    ],
)
def test_credentials_that_are_refused_may_be_renewed_and_say_what_to_do(code: str, advice: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>"
    failure = failure_of(OSError(f"Server returned non-2xx status code: 400 Bad Request: {body}"))
    assert failure.kind == "expired"
    assert advice in failure.reason


@pytest.mark.parametrize(("reason", "requests"), [("dns error", 7), ("ConnectionRefused", 3)])
def test_a_server_that_never_answered_is_given_up_sooner(s3_server: Any, reason: str, requests: int) -> None:
    pauses: list[int] = []

    class Counting(Retries):
        def pause(self, failure: Any, attempts: int, elapsed: float) -> float | None:
            pauses.append(self.count)
            return 0.0 if attempts < self.count else None

    bucket = s3_server.bucket()
    store = open_url(bucket.url, bucket.options)
    for answered in (False, True):
        store.requests.answered, store.requests.retries = answered, Counting(9)
        store.requests.given_up = False
        store.requests.once = lambda action: failure_of(OSError(reason))
        pauses.clear()
        with pytest.raises(StoreError, match=r"refused|resolved"):
            store.get("a")
        assert len(pauses) == (10 if answered else requests)
        with pytest.raises(StoreError, match=r"refused|resolved"):
            store.get("b")
        assert len(pauses) == (20 if answered else requests + 1)  # the address is not tried at length again
    del store.requests.once
    store.requests.answered = False
    assert store.get("a") is None
    assert store.requests.answered


@pytest.mark.parametrize("action", ["list_dir", "list_prefix", "delete_prefix"])
def test_listings_of_a_server_that_refuses_connections_end_soon(action: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        options = {"endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}", "anonymous": True}
        store = open_url("s3://bucket/x", options)
        begin = time.monotonic()
        with pytest.raises(StoreError, match="the connection was refused"):
            deque(getattr(store, action)("") or (), 0)
        assert time.monotonic() - begin < 2


def test_a_panic_of_obstore_is_a_failure_and_an_interrupt_is_none() -> None:
    panic = type("PanicException", (BaseException,), {})
    assert failure_of(panic(SECRET)).kind == "fatal"
    with pytest.raises(KeyboardInterrupt):
        failure_of(KeyboardInterrupt())


@pytest.mark.parametrize("executor", ["reference", "auto"])
def test_unreadable_chunks_and_shards_are_errors_not_fill_values(crude: CrudeS3, executor: str) -> None:
    with config.configure(executor=executor):
        for shards in (None, (4,)):
            store = open_url(f"s3://bucket/{shards}", {**crude.options, **QUICK, "retries": 1})
            array = tegula.create_array(store, shape=8, chunks=2, shards=shards, dtype="u1", fill_value=9)
            array[:] = range(8)
            crude.seen.clear()
            crude.answers = [500] * 1000
            with pytest.raises(StoreError, match="500"):
                array[:3]
            assert len(crude.seen) < 10
            crude.answers = []
            assert array[:].tolist() == [*range(8)]


def test_listings_and_deletions_of_many_are_repeated(crude: CrudeS3, store: ObjectStore) -> None:
    for action, expected in [
        (lambda: [*store.list()], ["a"]),
        (lambda: store.list_dir(""), (["a"], [])),
        (lambda: store.delete_prefix(""), None),
    ]:
        crude.answers = [503, 500]
        assert action() == expected
        assert not crude.answers
    for action in (lambda: [*store.list()], lambda: store.list_dir(""), lambda: store.delete_prefix("")):
        for status in (403, 500):
            crude.answers = [status] * 20
            with pytest.raises(StoreError, match=str(status)):
                action()


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "AccessDenied"])
def test_a_deletion_of_many_that_fails_in_part_is_repeated(
    crude: CrudeS3, store: ObjectStore, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler: Any = crude.RequestHandlerClass
    refusals = [1, 1]

    def post(self: Any, key: str, body: bytes) -> None:
        if refusals.pop():
            self.respond(200, f"<DeleteResult><Error><Key>data/a</Key><Code>{code}</Code><Message>x</Message></Error>"
                              "</DeleteResult>".encode())  # fmt: skip
        else:
            refusals.append(0)
            handler.on_post(self, key, body)

    monkeypatch.setattr(crude, "RequestHandlerClass", type("Refusing", (handler,), {"on_post": post}))
    refusals[:] = [0, 1, 1]
    if code == "AccessDenied":
        with pytest.raises(StoreError, match=code):
            store.delete_prefix("")
    else:
        store.delete_prefix("")
        assert [*store.list()] == []


def test_a_part_of_many_is_known_by_its_status() -> None:
    text = "Generic MicrosoftAzure error: Bulk delete request failed for key a: told (code: {})\n\nDebug: (code: 9)"
    assert failure_of(OSError(text.format(503))).kind == "throttled"
    assert failure_of(OSError(text.format(500))).kind == "transient"
    assert failure_of(OSError(text.format(412))).reason == "the server answers 412 Precondition Failed"


def test_retries_are_those_of_the_store_unless_others_are_given(crude: CrudeS3) -> None:
    settings = {"config": crude.options, "client_options": {"allow_http": True}}
    few = obstore.store.S3Store("bucket", retry_config={"max_retries": 1}, **settings)
    assert ObjectStore(few).requests.retries == Retries(count=1)
    assert ObjectStore(few, retries=Retries(count=2)).requests.retries.count == 2
    assert ObjectStore(obstore.store.S3Store("bucket", **settings)).requests.retries == Retries()


def test_an_answer_that_is_too_short_is_no_value(crude: CrudeS3, store: ObjectStore) -> None:
    crude.stingy = True
    with pytest.raises(StoreError, match="shorter"):
        store.get("a", (10, 20))
    crude.stingy = False
    assert store.get("a", (10, 20)) == VALUE[10:30]


def test_a_refusal_is_absence_only_if_it_is_said_to_be(crude: CrudeS3) -> None:
    crude.answers = [403]
    with pytest.raises(StoreError, match="403 Forbidden"):
        opened(crude).get("a")
    store = opened(crude, missing=(403, 404))
    crude.answers = [403, 403, 403]
    assert store.get("a") is None
    assert store.get("a", (0, 0), with_generation=True) == (None, ABSENT)
    assert store.size("a") is None
    for wrong in ((200,), [[404]], "404", None):
        with pytest.raises(MetadataError, match="missing"):
            opened(crude, missing=wrong)


def test_new_credentials_are_asked_for_once_the_old_ones_are_refused(crude: CrudeS3) -> None:
    asked: list[int] = []

    def credentials() -> dict[str, Any]:
        asked.append(1)
        return {"access_key_id": f"key{len(asked)}", "secret_access_key": SECRET, "token": None, "expires_at": None}

    store = open_url(
        "s3://bucket",
        {"endpoint": crude.endpoint, "region": "us-east-1", "credential_provider": credentials, **QUICK},
    )
    store.set("a", b"1")
    crude.answers = [401]
    assert store.get("a") == b"1"
    assert "key2" in crude.seen[-1][2]
    for action in (lambda: [*store.list()], lambda: store.list_dir("")[0]):
        crude.answers = [401]
        assert action() == ["a"]
    crude.answers = [401] * 10
    with pytest.raises(StoreError, match="401"):
        store.get("a")
    assert len(crude.answers) >= 7  # wrong credentials are not tried again and again


# -- how many requests


def test_ranges_cost_one_request_each(crude: CrudeS3, store: ObjectStore) -> None:
    for byte_range, state, expected, methods in [
        (None, True, VALUE, ["GET"]),
        ((0, 0), True, b"", ["HEAD"]),
        ((5, 0), False, b"", ["HEAD"]),
        ((5, 10), True, VALUE[5:15], ["GET"]),
        ((150, 100), True, VALUE[150:], ["GET"]),
        ((150, None), False, VALUE[150:], ["GET"]),
        ((-7, None), True, VALUE[-7:], ["GET"]),
        ((-7, 3), False, VALUE[-7:-4], ["GET"]),
        ((200, 10), False, b"", ["GET"]),
        ((500, None), False, b"", ["GET"]),
        ((200, 10), True, b"", ["GET", "HEAD"]),
    ]:
        crude.seen.clear()
        answer = store.get("a", byte_range, with_generation=state)
        assert (answer[0] if state else answer) == expected
        assert [method for method, _, _ in crude.seen] == methods


def test_ranges_of_one_value_share_requests_and_a_state(crude: CrudeS3, store: ObjectStore) -> None:
    generation = store.get("a", with_generation=True)[1]
    crude.seen.clear()
    assert store.get_ranges("a", [(190, 50), (0, 10), (20, 5), (7, 0)], generation)[0] == [
        VALUE[190:],
        VALUE[:10],
        VALUE[20:25],
        b"",
    ]
    assert len(crude.seen) == 1
    big = bytes(3 << 20)
    first = store.set("big", big)
    crude.seen.clear()
    found = store.get_ranges("big", [(0, 5), ((2 << 20) + 9, 5), (3 << 20, 9)], first)
    assert [len(part) for part in found[0] or []] == [5, 5, 0]
    assert len(crude.seen) == 2
    assert store.get_ranges("none", [(0, 5)]) == (None, ABSENT)
    store.set("a", b"another")
    with pytest.raises(TegulaError, match="changed"):
        store.get_ranges("a", [(0, 5)], generation)
    assert store.get_if_changed("a", generation) == store.get("a", with_generation=True)


# -- fewer requests at once


def test_a_server_that_asks_for_less_gets_less() -> None:
    limiter = Limiter(64)
    limiter.halve()
    limiter.halve()  # the same burst
    assert limiter.allowed == 32
    for _ in range(10):
        limiter._halved = 0.0
        limiter.halve()
    assert limiter.allowed == 1
    rounds = 0
    while limiter.allowed < 64:
        for _ in range(limiter.allowed):
            limiter.end(None, 0.1)
        rounds += 1
    assert 40 < rounds < 100


def rounds_of(limiter: Limiter, number: int, seconds: Callable[[int], float], waits: bool = True) -> list[int]:
    """Return the levels after each of some rounds; `seconds` is the time of an answer by requests under way."""
    levels = []
    for _ in range(number):
        limiter._round.waited = waits
        for _ in range(limiter.allowed):
            limiter.end(None, seconds(limiter.allowed))
        levels.append(limiter.allowed)
    return levels


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tegula.stores.objects.requests.time.monotonic", lambda: now[0])
    return now


def test_more_requests_are_allowed_as_long_as_they_pay_off(clock: list[float]) -> None:
    limiter = Limiter(64, 256)
    assert (limiter.allowed, limiter.wanted) == (64, 256)
    assert rounds_of(limiter, 3, lambda _: 0.02) == [128, 256, 256]
    assert limiter.wanted == 256

    # a server or a line that answers no more of them in a second
    full = Limiter(64, 256)
    assert rounds_of(full, 4, lambda allowed: 0.001 * allowed) == [128, 64, 64, 64]
    assert full.wanted == 64
    for rest in (1, 2, 4, 8, 16, 32, 32):
        clock[0] += rest - 0.5
        assert rounds_of(full, 2, lambda allowed: 0.001 * allowed) == [64, 64]
        clock[0] += 0.5
        assert full.wanted == 256
        assert rounds_of(full, 2, lambda allowed: 0.001 * allowed) == [128, 64]

    # in between: 128 at once are twice as quick as 64, and 256 are not quicker than 128
    some = Limiter(64, 256)
    assert rounds_of(some, 3, lambda allowed: max(0.02, 0.02 * allowed / 128)) == [128, 256, 64]

    # nothing is tried while no request waits
    assert rounds_of(Limiter(64, 256), 3, lambda _: 0.02, waits=False) == [64, 64, 64]
    assert rounds_of(Limiter(64), 3, lambda _: 0.02) == [64, 64, 64]


def test_a_server_that_asks_for_less_is_not_asked_for_more_for_a_while(clock: list[float]) -> None:
    limiter = Limiter(64, 256)
    rounds_of(limiter, 2, lambda _: 0.02)
    for allowed, wanted in ((128, 128), (64, 64), (32, 64)):
        clock[0] += 1
        limiter.halve()
        assert (limiter.allowed, limiter.wanted) == (allowed, wanted)
    assert rounds_of(limiter, 50, lambda _: 0.02)[-1] == limiter.wanted == 64
    clock[0] += 11
    assert rounds_of(limiter, 2, lambda _: 0.02) == [128, 256]


def test_stores_of_a_bucket_share_what_is_known_of_it(s3_server: Any) -> None:
    options = s3_server.bucket().options
    one, other = (open_url(f"{s3_server.bucket().url}/{name}", options) for name in "ab")
    assert one.requests.limiter is not other.requests.limiter  # of two buckets
    bucket = s3_server.bucket()
    one, other = (open_url(f"{bucket.url}/{name}", bucket.options) for name in "ab")
    assert one.requests.limiter is other.requests.limiter
    assert pickle.loads(pickle.dumps(one)).requests.limiter is one.requests.limiter
    limited = open_url(bucket.url, {**bucket.options, "concurrency": 3})
    assert (limited.concurrency, limited.requests.limiter.most) == (3, 3)
    assert limited.requests.limiter is not one.requests.limiter


def test_a_request_waits_until_another_one_has_ended() -> None:
    limiter = Limiter(5)
    limiter.halve()  # to two and a half
    begun: list[int] = []

    def work(number: int) -> None:
        limiter.begin(number)
        begun.append(number)

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(5)]
    for thread in threads:
        thread.start()
    for ended in range(3):
        wait_until(lambda ended=ended: len(begun) >= 2 + ended)
        time.sleep(0.02)
        assert len(begun) == 2 + ended
        limiter.end(begun[ended])
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_no_more_requests_are_under_way_than_allowed(s3_server: Any, proxied: Any) -> None:
    proxy = proxied(s3_server, latency=0.02)
    bucket = proxy.bucket()
    store = open_url(bucket.url, {**bucket.options, **QUICK, "concurrency": 12})
    store.set("a", b"1")
    proxy.forget()
    assert store.get_many([("a", None)] * 60) == [b"1"] * 60
    assert 6 <= proxy.peak <= 12
    with proxy.fault(method="GET", status=503, times=3):
        assert store.get_many([("a", None)] * 30) == [b"1"] * 30
    assert store.requests.limiter.allowed < 12


def test_retries_end_after_their_number_and_their_time() -> None:
    failure = failure_of(OSError("non-2xx status code: 500 "))
    retries = Retries(count=3, budget=10, first=1, longest=4)
    pauses = [retries.pause(failure, attempt, 0) for attempt in range(4)]
    assert pauses[3] is None
    assert all(low <= (pause or 0) <= 2 * low for pause, low in zip(pauses, (0.5, 1, 2, 0), strict=True))
    assert retries.pause(failure, 0, 9.9) is None
    assert retries.pause(failure_of(FileNotFoundError("")), 0, 0) is None


# -- secrets


def every_text(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield from (str(error), repr(error), repr(error.args))
        yield from every_text(error.__context__)
        error = error.__cause__


@pytest.mark.slow
@pytest.mark.sampled(one_in=17)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", [400, 401, 403, 409, 416, 418, 500, 503, 0])
def test_no_failure_tells_a_secret(
    crude: CrudeS3, operation: str, status: int, capfd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = {"access_key_id": SECRET, "secret_access_key": SECRET, "session_token": SECRET}
    store = opened(crude, **secrets, retries=1)
    crude.answers = [status] * 50
    if status == 0:  # the server has stopped
        store = open_url("s3://bucket/data", {**secrets, "endpoint": "http://127.0.0.1:9", "retries": 0})
    texts = [repr(store), store.url, str(store.capabilities)]
    try:
        OPERATIONS[operation](store)
    except TegulaError as error:
        texts += [*every_text(error), *traceback.format_exception(error)]
    assert not any(SECRET in text for text in [*texts, caplog.text, *capfd.readouterr()])
    assert status in (409, 416) or len(texts) > 3


def test_a_failing_credential_provider_tells_no_secret() -> None:
    def credentials() -> None:
        raise ValueError(SECRET)

    store = open_url("s3://bucket", {"credential_provider": credentials, "retries": 1})
    with pytest.raises(StoreError, match="credential provider") as caught:
        store.get("a")
    assert not any(SECRET in text for text in every_text(caught.value))


def test_a_line_break_in_credentials_of_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"{SECRET}\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = open_url("s3://bucket/data", {"endpoint": "http://127.0.0.1:9", "region": "x"})
    with pytest.raises(StoreError, match="or the environment, holds a line break") as caught:
        store.get("a")
    assert SECRET not in str(caught.value)


def test_a_signed_address_tells_no_secret(crude: CrudeS3) -> None:
    address = crude.endpoint.replace("//", f"//user:{SECRET}@") + f"/bucket?signature={SECRET}"
    store = open_url(address, {"retries": 0})
    assert store.url == crude.endpoint + "/bucket"
    crude.answers = [500]
    with pytest.raises(StoreError) as caught:
        store.get("a")
    assert not any(SECRET in text for text in [repr(store), *every_text(caught.value)])
    assert pickle.loads(pickle.dumps(store)) == store


@pytest.mark.slow
@pytest.mark.sampled(one_in=16)
@pytest.mark.parametrize("name", ["x//c", "..", "./b", "a/../b", "bell\a"])
def test_names_that_obstore_can_not_list_are_told_and_hinder_nothing_else(s3_server: Server, name: str) -> None:
    bucket = s3_server.bucket()
    s3 = pytest.importorskip("boto3").client(
        "s3", endpoint_url=bucket.endpoint, region_name="us-east-1",
        aws_access_key_id="test-key", aws_secret_access_key="test-secret",
    )  # fmt: skip
    url, options = f"{bucket.url}/g", bucket.storage_options
    group = tegula.create_group(url, storage_options=options)
    group["sub/inner"] = [1, 2, 3]
    s3.put_object(Bucket=bucket.name, Key=f"g/{name}", Body=b"1")
    # what needs no listing of that level
    opened = tegula.open_group(url, mode="r+", storage_options=options)
    assert opened["sub/inner"][:].tolist() == [1, 2, 3]
    assert [*opened["sub"]] == ["inner"]
    opened["other"] = [4]
    assert tegula.open(f"{url}/other", storage_options=options)[:].tolist() == [4]
    # what needs one names the object, or the beginning of its name
    with pytest.raises(StoreError, match="delete or rename it") as caught:
        opened.store.delete_prefix("")
    assert repr(f"g/{name}")[1:6] in str(caught.value)
    assert "Debug" not in str(caught.value)
    s3.delete_object(Bucket=bucket.name, Key=f"g/{name}")
    assert sorted(opened) == ["other", "sub"]


def test_a_closed_store_says_so(crude: CrudeS3) -> None:
    store = open_url("s3://bucket/data", {**crude.options, **QUICK})
    generation = store.set("a", b"1")
    other = pickle.loads(pickle.dumps(store))
    store.close()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.get("a"), lambda: store.size("a"), lambda: store.set("a", b"2"), lambda: store.delete("a"),
        lambda: [*store.list()], lambda: store.list_dir(""), lambda: store.get_ranges("a", [(0, 1)]),
        lambda: store.get_if_changed("a", generation), lambda: store.set("a", b"2", if_generation=generation),
        lambda: store.delete_prefix(""), lambda: store.get_many([("a", None), ("b", None)]),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(StoreError, match=r"ObjectStore\('s3://bucket/data'\) is closed; open it again"):
            use()
    assert pickle.loads(pickle.dumps(store)).get("a") == other.get("a") == b"1"
    with tegula.create_group("s3://bucket/g", storage_options=crude.options) as group:
        member = group.create_array("a", shape=3, dtype="i4")
    with pytest.raises(StoreError, match="is closed"):
        member[:]
