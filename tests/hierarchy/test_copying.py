"""Copying, moving and deleting nodes as they are stored."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.stores import LocalStore, MappingStore, MemoryStore, Store, ZipStore
from tegula.stores.wrapping import WrappingStore
from tegula.testing import Crash, Fault, FaultyStore

KINDS = ["local", "memory", "mapping", "zip"]


def make(kind: str, folder: Path, name: str) -> Store:
    match kind:
        case "local":
            return LocalStore(folder / name)
        case "zip":
            return ZipStore(folder / f"{name}.zip", "a")
        case "mapping":
            return MappingStore({})
    return MemoryStore()


def contents(store: Store, prefix: str = "") -> dict[str, bytes]:
    found = {key[len(prefix) :]: store.get(key) for key in store.list_prefix(prefix)}
    return {key: raw for key, raw in found.items() if raw is not None}


def fill(store: Store, path: str, kind: str) -> None:
    """Store a node of some kind, with other files that a copy must not change."""
    values = np.arange(60, dtype="i4").reshape(6, 10)
    if kind == "table":
        tegula.create_table(store, {"day": np.arange(40), "price": np.arange(40) / 2}, path=path, attributes={"u": 1})
        return
    if kind == "bcolz":
        tegula.create_array(store, shape=(6, 10), dtype="i4", format=kind, path=path)[...] = values
        return
    format = "zarr2" if kind == "group2" else "zarr3" if kind in ("group3", "array3") else kind
    if not kind.startswith("group"):
        a = tegula.create_array(store, shape=(6, 10), chunks=(2, 5), dtype="i4", format=format, path=path)
        a[:3] = values[:3]
        a.attrs["of mine"] = {"x": [1, None]}
        return
    g = tegula.create_group(store, format=format, path=path, attributes={"title": kind})
    g.create_array("a/b/x", shape=(6, 10), chunks=(2, 5), dtype="i4")[...] = values
    g.create_array("scalar", shape=(), dtype="f8")[...] = 3
    g.create_array("empty", shape=(0, 3), dtype="f8")
    g.create_group("nothing")
    g.consolidate()
    prefix = f"{path}/" if path else ""
    store.set(f"{prefix}README.md", b"of others")
    store.set(f"{prefix}a/b/x/notes.txt", b"of others, too")


NODES = ["array3", "zarr2", "zarr1", "bcolz", "table", "group2", "group3"]


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_a_copy_has_the_same_bytes_and_a_moved_node_is_gone(tmp_path: Path, old: str, new: str, node: str) -> None:
    source, target = make(old, tmp_path, "one"), make(new, tmp_path, "two")
    fill(source, "n", node)
    before = contents(source, "n/")
    report = tegula.copy(tegula.open(source, path="n"), target, path="deep/m")
    assert contents(target, "deep/m/") == contents(source, "n/") == before
    assert (report.values, report.nbytes) == (len(before), sum(map(len, before.values())))
    assert (report.arrays, report.groups) == {"table": (2, 1), "group2": (3, 4), "group3": (3, 4)}.get(node, (1, 0))
    tegula.move(tegula.open(source, "r+", path="n"), target, path="moved")
    assert contents(target, "moved/") == before
    assert not contents(source, "n/")
    assert repr(tegula.open(target, path="moved")).replace("moved", "deep/m") == repr(
        tegula.open(target, path="deep/m")
    )


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_a_move_by_name_removes_the_source(tmp_path: Path, suffix: str) -> None:
    one, two, three = (str(tmp_path / f"{name}{suffix}") for name in ("one", "two", "three"))
    with tegula.create_group(one) as g:
        g["x"] = [1, 2, 3]
    tegula.copy(one, two)
    report = tegula.move(two, three)
    assert report.renamed == (not suffix)
    assert not os.path.exists(two)
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(name) for name in (one, three))
    assert tegula.load(three)["x"].tolist() == tegula.load(one)["x"].tolist() == [1, 2, 3]


def test_on_one_file_system_a_move_renames(tmp_path: Path) -> None:
    g = tegula.create_group(tmp_path / "g.zarr")
    g["a/x"] = np.arange(10)
    inode = os.stat(tmp_path / "g.zarr" / "a").st_ino
    assert g.move("a", "b/c").renamed
    assert os.stat(tmp_path / "g.zarr" / "b" / "c").st_ino == inode
    assert [path for path, _ in g.walk()] == ["b", "b/c", "b/c/x"]
    assert g["b/c/x"][3] == 3
    g["a/x"] = np.arange(3)  # the store no longer knows its directories
    assert g["a/x"].shape == (3,)


def test_an_array_that_was_moved_is_not_read_or_written_at_its_old_place(tmp_path: Path) -> None:
    g = tegula.create_group(tmp_path / "g.zarr")
    x = g.create_array("x", shape=10, dtype="i4", chunks=5)
    x[:5] = 1
    g.move("x", "y")
    with pytest.raises(NotFoundError):
        x[:]
    with pytest.raises(NotFoundError):
        x[5:] = 2
    assert not (tmp_path / "g.zarr" / "x").exists()


def test_without_rename_a_move_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tegula.save(tmp_path / "a", np.arange(5))

    def refuse(*_: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", refuse)
    assert not tegula.move(tmp_path / "a", tmp_path / "sub" / "b").renamed
    assert not (tmp_path / "a").exists()
    assert np.array_equal(np.asarray(tegula.load(tmp_path / "sub" / "b")), np.arange(5))


@pytest.mark.parametrize("act", [tegula.copy, tegula.move])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_an_existing_target_is_kept_without_overwrite(tmp_path: Path, act: Any, kind: str) -> None:
    source, target = make(kind, tmp_path, "one"), make(kind, tmp_path, "two")
    fill(source, "n", "group3")
    fill(target, "m", "array3")
    before, wanted = contents(target), contents(source, "n/")
    node = tegula.open(source, "r+", path="n")
    with pytest.raises(AlreadyExistsError, match="overwrite=True"):
        act(node, target, path="m")
    assert contents(target) == before
    assert contents(source, "n/") == wanted
    act(node, target, path="m", overwrite=True)
    assert contents(target, "m/") == wanted


@pytest.mark.parametrize("act", [tegula.copy, tegula.move])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["n", "n/below", ""])
def test_a_node_is_not_copied_into_itself(tmp_path: Path, act: Any, kind: str, place: str) -> None:
    store = make(kind, tmp_path, "one")
    fill(store, "n", "group3")
    before = contents(store)
    with pytest.raises(MetadataError, match="lies within it or contains it"):
        act(tegula.open(store, "r+", path="n"), store, path=place, overwrite=True)
    assert contents(store) == before


def test_two_stores_over_one_mapping_are_one_store() -> None:
    values: dict[str, bytes] = {}
    tegula.save(values, np.arange(3))
    before = dict(values)
    for act in (tegula.copy, tegula.move, tegula.convert):
        with pytest.raises(MetadataError, match="lies within it or contains it"):
            act(values, values, overwrite=True)
    assert values == before


def test_a_link_to_the_source_is_the_source(tmp_path: Path) -> None:
    tegula.save(tmp_path / "a.zarr", x=np.arange(3))
    (tmp_path / "link").symlink_to(tmp_path / "a.zarr")
    with pytest.raises(MetadataError, match="lies within it or contains it"):
        tegula.copy(tmp_path / "a.zarr", tmp_path / "link" / "y")


class Wrapped(WrappingStore):
    """A store that passes on what it is asked."""


@pytest.mark.parametrize("wrap", [lambda store: store, Wrapped])
@pytest.mark.parametrize("target", ["a", "s", "damaged"])
@pytest.mark.parametrize(
    "act",
    [
        lambda g: g.__delitem__("link"),
        lambda g: g.__delitem__("above"),
        lambda g: g.create_array("link", shape=1, dtype="u1", overwrite=True),
    ],
)
def test_deleting_a_link_leaves_what_it_leads_to(tmp_path: Path, act: Any, target: str, wrap: Any) -> None:
    g = tegula.create_group(wrap(LocalStore(tmp_path)))
    g.create_array("a", data=np.arange(3))
    g.create_array("s/b", data=np.arange(3))
    g.create_array("damaged", data=np.arange(3))
    g.store.set("damaged/zarr.json", b"{")
    g.create_group("above")
    for link in (tmp_path / "link", tmp_path / "above" / "link"):
        link.symlink_to(tmp_path / target)
    before = {key: g.store.get(key) for key in g.store.list_prefix(f"{target}/")}
    act(g)
    assert {key: g.store.get(key) for key in g.store.list_prefix(f"{target}/")} == before
    assert not (tmp_path / "link").is_symlink() or not (tmp_path / "above").exists()


def test_a_link_that_leads_nowhere_can_be_deleted(tmp_path: Path) -> None:
    g = tegula.create_group(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    tegula.delete(g, path="link")
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("act", [tegula.delete, lambda link: tegula.move(link, link.parent / "new")])
def test_a_link_that_is_named_as_the_store_is_not_followed_to_delete(tmp_path: Path, act: Any) -> None:
    tegula.create_array(tmp_path / "a", data=np.arange(3))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(StoreError, match="link is a symbolic link; delete the link itself"):
        act(tmp_path / "link")
    assert tegula.open_array(tmp_path / "link")[:].tolist() == [0, 1, 2]


def test_moving_a_link_moves_a_copy(tmp_path: Path) -> None:
    g = tegula.create_group(tmp_path)
    g.create_array("a", data=np.arange(3))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    g.move("link", "new")
    assert [*g] == ["a", "new"]
    assert g["a"][2] == g["new"][2] == 2


@pytest.mark.parametrize("act", [tegula.copy, tegula.move, lambda source, _: tegula.delete(source)])
@pytest.mark.parametrize("name", ["gone", "gone.zip", "empty"])
def test_a_missing_source_is_an_error(tmp_path: Path, act: Any, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        act(tmp_path / name, tmp_path / "target")
    assert os.listdir(tmp_path) == ["empty"]


@pytest.mark.parametrize("name", ["t.bcolz", "a.zarr"])
def test_a_name_for_another_format_is_refused(tmp_path: Path, name: str) -> None:
    tegula.create_array(tmp_path / "x", shape=3, dtype="u1", format="bcolz" if name == "a.zarr" else "zarr3")
    with pytest.raises(MetadataError, match="convert"):
        tegula.copy(tmp_path / "x", tmp_path / name)
    assert not (tmp_path / name).exists()


def test_unknown_codecs_and_types_are_copied() -> None:
    store, target = MemoryStore(), MemoryStore()
    tegula.create_array(store, shape=4, dtype="i4", path="x")[...] = 1
    document = json.loads(store.get("x/zarr.json") or b"")
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "of.tomorrow"}]
    document["data_type"] = {"name": "of tomorrow", "configuration": {}}
    store.set("x/zarr.json", json.dumps(document).encode())
    tegula.copy(tegula.open_group(store), target)
    assert contents(target, "x/") == contents(store, "x/")
    g = tegula.open_group(store, "r+")
    g.copy("x", "y")
    g.move("x", "z")
    assert contents(store, "y/") == contents(store, "z/") == contents(target, "x/")


def test_only_stored_values_are_visited() -> None:
    store, target = MemoryStore(), MemoryStore()
    a = tegula.create_array(store, shape=(10**9, 10**9), chunks=(1, 1), dtype="u1")
    a[5, 7] = 1
    assert tegula.copy(store, target).values == 2
    assert tegula.open(target)[5, 7] == 1


def test_a_column_of_a_table_is_not_moved_or_deleted(tmp_path: Path) -> None:
    t = tegula.create_table(tmp_path / "t.bcolz", {"a": [1, 2], "b": [3, 4]})
    for column in (t["a"], tmp_path / "t.bcolz" / "a"):
        with pytest.raises(MetadataError, match="remove_column"):
            tegula.move(column, tmp_path / "x")
        with pytest.raises(MetadataError, match="remove_column"):
            tegula.delete(column)
        tegula.copy(column, tmp_path / "copy", overwrite=True)
    assert np.asarray(tegula.load(tmp_path / "copy")).tolist() == [1, 2]
    assert tegula.open_table(tmp_path / "t.bcolz").names == ("a", "b")


def test_files_of_others_at_the_target_stay_and_are_not_taken_over(tmp_path: Path) -> None:
    tegula.save(tmp_path / "a", np.arange(5))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "README").write_text("mine")
    tegula.copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "README").read_text() == "mine"
    (tmp_path / "c" / "c").mkdir(parents=True)
    (tmp_path / "c" / "c" / "7").write_text("a chunk that was left")
    for act in (tegula.copy, tegula.move):
        with pytest.raises(AlreadyExistsError, match="read as part of the copy"):
            act(tmp_path / "a", tmp_path / "c")
    assert np.asarray(tegula.load(tmp_path / "a")).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_leftovers_of_a_killed_copy_are_replaced_with_overwrite(tmp_path: Path, kind: str) -> None:
    source, target = make(kind, tmp_path, "one"), make(kind, tmp_path, "two")
    fill(source, "n", "group3")
    wanted = contents(source, "n/")
    left = {"a/b/x/c/0/1": b"old", "a/b/x/c/7/7": b"of another", "scalar/c": b"old"}
    others = {"README": b"mine", "photos/2021/1": b"mine"}
    for key, raw in {**left, **others}.items():
        target.set(f"m/{key}", raw)
    node = tegula.open(source, path="n")
    with pytest.raises(AlreadyExistsError, match="read as part of the copy"):
        tegula.copy(node, target, path="m")
    assert contents(target, "m/") == {**left, **others}
    tegula.copy(node, target, path="m", overwrite=True)
    assert contents(target, "m/") == {**wanted, **others}


def test_an_error_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tegula.save(tmp_path / "a", np.arange(40))

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "set", fail)
    with pytest.raises(KeyboardInterrupt):
        tegula.copy(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


@given(st.sampled_from(NODES), st.integers(0, 60), st.sampled_from(["error", "crash"]))
def test_a_half_copy_is_never_taken_for_a_whole_one(node: str, skip: int, what: str) -> None:
    source, kept = MemoryStore(), MemoryStore()
    fill(source, "n", node)
    wanted = contents(source, "n/")
    target = FaultyStore(kept)
    target.arm(Fault("crash" if what == "crash" else errno.ENOSPC, on="set", skip=skip))
    with tegula.config.configure(threads=1):
        try:
            tegula.copy(tegula.open(source, path="n"), target, path="m")
            assert contents(kept, "m/") == wanted
            return
        except (StoreError, Crash):
            pass
    if what == "error":
        assert not contents(kept, "m/")
        return
    # the process is dead; what can be opened is complete
    written = contents(kept, "m/")
    assert written.items() < wanted.items() or not written
    here = tegula.open_group(MemoryStore({f"x/{key}": raw for key, raw in written.items()} or {"x/_": b""}), "a")
    for path, found in here.walk(implicit=True):
        if isinstance(found, tegula.Array):
            below = path.removeprefix("x").lstrip("/")
            prefix = f"{below}/" if below else ""
            for name, raw in wanted.items():
                assert not name.startswith(prefix) or written.get(name) == raw, (path, name)


def test_of_two_that_copy_to_one_place_one_at_most_succeeds() -> None:
    one, two, kept = MemoryStore(), MemoryStore(), MemoryStore()
    for store, value in ((one, 1), (two, 2)):
        tegula.create_array(store, shape=40, chunks=4, dtype="i4")[...] = value
    target = FaultyStore(kept)
    target.arm(Fault(lambda *_: tegula.copy(two, kept), on="set", skip=4))
    with tegula.config.configure(threads=1), pytest.raises(AlreadyExistsError):
        tegula.copy(one, target)
    with pytest.raises(TegulaError):  # neither succeeded: what is left is no array, and does not count as chunks of one
        tegula.open(kept)
    with pytest.raises(AlreadyExistsError):
        tegula.copy(two, kept)


def test_progress_names_nodes_and_counts_up(tmp_path: Path) -> None:
    store = make("local", tmp_path, "one")
    fill(store, "", "group3")
    seen: list[tuple[str, int, int]] = []
    report = tegula.copy(store, MemoryStore(), progress=lambda *step: seen.append(step))
    assert seen[-1][1:] == (report.values, report.nbytes)
    assert [values for _, values, _ in seen] == [*range(1, report.values + 1)]
    assert {"a/b/x", "scalar", ""} <= {name for name, _, _ in seen}


def test_groups_copy_and_move_as_in_h5py() -> None:
    g, other = (tegula.create_group({}) for _ in range(2))
    g["a/x"] = np.arange(3)
    g.copy("a", "b")
    g.copy("a/x", other, name="sub/y")
    g.copy(g["a"], other)
    assert [path for path, _ in other.walk()] == ["a", "a/x", "sub", "sub/y"]
    g.move("a", "b/c")
    assert [path for path, _ in g.walk()] == ["b", "b/c", "b/c/x", "b/x"]
    with pytest.raises(NotFoundError):
        g.copy("nothing", "d")
    with pytest.raises(AlreadyExistsError):
        g.move("b/x", "b/c")
    with pytest.raises(MetadataError, match="needs a group as target"):
        g.copy("b", "d", name="e")
    with pytest.raises(MetadataError, match="lies within it or contains it"):
        g.move("b", "b/c/d")


def test_a_node_that_was_opened_for_reading_is_not_moved_or_written_to(tmp_path: Path) -> None:
    tegula.save(tmp_path / "a", x=np.arange(3))
    g = tegula.open_group(tmp_path / "a")
    for act in (
        lambda: tegula.move(g, tmp_path / "b"),
        lambda: g.move("x", "y"),
        lambda: g.copy("x", "y"),
        lambda: tegula.copy(g["x"], g, path="y"),
        lambda: tegula.copy(g, LocalStore(tmp_path / "c", read_only=True)),
        lambda: tegula.delete(g),
    ):
        with pytest.raises(ReadOnlyError):
            act()
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_delete_removes_a_node_and_its_empty_directory(tmp_path: Path) -> None:
    tegula.save(tmp_path / "a", x=np.arange(3), y=np.arange(3))
    tegula.delete(tmp_path / "a", path="x")
    assert list(tegula.open_group(tmp_path / "a")) == ["y"]
    tegula.delete(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    tegula.create_array(tmp_path / "b", shape=3, dtype="u1")
    (tmp_path / "b" / "zarr.json").write_text("{")
    tegula.delete(tmp_path / "b")  # it can't be opened, but deleted
    assert not (tmp_path / "b").exists()
