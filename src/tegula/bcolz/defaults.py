"""``bcolz.defaults``: what is taken where an argument is not given."""

from tegula.bcolz.parameters import Defaults, defaults, defaults_ctx

__all__ = ["Defaults", "defaults", "defaults_ctx"]
