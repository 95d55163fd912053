"""A proxy that makes any server slow and unreliable on purpose, and records requests."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.servers.buckets import Bucket, Server
from tests.servers.faults import Rule
from tests.servers.process import ServerProcess


@dataclass(frozen=True)
class Seen:
    """A request that the proxy has answered.

    Attributes
    ----------
    method, path, query : str
        The request; the path without percent-encoding.
    headers : dict of str to str
        Headers by lower-case name, without those that hold credentials.
    status : int
        The status sent to the client; 0 if the connection was reset.
    upstream : int
        The status of the server; 0 if the request was not forwarded.
    fault : str
        The fault of the rule that the request met, or ``""``.
    started, seconds : float
        When the request arrived, on the clock of `time.time`, and how long it took until the answer began.
    sent, received : int
        Bytes of the bodies, as sent to the client and as received from it.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    status: int
    upstream: int
    fault: str
    started: float
    seconds: float
    sent: int
    received: int


class Fault:
    """A rule that is in force."""

    def __init__(self, proxy: "Proxy", number: int) -> None:
        self._proxy = proxy
        self._number = number
        self._final: int | None = None

    @property
    def hits(self) -> int:
        """How many requests have met the fault."""
        if self._final is not None:
            return self._final
        return int(self._proxy.ask("hits", self._number))

    def remove(self) -> None:
        """Put the rule out of force."""
        if self._final is None:
            self._final = int(self._proxy.ask("remove", self._number))


class Proxy(Server):
    """A proxy in front of a server, in a process of its own.

    Parameters
    ----------
    server : Server or str
        The server, or the address of one.
    latency : float or (float, float)
        Seconds that each request waits before it is forwarded, concurrently with others; drawn between two limits.
    bandwidth : float
        Bytes a second that all answers together take; 0 for no limit.
    stream_bandwidth : float
        Bytes a second of each answer; 0 for no limit.
    """

    def __init__(
        self,
        server: Server | str,
        *,
        latency: float | tuple[float, float] = 0.0,
        bandwidth: float = 0.0,
        stream_bandwidth: float = 0.0,
    ) -> None:
        self.server = server
        upstream = server if isinstance(server, str) else server.endpoint
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        super().__init__(ServerProcess(["tests.servers.forwarding", upstream]))
        self.set(latency=latency, bandwidth=bandwidth, stream_bandwidth=stream_bandwidth)

    def set(self, **settings: float | tuple[float, float]) -> None:
        """Change `latency`, `bandwidth` or `stream_bandwidth` from the next request on."""
        latency = settings.get("latency")
        if isinstance(latency, (int, float)):
            settings["latency"] = (latency, latency)
        self.ask("set", settings)

    def bucket(self) -> Bucket:
        """Make a bucket on the server, to be reached through the proxy."""
        if isinstance(self.server, str):
            raise TypeError("the proxy knows the address of its server only: make a bucket and call `through`")
        return self.server.bucket().through(self.endpoint)

    @contextmanager
    def fault(self, **rule: Any) -> Iterator[Fault]:
        """Let requests meet a fault within a ``with`` block; the arguments are those of `faults.Rule`."""
        fault = Fault(self, int(self.ask("add", Rule(**rule).message())))
        try:
            yield fault
        finally:
            fault.remove()

    @property
    def requests(self) -> list[Seen]:
        """The requests that were answered since the last `forget`, in the order of their arrival."""
        seen = [Seen(**values) for values in self.ask("requests")]
        return sorted(seen, key=lambda request: request.started)

    @property
    def count(self) -> int:
        """How many requests were answered since the last `forget`."""
        return int(self.ask("count"))

    @property
    def peak(self) -> int:
        """How many requests were under way at once since the last `forget`, at most."""
        return int(self.ask("peak"))

    def forget(self) -> None:
        """Forget the requests so far."""
        self.ask("forget")

    @contextmanager
    def counted(self) -> Iterator[list[Seen]]:
        """Fill the list that it yields with the requests of the ``with`` block."""
        self.forget()
        seen: list[Seen] = []
        yield seen
        seen.extend(self.requests)

    def ask(self, name: str, argument: object = None, *, timeout: float = 30) -> Any:
        """Let the proxy carry out a command of `forwarding.Commands`, and return the answer."""
        with self._lock:
            self.process.send(json.dumps([name, argument]))
            answer, error = json.loads(self.process.answer(time.monotonic() + timeout))
        if error:
            raise ValueError(f"the proxy refuses {name}: {error}")
        return answer
