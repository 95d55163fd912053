"""Rows that are given to tables: what a column can't hold exactly is refused, and everything else is kept."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError

RECORD = np.dtype([("n", "i4"), ("s", "S2")])


@pytest.mark.parametrize("values", [["a", "x\0"], [b"a", b"x\0"], np.array(["a", "x\0"], object), [["a", "x\0"]]])
def test_text_that_numpy_would_cut_is_refused(values: Any) -> None:
    table = tegula.create_table({}, {"t": np.array(["a"], "U3")})
    store = tegula.MemoryStore()
    with pytest.raises(MetadataError, match="ends in NUL"):
        table.append({"t": values})
    with pytest.raises(MetadataError, match="ends in NUL"):
        tegula.create_table(store, {"t": values})
    with pytest.raises(MetadataError, match="ends in NUL"):
        tegula.create_table({}, {"n": range(len(values))}).add_column("t", values)
    assert len(table) == 1
    assert [*store.list()] == []


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("M8[ns]", np.array(["3000-01-01"], "M8[s]")),
        ("M8[ns]", ["3000-01-01"]),
        ("M8[ns]", np.array([datetime(3000, 1, 1)], object)),
        ("M8[D]", ["2020-01-01T12:00"]),
        ("M8[D]", [datetime(2020, 1, 1, 12)]),
        ("M8[s]", [1.5]),
        ("M8[s]", np.array([5], "m8[s]")),
        ("m8[ns]", np.array([10**12], "m8[D]")),
        ("V3", np.array([b"abcde"], "V5")),
        (RECORD, np.array([(2**40, b"a")], [("n", "i8"), ("s", "S2")])),
        (RECORD, np.array([(1, b"abc")], [("n", "i4"), ("s", "S3")])),
        (RECORD, np.array([5])),
        ("i4", np.ma.array([5], mask=[True])),
        ("U3", np.ma.array(["a"], mask=[True])),
        (RECORD, np.ma.array([(1, b"a")], RECORD, mask=[(True, False)])),
    ],
)
def test_values_that_a_type_can_not_hold_are_refused(dtype: Any, values: Any) -> None:
    table = tegula.create_table({}, np.zeros(1, [("a", dtype)]), format="zarr3")
    for change in (table.append, partial(table.__setitem__, slice(0, 1))):
        with pytest.raises(MetadataError):
            change({"a": values})
    assert table[...].tobytes() == np.zeros(1, table.dtype).tobytes()
    if not isinstance(values, np.ma.MaskedArray):
        return
    with pytest.raises(MetadataError):
        table.add_column("b", values)


def test_single_times_of_pandas_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    table = tegula.create_table({}, np.empty(0, [("t", "M8[ns]"), ("d", "m8[ns]")]))
    time = "2020-01-01T00:00:00.000000001"
    table.append({"t": [pandas.Timestamp(time), pandas.NaT], "d": [pandas.Timedelta(1), pandas.NaT]})
    np.testing.assert_array_equal(table["t"][...], np.array([time, "NaT"], "M8[ns]"))
    np.testing.assert_array_equal(table["d"][...], np.array([1, "NaT"], "m8[ns]"))


def test_times_and_durations_are_not_mixed() -> None:
    pandas = pytest.importorskip("pandas")
    table = tegula.create_table({}, np.empty(0, [("t", "M8[ns]"), ("d", "m8[ns]")]))
    times = [pandas.Timestamp("2020-01-01"), np.datetime64("2020-01-01"), np.datetime64("NaT")]
    durations = [pandas.Timedelta(1.5, "s"), np.timedelta64(3, "s"), np.timedelta64("NaT")]
    for time, duration in zip(times, durations):
        for name, wrong in (("t", {"t": duration, "d": None}), ("d", {"t": None, "d": time})):
            with pytest.raises(MetadataError, match=f"'{name}'"):
                table.append({key: np.array([value, None], object) for key, value in wrong.items()})
        table.append({"t": np.array([time, None], object), "d": np.array([duration, None], object)})
    assert len(table) == 6
    for name, wrong in (("t", np.array(5, "m8[s]")), ("d", np.array(5, "M8[s]"))):
        objects = np.empty(1, object)
        objects[0] = wrong
        with pytest.raises(MetadataError, match="is not a value of"):
            table[0:1] = {name: objects}


def test_records_in_a_list_are_matched_by_name() -> None:
    table = tegula.create_table({}, np.zeros(2, [("a", "i4"), ("b", "i4")]))
    swapped = np.array([(1, 2), (3, 4)], [("b", "i4"), ("a", "i4")])
    table[0:2] = [*swapped]
    assert table[...].tolist() == [(2, 1), (4, 3)]
    table[0:2] = [swapped[1:].reshape(()), (5, 6)]
    assert table[...].tolist() == [(4, 3), (5, 6)]
    table[0:1] = [np.ma.array(swapped)[0]]
    assert table[...].tolist() == [(2, 1), (5, 6)]
    with pytest.raises(MetadataError, match="fields a, c, not a, b"):
        table[0:1] = [np.zeros((), [("a", "i4"), ("c", "i4")])]
    with pytest.raises(MetadataError, match="masked"):
        table[0:1] = [np.ma.array(swapped, mask=[(True, False)] * 2)[0]]
    assert table[...].tolist() == [(2, 1), (5, 6)]


@pytest.mark.parametrize("record", [(1.5, "ab"), (1, "abc"), (2**40, "a"), (1, "a\0"), (None, "a"), (1,), [1, "a"], 5])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_fields_in_tuples_are_not_cut(record: Any, shape: tuple[int, ...]) -> None:
    table = tegula.create_table({}, np.zeros(2, [("a", RECORD, shape), ("b", [("r", RECORD)])]))
    good = (7, "ab")
    for a, b in ((record, good), (good, record)):
        row = ([good, a] if shape else a, (b,))
        for selection, values in ((0, row), (slice(0, 1), [row])):
            with pytest.raises(MetadataError, match="'a'" if b is good else "'b'"):
                table[selection] = values
    assert table[...].tobytes() == np.zeros(2, table.dtype).tobytes()
    table[0:2] = [([good, (1.0, b"x")] if shape else good, (np.array(good, RECORD),))] * 2
    assert table["a"][1].tolist() == ([(7, b"ab"), (1, b"x")] if shape else (7, b"ab"))
    assert table["b"][1].tolist() == ((7, b"ab"),)


def test_what_is_not_a_row_is_refused_in_one_line() -> None:
    table = tegula.create_table({}, np.zeros(2, [("a", "i4"), ("b", "i4")]))
    for wrong in (np.eye(2), table[...], [1, 2], np.void(b"ab"), 5):
        with pytest.raises(MetadataError, match="neither a tuple nor a record") as caught:
            table[0:1] = [wrong]
        assert "\n" not in str(caught.value)


def test_values_of_another_type_are_kept() -> None:
    table = tegula.create_table({}, np.empty(0, [("t", "M8[s]"), ("d", "m8[ms]"), ("r", RECORD), ("f", "f4")]))
    table.append({"t": ["1960-01-01T00:00:01", ""], "d": [5, None], "r": np.zeros(2, RECORD), "f": [1, 2]})
    swapped = np.array([(b"x", 7)], [("s", "S5"), ("n", "u8")])
    day = np.array(["2020-01-01"], "M8[D]")
    table.append({"t": day, "d": np.array([2], "m8[s]"), "r": swapped, "f": np.ma.array([1.5], mask=[True])})
    table.append({"t": [np.nan], "d": [datetime(1, 1, 2) - datetime(1, 1, 1)], "r": swapped, "f": [0]})
    assert table["t"][...].astype(str).tolist() == ["1960-01-01T00:00:01", "NaT", "2020-01-01T00:00:00", "NaT"]
    np.testing.assert_array_equal(table["d"][...], np.array([5, "NaT", 2000, 86_400_000], "m8[ms]"))
    assert table["r"][2:].tolist() == [(7, b"x")] * 2
    assert np.isnan(table["f"][...]).tolist() == [False, False, True, False]
