"""Zip archives that are open only while something is done with them."""

import zipfile
from pathlib import Path

import pytest

from tegula.errors import ConflictError
from tegula.stores import ABSENT
from tegula.tensorstore.kvstore.stores import ZipKeys

pytestmark = pytest.mark.once(executors="none")


def test_others_see_and_make_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zip")
    store = ZipKeys(path, compression="deflated", sync=False)
    assert store.get("a") is None
    assert store.get("a", with_generation=True) == (None, ABSENT)
    assert [*store.list()] == []
    assert store.list_dir("") == ([], [])
    assert store.size("a") is None
    store.delete("a")
    first = store.set("a/b", b"123", if_generation=ABSENT)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("c", b"4")
    assert sorted(store.list()) == ["a/b", "c"]
    assert store.list_dir("") == (["c"], ["a/"])
    assert (store.get("c"), store.size("a/b"), store.get("a/b", (1, 1))) == (b"4", 3, b"2")
    assert store.get("a/b", with_generation=True) == (b"123", first)
    with pytest.raises(ConflictError):
        store.set("c", b"5", if_generation=ABSENT)
    with pytest.raises(ConflictError):
        store.change({"new": (b"1", None), "a/b": (None, ABSENT)})
    store.change({"new": (b"1", ABSENT), "a/b": (None, first)})
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["c", "new"]
    assert store.url == f"file://{path}"
    store.close()
    assert store.get("new") == b"1"
