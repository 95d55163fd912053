"""Rules of the proxy: which requests meet a fault, and which fault."""

import fnmatch
import random
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tests.servers.wire import Request


@dataclass
class Rule:
    """A fault, and which requests meet it.

    Attributes
    ----------
    method : str
        The request's method, or several of them with ``|`` between; any by default.
    key : str
        A pattern of shell style for the request's path, bucket included, such as ``*/zarr.json``.
    query : str
        A pattern for the query, such as ``*list-type=2*``.
    skip, every, times, probability
        Of the requests that match, the first `skip` pass; of the others each `every`-th meets the fault, or each with
        this `probability`; after `times` faults the rule does nothing any more.
    seed : int
        The seed of `probability`: the same requests in the same order meet the same faults.
    status : int
        Answer with it, and do not forward the request.
    after_commit : int
        Answer with it after the server has carried the request out.
    retry_after : float
        The Retry-After header of `status` or `after_commit`.
    reset : ``"before"`` or ``"after"``
        Reset the connection, before or after the server has carried the request out.
    truncate : int
        Send only this many bytes of the body and close the connection, though Content-Length is larger.
    drip : float
        Send the body at this many bytes a second.
    delay : float
        Wait for this many more seconds before the request is forwarded.
    redirect : str
        Answer with status 307 and this address, followed by the request's path and query.
    """

    method: str = ""
    key: str = "*"
    query: str = "*"
    skip: int = 0
    every: int = 1
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    status: int | None = None
    after_commit: int | None = None
    retry_after: float | None = None
    reset: Literal["before", "after"] | None = None
    truncate: int | None = None
    drip: float | None = None
    delay: float | None = None
    redirect: str | None = None
    matched: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    _FAULTS = ("status", "after_commit", "reset", "truncate", "drip", "delay", "redirect")

    def __post_init__(self) -> None:
        chosen = [name for name in self._FAULTS if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise ValueError(f"a rule has one fault of {', '.join(self._FAULTS)}, not {chosen}")
        self.name: str = chosen[0]
        self._random = random.Random(self.seed)

    def meets(self, request: Request) -> bool:
        """Return whether this request meets the fault, and count it."""
        query = request.target.partition("?")[2]
        if self.method and request.method not in self.method.split("|"):
            return False
        if not (fnmatch.fnmatchcase(request.path, self.key) and fnmatch.fnmatchcase(query, self.query)):
            return False
        self.matched += 1
        number = self.matched - self.skip
        if number <= 0 or number % self.every or (self.times is not None and self.hits >= self.times):
            return False
        if self._random.random() >= self.probability:
            return False
        self.hits += 1
        return True

    def message(self) -> dict[str, Any]:
        """Return the arguments that make the same rule in another process."""
        return {name: value for name, value in asdict(self).items() if name not in ("matched", "hits")}
