"""Which byte ranges of one value share a request."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tegula.stores.spans import spans_of


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), max_size=30),
    st.integers(0, 20),
    st.integers(1, 100),
)
def test_spans_hold_each_range_once_and_waste_little(ranges: list[Any], gap: int, longest: int) -> None:
    bounds = [(start, start + length) for start, length in ranges]
    spans = spans_of(bounds, gap, longest)
    placed = sorted(place for span in spans for place, _, _ in span.ranges)
    assert placed == [place for place, (start, stop) in enumerate(bounds) if start < stop]
    for span in spans:
        assert span.start == min(start for _, start, _ in span.ranges)
        assert span.stop == max(stop for _, _, stop in span.ranges)
        assert len(span.ranges) == 1 or span.stop - span.start <= longest
        covered = sorted((start, stop) for _, start, stop in span.ranges)
        reach = span.start
        for start, stop in covered:
            assert start - reach <= gap
            reach = max(reach, stop)
