"""Chunks over HTTP: ``tegula serve`` beside nginx, and made chunks beside plain reads: ``python benches/server.py``.

Needs wrk and nginx. Rates are those of one client with 16 connections, the median of some turns. The servers
take turns, so that other work on the machine slows all alike; the second number is a rate by the
server's processor time, which other work hardly changes. With ``--clients 200`` the memory is that of 200 connections.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import numpy as np

import tegula

CHUNK = 2**17
NUMBER = 512  # more than the server keeps of chunks that it has made

NGINX = """
worker_processes 1; master_process off; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
REQUESTS = """
local number = 0
request = function()
  number = (number + 1) % {count}
  return wrk.format("GET", "{path}/c/" .. number)
end
"""


def prepare(root: Path) -> None:
    """Write the arrays: stored chunks of 128 KB, and chunks that Zarr v3 has no codecs for."""
    random = np.random.default_rng(0)
    plain = tegula.create_array(
        root / "stored", shape=NUMBER * CHUNK, chunks=CHUNK, dtype="u1", codecs=[], format="zarr3"
    )
    plain[:] = random.integers(1, 255, plain.shape, "u1")
    values = random.normal(size=NUMBER * CHUNK // 8)
    quantize = {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}
    for name, options in (
        ("passed", {"format": "zarr2"}),
        ("repacked", {"format": "bcolz"}),
        (
            "encoded",
            {"format": "zarr2", "codecs": [{"name": f"numcodecs.{quantize.pop('id')}", "configuration": quantize}]},
        ),
    ):
        array = tegula.create_array(root / name, shape=values.shape, chunks=CHUNK // 8, dtype="f8", **options)
        array[:] = values


@contextmanager
def running(command: list[str], url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                with suppress(OSError):
                    urllib.request.urlopen(url, timeout=5).close()
                    break
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()


def rate(
    process: subprocess.Popen[bytes], url: str, script: Path, connections: int, seconds: int
) -> tuple[float, float]:
    """Return the requests that a server answers a second, and a second of its processor time; raise if one failed."""
    before = processor_time(process)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(script), url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text:
        raise RuntimeError(text)
    found, number = re.search(r"Requests/sec:\s*([0-9.]+)", text), re.search(r"(\d+) requests in", text)
    assert found is not None, text
    assert number is not None, text
    return float(found[1]), int(number[1]) / (processor_time(process) - before)


def processor_time(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(process: subprocess.Popen[bytes]) -> float:
    """Return the most memory that a process has had, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1000


def plain_reads(path: Path, seconds: float) -> float:
    """Return the chunks a second of processor time that one thread reads from an array."""
    array = tegula.open(path)
    size, done, start = array.chunks[0], 0, time.process_time()
    with tegula.config.configure(threads=1):
        while time.process_time() - start < seconds:
            first = done % array.nchunks * size
            array[first : first + size]
            done += 1
    return done / (time.process_time() - start)


def main() -> None:
    """Measure, and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--zarr-http-server", metavar="PYTHON", help="a Python that has that package")
    given = arguments.parse_args()
    for program in ("wrk", "nginx"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        root.chmod(0o755)  # nginx reads as another user
        prepare(root)
        (root / "nginx.conf").write_text(NGINX.format(folder=root, port=9301, root=root), encoding="ascii")
        commands = {
            "nginx": (["nginx", "-c", str(root / "nginx.conf")], 9301, "/stored"),
            "tegula": ([sys.executable, "-m", "tegula", "serve", str(root / "stored"), "--port", "9302"], 9302, ""),
        }
        if given.zarr_http_server:
            opened = f"zarr.open_array({str(root / 'stored')!r}, mode='r')"
            code = f"import zarr, zarr_http_server as s; s.serve(s.node_app({opened}), port=9303)"
            commands["zarr-http-server"] = ([given.zarr_http_server, "-c", code], 9303, "")
        rates: dict[str, list[tuple[float, float]]] = {}
        for _ in range(given.turns):
            for server, (command, port, path) in commands.items():
                script = root / f"{server}.lua"
                script.write_text(REQUESTS.format(count=NUMBER, path=path), encoding="ascii")
                url = f"http://127.0.0.1:{port}"
                with running(command, f"{url}{path}/zarr.json") as process:
                    rates.setdefault(server, []).append(rate(process, url, script, given.clients, given.seconds))
                    print(f"{server:18} {rates[server][-1][0]:8.0f} chunks/s, {peak(process):5.0f} MB", flush=True)
        for server, found in rates.items():
            wall, cpu = (median(pair[number] for pair in found) for number in (0, 1))
            best, least = (median(pair[number] for pair in rates["nginx"]) for number in (0, 1))
            print(f"{server:18} {wall:8.0f} {cpu:8.0f} chunks/s, {wall / best:.2f} {cpu / least:.2f} of nginx")
        for kind in ("passed", "repacked", "encoded", "cast"):
            script, path = root / f"{kind}.lua", "/as/float32" if kind == "cast" else ""
            script.write_text(REQUESTS.format(count=NUMBER, path=path), encoding="ascii")
            stored = root / ("passed" if kind == "cast" else kind)
            reads = plain_reads(stored, given.seconds)
            command = [sys.executable, "-m", "tegula", "serve", str(stored), "--port", "9304"]
            with running(command, "http://127.0.0.1:9304/zarr.json") as process:
                served, cpu = rate(process, "http://127.0.0.1:9304", script, given.clients, given.seconds)
                print(f"{kind:18} {served:8.0f} {cpu:8.0f} chunks/s, {peak(process):.0f} MB; plain reads {reads:8.0f}")


if __name__ == "__main__":
    main()
