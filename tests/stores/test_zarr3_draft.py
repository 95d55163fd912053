"""The view of a store that holds a hierarchy of a draft of Zarr v3."""

from __future__ import annotations

import pickle
from pathlib import Path

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
    assert sorted(view.list()) == KEYS
    assert all(map(view.exists, KEYS))
    assert view.list_dir("") == (["zarr.json"], ["deep/", "g/"])
    assert view.list_dir("g/") == (["g/zarr.json"], ["g/a/"])
    assert view.list_dir("g/a/") == (["g/a/zarr.json"], ["g/a/c0/"])
    assert view.list_dir("none/") == ([], [])
    assert sorted(view.list_prefix("g/")) == [key for key in KEYS if key.startswith("g/")]
    assert [*view.list_prefix("none/")] == []
    assert [*view.prefixes_with("", ["zarr.json"])] == ["deep/", "g/"]
    assert [*view.prefixes_with("", [".zgroup"])] == []


def test_documents_state_version_and_kind(view: DraftStore) -> None:
    assert view.get("g/zarr.json") == STATED + b'"group", "attributes": {}}'
    assert view.get("g/a/zarr.json") == STATED + b'"array", "shape": []}'
    assert view.get("deep/er/b/zarr.json") == STATED + b'"array"}'
    assert view.get("deep/zarr.json") == view.get("zarr.json") == STATED + b'"group"}'  # these have no document
    assert view.get("none/zarr.json", with_generation=True) == (None, ABSENT)
    assert view.get("g/zarr.json", (0, 5)) == STATED[:5]
    whole = STATED + b'"group", "attributes": {}}'
    assert view.get("g/zarr.json", (60, None)) == whole[60:]
    assert view.size("g/zarr.json") == len(whole)
    assert view.size("none/zarr.json") is None


def test_chunks(view: DraftStore) -> None:
    assert view.get("g/a/c0/1") == b"chunk"
    assert view.get("g/a/c0/1", (1, 2)) == b"hu"
    value, generation = view.get("g/a/c0/1", with_generation=True)
    assert (value, generation) == view.store.get(f"{view.prefix}data/root/g/a/c0/1", with_generation=True)
    assert view.get("g/a/.zarray") is None  # what is no chunk is no value
    assert view.get("g/a/note.txt", with_generation=True) == (None, ABSENT)
    assert (view.size("g/a/c0/1"), view.size("g/a/note.txt"), view.exists("g/a/note.txt")) == (5, None, False)
    wanted = [("g/a/c0/1", (0, 1)), ("g/zarr.json", (0, 1)), ("x", None), ("g/a/c0/1", None), ("g/a/c9/9", None)]
    assert view.get_many(wanted) == [b"c", b"{", None, b"chunk", None]  # type: ignore[arg-type]


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
    assert sorted(copied.list()) == KEYS
    if isinstance(view.identity, str):
        assert copied.identity == view.identity
