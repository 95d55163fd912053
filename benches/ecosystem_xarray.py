"""xarray: opening a data set, loading it, one time series and one map, by engine.

`rows` is for `ecosystem.py`, which times its rows with those of the other integrations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

__all__ = ["rows"]

Row = tuple[str, str, Callable[[], Any]]
_ENGINES = {"tegula": "tegula", "zarr-python": "zarr"}


def prepared(directory: Path, days: int) -> Path:
    """Store hourly values of a few variables on a grid of one degree, in chunks of two days."""
    path = directory / f"hours-{days}.zarr"
    if path.exists():
        return path
    rng = np.random.default_rng(1)
    shape = (24 * days, 90, 180)
    time = np.datetime64("2024-01-01") + np.arange(24 * days).astype("m8[h]").astype("m8[ns]")
    variables = {
        name: (("time", "lat", "lon"), rng.integers(-3, 4, shape).cumsum(axis=0).astype("f4") / 10) for name in "tuv"
    }
    coordinates = {"time": time, "lat": np.arange(90.0), "lon": np.arange(180.0)}
    lz4 = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    encoding: Any = {name: {"chunks": (48, 45, 90), "compressors": [lz4]} for name in variables}
    xr.Dataset(variables, coordinates).to_zarr(path, encoding=encoding, zarr_format=3, consolidated=True)
    return path


def rows(directory: Path, days: int = 60) -> list[Row]:
    """Return what to time, as (operation, contender, function); make the data in `directory` if they are not there."""
    path = prepared(directory, days)
    found: list[Row] = []
    for contender, engine in _ENGINES.items():
        opened = partial(xr.open_dataset, path, engine=engine, chunks=None)
        data = opened()
        operations: dict[str, Callable[[Any, Any], Any]] = {
            "open": lambda opened, _data: opened(),
            "load": lambda opened, _data: opened().load(),
            "time series": lambda _opened, data: data["t"].isel(lat=17, lon=33).values,
            "map": lambda _opened, data: data["t"].isel(time=100).values,
        }
        found += [(f"xarray: {name}", contender, partial(act, opened, data)) for name, act in operations.items()]
    return found
