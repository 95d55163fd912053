"""Reduced precision: rounded fractions, packed values and other types, as NumPy has them, and their errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numcodecs.bitround import BitRound

from tegula.errors import CodecError
from tegula.metadata.data_types import as_data_type
from tegula.reductions.precision import Loss, Precision, rounded

pytestmark = pytest.mark.once(executors="none")

RNG = np.random.default_rng(1)


# --- rounding of fractions


@settings(max_examples=200)
@given(st.data(), st.sampled_from(["f2", "f4", "f8", ">f4"]))
def test_fractions_are_rounded_as_numcodecs_does(data: Any, dtype: str) -> None:
    values = data.draw(npst.arrays(np.dtype(dtype), 20, elements=npst.from_dtype(np.dtype(dtype), allow_nan=False)))
    keepbits = data.draw(st.integers(0, np.finfo(dtype).nmant))
    found = rounded(values, keepbits)
    expected = np.asarray(BitRound(keepbits).encode(values.astype(values.dtype.newbyteorder("=")))).view(
        np.dtype(dtype).newbyteorder("=")
    )
    usual = np.isfinite(values)  # numcodecs lets infinities round to something else
    assert found.dtype == values.dtype
    assert found[usual].astype(expected.dtype).tobytes() == expected[usual].tobytes()
    assert found[~usual].tobytes() == values[~usual].tobytes()


def test_nan_keeps_its_bits() -> None:
    values = np.array([0x7FFFFFFF, 0x7FC00000, 0xFFC00001, 0x7F800000], "u4").view("f4")
    for keepbits in range(24):
        assert rounded(values, keepbits).tobytes() == values.tobytes()


@given(
    npst.arrays(np.float64, npst.array_shapes(max_dims=2, max_side=6), elements=st.floats(-100, 100)),
    st.sampled_from(["i2", "u1", "i4", "i8", "f4"]),
)
def test_packing_equals_numpys(values: np.ndarray[Any, Any], dtype: str) -> None:
    scale, offset = (1.0, -100.0) if dtype == "u1" else (0.5, 3.0)
    precision = Precision(as_data_type(dtype), packing=(scale, offset))
    found, loss = precision.apply(values, (0,) * values.ndim)
    expected = (values - offset) / scale
    np.testing.assert_array_equal(found, (np.rint(expected) if dtype != "f4" else expected).astype(dtype))
    error = np.abs(found.astype("f8") * scale + offset - values)
    assert loss.absolute == error.max()
    nonzero = values != 0
    assert loss.relative == (error[nonzero] / np.abs(values[nonzero])).max(initial=0)


TYPES = ["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8"]


@settings(max_examples=300)
@given(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_values_that_fit_are_rounded_and_others_are_errors(data: Any, old: str, new: str) -> None:
    small = st.integers(0, 1) if old == "?" else npst.from_dtype(np.dtype(old))
    values = data.draw(npst.arrays(np.dtype(old), 4, elements=small))
    if np.dtype(new).kind == "f":
        with np.errstate(all="ignore"):
            expected = values.astype(new)
        good = np.isfinite(expected) | ~np.isfinite(values)
    else:
        exact = [None if not np.isfinite(value) else round(value.item()) for value in values]
        low, high = (0, 1) if new == "?" else (np.iinfo(new).min, np.iinfo(new).max)
        good = np.array([value is not None and low <= value <= high for value in exact])
        expected = np.array([value if fits else 0 for value, fits in zip(exact, good)], dtype=object).astype(new)
    precision = Precision(as_data_type(new))
    if good.all():
        found, _ = precision.apply(values, (0,))
        assert found.dtype == np.dtype(new)
        np.testing.assert_array_equal(found, expected)
    else:
        places = "|".join(str(place + 7) for place in np.flatnonzero(~good))
        with pytest.raises(CodecError, match=rf" at \[({places})\] is "):
            precision.apply(values, (7,))


@pytest.mark.parametrize("old", ["f2", "f4", "f8"])
@pytest.mark.parametrize("new", ["?", "i1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_no_integer_stands_for_infinities_and_nan(old: str, new: str, value: float) -> None:
    with pytest.raises(CodecError, match=r" at \[8\] is "):
        Precision(as_data_type(new)).apply(np.array([1, value], old), (7,))


def test_losses_merge_and_precisions_pickle() -> None:
    values = RNG.normal(size=(50, 40))
    precision = Precision(as_data_type("i2"), packing=(0.01, 0.5), missing=np.array(-(2**15), "i2"))
    whole, loss = pickle.loads(pickle.dumps(precision)).apply(values, (0, 0))
    parts = [precision.apply(values[rows], (rows.start, 0)) for rows in (slice(0, 7), slice(7, 50))]
    assert parts[0][1].merge(parts[1][1]) == parts[1][1].merge(parts[0][1]) == loss
    assert np.concatenate([part for part, _ in parts]).tobytes() == whole.tobytes()
    assert Loss().merge(loss) == loss
