"""``zarr.version``: the version of tegula."""

from tegula.runtime.version import __version__ as version

__all__ = ["version"]
