"""Following: new rows of arrays and tables, as any process appends them."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.tables.following.follower import Follower, Rows, follow

__all__ = ["Follower", "Rows", "follow"]

_HOMES = {"follower": "Follower Rows follow"}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
