from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.metadata.rounding import MODES, float_format, round_big_integers, round_to_format, round_to_integers

pytestmark = pytest.mark.once(executors="none")

NAMES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float6_e2m3fn", "float4_e2m1fn"]
DTYPES = [np.dtype("f2"), np.dtype("f4"), *(np.dtype(getattr(ml_dtypes, name)) for name in NAMES)]


def exact(value, quantum, mode):
    """Round to a multiple, using rational numbers."""
    scaled = Fraction(value) / quantum
    floor = scaled.numerator // scaled.denominator
    rest = scaled - floor
    up = {
        "towards-positive": rest > 0,
        "towards-negative": False,
        "towards-zero": rest > 0 and value < 0,
        "nearest-even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1),
        "nearest-away": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and value > 0),
    }[mode]
    return (floor + up) * quantum


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=200)
@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6).map(lambda n: n / 4))
def test_integers(mode, value):
    assert Fraction(float(round_to_integers(np.array([value]), mode)[0])) == exact(value, Fraction(1), mode)


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=200)
@given(value=st.floats(-(2.0**120), 2.0**120), dtype=st.sampled_from(DTYPES))
def test_formats(mode, value, dtype):
    form = float_format(dtype)
    exponent = Fraction(2) ** form.step
    while abs(Fraction(value)) >= exponent * 2**form.precision:
        exponent *= 2
    found = float(round_to_format(np.array([value]), form, mode)[0])
    assert Fraction(found) == exact(value, exponent, mode)
    if abs(found) <= form.largest:
        assert float(np.array(found).astype(dtype)) == found


@settings(deadline=None, max_examples=200)
@given(st.integers(-(2**63), 2**64 - 1))
def test_nearest_even_matches_python(value):
    assert round_big_integers([value], 53, "nearest-even") == [float(value)]


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=100)
@given(value=st.integers(-(2**63), 2**64 - 1), precision=st.sampled_from([11, 24, 53]))
def test_big_integers(mode, value, precision):
    shift = max(abs(value).bit_length() - precision, 0)
    assert Fraction(round_big_integers([value], precision, mode)[0]) == exact(value, Fraction(2**shift), mode)
