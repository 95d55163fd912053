"""The corpora of arrays, tables and groups that other libraries have written are read exactly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.samples import read_json

import tegula
from tegula import formats

# Readers differ on these with good reason: the damage can't be seen, or the meaning is not in doubt.
EITHER = {"err_zstd_flip", "err_dtype_nobyteorder", "err_missing_filters", "err_subarray_dtype"}
# The specification's bits of this NaN are those that TensorStore reads too; zarr-python, which recorded the values,
# reads a hexadecimal float16 through Python's `struct`, which keeps a NaN's sign only.
NAN_BITS = {"fill_neg_nan_hex_f2"}


ARCHIVES = ("zarr04", "zarr1", "zarr2", "zarr3", "zarr3draft", "bcolz")
CASES = {name: read_json(name, "index.json")["cases"] for name in ARCHIVES}


@pytest.fixture
def folder(request: pytest.FixtureRequest, unpacked_sample: Callable[[str], Path]) -> Path:
    """The folder of a corpus, by its name."""
    return unpacked_sample(request.param)


def each(kind: str) -> pytest.MarkDecorator:
    """Give a test the parameters `folder` and `case`, for the cases of a kind."""
    chosen = [(name, case) for name, cases in CASES.items() for case in cases if case["kind"] == kind]
    ids = [f"{name}-{case['case']}" for name, case in chosen]
    return pytest.mark.parametrize(("folder", "case"), chosen, indirect=["folder"], ids=ids)


def inner_codec(folder: Path, case: dict[str, Any]) -> str:
    """Name what a chunk may need the kernel for: zarr 1.1.0's frames of zstd 0.7."""
    inner = case["compression_opts"]["cname"] if folder.name == "zarr1" and case["compression"] == "blosc" else ""
    return inner if inner == "zstd" else ""


def check_round_trip(node: Any) -> None:
    documents = node.metadata.documents
    parsed = formats.parse(documents)
    assert parsed is not None
    item = formats.find_format(parsed.format)
    if item.writable:
        added = {} if "attrs" in documents or "meta" not in documents else {"attrs": b"{}"}
        assert item.serialize(parsed) == {**documents, **added}


@pytest.mark.slow
@each("array")
def test_array(folder: Path, case: dict[str, Any], check_values: Callable[..., None]) -> None:
    path = folder / case["path"]
    pickled = case["case"] == "obj_pickle"
    if pickled:
        with pytest.raises(tegula.UnsupportedError, match="allow_pickle"):
            tegula.open(path)[...]
    array = tegula.open(path, path=case.get("node", ""), allow_pickle=pickled)
    assert isinstance(array, tegula.Array)
    check_round_trip(array)
    recorded = folder / case["case"] / "expected_attrs.json"
    if recorded.is_file():
        assert dict(array.attrs) == json.loads(recorded.read_text())
    needs = inner_codec(folder, case)
    try:
        values = array[...]
    except tegula.UnsupportedError as error:
        if not needs or needs not in str(error):
            raise
        return
    if case["case"] in NAN_BITS:
        expected = np.load(folder / case["expected"])
        assert np.array_equal(values, expected, equal_nan=True)
        assert np.array_equal(np.signbit(values), np.signbit(expected))
        return
    dtype = (case.get("ml_dtype") or str(array.dtype)) if case.get("expected_view") else None
    check_values(values, folder / case["expected"], dtype)


@each("group")
def test_group(folder: Path, case: dict[str, Any]) -> None:
    group = tegula.open(folder / case["path"])
    assert isinstance(group, tegula.Group)
    found = {"": group, **dict(group.walk())}
    expected = json.loads((folder / case["expected"]).read_text())
    assert sorted(found) == sorted(expected)
    for path, wanted in expected.items():
        node = found[path]
        assert dict(node.attrs) == wanted["attrs"]
        assert isinstance(node, tegula.Array) == (wanted["type"] == "array")
        check_round_trip(node)
        if isinstance(node, tegula.Array):
            values = node[...]
            assert list(values.shape) == wanted["shape"]
            assert wanted["dtype"] in (str(values.dtype), "StringDType()")
            # as text, in which NaN equals NaN
            assert json.dumps(np.ravel(values).tolist()) == json.dumps(wanted["values"])


@each("carray")
def test_carray(folder: Path, case: dict[str, Any], check_values: Callable[..., None]) -> None:
    root = folder / case["case"]
    array = tegula.open(root / case["root"], allow_pickle=True)
    check_round_trip(array)
    check_values(array[...], root / case["expected"])
    assert dict(array.attrs) == json.loads((root / case["attrs"]).read_text())
    assert array.chunks[0] == case["storage"]["chunklen"]


@each("ctable")
def test_ctable(folder: Path, case: dict[str, Any]) -> None:
    root = folder / case["case"]
    table = tegula.open(root / case["root"], allow_pickle=True)
    check_round_trip(table)
    assert [*table.names] == case["names"]
    assert dict(table.attrs) == json.loads((root / case["attrs"]).read_text())
    with np.load(root / case["expected"], allow_pickle=True) as expected:
        for name, key in case["colkeys"].items():
            values = table[name][: len(table)]
            assert values.dtype == expected[key].dtype
            assert values.shape == expected[key].shape
            if values.dtype.hasobject:
                assert values.tolist() == expected[key].tolist()
            else:
                assert values.tobytes() == expected[key].tobytes()
            check_round_trip(table[name])


@each("error")
def test_error(folder: Path, case: dict[str, Any]) -> None:
    try:
        node = tegula.open(folder / case["path"])
        node[...] if isinstance(node, tegula.Array) else [*node.walk()]
    except tegula.TegulaError:
        return
    assert case["case"] in EITHER, "read without an error"
