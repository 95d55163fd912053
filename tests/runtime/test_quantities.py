"""Sizes as text."""

from __future__ import annotations

import pytest

from tegula.runtime.quantities import human_bytes


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 2**20 - 1, 2**20, 10**12, 2**60, 2**70])
def test_human_bytes(size: int) -> None:
    text = human_bytes(size)
    number, unit = text.split()
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}[unit]
    assert abs(float(number) * factor - size) <= 0.06 * factor
