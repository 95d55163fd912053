"""Reducing blocks: compared with NumPy on each block."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tegula.metadata.data_types import as_data_type
from tegula.reductions import blocks
from tegula.reductions.blocks import Reduction

pytestmark = pytest.mark.once(executors="none")

Values = np.ndarray[Any, Any]


def reduced(values: Any, factors: Any, method: str, masks: Any = ()) -> Any:
    return Reduction(tuple(factors), method, tuple(masks)).of(values)


def by_hand(values: Values, factors: tuple[int, ...], work: Any) -> Values:
    shape = [-(-size // factor) for size, factor in zip(values.shape, factors)]
    out = np.empty(shape, values.dtype)
    for place in np.ndindex(*shape):
        out[place] = work(values[tuple(slice(n * f, (n + 1) * f) for n, f in zip(place, factors))].reshape(-1))
    return out


def exact_mean(cells: Values) -> Any:
    """Round to the nearest integer, ties to even, as Python does."""
    return round(Fraction(sum(map(int, cells.tolist())), len(cells)))


def most_frequent(cells: Values) -> Any:
    found, counts = np.unique(cells, return_counts=True)
    return found[counts.argmax()]


SHAPES = npst.array_shapes(max_dims=3, max_side=7)
FACTORS = st.tuples(*[st.integers(1, 4)] * 3)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(["?", "u1", ">i2", "i8", "u8"]), SHAPES, FACTORS)
def test_means_of_integers_are_exact(data: Any, dtype: str, shape: tuple[int, ...], factors: Any) -> None:
    values = data.draw(npst.arrays(np.dtype(dtype), shape))
    factors = factors[: len(shape)]
    expected = by_hand(values, factors, exact_mean)
    found = reduced(values, factors, "mean")
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(["f2", "f4", ">f8", "c8", "c16"]), SHAPES, FACTORS)
def test_means_of_floats_leave_out_missing_values(data: Any, dtype: str, shape: tuple[int, ...], factors: Any) -> None:
    small = st.sampled_from([0.0, 1.5, -2.25, 1024.0, np.nan, 0.1, 3.0])
    values = data.draw(npst.arrays(np.dtype("f8"), shape, elements=small)).astype(dtype)
    factors = factors[: len(shape)]

    def mean(cells: Values) -> Any:
        kept = cells[~np.isnan(cells)].astype("c16")
        return np.nan if not kept.size else complex(kept.mean()) if dtype[0] == "c" else kept.real.mean()

    found, expected = reduced(values, factors, "mean"), by_hand(values, factors, mean)
    digits = max(1e-14, float(np.finfo(values.dtype).eps))
    np.testing.assert_allclose(found, expected, rtol=digits, atol=1e-13)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(["?", "u1", "i8", "f4", "c16", "U2", "S2", "M8[s]", "f8"]), SHAPES, FACTORS)
def test_modes_take_the_smallest_of_the_most_frequent(
    data: Any, dtype: str, shape: tuple[int, ...], factors: Any
) -> None:
    numbers = data.draw(npst.arrays(np.dtype("i8"), shape, elements=st.integers(0, 4)))
    values = numbers.astype("U2").astype(dtype) if dtype[0] in "US" else numbers.astype(dtype)
    factors = factors[: len(shape)]
    np.testing.assert_array_equal(reduced(values, factors, "mode"), by_hand(values, factors, most_frequent))


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["u1", "i8", "f4", "c16", "M8[s]", "U2"]), SHAPES, FACTORS)
def test_modes_leave_out_missing_values(data: Any, dtype: str, shape: tuple[int, ...], factors: Any) -> None:
    numbers = data.draw(npst.arrays(np.dtype("i8"), shape, elements=st.integers(0, 4)))
    values = numbers.astype("U2").astype(dtype) if dtype == "U2" else numbers.astype(dtype)
    mask = np.asarray(2).astype("U2" if dtype == "U2" else dtype).astype(dtype)[()]
    factors = factors[: len(shape)]

    def mode(cells: Values) -> Any:
        kept = cells[cells != mask]
        return most_frequent(kept) if kept.size else mask

    np.testing.assert_array_equal(reduced(values, factors, "mode", [mask]), by_hand(values, factors, mode))


@given(
    st.data(), st.sampled_from(["u1", "i2", "i8", "u8", "?"]), SHAPES, FACTORS, st.lists(st.integers(0, 1), max_size=2)
)
def test_means_of_integers_leave_out_masks(
    data: Any, dtype: str, shape: tuple[int, ...], factors: Any, masks: list[int]
) -> None:
    values = data.draw(npst.arrays(np.dtype(dtype), shape))
    marks = [np.dtype(dtype).type(mask) for mask in masks]
    factors = factors[: len(shape)]

    def mean(cells: Values) -> Any:
        kept = cells[~np.isin(cells, marks)]
        return exact_mean(kept) if kept.size else marks[0]

    np.testing.assert_array_equal(reduced(values, factors, "mean", marks), by_hand(values, factors, mean))


@given(st.data(), st.sampled_from(["u1", "M8[s]", "O"]), SHAPES, FACTORS)
def test_nearest_takes_the_first(data: Any, dtype: str, shape: tuple[int, ...], factors: Any) -> None:
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    factors = factors[: len(shape)]
    np.testing.assert_array_equal(
        reduced(values, factors, "nearest"), values[tuple(slice(None, None, factor) for factor in factors)]
    )


def test_times() -> None:
    days = np.array(["2020-01-01", "2020-01-04", "NaT", "NaT", "1960-01-01", "NaT"], "M8[D]")
    found = reduced(days, (2,), "mean")
    assert [str(day) for day in found] == ["2020-01-03", "NaT", "1960-01-01"]
    assert reduced(np.array([5, 8], "m8[s]"), (2,), "mean")[0] == np.timedelta64(6, "s")
    days[0] = "NaT"
    assert str(reduced(days, (6,), "mode")[0]) == "1960-01-01"


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_means_near_the_largest_number_do_not_overflow(dtype: str) -> None:
    largest = np.finfo(dtype).max
    values = np.array([largest, largest, largest, -largest, np.inf, 1, largest, np.nan], dtype)
    found = reduced(values, (2,), "mean")
    np.testing.assert_allclose(found[[0, 1, 3]], np.array([largest, 0, largest], dtype))
    assert np.isinf(found[2])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "uint2"])
def test_types_of_ml_dtypes(name: str) -> None:
    dtype = as_data_type(name).numpy
    values = np.array([1, 3, 0, 1, 1, 1]).astype("i1").astype(dtype)
    assert reduced(values, (2,), "mean").astype("f8").tolist()[0] == 2
    assert reduced(values, (6,), "mode").astype("f8").tolist() == [1]
    if "float" in name:
        values = np.array([np.nan, 3, np.nan, np.nan]).astype(dtype)
        assert str(reduced(values, (2,), "mean").astype("f8").tolist()) == "[3.0, nan]"


def test_objects_and_records() -> None:
    values = np.array(["b", "a", "a", "b", "c", "c"], object)
    assert reduced(values, (4,), "mode").tolist() == ["a", "c"]
    records = np.array([(1, 2.0), (3, 4.0), (1, 2.0)], "u1,f8")
    assert reduced(records, (3,), "mode").tolist() == [(1, 2.0)]


def test_long_blocks_and_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, (40, 33)).astype("f8")
    values[rng.random(values.shape) < 0.2] = np.nan
    for factors in ((10, 9), (1, 33), (40, 33)):
        whole = {method: reduced(values, factors, method) for method in ("mean", "mode")}
        kept = by_hand(values, factors, lambda cells: most_frequent(cells[~np.isnan(cells)]))
        np.testing.assert_array_equal(whole["mode"], kept)
        for cells in (1, 100, 700):
            monkeypatch.setattr(blocks, "_CELLS", cells)
            for method, expected in whole.items():
                assert reduced(values, factors, method).tobytes() == expected.tobytes()


def test_every_dtype_and_method_has_a_result_of_its_dtype() -> None:
    for dtype, method in product(["?", ">u2", "f2", ">c8", "M8[s]"], ["mean", "mode", "nearest"]):
        assert reduced(np.zeros((5, 3), dtype), (2, 2), method).dtype == np.dtype(dtype)
