"""The bridge to xarray: the engine ``"tegula"`` of its ``open_`` functions, and `write`.

The engine opens every format that tegula reads. It is registered as an entry point, so programs need no import:

>>> import tegula, xarray as xr
>>> g = tegula.create_group(tegula.MemoryStore())
>>> t = g.create_array("t", data=[280.5, 281.0], dimension_names=["x"], attributes={"units": "K"})
>>> with xr.open_dataset(g, engine="tegula") as ds:
...     ds["t"].dims, float(ds["t"].max()), ds["t"].attrs
(('x',), 281.0, {'units': 'K'})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tegula.xarray.backend import TegulaBackendEntrypoint

if TYPE_CHECKING:
    from tegula.xarray.writing import write

__all__ = ["TegulaBackendEntrypoint", "write"]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import `write` when it is first used: xarray imports this package for every data set that it opens."""
        if name != "write":
            raise AttributeError(f"module 'tegula.xarray' has no attribute {name!r}")
        globals()["write"] = found = import_module("tegula.xarray.writing").write
        return found
