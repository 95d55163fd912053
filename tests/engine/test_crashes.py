"""A process killed at any system call of any operation: the state it leaves, and how the next process handles it.

By default the calls that change something on the disk are tried, of long operations some of them;
a night tries every call of each.
"""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcolz
import numpy as np
import pytest
import zarr
from faults import CHANGES, runs_kernel
from fork_server import ForkServer
from operations import FORMATS, OPERATIONS, Operation, create, keys_of, read_everything
from tests.effort import NIGHTLY

from tegula.errors import AlreadyExistsError, MetadataError
from tegula.jobs.ledger import is_ledger_key
from tegula.stores import LocalStore, ZipStore

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the calls are told apart by /proc")
MOST = 20  # kills of a long operation in the default run
BY_KERNEL = ("write zarr", "write part", "write inner", "write bcolz", "append zarr")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def kills(count: int, cheap: bool) -> list[int]:
    step = 1 if NIGHTLY or cheap else max(1, -(-count // MOST))
    return [*range(0, count, step)]


@pytest.mark.slow
@pytest.mark.sampled(one_in=213)
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_call(name: str, tmp_path: Path, fork_server: ForkServer) -> None:
    operation = OPERATIONS[name]
    calls = None if NIGHTLY else sorted(CHANGES)
    before, clean = tmp_path / "before", tmp_path / "clean"
    before.mkdir()
    operation.prepare(str(before))
    old, old_values = keys_of(str(before)), read_everything(str(before))
    shutil.copytree(before, clean)
    said = fork_server.run(name, clean, calls=calls)
    assert said["ended"] == 0
    assert said["kernel"] or not (runs_kernel() and name.startswith(BY_KERNEL))
    new, new_values = keys_of(str(clean)), read_everything(str(clean))
    count = len(said["calls"])
    assert count > 3 or (count == 3 and name == "erase" and not runs_kernel())
    for number in kills(count, operation.cheap):
        path = tmp_path / f"{number}"
        shutil.copytree(before, path)
        assert fork_server.run(name, path, at=number, calls=calls)["ended"] == -9
        check_keys(str(path), operation, old, new)
        check_values(path, operation, old_values, new_values, peers=number % 6 == 0)
        operation.repeat(str(path))
        found = keys_of(str(path))
        left = {key for key in found if operation.leaves is not None and key not in new and operation.leaves(key)}
        assert {key: value for key, value in found.items() if key not in left} == new
        assert [*path.rglob(".tegula-*")] == []
        shutil.rmtree(path)


def check_keys(path: str, operation: Operation, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    found = keys_of(path)
    for key in {*found, *old, *new}:
        value = found.get(key)
        allowed = (old.get(key), new.get(key))
        assert value in allowed or (operation.between is not None and operation.between(key, value)), key
    assert not any(is_foreign(key) for key in found)
    directories, pending = LocalStore(path).list_dir(""), [""]
    while pending:
        directories = LocalStore(path).list_dir(pending.pop())
        assert not any(is_foreign(name) for names in directories for name in names)
        pending += directories[1]


def is_foreign(key: str) -> bool:
    """Whether a key is tegula's own, except the record of a conversion's owner, which the next one takes over."""
    return ".tegula" in key and not is_ledger_key(key)


def check_values(path: Path, operation: Operation, old: dict[str, Any], new: dict[str, Any], *, peers: bool) -> None:
    for place, values in read_everything(str(path)).items():
        candidates = [known[place] for known in (old, new) if place in known]
        assert candidates, place
        if operation.whole and values.size:
            assert any(np.array_equal(values, candidate) for candidate in candidates), place
        same = np.zeros(values.shape, bool)
        for candidate in candidates:
            if candidate.ndim != values.ndim:
                continue
            padded = np.zeros(values.shape, values.dtype)
            inside = tuple(slice(0, min(pair)) for pair in zip(values.shape, candidate.shape))
            padded[inside] = candidate[inside]
            covered = np.zeros(values.shape, bool)
            covered[inside] = True
            same |= (values == padded) & covered
        assert (same | (values == 0 if operation.holes else False)).all(), place
        if peers:
            check_peers(path / place, values)


def check_peers(path: Path, values: Any) -> None:
    if (path / "zarr.json").exists() or (path / ".zarray").exists():
        assert np.array_equal(zarr.open_array(path, mode="r")[...], values)
    elif (path / "meta" / "sizes").exists():
        assert np.array_equal(bcolz.carray(rootdir=str(path), mode="r")[:], values)


@pytest.mark.slow
@pytest.mark.sampled(one_in=25)
@pytest.mark.parametrize("format", FORMATS)
def test_no_new_array_has_the_chunks_of_one_that_was_being_deleted(
    format: str, tmp_path: Path, fork_server: ForkServer
) -> None:
    name = f"overwrite {format}"
    before = tmp_path / "before"
    before.mkdir()
    OPERATIONS[name].prepare(str(before))
    refused = 0
    for number in range(1000):
        path = tmp_path / f"{number}"
        shutil.copytree(before, path)
        ended = fork_server.run(name, path, at=number, calls=["unlink", "rmdir"])["ended"]
        try:
            array = create(str(path / "n"), format, overwrite=False)
        except (AlreadyExistsError, MetadataError) as error:
            refused += "overwrite=True" in str(error)
            array = create(str(path / "n"), format, overwrite=True)
        assert not array[...].any()
        assert array.nbytes_stored() == 0 or format == "bcolz"
        if ended == 0:
            break
    assert number > 3
    assert refused or format == "bcolz"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATIONS if "archive" in name])
def test_killed_within_a_write(name: str, tmp_path: Path, fork_server: ForkServer) -> None:
    """An archive is the only file that is written in place."""
    operation = OPERATIONS[name]
    before, clean = tmp_path / "before", tmp_path / "clean"
    before.mkdir()
    operation.prepare(str(before))
    shutil.copytree(before, clean)
    calls = fork_server.run(name, clean, calls=sorted(CHANGES))["calls"]
    writes = [number for number, (call, _) in enumerate(calls) if call == "write"]
    assert writes
    old, new = keys_of(str(before)), keys_of(str(clean))
    for number in writes:
        path = tmp_path / f"{number}"
        shutil.copytree(before, path)
        assert fork_server.run(name, path, at=number, act="tear", calls=sorted(CHANGES))["ended"] == -9
        if (path / "a.zip").exists() and (name != "create archive" or number > writes[0]):
            check_keys(str(path), operation, old, new)
        operation.repeat(str(path))
        assert keys_of(str(path)) == new


def test_an_archive_within_a_torn_archive_is_not_taken_for_it(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("inner", b"1")
    path = tmp_path / "a.zip"
    with ZipStore(path, "w") as store:
        store.set("outer", b"2")
    committed = path.stat().st_size
    with ZipStore(path, "a") as store:
        store.set("nested", inner.getvalue())
    whole = path.read_bytes()
    for stop in range(committed, len(whole) + 1):
        path.write_bytes(whole[:stop])
        assert sorted(ZipStore(path).list()) == (["nested", "outer"] if stop == len(whole) else ["outer"])
