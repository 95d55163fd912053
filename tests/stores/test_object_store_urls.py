"""Object storage by URL: which URLs there are, and where each option goes."""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest

import tegula
from tegula.errors import (
    ConflictError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.stores.objects.options import KNOWN, SCHEMES, ProfileCredentials, sort_options
from tegula.stores.objects.requests import Retries
from tegula.stores.objects.urls import open_url

pytest.importorskip("obstore")
SECRET = "marker5ecret"
PUBLIC = {"skip_signature": True}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def settings(store: Any) -> dict[str, Any]:
    return store.requests.single.settings[1]


@pytest.mark.parametrize(
    ("url", "name", "kind"),
    [
        ("s3://bucket", "s3://bucket", "s3"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b", "s3"),
        ("S3://bucket/a b+c%20ü", "s3://bucket/a b+c%20ü", "s3"),
        ("gs://bucket/x", "gs://bucket/x", "gs"),
        ("gcs://bucket/x", "gs://bucket/x", "gs"),
        ("az://box/x", "az://box/x", "az"),
        ("azure://box/x", "az://box/x", "az"),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x", "az"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x", "az"),
        ("https://example.org/data/", "https://example.org/data", "http"),
        ("http://user:pass@example.org:8000/data?sig=1", "http://example.org:8000/data", "http"),
    ],
)
def test_urls(url: str, name: str, kind: str) -> None:
    options = {} if kind == "http" else {"account_name": "account", **PUBLIC} if url.startswith("az") else PUBLIC
    store = open_url(url, options)
    assert (store.url, store.kind) == (name, kind)
    if kind != "http":
        assert open_url(store.url, options) == store


@pytest.mark.parametrize(
    "url",
    [
        "s3://", "s3:///path", "s3:bucket", f"s3://user:{SECRET}@bucket/a", f"s3://bucket/a?signature={SECRET}",
        f"gs://bucket/a#{SECRET}", "s3://bucket:80/a", f"abfs://box:{SECRET}@account.dfs.core.windows.net/x",
        "http://", f"https://user:{SECRET}@/x", "http://host:port/x", "ftp://host/x", "s3://bucket/a//b",
        "s3://bucket/a/../b", "s3://bucket/a\nb", "s3://bucket/a\t", "http://host/a\n", "s3://[bucket/a", "http://[host",
        "s3://bu cket/a", "s3://../a", "s3://bucket/a?", "gs://bucket/a#", "abfs://@account.dfs.core.windows.net/x",
    ],
)  # fmt: skip
def test_urls_that_can_not_be_opened(url: str) -> None:
    with pytest.raises((MetadataError, StoreError)) as caught:
        open_url(url, {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("address", ["1.2.3.999", "1.2.3.4.5", "a|b", "h ost", "xn--"])
def test_an_address_that_no_server_can_have_is_told(address: str) -> None:
    with pytest.raises(MetadataError, match=rf"'http://{re.escape(address)}/x' is not a valid URL; check"):
        open_url(f"http://user:{SECRET}@{address}/x?signature={SECRET}", {})
    with pytest.raises(MetadataError, match=r"ACCOUNT.dfs.core.windows.net"):
        open_url("abfs://box@example.org/x", {})


def test_options_go_where_they_belong() -> None:
    store = open_url(
        "s3://bucket/x",
        {
            "AWS_REGION": "eu-north-1",
            "access_key_id": "id",
            "aws_secret_access_key": SECRET,
            "timeout": 2.5,
            "connect_timeout": "3s",
            "default_headers": {"x-a": "b"},
            "client_options": {"user_agent": "me", "timeout": timedelta(seconds=9)},
            "retry_config": {"max_retries": 7, "backoff": {"max_backoff": timedelta(seconds=2)}},
            "retry_timeout": 60,
            "missing": (403,),
            "concurrency": 3,
        },
    )
    named = settings(store)
    assert {name: named["config"][name] for name in ("region", "access_key_id", "secret_access_key")} == {
        "region": "eu-north-1",
        "access_key_id": "id",
        "secret_access_key": SECRET,
    }
    assert named["client_options"]["user_agent"] == "me"
    assert named["client_options"]["timeout"] == "9s"
    assert store.requests.retries == Retries(7, 60.0, 0.1, 2.0)
    assert named["retry_config"]["max_retries"] == 0  # single requests are repeated by tegula
    assert store.requests.bulk_handle.settings[1]["retry_config"]["max_retries"] == 7
    assert (store.missing, store.concurrency) == ({403}, 3)
    assert SECRET not in repr(store)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KNOWN)
def test_each_known_setting_is_one_of_obstore(kind: str) -> None:
    scheme = next(scheme for scheme, service in SCHEMES.items() if service == kind)
    unknown = [name for name in KNOWN[kind] if refused(f"{scheme}://bucket", name)]
    assert not unknown


@pytest.mark.parametrize(
    ("url", "name", "meant"),
    [("s3://b", "acces_key_id", "access_key_id"), ("az://b", "acount_name", "account_name"), ("gs://b", "zzz", "")],
)
def test_an_unknown_option_is_answered_with_the_ones_most_like_it(url: str, name: str, meant: str) -> None:
    with pytest.raises(MetadataError) as caught:
        open_url(url, {name: SECRET, "account_name": "x"} if url.startswith("az") else {name: SECRET})
    text = str(caught.value)
    assert ("did you mean" in text) == bool(meant)
    assert meant in text
    assert 'page "Storage options"' in text
    assert SECRET not in text
    assert len(text) < 250


def refused(url: str, name: str) -> bool:
    try:
        open_url(url, {name: "x"})
    except MetadataError as error:
        return "there is no option" in str(error)
    return False


@pytest.mark.parametrize("kind", ["s3", "gs", "az", "http"])
def test_an_unknown_option_is_named(kind: str) -> None:
    with pytest.raises(MetadataError, match=r"'colour'.*Storage options") as caught:
        open_url(f"{kind}://bucket/x", {"colour": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"skip_signature": SECRET},
        {"timeout": SECRET},
        {"timeout": float("nan")},
        {"timeout": 10**400},
        {"connect_timeout": float("inf")},
        {"retries": SECRET},
        {"retries": -1},
        {"retries": float("inf")},
        {"credential_provider": SECRET},
        {"retry_config": {"retry_timeout": SECRET}},
        {"retry_config": {"retry_timeout": float("inf")}},
        {"missing": SECRET},
        {"concurrency": SECRET},
        {"allow_http": SECRET},
        {"default_headers": SECRET},
        {"client_options": SECRET},
        {"retry_config": SECRET},
        {"retries": 1.5},
        {"access_key_id": f"{SECRET}\n"},
        {"session_token": f"{SECRET}\r"},
        {"region": f"{SECRET}\n"},
        {"access_key_id": 5, "secret_access_key": SECRET},
        {"session_token": 5, "access_key_id": "id", "secret_access_key": SECRET},
        {1: 2},
    ],
)
def test_a_value_that_can_not_be_used_is_not_shown(options: Any) -> None:
    with pytest.raises(TegulaError) as caught:
        open_url("s3://bucket", options)
    name = next(iter(options))
    within = isinstance(options.get("retry_config"), dict)
    assert caught.value.field == {1: None}.get(name, "retries" if within else name)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", [5, f"{SECRET}!", f"{SECRET}0"])
def test_an_account_key_is_base64(key: Any) -> None:
    with pytest.raises(MetadataError, match=r"account_key is text.*\(field 'account_key'\)") as caught:
        open_url("az://box/x", {"account_name": "account", "account_key": key})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "key", [SECRET, f"https://account.blob.core.windows.net/box?sv=1&sig={SECRET}", f"sv=1&{SECRET}"]
)
def test_a_signature_is_a_query(key: str) -> None:
    with pytest.raises(MetadataError, match="query of a signed URL") as caught:
        open_url("az://box/x", {"account_name": "a", "sas_key": key})
    assert SECRET not in str(caught.value)
    for good in (
        f"?sv=1&sig={SECRET}%3D%3D",
        f"&sv=1&sig={SECRET}==&",
        f"sv%3D1%26sig%3D{SECRET}",
        f"x=a%26b&sig={SECRET}",
    ):
        assert open_url("az://box/x", {"account_name": "a", "sas_key": good}).kind == "az"


def test_http_is_allowed_where_the_endpoint_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sort_options("s3", {"endpoint": "http://localhost"}).client == {"allow_http": True}
    assert sort_options("s3", {"endpoint": "http://localhost", "allow_http": False}).client == {"allow_http": False}
    assert sort_options("s3", {"endpoint": "https://localhost"}).client == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost")
    assert sort_options("s3", {}).client == {"allow_http": True}


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        SECRET,
        f"{SECRET}:9000",
        "ftp://host",
        "https://",
        "http:// host",
        f"https://{SECRET}@",
        "http://host:99999",
        "http://[::1",
        "http://h\\x",
        "http://ü",
    ],
)
def test_an_endpoint_is_an_address(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MetadataError, match="endpoint must be a URL") as caught:
        open_url("s3://bucket/x", {"endpoint": endpoint, **PUBLIC})
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint or "host")
    with pytest.raises(MetadataError, match="AWS_ENDPOINT_URL must be a URL"):
        open_url("s3://bucket/x", PUBLIC)


def test_anonymous_access() -> None:
    assert sort_options("s3", {"anonymous": True}).config == {"skip_signature": True}
    assert sort_options("gs", {"anon": True}).config == {"skip_signature": True}
    assert sort_options("gs", {"anon": False}).config == {}
    assert sort_options("http", {"anonymous": True}).config == {}
    for text, says in (("False", False), ("no", False), ("0", False), (0, False), ("TRUE", True), (1, True)):
        assert sort_options("s3", {"anon": text}).config == ({"skip_signature": True} if says else {})
    for value in ("perhaps", None, 2, [True]):
        with pytest.raises(MetadataError, match="anonymous must be true or false"):
            sort_options("s3", {"anonymous": value})


def test_profiles_are_read_by_boto3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    assert sort_options("s3", {}).provider is None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id=one\naws_secret_access_key={SECRET}\n"
        f"[other]\naws_access_key_id=two\naws_secret_access_key={SECRET}\nregion=eu-north-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / ".aws" / "credentials"))
    provider = sort_options("s3", {}).provider
    assert provider == ProfileCredentials(None)
    assert provider()["access_key_id"] == "one"
    monkeypatch.setenv("AWS_PROFILE", "other")
    store = open_url("s3://bucket")
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert settings(copy)["credential_provider"]()["access_key_id"] == "two"
    assert settings(store)["credential_provider"].config == {"region": "eu-north-1"}
    for options in ({"access_key_id": "id", "secret_access_key": "x"}, {"skip_signature": True}):
        assert not isinstance(sort_options("s3", options).provider, ProfileCredentials)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    assert sort_options("s3", {}).provider is None


# -- environment and servers


def test_the_environment_says_where_a_bucket_is(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3_server.bucket()
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    store = open_url(bucket.url)
    store.set("a", b"1")
    assert open_url(bucket.url, bucket.options).get("a") == b"1"


def test_arrays_on_a_web_server_are_read_by_name_without_a_listing(http_server: Any, proxied: Any) -> None:
    bucket = http_server.bucket()
    directory = http_server.directory(bucket)
    root = tegula.create_group(str(directory / "group"))
    root.create_array("data", shape=(10,), chunks=(3,), dtype="i4")[:] = range(10)
    proxy = proxied(http_server)
    store = open_url(bucket.through(proxy.endpoint).url + "/group")
    assert store.read_only
    assert not store.capabilities.list
    assert tegula.open_array(store, path="data")[:].tolist() == [*range(10)]
    assert tegula.open_group(store)["data"][2:5].tolist() == [2, 3, 4]
    assert {request.method for request in proxy.requests} <= {"GET", "HEAD"}
    with pytest.raises(UnsupportedError, match="consolidated metadata"):
        list(store.list())
    with pytest.raises(UnsupportedError, match="can't be listed"):
        store.list_dir("")
    with pytest.raises(NotFoundError):
        tegula.open(store, path="nothing")
    assert "nothing" not in tegula.open_group(store)
    with pytest.raises(ReadOnlyError):
        store.set("a", b"1")
    with pytest.raises(ReadOnlyError):
        store.delete("a")
    value = (directory / "group" / "zarr.json").read_bytes()
    for byte_range in ((0, 5), (-5, None), (3, None), (len(value), 3), (-9, 2)):
        assert store.get("zarr.json", byte_range) == tegula.MemoryStore({"a": value}).get("a", byte_range)
    generation = store.get("zarr.json", (0, 0), with_generation=True)[1]
    assert store.get_if_changed("zarr.json", generation) is None
    (directory / "group" / "zarr.json").write_bytes(value + b"\n")
    changed = store.get_if_changed("zarr.json", generation)
    assert changed is not None
    assert changed[0] == value + b"\n"


class Quiet(SimpleHTTPRequestHandler):
    """The web server of Python, which has no byte ranges."""

    def log_message(self, *_: object) -> None: ...


def test_a_web_server_without_byte_ranges_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    store = open_url(f"http://127.0.0.1:{server.server_port}")
    for byte_range, expected in (((2, 3), b"234"), ((-3, None), b"789"), ((20, 1), b""), ((0, 0), b"")):
        assert store.get("a", byte_range) == expected
    assert store.get("b", (1, 2)) is None
    assert store.get("a", with_generation=True) == store.get("a", with_generation=True)
    server.shutdown()
    server.server_close()


class Vague(BaseHTTPRequestHandler):
    """A web server with byte ranges whose answers say little of the state of a file, or what no condition may name."""

    protocol_version = "HTTP/1.1"
    values: ClassVar[dict[str, bytes]] = {}
    tag = "none"
    number = 0
    asked = 0

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.tag in ("405", "501") and self.command == "HEAD":
            self.send_response(int(self.tag))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        value = self.values.get(self.path[1:])
        start, stop = 0, len(value or b"")
        status = 404 if value is None else 200
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if value is not None and wanted:
            first, _, last = wanted.partition("-")
            suffix = 0 if first else int(last)
            start, stop = (
                (int(first) if first else stop - suffix),
                (min(stop, int(last) + 1) if first and last else stop),
            )
            status = 206 if 0 <= start < stop else 416
        if "If-Match" in self.headers and self.tag == "weak":  # which is equal to no ETag, not even to itself
            status = 412
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(value or b'')}")
        if self.tag == "weak":
            self.send_header("ETag", f'W/"{hash(value)}"')
        elif self.tag == "restless":
            type(self).number += 1
            self.send_header("ETag", f'"{self.number}"')
        body = (value or b"")[start:stop] if status in (200, 206) else b""
        if self.tag != "no length" or self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that the server calls


@pytest.fixture
def vague() -> Iterator[tuple[str, type[Vague]]]:
    class Handler(Vague):
        values: ClassVar = {}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["weak", "none"])
def test_parts_are_read_of_one_state_whatever_a_web_server_says_of_it(tag: str, vague: tuple[str, type[Vague]]) -> None:
    url, handler = vague
    handler.tag = tag
    kept: dict[str, bytes] = {}
    values = np.random.default_rng(3).normal(size=(4000, 400))
    a = tegula.create_array(kept, shape=values.shape, chunks=(100, 50), shards=(2000, 400), dtype="f8")
    a[:] = values
    handler.values.update(kept)
    a = tegula.open_array(url)
    for part in (np.s_[1990:2101:10, ::399], np.s_[3999, 399], np.s_[::1999, 5]):
        assert a[part].tolist() == values[part].tolist()
    assert handler.asked < 100

    # what is read is compared with the state that was read before
    store = open_url(url)
    handler.values["x"] = b"0123456789"
    parts, state = store.get_ranges("x", [(2, 3), (-2, None)])
    assert parts == [b"234", b"89"]
    assert store.get_ranges("x", [(0, 1)], state) == ([b"0"], state)
    assert store.get("x", with_generation=True) == (b"0123456789", state)
    assert store.get_if_changed("x", state) is None
    assert store.get("x", (-20, None), with_generation=True) == (b"0123456789", state)
    handler.values["x"] = b"1123456789"
    with pytest.raises(ConflictError):
        store.get_ranges("x", [(0, 1)], state)
    assert store.get("x", (1, 2)) == b"12"


def test_a_range_of_what_changes_each_time_is_an_error(vague: tuple[str, type[Vague]]) -> None:
    url, handler = vague
    handler.tag = "restless"
    handler.values["x"] = b"0123456789"
    with pytest.raises(StoreError, match="has changed each time"):
        open_url(url).get("x", (-20, None))  # of which the server knows no part


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["405", "501", "no length"])
def test_a_web_server_without_head_loses_nothing(tag: str, vague: tuple[str, type[Vague]], tmp_path: Path) -> None:
    url, handler = vague
    handler.tag = tag
    kept: dict[str, bytes] = {}
    a = tegula.create_array(kept, shape=20, chunks=5, dtype="i4", fill_value=7)
    a[5:10] = 1
    handler.values.update(kept, empty=b"")
    expected = [7] * 5 + [1] * 5 + [7] * 10
    assert tegula.open_array(url)[:].tolist() == expected
    tegula.copy(url, str(tmp_path / "copy"))
    assert tegula.open_array(str(tmp_path / "copy"))[:].tolist() == expected
    store = open_url(url)
    assert [store.size(key) for key in ("c/1", "empty", "nothing")] == [len(kept["c/1"]), 0, None]
    assert store.exists("c/1")
    assert store.get("c/1", (0, 0), with_generation=True)[0] == b""
    assert store.get("nothing", (0, 0), with_generation=True)[0] is None
    assert store.get_ranges("c/1", [(-2, None)])[0] == [kept["c/1"][-2:]]
