"""``s3``, ``gcs`` and ``http``: specs and URLs as TensorStore has them, and values in a bucket."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import tegula.tensorstore as ts

pytestmark = pytest.mark.once(executors="none")

SPECS: list[dict[str, Any]] = [
    {"driver": "s3", "bucket": "my-bucket", "path": "a/"},
    {"driver": "s3", "bucket": "my-bucket", "path": "a/", "endpoint": "http://localhost:9", "aws_region": "x",
     "requester_pays": True, "host_header": "y", "aws_credentials": {"type": "anonymous"}},
    {"driver": "s3", "bucket": "abc", "use_conditional_write": True, "path": "/a"},
    {"driver": "gcs", "bucket": "my-bucket", "path": "a b/"},
    {"driver": "http", "base_url": "https://host", "path": "/a"},
    {"driver": "http", "base_url": "https://host/b?y=1", "path": "a", "headers": ["a: b"]},
    *({"driver": "http", "base_url": base, "path": path} for base, path in (
        ("https://host/b", ""), ("https://host", "a"), ("https://host/", "a"), ("https://host/", "/a"),
        ("https://host/b%20c/", "a"), ("https://host/", ""),
    )),
    {"driver": "s3"}, {"driver": "s3", "bucket": "B"}, {"driver": "gcs", "bucket": "a"}, {"driver": "http"},
    {"driver": "http", "base_url": "ftp://x"}, {"driver": "http", "base_url": "https://host/x", "path": "/a"},
    {"driver": "s3", "bucket": "abc", "host_header": "x"}, {"driver": "s3", "bucket": "abc", "bukket": "x"},
    {"driver": "s3", "bucket": "abc", "requester_pays": 5}, {"driver": "http", "base_url": "https://h", "headers": 5},
]  # fmt: skip
URLS = [
    "s3://b-b-b/x%20y/", "s3://bbb", "s3://B", "s3://", "s3://bbb/a?q", "s3://bbb/a#q", "gs://bbb/x", "gs://B",
    "https://host:80/x/y?z=1", "http://host", "https://host/a b", "https://host/a#q", "gcs://bbb/x",
    "s3://bbb/a.zip|zip:b",
]  # fmt: skip


def outcome(call: Any) -> Any:
    try:
        result = call()
    except (ValueError, TypeError, NotImplementedError) as error:
        return type(error).__name__ if isinstance(error, NotImplementedError) else "ValueError"
    shown = [result.to_json(), result.path, (result / "q").to_json()]
    try:
        return [*shown, result.url]
    except NotImplementedError:
        return [*shown, "no URL"]


@pytest.mark.parametrize("json", SPECS, ids=json.dumps)
def test_specs_are_those_of_tensorstore(json: dict[str, Any]) -> None:
    theirs = pytest.importorskip("tensorstore")
    result = outcome(lambda: ts.KvStore.Spec(json))
    assert result == outcome(lambda: theirs.KvStore.Spec(json))
    if isinstance(result, list):
        shown = [kind.KvStore.Spec(json).to_json(include_defaults=True) for kind in (ts, theirs)]
        assert shown[0] == shown[1]
        spec = ts.KvStore.Spec(json)
        assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("url", URLS)
def test_urls_are_those_of_tensorstore(url: str) -> None:
    theirs = pytest.importorskip("tensorstore")
    assert outcome(lambda: ts.KvStore.Spec(url)) == outcome(lambda: theirs.KvStore.Spec(url))


@pytest.fixture
def spec(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    bucket = s3_server.bucket()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    return {"driver": "s3", "bucket": bucket.name, "endpoint": bucket.endpoint, "aws_region": "us-east-1"}


def test_values_of_a_bucket(spec: dict[str, Any]) -> None:
    store = ts.KvStore.open({**spec, "path": "some/"}).result()
    store["a"], store["b/c"] = b"value", b"other"
    assert (store["a"], "x" in store, store.list().result()) == (b"value", False, [b"a", b"b/c"])
    assert store.read("a", byte_range=slice(1, 3)).result().value == b"al"
    old = store.read("a").result().stamp.generation
    assert store.read("a", if_not_equal=old).result().state == "unspecified"
    assert store.write("a", b"new", if_equal=old).result().generation not in (b"", old)
    assert store.write("a", b"newer", if_equal=old).result().generation == b""
    assert store.write("b/c", b"x", if_equal=b"\2").result().generation == b""
    assert store.write("a", None, if_equal=old).result().generation == b""
    assert store["a"] == b"new"
    store.write("a", None, if_equal=store.read("a").result().stamp.generation).result()
    store.delete_range(ts.KvStore.KeyRange("b/", "b0")).result()
    assert store.list().result() == []
    assert pickle.loads(pickle.dumps(store)).list().result() == []


def test_what_is_not_supported(spec: dict[str, Any]) -> None:
    for more in ({"host_header": "x"}, {"use_conditional_write": False}):
        with pytest.raises(NotImplementedError):
            ts.KvStore.open({**spec, **more}).result().list().result()


def test_stores_are_shared_by_their_settings(spec: dict[str, Any]) -> None:
    first, other = (ts.KvStore.open({**spec, "path": path}).result() for path in ("a/", "b/"))
    assert first._store is other._store
    few = {**spec, "s3_request_concurrency": {"limit": 3}, "s3_request_retries": {"max_retries": 1}}
    store = ts.KvStore.open(few).result()._store
    assert store is not first._store
    assert store.concurrency == 3
