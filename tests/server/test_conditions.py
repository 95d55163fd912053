"""Ranges of RFC 9110, section 14, against an independent reading of its grammar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.server.conditions import UnsatisfiableError, matches, precondition, wanted_span

pytestmark = pytest.mark.once(executors="both")

SIZES = st.integers(0, 30)
NUMBERS = st.integers(0, 40)


@given(SIZES, NUMBERS, NUMBERS | st.none())
def test_ranges_from_a_first_byte(size: int, first: int, last: int | None) -> None:
    header = f"bytes={first}-{'' if last is None else last}"
    chosen = [at for at in range(size) if at >= first and (last is None or at <= last)]
    try:
        span = wanted_span(header, size)
    except UnsatisfiableError:
        assert not chosen
        assert first >= size
        return
    if last is not None and last < first:  # not valid, so ignored
        assert span == (0, size, False)
    else:
        assert [*range(span.start, span.stop)] == chosen
        assert span.partial


@given(SIZES, NUMBERS)
def test_a_suffix_range_ends_at_the_last_byte(size: int, length: int) -> None:
    try:
        span = wanted_span(f"bytes=-{length}", size)
    except UnsatisfiableError:
        assert length == 0
        return
    assert bytes(range(size))[slice(*span[:2])] == bytes(range(size))[-length:]


@given(st.text(max_size=30), SIZES)
def test_what_is_not_valid_is_ignored(text: str, size: int) -> None:
    try:
        span = wanted_span(text, size)
    except UnsatisfiableError:
        assert "bytes" in text.lower()
        return
    assert 0 <= span.start <= span.stop <= size
    assert span.partial or span == (0, size, False)


def test_huge_numbers() -> None:
    digits = "9" * 6000  # more than Python converts
    assert wanted_span(f"bytes=0-{digits}", 5) == (0, 5, True)
    assert wanted_span(f"bytes=-{digits}", 5) == (0, 5, True)
    assert wanted_span("bytes=" + "0" * 6000 + "1-2", 5).start in (0, 1)


def test_tags_are_compared_strongly_or_weakly() -> None:
    assert matches('"x", "a"', '"a"', strong=True)
    assert not matches('W/"a"', '"a"', strong=True)
    assert matches('W/"a"', '"a"', strong=False)
    assert matches("*", '"a"', strong=True)
    assert precondition({"if-match": '"b"', "if-none-match": '"a"'}, '"a"') == 412
    assert precondition({"if-match": '"a"', "if-none-match": '"b"'}, '"a"') is None
