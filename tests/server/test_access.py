"""Access: tokens, host names, and the messages of the command line about them."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.server.asking import ask
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app
from tegula.server.guard import LOOPBACK, is_known_host, offered_tokens, origin_rules

pytestmark = pytest.mark.once(executors="both")

TOKEN = "s3cret-T0ken"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    group = tegula.create_group({})
    group["x"] = np.arange(3)
    with tegula.serve(group, port=0, token=TOKEN) as running:
        yield running


TARGETS = ["/zarr.json", "/x/c/0", "/", "/-/info/x", "/-/values/x", "/-/tree", "/as/int32/x/c/0", "/nothing"]


@pytest.mark.parametrize("target", TARGETS)
def test_every_request_needs_the_token(server: Any, target: str) -> None:
    for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": "tegula=x"}):
        answer = ask(server.url, target, **wrong)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert TOKEN.encode() not in answer.body
    assert ask(server.url, f"{target}?token=wrong").status == 401
    right = ask(server.url, target, authorization=f"Bearer {TOKEN}")
    assert right.status != 401
    assert ask(server.url, f"{target}?token={TOKEN}").status == right.status


def test_the_first_answer_sets_a_cookie(server: Any) -> None:
    first = ask(server.url, f"/zarr.json?token={TOKEN}").headers["set-cookie"]
    assert "HttpOnly" in first
    assert "SameSite=Strict" in first
    cookie = first.partition(";")[0]
    for target in ("/zarr.json", "/x/c/0", "/x/c/0"):  # the last one is answered at once
        assert ask(server.url, target, cookie=cookie).status == 200
    assert ask(server.url, "/zarr.json", cookie=cookie[:-1]).status == 401


def test_the_files_of_the_page_need_no_token(server: Any) -> None:
    """A frame in a notebook can't send a cookie for them, as it belongs to another site."""
    assert ask(server.url, "/-/page/nosuch.js").status == 404
    for hostile in ("/-/page/../x/c/0", "/-/page/..%2f..%2fx/c/0", "/-/page%2f../x/c/0", "/-/page"):
        assert ask(server.url, hostile).status in (401, 404)


def test_a_cookie_belongs_to_one_place_of_a_shared_proxy(server: Any) -> None:
    for context, cookie_path in (
        ("/user/me/proxy/9", "/user/me/proxy/9"),
        ("/a; Domain=x", "/"),
        ("", "/"),
        ("x", "/"),
    ):
        cookie = ask(server.url, f"/zarr.json?token={TOKEN}", x_forwarded_context=context).headers["set-cookie"]
        assert cookie.endswith(f"; Path={cookie_path}")


def test_private_answers_are_not_shared(server: Any) -> None:
    assert "private" in ask(server.url, "/x/c/0", authorization=f"Bearer {TOKEN}").headers["cache-control"]


def test_the_token_is_in_no_message(server: Any) -> None:
    assert TOKEN not in repr(server)
    assert TOKEN not in server.url
    assert TOKEN in server.open_url


@pytest.mark.parametrize("token", ["", " ", "a b", 'a"b', "a;b", "ä", "a\n"])
def test_tokens_that_headers_can_not_hold(token: str) -> None:
    with pytest.raises(tegula.MetadataError, match="token"):
        tegula.serve(tegula.create_group({}), port=0, token=token)


def test_other_addresses_need_a_token() -> None:
    with tegula.serve(tegula.create_group({}), host="0.0.0.0", port=0) as server:
        assert server.token
        assert len(server.token) > 20
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert ask(url, "/zarr.json").status == 401
        assert ask(url, f"/zarr.json?token={server.token}", host="any.example").status == 200


def test_names_of_the_server() -> None:
    """A page of another site whose name leads here, by DNS, must not read anything."""
    with tegula.serve(tegula.create_group({}), port=0) as server:
        for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("LOCALHOST:8", 200),
                             ("evil.example", 421), ("localhost.evil.example:80", 421), ("", 421),
                             ("127.0.0.1.evil.example", 421)):  # fmt: skip
            assert ask(server.url, "/zarr.json", host=host).status == status, host
    assert is_known_host("anything", ())
    assert not is_known_host("localhost:80:80", LOOPBACK)


def test_origins_are_checked() -> None:
    for wrong, right in (("https://a.example/viewer", "https://a.example"), ("a.example", "https://example.org"),
                         ("", "https://example.org"), ("https://*.example", "https://example.org"),
                         ("http://a:80:90", "https://example.org")):  # fmt: skip
        with pytest.raises(tegula.MetadataError, match=f"written as {re.escape(right)} ") as failed:
            tegula.serve(tegula.create_group({}), port=0, allow_origins=(wrong,))
        assert failed.value.field == "allow_origins"
    assert origin_rules(("*", "http://[::1]:8080", "vscode-webview://a1")) == (
        ("*", "http://[::1]:8080", "vscode-webview://a1"),
        None,
    )


def test_tokens_of_odd_requests() -> None:
    assert offered_tokens(b"token=" + b"&a=1" * 500, {}, "tegula") == []
    assert offered_tokens(b"", {"cookie": 'tegula="unclosed; \x01'}, "tegula") in ([], [("cookie", '"unclosed')])


def test_a_port_that_is_taken_is_an_error() -> None:
    group = tegula.create_group({})
    with tegula.serve(group, port=0) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(tegula.StoreError, match=str(port)):
            tegula.serve(group, port=port)
        for wrong in (-1, 65536):
            with pytest.raises(tegula.MetadataError, match="port"):
                tegula.serve(group, port=wrong)
        with tegula.serve(group) as two, tegula.serve(group) as three:
            assert two.url != three.url


@pytest.mark.parametrize("host", ["256.1.1.1", "no such host", "", "é..x", "x" * 300, "[::1]", "a\0b"])
def test_hosts_that_are_not_found(host: str) -> None:
    with pytest.raises(tegula.StoreError, match=r"can't listen on '.*as host") as failed:
        tegula.serve(tegula.create_group({}), host=host)
    assert "None" not in str(failed.value)


def test_a_server_ends_and_can_be_ended_again() -> None:
    server = tegula.serve(tegula.create_group({}), port=0)
    assert server.is_running
    server.close()
    server.close()
    assert not server.is_running
    with pytest.raises(OSError):
        ask(server.url, "/zarr.json")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_command(tmp_path: Any) -> None:
    tegula.save(tmp_path / "g.zarr", x=np.arange(3))
    command = [sys.executable, "-m", "tegula", "serve", f"{tmp_path}/g.zarr::x", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert match is not None, line
            with urllib.request.urlopen(match[0] + "zarr.json", timeout=60) as answer:
                assert b'"array"' in answer.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("allowed", [False, True])
def test_the_command_names_viewers_and_what_lets_them_read(allowed: bool, tmp_path: Any) -> None:
    tegula.save(tmp_path / "g.zarr", x=np.arange(3))
    command = [sys.executable, "-m", "tegula", "serve", f"{tmp_path}/g.zarr", "--port", "0"]
    site = "https://hms-dbmi.github.io"
    command += ["--allow-origin", site] if allowed else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            match = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert match is not None
            for origin in (site, site, match[0], "https://other.example", "\x1b[31m", "null"):
                answer = ask(match[0], "/x/zarr.json", origin=origin)
                is_allowed = allowed and origin == site
                assert answer.headers.get("access-control-allow-origin") == (site if is_allowed else None)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert ("  vizarr              --allow-origin https://hms-dbmi.github.io\n" in said) is not allowed
    assert said.count(f"a page of {site} may not read;") == (not allowed)
    assert said.count("a page of") == (1 if allowed else 2)
    assert "add --allow-origin https://other.example\n" in said
    assert max(map(len, said.splitlines())) <= 120


def test_what_the_command_prints_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SimpleNamespace(open_url="http://127.0.0.1:1/", wait=lambda: None, on_refused=lambda _: None)
    monkeypatch.setattr("tegula.cli.commands.serve.start", lambda *_, **__: nullcontext(server))
    monkeypatch.setattr("tegula.cli.commands.serve.open_target", lambda *_, **__: nullcontext())
    result = CliRunner().invoke(app, ["serve", "https://me:secret@host/x.zarr?token=secret"])
    assert result.stdout.startswith("serving https://host/x.zarr")
    assert "secret" not in result.output


def test_a_server_in_a_bucket(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    values = np.arange(10_000).reshape(100, 100)
    tegula.save(f"{bucket.url}/g.zarr", x=values, storage_options=bucket.storage_options)
    with tegula.serve(f"{bucket.url}/g.zarr", port=0, storage_options=bucket.storage_options) as server:
        result = tegula.open(f"{server.url}/x", storage_options={"allow_http": "true"})
        assert np.array_equal(result[...], values)
        chunk = ask(server.url, "/x/c/0/0")
        tag = chunk.headers["etag"]
        assert ask(server.url, "/x/c/0/0", range="bytes=-9").body == chunk.body[-9:]
        assert ask(server.url, "/x/c/0/0", if_none_match=tag).status == 304
        assert ask(server.url, "/x/c/7/0").status == 404
        assert bucket.storage_options.get("secret_access_key", "none") not in ask(server.url, "/-/info/x").body.decode()


def test_two_hosts(tmp_path: Path) -> None:
    """Each of two readers of such a request may believe another one."""
    array = tegula.create_array(tmp_path / "a.zarr", shape=3, chunks=3, dtype="u1", codecs=[])
    array[:] = 1
    for token in (None, "secret"):
        with tegula.serve(array, port=0, token=token) as server:
            ask(server.url, f"/zarr.json?token={token}")  # then a chunk is answered at once
            parts = urlsplit(server.url)
            for target in ("/c/0", "/zarr.json", "/as/float32/c/0", "/-/page/x"):
                for second in ("localhost", "evil.example"):
                    with closing(socket.create_connection((parts.hostname, parts.port), timeout=30)) as client:
                        lines = f"Host: localhost\r\nHOST: {second}\r\nCookie: tegula-{parts.port}=secret\r\n"
                        client.sendall(f"GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
                        answer = b""
                        while part := client.recv(2**16):
                            answer += part
                    assert answer.startswith(b"HTTP/1.1 400 "), (target, answer)


def test_lists_that_are_sent_in_parts(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a.zarr", shape=3, chunks=3, dtype="u1", codecs=[])
    array[:] = 1
    with tegula.serve(array, port=0) as server:
        entity_tag = ask(server.url, "/c/0").headers["etag"]
        parts = urlsplit(server.url)
        for tags in ((entity_tag, '"x"'), ('"x"', entity_tag)):
            with closing(socket.create_connection((parts.hostname, parts.port), timeout=30)) as client:
                lines = "".join(f"If-None-Match: {tag}\r\n" for tag in tags)
                client.sendall(f"GET /c/0 HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
                assert client.recv(2**16).startswith(b"HTTP/1.1 304 ")
