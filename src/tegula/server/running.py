"""A server in this process: its thread, the address it listens on, and its end."""

from __future__ import annotations

import atexit
import re
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import Node
from tegula.errors import MetadataError, StoreError, UnsupportedError, brief
from tegula.hierarchy.opening import open_stored as open_node
from tegula.runtime import optional
from tegula.server.guard import LOOPBACK, origin_rules
from tegula.stores.targets.opening import check_options
from tegula.stores.targets.paths import clean

if TYPE_CHECKING:
    from tegula.arrays.arguments import SourceLike

__all__ = ["Server", "serve"]

_MOST_CONNECTIONS: Final = 512
_KEEP_ALIVE: Final = 15  # seconds
_PORTS: Final = range(8000, 8100)  # to try if no port is given
_PATIENCE: Final = 20.0  # seconds for a server to start, or to end
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+").fullmatch
_LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class Server:
    """A server that runs in a thread; made by `tegula.serve`.

    Attributes
    ----------
    url : str
        The address of the server, without the token.
    token : str or None
        The secret that each request must have.

    Examples
    --------
    >>> import urllib.request, tegula
    >>> a = tegula.create_array({}, shape=3, dtype="u1")
    >>> with tegula.serve(a, port=0) as server:
    ...     urllib.request.urlopen(f"{server.url}/zarr.json").status
    200
    """

    def __init__(self, node: Any, sock: socket.socket, host: str, token: str | None, origins: tuple[str, ...]) -> None:
        uvicorn = optional.library("uvicorn")
        server = optional.library("tegula.server")
        connections = optional.library("tegula.server.connections")
        self.token = token
        port = sock.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        hosts = LOOPBACK if token is None else ()
        self._application = server.app(node, token, allow_origins=origins, allow_hosts=hosts)
        config = uvicorn.Config(
            self._application,
            http=connections.Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            interface="asgi3",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._socket = sock
        self._node = node
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tegula server", daemon=True)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:  # noqa: BLE001 - raised by `start`
            self._error = error

    def start(self) -> None:
        """Start the thread, and wait until the server answers.

        Raises
        ------
        StoreError
            If it can't be started.
        """
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(_PATIENCE / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        if not self._server.started:
            self.close()
            raise StoreError(f"the server could not be started: {self._error or 'it gave no reason'}")
        atexit.register(self.close)

    @property
    def open_url(self) -> str:
        """The URL to open in a browser, with the token."""
        return f"{self.url}/" + (f"?token={quote(self.token, safe='')}" if self.token is not None else "")

    def on_refused(self, tell: Callable[[str], None]) -> None:
        """Call a function once with each origin whose pages ask for data that they may not read."""
        self._application.refused = tell

    @property
    def is_running(self) -> bool:
        """Whether it answers requests."""
        return self._thread.is_alive() and not self._server.should_exit

    def wait(self) -> None:
        """Wait until the server has ended; Ctrl-C ends it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server, after up to two seconds for pending responses; closing again does nothing."""
        self._server.should_exit = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        self._socket.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tegula.Server {self.url}{'' if self.is_running else ' (closed)'}>"


@known_keywords
def serve(
    target: SourceLike,
    *,
    path: str = "",
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    allow_origins: tuple[str, ...] = (),
    open_browser: bool = False,
    block: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Server:
    """Show a node of any format in the browser, and as Zarr v3 over HTTP to any other program.

    The server is read-only and runs in a thread of this process, until it is closed or the process ends.

    Parameters
    ----------
    target : str, path, mapping, Store, Array, Group or Table
        The node to show: anything that `tegula.open` opens, or an open node.
    path : str
        Path of the node in `target`.
    host : str
        The address to listen on. By default only programs on this machine can connect.
    port : int, optional
        The port; 0 for any free one. By default the first free one from 8000 on.
    token : str, optional
        A secret that each request must have. One is generated unless only this machine can reach `host`.
    allow_origins : tuple of str
        Origins of web pages on other sites that may read (CORS), such as ``https://example.org``; a viewer on another
        site works only if it is among them. ``"http://localhost:*"`` stands for any port, ``"*"`` for all origins.
    open_browser : bool
        Open the page in the browser.
    block : bool
        Return only when the server has ended, for example by Ctrl-C.
    storage_options : mapping, optional
        Settings of the storage that a URL names; see `tegula.store_of`.

    Returns
    -------
    Server
        The server, with its `url`; use it in a ``with`` statement, or call `Server.close`.

    Raises
    ------
    NotFoundError
        If there is no such node.
    UnsupportedError
        If starlette or uvicorn are not installed.
    MetadataError
        If an origin, the port or the token is not valid.
    StoreError
        If the port is taken.

    Examples
    --------
    >>> import json, urllib.request, tegula
    >>> old = tegula.create_array({}, shape=3, dtype="i4", format="bcolz")
    >>> with tegula.serve(old, port=0) as server:
    ...     document = json.load(urllib.request.urlopen(f"{server.url}/zarr.json"))
    >>> document["zarr_format"], document["shape"]
    (3, [3])
    """
    for name in ("starlette", "uvicorn"):
        reason = optional.import_failure(name)
        if reason is not None:
            raise UnsupportedError(f"{reason}, or {optional.tegula_command('server')}")
    if isinstance(target, Node):
        check_options(target, storage_options)
        below = clean(path)  # relative to the node, where a name that begins with "/" would not be
        node: Any = target[below] if below else target  # type: ignore[index]  # an array has fields at most
    else:
        node = open_node(target, path=path, storage_options=storage_options)
    if not isinstance(host, str):
        raise MetadataError(f"host must be text, not {brief(host)}", field="host")
    is_local = host in _LOCAL_NAMES
    if token is not None and not _TOKEN(token):
        raise MetadataError("a token consists of ASCII letters, digits and ._~+/=-", field="token")
    origin_rules(allow_origins)  # raises the error before a port is taken
    if token is None and not is_local:
        token = secrets.token_urlsafe(24)
    server = Server(node, _listen(host, port), host, token, allow_origins)
    server.start()
    if open_browser:
        webbrowser.open(server.open_url)
    if block:
        server.wait()
    return server


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that is bound to the port, or to the first free one."""
    if port is not None and not 0 <= port <= 65535:
        raise MetadataError(f"the port must be between 0 and 65535, not {port}", field="port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # an empty name would mean all addresses of this machine, and an unknown one does not depend on the port
        address: Any = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not the name of a machine"
        raise StoreError(f"can't listen on {host!r:.80}: {reason}; pass an address of this machine as host") from error
    failure: OSError | None = None
    for number in [port] if port is not None else [*_PORTS, 0]:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address[0], number, *address[2:]))
            sock.listen(1024)  # two sockets of one port are told apart here
        except OSError as error:
            sock.close()
            failure = error
            continue
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        return sock
    where = host if port is None else f"{host}, port {port}"
    raise StoreError(f"can't listen on {where}: {failure and failure.strerror}") from failure
