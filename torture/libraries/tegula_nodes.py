"""tegula, with either executor."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

import tegula
from tegula.stores.objects.requests import Retries
from torture.libraries.interface import Library, Values, inner_chunk

_FORMATS = {"zarr2": "zarr2", "zarr3": "zarr3", "shard": "zarr3", "bcolz": "bcolz", "table": "bcolz"}


def _codec(layout: str, name: str) -> Any:
    if name == "none":
        return [] if layout != "bcolz" else {"id": "blosc", "cname": "lz4", "clevel": 0, "shuffle": 0}
    if name == "lz4":
        return {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    return [name]


@lru_cache
def _object_store(target: str) -> tegula.Store:
    """Open a bucket; since many requests fail on purpose, the store waits less between retries than by default."""
    options, end = json.JSONDecoder().raw_decode(target)
    parts = urlsplit(target[end:].strip())
    stores = import_module("obstore.store")  # in the child: what obstore starts does not survive a fork
    bucket = f"{parts.scheme}://{parts.netloc}"
    store = stores.from_url(bucket, config=options, client_options={"allow_http": True})
    return tegula.ObjectStore(store, parts.path, retries=Retries(first=0.01, longest=0.2))


class Tegula(Library):
    """As it is by default."""

    module = "tegula"
    remote = True
    layouts = ("zarr3", "zarr2", "shard", "bcolz", "table")
    codecs = ("none", "lz4", "zstd", "gzip", "crc32c")
    durability: Literal["rename", "fsync"] = "rename"

    def version(self) -> str:
        return tegula.__version__

    def prepare(self) -> None:
        for layout, format in _FORMATS.items():
            store = tegula.MemoryStore()
            if layout == "table":
                tegula.create_table(store, {"x": [1]}, format=format).append({"x": [2]})
                continue
            array = tegula.create_array(
                store, shape=4, chunks=2, dtype="i4", codecs=_codec(layout, "lz4"), format=format
            )
            array[1:] = 1
            array.append([1])
            array.attrs["x"] = array[...].tolist()
            array.resize(3)

    def load(self) -> None:
        tegula.load_all()

    def store(self, path: str) -> tegula.Store:
        """Return the store of a path."""
        if path.startswith("{"):
            return _object_store(path)
        return tegula.LocalStore(path, durability=self.durability)

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        options: dict[str, Any] = {"codecs": _codec(layout, codec), "format": _FORMATS[layout]}
        if layout == "table":
            rows = np.zeros(length, [("x", dtype), ("y", "f8")])
            tegula.create_table(self.store(path), rows, chunks={"x": chunk, "y": chunk // 2}, format="bcolz")
            return
        if layout == "shard":
            options.update(chunks=inner_chunk(chunk), shards=chunk)
        else:
            options.update(chunks=chunk)
        tegula.create_array(self.store(path), shape=length, dtype=dtype, **options)

    def open(self, path: str, layout: str) -> Any:
        if layout == "table":
            return tegula.open_table(self.store(path), mode="r+")
        return tegula.open(self.store(path), mode="r+")

    def read(self, node: Any, selection: Any = slice(None)) -> Values:
        if isinstance(node, tegula.Table):
            columns = node[:]
            if not (columns["y"] == columns["x"] / 2).all():
                raise ValueError("the columns of the table do not belong together")
            return np.asarray(columns["x"][selection])
        return super().read(node, selection)

    def append(self, node: Any, values: Values) -> None:
        node.append({"x": values, "y": values / 2} if isinstance(node, tegula.Table) else values)


class SyncedTegula(Tegula):
    """Waiting for the disk."""

    durability = "fsync"
