"""``bcolz.ctable``: the table and its columns."""

from tegula.bcolz.ctables.columns import Columns
from tegula.bcolz.ctables.ctable import ctable

__all__ = ["ROOTDIRS", "cols", "ctable"]

cols = Columns
ROOTDIRS = "__rootdirs__"
"""Name of the file that lists the columns of a table in order."""
