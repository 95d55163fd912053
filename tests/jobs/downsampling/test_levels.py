"""Levels of pyramids: what can be reduced."""

from __future__ import annotations

import numpy as np
import pytest

from tegula.errors import UnsupportedError
from tegula.jobs.downsampling.levels import check_method

pytestmark = pytest.mark.once(executors="none")


def test_only_numbers_and_times_have_a_mean() -> None:
    check_method("mean", np.dtype("M8[s]"))
    for dtype in ("U3", "S2", "V4", object, "u1,f8"):
        with pytest.raises(UnsupportedError, match="have no mean"):
            check_method("mean", np.dtype(dtype))
