"""``bcolz.version``: the version of tegula."""

from tegula import __version__

__all__ = ["__version__", "version"]

version = __version__
