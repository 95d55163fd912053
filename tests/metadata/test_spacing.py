"""Where elements lie: what attributes state, and what they state of levels of a pyramid."""

import time

import pytest

from tegula.metadata.spacing import units_steps

pytestmark = pytest.mark.once(executors="none")


@pytest.mark.parametrize(
    ("text", "length", "unit"),
    [
        ("4 nm", 4, "nm"), (".5 nm", 0.5, "nm"), ("4 nm ", 4, "nm"), ("\t2.e1nm", 20, "nm"), ("4 1/cm", 4, "1/cm"),
        ("+3", 3, ""), ("", 1, ""), ("nm", 1, "nm"), ("e5 m", 1, "e5 m"), ("1e400 nm", 1, "1e400 nm"),
    ],
)  # fmt: skip
def test_units_are_read_as_tensorstore_reads_them(text: str, length: float, unit: str) -> None:
    ts = pytest.importorskip("tensorstore")
    assert units_steps([text], 1) == ((length, unit, 0),)
    assert ts.Unit(text) == ts.Unit(length, unit)


@pytest.mark.parametrize("text", ["-4 nm", "0 nm", "0", "-0.0"])
def test_distances_are_positive(text: str) -> None:
    assert not units_steps([text, "4 nm"], 2)


@pytest.mark.parametrize("text", [" " * 400_000 + "\n1\n1", "1" * 400_000 + "\n", "1e" * 200_000, "." * 400_000])
def test_long_texts_take_no_time(text: str) -> None:
    started = time.process_time()
    units_steps([text], 1)
    assert time.process_time() - started < 1
