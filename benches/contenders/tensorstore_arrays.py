"""TensorStore, without a cache: as it is by default, and without waiting for the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorstore as ts
from cases import Case, Values

from contenders.interface import Contender


class Held:
    """A store that is replaced when it gets another shape."""

    def __init__(self, store: Any) -> None:
        self.store = store


class TensorStore(Contender):
    """With ``file_io_sync`` false, so that it waits for the disk as little as the others do."""

    name = "ts"
    module = "tensorstore"
    sync = False

    def _spec(self, path: Path) -> dict[str, Any]:
        # what was read before may have changed, as with everyone else
        drivers = {"zarr.json": "zarr3", "attributes.json": "n5"}
        return {
            "driver": next((driver for name, driver in drivers.items() if (path / name).exists()), "zarr"),
            "kvstore": {"driver": "file", "path": str(path), "file_io_sync": self.sync},
            "context": {"cache_pool": {"total_bytes_limit": 0}},
        }

    def open(self, case: Case, path: Path) -> Held:
        store = ts.open(self._spec(path), open=True).result()
        return Held(store.T if case.format == "n5" else store)  # its axes are in the order of N5

    def reader(self, array: Held) -> Any:
        store = array.store
        return lambda key: store[key].read().result()

    def put(self, array: Held, key: Any, values: Values) -> None:
        array.store[key].write(values).result()

    def points(self, array: Held, axes: tuple[Values, ...]) -> Values:
        return array.store.vindex[axes].read().result()

    def append(self, array: Held, values: Values) -> None:
        rows = array.store.shape[0]
        self.resize(array, (rows + len(values), *array.store.shape[1:]))
        array.store[rows:].write(values).result()

    def resize(self, array: Held, shape: tuple[int, ...]) -> None:
        array.store = array.store.resize(exclusive_max=shape).result()

    def shape(self, array: Held) -> tuple[int, ...]:
        return tuple(array.store.shape)

    def names(self, path: Path) -> int:
        documents = ts.KvStore.open({"driver": "file", "path": f"{path}/"}).result().list().result()
        return len({key.split(b"/")[0] for key in documents if b"/" in key})

    def arrays(self, path: Path) -> int:
        names = {
            key.split(b"/")[0].decode()
            for key in ts.KvStore.open({"driver": "file", "path": f"{path}/"}).result().list().result()
            if b"/" in key
        }
        opened = [ts.open(self._spec(path / name), open=True) for name in names]
        return sum(tuple(one.result().shape) == (10,) for one in opened)


class SyncedTensorStore(TensorStore):
    """As it is by default: a write returns when the disk has it."""

    name = "tsdef"
    sync = synced = True
