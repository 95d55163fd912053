"""Zip archives that are open only while something is done with them."""

import zipfile
from pathlib import Path

import pytest
import tensorstore

from tegula.errors import ConflictError
from tegula.stores import ABSENT
from tegula.tensorstore.kvstore import KvStore
from tegula.tensorstore.zip_keys import ZipKeys


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
    assert store.url == path
    store.close()
    assert store.get("new") == b"1"


def test_both_libraries_use_the_same_archive(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a.zip|zip:"
    own, other = KvStore.open(url).result(), tensorstore.KvStore.open(url).result()
    for number in range(3):
        own[f"own/{number}"] = b"x" * number
        other[f"other/{number}"] = b"y" * number
    assert own.list().result() == sorted(other.list().result())
    del own["other/1"]
    del other["own/1"]
    assert {key: own[key] for key in own.list().result()} == {key: other[key] for key in other.list().result()}
    assert repr(own) == repr(other)
    for spec in ("memory://a|zip:", {"driver": "zip", "base": f"file://{tmp_path}/b.zip", "compression": "zstd"}):
        with pytest.raises(NotImplementedError):
            KvStore.open(spec).result().list().result()
