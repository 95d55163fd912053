"""Libraries that read and write arrays in a bucket, each with the same number of requests at once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from cases import Values
from remote_cases import CONCURRENCY

from contenders.interface import Lacking

BUCKET = "bench"


class Remote(ABC):
    """A library, and what it opens arrays below an endpoint by."""

    name: str
    module: str

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._stores: dict[str, Any] = {}

    def store(self, path: str) -> Any:
        """Return the library's store for a path, made once: its connections are open when an array is."""
        if path not in self._stores:
            self._stores[path] = self.make_store(path)
        return self._stores[path]

    def make_store(self, path: str) -> Any:
        return self.obstore(path)

    def version(self) -> str:
        return version(self.module)

    def obstore(self, prefix: str | None = None) -> Any:
        """Make a store of obstore."""
        return import_module("obstore.store").S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=self.endpoint,
            region="us-east-1",
            skip_signature=True,
            client_options={"allow_http": True},
        )

    @abstractmethod
    def open(self, path: str) -> Any:
        """Open an array to read and write."""

    def read(self, array: Any, key: Any) -> Values:
        return np.asarray(array[key])

    def points(self, array: Any, axes: tuple[Values, Values]) -> Values:
        return np.asarray(array.vindex[axes])

    def write(self, array: Any, key: Any, values: Values) -> None:
        array[key] = values

    def append(self, array: Any, values: Values) -> Any:
        """Add rows, and return the array to add further ones to."""
        array.append(values)
        return array


class Tegula(Remote):
    """As it is by default."""

    name = module = "tegula"

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.tegula = import_module("tegula")

    def version(self) -> str:
        return str(self.tegula.__version__)

    def make_store(self, path: str) -> Any:
        return self.tegula.ObjectStore(self.obstore(), path)

    def open(self, path: str) -> Any:
        return self.tegula.open_array(self.store(path), mode="r+")


class ZarrPython(Remote):
    """zarr-python through obstore."""

    name = "zarr3"
    module = "zarr"
    pipeline = "zarr.core.codec_pipeline.BatchedCodecPipeline"

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.zarr = import_module("zarr")
        if int(self.version().split(".")[0]) < 3:
            raise Lacking("zarr-python 3 is not installed")
        self.zarr.config.set({"async.concurrency": CONCURRENCY, "codec_pipeline.path": self.pipeline})

    def make_store(self, path: str) -> Any:
        return import_module("zarr.storage").ObjectStore(self.obstore(path))

    def open(self, path: str) -> Any:
        return self.zarr.open_array(self.store(path), mode="r+", zarr_format=3)


class FusedZarrPython(ZarrPython):
    """zarr-python through obstore, with its other codec pipeline."""

    name = "fused"
    pipeline = "zarr.core.codec_pipeline.FusedCodecPipeline"

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        if not hasattr(import_module("zarr.core.codec_pipeline"), "FusedCodecPipeline"):
            raise Lacking("this zarr-python has no FusedCodecPipeline")


class Zarrista(Remote):
    """zarrs, through zarrista and obstore."""

    name = module = "zarrista"

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.zarrista = import_module("zarrista")
        self.run = asyncio.new_event_loop().run_until_complete

    def open(self, path: str) -> Any:
        async def opened() -> Any:
            return await self.zarrista.AsyncArray.open(self.store(path))

        return self.run(opened())

    def read(self, array: Any, key: Any) -> Values:
        async def found() -> Any:
            return await array.retrieve_array_subset(key, concurrent_target=CONCURRENCY)

        return np.asarray(self.run(found()))

    def points(self, array: Any, axes: tuple[Values, Values]) -> Values:
        raise Lacking("it reads no points")

    def write(self, array: Any, key: Any, values: Values) -> None:
        async def stored() -> None:
            await array.store_array_subset(key, np.ascontiguousarray(values), concurrent_target=CONCURRENCY)

        self.run(stored())

    def append(self, array: Any, values: Values) -> Any:
        rows, *rest = array.shape
        larger = array.with_shape([rows + len(values), *rest])

        async def stored() -> None:
            await larger.store_metadata()

        self.run(stored())
        self.write(larger, (slice(rows, rows + len(values)), *(slice(0, size) for size in rest)), values)
        return larger


class TensorStore(Remote):
    """With its driver for S3, and without a cache."""

    name = "ts"
    module = "tensorstore"

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.ts = import_module("tensorstore")
        limits = {"s3_request_concurrency": {"limit": CONCURRENCY}, "cache_pool": {"total_bytes_limit": 0}}
        self.context = self.ts.Context(limits)

    def open(self, path: str) -> Any:
        kvstore = {
            "driver": "s3",
            "bucket": BUCKET,
            "path": f"{path}/",
            "endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_credentials": {"type": "anonymous"},
        }
        return self.ts.open({"driver": "zarr3", "kvstore": kvstore}, open=True, context=self.context).result()

    def read(self, array: Any, key: Any) -> Values:
        return np.asarray(array[key].read().result())

    def points(self, array: Any, axes: tuple[Values, Values]) -> Values:
        return np.asarray(array.vindex[axes].read().result())

    def write(self, array: Any, key: Any, values: Values) -> None:
        array[key].write(values).result()

    def append(self, array: Any, values: Values) -> Any:
        rows = array.shape[0]
        larger = array.resize(exclusive_max=(rows + len(values), *array.shape[1:])).result()
        larger[rows:].write(values).result()
        return larger


REMOTE = {kind.name: kind for kind in (Tegula, TensorStore, ZarrPython, FusedZarrPython, Zarrista)}
