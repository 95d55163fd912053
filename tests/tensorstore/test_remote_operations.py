"""Operations on remote storage wait on threads of their own, so that many wait at once."""

from __future__ import annotations

from typing import Any

import pytest

import tegula.tensorstore as ts

pytest.importorskip("obstore")


@pytest.fixture
def spec(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    bucket = s3_server.bucket()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    return {"driver": "s3", "bucket": bucket.name, "endpoint": bucket.endpoint, "aws_region": "us-east-1"}


@pytest.mark.sampled(one_in=21)
@pytest.mark.parametrize("how", ["keys", "keys in a batch", "arrays", "arrays in a batch", "writes"])
def test_small_operations_that_begin_together_wait_together(
    spec: dict[str, Any], s3_server: Any, proxied: Any, how: str
) -> None:
    """More of them than there are threads to work with."""
    store = ts.KvStore.open(spec).result()
    for number in range(24):
        store[f"k{number}"] = b"%d" % number
    create: Any = {"driver": "zarr3", "kvstore": {**spec, "path": "x/"}, "create": True}
    array = ts.open(create, dtype="int32", shape=[24], chunk_layout=ts.ChunkLayout(chunk_shape=[1])).result()
    array.write(range(24)).result()
    proxy = proxied(s3_server, latency=0.3)
    through = {**spec, "endpoint": proxy.endpoint}
    store = ts.KvStore.open(through).result()
    array = ts.open({"driver": "zarr3", "kvstore": {**through, "path": "x/"}}).result()
    batch = ts.Batch() if "batch" in how else None
    futures: list[Any]
    if "keys" in how:
        futures = [store.read(f"k{number}", batch=batch) for number in range(24)]
    elif "arrays" in how:
        futures = [array[number].read(batch=batch) for number in range(24)]
    else:
        futures = [store.write(f"k{number}", b"%d" % number) for number in range(24)]
    if batch is not None:
        batch.submit()
    results = [future.result(timeout=60) for future in futures]
    if "keys" in how:
        assert [each.value for each in results] == [b"%d" % number for number in range(24)]
    elif "arrays" in how:
        assert [int(each) for each in results] == [*range(24)]
    assert proxy.peak > 8
