"""Tables: arrays of equal length as columns, queried by expressions."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.tables.table import Table

__all__ = ["Table"]

_HOMES = {"table": "Table"}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
