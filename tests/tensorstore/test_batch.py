"""Batches begin when they are submitted."""

import gc
from pathlib import Path

import pytest

from tegula.tensorstore.future import Batch
from tegula.tensorstore.kvstore.kvstore import KvStore


def test_reads_wait_for_the_batch(tmp_path: Path) -> None:
    store = KvStore.open(f"file://{tmp_path}/").result()
    store["a"] = b"0123"
    batch = Batch()
    full, part = store.read("a", batch=batch), store.read("a", batch=batch, byte_range=slice(1, 3))
    wrong, lost = store.read("a", batch=batch, byte_range=slice(1, 9)), store.read("a", batch=batch)
    assert not full.done()
    assert lost.cancel()
    batch.submit()
    batch.submit()
    assert (full.result().value, part.result().value) == (b"0123", b"12")
    with pytest.raises(ValueError, match="OUT_OF_RANGE"):
        wrong.result()
    with pytest.raises(ValueError, match="batch was already submitted"):
        store.read("a", batch=batch)


def test_ends_of_batches() -> None:
    with Batch() as batch:
        first = batch._defer(len, "abc")
    assert first.result() == 3
    batch = Batch()
    first = batch._defer(len, "abcd")
    with pytest.raises(ZeroDivisionError), batch:
        divmod(1, 0)
    assert first.result(timeout=5) == 4
    batch = Batch()
    first = batch._defer(len, "")
    del batch
    gc.collect()
    assert first.result(timeout=5) == 0
