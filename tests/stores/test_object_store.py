"""Object storage through the published conformance suite, offline."""

import pytest

from tegula.stores import ObjectStore, Store
from tegula.testing import StoreConformance

obstore = pytest.importorskip("obstore")


class TestObjectStoreInMemory(StoreConformance):
    picklable = False

    def make(self) -> Store:
        self.storage = obstore.store.MemoryStore()
        return ObjectStore(self.storage, "a prefix/of two")

    def reopen(self, store: Store) -> Store:
        return ObjectStore(self.storage, "a prefix/of two")

    def reopen_read_only(self, store: Store) -> Store:
        return ObjectStore(self.storage, "a prefix/of two", read_only=True)
