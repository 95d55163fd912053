"""`tegula.diff`: what a sync would transfer, by array, box and attribute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.syncing.test_sync import new_source

import tegula
from tegula.jobs.syncing.states import as_table, boxes_of

pytestmark = pytest.mark.once(executors="reference")


def test_boxes_attributes_and_nodes_are_told(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    group = new_source(source)
    tegula.sync(source, target)
    group["x"][3:5, 4] = -1
    group["y"].append(np.ones(2))
    group["y"].attrs.update(units="km", long_name="length")
    group.create_array("new", data=[1, 2, 3])
    group.attrs["title"] = "second"
    del group["sub"]
    report = tegula.diff(source, target)
    found = {array.path: array for array in report.arrays}
    assert found["x"].boxes == (((2, 6), (4, 5)),)
    assert found["y"].attributes == {"units": "changed", "long_name": "new"}
    assert found["y"].boxes == (((9, 12),),)
    assert (found["new"].action, found["new"].boxes) == ("new", (((0, 3),),))
    assert (report.groups, report.extra, report.is_same) == ({"": "changed"}, ["sub"], False)
    plain = json.loads(report.to_json())
    assert [array["path"] for array in plain["arrays"]] == ["new", "x", "y"]
    for text in (str(report), report.to_html(), report._repr_html_()):
        assert "2:6, 4:5" in text
        assert "/sub" in text
    assert "sub" in tegula.open(target)
    assert tegula.diff(source, target, delete=True).deleted == ["sub"]
    tegula.sync(source, target, delete=True)
    assert tegula.diff(source, target).is_same


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_dry_run_counts_what_replaces_an_array(tmp_path: Path, format: str) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    tegula.save(source, np.arange(6), format="zarr3")
    tegula.sync(source, target, format=format)
    tegula.create_array(source, data=np.arange(20.0).reshape(4, 5), chunks=(2, 2), overwrite=True)
    (planned,) = tegula.diff(source, target).arrays
    (made,) = tegula.sync(source, target).arrays
    assert (planned.action, planned.chunks_written) == (made.action, made.chunks_written) == ("replaced", 6)


def test_requests_documents_and_reasons_are_told(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    group = new_source(source)
    tegula.sync(source, target)
    group["y"][0] = -1
    group["y"].attrs["units"] = "km"
    report = tegula.diff(source, target)
    assert "1 chunk to write, " in report.summary
    assert report.summary.endswith(", 2 requests with 1 document")
    requests = {array["path"]: array["requests"] for array in json.loads(report.to_json())["arrays"]}
    assert (requests["x"], requests["y"]) == (0, 2)
    tegula.sync(source, target)
    group["y"].attrs["units"] = "m"
    assert "changed: /y: attribute 'units' is changed" in tegula.sync(source, target).lines()


def test_a_target_that_no_sync_has_made_is_told(tmp_path: Path) -> None:
    new_source(tmp_path / "s.zarr")
    tegula.save(tmp_path / "t.zarr", x=np.arange(3), format="zarr3")
    report = tegula.diff(tmp_path / "s.zarr", tmp_path / "t.zarr")
    told = {"": ("attributes of the group that others have written",), "x": ("a node that no sync has made",)}
    assert report.overwritten == told
    assert not (tmp_path / "t.zarr" / ".tegula_sync").exists()


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_boxes_cover_the_chunks_and_nothing_else(chunks: set[tuple[int, ...]]) -> None:
    covered: list[tuple[int, ...]] = []
    for box in boxes_of(as_table(chunks, 3), 1000):
        covered += [(i, j, k) for i in range(*box[0]) for j in range(*box[1]) for k in range(*box[2])]
    assert sorted(covered) == sorted(chunks)
