"""The runner on a cluster of `dask.distributed`: batches of units are tasks, which the dashboard shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tegula.errors import StoreError, TegulaError
from tegula.jobs.plans import Unit
from tegula.jobs.runners.runner import Result, Runner, Work, check_wanted, unpacked
from tegula.runtime.optional import library

__all__ = ["Cluster"]

_RETRIES: Final = 3
_AHEAD: Final = 4  # batches that wait for each thread of a worker
_BATCH_BYTES: Final = 2**26
_BATCH: Final = 64


class Cluster(Runner):
    """Does units on the workers of a cluster.

    Parameters
    ----------
    runner : "dask", "local", address, file or Client
        A cluster that is started on this machine, or the one to use: its scheduler's address, or the JSON file that the
        scheduler has written.
    workers : int, optional
        Number of processes of a cluster that is started here.
    """

    def __init__(self, runner: Any, workers: int | None = None) -> None:
        self._distributed: Any = library("distributed")
        self._owned: list[Any] = []
        client = runner
        if isinstance(runner, str):
            options: dict[str, Any] = {"scheduler_file" if runner.endswith(".json") else "address": runner}
            if runner in ("dask", "local"):
                cluster = self._distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1 if workers else None, dashboard_address=":0"
                )
                self._owned.append(cluster)
                options = {"address": cluster}
            try:
                client = self._distributed.Client(**options, timeout=30)
            except (OSError, ValueError) as error:
                self.close()
                raise StoreError(f"the scheduler {runner!r:.200} can't be reached: {error}") from error
            self._owned.insert(0, client)
        self.client = client
        self.workers = max(1, sum(client.nthreads().values()))

    def run(self, work: Work, units: Iterable[Unit]) -> Iterator[Result]:
        """Yield each unit with its result, in the order in which they are done."""
        packed, source = work.packed(), _batches(work, units)
        completed = self._distributed.as_completed(raise_errors=False)
        under_way: set[Any] = set()
        try:
            while True:
                batches: list[list[Unit]] = []
                while len(under_way) + len(batches) < self.workers * _AHEAD:
                    check_wanted()
                    if (batch := next(source, None)) is None:
                        break
                    batches.append(batch)
                if batches:
                    keys = [f"tegula-{work.name}-{batch[0].number}-{id(work)}" for batch in batches]
                    args = ([packed] * len(batches), batches)
                    futures = self.client.map(_do, *args, key=keys, retries=_RETRIES, pure=False)
                    under_way.update(futures)
                    completed.update(futures)
                if not under_way:
                    return
                future = next(completed)
                under_way.discard(future)
                if future.status == "error":
                    raise _error_of(future)
                if future.status == "cancelled":
                    raise StoreError("the cluster has lost the tasks of the job; resume the job on another cluster")
                yield from future.result()
        finally:
            if under_way:
                self.client.cancel([*under_way])

    def close(self) -> None:
        """Close the client and the cluster that this runner has started."""
        for owned in self._owned:
            owned.close()
        self._owned.clear()


def _batches(work: Work, units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Yield units in batches, with many small units in one, so that the scheduler has little to do."""
    batch: list[Unit] = []
    size = 0
    for unit in units:
        batch.append(unit)
        size += work.nbytes(unit)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _error_of(future: Any) -> BaseException:
    error = future.exception()
    if isinstance(error, TegulaError):
        return error
    return StoreError(f"a unit failed on the cluster: {type(error).__name__}: {error}")


def _do(packed: bytes, units: list[Unit]) -> list[Result]:
    """Do units on a worker, except those that a worker has recorded before it died."""
    work = unpacked(packed)
    results = []
    for unit in units:
        known = work.ledger.recorded(unit.number)
        results.append((unit, work(unit) if known is None else work.result_of(known)))
    return results
