"""Moments of parts merge into those of the whole, compared with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from tegula.reductions.moments import Moments, measure

pytestmark = pytest.mark.once(executors="none")

NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 3)) | st.just(float("nan"))
VALUES = nps.arrays("f8", st.integers(0, 60), elements=NUMBERS)


@given(VALUES, st.integers(0, 60))
def test_parts_make_the_whole(values: Any, cut: int) -> None:
    one, other, whole = measure(values[:cut]), measure(values[cut:]), measure(values)
    both, reverse = one.merge(other), other.merge(one)
    for found in (both, reverse, whole):
        there = values[~np.isnan(values)]
        assert (found.count, found.missing) == (there.size, values.size - there.size)
        if not there.size:
            assert (found.low, found.average, found.deviation, found.bins) == (None, None, None, None)
            continue
        assert (found.low, found.high) == (there.min(), there.max())
        assert found.average == pytest.approx(there.mean(), rel=1e-9, abs=1e-6)
        assert found.deviation == pytest.approx(there.std(), rel=1e-6, abs=1e-6)
        assert found.bins == whole.bins


@given(st.floats(-1e6, 1e6), st.integers(0, 1000))
def test_repeating_is_merging_again_and_again(value: float, number: int) -> None:
    found = measure(np.array([value])).times(number)
    whole = measure(np.full(number, value))
    assert (found.count, found.low, found.high, found.bins) == (whole.count, whole.low, whole.high, whole.bins)
    assert found.average == (pytest.approx(value) if number else None)
    assert found.deviation == (0.0 if number else None)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", ">f8", ">i4", "bfloat16", "int4"])
def test_types_of_numbers(dtype: str) -> None:
    kind = getattr(ml_dtypes, dtype, dtype)
    values = np.array([1, 0, 1, 3, 7, 2]).astype(kind)
    plain = values.astype("f8")
    found = measure(values)
    assert (found.count, float(found.low), float(found.high)) == (6, plain.min(), plain.max())
    assert found.average == pytest.approx(plain.mean())
    assert found.deviation == pytest.approx(plain.std())
    assert found.bins is not None
    assert sum(found.bins.counts) == 6


def test_infinities_count_and_spoil_the_mean_as_in_numpy() -> None:
    found = measure(np.array([1.0, np.inf, 3.0]))
    assert (found.count, found.high, found.average) == (3, np.inf, np.inf)
    assert np.isnan(found.deviation)
    assert np.isnan(found.merge(measure(np.array([-np.inf]))).average)
    assert found.bins is not None
    assert sum(found.bins.counts) == 2
    assert measure(np.array([-np.inf])).average == -np.inf


def test_large_values_next_to_each_other_keep_their_spread() -> None:
    values = 1e15 + np.arange(1000) % 3
    exact = np.std(np.arange(1000) % 3)  # NumPy's result for the large values themselves is wrong in the seventh digit
    assert measure(values).deviation == pytest.approx(exact, rel=1e-9)
    parts = [measure(part) for part in np.split(values, 10)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    assert whole.deviation == pytest.approx(exact, rel=1e-3)  # the means of parts are rounded to eighths


@pytest.mark.parametrize("large", [1e200, -1e308, 1e200 + 1e200j])
def test_squares_beyond_floats_make_an_infinite_deviation(large: Any) -> None:
    found = measure(np.array([large])).merge(measure(np.array([0 * large])))
    assert (found.count, found.average, found.deviation) == (2, large / 2, np.inf)


def test_values_without_numbers() -> None:
    found = measure(np.array(["b", "a", "c"]))
    assert (found.count, found.low, found.high, found.average) == (3, "a", "c", None)
    found = measure(np.array(["b", None, "a"], object))
    assert (found.count, found.missing, found.low, found.high) == (2, 1, "a", "b")
    found = measure(np.array([b"x", b""]))
    assert (found.low, found.high) == (b"", b"x")
    found = measure(np.array([1, "a"], object))
    assert (found.count, found.low) == (2, None)
    found = measure(np.zeros(3, "V4"))
    assert (found.count, found.low) == (3, None)
    times = np.array(["2020-01-03", "NaT", "2020-01-01"], "M8[D]")
    found = measure(times)
    assert (found.count, found.missing) == (2, 1)
    assert (found.low, found.high) == (np.datetime64("2020-01-01"), np.datetime64("2020-01-03"))


def test_complex_numbers_have_a_mean_and_no_order() -> None:
    values = np.array([1 + 1j, 3 - 1j, complex("nan")])
    found = measure(values)
    assert (found.count, found.missing, found.low, found.average) == (2, 1, None, 2 + 0j)
    assert found.deviation == pytest.approx(values[:2].std())


def test_masks_are_missing_too() -> None:
    found = measure(np.array([[1, -9], [-9, 5]], ">i2"), [np.array(-9, ">i2")[()], np.int16(5)])
    assert (found.count, found.missing, found.low, found.high) == (1, 3, 1, 1)
    assert measure(np.array([1.5, np.float32(9.96921e36)], "f4"), [np.float32(9.96921e36)]).high == 1.5
    assert measure(np.array([1, 1]), [np.int64(1)]) == Moments(missing=2)
