"""The table of requests in the page about cloud storage: no operation asks for more than it says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/work-with-cloud-storage.md"
ROW = re.compile(r"^\| (?P<operation>[^|]+) \| (?P<requests>[^|]+) \|$", re.MULTILINE)
COUNT = re.compile(r"(?P<factor>\d+ )?(?P<n>n(?: \+ (?P<more>\d+))? )?(?P<method>GET|PUT|HEAD|LIST|DELETE)")
N = 4


def allowed(text: str) -> Counter[str]:
    """Read numbers of requests such as ``1 LIST, n + 1 PUT, 2 n HEAD``, for `N` chunks or members."""
    found: Counter[str] = Counter()
    for match in COUNT.finditer(text):
        factor = int(match["factor"] or 1)
        found[match["method"]] += factor * N + int(match["more"] or 0) if match["n"] else factor
    return found


def table() -> dict[str, Counter[str]]:
    section = PAGE.read_text(encoding="utf-8").partition("## What does an operation ask for?")[2].partition("\n## ")[0]
    rows = {re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row["operation"]): row["requests"] for row in ROW.finditer(section)}
    del rows["operation"]
    return {operation: allowed(requests) for operation, requests in rows.items()}


def operations(url: str, options: dict[str, str]) -> dict[str, Callable[[], Any]]:
    """Store what the operations need, and return them."""
    more = {"storage_options": options}
    shape: dict[str, Any] = {"shape": (8, 100), "chunks": (1, 100), "dtype": "i4"}
    a = tegula.create_array(f"{url}/a", **shape, **more)
    a[:N] = 1
    s = tegula.create_array(f"{url}/s", **shape, shards=(4, 100), **more)
    s[:] = np.arange(800).reshape(8, 100)
    g = tegula.create_group(f"{url}/g", **more)
    for number in range(N):
        g.create_array(f"x{number}", shape=3, dtype="i4")
    g.consolidate()
    new = tegula.create_array(f"{url}/new", **shape, **more)
    part = tegula.open(f"{url}/a", "r+", **more)
    old = tegula.create_array(f"{url}/old", format="zarr2", **shape, **more)
    sharded = tegula.open(f"{url}/s", **more)
    large = tegula.create_array(f"{url}/large", shape=(8, 2**20), chunks=(8, 2**20), dtype="u2", codecs=None, **more)
    large[:] = 1
    return {
        "open an array, group or table": lambda: tegula.open(f"{url}/a", **more),
        "read n chunks": lambda: a[:N],
        "read a chunk that is not stored": lambda: a[N + 1],
        "read a window of n distant rows in an uncompressed chunk of more than 4 MiB": lambda: large[: N * 2 : 2, 3:5],
        "read inner chunks of a shard": lambda: sharded[0:4:2],
        "write n whole chunks or whole shards": lambda: new.__setitem__(slice(0, N), 1),
        "write a part of a chunk or shard": lambda: part.__setitem__((0, slice(0, 5)), 2),
        "read attributes": part.attrs.asdict,
        "change attributes": lambda: part.attrs.update(unit="m"),
        "change attributes of Zarr v2": lambda: old.attrs.update(unit="m"),
        "create an array": lambda: tegula.create_array(f"{url}/created", **shape, **more),
        "append n whole chunks": lambda: new.append(np.ones((N, 100), "i4")),
        "append n whole chunks again, through the same object": lambda: new.append(np.ones((N, 100), "i4")),
        "list a group of n members": lambda: [*g],
        "open a member": lambda: g["x0"],
        "open a group with consolidated metadata, and all its members": lambda: str(
            tegula.open_group(f"{url}/g", consolidated=True, **more).tree()
        ),
        "count the stored chunks": a.nchunks_initialized,
        "the first conditional write to an endpoint that is not the provider's own": lambda: None,
    }


def test_no_operation_asks_for_more_than_the_table_says(s3_server: Any, proxied: Callable[..., Any]) -> None:
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    stated = table()
    known = operations(bucket.url, bucket.storage_options)
    assert known.keys() == stated.keys()
    exceeded = {}
    for operation, action in known.items():
        proxy.forget()
        action()
        seen = Counter("LIST" if "list-type" in request.query else request.method for request in proxy.requests)
        if seen - stated[operation]:
            exceeded[operation] = dict(seen)
    assert not exceeded


def test_the_probe_of_an_endpoint(s3_server: Any, proxied: Callable[..., Any]) -> None:
    proxy = proxied(s3_server)
    bucket = proxy.bucket()
    store = tegula.store_of(bucket.url, storage_options=bucket.storage_options)
    proxy.forget()
    store.probe()
    probe = Counter("DELETE" if "delete" in request.query else request.method for request in proxy.requests)
    probe["HEAD"] += probe.pop("GET", 0)
    assert probe <= table()["the first conditional write to an endpoint that is not the provider's own"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 LIST, n + 1 PUT", {"LIST": 1, "PUT": N + 1}),
        ("2 n HEAD", {"HEAD": 2 * N}),
        ("n GET", {"GET": N}),
        ("none", {}),
    ],
)
def test_numbers_in_the_table(text: str, found: dict[str, int]) -> None:
    assert allowed(text) == found
