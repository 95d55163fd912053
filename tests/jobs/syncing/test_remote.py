"""Mirrors in buckets, whose listings have ETags, and from web servers, which have no listings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.syncing.test_sync import actions, check_same, new_source

import tegula

pytestmark = pytest.mark.once(executors="kernel")


@pytest.mark.parametrize("options", [{}, {"chunks": {"x": (3, 4)}, "codecs": "zstd"}], ids=["copied", "rewritten"])
def test_a_bucket_is_a_mirror_of_files_and_of_a_bucket(s3_server: Any, tmp_path: Path, options: Any) -> None:
    bucket = s3_server.bucket()
    one, other = bucket.store("one"), bucket.store("two")
    group = new_source(tmp_path / "s.zarr")
    for source, target in ((tmp_path / "s.zarr", one), (one, other), (other, tmp_path / "t.zarr")):
        assert tegula.sync(source, target, **options).ok
        check_same(source, target)
        assert tegula.sync(source, target).is_same
    group["x"][2, 2] = 9
    group["y"].append(np.ones(5))
    group["sub/z"].resize(1)
    for source, target in ((tmp_path / "s.zarr", one), (one, other), (other, tmp_path / "t.zarr")):
        assert set(actions(tegula.sync(source, target)).values()) == {"changed"}
        check_same(source, target)
    group.create_array("x", data=[1.5], overwrite=True)
    tegula.sync(tmp_path / "s.zarr", one)
    assert actions(tegula.sync(one, other))["x"] == "replaced"
    check_same(tmp_path / "s.zarr", other)
    tegula.open_array(other, path="x", mode="r+")[0] = 2
    with pytest.raises(tegula.ConflictError, match="others have changed"):
        tegula.sync(one, other)
    tegula.sync(one, other, force=True)
    check_same(one, other)


def test_a_web_server_is_asked_for_generations(http_server: Any, tmp_path: Path) -> None:
    bucket = http_server.bucket()
    directory = http_server.directory(bucket)
    group = new_source(directory / "s.zarr")
    group.consolidate()
    source = bucket.store("s.zarr")
    tegula.sync(source, tmp_path / "t.zarr")
    check_same(directory / "s.zarr", tmp_path / "t.zarr")
    assert tegula.sync(source, tmp_path / "t.zarr").is_same
    group["x"][0] = 5
    assert actions(tegula.sync(source, tmp_path / "t.zarr"))["x"] == "changed"
    check_same(directory / "s.zarr", tmp_path / "t.zarr")
