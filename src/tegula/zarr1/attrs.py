"""``zarr.attrs``: the attributes of an array."""

from tegula.zarr1.attributes import Attributes

__all__ = ["Attributes"]
