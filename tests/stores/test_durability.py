"""With ``durability="fsync"`` a value, its name and each directory made for it are on the disk when it is stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import Fault, armed, runs_kernel

import tegula
from tegula import config
from tegula.stores import LocalStore, ZipStore

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the calls are told apart by /proc")
Log = list[tuple[str, str]]


def calls_of(root: Path, act: Callable[[], Any]) -> tuple[Log, int]:
    watch = Fault(str(root))
    with armed(watch), config.configure(threads=1):  # the log does not tell the files of several threads apart
        act()
    return watch.log, watch.kernel


def is_temporary(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith((".tegula-", "#"))


def check_order(log: Log) -> dict[str, int]:
    """Check that no name comes before its file, and that the directories of all names follow; count what was found."""
    found = {"put": 0, "made": 0, "removed": 0}
    made = set()
    for index, (call, path) in enumerate(log):
        parent = path.rpartition("/")[0]
        after = log[index + 1 :]
        if call in ("replace", "link"):
            before = [step for step in log[:index] if is_temporary(step[1]) and step[1].rpartition("/")[0] == parent]
            moved = [name for name, _ in before if name in ("write", "fsync")]
            assert moved[-1] == "fsync", path
            found["put"] += not is_temporary(path)
        elif call == "mkdir":
            if path in made:  # tried again once the directories above it exist
                continue
            made.add(path)
            found["made"] += 1
        elif call == "unlink" and not is_temporary(path):
            found["removed"] += 1
        else:
            continue
        gone = ("rmdir", parent) in after  # with all its contents
        assert ("fsync", parent) in after or gone, (call, path)
    return found


def durable(path: Path) -> LocalStore:
    return LocalStore(path / "new" / "root", durability="fsync")


def test_values_directories_and_deletions(tmp_path: Path) -> None:
    store = durable(tmp_path)
    log, _ = calls_of(tmp_path, lambda: [store.set("a/b/c", b"1"), store.set("a/d", b"2")])
    assert check_order(log) == {"put": 2, "made": 4, "removed": 0}
    log, _ = calls_of(tmp_path, lambda: store.delete("a/d"))
    assert check_order(log)["removed"] == 1
    assert ("fsync", "new/root/a") in log
    store.set("a/e", b"2")
    log, _ = calls_of(tmp_path, lambda: store.delete_prefix("a/b/"))
    assert check_order(log)["removed"] == 1


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_operations_on_an_array(format: str, tmp_path: Path) -> None:
    store = durable(tmp_path)

    def create() -> Any:
        return tegula.create_array(store, shape=(6, 4), chunks=(2, 4), dtype="i4", format=format, attributes={"a": 1})

    log, _ = calls_of(tmp_path, create)
    documents = len([*store.list()]) - (format == "bcolz") * 3
    found = check_order(log)
    assert found["put"] >= documents
    assert found["made"] >= 2
    array = tegula.open_array(store, mode="r+")
    steps: list[tuple[Callable[[], Any], str, int]] = [
        (lambda: array.__setitem__(..., 5), "put", 3),
        (lambda: array.__setitem__((slice(1, 5), slice(1, 3)), 6), "put", 3),
        (lambda: array.attrs.update(b=2), "put", 1),
        (lambda: array.append(np.ones((3, 4), "i4")), "put", 3),
        (lambda: array.resize(3, 4), "removed", 3),
    ]
    by_kernel = 0
    for act, what, least in steps:
        log, kernel = calls_of(tmp_path, act)
        assert check_order(log)[what] >= least, log
        by_kernel += kernel
    assert by_kernel or not runs_kernel()


def test_groups_and_tables(tmp_path: Path) -> None:
    store = durable(tmp_path)
    group = tegula.create_group(store)
    log, _ = calls_of(tmp_path, lambda: group.create_array("a/b", shape=3, dtype="i4").attrs.update(x=1))
    assert check_order(log)["put"] >= 3
    log, _ = calls_of(tmp_path, lambda: group.__delitem__("a"))
    assert check_order(log)["removed"] == 2
    rows = {"a": np.arange(5), "b": np.ones(5)}
    log, _ = calls_of(tmp_path, lambda: tegula.create_table(store, rows, path="t", format="bcolz").append(rows))
    assert check_order(log)["put"] > 8


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.zip"

    def write(value: bytes) -> None:
        with ZipStore(path, "a", durability="fsync") as store:
            store.set("a", value)
            store.flush()
            store.set("b", value)

    log, _ = calls_of(tmp_path, lambda: write(b"1"))
    assert check_order(log) == {"put": 1, "made": 2, "removed": 0}
    created = log.index(("create", "new/folder/a.zip"))
    assert ("fsync", "new/folder") in log[created:]
    log, _ = calls_of(tmp_path, lambda: write(b"2"))
    # appended values are on the disk before the directory of the archive that lists them
    appended = [call for call, name in log if name == "new/folder/a.zip" and call in ("write", "fsync")]
    assert appended == ["write", "fsync", "write", "fsync"] * 2


def test_without_it_nothing_is_synced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    array = tegula.create_array(store, shape=6, chunks=2, dtype="i4")
    log, _ = calls_of(tmp_path, lambda: [array.__setitem__(..., 5), array.resize(2)])
    assert log
    assert not [path for call, path in log if call == "fsync"]
