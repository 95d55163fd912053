"""Slow, numerous or malicious clients: their cost is bounded, and others are served."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.effort import NIGHTLY
from tests.server.asking import ask
from tests.waiting import run_threads

import tegula
from tegula.server import connections

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    array = tegula.create_array({}, shape=2**24, chunks=2**22, dtype="u1", codecs=[])
    array[:] = 1
    with tegula.serve(array, port=0) as running:
        yield running


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def sent_until_refused(client: socket.socket, piece: bytes, most: int) -> tuple[int, bytes]:
    """Send a piece again and again until the server refuses more, and return the bytes it took and its answer."""
    sent, answer = 0, b""
    with suppress(ConnectionError):
        while sent < most:
            client.sendall(piece)
            sent += len(piece)
    with suppress(ConnectionError):
        answer = client.recv(1000)
    return sent, answer


@pytest.mark.parametrize("piece", [b"a" * 4096, b"X: y\r\n" * 500, b"X" * 1000 + b": y\r\n"])
def test_endless_headers(server: Any, piece: bytes) -> None:
    with closing(connected(server.url)) as client:
        client.sendall(b"GET /zarr.json HTTP/1.1\r\nHost: localhost\r\n" + (b"Long: " if b":" not in piece else b""))
        sent, answer = sent_until_refused(client, piece, 2**26)
        assert sent < 2**26
        assert answer[:12] in (b"HTTP/1.1 400", b"")
    assert ask(server.url, "/zarr.json").status == 200


def test_an_endless_path(server: Any) -> None:
    with closing(connected(server.url)) as client:
        client.sendall(b"GET /")
        sent, _ = sent_until_refused(client, b"x" * 4096, 2**26)
        assert sent < 2**26


def test_an_endless_body(server: Any) -> None:
    with closing(connected(server.url)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"fffff\r\n" + b"x" * 0xFFFFF)
        assert client.recv(1000).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize(
    "raw",
    [
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://other/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /zarr.json HTTP/1.1\r\nHost: localhost\r\nRange: \xff\xff\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request(server: Any, raw: bytes) -> None:
    with closing(connected(server.url)) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while part := client.recv(2**16):
                answer += part
        assert not answer.startswith(b"HTTP/1.1 5")
    assert ask(server.url, "/zarr.json").status == 200


def test_clients_that_send_slowly(monkeypatch: pytest.MonkeyPatch, server: Any) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    with closing(connected(server.url)) as idle, closing(connected(server.url)) as slow:
        start = time.monotonic()
        with suppress(ConnectionError):
            for _ in range(100):
                slow.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - start < 4
        with suppress(ConnectionError):
            assert idle.recv(10) == b""


def test_clients_that_receive_nothing(monkeypatch: pytest.MonkeyPatch, server: Any) -> None:
    monkeypatch.setattr(connections, "_STALL_SECONDS", 0.3)
    with closing(connected(server.url)) as client:
        for _ in range(20):
            client.sendall(b"GET /c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received, until = 0, time.monotonic() + 20
        time.sleep(1.5)  # until the server has given up
        with suppress(ConnectionError):
            while (part := client.recv(2**20)) and time.monotonic() < until:
                received += len(part)
        assert received < 20 * 2**22
    assert ask(server.url, "/c/0").status == 200


def test_pipelined_requests_are_answered_in_order(server: Any) -> None:
    with closing(connected(server.url)) as client:
        targets = ["/zarr.json", "/c/9", "/c/0", "/-/info/", "/c/9"]
        for target in targets:
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-3\r\n\r\n".encode())
        client.sendall(b"GET /c/9 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := client.recv(2**16):
            answer += part
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [206, 404, 206, 200, 404, 404]


@pytest.mark.slow
def test_work_on_large_chunks_takes_turns() -> None:
    """Chunks that are decoded at once hold bounded memory together, and each request gets its answer."""
    array = tegula.create_array({}, shape=(8, 2**22), chunks=(1, 2**22), dtype="f8", format="bcolz")
    array[:] = 1.0
    statuses = []
    with tegula.serve(array, port=0) as server:

        def work(row: int) -> None:
            statuses.append(ask(server.url, f"/as/float32/c/{row}/0").status)

        run_threads(threading.Thread(target=work, args=(row,)) for row in range(8))
    assert statuses == [200] * 8


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_with_many_clients(tmp_path: Path) -> None:
    """200 clients at once, in part slow ones that do not read, take less than 300 MB."""
    number, rounds = (200, 20) if NIGHTLY else (200, 2)
    resource = pytest.importorskip("resource")
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    array = tegula.create_array(tmp_path / "a.zarr", shape=(16, 2**20), chunks=(1, 2**20), dtype="u1", codecs=[])
    array[:] = np.arange(1, 17, dtype="u1")[:, None]
    command = [sys.executable, "-m", "tegula", "serve", str(tmp_path / "a.zarr"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().rpartition(" ")[2].strip().rstrip("/")
            slow = [connected(url) for _ in range(number // 2)]
            for client in slow:
                client.sendall(b"GET /c/0/0 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
            wrong: list[Any] = []

            def ask_for_all(seed: int) -> None:
                for turn in range(rounds):
                    row = (seed + turn) % 16
                    target = f"/as/float32/c/{row}/0" if turn % 2 else f"/c/{row}/0"
                    answer = ask(url, target)
                    if answer.status != 200 or (not turn % 2 and answer.body != bytes([row + 1]) * 2**20):
                        wrong.append((target, answer.status))

            run_threads(threading.Thread(target=ask_for_all, args=(seed,)) for seed in range(number // 2))
            for client in slow:
                client.close()
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        finally:
            process.kill()
    assert not wrong
    assert peak < 300_000, f"{peak} kB"


def test_a_value_that_changes_while_it_is_sent_is_cut_off(tmp_path: Path) -> None:
    """A client that has some blocks of one state never gets those of another."""
    array = tegula.create_array(tmp_path / "a.zarr", shape=2**25, chunks=2**25, dtype="u1", codecs=[])
    array[:] = 1
    with tegula.serve(array, port=0) as server, closing(connected(server.url)) as client:
        client.sendall(b"GET /c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = client.recv(2**16)
        array[:] = 2
        with suppress(ConnectionError):
            while part := client.recv(2**20):
                answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length: 33554432" in head
    assert 0 < len(body) < 2**25
    assert set(body) == {1}


@pytest.mark.slow
def test_slow_downloads_do_not_stop_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    array = tegula.create_array({}, shape=(64, 2**18), chunks=(1, 2**18), dtype="f8", format="bcolz")
    array[:] = np.random.default_rng(0).normal(size=array.shape)
    with tegula.serve(array, port=0) as server:
        slow = [connected(server.url) for _ in range(8)]
        try:
            for client in slow:
                client.sendall(b"GET /-/values/?format=npy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.5)
            start = time.monotonic()
            for row in range(4):
                assert ask(server.url, f"/as/float32/c/{row}/0").status == 200
            assert ask(server.url, "/-/rows/?stop=1").status == 200
            assert time.monotonic() - start < 20
        finally:
            for client in slow:
                client.close()
