"""Nodes of any format, shown as Zarr v3 to programs that know nothing else."""

from tegula.zarr3_view.targets import shown
from tegula.zarr3_view.view import Zarr3View

__all__ = ["Zarr3View", "shown"]
