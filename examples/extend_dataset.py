"""Store a data set of xarray, append to it, fill a region of it, and open it with xarray, lazily.

Run it from the clone, as often as you like; it needs the extras ``xarray`` and ``dask``::

    python examples/extend_dataset.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    <xarray.DataArray 'tas' (time: 60, lat: 19)> Size: 5kB
    dask.array<open_dataset-tas, shape=(60, 19), dtype=float32, chunksize=(10, 19), chunktype=numpy.ndarray>
    Coordinates:
      * time     (time) datetime64[ns] 480B 2024-01-01 2024-01-02 ... 2024-02-29
      * lat      (lat) float64 152B 90.0 80.0 70.0 60.0 ... -60.0 -70.0 -80.0 -90.0
    Attributes:
        units:    degree_Celsius
    at the equator, from 28 January on: [35. 36. 36. 36. 36. 36. 36. 36. 35.]
"""

import sys
from pathlib import Path

import numpy as np
import xarray as xr

import tegula.xarray


def days(first: str, count: int) -> xr.Dataset:
    """Return temperatures of some days on a grid."""
    time = np.datetime64(first, "ns") + np.arange(count).astype("m8[D]")
    latitude = np.linspace(90, -90, 19)
    values = 15 + 20 * np.cos(np.radians(latitude)) - np.zeros((count, 1))
    return xr.Dataset(
        {"tas": (("time", "lat"), values.astype("f4"), {"units": "degree_Celsius"})},
        coords={"time": time, "lat": latitude},
    )


def main(folder: Path) -> None:
    """Write January, append February, correct a week across chunks, and look at it."""
    path = folder / "tas.zarr"
    tegula.xarray.write(days("2024-01-01", 31), path, mode="w", encoding={"tas": {"chunks": (10, 19)}})
    tegula.xarray.write(days("2024-02-01", 29).chunk(time=7), path, append_dim="time")  # dask chunks need not match
    tegula.xarray.write(days("2024-01-29", 7) + 1, path, region="auto")  # found by its coordinates

    found = xr.open_dataset(path, engine="tegula", chunks={})  # xr.open_zarr(path) opens it, too
    print(found["tas"])
    equator = found["tas"].sel(lat=0, time=slice("2024-01-28", "2024-02-05"))
    print(f"at the equator, from 28 January on: {equator.values}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output"))
