"""Several processes that change one node of a bucket, through a proxy that lets requests fail, done or not.

The servers are those of the tests (`tests.servers`); one that is not installed is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.servers.azurite import Azurite
from tests.servers.buckets import Bucket, Server
from tests.servers.gcs import Gcs
from tests.servers.moto import Moto
from tests.servers.proxy import Proxy
from tests.servers.rclone import Rclone
from tests.servers.tools import Missing

from torture import creation, updates
from torture.libraries import OURS, Lacking
from torture.outcome import Outcome
from torture.workers import Worker

WORKERS = 8
SERVERS: dict[str, type[Server]] = {"S3 (moto)": Moto, "S3 (rclone)": Rclone, "Azure": Azurite, "Google Cloud": Gcs}
CASES = [
    "elements of one chunk, Zarr v3",
    "elements of one shard",
    "attributes, Zarr v2",
    "attributes, Zarr v3",
    "appends, Zarr v3",
    "appends, bcolz array",
    "appends, bcolz table",
    "resizes, Zarr v3",
]
CREATED = ["Zarr v2", "Zarr v3", "bcolz array", "bcolz table"]
FAULTS: list[dict[str, Any]] = [
    {"method": "PUT|POST|DELETE", "every": 20, "after_commit": 503},
    {"method": "PUT|POST|DELETE", "every": 20, "skip": 10, "status": 503},
    {"method": "PUT|POST|DELETE", "every": 50, "skip": 5, "reset": "after"},
    {"method": "GET", "every": 50, "truncate": 3},
    {"method": "GET", "every": 50, "skip": 25, "reset": "before"},
]
"""One writing request in twenty fails though it was carried out, and one in twenty before; answers break off."""
_PATIENCE = 600.0  # seconds of a worker


def target(bucket: Bucket, name: str) -> str:
    """Name a place in a bucket as the libraries take it."""
    return f"{json.dumps(dict(bucket.options))} {bucket.url}/{name}"


@contextmanager
def faulty(server: Server) -> Iterator[tuple[Bucket, Bucket]]:
    """Make a bucket; yield it as it is reached through faults and without them."""
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(server))
        bucket = server.bucket()
        for rule in FAULTS:
            stack.enter_context(proxy.fault(**rule))
        yield bucket.through(proxy.endpoint), bucket


def run(worker: Worker, root: Path, count: int) -> Iterator[Outcome]:
    """Make `count` updates of each kind on each server, and create a tenth as many nodes."""
    if worker.name not in OURS:
        raise Lacking("it is tegula's promise")
    for name, kind in SERVERS.items():
        try:
            server = kind()
        except Missing:
            continue
        with server:
            yield from _run(worker, server, name, count)


def _run(worker: Worker, server: Server, name: str, count: int) -> Iterator[Outcome]:
    with faulty(server) as (bucket, clean):
        for case in CASES:
            kind, layout = updates.CASES[case]
            paths = (target(at, f"{kind}-{layout}") for at in (bucket, clean))
            facts = updates.race(worker, *paths, kind, layout, count, workers=WORKERS, patience=_PATIENCE)
            promise = f"{name} with faults, updates by {WORKERS} processes, {case}"
            yield Outcome("objects", promise, worker.name, updates.text_of(facts), facts)
        for case in CREATED:
            found = creation.trial(worker, target(bucket, f"new-{creation.CASES[case]}"), case, max(1, count // 10))
            assert found is not None
            yield Outcome("objects", f"{name} with faults: {found.promise}", worker.name, found.text, found.facts)
