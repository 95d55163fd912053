"""Histograms of parts merge into exactly that of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from tegula.reductions.moments import bins_of

pytestmark = pytest.mark.once(executors="none")

FLOATS = nps.arrays("f8", st.integers(1, 40), elements=st.floats(allow_nan=False, allow_infinity=False))
INTS = nps.arrays("i8", st.integers(1, 40), elements=st.integers(-(2**63), 2**63 - 1))
WORDS = nps.arrays("u8", st.integers(1, 40), elements=st.integers(0, 2**64 - 1))


@pytest.mark.filterwarnings("error")
@given(st.one_of(FLOATS, INTS, WORDS), st.randoms())
def test_parts_in_any_order_make_the_whole(values: Any, random: Any) -> None:
    whole = bins_of(values)
    assert len(whole.counts) <= 32
    assert sum(whole.counts) == values.size
    cut = random.randint(0, values.size)
    parts = [part for part in (values[:cut], values[cut:]) if part.size]
    random.shuffle(parts)
    found = bins_of(parts[0])
    for part in parts[1:]:
        found = found.merge(bins_of(part))
    assert found == whole


@given(st.one_of(INTS, WORDS, nps.arrays("f8", 30, elements=st.floats(-1e9, 1e9))))
def test_counts_are_those_between_the_edges(values: Any) -> None:
    bins = bins_of(values)
    edges = bins.edges()
    plain = values.tolist()
    for place, count in enumerate(bins.counts):
        assert count == sum(edges[place] <= value < edges[place + 1] for value in plain)


def test_edges_are_round_and_bins_as_fine_as_32_allow() -> None:
    bins = bins_of(np.linspace(0, 100, 1001))
    assert (bins.exponent, len(bins.counts)) == (2, 26)
    assert bins.edges()[:3] == (0, 4, 8)
    assert bins_of(np.array([5])).counts == (1,)
    assert bins_of(np.array([0.1, 0.1])).counts == (2,)
