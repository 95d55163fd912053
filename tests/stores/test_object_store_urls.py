"""Object storage by URL: which URLs there are, and where each option goes."""

from __future__ import annotations

import pickle
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import tegula
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError, StoreError, TegulaError, UnsupportedError
from tegula.stores.object_credentials import ProfileCredentials
from tegula.stores.object_options import KNOWN, sort_options
from tegula.stores.object_retries import Retries
from tegula.stores.object_urls import SCHEMES, open_url

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
        {1: 2},
    ],
)
def test_a_value_that_can_not_be_used_is_not_shown(options: Any) -> None:
    with pytest.raises(TegulaError) as caught:
        open_url("s3://bucket", options)
    name = next(iter(options))
    assert caught.value.field == {"retry_config": "retries", 1: None}.get(name, name)
    assert SECRET not in str(caught.value)


def test_http_is_allowed_where_the_endpoint_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sort_options("s3", {"endpoint": "http://localhost"}).client == {"allow_http": True}
    assert sort_options("s3", {"endpoint": "http://localhost", "allow_http": False}).client == {"allow_http": False}
    assert sort_options("s3", {"endpoint": "https://localhost"}).client == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost")
    assert sort_options("s3", {}).client == {"allow_http": True}


@pytest.mark.parametrize("endpoint", ["", SECRET, f"{SECRET}:9000", "ftp://host", "https://", "http:// host"])
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
        with pytest.raises(MetadataError, match="anonymous is true or false"):
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
    assert (store.get_if_changed("zarr.json", generation) or [None])[0] == value + b"\n"


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
