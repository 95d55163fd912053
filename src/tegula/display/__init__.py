"""The display of nodes: facts, trees, drawings of chunk grids, HTML. It knows metadata, but no stores."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.display.info import Info, array_info, group_info, table_info
    from tegula.display.markup import shorten
    from tegula.display.notebook import array_html, attributes_html, group_html, table_html, view_html
    from tegula.display.tree import Tree, group_tree

__all__ = [
    "Info",
    "Tree",
    "array_html",
    "array_info",
    "attributes_html",
    "group_html",
    "group_info",
    "group_tree",
    "shorten",
    "table_html",
    "table_info",
    "view_html",
]

_HOMES = {
    "info": "Info array_info group_info table_info",
    "markup": "shorten",
    "notebook": "array_html attributes_html group_html table_html view_html",
    "tree": "Tree group_tree",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
