"""``bcolz.version``: the version of tegula."""

from tegula.runtime.version import __version__

__all__ = ["__version__", "version"]

version = __version__
