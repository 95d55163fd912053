"""Rows in a bucket, which is asked again and again."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")


@pytest.mark.parametrize("kind", ["array", "table"])
def test_rows_in_a_bucket_are_followed(kind: str, s3_server: Any) -> None:
    bucket = s3_server.bucket()
    where = {"storage_options": bucket.options}
    url = f"{bucket.url}/x.zarr"
    if kind == "table":
        tegula.create_table(url, {"n": np.zeros(0, "i8"), "m": np.zeros(0, "i8")}, format="zarr3", chunks=4, **where)
    else:
        tegula.create_array(url, shape=(0, 2), chunks=(4, 1), dtype="i8", **where)
    opening: Any = tegula.open_table if kind == "table" else tegula.open
    follower = tegula.follow(opening(url, **where), from_row=0, poll=0.2, timeout=60, settle=600)
    written = np.arange(1, 41).reshape(20, 2)

    def write() -> None:
        node = opening(url, mode="r+", **where)
        for start in range(0, 20, 4):
            new = written[start : start + 4]
            node.append({"n": new[:, 0], "m": new[:, 1]} if kind == "table" else new)

    writer = threading.Thread(target=write)
    writer.start()
    found: list[Any] = []
    while len(found) < 20:
        block = next(follower)
        assert block.start == len(found)
        found += [[*row] for row in block.values.tolist()]
        if block.start:  # in another process, as it were
            follower = tegula.follow(opening(url, **where), token=follower.token, poll=0.2, timeout=60, settle=600)
    writer.join()
    assert found == written.tolist()
    assert follower.position == 20
