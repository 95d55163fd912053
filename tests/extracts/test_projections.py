"""Projections: the element that stands for most along an axis, whatever marks missing ones and however it is packed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.extracts import projections
from tegula.extracts.projections import Projection
from tegula.extracts.windows import window

CASES: list[tuple[str, dict[str, Any]]] = [
    ("u1", {}),
    ("i8", {}),
    ("f4", {}),
    ("?", {}),
    ("M8[s]", {}),
    ("i2", {"_FillValue": -3}),
    ("i2", {"_FillValue": 6, "scale_factor": -0.5, "add_offset": 2.0}),
    ("u2", {"missing_value": 5, "scale_factor": 0.25}),
    ("i1", {"_Unsigned": "true", "_FillValue": -1}),
    ("f8", {"_FillValue": 4.0, "scale_factor": -1.0}),
    ("i4", {"units": "days since 2000-01-01", "_FillValue": 0}),
]


@pytest.mark.parametrize(("dtype", "attributes"), CASES)
@pytest.mark.parametrize("limit", [1, 64, 2**20])
def test_it_is_the_greatest_of_the_decoded_elements(
    dtype: str, attributes: dict[str, Any], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "_BLOCK_BYTES", limit)
    random = np.random.default_rng(1)
    values = random.integers(0 if dtype[0] in "u?" else -6, 2 if dtype == "?" else 7, (5, 6, 7)).astype(dtype)
    values[:, 2, 3] = attributes.get("_FillValue", values[0, 2, 3])  # missing all along the first axis
    if values.dtype.kind == "f":
        values[1:3] = np.nan
    array = tegula.create_array({}, data=values, chunks=(2, 3, 4), attributes=attributes)
    for through, selection in ((0, (slice(1, 5), slice(None), 3)), (2, (slice(None, None, 2), -1, slice(6, 1, -2)))):
        axes = window(array, selection).axes
        whole = window(array, selection, decodes=True).read()
        kept = [axis for axis, indices in enumerate(axes) if isinstance(indices, range)].index(through)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            wanted = np.fmax.reduce(whole, kept)
        top = Projection(array, through, axes[through])  # type: ignore[arg-type]
        rest = (*axes[:through], *axes[through + 1 :])
        part = window(top, rest, 8, decodes=True)
        np.testing.assert_array_equal(np.concatenate([*part.blocks()]), wanted)
        assert part.dtype == wanted.dtype
        stored = window(top, rest).read()
        assert stored.dtype == values.dtype
        assert np.isin(stored.view(f"u{stored.itemsize}"), values.view(f"u{stored.itemsize}")).all()


def test_what_has_no_greatest_element_is_refused() -> None:
    with pytest.raises(tegula.UnsupportedError, match="have no greatest one"):
        Projection(tegula.zeros((2, 3), dtype="c16"), 0, range(2))
    with pytest.raises(tegula.SelectionError, match="no greatest one"):
        Projection(tegula.zeros((2, 3)), 0, range(0))
