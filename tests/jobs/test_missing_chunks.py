"""What jobs make of chunks that are not stored: their argument decides, or else the node, or else the setting."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import MetadataError, NotFoundError, TegulaError
from tegula.runtime import executors

JOBS: dict[str, Callable[..., Any]] = {
    "convert": lambda node, **how: tegula.convert(node, {}, **how),
    "convert to other codecs": lambda node, **how: tegula.convert(node, {}, codecs="gzip", **how),
    "convert to other chunks": lambda node, **how: tegula.convert(node, {}, chunks=(3, 5), shards=False, **how),
    "convert with a ledger": lambda node, **how: tegula.convert(node, tegula.MemoryStore(), resume=True, **how),
    "copy": lambda node, **how: tegula.copy(node, {}, **how),
    "copy with a ledger": lambda node, **how: tegula.copy(node, tegula.MemoryStore(), resume=True, **how),
    "compare": lambda node, **how: tegula.compare(node, node, **how),
    "statistics": tegula.statistics,
    "checksum": tegula.checksum,
    "check": tegula.check,
    "sync": lambda node, **how: tegula.sync(node, tegula.MemoryStore(), **how),
    "downsample": lambda node, **how: tegula.downsample(node, {}, **how),
}
KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3"}, "zarr2": {"format": "zarr2"}, "n5": {"format": "n5"},
    "inner chunks": {"shards": (8, 8)}, "shards": {"shards": (4, 4)},
}  # fmt: skip
EXECUTORS = ["reference", *(["kernel"] if executors.kernel() is not None else [])]
pytestmark = pytest.mark.once(executors="both")


def incomplete(kind: str, path: Path) -> Path:
    """Write an array of which chunks, or inner chunks of shards, are missing."""
    tegula.create_array(path, shape=(8, 8), chunks=(2, 2), dtype="f4", dimension_names=["y", "x"], **KINDS[kind])[
        :3
    ] = 1
    return path


def finds(job: str, node: Any, **how: Any) -> bool:
    """Return whether a job says that a chunk is not stored."""
    try:
        report = JOBS[job](node, **how)
    except NotFoundError as error:
        return "not stored" in str(error)
    if job == "check":
        return bool(report.counts["missing-chunk"]) if "missing-chunk" in report.counts else False
    failed = getattr(report, "failed", None)
    return bool(failed) and all("not stored" in reason for reason in failed.values())


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("job", JOBS)
def test_the_argument_the_node_or_the_setting_decides(job: str, kind: str, executor: str, tmp_path: Path) -> None:
    path = incomplete(kind, tmp_path / "x")
    with config.configure(executor=executor):
        assert not finds(job, path)
        assert finds(job, path, missing_chunks="error")
        strict = tegula.open(path, missing_chunks="error")
        assert finds(job, strict)
        assert not finds(job, strict, missing_chunks="fill")
        assert strict.missing_chunks == "error"
        assert finds(job, tegula.open(path), missing_chunks="error")
        with config.configure(missing_chunks="error"):
            assert finds(job, path)
            assert not finds(job, path, missing_chunks="fill")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("job", JOBS)
def test_whole_arrays_have_no_missing_chunks(job: str, executor: str, tmp_path: Path) -> None:
    for kind, options in KINDS.items():
        path = tmp_path / kind
        tegula.create_array(path, shape=(6, 5), chunks=(2, 2), dtype="f4", dimension_names=["y", "x"], **options)[
            ...
        ] = 1
        with config.configure(executor=executor):
            assert not finds(job, path, missing_chunks="error")


@pytest.mark.parametrize("job", [job for job in JOBS if job != "downsample"])
def test_members_of_groups_count(job: str, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    group.create_array("a/x", shape=(8, 8), chunks=(2, 2), dtype="f4")[:2] = 1
    assert not finds(job, group)
    assert finds(job, group, missing_chunks="error")
    assert finds(job, tmp_path / "g", missing_chunks="error")


@pytest.mark.parametrize("job", JOBS)
def test_another_value_is_refused(job: str, tmp_path: Path) -> None:
    path = incomplete("zarr3", tmp_path / "x")
    for source in (path, tegula.open(path)):
        with pytest.raises(MetadataError, match="missing_chunks must be fill or error"):
            JOBS[job](source, missing_chunks="ignore")


@pytest.mark.parametrize("how", [{"codecs": "gzip"}, {"chunks": (4, 1)}, {"resume": True}, {"shards": (4, 4)}])
def test_a_conversion_reads_back_what_it_need_not_store(how: dict[str, Any]) -> None:
    source = tegula.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="i4")
    with config.configure(write_empty_chunks=True):
        source[...] = np.eye(4, dtype="i4")
        source[:2] = 0
    with config.configure(missing_chunks="error"):
        assert tegula.convert(source, tegula.MemoryStore(), verify=True, **how).ok


def test_a_refused_copy_writes_nothing(tmp_path: Path) -> None:
    path = incomplete("shards", tmp_path / "x")
    with pytest.raises(TegulaError, match="not stored"):
        tegula.copy(path, tmp_path / "y", missing_chunks="error")
    assert not (tmp_path / "y").exists()


def hostile(tmp_path: Path) -> tegula.MemoryStore:
    """Return the store of an array whose only shard runs a command if it is unpickled."""
    inner = {"chunk_shape": [4], "codecs": [{"name": "numcodecs.pickle", "configuration": {}}], "index_location": "end"}
    inner["index_codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "sharding_indexed", "configuration": inner}],
    }  # fmt: skip

    class Command:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (os.fspath(tmp_path / "run"),)

    chunk = pickle.dumps(Command())
    shard = chunk + struct.pack("<QQ", 0, len(chunk))
    return tegula.MemoryStore({"zarr.json": json.dumps(document).encode(), "c/0": shard})


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_copy_unpickles_nothing(how: dict[str, Any], tmp_path: Path) -> None:
    source, target = hostile(tmp_path), tegula.MemoryStore()
    with suppress(TegulaError):
        tegula.copy(source, target, missing_chunks="error", **how)
        assert target.get("c/0") == source.get("c/0")
    assert not (tmp_path / "run").exists()


def test_a_copy_looks_for_all_chunks_or_refuses() -> None:
    source = tegula.create_group(tegula.MemoryStore())
    source.create_array("a", shape=(10**12, 10**6), chunks=(1, 1), dtype="u1")
    source.create_array("b", shape=8, chunks=2, dtype="u1")[:2] = 1
    with pytest.raises(TegulaError):
        tegula.copy(source, tegula.MemoryStore(), missing_chunks="error")


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_few_chunks_of_a_huge_grid_are_copied_if_none_has_to_be_stored(how: dict[str, Any]) -> None:
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    tegula.create_array(source, shape=(10**12, 10**6), chunks=(1, 1), dtype="u1")[7, 3] = 1
    with config.configure(missing_chunks="error"):
        tegula.copy(source, target, missing_chunks="fill", **how)
    assert tegula.open_array(target)[7, 3] == 1


def test_units_that_were_done_without_it_are_not_resumed_with_it(tmp_path: Path) -> None:
    source = tegula.create_group(tmp_path / "source")
    source.create_array("a", shape=(4096, 4096), chunks=(512, 512), dtype="i4")[:512] = 1
    source.create_array("b", shape=8, chunks=2, dtype="i4")

    def stop(path: str, *_: Any) -> None:
        if path.endswith("b"):
            raise RuntimeError

    for job, ledger in (("checksum", {"ledger": tmp_path / "ledger"}), ("statistics", {"ledger": tmp_path / "other"})):
        with suppress(RuntimeError):
            getattr(tegula, job)(source, progress=stop, **ledger)
        with pytest.raises(TegulaError, match="missing_chunks"):
            getattr(tegula, job)(source, missing_chunks="error", **ledger)
