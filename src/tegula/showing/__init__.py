"""Nodes of any format, shown as Zarr v3 to programs that know nothing else."""

from tegula.showing.targets import shown
from tegula.showing.view import Zarr3View

__all__ = ["Zarr3View", "shown"]
