"""The driver that detects what a path names: documents of views, which `tegula.save_view` stores."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import tegula
import tegula.tensorstore as ts

VALUES = np.arange(24.0).reshape(6, 4)


@pytest.fixture
def joined(tmp_path: Path) -> Any:
    for number, format in enumerate(("zarr2", "zarr3", "bcolz", "zarr1")):
        tegula.create_array(tmp_path / str(number), data=VALUES + 100 * number, format=format, chunks=(2, 4))
    return tegula.concat([tmp_path / str(number) for number in range(4)])


def test_documents_of_views_are_opened_with_their_paths(
    tmp_path: Path, joined: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = tmp_path / "all.json"
    for view in (
        joined,
        joined[3:, ::-2].T,
        joined[5, 1],
        joined[[1, 20]].astype("f4"),
        tegula.open(tmp_path / "1").lazy,
    ):
        tegula.save_view(view, path)
        file = {"driver": "auto", "kvstore": {"driver": "file", "path": str(path)}}
        for target in ("../all.json", str(path), path, path.as_uri(), file):
            found = ts.open(target).result()
            assert (found.shape, found.dtype.numpy_dtype) == (view.shape, view.dtype)
            np.testing.assert_array_equal(found.read().result(), view[...])
    ts.open(os.path.join("..", "all.json")).result()[0, 0].write(-1).result()
    assert tegula.open(tmp_path / "1")[0, 0] == -1


def test_other_documents_are_none_of_views(tmp_path: Path, joined: Any) -> None:
    for text in ("{}", '{"driver": 3}', "[1]"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"detect format|object"):
            ts.open(str(tmp_path / "x.json")).result()
    tegula.save_view(joined, tmp_path / "all.json")
    spec = json.loads((tmp_path / "all.json").read_text())
    for _ in range(20):
        spec = {"driver": "stack", "dtype": "float64", "layers": [spec]}
    (tmp_path / "x.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="levels deep"):
        ts.open(str(tmp_path / "x.json")).result()


def test_a_document_in_memory_names_no_files(tmp_path: Path, joined: Any) -> None:
    tegula.save_view(joined, tmp_path / "all.json")
    spec = json.loads((tmp_path / "all.json").read_text())
    for layer in spec["layers"]:
        layer["kvstore"]["path"] = str(tmp_path / layer["kvstore"]["path"])
    context = ts.Context()
    ts.KvStore.open("memory://v/", context=context).result().write("x.json", json.dumps(spec)).result()
    with pytest.raises(NotImplementedError, match="on this machine"):
        ts.open("memory://v/x.json", context=context).result()


def test_resources_are_those_of_the_array(tmp_path: Path) -> None:
    kvstore = {"driver": "file", "path": f"{tmp_path}/"}
    # TensorStore shares what another handle of one context still holds open: the array is created by another
    ts.open({"driver": "zarr", "kvstore": kvstore}, create=True, dtype="int8", shape=[3]).result()
    for given, name in (
        ({"cache_pool": {"total_bytes_limit": 5}}, "cache_pool"),
        ({"cache_pool": "cache_pool#a", "context": {"cache_pool#a": {"total_bytes_limit": 7}}}, "cache_pool"),
        ({"data_copy_concurrency": {"limit": 1}}, "data_copy_concurrency"),
    ):
        limits, shown = [], []
        for library in (ts, tensorstore):
            spec = library.Spec({"driver": "auto", "kvstore": kvstore, **given})
            shown.append(spec.to_json())
            opened = library.open(spec).result().spec(retain_context=True)
            opened.update(unbind_context=True)
            json = opened.to_json()
            resource = json.get(name, name)
            limits.append(json["context"][resource] if isinstance(resource, str) else resource)
        assert shown[0] == shown[1]
        assert limits[0] == limits[1]
        assert limits[0]
    wanted = {"driver": "auto", "kvstore": kvstore}
    assert ts.Spec(wanted).to_json() == wanted  # only those that are given


def test_resources_are_those_of_its_own_context() -> None:
    context = ts.Context()
    array = {"driver": "zarr", "kvstore": "memory://a/"}
    ts.open(array, create=True, dtype="int32", shape=[3], context=context).result()
    spec = {"driver": "auto", "kvstore": "memory://a/", "context": {"cache_pool": {"total_bytes_limit": 1000}}}
    described = ts.open(spec, context=context).result().spec(retain_context=True).to_json()
    assert described["context"]["cache_pool"] == {"total_bytes_limit": 1000}
    own = {**spec, "context": {"memory_key_value_store": {}}}
    with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
        ts.open(own, context=context).result()
