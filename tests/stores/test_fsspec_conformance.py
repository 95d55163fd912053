"""`FsspecStore` over several file systems, and `ZarrPythonStore`, through the published conformance suite."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem

from tegula.stores import FsspecStore, Store
from tegula.stores.zarr_python import ZarrPythonStore
from tegula.testing import StoreConformance

pytestmark = pytest.mark.once(executors="none")

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


class TestS3(OnFsspec):
    @pytest.fixture(autouse=True)
    def _bucket(self, s3_server: Any) -> None:
        bucket = s3_server.bucket()
        options = bucket.storage_options
        self.bucket = bucket.name
        self.fs = fsspec.filesystem(
            "s3", endpoint_url=bucket.endpoint, key=options["access_key_id"], secret=options["secret_access_key"]
        )

    def make(self) -> Store:
        return FsspecStore(self.fs, f"{self.bucket}/{uuid.uuid4()}/x")


class TestAsynchronousS3(TestS3):
    """A file system that was created for use in coroutines."""

    def make(self) -> Store:
        return FsspecStore(type(self.fs)(**self.fs.storage_options, asynchronous=True), f"{self.bucket}/{uuid.uuid4()}")


class TestZarrPython(StoreConformance):
    picklable = False  # a copy has values of its own

    def make(self) -> Store:
        return ZarrPythonStore(pytest.importorskip("zarr").storage.MemoryStore(), "a/b")

    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, ZarrPythonStore)
        return ZarrPythonStore(store.store, store.path, read_only=True)
