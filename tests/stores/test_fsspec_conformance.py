"""`FsspecStore` over several file systems, and `ZarrPythonStore`, through the published conformance suite."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem

from tegula.stores import FsspecStore, Store
from tegula.stores.zarr_python import ZarrPythonStore
from tegula.testing import StoreConformance

_number = itertools.count().__next__


class OnFsspec(StoreConformance):
    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, FsspecStore)
        return FsspecStore(store.fs, store.root, read_only=True)


class TestMemory(OnFsspec):
    def make(self) -> Store:
        return FsspecStore(fsspec.filesystem("memory"), f"conformance-{uuid.uuid4()}/x")


class TestMemoryOfItsOwn(OnFsspec):
    def make(self) -> Store:
        return FsspecStore(fsspec.filesystem("memory", global_store=False, skip_instance_cache=True))

    picklable = False  # the copy has values of its own


class TestFiles(OnFsspec):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Any) -> None:
        self.folder = tmp_path

    def make(self) -> Store:
        return FsspecStore(fsspec.filesystem("file"), self.folder / f"a b#%?*[x]-{_number()}")


class TestFilesThroughWrappers(TestFiles):
    def make(self) -> Store:
        inner = DirFileSystem(str(self.folder), fsspec.filesystem("file"))
        return FsspecStore(AsyncFileSystemWrapper(inner, asynchronous=True), f"x-{_number()}")


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, Any]]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield {"key": "id", "secret": "word", "endpoint_url": f"http://127.0.0.1:{port}"}
    server.stop()


class TestS3(OnFsspec):
    @pytest.fixture(autouse=True)
    def _server(self, s3_options: dict[str, Any]) -> None:
        self.fs = fsspec.filesystem("s3", **s3_options)
        if not self.fs.exists("bucket"):
            self.fs.mkdir("bucket")

    def make(self) -> Store:
        return FsspecStore(self.fs, f"bucket/{uuid.uuid4()}/x")


class TestAsynchronousS3(TestS3):
    """A file system that was made for use in coroutines."""

    def make(self) -> Store:
        options: ClassVar[dict[str, Any]] = self.fs.storage_options
        return FsspecStore(type(self.fs)(**options, asynchronous=True), f"bucket/{uuid.uuid4()}")


class TestZarrPython(StoreConformance):
    picklable = False  # a copy has values of its own

    def make(self) -> Store:
        return ZarrPythonStore(pytest.importorskip("zarr").storage.MemoryStore(), "a/b")

    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, ZarrPythonStore)
        return ZarrPythonStore(store.store, store.path, read_only=True)
