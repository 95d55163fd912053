"""Damaged chunks, and chunks that can not be read, are errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.errors import (
    CodecError,
    StoreError,
)
from tegula.stores import LocalStore, MemoryStore


def outcome(action: Callable[[], Any]) -> Any:
    """Return what an action returns, or the error of a codec."""
    try:
        return action()
    except CodecError as error:
        return error


def damaged(options: dict[str, Any]) -> tuple[MemoryStore, tegula.Array, str]:
    store = MemoryStore()
    array = tegula.create_array(store, path="a", shape=(4, 4), chunks=(2, 2), dtype="i4", **options)
    array[...] = np.arange(16).reshape(4, 4) + 1
    key = max(key for key in store.list() if key[-1].isdigit())
    return store, array, key


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr1"}, {"format": "zarr1", "codecs": None}, {"format": "zarr1", "codecs": {"id": "zlib"}},
        {"format": "zarr2"}, {"format": "zarr2", "codecs": None}, {"format": "zarr2", "codecs": {"id": "lz4"}},
        {}, {"codecs": None}, {"codecs": "gzip"}, {"codecs": ["crc32c"]}, {"codecs": "blosc"}, {"shards": (4, 4)},
        {"shards": (4, 4), "codecs": None},
    ],
)  # fmt: skip
def test_the_error_of_a_damaged_chunk_names_it(options: dict[str, Any]) -> None:
    store, array, key = damaged(options)
    good = store.get(key) or b""
    cases = [b"", b"\0", good[:-1], good[: len(good) // 2], b"\xff" * len(good), b"\0" * 7, bytes(reversed(good))]
    if options.get("codecs", 1) is None:
        cases = [b"", good[:-1], good[: len(good) // 2], b"\0" * 7]
    if "shards" not in options:  # a shard may hold anything between its chunks
        cases.append(good + b"\0" * 16 if options.get("codecs", 1) is None else good + good)
    for raw in cases:
        store.set(key, raw)
        changes = [lambda: array[...], lambda: array.__setitem__((3, 3), 5)]
        for change in changes:
            with pytest.raises(CodecError) as caught:
                change()
            assert caught.value.key == key
            assert store.url in str(caught.value)
        assert store.get(key) == raw
    # a chunk that is replaced as a whole need not be read
    array[...] = 5
    assert (array[...] == 5).all()


@pytest.mark.parametrize("cname", ["lz4", "zstd", "blosclz", "zlib"])
@pytest.mark.parametrize("size", [0, 15, 17, 2**20, 2**31 - 1, 2**32 - 1])
def test_a_header_with_a_wrong_size(cname: str, size: int) -> None:
    for place in (4, 8, 12):
        store, array, key = damaged({"codecs": {"name": "blosc", "configuration": {"cname": cname}}})
        raw = bytearray(store.get(key) or b"")
        raw[place : place + 4] = size.to_bytes(4, "little")
        store.set(key, raw)
        found = outcome(lambda array=array: array[...])
        if isinstance(found, CodecError):
            assert found.key == key
        else:  # the block size says nothing of these values
            assert (found == np.arange(16).reshape(4, 4) + 1).all()


@given(st.data())
@settings(max_examples=150)
def test_a_damaged_shard_is_an_error_or_its_values(data: st.DataObject) -> None:
    start = data.draw(st.booleans())
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [2, 2],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_location": "start" if start else "end",
        },
    }
    store = MemoryStore()
    array = tegula.create_array(store, shape=(4, 4), chunks=(4, 4), dtype="i4", codecs=[sharding], fill_value=99)
    expected = np.arange(16).reshape(4, 4) + 1
    array[...] = expected
    raw = bytearray(store.get("c/0/0") or b"")
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, 3)) * 16 + data.draw(st.sampled_from([0, 8])) + (0 if start else len(raw) - 64)
        number = data.draw(st.sampled_from([0, 1, 64, len(raw), 2**31, 2**62, 2**63, 2**64 - 1, 2**64 - 2]))
        raw[at : at + 8] = number.to_bytes(8, "little")
    else:
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(1, 8))] = data.draw(st.binary(max_size=8))
    store.set("c/0/0", raw)
    for selection in (..., (3, 3), (slice(0, 1), slice(0, 4))):
        found = outcome(lambda selection=selection: array[selection])
        if isinstance(found, CodecError):
            assert found.key == "c/0/0"
        else:
            assert np.isin(found, [*expected.flat, 99]).all()


@pytest.mark.posix("links")
def test_only_a_missing_file_is_a_missing_chunk(tmp_path: Any) -> None:
    array = tegula.create_array(
        tmp_path / "x", shape=(8,), chunks=(2,), dtype="i4", fill_value=3, chunk_key_encoding="."
    )
    array[0:2] = 1
    (tmp_path / "x" / "c.1").mkdir()
    (tmp_path / "x" / "c.2").symlink_to("nowhere")
    (tmp_path / "x" / "c.3").symlink_to("c.3")
    for number in (1, 2, 3):
        for change in (lambda n=number: array[2 * n], lambda n=number: array[2 * n : 2 * n + 2]):
            with pytest.raises(StoreError) as caught:
                change()
            assert caught.value.key == f"c.{number}"
            assert "x" in str(caught.value)
    with pytest.raises(StoreError) as caught:
        array[2] = 1
    assert caught.value.key == "c.1"
    assert array[0] == 1


def test_a_chunk_without_permission_is_not_a_missing_chunk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array = tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4")
    array[...] = 1

    def refuse(self: LocalStore, key: str, *args: Any, **options: Any) -> Any:
        raise StoreError("can't read it: Permission denied", key=key) from PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalStore, "get", refuse)
    with config.configure(executor="reference"), pytest.raises(StoreError) as caught:  # the kernel opens files itself
        array[...]
    assert isinstance(caught.value.__cause__, PermissionError)
    with pytest.raises(StoreError):
        tegula.open(tmp_path / "x")
