"""Arrays: the class `Array`, its attributes, and the creation of arrays."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.arrays.creation import new_array, new_format, new_group
    from tegula.arrays.filling import CREATION
    from tegula.arrays.keywords import check_keywords

__all__ = ["CREATION", "check_keywords", "new_array", "new_format", "new_group"]

_HOMES = {
    "creation": "new_array new_format new_group",
    "filling": "CREATION",
    "keywords": "check_keywords",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
