"""A client that discards the answers: ``python remote_client.py PORT PATH REQUESTS CONNECTIONS``.

It prints the seconds that REQUESTS GET requests take over CONNECTIONS connections: the highest rate of the server.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any


class Asking(asyncio.Protocol):
    """A connection that asks for the same value again and again, as long as requests are left."""

    left = 0
    done: asyncio.Event

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.missing = 0
        self.head = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        if Asking.left > 0:
            Asking.left -= 1
            self.missing = -1
            self.transport.write(self.request)
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.missing < 0:
            self.head += data
            block, end, rest = self.head.partition(b"\r\n\r\n")
            if not end:
                return
            length = block.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            self.missing, data, self.head = int(length), rest, b""
        self.missing -= len(data)
        if not self.missing:
            self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        Asking.open -= 1
        if not Asking.open:
            Asking.done.set()

    open = 0


async def main(port: int, path: str, requests: int, connections: int) -> None:
    loop = asyncio.get_running_loop()
    Asking.done, Asking.left, Asking.open = asyncio.Event(), requests, connections
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    start = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Asking(request), "127.0.0.1", port)
    await Asking.done.wait()
    print(time.perf_counter() - start)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
