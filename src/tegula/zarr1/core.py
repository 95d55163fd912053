"""``zarr.core``: the array."""

from tegula.zarr1.arrays import Array

__all__ = ["Array"]
