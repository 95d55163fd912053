"""``zarr.version``: the version, which is that of tegula."""

from tegula import __version__ as version

__all__ = ["version"]
