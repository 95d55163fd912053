"""Servers end with the process that started them, in whatever way that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.servers.process import ROOT, ServerProcess

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]

PROGRAM = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler); \
print(f'http://127.0.0.1:{s.server_port}', flush=True); s.serve_forever()"


def running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ended(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(map(running, pids)):
        assert time.monotonic() < deadline, f"processes {list(filter(running, pids))} are left"
        time.sleep(0.01)


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")


@needs_proc
@pytest.mark.parametrize("python", [True, False])
def test_a_server_ends_when_it_is_closed(python: bool) -> None:
    command = ["tests.servers.gcs"] if python else [sys.executable, "-c", PROGRAM]
    with ServerProcess(command, python=python) as server:
        pids = [server.pid, *children(server.pid)]
        assert len(pids) == 1 + (not python)
        assert all(map(running, pids))
    wait_until_ended(pids)


@needs_proc
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_servers_end_when_their_starter_is_killed(end: signal.Signals) -> None:
    script = f"""
import sys, time
from tests.servers.process import ServerProcess
servers = [ServerProcess(["tests.servers.gcs"]), ServerProcess([sys.executable, "-c", {PROGRAM!r}], python=False)]
print(*(server.pid for server in servers), flush=True)
time.sleep(60)
"""
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert starter.stdout is not None
    with starter.stdout:
        launchers = [int(pid) for pid in starter.stdout.readline().split()]
        pids = [*launchers, *(child for pid in launchers for child in children(pid))]
        assert len(pids) == 3
        assert all(map(running, pids))
        os.kill(starter.pid, end)
        starter.wait(10)
    wait_until_ended(pids)


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"ended before it listened; it said:\n(?s:.*)no such luck"):
        ServerProcess([sys.executable, "-c", "raise SystemExit('no such luck')"], python=False)
    with pytest.raises(RuntimeError, match="did not answer in time"):
        ServerProcess([sys.executable, "-c", "import time; time.sleep(60)"], python=False, timeout=0.1)
