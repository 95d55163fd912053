"""The display of nodes: facts, trees, drawings of chunk grids, HTML. It knows metadata, but no stores."""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.display.info import Info, group_info, node_info
    from tegula.display.markup import shorten
    from tegula.display.notebook import attributes_html, node_html, view_html
    from tegula.display.tree import Tree, group_tree

__all__ = [
    "Info",
    "Tree",
    "attributes_html",
    "group_info",
    "group_tree",
    "node_html",
    "node_info",
    "shorten",
    "view_html",
]

_HOMES = {
    "info": "Info group_info node_info",
    "markup": "shorten",
    "notebook": "attributes_html node_html view_html",
    "tree": "Tree group_tree",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
