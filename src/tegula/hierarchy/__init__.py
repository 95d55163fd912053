"""The hierarchy: groups, and opening, creating, copying and saving nodes by target."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.hierarchy.group import Group
    from tegula.hierarchy.nodes import group_at

__all__ = ["Group", "group_at"]

_HOMES = {"group": "Group", "nodes": "group_at"}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
