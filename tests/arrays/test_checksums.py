"""Arrays created or converted with ``checksum=True``: damage is an error, and other implementations read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr

import tegula
from tegula.errors import TegulaError, UnsupportedError
from tegula.stores import LocalStore, MemoryStore, Store

VALUES = (np.arange(7 * 10) % 13).reshape(7, 10).astype("<i4")
KINDS: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2", "chunks": (4, 5)},
    "zarr3": {"format": "zarr3", "chunks": (4, 5)},
    "shards": {"format": "zarr3", "chunks": (2, 5), "shards": (4, 10)},
}
CODECS = ["auto", None, "blosc", ["gzip"], ["crc32c"]]


def create(target: Any, kind: str, codecs: Any = "auto") -> Any:
    a = tegula.create_array(target, shape=VALUES.shape, dtype="<i4", codecs=codecs, checksum=True, **KINDS[kind])
    a[...] = VALUES
    return a


def documents(store: Store) -> set[str]:
    return {key for key in store.list() if key.rpartition("/")[2] in ("zarr.json", ".zarray", ".zattrs")}


@pytest.mark.parametrize("codecs", CODECS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_any_damage_is_an_error(kind: str, codecs: Any) -> None:
    store = MemoryStore()
    a = create(store, kind, codecs)
    assert np.array_equal(a[...], VALUES)
    for key in sorted({*store.list()} - documents(store))[:1]:
        raw = store.get(key)
        assert raw is not None
        damaged = [raw[:position] + bytes([raw[position] ^ 1 << position % 8]) + raw[position + 1 :]
                   for position in range(len(raw))]  # fmt: skip
        for wrong in [*damaged, raw[:-1], raw[1:], raw[: len(raw) // 2], b""]:
            store.set(key, wrong)
            with pytest.raises(TegulaError) as caught:
                a[...]
            assert caught.value.key == key
        store.set(key, raw)
    assert np.array_equal(a[...], VALUES)


def test_damage_to_an_inner_chunk_fails_only_reads_of_that_chunk() -> None:
    store = MemoryStore()
    a = create(store, "shards", None)
    raw = bytearray(store.get("c/0/0") or b"")
    raw[3] ^= 1  # of the first inner chunk
    store.set("c/0/0", raw)
    with pytest.raises(TegulaError, match="checksum"):
        a[0, 0]
    assert a[2, 7] == VALUES[2, 7]


@pytest.mark.parametrize("codecs", CODECS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_other_implementations_read_it(kind: str, codecs: Any, tmp_path: Any) -> None:
    create(tmp_path, kind, codecs)
    assert np.array_equal(zarr.open_array(str(tmp_path), mode="r")[...], VALUES)
    if kind != "zarr2":  # TensorStore has no filters
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path)}}
        assert np.array_equal(tensorstore.open(spec).result().read().result(), VALUES)


@pytest.mark.parametrize("kind", KINDS)
def test_one_checksum_is_enough(kind: str) -> None:
    sums = str(create({}, kind, ["zstd", "crc32c"]).metadata.codecs).count("crc32c")
    assert sums == (2 if kind == "shards" else 1)  # that of the index is its own


@pytest.mark.parametrize("format", ["zarr1", "bcolz"])
def test_formats_without_checksums_say_so(format: str) -> None:
    store = MemoryStore()
    with pytest.raises(UnsupportedError, match="crc32c"):
        tegula.create_array(store, shape=3, dtype="i4", format=format, checksum=True)
    assert not [*store.list()]


def test_creating_by_opening_and_in_a_group(tmp_path: Any) -> None:
    a = tegula.open(tmp_path / "a", mode="w", shape=3, dtype="i4", checksum=True)
    b = tegula.create_group(tmp_path / "g").create_array("b", shape=3, dtype="i4", checksum=True)
    for array in (a, b):
        assert array.metadata.codecs[-1].name == "crc32c"


@pytest.mark.parametrize("kind", ["zarr2", "zarr3"])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_converting_adds_checksums_without_compressing_anew(kind: str, format: str, tmp_path: Any) -> None:
    source = tegula.create_array(LocalStore(tmp_path / "old"), shape=VALUES.shape, dtype="<i4", **KINDS[kind])
    source[...] = VALUES
    report = tegula.convert(source, tmp_path / "new", format=format, checksum=True, verify=True)
    new = tegula.open_array(tmp_path / "new")
    assert new.metadata.codecs[-1].name.endswith("crc32c")
    assert report.arrays[0].chunks_copied == 4
    assert report.ok
    assert np.array_equal(new[...], VALUES)
