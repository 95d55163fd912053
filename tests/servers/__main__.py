"""Start all servers for trials by hand, and say how to reach them, until Ctrl+C or the end of the input."""

import argparse
import shlex
import sys
from contextlib import ExitStack, suppress

from tests.servers.azurite import Azurite
from tests.servers.gcs import Gcs
from tests.servers.moto import Moto
from tests.servers.proxy import Proxy
from tests.servers.rclone import Rclone
from tests.servers.static import StaticServer
from tests.servers.tools import Missing


def main() -> None:
    """Start the servers and wait."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds that each request waits")
    parser.add_argument("--bandwidth", type=float, default=0.0, help="megabytes a second for each answer; 0: no limit")
    arguments = parser.parse_args()
    slow = {"latency": arguments.latency / 1e3, "stream_bandwidth": arguments.bandwidth * 1e6}
    with ExitStack() as running:
        for make in (Moto, Rclone, Gcs, Azurite, StaticServer):
            try:
                server = running.enter_context(make())
            except Missing as missing:
                print(f"\n# {missing}")
                continue
            bucket = server.bucket()
            if any(slow.values()):
                bucket = bucket.through(running.enter_context(Proxy(server, **slow)).endpoint)
            print(f"\n# {make.__name__.lower()}: {bucket.url}")
            if isinstance(server, StaticServer):
                print(f"# its files: {server.directory(bucket)}")
            for name, value in bucket.environment.items():
                print(f"export {name}={shlex.quote(value)}")
        print("\n# Ctrl+C ends them all", flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
