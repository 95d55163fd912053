"""The base of all servers of the tests: they make buckets, which obstore and tegula can open."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Self

import obstore.store
from tests.servers.process import ServerProcess

_NUMBERS = itertools.count()
QUICK_RETRIES = {
    "max_retries": 3,
    "backoff": {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=100), "base": 2.0},
    "retry_timeout": timedelta(seconds=20),
}
"""Retries of obstore without its long waits."""


@dataclass(frozen=True)
class Bucket:
    """An empty bucket, container or directory.

    Attributes
    ----------
    url : str
        The URL to open: ``s3://…``, ``gs://…``, ``az://…`` or ``http://…``.
    endpoint : str
        The address of the server or of a proxy before it.
    options : Mapping
        The storage options that reach `endpoint`, besides ``allow_http``.
    name : str
        The name of the bucket, container or directory.
    """

    url: str
    endpoint: str
    options: Mapping[str, str]
    name: str

    @property
    def storage_options(self) -> dict[str, str]:
        """Everything to open `url` with, as flat names and values."""
        return {**self.options, "allow_http": "true"}

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that reach `endpoint`, for programs that take no options."""
        prefix = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_STORAGE_"}.get(self.url.partition(":")[0], "")
        return {prefix + name.upper(): value for name, value in self.options.items()}

    def store(self, prefix: str = "", **settings: Any) -> Any:
        """Return obstore's store for a prefix, with few and quick retries unless `settings` say otherwise."""
        settings = {"retry_config": QUICK_RETRIES, **settings}
        options = {"allow_http": True, **settings.pop("client_options", {})}
        return obstore.store.from_url(
            f"{self.url}/{prefix}".rstrip("/"), config={**self.options}, client_options=options, **settings
        )

    def through(self, endpoint: str) -> Self:
        """Return the same bucket as reached by another address, such as a proxy's."""
        return replace(
            self,
            url=self.url.replace(self.endpoint, endpoint),
            endpoint=endpoint,
            options={name: value.replace(self.endpoint, endpoint) for name, value in self.options.items()},
        )


@dataclass
class Server:
    """A running server.

    Attributes
    ----------
    endpoint : str
        Its address, ``http://127.0.0.1:PORT``.
    """

    process: ServerProcess
    endpoint: str = field(init=False)

    def __post_init__(self) -> None:
        self.endpoint = self.process.endpoint

    def bucket(self) -> Bucket:
        """Make a new and empty bucket."""
        raise NotImplementedError

    def close(self) -> None:
        """End the server and forget what it stores."""
        self.process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def new_name() -> str:
    """Return a name for a bucket that no other test has."""
    return f"test-{os.getpid()}-{next(_NUMBERS)}"
