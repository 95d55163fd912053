"""Memory: what a request takes is known from documents, and held before anything is read."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.asking import ask
from tests.waiting import run_threads

import tegula
from tegula.server import downloading, routes
from tegula.server.budget import Budget, BusyError, TooLargeError
from tegula.server.content import ComputedValue, Content
from tegula.stores import MemoryStore

pytestmark = pytest.mark.once(executors="both")

# --- the budget


def run(work: Any) -> None:
    asyncio.run(work())


def test_a_request_for_more_than_any_may_take_is_refused_at_once() -> None:
    async def work() -> None:
        budget = Budget(10, most=100)
        await budget.acquire(100)  # alone
        with pytest.raises(TooLargeError, match="101"):
            await budget.acquire(101)
        assert budget.held == 100

    run(work)


def test_a_turn_ends_however_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.server.budget._PATIENCE", 0.01)

    async def work() -> None:
        budget = Budget(10)

        async def fail() -> None:
            async with budget.turn(8):
                with pytest.raises(BusyError):
                    await budget.acquire(3)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert budget.held == 0

    run(work)


def test_memory_is_released_when_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.server.budget._IDLE_SECONDS", 0.01)
    tidied = threading.Semaphore(0)

    async def work() -> None:
        budget = Budget(10, tidy=tidied.release)
        await budget.acquire(4)
        await budget.acquire(4)
        budget.release(4)
        await asyncio.sleep(0.05)
        assert not tidied.acquire(blocking=False)
        budget.release(4)
        assert await asyncio.to_thread(tidied.acquire, timeout=30)
        await budget.acquire(50)
        await asyncio.sleep(0)
        budget.release(50)  # a large one is released even while another follows
        await budget.acquire(1)
        assert await asyncio.to_thread(tidied.acquire, timeout=30)

    run(work)


# --- costs


@pytest.mark.parametrize("format", ["bcolz", "zarr2", "zarr3"])
def test_costs_of_shown_chunks(format: str) -> None:
    array = tegula.create_array({}, shape=2**20, chunks=2**20, dtype="u1", format=format)
    array[...] = 1
    content = Content(array)
    costs = {}
    for to in (None, "uint8", "float64"):
        result = content.find("c/0", to)
        costs[to] = result.cost if isinstance(result, ComputedValue) else 0
    assert costs["float64"] >= 3 * 8 * 2**20 > costs["uint8"] >= 2 * 2**20
    assert (costs[None] >= 2 * 2**20) == (format == "bcolz")


class Watched(MemoryStore):
    """A store that notes which keys are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.read.append(key)
        return super().get(key, *args, **options)


REFUSED = [
    "/as/float32/c/0",
    "/-/values/?format=npy&selection=0:5",
    "/-/values/?format=csv",
    "/-/values/?format=json&selection=3",
    "/-/rows/?stop=3",
    "/-/stats/?selection=0:5",
]


@pytest.mark.parametrize("format", ["bcolz", "zarr2", "zarr3"])
def test_what_is_refused_is_refused_before_a_chunk_is_read(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr(routes, "_MOST_WORK", 2**20)
    store = Watched()
    array = tegula.create_array(store, shape=2**20, chunks=2**20, dtype="u1", format=format, codecs=None)
    array[...] = 1
    with tegula.serve(array, port=0) as server:
        for target in REFUSED:
            for method in ("GET", "HEAD"):
                store.read.clear()
                answer = ask(server.url, target, method)
                assert answer.status == 413, target
                assert not [key for key in store.read if key.endswith(("c/0", "0", ".blp"))]
        assert "bytes of memory" in ask(server.url, REFUSED[0]).json["error"]
        assert ask(server.url, "/zarr.json").status == 200
        assert ask(server.url, "/-/info/").status == 200
        assert ask(server.url, "/c/0").status == (413 if format == "bcolz" else 200)


def test_small_chunks_of_large_shards_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_MOST_WORK", 2**26)
    array = tegula.create_array({}, shape=2**25, chunks=2**16, shards=2**25, dtype="f8", fill_value=1)
    array[:10] = 2
    with tegula.serve(array, port=0) as server:
        assert ask(server.url, "/as/float32/c/0").status == 200
        assert ask(server.url, "/-/rows/?stop=3").json["rows"] == [[2.0]] * 3


@pytest.mark.parametrize("format", ["npy", "csv", "json"])
def test_a_small_download_is_complete_at_once(format: str) -> None:
    """So that its end needs no turn of its own."""
    array = tegula.create_array({}, shape=100, dtype="i4")
    begun = downloading.download(Content(array), "", "", format).run()
    assert begun.first
    assert begun.blocks is None


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_with_one_large_chunk(tmp_path: Path) -> None:
    """Forty requests at once take little more than one, and the memory is released soon after."""
    size = 2**25
    array = tegula.create_array(tmp_path / "a.zarr", shape=(2**5, 2**20), chunks=(2**5, 2**20), dtype="f8")
    array[...] = np.arange(size, dtype="f8").reshape(array.shape)
    command = [sys.executable, "-m", "tegula", "serve", str(tmp_path / "a.zarr"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().rpartition(" ")[2].strip().rstrip("/")
            ask(url, "/zarr.json")
            memory(process.pid)
            targets = [
                "/as/uint8/c/0/0", "/as/float32/c/0/0", "/-/values/?format=npy&selection=0:1,0:9", "/-/rows/?stop=1",
                "/-/stats/?selection=0,0:9", "/c/0/0", "/-/info/", "/-/values/?format=csv&selection=0:1,0:9",
            ] * 5  # fmt: skip
            statuses: list[int] = []
            run_threads(
                threading.Thread(target=lambda target=target: statuses.append(ask(url, target).status))
                for target in targets
            )
            peak = memory(process.pid)["VmHWM"]
            until = time.monotonic() + 30
            while (remaining := memory(process.pid)["VmRSS"]) > 230_000 and time.monotonic() < until:
                time.sleep(0.2)
        finally:
            process.kill()
    assert {*statuses} <= {200, 503}
    assert peak < 850_000, f"{peak} kB"  # 2 * 256 MiB for one request, and what other answers take
    assert remaining < 230_000, f"{remaining} kB"


def memory(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmHWM", "VmRSS"))}
