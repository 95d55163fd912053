"""Fixtures that start servers when a test first asks for one; each worker of pytest-xdist has servers of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest
from tests.effort import QUICK
from tests.servers.azurite import Azurite
from tests.servers.buckets import Server
from tests.servers.gcs import Gcs
from tests.servers.moto import Moto
from tests.servers.proxy import Proxy
from tests.servers.rclone import Rclone
from tests.servers.static import StaticServer
from tests.servers.tools import Missing

OBJECT_SERVERS = ["s3_server", "rclone_server", "gcs_server", "azure_server"]
"""The fixtures of servers with conditional writing, for `request.getfixturevalue`."""

_S = TypeVar("_S", bound=Server)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Moto]:
    """A server that speaks S3 with conditional PUT and DELETE; `bucket` makes a bucket of it for a test."""
    with start_installed(Moto) as server:
        yield server


@pytest.fixture(scope="session")
def http_server() -> Iterator[StaticServer]:
    """A server of files; ``directory(bucket)`` says where to put them."""
    with start_installed(StaticServer) as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Gcs]:
    """A server that speaks the XML API of Google Cloud Storage."""
    with start_installed(Gcs) as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Azurite]:
    """A server that speaks Azure Blob Storage; needs Node.js."""
    with start_installed(Azurite) as server:
        yield server


@pytest.fixture(scope="session")
def rclone_server() -> Iterator[Rclone]:
    """Another server that speaks S3, which checks signatures."""
    with start_installed(Rclone) as server:
        yield server


def start_installed(make: Callable[[], _S]) -> _S:
    """Start a server; skip the test where it is not installed, and in a quick run."""
    if QUICK:
        pytest.skip("a quick run starts no servers")
    try:
        return make()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def proxied() -> Iterator[Callable[..., Proxy]]:
    """A function that puts a new proxy before a server, for one test; it takes the arguments of `Proxy`."""
    with ExitStack() as proxies:

        def make(server: Server | str, **settings: Any) -> Proxy:
            return proxies.enter_context(Proxy(server, **settings))

        yield make
