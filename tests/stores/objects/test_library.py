"""Connections that stores of one bucket share."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.crude_s3 import CrudeS3, crude_s3

import tegula
from tegula.stores import ObjectStore
from tegula.stores.objects import library as object_library
from tegula.stores.objects.library import LIMIT
from tegula.stores.objects.urls import open_url
from tegula.testing.suite import run_together

obstore = pytest.importorskip("obstore")
SECRET = "marker5ecret/with/slashes"
OPTIONS = {"access_key_id": "id", "secret_access_key": SECRET, "region": "us-east-1"}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    kept = [*object_library._here.cached.items()]
    object_library._here.cached.clear()
    yield
    object_library._here.cached.clear()
    object_library._here.cached.update(kept)


@pytest.fixture
def server() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


@pytest.fixture
def connections(server: CrudeS3, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one with each connection to the server."""
    found: list[int] = []
    accept = server.get_request

    def accepted() -> Any:
        connection = accept()
        found.append(1)
        return connection

    monkeypatch.setattr(server, "get_request", accepted)
    return found


def client(url: str = "s3://bucket/x", **options: Any) -> Any:
    return open_url(url, {**OPTIONS, **options}).requests.single.get()


def test_a_bucket_that_is_opened_again_needs_no_new_connection(server: CrudeS3, connections: list[int]) -> None:
    store = open_url("s3://bucket/x", server.options)
    store.set("a", b"1")
    assert len(connections) == 1
    time.sleep(0.2)  # a connection is free again a moment after its answer has been read
    again = open_url("s3://bucket/y", server.options, read_only=True)
    assert again.get("a") is None
    time.sleep(0.2)
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get("a") == b"1"
    assert len(connections) == 1
    assert (copy.prefix, again.prefix, copy.read_only, again.read_only) == ("x/", "y/", False, True)
    # all of them share the limit of requests, unless one has a limit of its own
    assert copy.requests.limiter is store.requests.limiter
    alone = open_url("s3://bucket/x", {**server.options, "concurrency": 5})
    assert alone.requests.limiter is not store.requests.limiter


def test_an_array_is_opened_again_by_its_url_without_new_connections(server: CrudeS3, connections: list[int]) -> None:
    array = tegula.create_array("s3://bucket/x", shape=4, dtype="i4", storage_options=server.options)
    array[...] = 5
    tegula.open("s3://bucket/x", storage_options=server.options)
    before = len(connections)
    for _ in range(5):
        again = tegula.open_array("s3://bucket/x", "r", storage_options=server.options)
        assert np.array_equal(again[...], [5] * 4)
    assert len(connections) - before <= 12  # those that were busy when all documents were asked for at once


@pytest.mark.parametrize(
    "options",
    [
        {"secret_access_key": "another"},
        {"region": "eu-north-1"},
        {"timeout": 5},
        {"client_options": {"default_headers": {"x-a": "1"}}},
        {"endpoint": "http://127.0.0.1:9"},
        {"credential_provider": lambda: None},
    ],
)
def test_other_settings_mean_another_client(options: dict[str, Any]) -> None:
    assert client() is client()
    assert client(**options) is not client()
    assert client("s3://bucket2/x") is not client()
    if "credential_provider" not in options:
        assert client(**options) is client(**options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("AWS_SESSION_TOKEN", "t"), ("AWS_ENDPOINT", "http://127.0.0.1:9"), ("https_proxy", "http://127.0.0.1:9")],
)
def test_another_environment_means_another_client(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    before = client()
    monkeypatch.setenv(name, value)
    assert client() is not before
    assert client() is client()
    monkeypatch.delenv(name)
    assert client() is before


@pytest.mark.parametrize("name", ["token", ".aws/credentials", ".config/gcloud/application_default_credentials.json"])
def test_credential_files_that_change_mean_another_client(tmp_path: Path, name: str) -> None:
    options = {"web_identity_token_file": str(tmp_path / "token")}
    before = client(**options)
    for text in ("[default]", "[default] "):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
        assert client(**options) is not before
        before = client(**options)
    assert client(**options) is before


def test_refused_credentials_are_fetched_anew_by_all_stores(server: CrudeS3) -> None:
    asked: list[int] = []

    def credentials() -> dict[str, Any]:
        asked.append(1)
        return {"access_key_id": f"key{len(asked)}", "secret_access_key": "x", "token": None, "expires_at": None}

    options = {"endpoint": server.endpoint, "region": "us-east-1", "credential_provider": credentials}
    one, two = (open_url("s3://bucket", options) for _ in range(2))
    one.set("a", b"1")
    assert two.get("a") == b"1"
    assert len(asked) == 1
    server.answers = [401]
    assert one.get("a") == b"1"
    assert len(asked) == 2
    assert open_url("s3://bucket", options).get("a") == b"1"
    assert len(asked) == 2
    assert "key2" in server.seen[-1][2]


def test_threads_that_begin_together_make_one_client() -> None:
    stores = [open_url("s3://bucket", OPTIONS) for _ in range(8)]
    found: list[Any] = []
    run_together([lambda store=store: found.append(store.requests.single.get()) for store in stores])
    assert len({*map(id, found)}) == 1


@pytest.mark.slow
def test_few_clients_are_kept_and_those_in_use_stay(server: CrudeS3) -> None:
    stores: list[ObjectStore] = [open_url(f"s3://bucket{number}", server.options) for number in range(LIMIT + 3)]
    for store in stores:
        store.set("a", b"1")
        assert len(object_library._here.cached) <= LIMIT
    assert all(store.get("a") == b"1" for store in stores)
    assert client() is client()


def test_storage_that_is_no_server_is_not_kept(tmp_path: Path) -> None:
    store = ObjectStore(obstore.store.LocalStore(tmp_path))
    store.set("a", b"1")
    assert not object_library._here.cached


def test_what_is_kept_shows_no_secret() -> None:
    client()
    client(timeout=3, client_options={"default_headers": {"authorization": SECRET}})
    assert object_library._here.cached
    assert SECRET not in repr(object_library._here.cached)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_makes_clients_of_its_own(server: CrudeS3) -> None:
    code = (
        "import os, threading\n"
        "from tegula.stores.objects import library as object_library\n"
        "from tegula.stores.objects.urls import open_url\n"
        f"options = {server.options!r}\n"
        "open_url('s3://bucket', options).set('a', b'1')\n"
        "held, stop = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with object_library._here.lock:\n"
        "        held.set(); stop.wait()\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    empty = not object_library._here.cached\n"
        "    one, two = (open_url('s3://bucket', options) for _ in range(2))\n"
        "    same = one.get('a') == two.get('a') == b'1' and one.requests.single.get() is two.requests.single.get()\n"
        "    os._exit(3 if empty and same else 4)\n"
        "stop.set(); thread.join()\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "3\n", done.stderr
