"""Faults that only file systems have: rows behind the end, broken links, files in place of directories."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import tegula
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


def test_a_directory_in_the_place_of_a_chunk(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=20, chunks=10, dtype="i4", format="bcolz")[...] = 1
    (tmp_path / "x/data/__1.blp").unlink()
    (tmp_path / "x/data/__1.blp").mkdir()
    assert found_in(tmp_path / "x") == [("obstructed-chunk", "data/__1.blp")]


def test_members_deep_down(tmp_path: Path) -> None:
    path = "/".join("abcdefgh")
    tegula.create_array(tmp_path / "x", shape=4, chunks=2, dtype="i4", path=path)[...] = 1
    (tmp_path / "x" / path / "c/1").write_bytes(b"x")
    assert found_in(tmp_path / "x") == [("damaged-chunk", f"{path}/c/1")]
    report = tegula.check(tmp_path / "x")
    assert (report.groups, report.arrays) == (8, 1)
