"""``zarr.creation``: functions that create and open arrays."""

from tegula.zarr1.creating import array, create, empty, full, ones, open, zeros
from tegula.zarr1.like import empty_like, full_like, ones_like, open_like, zeros_like

__all__ = [
    "array",
    "create",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "open",
    "open_like",
    "zeros",
    "zeros_like",
]
