"""Views: selections of arrays, and arrays made of arrays, which read and write when they are asked for elements."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.views.joined import join
    from tegula.views.view import View

__all__ = ["View", "join"]

_HOMES = {"joined": "join", "view": "View"}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
