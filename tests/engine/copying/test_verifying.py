"""Verification of chunks: large shards are read in parts, also while others write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula
from tegula.engine import verify_chunk
from tegula.engine.copying import verifying
from tegula.stores import MemoryStore


class Watched(MemoryStore):
    """A store that records the sizes of reads, and runs another action between them."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.between: Any = None

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        found = super().get(key, byte_range, with_generation=with_generation)
        value = found[0] if with_generation else found
        if key.startswith("c/"):
            self.largest = max(self.largest, len(value or b""))
            act, self.between = self.between, None
            if act is not None:
                act()
        return found


def shard(store: MemoryStore, *, start: bool = False, inner: Any = None) -> Any:
    plain = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    configuration = {
        "chunk_shape": [4], "codecs": inner or plain, "index_codecs": plain,
        "index_location": "start" if start else "end",
    }  # fmt: skip
    array = tegula.create_array(
        store, shape=64, chunks=32, dtype="i4", codecs={"name": "sharding_indexed", "configuration": configuration}
    )
    array[...] = np.arange(1, 65)
    return array


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("whole", [0, 2**24])
def test_a_shard_by_parts_and_whole(start: bool, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_WHOLE", whole)
    store = Watched()
    array = shard(store, start=start)
    store.largest = 0
    verdict = verify_chunk(array.stored, (1,), "c/1")
    assert verdict is not None
    assert (verdict.chunks, verdict.decoded, verdict.faults) == (8, 128, [])
    assert (store.largest < verdict.stored) == (whole == 0)
    raw = bytearray(store.get("c/1") or b"")
    at = (8 * 16 + 4 if start else 0) + 2 * 20
    raw[at] ^= 1
    store.set("c/1", raw)
    verdict = verify_chunk(array.stored, (1,), "c/1")
    assert verdict is not None
    assert [fault.kind for fault in verdict.faults] == ["damaged-chunk"]
    assert "(2,)" in verdict.faults[0].message
    assert verdict.chunks == 7


def test_a_shard_that_is_replaced_during_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_WHOLE", 0)
    store = Watched()
    array = shard(store)
    array[:20] = 0  # some inner chunks go, and the others lie elsewhere
    small = store.get("c/0")
    array[...] = 5
    store.between = lambda: store.set("c/0", small)
    verdict = verify_chunk(array.stored, (0,), "c/0")
    assert verdict is not None
    assert (verdict.chunks, verdict.faults) == (3, [])
    store.between = lambda: store.delete("c/0")
    assert verify_chunk(array.stored, (0,), "c/0") is None


def test_shards_in_shards() -> None:
    store = MemoryStore()
    plain = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    inner = {"chunk_shape": [2], "codecs": plain, "index_codecs": plain}
    array = shard(store, inner=[{"name": "sharding_indexed", "configuration": inner}])
    verdict = verify_chunk(array.stored, (0,), "c/0")
    assert verdict is not None
    assert (verdict.chunks, verdict.faults) == (16, [])
    raw = bytearray(store.get("c/0") or b"")
    raw[1] ^= 1
    store.set("c/0", raw)
    verdict = verify_chunk(array.stored, (0,), "c/0")
    assert verdict is not None
    assert [fault.message.split(": ")[:2] for fault in verdict.faults] == [["inner chunk (0,)", "inner chunk (0,)"]]
    assert verdict.chunks == 15


def test_nothing_there() -> None:
    for options in ({"shards": 4}, {}):
        array = tegula.create_array(MemoryStore(), shape=8, chunks=2, dtype="u1", **options)
        assert verify_chunk(array.stored, (0,), "c/0") is None
