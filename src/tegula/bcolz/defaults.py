"""``bcolz.defaults``: default values of arguments."""

from tegula.bcolz.parameters import Defaults, defaults, defaults_ctx

__all__ = ["Defaults", "defaults", "defaults_ctx"]
