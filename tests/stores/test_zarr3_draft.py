"""The view of a store that holds a hierarchy of a draft of Zarr v3."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tegula.errors import ReadOnlyError
from tegula.stores import ABSENT, LocalStore, MemoryStore
from tegula.stores.zarr3_draft import DraftStore

VALUES = {
    "zarr.json": b"{}", "meta/root/g.group.json": b'{"attributes": {}}', "meta/root/g/a.array.json": b'{"shape": []}',
    "meta/root/deep/er/b.array.json": b'\n{ }', "data/root/g/a/c0/1": b"chunk", "data/root/g/a/.zarray": b"{}",
    "data/root/g/a/note.txt": b"", "meta/root/g/note.txt": b"",
}  # fmt: skip
KEYS = [
    "deep/er/b/zarr.json", "deep/er/zarr.json", "deep/zarr.json", "g/a/c0/1", "g/a/zarr.json", "g/zarr.json",
    "zarr.json",
]  # fmt: skip
STATED = b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "node_type": '


@pytest.fixture(params=["memory", "local", "below"])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> DraftStore:
    prefix = "old.zr3/" if request.param == "below" else ""
    store = LocalStore(tmp_path) if request.param == "local" else MemoryStore()
    for key, value in VALUES.items():
        store.set(prefix + key, value)
    return DraftStore(store, prefix)


def test_keys_are_those_of_an_ordinary_hierarchy(view: DraftStore) -> None:
    top = view.prefix
    keys = [top + key for key in KEYS]
    assert sorted(view.list()) == keys
    assert all(map(view.exists, keys))
    assert view.list_dir(top) == ([f"{top}zarr.json"], [f"{top}deep/", f"{top}g/"])
    assert view.list_dir(f"{top}g/") == ([f"{top}g/zarr.json"], [f"{top}g/a/"])
    assert view.list_dir(f"{top}g/a/") == ([f"{top}g/a/zarr.json"], [f"{top}g/a/c0/"])
    assert view.list_dir(f"{top}none/") == ([], [])
    assert sorted(view.list_prefix(f"{top}g/")) == [key for key in keys if key.startswith(f"{top}g/")]
    assert [*view.list_prefix(f"{top}none/")] == []
    assert [*view.prefixes_with(top, ["zarr.json"])] == [f"{top}deep/", f"{top}g/"]
    assert [*view.prefixes_with(top, [".zgroup"])] == []


def test_nothing_is_outside_of_the_hierarchy() -> None:
    view = DraftStore(
        MemoryStore({"x/zarr.json": b"1", **{f"old.zr3/{key}": raw for key, raw in VALUES.items()}}), "old.zr3/"
    )
    assert view.list_dir("") == ([], ["old.zr3/"])
    assert [*view.list_prefix("x/")] == [*view.list_dir("x/")[0]] == []
    assert [*view.prefixes_with("", ["zarr.json"])] == ["old.zr3/"]
    assert (view.get("x/zarr.json"), view.get("zarr.json"), view.exists("x/zarr.json")) == (None, None, False)


def test_documents_state_version_and_kind(view: DraftStore) -> None:
    def get(key: str, *more: Any, **how: Any) -> Any:
        return view.get(view.prefix + key, *more, **how)

    assert get("g/zarr.json") == STATED + b'"group", "attributes": {}}'
    assert get("g/a/zarr.json") == STATED + b'"array", "shape": []}'
    assert get("deep/er/b/zarr.json") == STATED + b'"array"}'
    assert get("deep/zarr.json") == get("zarr.json") == STATED + b'"group"}'  # these have no document
    assert get("none/zarr.json", with_generation=True) == (None, ABSENT)
    assert get("g/zarr.json", (0, 5)) == STATED[:5]
    whole = STATED + b'"group", "attributes": {}}'
    assert get("g/zarr.json", (60, None)) == whole[60:]
    assert view.size(f"{view.prefix}g/zarr.json") == len(whole)
    assert view.size(f"{view.prefix}none/zarr.json") is None


def test_chunks(view: DraftStore) -> None:
    chunk, note, stored = (f"{view.prefix}{key}" for key in ("g/a/c0/1", "g/a/note.txt", "data/root/g/a/c0/1"))
    assert view.get(chunk) == b"chunk"
    assert view.get(chunk, (1, 2)) == b"hu"
    assert view.get(chunk, with_generation=True) == view.store.get(stored, with_generation=True)
    assert view.get(f"{view.prefix}g/a/.zarray") is None  # what is no chunk is no value
    assert view.get(note, with_generation=True) == (None, ABSENT)
    assert (view.size(chunk), view.size(note), view.exists(note)) == (5, None, False)
    wanted = [(chunk, (0, 1)), (f"{view.prefix}g/zarr.json", (0, 1)), ("x", None), (chunk, None), (f"{chunk}1", None)]
    assert view.get_many(wanted) == [b"c", b"{", None, b"chunk", None]  # type: ignore[arg-type]
    assert (view.stored_key(chunk), view.stored_key(stored), view.stored_key(note)) == (stored, stored, note)


def test_a_node_is_a_hierarchy_of_its_own(view: DraftStore) -> None:
    assert view.source(view.prefix.rstrip("/")) == (view.store, view.prefix.rstrip("/"))
    part, path = view.source(f"{view.prefix}g/a")
    wanted = {
        "zarr.json": b"{}", "meta/root.array.json": b'{"shape": []}', "data/root/c0/1": b"chunk",
        "data/root/.zarray": b"{}", "data/root/note.txt": b"",
    }  # fmt: skip
    assert (path, {key: part.get(key) for key in part.list()}) == ("", wanted)
    group = pickle.loads(pickle.dumps(view.source(f"{view.prefix}deep")[0]))
    assert sorted(group.list()) == ["meta/root/er/b.array.json", "zarr.json"]
    assert (part.size("data/root/c0/1"), part.size("g/a/c0/1"), part.get("x", with_generation=True)) == (
        5, None, (None, ABSENT),
    )  # fmt: skip


def test_a_damaged_document_stays_as_it_is() -> None:
    store = MemoryStore({"meta/root/a.array": b"[1]", "meta/root/b.group": b"\x00"})
    view = DraftStore(store, suffix="")
    assert (view.get("a/zarr.json"), view.get("b/zarr.json")) == (b"[1]", b"\x00")


def test_an_array_takes_precedence_over_a_group() -> None:
    view = DraftStore(MemoryStore({"meta/root/a.array.json": b"{}", "meta/root/a.group.json": b"{}"}))
    assert view.get("a/zarr.json") == STATED + b'"array"}'


def test_nothing_is_written(view: DraftStore) -> None:
    before = sorted(view.store.list())
    for change in (lambda: view.set("a", b""), lambda: view.delete("g/a/c0/1"), lambda: view.delete_prefix("g/")):
        with pytest.raises(ReadOnlyError, match="convert it"):
            change()
    assert sorted(view.store.list()) == before


def test_views_of_one_hierarchy_are_one_storage(view: DraftStore) -> None:
    other = DraftStore(view.store, view.prefix)
    assert other.identity == view.identity != view.store.identity
    assert DraftStore(view.store, "other/").identity != view.identity
    copied = pickle.loads(pickle.dumps(view))
    assert sorted(copied.list()) == [view.prefix + key for key in KEYS]
    if isinstance(view.identity, str):
        assert copied.identity == view.identity


class Counted(MemoryStore):
    """Notes what is listed."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)
        self.listed: list[str] = []

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self.listed.append(prefix)
        return super().list_dir(prefix)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self.listed.append(prefix + "*")
        return super().list_prefix(prefix)


def test_listings_of_a_node_are_those_of_its_directories(view: DraftStore) -> None:
    for path in ("g", "g/a", "deep", "deep/er"):
        part = view.source(view.prefix + path)[0]
        plain = MemoryStore(dict.fromkeys(part.list(), b""))
        for prefix in ("", "meta/", "data/", "meta/root/", "data/root/", "meta/root/er/", "data/root/a/", "c0/", "x/"):
            assert part.list_dir(prefix) == plain.list_dir(prefix)
            assert sorted(part.list_prefix(prefix)) == sorted(plain.list_prefix(prefix))
    store = Counted({f"data/root/g/{number}/c0": b"" for number in range(9)} | VALUES)
    part = DraftStore(store).source("g")[0]
    assert part.list_dir("data/root/3/") == (["data/root/3/c0"], [])
    assert store.listed == ["data/root/g/3/"]
    assert [*part.list_prefix("data/root/3/")] == ["data/root/3/c0"]
    assert store.listed[1:] == ["data/root/g/3/*"]


def test_a_node_is_held_without_those_beside_it() -> None:
    beside = {f"meta/root/{name}.group.json": b"{}" for name in ("g", "g.x", "g.array", "gg")}
    store = MemoryStore({"zarr.json": b"{}", **beside, "meta/root/g.array.jso": b"", "data/root/g.c0": b"1"})
    part = DraftStore(store).source("g")[0]
    assert sorted(part.list()) == ["meta/root.group.json", "zarr.json"]
    for key in ("meta/root.x.group.json", "meta/root.array.group.json", "data/root.c0"):
        assert (part.get(key), part.size(key), part.exists(key)) == (None, None, False)
    bare = DraftStore(
        MemoryStore({"zarr.json": b"{}", "meta/root/g.group": b"", "meta/root/g.array.x": b""}), suffix=""
    )
    assert sorted(bare.source("g")[0].list()) == ["meta/root.group", "zarr.json"]
