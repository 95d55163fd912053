"""Arrays of TensorStore's interface in a bucket and on a web server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.tensorstore as ts
from tegula.errors import TegulaError


@pytest.fixture
def spec(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    bucket = s3_server.bucket()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    return {"driver": "s3", "bucket": bucket.name, "endpoint": bucket.endpoint, "aws_region": "us-east-1"}


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_arrays_in_a_bucket(driver: str, spec: dict[str, Any]) -> None:
    described = {"driver": driver, "kvstore": {**spec, "path": "x.zarr/"}}
    a = ts.open(described, create=True, dtype=ts.int32, shape=[5, 4]).result()
    a[1:3].write(7).result()
    again = ts.open({"driver": "auto", "kvstore": {**spec, "path": "x.zarr/"}}).result()
    assert again.read().result().sum() == 56
    options = {"endpoint": spec["endpoint"], "region": "us-east-1"}
    assert tegula.open(f"s3://{spec['bucket']}/x.zarr", storage_options=options)[1, 0] == 7
    with ts.Transaction() as transaction:
        a.with_transaction(transaction)[0].write(1).result()
    assert again.read().result()[0].tolist() == [1, 1, 1, 1]


def test_a_web_server(http_server: Any) -> None:
    bucket = http_server.bucket()
    tegula.save(http_server.directory(bucket) / "x.zarr", np.arange(6).reshape(2, 3))
    assert ts.open(f"{bucket.url}/x.zarr/|auto").result().read().result().tolist() == [[0, 1, 2], [3, 4, 5]]
    store = ts.KvStore.open({"driver": "http", "base_url": bucket.url, "path": "x.zarr/"}).result()
    assert json.loads(store["zarr.json"])["shape"] == [2, 3]
    assert "nothing" not in store
    with pytest.raises((ValueError, NotImplementedError, TegulaError)):
        store["y"] = b""
    with pytest.raises((ValueError, NotImplementedError, TegulaError)):
        store.list().result()
