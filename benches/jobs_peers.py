"""One contender of ``jobs.py`` in a fresh process: gives an array other chunks, and prints seconds and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Work = Callable[[], object]


def tegula(source: str, target: str, scratch: str, chunks: list[int], memory: int, old: list[int]) -> Work:
    import tegula

    tegula.convert(source, {}, select=slice(0, 1))  # loads everything
    return lambda: tegula.convert(source, target, format="zarr2", chunks=chunks, max_memory=memory)


def rechunker(source: str, target: str, scratch: str, chunks: list[int], memory: int, old: list[int]) -> Work:
    import zarr
    from dask.config import set as configure
    from rechunker import rechunk

    def work() -> None:
        plan = rechunk(zarr.open(source, "r"), tuple(chunks), memory // CORES, target, temp_store=scratch)
        with configure(scheduler="threads", num_workers=CORES):
            plan.execute()

    return work


def dask(source: str, target: str, scratch: str, chunks: list[int], memory: int, old: list[int]) -> Work:
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    base = 300 * 10**6  # of a worker that does nothing
    cluster = LocalCluster(
        n_workers=CORES,
        threads_per_worker=1,
        memory_limit=memory // CORES + base,
        local_directory=scratch,
        dashboard_address=None,
    )
    client = Client(cluster)

    def work() -> None:
        with dask.config.set({"optimization.fuse.active": False}):
            array = da.from_zarr(source).rechunk(tuple(chunks), method="p2p")
            array.to_zarr(target, zarr_format=2)
        client.close()
        cluster.close()

    return work


def cubed(source: str, target: str, scratch: str, chunks: list[int], memory: int, old: list[int]) -> Work:
    import cubed as library

    options = {"max_workers": CORES}
    spec = library.Spec(
        work_dir=scratch,
        allowed_mem=memory // CORES,
        reserved_mem=0,
        executor_name="processes",
        executor_options=options,
    )
    array = library.from_zarr(source, spec=spec)
    return lambda: library.to_zarr(array.rechunk(tuple(chunks)), store=target)


def zarrs_reencode(source: str, target: str, scratch: str, chunks: list[int], memory: int, old: list[int]) -> Work:
    shape = ",".join(map(str, chunks))
    return lambda: subprocess.run(["zarrs_reencode", "--chunk-shape", shape, source, target], check=True)


class Memory(threading.Thread):
    """Watches the resident memory of this process and its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.peak = total_memory()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, total_memory())
            time.sleep(0.02)


def total_memory() -> int:
    """Return the resident memory of this process and all below it."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(folder.name)
        children.setdefault(int(fields[1]), []).append(number)
        sizes[number] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    pending, total = [os.getpid()], 0
    while pending:
        number = pending.pop()
        total += sizes.get(number, 0)
        pending += children.get(number, [])
    return total


def main() -> None:
    makers: dict[str, Callable[..., Work]] = {
        maker.__name__: maker for maker in (tegula, rechunker, dask, cubed, zarrs_reencode)
    }
    facts: list[Any] = json.loads(sys.argv[2])
    work = makers[sys.argv[1]](*facts)
    memory = Memory()
    memory.start()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, memory.peak - memory.first]))


if __name__ == "__main__":
    main()
