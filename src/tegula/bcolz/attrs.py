"""``bcolz.attrs``: the attributes of carrays and ctables."""

from tegula.bcolz.attributes import attrs

__all__ = ["ATTRSDIR", "attrs"]

ATTRSDIR = "__attrs__"
"""Name of the file that holds the attributes."""
