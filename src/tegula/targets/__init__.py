"""Targets: paths, URLs, mappings and stores that users pass, and the formats that names and files imply."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.targets.foreign import refuse_foreign
    from tegula.targets.suffixes import new_format

__all__ = ["new_format", "refuse_foreign"]

_HOMES = {"foreign": "refuse_foreign", "suffixes": "new_format"}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
