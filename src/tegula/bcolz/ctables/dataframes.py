"""Conversion between ctables and pandas DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.errors import KindError
from tegula.errors import MetadataError, NotFoundError
from tegula.runtime.optional import library
from tegula.tables.frames import is_pandas

__all__ = ["columns_of_frame", "frame_of_columns"]


def columns_of_frame(frame: Any, names: Any = None) -> tuple[list[Any], list[npt.NDArray[Any]]]:
    """Return names of columns of a DataFrame, all by default, and the columns as arrays.

    Times with a zone are in UTC; columns of strings alone, or of bytes alone, have a fixed length.
    """
    if not is_pandas(frame):
        raise KindError(f"{frame!r:.80} is not a DataFrame", field="df")
    try:
        names = [*(frame.columns if names is None else names)]
        unknown = [name for name in names if name not in frame.columns]
        columns = [frame[name].values for name in names if not unknown]
    except TypeError as error:
        raise KindError(f"names must be a list of names of columns, not {names!r:.80}", field="names") from error
    if unknown:
        raise NotFoundError(f"the DataFrame has no column {unknown[0]!r:.80}")
    return names, [_fixed_length(np.asarray(values)) for values in columns]


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
    # pandas computes only with numbers in the machine's byte order
    native = {name: values.astype(values.dtype.newbyteorder("="), copy=False) for name, values in columns.items()}
    try:
        return library("pandas").DataFrame.from_dict(native, columns=labels, orient=orient)
    except (TypeError, ValueError, AssertionError, NotImplementedError) as error:
        raise MetadataError(f"pandas has no DataFrame for these columns: {error}") from error
