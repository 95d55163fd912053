"""All stores through the published conformance suite."""

from collections import UserDict
from contextlib import suppress
from functools import partial
from types import MappingProxyType

import pytest
from remote_stores import RevalidatingStore

from tegula import CachedStore
from tegula.errors import ConflictError, StoreError
from tegula.stores import ABSENT, LocalStore, MappingStore, MemoryStore, SingleWriterStore, Store, ZipStore
from tegula.stores.arguments import check_key, check_prefix
from tegula.stores.capabilities import Revalidating
from tegula.tensorstore.context import MemoryKeys
from tegula.tensorstore.kvstore.stores import ZipKeys
from tegula.tensorstore.kvstore.transaction import StagedStore, Transaction
from tegula.testing import FaultyStore, StoreConformance, check_store
from tegula.testing.suite import run_together


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

    def test_stores_over_one_mapping_share_its_locks(self) -> None:
        store = self.make()
        created = []

        def create(store: Store) -> None:
            with suppress(ConflictError):
                created.append(store.set("a", b"%d" % id(store), if_generation=ABSENT))

        run_together([partial(create, MappingStore(store.mapping)) for _ in range(8)])
        assert created == [store.get("a", with_generation=True)[1]]


class TestMappingStoreOverAnotherMapping(TestMappingStore):
    def make(self) -> Store:
        return MappingStore(UserDict())


class Kept(SingleWriterStore):
    """Storage in one dictionary, with no conditions of its own."""

    url = "kept://"

    def __init__(self, values=None):
        super().__init__()
        self.values = {} if values is None else values

    def __reduce__(self):
        return Kept, (dict(self.values),)

    def read(self, key, byte_range=None):
        return self.ranged(self.values.get(key), byte_range)

    def write(self, key, value):
        self.values[key] = value

    def remove(self, key):
        self.values.pop(key, None)

    def size(self, key):
        return None if self.read(check_key(key)) is None else len(self.values[key])

    def list_prefix(self, prefix):
        check_prefix(prefix)
        return (key for key in [*self.values] if key.startswith(prefix))


class TestSingleWriterStore(StoreConformance):
    def make(self) -> Store:
        return Kept()


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

    def reopen(self, store: Store) -> Store:
        return LocalStore(store.root, **self.options)

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
        assert sorted(store.list_prefix("a")) == ["a\0b", "a/", "a//b"]
        for key in [None, 1, b"a"]:
            for operation in (store.get, store.size, store.delete, store.list_prefix):
                with pytest.raises(StoreError):
                    operation(key)

    def test_bad_prefixes_are_refused(self) -> None:
        """Any text is a prefix."""


class TestStagedStore(StoreConformance):
    picklable = False  # a transaction is of one process

    def make(self) -> Store:
        return StagedStore(Transaction(), MemoryStore())


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

    def reopen(self, store: Store) -> Store:
        return FaultyStore(super().reopen(store.store))


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


class TestCachedStore(InFolder):
    """Over memory, which does not last."""

    recheck = "open"

    def make(self) -> Store:
        return CachedStore(MemoryStore(), self.place("cache"), 10**6, recheck=self.recheck)

    def reopen_read_only(self, store: Store) -> Store:
        values = {key: store.get(key) for key in store.list()}
        return CachedStore(MemoryStore(values, read_only=True), store.directory, 10**6, recheck=self.recheck)


class TestCachedStoreThatNeverRechecks(TestCachedStore):
    recheck = "never"


class TestCachedStoreOverFiles(TestLocalStore):
    recheck = 0

    def cached(self, store: Store) -> Store:
        return CachedStore(store, self.folder / "cache", 10**6, recheck=self.recheck)

    def make(self) -> Store:
        return self.cached(super().make())

    def reopen_read_only(self, store: Store) -> Store:
        return self.cached(super().reopen_read_only(store.store))

    def reopen(self, store: Store) -> Store:
        return self.cached(super().reopen(store.store))


class TestCachedStoreWithoutRoom(TestCachedStoreOverFiles):
    def cached(self, store: Store) -> Store:
        return CachedStore(store, self.folder / "cache", 700)


class TestCachedStoreOverRevalidation(TestCachedStore):
    def make(self) -> Store:
        store = CachedStore(RevalidatingStore(), self.place("cache"), 10**6)
        assert isinstance(store, Revalidating)
        return store


class TestRevalidatingStore(StoreConformance):
    def make(self) -> Store:
        return RevalidatingStore()


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
