"""Inner chunks copied into shards, out of shards and between shards, without decoding any of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.copying.test_chunks import every_chunk

import tegula
from tegula.engine.copying import chunk_copies
from tegula.engine.copying.chunks import Moved, can_copy_chunks, copier_of, copy_chunks
from tegula.errors import CodecError, StoreError
from tegula.stores import MemoryStore, Store

CODECS: list[Any] = [
    None, "zstd", "gzip", [{"name": "blosc", "configuration": {"cname": "lz4"}}], ["zstd", "crc32c"],
]  # fmt: skip


class Far(MemoryStore):
    """A store that is asked as a remote one, and counts what it is asked for."""

    concurrency = 8

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def get(self, key: str, byte_range: Any = None, **options: Any) -> Any:
        self.asked.append((key, byte_range))
        return super().get(key, byte_range, **options)


def totals(source: tegula.Array, target: tegula.Array) -> Moved:
    assert can_copy_chunks(source.stored, target.stored)
    copier = copier_of(source.stored, target.stored)
    moved = [*copy_chunks(copier, every_chunk(copier.units))]
    return Moved(*(sum(part) for part in zip(*moved))) if moved else Moved(0, 0, 0, 0)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, ...] | None]]:
    """Draw a shape, inner chunks, and the shards of both arrays."""
    ndim = draw(st.integers(1, 3))
    chunks = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    shape = tuple(draw(st.integers(0 if n == 1 else 1, 9)) for n in range(1, ndim + 1))
    shards = [
        tuple(size * draw(st.integers(1, 3)) for size in chunks) if draw(st.booleans()) else None for _ in range(2)
    ]
    return shape, chunks, shards


@given(st.data(), layouts(), st.sampled_from(CODECS), st.sampled_from([MemoryStore, Far]))
def test_the_target_holds_the_same_values_and_nothing_is_decoded(
    data: st.DataObject, layout: Any, codecs: Any, make: type[Store]
) -> None:
    shape, chunks, shards = layout
    options: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": "i2", "codecs": codecs, "format": "zarr3"}
    options["fill_value"] = 7
    source = tegula.create_array(make(), shards=shards[0], **options)
    values = np.full(shape, 7, "i2")
    for _ in range(data.draw(st.integers(0, 3))):
        box = tuple(slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))) for n in shape)
        values[box] = data.draw(st.integers(-5, 9))
        source[box] = values[box]
    target = tegula.create_array(make(), shards=shards[1], **options)

    def refuse(*_: Any) -> None:
        raise AssertionError("a chunk was decoded")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_copies, "read", refuse)
        moved = totals(source, target)
    np.testing.assert_array_equal(target[...], values)
    assert moved.copied == moved.stored == target.stored.amount_stored()[0]
    assert moved.after == target.nbytes_stored()
    # chunks that are missing stay missing
    again = tegula.create_array(MemoryStore(), shards=shards[0], **options)
    totals(target, again)
    assert again.stored.amount_stored() == source.stored.amount_stored()


def sharded(shards: Any, store: Store | None = None, **options: Any) -> tegula.Array:
    options = {"shape": (8, 8), "chunks": (2, 2), "dtype": "i4", "codecs": "zstd", **options}
    return tegula.create_array(MemoryStore() if store is None else store, shards=shards, format="zarr3", **options)


def test_the_index_and_one_range_of_a_remote_shard_are_read() -> None:
    source = sharded((8, 8), Far())
    source[...] = np.arange(64).reshape(8, 8)
    source.store.asked.clear()
    totals(source, sharded(None))
    ranges = [byte_range for key, byte_range in source.store.asked if key != "zarr.json"]
    assert len(ranges) == 2
    assert all(byte_range is not None for byte_range in ranges)


def test_chunks_of_zarr_v2_become_inner_chunks() -> None:
    old = tegula.create_array(
        MemoryStore(), shape=(8, 8), chunks=(2, 2), dtype=">i4", codecs={"id": "zstd"}, format="zarr2"
    )
    old[...] = np.arange(64).reshape(8, 8)
    store = MemoryStore()
    report = tegula.convert(old, store, format="zarr3", shards=(4, 8))
    assert (report.chunks_copied, report.chunks_stored) == (2, 2)
    np.testing.assert_array_equal(tegula.open(store)[...], old[...])


def test_given_codecs_that_are_those_of_the_source_change_nothing() -> None:
    source = sharded((4, 4))
    source[...] = np.arange(64).reshape(8, 8)
    for shards in (False, (8, 8)):
        report = tegula.convert(source, MemoryStore(), shards=shards, codecs="zstd", verify=True)
        assert (report.ok, report.chunks_copied) == (True, report.chunks_stored)
        report = tegula.convert(source, MemoryStore(), shards=shards, codecs="gzip", verify=True)
        assert (report.ok, report.chunks_copied) == (True, 0)


def test_missing_chunks_are_stored_where_the_target_keeps_all() -> None:
    for one, other in [((4, 4), None), (None, (4, 4)), ((4, 4), (2, 8)), ((4, 4), (4, 4))]:
        source = sharded(one, fill_value=3)
        source[:2, :2] = 1
        target = sharded(other, fill_value=5)
        keeping = replace(target.stored, write_empty=True)
        assert can_copy_chunks(source.stored, keeping)
        copier = copier_of(source.stored, keeping)
        assert [*copy_chunks(copier, every_chunk(copier.units))]
        np.testing.assert_array_equal(target[...], source[...])
        assert target.stored.amount_stored()[0] == (16 if other is None else 4)


@pytest.mark.parametrize("other", [None, (4, 8), (4, 4)])
@pytest.mark.parametrize("damage", [b"", b"short", b"\x01" * 400])
def test_damage_is_an_error_as_in_reading(other: Any, damage: bytes) -> None:
    source = sharded((4, 4), path="a")
    source[...] = np.arange(64).reshape(8, 8)
    source.store.set("a/c/1/0", damage)
    with pytest.raises(CodecError) as read:
        source[...]
    with pytest.raises(CodecError) as moved:
        totals(source, sharded(other))
    assert moved.value.key == read.value.key == "a/c/1/0"
    assert moved.value.path == read.value.path


def test_a_damaged_inner_chunk_is_an_error_as_in_reading() -> None:
    source = sharded((4, 4), codecs=None)
    source[...] = 1
    whole = bytearray(source.store.get("c/0/0"))
    whole[-16 * 4 - 4] ^= 1  # in the index, which has a checksum
    source.store.set("c/0/0", bytes(whole))
    with pytest.raises(CodecError):
        totals(source, sharded(None, codecs=None))
    chunks = sharded(None)
    chunks[...] = 1
    chunks.store.set("c/1/1", b"damaged")
    with pytest.raises(CodecError) as caught:
        totals(chunks, sharded((4, 4)))
    assert caught.value.key == "c/1/1"


def test_few_chunks_of_a_huge_grid_are_visited() -> None:
    options: dict[str, Any] = {"shape": (10**9, 10**9)}
    for one, other in [(None, (20, 20)), ((20, 20), None), ((20, 20), (40, 10))]:
        source = sharded(one, **options)
        source[5, 5] = 1
        source[10**8, 3:30] = 2
        target = sharded(other, **options)
        assert tegula.convert(source, target.store, overwrite=True, shards=other or False).chunks_copied
        target = tegula.open_array(target.store)
        assert target[5, 5] == 1
        assert target[10**8, 2:31].tolist() == [0, *[2] * 27, 0]


def test_errors_name_the_store_and_key() -> None:
    class Broken(MemoryStore):
        def get(self, key: str, *args: Any, **options: Any) -> Any:
            if key == "a/c/0/0":
                raise StoreError("out of order")
            return super().get(key, *args, **options)

    for shards in (None, (4, 4)):
        source = sharded(shards, Broken(), path="a")
        source[4:] = 1
        with pytest.raises(StoreError, match="out of order") as caught:
            totals(source, sharded((8, 8)))
        assert caught.value.key == "a/c/0/0"
        assert caught.value.path is not None
