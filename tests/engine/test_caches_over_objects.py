"""The caches of indexes, decoded chunks and files over object storage: requests that are counted, and laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decodings import Decodings
from tests.servers.buckets import Bucket
from tests.servers.proxy import Proxy

import tegula
from tegula import CachedStore, config
from tegula.engine.caches import shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.stores import ObjectStore
from tegula.stores.objects.urls import open_url

RANDOM = np.random.default_rng(0)
DATA = RANDOM.integers(0, 2**16, (8, 1024, 1024)).astype("u2")
LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (4, 256, 512), "codecs": []},
    "small shards": {"chunks": (1, 128, 128), "shards": (4, 256, 256), "codecs": []},
    "large shards": {"chunks": (2, 128, 128), "shards": (8, 1024, 1024), "codecs": []},
}
WINDOW = (slice(1, 3), slice(100, 300), slice(500, 700))
KEYS = {"chunks": 4, "small shards": 4, "large shards": 1}  # of the window


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    yield
    CHUNKS.clear()
    shard_indexes.KEPT.clear()


@pytest.fixture
def proxy(s3_server: Any, proxied: Callable[..., Proxy]) -> Proxy:
    return proxied(s3_server)


def opened(bucket: Bucket, path: str = "x") -> ObjectStore:
    return open_url(f"{bucket.url}/{path}", bucket.storage_options)


def filled(bucket: Bucket, layout: str, data: Any = DATA) -> None:
    store = opened(bucket)
    tegula.create_array(store, data=data, overwrite=True, **LAYOUTS[layout])
    shard_indexes.KEPT.clear()


def conditional(proxy: Proxy) -> list[Any]:
    """Return the requests, which must all have asked whether something has changed."""
    seen = proxy.requests
    for request in seen:
        assert request.method == "HEAD" or "if-none-match" in request.headers, request
        assert request.sent == 0
    return seen


# --- files


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", ["never", "open", "always", 1000])
def test_a_window_is_read_again_from_files(proxy: Proxy, tmp_path: Path, layout: str, rule: Any) -> None:
    bucket = proxy.bucket()
    filled(bucket, layout)

    def reader() -> tegula.Array:
        shard_indexes.KEPT.clear()  # another process has none
        return tegula.open_array(CachedStore(opened(bucket), tmp_path, 10**9, recheck=rule), mode="r")

    first = reader()
    assert np.array_equal(first[WINDOW], DATA[WINDOW])
    proxy.forget()
    assert np.array_equal(first[WINDOW], DATA[WINDOW])
    always = rule == "always"  # then a shard is asked for once for its index, and once for ranges
    assert KEYS[layout] * always <= len(conditional(proxy)) <= 2 * KEYS[layout] * always

    # another process
    second = reader()
    proxy.forget()
    assert np.array_equal(second[WINDOW], DATA[WINDOW])
    if rule == "open":
        assert len(conditional(proxy)) == KEYS[layout]
        proxy.forget()
        second[WINDOW]
    assert KEYS[layout] * always <= len(conditional(proxy)) <= 2 * KEYS[layout] * always
    if rule != "never":
        return

    # another writer, which no rule but this one may overlook
    tegula.open_array(opened(bucket), mode="r+")[WINDOW] = 7
    assert np.array_equal(reader()[WINDOW], DATA[WINDOW])


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", ["open", "always", 0])
def test_another_writer_is_seen(proxy: Proxy, tmp_path: Path, layout: str, rule: Any) -> None:
    bucket = proxy.bucket()
    filled(bucket, layout)

    def reader() -> tegula.Array:
        return tegula.open_array(CachedStore(opened(bucket), tmp_path, 10**9, recheck=rule), mode="r")

    old = reader()
    assert np.array_equal(old[WINDOW], DATA[WINDOW])
    for value in (7, 0, 9):  # chunks of nothing but the fill value are deleted
        tegula.open_array(opened(bucket), mode="r+")[...] = value
        assert (reader()[WINDOW] == value).all()
        if rule != "open":
            assert (old[WINDOW] == value).all()


def test_neither_secrets_nor_names_are_in_files(s3_server: Any, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    options = {**bucket.storage_options, "access_key_id": "AKIAMARKER", "secret_access_key": "marker5ecret"}
    store = open_url(f"{bucket.url}/hidden-name", options)
    tegula.create_array(store, data=DATA[:, :256, :256], chunks=(1, 128, 128), shards=(8, 256, 256))
    cached = CachedStore(store, tmp_path, 10**9, recheck=60)
    array = tegula.open_array(cached, mode="r")
    array[0, 5], array[...]
    cached.get_ranges("c/0/0/0", [(0, 9), (30, 9)])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    for path in files:
        for text in ("MARKER", "marker5ecret", "hidden-name", bucket.name, bucket.endpoint):
            assert text not in str(path.relative_to(tmp_path))
            assert text.encode() not in path.read_bytes()


# --- decoded chunks


@pytest.mark.slow
def test_thin_slabs_of_large_chunks_cost_one_pass(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes across two chunks of 64 MiB, one by one."""
    bucket = proxy.bucket()
    shape = (16, 2048, 4096)
    plane = RANDOM.integers(0, 256, shape[1:]).astype("u1")
    array = tegula.create_array(opened(bucket), shape=shape, dtype="u1", chunks=(16, 2048, 2048), codecs=["bytes"])
    array[...] = np.broadcast_to(plane, shape)
    decodings = Decodings(monkeypatch)
    proxy.forget()
    with config.configure(executor="reference"):
        tegula.open_array(opened(bucket), mode="r")[...]
    once, requests = decodings.count, proxy.count
    decodings.count = 0
    proxy.forget()
    with config.configure(cache_bytes=2**28):
        slabs = tegula.open_array(opened(bucket), mode="r")
        for number in range(shape[0]):
            assert np.array_equal(slabs[number], plane)
        assert 0 < decodings.count <= once == 2
        assert proxy.count <= 1.5 * requests


@pytest.mark.slow
@pytest.mark.sampled(one_in=28)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_thin_slabs_cost_one_pass(proxy: Proxy, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = proxy.bucket()
    filled(bucket, layout)
    decodings = Decodings(monkeypatch)
    with config.configure(executor="reference"), proxy.counted() as seen:
        tegula.open_array(opened(bucket), mode="r")[...]
    once, requests, decodings.count = decodings.count, len(seen), 0
    inner = DATA.size // np.prod(LAYOUTS[layout]["chunks"])
    shard_indexes.KEPT.clear()
    with config.configure(cache_bytes=2**28), proxy.counted() as seen:
        slabs = tegula.open_array(opened(bucket), mode="r")
        for number in range(len(DATA)):
            assert np.array_equal(slabs[number], DATA[number])
    assert 0 < decodings.count <= max(once, inner)
    if layout != "large shards":  # which a plane is a fourth of, and which takes as much time to transfer
        assert len(seen) <= 1.5 * requests
    assert sum(request.sent for request in seen) <= 1.1 * DATA.nbytes


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", ["never", "open", "always"])
def test_a_window_is_read_again_from_memory(proxy: Proxy, layout: str, rule: str) -> None:
    bucket = proxy.bucket()
    filled(bucket, layout)
    with config.configure(cache_bytes=2**28, recheck=rule):
        first = tegula.open_array(opened(bucket), mode="r")
        assert np.array_equal(first[WINDOW], DATA[WINDOW])
        proxy.forget()
        assert np.array_equal(first[WINDOW], DATA[WINDOW])
        assert len(conditional(proxy)) == (KEYS[layout] if rule == "always" else 0)
        second = tegula.open_array(opened(bucket), mode="r")
        proxy.forget()
        assert np.array_equal(second[WINDOW], DATA[WINDOW])
        assert len(conditional(proxy)) == (0 if rule == "never" else KEYS[layout])
        if rule == "never":
            return
        tegula.open_array(opened(bucket), mode="r+")[WINDOW] = 7
        assert (tegula.open_array(opened(bucket), mode="r")[WINDOW] == 7).all()
