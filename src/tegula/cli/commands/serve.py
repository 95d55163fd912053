"""``tegula serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.cli.reporting import AsJson, print_json, print_line
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.server.running import serve as start
from tegula.stores.secrets import redacted

__all__ = ["serve"]


def serve(
    target: Target,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, show_default=False, help="The port; 0 for any. [default: the first free one from 8000 on]"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
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
            help="The only web site whose pages may read the data, such as https://example.org; repeat it for more. "
            "[default: all, so that viewers on other sites work]",
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
        origins = ("*",) if allow_origin is None else tuple(allow_origin)
        with start(node, host=host, port=port, token=token, allow_origins=origins, open_browser=open_browser) as server:
            try:
                if as_json:
                    print_json({"target": redacted(target), "url": server.open_url})
                else:
                    print_line(f"serving {redacted(target)} at {server.open_url}")
                typer.echo("press Ctrl-C to stop", err=True)
                server.wait()
            except KeyboardInterrupt:
                typer.echo("", err=True)
