"""What jobs make of chunks that are not stored: their argument decides, or else the node, or else the setting."""

from __future__ import annotations

from collections.abc import Callable
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
