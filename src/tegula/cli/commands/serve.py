"""``tegula serve``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tegula.cli.reporting import AsJson, print_json, print_line, print_message
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.server.running import serve as start
from tegula.stores.secrets import redacted

__all__ = ["serve"]

_VIEWERS: Final = {
    "neuroglancer": "https://neuroglancer-demo.appspot.com",
    "vizarr": "https://hms-dbmi.github.io",
    "OME-NGFF validator": "https://ome.github.io",
}
"""Viewers on other sites that read Zarr over HTTP, and the origins of their pages."""


def serve(
    target: Target,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            show_default=False,
            help="The port; 0 for any. [default: the first free one from 8000 on]",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="SECRET",
            envvar="TEGULA_TOKEN",
            show_default=False,
            show_envvar=True,
            help="A secret that each request must have. [default: none on this machine, else a new one]",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            show_default=False,
            help="A web site whose pages may read the data, such as https://example.org, http://localhost:* or * for "
            "all; repeat it for more. [default: none]",
        ),
    ] = None,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show a node and all below it in the browser, and as Zarr v3 over HTTP to any other program.

    Nodes of any format are served, nothing can be written, and nothing outside the node can be read. Only programs on
    this machine can connect unless --host says otherwise; then each request needs a token. Ctrl-C ends it.
    """
    with open_target(target, "r", storage_option) as node:
        origins = tuple(allow_origin or ())
        with start(node, host=host, port=port, token=token, allow_origins=origins, open_browser=open_browser) as server:
            try:
                server.on_refused(_tell_of)  # before others know the address
                if as_json:
                    print_json({"target": redacted(target), "url": server.open_url})
                else:
                    print_line(f"serving {redacted(target)} at {server.open_url}")
                if not origins:
                    typer.echo(_of_viewers(), err=True)
                typer.echo("press Ctrl-C to stop", err=True)
                server.wait()
            except KeyboardInterrupt:
                typer.echo("", err=True)


def _of_viewers() -> str:
    """Return the text that names viewers on other sites, and the option that lets them read."""
    width = max(map(len, _VIEWERS))
    lines = [f"  {name:{width}}  --allow-origin {origin}" for name, origin in _VIEWERS.items()]
    return "\n".join(["pages on other sites may not read it; for a viewer there, say so:", *lines])


def _tell_of(origin: str) -> None:
    print_message("note", f"a page of {origin} may not read; add --allow-origin {origin}")
