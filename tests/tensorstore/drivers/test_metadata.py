"""Documents as they are read, changed and compared: one reading for specs and stored documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tegula
import tegula.tensorstore as ts

V2 = {
    "zarr_format": 2, "shape": [3.0], "chunks": [2], "dtype": "|S4", "compressor": None, "fill_value": "YWJjZA==",
    "order": "C", "filters": None,
}  # fmt: skip
V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "float32", "fill_value": "0x7fc00001",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {"a": 1}, "note": {"must_understand": False, "by": "others"},
}  # fmt: skip
DRIVERS = {"zarr": (".zarray", V2), "zarr3": ("zarr.json", V3)}


def opened(driver: str, directory: Path, style: Any = None) -> ts.TensorStore:
    key, document = DRIVERS[driver]
    (directory / key).write_text(json.dumps(document, indent=style))
    return ts.open({"driver": driver, "kvstore": f"file://{directory}/"}).result()


def test_odd_forms_mean_what_the_usual_ones_do(tmp_path: Path) -> None:
    for driver in DRIVERS:
        (tmp_path / driver).mkdir()
    array = opened("zarr", tmp_path / "zarr")
    assert array.spec().to_json()["metadata"] == {**V2, "shape": [3], "dimension_separator": "."}
    assert (array.shape, array.fill_value.tobytes()) == ((3, 4), b"abcd")
    array = opened("zarr3", tmp_path / "zarr3")
    assert array.spec().to_json()["metadata"]["chunk_key_encoding"] == {"name": "default"}
    assert array.fill_value.tobytes() == bytes.fromhex("0100c07f")


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_resize_changes_nothing_but_the_shape(driver: str, tmp_path: Path) -> None:
    array = opened(driver, tmp_path, style=3)
    key, document = DRIVERS[driver]
    inner = [None] * (array.rank - 1)
    assert array.resize(exclusive_max=[5, *inner]).result().shape[0] == 5
    assert (tmp_path / key).read_text() == json.dumps({**document, "shape": [5]}, indent=3)
    assert array.resize(exclusive_max=[2, *inner], resize_metadata_only=True).result().shape[0] == 2
    assert json.loads((tmp_path / key).read_text()) == {**document, "shape": [2]}


@pytest.mark.parametrize("driver", DRIVERS)
def test_attributes_leave_the_rest_as_it_is(driver: str, tmp_path: Path) -> None:
    array = opened(driver, tmp_path)
    key, document = DRIVERS[driver]
    array.attributes["b"] = 2
    assert dict(array.attributes) == {**document.get("attributes", {}), "b": 2}
    stored = json.loads((tmp_path / key).read_text())
    if driver == "zarr3":
        assert stored.pop("attributes") == {"a": 1, "b": 2}
    assert stored == {name: value for name, value in document.items() if name != "attributes"}


def test_attributes_that_could_not_be_read_again_are_refused(tmp_path: Path) -> None:
    array = opened("zarr3", tmp_path)
    before = (tmp_path / "zarr.json").read_text()
    with pytest.raises(ValueError, match="dimension_units"):
        array.attributes["dimension_units"] = 5
    assert (tmp_path / "zarr.json").read_text() == before


def test_what_makes_another_array(tmp_path: Path) -> None:
    array = opened("zarr3", tmp_path)
    for change in ({"attributes": {}}, {"note": {"must_understand": False}}, {"shape": [4]}):
        (tmp_path / "zarr.json").write_text(json.dumps({**V3, **change}))
        assert array.resolve().result().shape == tuple({**V3, **change}["shape"])
    (tmp_path / "zarr.json").write_text(json.dumps({**V3, "data_type": "float64", "fill_value": 0}))
    with pytest.raises(ValueError, match=r"^FAILED_PRECONDITION: .*other chunks"):
        array.resolve().result()


@pytest.mark.parametrize("driver", ["zarr1", "bcolz", "zarr", "zarr3"])
def test_a_transaction_has_its_own_view_of_the_store(driver: str, tmp_path: Path) -> None:
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/a/"}
    array = ts.open(spec, create=True, dtype=ts.int32, shape=[6], chunk_layout=ts.ChunkLayout(chunk_shape=[2])).result()
    array[...] = 1  # so that the kernel knows the store
    transaction = ts.Transaction()
    inside = array.with_transaction(transaction)
    inside[2:4] = 5
    assert inside.read().result().tolist() == [1, 1, 5, 5, 1, 1]
    assert tegula.open_array(tmp_path / "a")[:].tolist() == [1] * 6
    transaction.commit_sync()
    assert array.read().result().tolist() == [1, 1, 5, 5, 1, 1]


def test_a_negative_zero_stays_one(tmp_path: Path) -> None:
    document = {**V2, "shape": [3], "dtype": "bfloat16", "fill_value": -0.0}
    (tmp_path / ".zarray").write_text(json.dumps(document))
    array = ts.open({"driver": "zarr", "kvstore": f"file://{tmp_path}/"}).result()
    values = array.read().result()
    assert values.tobytes() == b"\x00\x80" * 3
    assert tegula.open_array(tmp_path)[:].tobytes() == values.tobytes()
