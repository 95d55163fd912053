"""Conversion between ctables and pandas DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.optional import library

__all__ = ["columns_of_frame", "frame_of_columns"]


def columns_of_frame(frame: Any, names: list[str]) -> list[npt.NDArray[Any]]:
    """Return columns of a DataFrame as arrays: times with a zone in UTC, strings or bytes alone in a fixed length."""
    return [_fixed_length(np.asarray(frame[name].values)) for name in names]


def _fixed_length(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype != object or not len(values):
        return values
    for kind in (str, bytes):
        if all(type(item) is kind for item in values):
            fixed = values.astype(kind)
            # NumPy drops zeros at the end of fixed-length strings: such columns stay Python objects
            return fixed if not any(item[-1:] in ("\0", b"\0") for item in values) else values
    return values


def frame_of_columns(columns: dict[str, npt.NDArray[Any]], labels: Any, orient: str) -> Any:
    """Return a DataFrame with the given columns, or with ``orient="index"`` with the given rows and column labels."""
    labels = labels if orient == "index" else None
    return library("pandas").DataFrame.from_dict(columns, columns=labels, orient=orient)
