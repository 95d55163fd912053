"""TensorStore without a cache, with its locks: as it is by default, and without waiting for the disk."""

from __future__ import annotations

from typing import Any

import tensorstore as ts

from torture.libraries.interface import Library, Values, inner_chunk


class Held:
    """A store that is replaced when it gets another shape."""

    def __init__(self, store: Any) -> None:
        self.store = store


class TensorStore(Library):
    """With ``file_io_sync`` false."""

    module = "tensorstore"
    layouts = ("zarr3", "zarr2", "shard")
    codecs = ("none", "lz4", "zstd", "gzip", "crc32c")
    lacks = ("append", "attributes")
    sync = False

    def _spec(self, path: str, layout: str) -> dict[str, Any]:
        return {
            "driver": "zarr" if layout == "zarr2" else "zarr3",
            "kvstore": {"driver": "file", "path": path, "file_io_sync": self.sync},
            "context": {"cache_pool": {"total_bytes_limit": 0}},
            "recheck_cached_data": True,
        }

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        metadata: dict[str, Any] = {"shape": [length]}
        if layout == "zarr2":
            compressor = {
                "none": None,
                "lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
                "zstd": {"id": "zstd", "level": 3},
                "gzip": {"id": "gzip", "level": 5},
            }[codec]
            metadata.update(chunks=[chunk], dtype=f"<{dtype}", compressor=compressor, fill_value=0)
        else:
            types = {"i4": "int32", "u2": "uint16", "u1": "uint8"}
            codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
            blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
            codecs += {
                "none": [],
                "lz4": [{"name": "blosc", "configuration": blosc}],
                "zstd": [{"name": "zstd", "configuration": {"level": 3}}],
                "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
                "crc32c": [{"name": "crc32c"}],
            }[codec]
            if layout == "shard":
                inner = {"chunk_shape": [inner_chunk(chunk)], "codecs": codecs}
                codecs = [{"name": "sharding_indexed", "configuration": inner}]
            metadata.update(
                chunk_grid={"name": "regular", "configuration": {"chunk_shape": [chunk]}},
                data_type=types[dtype],
                codecs=codecs,
                fill_value=0,
            )
        ts.open({**self._spec(path, layout), "metadata": metadata}, create=True).result()

    def open(self, path: str, layout: str) -> Held:
        return Held(ts.open(self._spec(path, layout), open=True).result())

    def read(self, node: Held, selection: Any = slice(None)) -> Values:
        found: Values = node.store[selection].read().result()
        return found

    def write(self, node: Held, selection: Any, values: Any) -> None:
        node.store[selection].write(values).result()

    def resize(self, node: Held, length: int) -> None:
        node.store = node.store.resize(exclusive_max=[length]).result()


class SyncedTensorStore(TensorStore):
    """As it is by default: a write returns when the disk has it."""

    sync = True
