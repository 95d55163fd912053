"""A server for nodes of any format: as Zarr v3 over HTTP, and as a page that shows them.

`serve` runs it in this process, `app` makes an ASGI application for a server of your own. Both need the extra
``tegula[server]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.runtime.optional import library

if TYPE_CHECKING:
    from tegula.server.running import Server, serve

__all__ = ["Server", "app", "serve"]


def app(
    node: Any, token: str | None = None, *, allow_origins: tuple[str, ...] = (), allow_hosts: tuple[str, ...] = ()
) -> Any:
    """Return an ASGI application that shows a node, and all below it, to a browser and to readers of Zarr v3.

    Nothing can be written through it. The node's store stays open as long as you keep it open.

    Parameters
    ----------
    node : Array, Group or Table
        The node.
    token : str, optional
        A secret that each request must have: as ``?token=``, as ``Authorization: Bearer``, or as the cookie that the
        first answer sets.
    allow_origins : tuple of str
        Origins of web pages on other sites that may read (CORS), as for `serve`.
    allow_hosts : tuple of str
        Host names that requests may use for this server; empty for any.

    Returns
    -------
    callable
        The application.

    Raises
    ------
    UnsupportedError
        If starlette is not installed.

    Examples
    --------
    >>> import asyncio, httpx, tegula, tegula.server
    >>> a = tegula.create_array({}, shape=3, dtype="u1", format="bcolz")
    >>> transport = httpx.ASGITransport(tegula.server.app(a))
    >>> client = httpx.AsyncClient(transport=transport, base_url="http://example.org")
    >>> asyncio.run(client.get("/zarr.json")).json()["shape"]
    [3]
    """
    library("starlette")
    application = library("tegula.server.application")
    return application.Application(node, token, allow_origins=allow_origins, allow_hosts=allow_hosts)


if not TYPE_CHECKING:

    def __getattr__(name):
        """Import the code that runs the server at its first use, since it needs threads and sockets."""
        if name not in ("Server", "serve"):
            raise AttributeError(f"module 'tegula.server' has no attribute {name!r}")
        return getattr(library("tegula.server.running"), name)
