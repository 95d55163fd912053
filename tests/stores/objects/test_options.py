"""Whose credentials sign requests: those of the options, whatever the environment holds."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tegula.errors import MetadataError
from tegula.stores.objects.options import StaticCredentials, sort_options
from tegula.stores.objects.urls import open_url

pytest.importorskip("obstore")
OTHER = base64.b64encode(b"0ther5ecret").decode()
MINE = base64.b64encode(b"my 5ecret").decode()
AWS = {"AWS_ACCESS_KEY_ID": OTHER, "AWS_SECRET_ACCESS_KEY": OTHER}
ENVIRONMENTS: dict[str, list[dict[str, str]]] = {
    "s3": [AWS, {**AWS, "AWS_SESSION_TOKEN": OTHER}, {"AWS_SKIP_SIGNATURE": "true"}, {"AWS_TOKEN": OTHER}],
    "az": [
        {"AZURE_STORAGE_ACCOUNT_KEY": OTHER}, {"AZURE_STORAGE_ACCESS_KEY": OTHER}, {"AZURE_STORAGE_TOKEN": OTHER},
        {"AZURE_STORAGE_SAS_KEY": f"sv=1&sig={OTHER}"}, {"AZURE_SKIP_SIGNATURE": "true"},
    ],
}  # fmt: skip
GIVEN: list[tuple[str, dict[str, str], str]] = [
    ("s3", {"access_key_id": "mine", "secret_access_key": MINE}, "Credential=mine/"),
    ("s3", {"aws_access_key_id": "mine", "secret_access_key": MINE, "session_token": "t"}, "Credential=mine/"),
    ("az", {"sas_key": "sv=1&sig=mine"}, ""),
    ("az", {"token": "mine"}, "Bearer mine"),
    ("az", {"account_key": MINE}, "SharedKey account:"),
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "SERVICE_ACCOUNT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


class Server(ThreadingHTTPServer):
    """A server without values, which records requests with their credentials."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize(("kind", "options", "signed"), GIVEN)
def test_credentials_of_the_options_sign_whatever_the_environment_holds(
    kind: str, options: dict[str, str], signed: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://127.0.0.1:{server.server_port}/account"
    place = {"endpoint": endpoint, **({"account_name": "account"} if kind == "az" else {})}
    environments = ENVIRONMENTS[kind]
    for variables in [{}, *environments, *({**one, **two} for one, two in combinations(environments, 2))]:
        with monkeypatch.context() as here:
            for name, value in variables.items():
                here.setenv(name, value)
            store = open_url(f"{kind}://bucket/x", {**place, **options})
            for each in (store, pickle.loads(pickle.dumps(store))):  # the other process has this environment
                assert each.get("key") is None
                path, headers = server.asked[-1]
                assert signed in headers.get("authorization", "")
                assert ("sig=mine" in path) == ("sas_key" in options)
                assert headers.get("x-amz-security-token") == options.get("session_token")
                assert OTHER not in f"{path} {headers}"
                provider = each.requests.single.settings[1]["credential_provider"]
                assert {*provider().values()} >= {*options.values()}
                assert MINE not in repr(provider)


def test_user_and_password_of_a_web_address_are_sent_and_not_shown(server: Server) -> None:
    url = f"http://m%40:my%205ecret@127.0.0.1:{server.server_port}/x"
    for options in ({}, {"default_headers": {"x-more": "1"}}):
        store = open_url(url, options)
        for each in (store, pickle.loads(pickle.dumps(store))):
            assert each.get("key") is None
            path, headers = server.asked[-1]
            assert path == "/x/key"
            assert headers["authorization"] == f"Basic {base64.b64encode(b'm@:my 5ecret').decode()}"
            assert headers.get("x-more") == options.get("default_headers", {}).get("x-more")
            assert "5ecret" not in f"{each!r} {each.url} {each.identity}"
    assert open_url(url, {"default_headers": {"Authorization": "Bearer mine"}}).get("key") is None
    assert server.asked[-1][1]["authorization"] == "Bearer mine"


@pytest.mark.parametrize(
    ("kind", "options", "variable"),
    [
        ("az", {"client_id": "a", "client_secret": MINE, "tenant_id": "c"}, "AZURE_STORAGE_ACCOUNT_KEY"),
        ("az", {"use_azure_cli": True}, "AZURE_STORAGE_SAS_TOKEN"),
        ("s3", {"web_identity_token_file": "/token", "role_arn": "a"}, "AWS_ACCESS_KEY_ID"),
        ("gs", {"service_account": "/key.json"}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"service_account_key": json.dumps({"a": MINE})}, "SERVICE_ACCOUNT"),
        ("gs", {"application_credentials": "/key.json"}, "GOOGLE_SERVICE_ACCOUNT"),
    ],
)
def test_a_variable_that_would_count_before_an_option_is_named(
    kind: str, options: dict[str, Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort_options(kind, options)
    monkeypatch.setenv(variable, OTHER)
    with pytest.raises(MetadataError, match=rf"\b{variable}\b") as caught:
        sort_options(kind, options)
    assert caught.value.field in options
    assert MINE not in str(caught.value)
    assert OTHER not in str(caught.value)
    assert sort_options(kind, {"anonymous": True}).provider is None


def test_an_environment_alone_is_left_to_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    for variables in (variables for each in ENVIRONMENTS.values() for variables in each):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    for kind in ("s3", "gs", "az", "http"):
        assert sort_options(kind, {}).provider is None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    assert sort_options("s3", {"secret_access_key": MINE}).provider is None  # the key's name comes from there


@pytest.mark.parametrize("name", ["access_key_id", "secret_access_key"])
def test_half_of_a_key_is_an_error(name: str) -> None:
    with pytest.raises(MetadataError, match="access_key_id and secret_access_key belong together"):
        sort_options("s3", {name: MINE})


def test_credentials_are_equal_by_their_values() -> None:
    one, two = StaticCredentials({"token": MINE}), StaticCredentials({"token": OTHER})
    assert one == pickle.loads(pickle.dumps(one)) != two
    assert hash(one) == hash(StaticCredentials({"token": MINE}))
    assert one != "mine"


def test_the_endpoint_has_one_name_for_all_services() -> None:
    for kind, name in (("s3", "endpoint"), ("az", "endpoint"), ("gs", "base_url")):
        given = {"endpoint": "http://localhost:9000", "anonymous": True}
        sorted_options = sort_options(kind, given)
        assert sorted_options.config[name] == given["endpoint"]
        assert sorted_options.client["allow_http"] is True
