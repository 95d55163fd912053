"""Fixtures that start servers when a test first asks for one; each worker of pytest-xdist has servers of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.servers.buckets import Server
from tests.servers.moto import Moto
from tests.servers.proxy import Proxy
from tests.servers.static import StaticServer


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Moto]:
    """A server that speaks S3 with conditional PUT and DELETE; `bucket` makes a bucket of it for a test."""
    with Moto() as server:
        yield server


@pytest.fixture(scope="session")
def http_server() -> Iterator[StaticServer]:
    """A server of files; ``directory(bucket)`` says where to put them."""
    with StaticServer() as server:
        yield server


@pytest.fixture
def proxied() -> Iterator[Callable[..., Proxy]]:
    """A function that puts a new proxy before a server, for one test; it takes the arguments of `Proxy`."""
    with ExitStack() as proxies:

        def make(server: Server | str, **settings: Any) -> Proxy:
            return proxies.enter_context(Proxy(server, **settings))

        yield make
