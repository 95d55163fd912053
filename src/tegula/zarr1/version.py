"""``zarr.version``: the version of tegula."""

from tegula import __version__ as version

__all__ = ["version"]
