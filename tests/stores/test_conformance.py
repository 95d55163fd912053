"""All stores through the published conformance suite."""

from collections import UserDict
from types import MappingProxyType

import pytest

from tegula.errors import StoreError
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.stores.memory_keys import MemoryKeys
from tegula.stores.staging import Stage, StagedStore
from tegula.stores.zip_keys import ZipKeys
from tegula.testing import FaultyStore, StoreConformance, check_store


class TestMemoryStore(StoreConformance):
    def make(self) -> Store:
        return MemoryStore()

    def reopen_read_only(self, store: Store) -> Store:
        return MemoryStore({key: store.get(key) for key in store.list()}, read_only=True)


class TestMappingStore(StoreConformance):
    def make(self) -> Store:
        return MappingStore({})

    def reopen_read_only(self, store: Store) -> Store:
        return MappingStore(store.mapping, read_only=True)


class TestMappingStoreOverAnotherMapping(TestMappingStore):
    def make(self) -> Store:
        return MappingStore(UserDict())


class InFolder(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path
        self.count = 0

    def place(self, name):
        self.count += 1
        return self.folder / f"{name}-{self.count}"


class TestLocalStore(InFolder):
    options = MappingProxyType({})

    def make(self) -> Store:
        return LocalStore(self.place("root"), **self.options)

    def reopen_read_only(self, store: Store) -> Store:
        return LocalStore(store.root, read_only=True, **self.options)


class TestDurableLocalStore(TestLocalStore):
    options = MappingProxyType({"durability": "fsync", "follow_symlinks": True})


class TestZipStore(InFolder):
    options = MappingProxyType({})

    def make(self) -> Store:
        return ZipStore(self.place("a.zip"), "w", **self.options)

    def reopen_read_only(self, store: Store) -> Store:
        store.flush()
        return ZipStore(store.path, **self.options)


class TestDurableDeflatedZipStore(TestZipStore):
    options = MappingProxyType({"compression": "deflated", "durability": "fsync"})


class TestCommittingZipStore(TestZipStore):
    """The suite again with a commit after each change."""

    def make(self) -> Store:
        return _Committing(self.place("a.zip"), "x")


class TestZipKeys(InFolder):
    def make(self) -> Store:
        return ZipKeys(str(self.place("a.zip")), compression="stored", sync=False)


class TestMemoryKeys(StoreConformance):
    def make(self) -> Store:
        return MemoryKeys()

    def test_bad_keys_are_refused(self) -> None:
        """Any text is a key."""
        store = self.make()
        for key in ["", "/", "a//b", "..", "a\0b", "a/"]:
            store.set(key, key.encode())
            assert store.get(key) == key.encode()
            assert store.obstruction(key) is None
        assert sorted(store.list_prefix("a")) == ["a\0b", "a/", "a//b"]
        for key in [None, 1, b"a"]:
            for operation in (store.get, store.size, store.delete, store.obstruction, store.list_prefix):
                with pytest.raises(StoreError):
                    operation(key)

    def test_bad_prefixes_are_refused(self) -> None:
        """Any text is a prefix."""


class TestStagedStore(StoreConformance):
    picklable = False  # a transaction is of one process

    def make(self) -> Store:
        return StagedStore(Stage(), MemoryStore())


class TestFaultyStoreWithoutFaults(TestMemoryStore):
    def make(self) -> Store:
        return FaultyStore(super().make())

    def reopen_read_only(self, store: Store) -> Store:
        return FaultyStore(super().reopen_read_only(store.store))


class TestFaultyStoreOverFiles(TestLocalStore):
    def make(self) -> Store:
        return FaultyStore(super().make())

    def reopen_read_only(self, store: Store) -> Store:
        return FaultyStore(super().reopen_read_only(store.store))


class TestFaultyStoreOverAnArchive(TestZipStore):
    def make(self) -> Store:
        return FaultyStore(super().make())

    def reopen_read_only(self, store: Store) -> Store:
        return FaultyStore(super().reopen_read_only(store.store))


class _Batching(MemoryStore):
    def get_many(self, requests):
        return super().get_many(requests)


class TestFaultyStoreOverBatches(TestFaultyStoreWithoutFaults):
    def make(self) -> Store:
        store = FaultyStore(_Batching())
        assert type(store).get_many is not Store.get_many
        return store


class _Committing(ZipStore):
    def set(self, key, value, *, if_generation=None):
        generation = super().set(key, value, if_generation=if_generation)
        self.flush()
        return generation

    def delete(self, key, *, if_generation=None):
        super().delete(key, if_generation=if_generation)
        self.flush()


def test_the_suite_runs_without_pytest_and_finds_fault():
    check_store(MemoryStore)

    class Forgetful(MemoryStore):
        def delete(self, key, *, if_generation=None):
            pass

    with pytest.raises(AssertionError):
        check_store(Forgetful)
