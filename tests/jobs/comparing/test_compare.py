"""``tegula.compare``: hierarchies of any formats, sparse arrays, equal bytes, and all kinds of differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula

VALUES = np.random.default_rng(3).normal(size=(30, 20)).round(1)


def group_of(**arrays: Any) -> tegula.Group:
    group = tegula.create_group({})
    for name, values in arrays.items():
        group[name] = values
    return group


@pytest.mark.parametrize("one", ["zarr1", "zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("other", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_formats_chunks_and_codecs_make_no_difference(tmp_path: Path, one: str, other: str) -> None:
    tegula.create_array(tmp_path / "a", shape=VALUES.shape, dtype="f8", format=one)[:] = VALUES
    tegula.convert(tmp_path / "a", tmp_path / "b", format=other, chunks=(7, 20), codecs=None)
    report = tegula.compare(tmp_path / "a", tmp_path / "b", exact=True)
    assert report.equal
    assert report
    assert (report.arrays, report.elements, report.differences) == (1, 600, [])
    tegula.open(tmp_path / "b", "r+")[29, 3:5] = 99
    tegula.open(tmp_path / "b", "r+")[4, 19] = 98
    report = tegula.compare(tmp_path / "a", tmp_path / "b")
    assert not report
    (found,) = report.differences
    assert (found.what, found.count, found.size, found.index) == ("values", 3, 600, (4, 19))
    assert (found.one, found.other) == (VALUES[4, 19], 98)
    assert "3 of 600 values differ, the first at [4, 19]:" in str(found)


def test_every_kind_of_difference_is_reported() -> None:
    one, other = group_of(a=[1, 2], b=[1], c=[1], d=[1.0], e=["x"]), group_of(a=[1, 2], b=[1, 2], d=[1], e=[1])
    one.attrs.update({"same": [1, float("nan")], "title": "A", "old": 1})
    other.attrs.update({"same": [1, float("nan")], "title": "B"})
    other.create_group("new")
    tegula.create_array(one.store, path="f", shape=2, dtype="u1", dimension_names=["x"])
    tegula.create_array(other.store, path="f", shape=2, dtype="u1", dimension_names=["y"])
    other.create_group("g")
    one["g"] = [1]
    report = tegula.compare(one, other)
    told = {(found.path, found.what): (found.one, found.other) for found in report.differences}
    assert told == {
        ("", "attributes"): ({"title": "A", "old": 1}, {"title": "B"}),
        ("b", "shape"): ((1,), (2,)),
        ("c", "only in the first"): (None, None),
        ("d", "data type"): ("float64", "int64"),
        ("e", "data type"): ("<U1", "int64"),
        ("e", "values"): (None, None),
        ("f", "dimension names"): (("x",), ("y",)),
        ("g", "kind"): ("array", "group"),
        ("new", "only in the second"): (None, None),
    }
    assert report.counts["data type"] == 2
    assert "title ('A' and 'B'), old (1 and nothing)" in str(report)
    limited = tegula.compare(one, other, max_differences=1)
    assert (len(limited.differences), sum(limited.counts.values())) == (1, 9)
    assert "... and 8 more" in str(limited)
    assert report.as_dict()["differences"][0]["what"] == "attributes"
    with pytest.raises(tegula.MetadataError):
        tegula.compare(one, other, max_differences=-1)


def test_exact_compares_bits() -> None:
    one, other = group_of(x=[0.0, np.nan, 1.0]), group_of(x=[-0.0, -np.nan, 1.0])
    assert tegula.compare(one, other)
    report = tegula.compare(one, other, exact=True)
    assert (report.equal, report.exact, report.differences[0].count) == (False, True, 2)


@pytest.mark.parametrize("exact", [False, True])
def test_padding_between_fields_makes_no_difference(exact: bool) -> None:
    aligned = np.dtype([("a", "i1"), ("b", "<f8"), ("c", "i1")], align=True)
    values = np.frombuffer(np.random.default_rng(1).bytes(5 * aligned.itemsize), aligned).copy()
    values["b"] = range(5)
    array = tegula.create_array({}, data=values, format="bcolz", chunks=2)
    for format in ("zarr2", "zarr3"):
        target: dict[str, bytes] = {}
        tegula.convert(array, target, format=format)
        assert tegula.compare(array, target, exact=exact)
    other = values.copy()
    other.view("u1").reshape(5, -1)[:, 1:8] = 7  # padding
    other["a"][3] += 1
    (found,) = tegula.compare(
        array, tegula.create_array({}, data=other, format="bcolz", chunks=2), exact=exact
    ).differences
    assert (found.index, found.count) == ((3,), 1)


@pytest.mark.parametrize("exact", [False, True])
def test_rows_of_any_length(exact: bool) -> None:
    arrays = []
    for last in (2, 3):
        options: Any = {"codecs": [{"id": "vlen-array", "dtype": "<f4"}], "format": "zarr2"}
        arrays.append(tegula.create_array({}, shape=3, dtype=object, **options))
        for position, row in enumerate(([], [1], [1, last])):
            arrays[-1][position] = np.array(row, "f4")
    assert tegula.compare(arrays[0], arrays[0], exact=exact)
    found = tegula.compare(*arrays, exact=exact).differences[0]
    assert (found.index, found.count) == ((2,), 1)


@pytest.mark.slow
def test_huge_grids_of_which_little_is_stored() -> None:
    def made(fill: int = 0, chunks: Any = (100, 100)) -> tegula.Array:
        return tegula.create_array({}, shape=(10**9, 10**9), chunks=chunks, dtype="u1", fill_value=fill)

    one, other = made(), made(chunks=(300, 70))
    one[10**8, 10**8] = other[10**8, 10**8] = 7
    one[5, 5], other[5, 5] = 0, 0
    report = tegula.compare(one, other)
    assert report.equal
    assert report.elements == 10**18
    other[10**9 - 1, 3] = 1
    (found,) = tegula.compare(one, other).differences
    assert (found.count, found.index) == (1, (10**9 - 1, 3))
    filled = made(1)
    _, found = tegula.compare(made(), filled).differences
    assert (found.count, found.index, found.one, found.other) == (10**18, (0, 0), 0, 1)
    filled[0, 0] = 0
    _, found = tegula.compare(made(), filled).differences
    assert (found.count, found.index) == (10**18 - 1, (0, 1))


def test_equal_bytes_are_not_decoded(tmp_path: Path) -> None:
    for name, codec in (("a", "zstd"), ("b", "zstd")):
        array = tegula.create_array(tmp_path / name, shape=100, chunks=10, dtype="i4", codecs=codec)
        array[:90] = np.arange(90)
    report = tegula.compare(tmp_path / "a", tmp_path / "b")
    assert (report.equal, report.chunks_skipped) == (True, 9)
    for name in "ab":  # the same bytes in both, which no codec could decode
        (tmp_path / name / "c/3").write_bytes(b"damaged")
    assert tegula.compare(tmp_path / "a", tmp_path / "b").chunks_skipped == 9
    (tmp_path / "a" / "c/3").write_bytes(b"otherwise")
    report = tegula.compare(tmp_path / "a", tmp_path / "b")
    assert not report
    assert "c/3" in report.failed[""]
    assert "1 node not readable" in report.summary


def test_shards_are_equal_as_bytes_or_as_values() -> None:
    arrays = [
        tegula.create_array({}, shape=(64, 64), chunks=(8, 8), shards=shards, dtype="f4", fill_value=fill)
        for shards, fill in [((32, 32), 0), ((32, 32), 0), (None, 0), ((32, 32), 5)]
    ]
    for array in arrays:
        array[:] = 0
        array[3, 60] = 4
    assert tegula.compare(*arrays[:2]).chunks_skipped > 0
    assert tegula.compare(arrays[0], arrays[2])
    assert tegula.compare(arrays[0], arrays[3]).counts == {"fill value": 1}
    arrays[1][3, 61] = 1
    assert tegula.compare(*arrays[:2]).differences[0].index == (3, 61)


def test_tables() -> None:
    columns = {"b": np.arange(5), "a": np.array(["x", "y", "z", "u", "v"])}
    one = tegula.create_table({}, columns, format="bcolz", attributes={"unit": "m"})
    other = tegula.MemoryStore()
    tegula.convert(one, other, format="zarr3")
    assert tegula.compare(one, other)  # a group to look at, a table by its attribute
    assert tegula.compare(one, tegula.open_table(other))
    turned = tegula.create_table({}, dict(reversed(columns.items())), format="bcolz", attributes={"unit": "m"})
    (found,) = tegula.compare(one, turned).differences
    assert (found.what, found.one, found.other) == ("columns", ("b", "a"), ("a", "b"))
    report = tegula.compare(one, one)
    assert (report.tables, report.arrays, report.groups) == (1, 2, 0)


def test_data_of_xarray_are_equal_after_a_conversion() -> None:
    old, new = tegula.MemoryStore(), tegula.MemoryStore()
    group = tegula.create_group(old, format="zarr2")
    for name, dtype, fill in [("a", "i2", -9), ("b", "f4", np.nan), ("c", "f8", 9.5), ("d", "M8[s]", "NaT")]:
        options: dict[str, Any] = {"fill_value": fill, "dimension_names": ["x"], "attributes": {"units": "K"}}
        group.create_array(name, shape=3, dtype=dtype, **options)[:2] = 1
    tegula.convert(old, new, format="zarr3")
    assert str(tegula.compare(old, new)).splitlines() == ["1 group, 4 arrays, 12 elements: equal"]
    del tegula.open(new, "r+")["a"].attrs["_FillValue"]
    (found,) = tegula.compare(old, new).differences
    assert (found.path, found.what, found.one, found.other) == ("a", "attributes", {"_FillValue": -9}, {})


def test_a_fill_value_that_is_undefined_marks_nothing_as_missing() -> None:
    options: dict[str, Any] = {"format": "zarr2", "fill_value": None, "dimension_names": ["x"]}
    for dtype in (str, bytes):
        store = tegula.MemoryStore()
        assert tegula.create_array(store, shape=2, dtype=dtype, **options).conventions.fill is None
        assert not tegula.compare(store, store).differences


@pytest.mark.parametrize("value", ["x", b"x"], ids=repr)
def test_text_that_is_missing_in_zarr2(value: Any) -> None:
    kind = type(value)
    one = tegula.create_array({}, shape=3, dtype=kind, fill_value=None, format="zarr2", chunks=1)
    other = tegula.create_array({}, shape=3, dtype=kind, fill_value=kind(), chunks=1)
    one[0] = other[0] = value
    assert tegula.compare(one, other)
    assert tegula.checksum(one) == tegula.checksum(other)
    for chunks in (1, 2):
        made: dict[str, bytes] = {}
        report = tegula.convert(one, made, format="zarr3", chunks=chunks, verify=True)
        assert report.ok
        assert report.arrays[0].chunks_copied == (1 if chunks == 1 else 0)
        assert tegula.compare(one, made)


def test_small_shapes_and_a_deleted_array(tmp_path: Path) -> None:
    for shape in [(), (0,), (3, 0)]:
        one, other = (tegula.create_array({}, shape=shape, dtype="i4", fill_value=fill) for fill in (1, 2))
        assert tegula.compare(one, one)
        assert [*tegula.compare(one, other).counts] == ["fill value", *["values"] * (shape == ())]
    array = tegula.create_array(tmp_path / "x", shape=10**6, chunks=1, dtype="u1")
    whole = tegula.create_array({}, shape=10**6, chunks=1, dtype="u1")
    tegula.delete(tmp_path / "x")
    report = tegula.compare(whole, array)
    assert not report
    assert "deleted" in report.failed[""]
    with pytest.raises(tegula.NotFoundError):
        tegula.compare(tmp_path / "x", whole)


def test_times_without_a_unit_are_printed_as_numbers() -> None:
    one, other = (tegula.create_array({}, shape=3, dtype="M8", fill_value=fill) for fill in (5, 6))
    text = str(tegula.compare(one, other))
    assert "fill value: '5 (without a unit)' and '6 (without a unit)'" in text
    assert "the first at [0]: '5 (without a unit)' and '6 (without a unit)'" in text


def test_progress() -> None:
    group = group_of(x=VALUES, y=[1])
    calls: list[tuple[str, int, int]] = []
    tegula.compare(group, group, progress=lambda *call: calls.append(call))
    assert [call for call in calls if call[1] == call[2]][-1] == ("y", 8, 8)
    assert ("x", VALUES.nbytes, VALUES.nbytes) in calls


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_units_and_names_of_n5_are_those_of_other_formats(format: str) -> None:
    units = {"units": ["nm", "nm", "um"], "resolution": [4, 4, 0.04], "other": 1}
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    old = tegula.create_array({}, data=values, format="n5", dimension_names=["z", "y", "x"], attributes=units)
    store = tegula.MemoryStore()
    tegula.convert(old, store, format=format)
    new = tegula.open(store, "r+")
    assert tegula.compare(old, new).equal
    assert tegula.checksum(old, attributes=True) == tegula.checksum(new, attributes=True)
    new.attrs.update({"units": ["nm", "nm", "mm"]} if format == "n5" else {"dimension_units": ["1 m", "4 nm", "4 nm"]})
    assert tegula.compare(old, new).counts == {"attributes": 1}


@pytest.mark.parametrize("kind", ["group", "table", "array", "missing"])
def test_members_of_what_only_one_side_has_are_left_alone(kind: str) -> None:
    one, other = tegula.create_group({}), tegula.create_group({})
    one["g/deep/x"] = [1, 2, 3]
    if kind == "group":
        other.create_group("g")
    elif kind == "table":
        tegula.create_table(other.store, path="g", columns={"a": [1, 2]})
    elif kind == "array":
        other["g"] = [1, 2]
    for first, second in ((one, other), (other, one)):
        report = tegula.compare(first, second)
        assert (report.equal, report.failed) == (False, {})
        assert {"/".join(difference.path.split("/")[:1]) for difference in report.differences} == {"g"}


def test_floats_are_said_with_no_more_digits_than_their_size_needs() -> None:
    one, other = np.array([0.1, 285.0215759277344], "f4"), np.array([0.1, 0.3], "f4")
    [found] = tegula.compare(tegula.array(one), tegula.array(other)).differences
    assert str(found) == "/: 1 of 2 values differ, the first at [1]: 285.02158 and 0.3"
    assert (np.float32(found.one), np.float32(found.other)) == (one[1], other[1])
