"""What tests of jobs share."""

from __future__ import annotations

import pytest

from tegula.jobs import units


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit is one chunk."""
    monkeypatch.setattr(units, "BLOCK_BYTES", 1)
