"""Many arrays of four formats, which are one array together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tegula

FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz")


def many_arrays(folder: Path, count: int = 1000) -> tuple[npt.NDArray[Any], list[Path]]:
    """Store arrays of two rows in turn in each format; return the elements of all, and the paths."""
    values = np.random.default_rng(1).integers(0, 10**6, (2 * count, 3), "i4")
    paths = [folder / f"{number}.{FORMATS[number % 4]}" for number in range(count)]
    for number, path in enumerate(paths):
        format = FORMATS[number % 4]
        names = {} if format == "zarr1" else {"dimension_names": ["time", "x"]}
        data = values[2 * number : 2 * number + 2]
        tegula.create_array(path, data=data, format=format, chunks=(2 - number % 2, 3), fill_value=-1, **names)
    return values, paths
