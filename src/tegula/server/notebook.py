"""The page of a node in a notebook: a frame on a server in the background."""

from __future__ import annotations

import os
import secrets
from html import escape
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tegula.server.running import Server, serve

__all__ = ["View", "view"]

_HEIGHT: Final = 640  # pixels
_servers: dict[tuple[object, str], Server] = {}
"""Servers by the store and the path of their node, so that each node has one, however often its cell runs."""


class View:
    """A node's page, which a notebook shows in a frame; made by the method ``view`` of a node.

    Attributes
    ----------
    server : Server
        The server, in a thread of this process; `Server.close` stops it.
    url : str
        Address of the page for a browser on this machine, with the token that it needs.
    """

    def __init__(self, server: Server, height: int) -> None:
        self.server = server
        self._height = int(height)

    @property
    def url(self) -> str:
        """Address of the page for a browser on this machine, with the token that it needs."""
        return self.server.open_url

    def _repr_html_(self) -> str:
        source = escape(_source(self.server))
        return (
            f'<iframe src="{source}" title="tegula" width="100%" height="{self._height}" '
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
    >>> shown._repr_html_()[:13]
    '<iframe src="'
    >>> shown.server.close()
    """
    key = (node.store.identity, node.path)
    server = _servers.get(key)
    if server is None or not server.is_running:
        # other users of this machine can connect, too, and a proxy hides which host name the browser used
        server = _servers[key] = serve(node, port=0, token=secrets.token_urlsafe(24), allow_origins=())
    return View(server, height)
