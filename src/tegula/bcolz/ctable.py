"""``bcolz.ctable``: the table, and its columns."""

from tegula.bcolz.columns import Columns
from tegula.bcolz.ctables import ctable

__all__ = ["ROOTDIRS", "cols", "ctable"]

cols = Columns
ROOTDIRS = "__rootdirs__"
"""The file that holds the names of a table's columns, in order."""
