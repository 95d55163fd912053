"""What stores declare, and stores that were written before there were capabilities."""

from contextlib import contextmanager

import pytest

import tegula
from tegula.errors import ConflictError, StoreError
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.stores.capabilities import (
    Anchoring,
    BlockedKeys,
    Copying,
    EmptyDirectories,
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
    Locking, Reclaiming, BlockedKeys, EmptyDirectories, Anchoring, Renaming, UnreachableNames, Copying,
]  # fmt: skip


def declared(store: Store) -> set[type]:
    return {kind for kind in CAPABILITIES if isinstance(store, kind)}


def test_each_store_declares_what_it_has(tmp_path):
    assert declared(MemoryStore()) == set()
    assert declared(MappingStore({})) == {Locking}
    assert declared(LocalStore(tmp_path)) == {*CAPABILITIES} - {UnreachableNames}
    assert declared(ZipStore(tmp_path / "a.zip", "w")) == {UnreachableNames}
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


def test_former_names_of_renamed_operations_work_and_warn(tmp_path):
    store = LocalStore(tmp_path)
    store.set("a/b", b"1")
    for each, held in ((store, True), (MappingStore({}), True), (MemoryStore(), False)):
        with pytest.warns(DeprecationWarning, match="lock"), each.turn("a/b") as found:
            assert found is held
    with pytest.warns(DeprecationWarning, match="blocked_by"):
        assert "is a directory" in str(store.obstruction("a"))
    with pytest.warns(DeprecationWarning, match="blocked_by"):
        assert MemoryStore().obstruction("a") is None
    for name in ("turn", "obstruction"):
        with pytest.warns(DeprecationWarning, match=name), pytest.raises(StoreError):
            getattr(MemoryStore(), name)("../a")


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("make_prefix", ("a/",), None),
        ("has_prefix", ("a/",), True),
        ("leftovers", ("a/",), []),
        ("reclaim", (), 0),
        ("unreachable", (), []),
        ("move_prefix", ("a/", MemoryStore(), "b/"), False),
    ],
)
def test_operations_that_a_store_lacks_answer_as_they_did_and_warn(name, arguments, answer):
    with pytest.warns(DeprecationWarning, match=name):
        found = getattr(MemoryStore(), name)(*arguments)
    assert (found if answer != [] else [*found]) == answer
    if name != "move_prefix":
        with pytest.warns(DeprecationWarning, match=name), pytest.raises(StoreError):
            getattr(MemoryStore(), name)("a")


def test_anchoring_a_store_without_directories_gives_the_store():
    store = MemoryStore()
    with pytest.warns(DeprecationWarning, match="Anchoring"):
        assert store.anchored("a/zarr.json") is store


def test_a_store_that_defines_former_names_is_told_and_used():
    asked = []
    with pytest.warns(DeprecationWarning, match="turn: add .*Locking to the bases of .* rename it to lock"):

        class Old(MemoryStore):
            @contextmanager
            def turn(self, key):
                asked.append(key)
                yield True

    store = Old()
    assert isinstance(store, Locking)
    table = tegula.create_table(store, {"x": [1, 2]})
    asked.clear()
    table.append({"x": [3]})
    assert asked == ["x/meta/storage"]


def test_nodes_are_deleted_in_a_store_that_defines_former_names(tmp_path):
    with pytest.warns(DeprecationWarning, match="EmptyDirectories"):

        class Old(MemoryStore):
            def make_prefix(self, prefix):
                pass

            def has_prefix(self, prefix):
                return False

    for store in (Old(), WrappingStore(Old())):
        g = tegula.create_group(store)
        g.create_array("a", data=[1])
        del g["a"]
        assert [*g] == []


def test_a_former_operation_may_call_that_of_its_base(tmp_path):
    with pytest.warns(DeprecationWarning, match="obstruction: .* rename it to blocked_by"):

        class Old(LocalStore):
            def obstruction(self, key):
                found = super().obstruction(key)
                return found and f"old: {found}"

    store = Old(tmp_path)
    store.set("a/b", b"1")
    with pytest.warns(DeprecationWarning, match="obstruction"):
        assert "old: " in str(blocked_by(store, "a"))
    with pytest.warns(DeprecationWarning, match="obstruction"):
        assert blocked_by(store, "c") is None


def test_a_store_that_defines_a_capability_without_naming_it_is_told_and_used():
    with pytest.warns(DeprecationWarning, match="unreachable: add .*UnreachableNames to the bases of"):

        class Old(MemoryStore):
            def unreachable(self, prefix=""):
                return iter(["a//b"])

    assert isinstance(Old(), UnreachableNames)
    report = tegula.check(Old({"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'}))
    assert [finding.kind for finding in report.findings] == ["odd-name"]
