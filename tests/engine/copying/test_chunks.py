"""Chunks copied without decoding: each once, except missing and damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.engine.copying.chunks import Moved, can_copy_chunks, copier_of, copy_chunks
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import cells
from tegula.errors import CodecError, StoreError
from tegula.stores import LocalStore, MemoryStore

BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}


class CountingStore(MemoryStore):
    """A store that records reads and writes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.calls: list[tuple[str, str]] = []

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.calls.append(("get", key))
        return super().get(key, *args, **options)

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        self.calls.append(("set", key))
        return super().set(key, *args, **options)


def new(store: Any = None, **options: Any) -> tegula.Array:
    options = {"shape": (7, 5), "chunks": (3, 2), "dtype": "i4", "codecs": BLOSC, "format": "zarr2", **options}
    return tegula.create_array(MemoryStore() if store is None else store, **options)


def every_chunk(array: StoredArray) -> Iterator[tuple[int, ...]]:
    return cells([(0, count) for count in array.metadata.grid.counts(array.metadata.shape)])


def copied(source: tegula.Array, target: tegula.Array) -> Moved:
    assert can_copy_chunks(source.stored, target.stored)
    copier = copier_of(source.stored, target.stored)
    moved = [*copy_chunks(copier, every_chunk(copier.units))]
    return Moved(*(sum(part) for part in zip(*moved))) if moved else Moved(0, 0, 0, 0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(7, 5), (60, 50), (0, 5), (1, 1)])
def test_each_chunk_is_read_once_and_written_once(
    threads: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tegula.engine.copying.chunks._QUICK", 0)  # so that threads are used
    source, target = new(CountingStore(), shape=shape), new(CountingStore(), shape=shape, format="zarr3")
    values = np.arange(prod(shape), dtype="i4").reshape(shape) + 1
    source[...] = values
    source.store.calls.clear()
    target.store.calls.clear()
    with config.configure(threads=threads):
        moved = copied(source, target)
    sizes = (source.nbytes_stored(), target.nbytes_stored())
    assert moved == Moved(source.nchunks, source.nchunks, *sizes)
    documents = {("get", ".zarray"), ("get", "zarr.json")}  # a look at each says that it still describes the chunks
    for array, action in ((source, "get"), (target, "set")):
        calls = [call for call in array.store.calls if call not in documents]
        assert sorted(calls) == sorted((action, key) for _, key in array.stored.stored_chunks())
    assert target.nchunks_initialized() == source.nchunks
    np.testing.assert_array_equal(target[...], values)


def test_missing_chunks_stay_missing() -> None:
    source, target = new(fill_value=4), new(fill_value=4, format="zarr3")
    source[0, 0] = 1
    assert copied(source, target).copied == 1
    assert target.nchunks_initialized() == 1
    np.testing.assert_array_equal(target[...], source[...])
    assert not can_copy_chunks(source.stored, new(fill_value=5).stored)


def test_a_dense_array_gets_every_chunk() -> None:
    source = new(shape=25, chunks=10, fill_value=7)
    source[3] = 1
    target = new(shape=25, chunks=10, fill_value=7, format="bcolz")
    before = source[...]
    moved = copied(source, target)
    assert moved.copied == 1
    assert target.nchunks_initialized() == 3
    np.testing.assert_array_equal(target[...], before)
    # another fill value shows only in missing chunks
    other = new(shape=25, chunks=10, fill_value=0, format="bcolz")
    copied(source, other)
    np.testing.assert_array_equal(other[...], before)


def test_the_last_chunk_of_a_dense_array_is_filled_up() -> None:
    source = new(shape=25, chunks=10, fill_value=7, format="bcolz")
    source[...] = np.arange(25)
    target = new(shape=25, chunks=10, fill_value=7, format="zarr3")
    assert copied(source, target).copied == 2
    target.resize(30)
    assert target[...].tolist() == [*range(25), *[7] * 5]
    # elements beyond the end are not copied
    source.resize(20)
    source.store.set("data/__2.blp", source.store.get("data/__0.blp"))
    assert copied(source, new(shape=20, chunks=10, fill_value=7)).copied == 2


@pytest.mark.parametrize("damage", [b"", b"damaged", b"\x02\x01\x21\x04" + b"\0" * 40])
@pytest.mark.parametrize("codecs", [BLOSC, "zstd", "gzip", {"id": "zlib"}, None], ids=str)
def test_a_damaged_chunk_is_an_error_as_in_reading(codecs: Any, damage: bytes) -> None:
    source, target = new(path="a/b", codecs=codecs), new(codecs=codecs)
    source[...] = 1
    source.store.set("a/b/1.1", damage)
    with pytest.raises(CodecError) as read:
        source[...]
    with pytest.raises(CodecError) as moved:
        copied(source, target)
    assert (moved.value.key, moved.value.path) == ("a/b/1.1", read.value.path)
    assert str(moved.value) == str(read.value)


def test_a_missing_chunk_of_a_dense_array_is_an_error() -> None:
    source = new(shape=25, chunks=10, format="bcolz")
    source.store.delete("data/__1.blp")
    with pytest.raises(StoreError) as caught:
        copied(source, new(shape=25, chunks=10))
    assert caught.value.key == "data/__1.blp"


def test_a_directory_is_not_a_missing_chunk(tmp_path: Path) -> None:
    source = new(LocalStore(tmp_path / "x"))
    (tmp_path / "x" / "0.0").mkdir()
    with pytest.raises(StoreError, match="directory") as caught:
        copied(source, new())
    assert caught.value.key == "0.0"


def test_errors_name_the_store_and_key() -> None:
    class Broken(MemoryStore):
        broken = False

        def get(self, key: str, *args: Any, **options: Any) -> Any:
            if self.broken and key.endswith("0.0"):
                raise StoreError("out of order")
            return super().get(key, *args, **options)

        def set(self, key: str, *args: Any, **options: Any) -> Any:
            if self.broken and key.endswith("c/0/0"):
                raise StoreError("out of order")
            return super().set(key, *args, **options)

    source, target = new(Broken()), new(Broken(), path="t", format="zarr3")
    source[...] = 1
    for array, key in ((source, "0.0"), (target, "t/c/0/0")):
        array.store.broken = True
        with pytest.raises(StoreError, match="out of order") as caught:
            copied(source, target)
        assert caught.value.key == key
        assert caught.value.path is not None
        array.store.broken = False


def test_arrays_whose_chunks_can_not_be_copied() -> None:
    source = new().stored
    assert can_copy_chunks(source, source)
    for options in ({"shape": (7, 6)}, {"chunks": (3, 3)}, {"dtype": "i2"}, {"order": "F"}, {"codecs": "zstd"}):
        assert not can_copy_chunks(source, new(**options).stored)
    nested = {"name": "sharding_indexed", "configuration": {"chunk_shape": [3, 1], "codecs": ["bytes"]}}
    deep = new(format="zarr3", shape=(6, 4), chunks=(3, 2), shards=(3, 4), codecs=[nested]).stored
    for options in ({"chunks": (3, 1)}, {"chunks": (3, 1), "shards": (3, 4)}):
        other = new(**{"format": "zarr3", "shape": (6, 4), "codecs": None, **options}).stored
        assert not can_copy_chunks(deep, other)
        assert not can_copy_chunks(other, deep)


def test_text_that_was_never_written() -> None:
    options: dict[str, Any] = {"shape": 5, "chunks": 2, "dtype": str, "codecs": BLOSC}
    source, target = new(**options), new(**options, format="zarr3")
    source[:2] = np.array(["a", "é"], object)
    stored = replace(source.stored, fill=np.array(None, object))
    assert can_copy_chunks(stored, target.stored)
    assert copied(source, target).copied == 1
    assert target[...].tolist() == ["a", "é", "", "", ""]
