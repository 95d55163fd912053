"""``tegula.statistics``: of arrays, tables and groups of every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.display.contents import short_text
from tegula.jobs import units
from tegula.jobs.statistics.statistics import Histogram

VALUES = np.random.default_rng(5).normal(size=(50, 40)).round(2)


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_every_format(tmp_path: Path, format: str) -> None:
    tegula.save(tmp_path / "x", VALUES, format=format)
    found = tegula.statistics(tmp_path / "x")
    assert (found.kind, found.path, found.dtype) == ("array", "", "float64")
    assert (found.count, found.missing, found.min, found.max) == (2000, 0, VALUES.min(), VALUES.max())
    assert found.mean == pytest.approx(VALUES.mean())
    assert found.std == pytest.approx(VALUES.std())
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 2000
    edges = found.histogram.edges
    assert (edges[0], edges[-1]) == (VALUES.min(), VALUES.max())


def test_the_size_of_the_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"shape": (50, 40), "dtype": "f8", "chunks": (7, 6)}
    plain = tegula.create_array({}, **options)
    sharded = tegula.create_array({}, **{**options, "chunks": (5, 4), "shards": (25, 20)})
    plain[:] = sharded[:] = VALUES
    whole = tegula.statistics(plain)
    monkeypatch.setattr(units, "BLOCK_BYTES", 8 * 60)
    for array in (plain, sharded):
        seen = np.zeros(array.shape, int)
        for box in units.boxes(array):
            seen[box] += 1
            assert seen[box].size <= 60
        assert (seen == 1).all()
        found = tegula.statistics(array)
        assert found.histogram == whole.histogram
        assert (found.count, found.min, found.max) == (whole.count, whole.min, whole.max)
        assert found.std == pytest.approx(whole.std)


@pytest.mark.parametrize("shards", [None, (1000, 1000)])
def test_absent_chunks_are_counted_without_being_visited(shards: Any) -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(10**9, 10**9), chunks=(100, 100), shards=shards, dtype="i2", fill_value=2)
    array[5, 5:8] = [-7, 100, 2]
    array[10**8, 0] = 4
    found = tegula.statistics(array)
    assert (found.count, found.missing, found.min, found.max) == (10**18, 0, -7, 100)
    assert found.mean == pytest.approx(2)
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 10**18


def test_a_few_chunks_of_few_are_not_read_as_fill_values(monkeypatch: pytest.MonkeyPatch) -> None:
    array = tegula.create_array({}, shape=(4000, 8), chunks=(10, 8), dtype="u1", fill_value=1)
    array[20:30] = 9
    monkeypatch.setattr("tegula.engine.stored.array._FEW", 0)
    assert [*units.boxes(array)] == [(slice(20, 30), slice(0, 8))]
    assert tegula.statistics(array).mean == pytest.approx((31920 + 80 * 9) / 32000)


@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]"])
def test_times_at_the_ends_of_their_range(dtype: str) -> None:
    first, last = np.array([-(2**63) + 1, 2**63 - 1]).view(dtype)
    for values, mean in (([first], first), ([last], last), ([first, last], 0 * last.view("m8[s]"))):
        found = tegula.statistics(tegula.create_array({}, data=np.array(values, dtype)))
        assert (found.min, found.max) == (values[0], values[-1])
        assert found.mean.view("i8") == mean.view("i8")


@pytest.mark.parametrize("dtype", ["M8", ">M8", "m8"])
def test_times_without_a_unit_are_numbers(dtype: str) -> None:
    values = np.array([-(2**63), 7, 2, 3], "i8").view("m8").astype(dtype)
    found = tegula.statistics(tegula.create_array({}, data=values, fill_value=None))
    numbers = [int(item.view("i8")) for item in (found.min, found.max, found.mean, found.std)]
    assert (found.count, found.missing, numbers) == (3, 1, [2, 7, 4, 2])
    assert "7 generic time units" in str(found)


def test_missing_values() -> None:
    group = tegula.create_group({})
    a = group.create_array("a", shape=4, dtype="i4", attributes={"_FillValue": -1, "missing_value": [7, "x"]})
    a[:] = [-1, 5, 7, 3]
    found = tegula.statistics(a)
    assert (found.count, found.missing, found.min, found.max) == (2, 2, 3, 5)
    nothing = group.create_array("n", shape=3, dtype="f4", fill_value=np.nan)
    found = tegula.statistics(nothing)
    assert (found.count, found.missing, found.min, found.mean, found.histogram) == (0, 3, None, None, None)


def test_the_mask_of_xarray_means_the_same_before_and_after_a_conversion() -> None:
    old, new = tegula.MemoryStore(), tegula.MemoryStore()
    options: dict[str, Any] = {"shape": 4, "dtype": "i2", "dimension_names": ["x"], "format": "zarr2"}
    tegula.create_array(old, fill_value=-999, **options)[:] = [1, -999, 3, -999]
    tegula.convert(old, new, format="zarr3")
    for store in (old, new):
        found = tegula.statistics(store)
        assert (found.missing, found.min, found.max) == (2, 1, 3)
    zero = tegula.create_array({}, fill_value=0, **options)
    zero[:] = [0, 1, 2, 0]
    assert tegula.statistics(zero).missing == 2  # as in xarray, though many programs write zero by default
    unnamed = tegula.create_array({}, fill_value=0, **(options | {"dimension_names": None}))
    assert tegula.statistics(unnamed).missing == 0  # no variable of xarray


def test_fields_columns_and_members() -> None:
    group = tegula.create_group({}, format="zarr2")
    records = np.array([(1, (2.5, [1, 2])), (3, (0.5, [3, 4]))], [("a", "i4"), ("b", [("c", "f8"), ("d", "i2", 2)])])
    group["deep/r"] = records
    found = tegula.statistics(group)
    assert (found.kind, found.count, [*found.parts]) == ("group", 8, ["deep/r"])
    inner = found["deep/r"].parts
    assert [*inner] == ["a", "b.c", "b.d"]
    assert (inner["b.c"].path, inner["b.c"].max, inner["b.d"].mean) == ("deep/r.b.c", 2.5, 2.5)
    table = tegula.create_table({}, {"t": np.array(["2020-01-01", "2020-01-03"], "M8[D]"), "s": ["x", "y"]})
    found = tegula.statistics(table)
    assert (found.kind, [*found.parts], found["s"].max) == ("table", ["t", "s"], "y")
    assert found["t"].mean == np.datetime64("2020-01-02")
    assert found["t"].std == np.timedelta64(1, "D")
    assert [path for path, _ in found.leaves()] == ["t", "s"]


def test_unreadable_arrays_are_reported_and_the_others_measured() -> None:
    store = tegula.MemoryStore()
    tegula.save(store, a=[1, 2], b=[3, 4], format="zarr2")
    store.set("a/0", b"damaged")
    found = tegula.statistics(store)
    assert [*found.parts] == ["b"]
    assert [*found.failed] == ["a"]
    with pytest.raises(tegula.TegulaError, match="'a"):
        tegula.statistics(store, path="a")
    with pytest.raises(tegula.NotFoundError):
        tegula.statistics(tegula.MemoryStore())


def test_empty_arrays_and_arrays_without_axes() -> None:
    found = tegula.statistics(tegula.create_array({}, shape=(0, 3), dtype="f4"))
    assert (found.count, found.missing, found.mean) == (0, 0, None)
    found = tegula.statistics(tegula.create_array({}, shape=(), dtype="i4", fill_value=7))
    assert (found.count, found.mean, found.min) == (1, 7, 7)
    assert tegula.statistics(tegula.create_group({})).count == 0


def test_a_deleted_array_does_not_count_as_fill_values(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=10**6, chunks=1, dtype="u1")
    tegula.delete(tmp_path / "x")
    with pytest.raises(tegula.NotFoundError):
        tegula.statistics(array)


def test_progress_and_json() -> None:
    group = tegula.create_group({})
    group["x"] = VALUES
    calls: list[tuple[str, int, int]] = []
    found = tegula.statistics(group, progress=lambda *call: calls.append(call))
    assert calls[-1] == ("x", VALUES.nbytes, VALUES.nbytes)
    plain = found.as_dict()
    assert plain["parts"]["x"]["count"] == 2000
    assert len(plain["parts"]["x"]["histogram"]["edges"]) == len(plain["parts"]["x"]["histogram"]["counts"]) + 1
    assert repr(found).splitlines()[1].startswith("x     float64")


def test_drawing() -> None:
    histogram = Histogram((0, 1, 100, 50), (0, 1, 2, 3, 4))
    assert str(histogram) == " ▁█▄"
    assert histogram.drawn(2) == "▁█"
    assert str(Histogram((), (0,))) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.datetime64("2024-01-01T00:00:00.250000000"), "2024-01-01 00:00:00.25"),
        (np.datetime64("2024-01-01T10:00:00.000"), "2024-01-01 10:00:00"),
        (np.datetime64("2024-01-01T00"), "2024-01-01"),
        (np.datetime64("2020"), "2020"),
        (np.datetime64("NaT"), "NaT"),
        (np.timedelta64(3, "D"), "3 d"),
        (np.timedelta64(-90, "s"), "-0:01:30"),
        (np.timedelta64(1500, "us"), "0.0015 s"),
        (np.timedelta64(0, "ns"), "0 s"),
        (np.timedelta64(59_999_999, "us"), "60 s"),
        (np.timedelta64(3, "Y"), "3 years"),
        (np.timedelta64("NaT"), "NaT"),
    ],
)
def test_times_are_short(value: Any, expected: str) -> None:
    assert short_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (282.99237, "282.99"),
        (101325.4, "101325"),
        (-2.5e9, "-2500000000"),
        (3.2e15, "3.2e+15"),
        (1.23456e-4, "0.00012346"),
    ],
)
def test_numbers_are_written_as_a_person_reads_them(value: float, expected: str) -> None:
    assert short_text(value) == expected
