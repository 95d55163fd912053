"""The page of a node in a notebook: a frame on a server in the background."""

from __future__ import annotations

import os
import secrets
from html import escape
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tegula.errors import TegulaError
from tegula.hierarchy.group import Group
from tegula.hierarchy.nodes import open_node
from tegula.hierarchy.opening import open_stored
from tegula.server.running import Server, serve

__all__ = ["View", "view"]

_HEIGHT: Final = 640  # pixels
_servers: dict[tuple[object, str], Server] = {}
"""Servers by the store and the path of what they serve, so that there is one, however often a cell runs."""

_DARK: Final = ('body[data-jp-theme-light="false"]', 'html[data-theme="dark"]', "body.vscode-dark")
_LIGHT: Final = ('body[data-jp-theme-light="true"]', 'html[data-theme="light"]', "body.vscode-light")


def _rule(roots: tuple[str, ...], scheme: str) -> str:
    return f"{','.join(f'{root} .tegula-view' for root in roots)}{{color-scheme:{scheme}}}"


_THEMES: Final = f"<style>{_rule(_DARK, 'dark')}{_rule(_LIGHT, 'light')}</style>"
"""The page in a frame asks for the scheme of the frame, and notebooks have themes of their own beside the system's."""


class View:
    """A node's page, which a notebook shows in a frame; made by the method ``view`` of a node.

    Attributes
    ----------
    server : Server
        The server, in a thread of this process; `Server.close` stops it.
    url : str
        Address of the page for a browser on this machine, with the token that it needs.
    """

    def __init__(self, server: Server, path: str, height: int) -> None:
        self.server = server
        self._path = path
        self._height = int(height)

    @property
    def url(self) -> str:
        """Address of the page for a browser on this machine, with the token that it needs."""
        return self.server.open_url + self._fragment

    @property
    def _fragment(self) -> str:
        """The part of the address by which the page opens the node, if that is not all that is served."""
        return f"#/{quote(self._path)}" if self._path else ""

    def _repr_html_(self) -> str:
        source = escape(_source(self.server) + self._fragment)
        return (
            f'{_THEMES}<iframe class="tegula-view" src="{source}" title="tegula" width="100%" height="{self._height}" '
            'style="border: 1px solid #8884; border-radius: 4px" allow="clipboard-write"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<tegula.View of {self.server.url}>"


def _source(server: Server) -> str:
    """Return the address for a frame: through jupyter-server-proxy if that is installed.

    The browser may run on another machine than the notebook's server, which then forwards its requests.
    """
    if find_spec("jupyter_server_proxy") is None:
        return server.open_url
    base = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
    return f"{base.rstrip('/')}/proxy/{urlsplit(server.url).port}/?token={quote(server.token or '', safe='')}"


def view(node: Any, height: int = _HEIGHT) -> View:
    """Return a node's page for a notebook; the server starts with the first page and is reused.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="u1")
    >>> shown = view(a, height=400)
    >>> 'height="400"' in shown._repr_html_()
    True
    >>> shown.server.close()
    """
    if hasattr(type(node), "as_store"):  # a view of arrays
        node = open_stored(node)
    root = _root(node)
    key = (root.store.identity, root.path)
    server = _servers.get(key)
    if server is None or not server.is_running:
        # other users of this machine can connect, too, and a proxy hides which host name the browser used
        server = _servers[key] = serve(root, port=0, token=secrets.token_urlsafe(24), allow_origins=())
    return View(server, node.path.removeprefix(root.path).strip("/"), height)


def _root(node: Any) -> Any:
    """Return the outermost group that a node is a member of: the arrays there may be the coordinates of its axes.

    A prefix without a document counts only directly above the node, since a directory of many data sets is one, too.
    """
    root, path = node, node.path
    while path:
        path = path.rpartition("/")[0]
        try:
            above = open_node(node.store, path, read_only=True, allow_pickle=node.allow_pickle)
        except TegulaError:
            break
        if not isinstance(above, Group) or (root is not node and not above.metadata.documents):
            break
        root = above
    return root
