"""Sample corpora kept beside a checkout of the repository are read exactly; without them there is nothing to do."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import formats

# Readers differ on these with good reason: the damage can't be seen, or the meaning is not in doubt.
EITHER = {"err_zstd_flip", "err_dtype_nobyteorder", "err_missing_filters", "err_subarray_dtype"}
# The specification's bits of this NaN are those that TensorStore reads too; zarr-python, which recorded the values,
# reads a hexadecimal float16 through Python's `struct`, which keeps a NaN's sign only.
NAN_BITS = {"fill_neg_nan_hex_f2"}


def shared() -> Path:
    return Path(os.environ.get("TEGULA_SAMPLES", Path(__file__).resolve().parents[3] / "shared"))


def cases(*kinds: str) -> list[Any]:
    found = []
    for folder in ("zarr04", "zarr1", "zarr2", "zarr3", "bcolz"):
        index = shared() / "corpus" / folder / "index.json"
        if index.is_file():
            listed = [case for case in json.loads(index.read_text())["cases"] if case["kind"] in kinds]
            found += [pytest.param(index.parent, case, id=f"{folder}-{case['case']}") for case in listed]
    return found


def each(*kinds: str) -> pytest.MarkDecorator:
    # one parameter that stands for nothing keeps a bare clone free of skipped tests
    return pytest.mark.parametrize(("folder", "case"), cases(*kinds) or [pytest.param(None, {}, id="none")])


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


@each("array")
def test_array(folder: Path | None, case: dict[str, Any], check_values: Callable[..., None]) -> None:
    if folder is None:
        return
    path = folder / case["path"]
    pickled = case["case"] == "obj_pickle"
    if pickled:
        with pytest.raises(tegula.UnsupportedError, match="allow_pickle"):
            tegula.open(path)[...]
    array = tegula.open(path, allow_pickle=pickled)
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
def test_group(folder: Path | None, case: dict[str, Any]) -> None:
    if folder is None:
        return
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
def test_carray(folder: Path | None, case: dict[str, Any], check_values: Callable[..., None]) -> None:
    if folder is None:
        return
    root = folder / case["case"]
    array = tegula.open(root / case["root"], allow_pickle=True)
    check_round_trip(array)
    check_values(array[...], root / case["expected"])
    assert dict(array.attrs) == json.loads((root / case["attrs"]).read_text())
    assert array.chunks[0] == case["storage"]["chunklen"]


@each("ctable")
def test_ctable(folder: Path | None, case: dict[str, Any]) -> None:
    if folder is None:
        return
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
def test_error(folder: Path | None, case: dict[str, Any]) -> None:
    if folder is None:
        return
    if case["case"] == "err_chunk_is_dir" and not (folder / case["path"] / "1").is_dir():
        return  # an empty directory does not survive every way of copying
    try:
        node = tegula.open(folder / case["path"])
        node[...] if isinstance(node, tegula.Array) else [*node.walk()]
    except tegula.TegulaError:
        return
    assert case["case"] in EITHER, "read without an error"


def test_real_data() -> None:
    data = shared() / "data"
    if not (data / "eraint_expected.npz").is_file():
        return
    with np.load(data / "eraint_expected.npz") as archive:
        expected = {name: archive[name] for name in archive.files}
    group = tegula.open_group(data / "eraint.zarr2")
    for name, values in expected.items():
        for array in (tegula.open_array(data / "eraint.zarr1" / name), group[name]):
            found = array[...]
            assert found.shape == values.shape
            assert np.array_equal(found, values)
            assert found.astype(values.dtype).tobytes() == values.tobytes()
