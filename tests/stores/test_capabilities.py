"""What stores declare, and stores that were written before there were capabilities."""

import pytest

import tegula
from tegula.errors import ConflictError
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.stores.capabilities import (
    Anchoring,
    BlockedKeys,
    Copying,
    EmptyDirectories,
    Exclusive,
    Locking,
    Reclaiming,
    Renaming,
    UnreachableNames,
    blocked_by,
    delete_if,
    lock,
)
from tegula.stores.wrapping import WrappingStore
from tegula.testing import FaultyStore

CAPABILITIES = [
    Locking, Reclaiming, BlockedKeys, EmptyDirectories, Anchoring, Renaming, UnreachableNames, Exclusive, Copying,
]  # fmt: skip


def declared(store: Store) -> set[type]:
    return {kind for kind in CAPABILITIES if isinstance(store, kind)}


def test_each_store_declares_what_it_has(tmp_path):
    assert declared(MemoryStore()) == set()
    assert declared(MappingStore({})) == {Locking}
    assert declared(LocalStore(tmp_path)) == {*CAPABILITIES} - {UnreachableNames, Exclusive}
    assert declared(ZipStore(tmp_path / "a.zip", "w")) == {UnreachableNames, Exclusive}
    assert MappingStore({}).single_writer
    assert not MappingStore({}).fresh_generations


def test_a_wrapper_that_changes_nothing_can_be_made(tmp_path):
    store = WrappingStore(LocalStore(tmp_path))
    tegula.create_array(store, path="a", data=[1, 2])
    assert tegula.open_array(tmp_path / "a")[:].tolist() == [1, 2]
    assert {Locking, BlockedKeys, EmptyDirectories} <= declared(store)


def test_a_faulty_store_declares_what_the_store_below_does(tmp_path):
    assert declared(FaultyStore(MemoryStore())) == set()
    assert declared(FaultyStore(LocalStore(tmp_path))) == {Locking, BlockedKeys, EmptyDirectories}
    mapping = FaultyStore(MappingStore({}))
    assert declared(mapping) == {Locking}
    assert (mapping.single_writer, mapping.fresh_generations, mapping.conditional_delete) == (True, False, True)
    assert type(FaultyStore(MappingStore({}))) is type(mapping)


def test_a_wrapper_says_of_itself_what_the_store_below_does(tmp_path):
    stores = [MemoryStore(), MappingStore({}), LocalStore(tmp_path / "a"), ZipStore(tmp_path / "a.zip", "w")]
    for store in stores:
        wrapper = FaultyStore(store)
        for name in ("in_memory", "in_archive", "is_private", "visits_all_keys", "scratch_directory", "values_url"):
            assert getattr(wrapper, name) == getattr(store, name), (store, name)
        assert isinstance(wrapper, Exclusive) == isinstance(store, Exclusive)
        assert wrapper.local_directory is wrapper.plain_files is None  # its values are read through it
    assert [store.scratch_directory for store in stores] == [None, None, str(tmp_path / "a"), str(tmp_path)]


def test_only_copies_of_a_plain_dict_have_values_of_their_own():
    class Shelf(dict):
        """A mapping that may store its values anywhere."""

    private = [MemoryStore(), MappingStore({}), tegula.store_of("memory://private.zarr")]
    assert all(store.is_private for store in private)
    assert not MappingStore(Shelf()).is_private


def test_kernel_gets_no_files_of_a_subclass_with_its_own_reads(tmp_path):
    class Upper(LocalStore):
        def get(self, key, byte_range=None, *, with_generation=False):
            return super().get(key.lower(), byte_range, with_generation=with_generation)

    plain, other = LocalStore(tmp_path), Upper(tmp_path)
    assert plain.plain_files is plain
    assert other.plain_files is None
    assert other.local_directory == plain.local_directory


def test_a_wrapper_knows_what_probing_has_found():
    class Probed(MemoryStore):
        def probe(self):
            self.single_writer = True
            return self.capabilities

    store = FaultyStore(Probed())
    assert not store.single_writer
    assert store.probe().single_writer
    assert store.single_writer


def test_a_store_without_a_capability_has_a_plain_answer(tmp_path):
    with lock(MemoryStore(), "a") as held:
        assert not held
    assert blocked_by(MemoryStore(), "a") is None
    LocalStore(tmp_path).set("a/b", b"1")
    assert "is a directory" in str(blocked_by(LocalStore(tmp_path), "a"))
    with lock(LocalStore(tmp_path), "a/b") as held:
        assert held


class NoConditionalDelete(MemoryStore):
    conditional_delete = False

    def delete(self, key, *, if_generation=None):
        assert if_generation is None
        super().delete(key)


def test_where_no_delete_takes_a_condition_it_is_compared_before():
    for store in (MemoryStore(), NoConditionalDelete()):
        old = store.set("a", b"1")
        new = store.set("a", b"2")
        with pytest.raises(ConflictError, match="'a'"):
            delete_if(store, "a", old)
        assert store.get("a") == b"2"
        delete_if(store, "a", new)
        assert store.get("a") is None
