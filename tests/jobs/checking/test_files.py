"""Faults that only file systems have: rows behind the end, broken links, files in place of directories."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import tegula
from tegula.stores import LocalStore
from tegula.testing import Fault, FaultyStore


def found_in(path: Path) -> list[tuple[str, str]]:
    return sorted((found.kind, found.key) for found in tegula.check(path).findings)


def test_rows_behind_the_end(tmp_path: Path) -> None:
    a = tegula.create_array(tmp_path / "x", shape=15, chunks=10, dtype="i4", format="bcolz")
    a[...] = np.arange(15)
    sizes = (tmp_path / "x/meta/sizes").read_bytes()
    a.append([1, 2])
    (tmp_path / "x/meta/sizes").write_bytes(sizes)  # as if it had been killed before the length
    assert found_in(tmp_path / "x") == [("leftover-rows", "data/__1.blp")]


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4")[...] = 1
    (tmp_path / "x/c/0").unlink()
    (tmp_path / "x/c/0").symlink_to("gone")
    assert found_in(tmp_path / "x") == [("unreadable", "c/0")]


def test_files_that_may_not_be_read() -> None:
    store = FaultyStore(tegula.MemoryStore())
    tegula.create_array(store, shape=4, chunks=2, dtype="i4")[...] = 1
    store.arm(Fault(errno.EACCES, on="get", keys="^c/0", times=None))
    assert [(found.kind, found.key) for found in tegula.check(store).findings] == [("unreadable", "c/0")]


PLACES = {"bcolz": "data/__1.blp", "zarr1": "1.0", "zarr2": "1.0", "zarr3": "c/1/0", "n5": "0/1"}


@pytest.mark.parametrize("inside", ["", "a", "a/b/"], ids=["empty", "file", "directories"])
@pytest.mark.parametrize("fmt", PLACES)
def test_a_directory_in_the_place_of_a_chunk(tmp_path: Path, fmt: str, inside: str) -> None:
    a = tegula.create_array(tmp_path / "x", shape=(20, 3), chunks=(10, 3), dtype="i4", format=fmt)
    a[...] = 1
    place = tmp_path / "x" / PLACES[fmt]
    place.unlink()
    place.mkdir()
    if inside.endswith("/"):
        (place / inside).mkdir(parents=True)
    elif inside:
        (place / inside).write_bytes(b"x")
    assert found_in(tmp_path / "x") == [("obstructed-chunk", PLACES[fmt])]
    (found,) = tegula.check(tmp_path / "x").findings
    with pytest.raises(tegula.StoreError) as raised:
        a[...]
    assert found.message in raised.value.message


@pytest.mark.parametrize("key", ["c", "c/0"])
def test_a_file_in_the_way_of_chunks_hides_none(key: str, tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", data=np.arange(16).reshape(4, 4), chunks=(2, 2))
    tegula.sync(tmp_path / "x", tmp_path / "mirror")
    shutil.rmtree(tmp_path / "x" / key)
    (tmp_path / "x" / key).write_bytes(b"x")
    a = tegula.open_array(tmp_path / "x", mode="r")
    for work in (lambda: a[...], a.nchunks_initialized, lambda: tegula.sync(tmp_path / "x", tmp_path / "mirror")):
        with pytest.raises(tegula.StoreError, match="director"):
            work()
    assert found_in(tmp_path / "x") == [("obstructed-chunk", "c/0/0")]
    assert np.array_equal(tegula.load(tmp_path / "mirror"), np.arange(16).reshape(4, 4))
    # in a store without directories such a key is in nobody's way
    values = {key: LocalStore(tmp_path / "mirror").get(key) for key in LocalStore(tmp_path / "mirror").list_prefix("")}
    memory = tegula.MemoryStore({**{key: value for key, value in values.items() if value is not None}, key: b"x"})
    assert tegula.open_array(memory).nchunks_initialized() == 4


def test_empty_directories_that_are_in_no_chunks_place(tmp_path: Path) -> None:
    a = tegula.create_array(tmp_path / "x", shape=(20, 3), chunks=(10, 3), dtype="i4")
    a[:10] = 1
    for name in ("c/1", "c/7/0", "other"):  # an empty row, a chunk outside of the grid, and what is no chunk
        (tmp_path / "x" / name).mkdir(parents=True)
    assert found_in(tmp_path / "x") == []
    assert (a[10:] == 0).all()


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_pipe_in_the_place_of_a_chunk(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4")[...] = 1
    (tmp_path / "x/c/0").unlink()
    os.mkfifo(tmp_path / "x/c/0")
    assert found_in(tmp_path / "x") == [("obstructed-chunk", "c/0")]


def test_a_directory_in_the_place_of_a_drafts_chunk(tmp_path: Path) -> None:
    version = "https://purl.org/zarr/spec/protocol/core/3.0"
    entry = {"zarr_format": version, "metadata_encoding": version, "metadata_key_suffix": ".json", "extensions": []}
    array = {
        "shape": [4], "data_type": "<i4", "chunk_grid": {"type": "regular", "chunk_shape": [2], "separator": "/"},
        "chunk_memory_layout": "C", "fill_value": 0, "attributes": {}, "extensions": [],
    }  # fmt: skip
    for key, document in {"zarr.json": entry, "meta/root/a.array.json": array}.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(json.dumps(document))
    (tmp_path / "data/root/a/c1").mkdir(parents=True)
    assert found_in(tmp_path) == [("obstructed-chunk", "data/root/a/c1")]
    with pytest.raises(tegula.StoreError, match="is a directory"):
        tegula.open(tmp_path / "a")[...]


def test_a_directory_in_a_chunks_place_by_fsspec(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4")[...] = 1
    (tmp_path / "x/c/0").unlink()
    (tmp_path / "x/c/0").mkdir()
    report = tegula.check(tegula.FsspecStore(fsspec.filesystem("file"), str(tmp_path / "x")))
    assert [(found.kind, found.key) for found in report.findings] == [("obstructed-chunk", "c/0")]


def test_members_deep_down(tmp_path: Path) -> None:
    path = "/".join("abcdefgh")
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4", path=path)[...] = 1
    (tmp_path / "x" / path / "c/1").write_bytes(b"x")
    assert found_in(tmp_path / "x") == [("damaged-chunk", f"{path}/c/1")]
    report = tegula.check(tmp_path / "x")
    assert (report.groups, report.arrays) == (8, 1)
