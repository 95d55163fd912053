"""Settings of the whole process, and the environment variables that give them their first value.

=========================  =======================  ============================================================
setting                    environment variable     meaning
=========================  =======================  ============================================================
``threads``                ``TEGULA_THREADS``       chunks worked on at once (default: the number of usable cores)
``executor``               ``TEGULA_EXECUTOR``      ``"auto"`` or ``"reference"``
``max_chunk_bytes``        ``TEGULA_MAX_CHUNK``     largest chunk in bytes that is read or created (default 2 GiB)
``write_empty_chunks``     ``TEGULA_WRITE_EMPTY``   store chunks that are equal to the fill value (default no)
=========================  =======================  ============================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tegula.errors import MetadataError

__all__ = ["Config", "configure", "current"]


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force; see the module's table.

    Examples
    --------
    >>> from tegula import config
    >>> config.Config(threads=4).threads
    4
    """

    threads: int = 1
    executor: str = "auto"
    max_chunk_bytes: int = 2**31
    write_empty_chunks: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise MetadataError(f"threads must be at least 1, not {self.threads}", field="threads")
        if self.executor not in ("auto", "reference"):
            raise MetadataError(f"no executor is called {self.executor!r}", field="executor")
        if self.max_chunk_bytes < 1:
            raise MetadataError("max_chunk_bytes must be positive", field="max_chunk_bytes")


def _from_environment() -> Config:
    env = os.environ
    try:
        return Config(
            threads=int(env.get("TEGULA_THREADS", _usable_cores())),
            executor=env.get("TEGULA_EXECUTOR", "auto"),
            max_chunk_bytes=int(env.get("TEGULA_MAX_CHUNK", 2**31)),
            write_empty_chunks=env.get("TEGULA_WRITE_EMPTY", "0").lower() in ("1", "true", "yes"),
        )
    except ValueError as error:
        raise MetadataError(f"an environment variable TEGULA_… is not a number: {error}") from error


_current = _from_environment()


def current() -> Config:
    """Return the settings in force.

    Examples
    --------
    >>> from tegula import config
    >>> config.current().threads >= 1
    True
    """
    return _current


@contextmanager
def configure(**changes: Any) -> Iterator[Config]:
    """Change settings for the whole process until the block ends.

    Parameters
    ----------
    **changes
        Fields of `Config` with their new values.

    Raises
    ------
    MetadataError
        If a value is out of range or no setting has that name.

    Examples
    --------
    >>> from tegula import config
    >>> with config.configure(threads=1):
    ...     config.current().threads
    1
    """
    global _current
    before = _current
    try:
        _current = replace(before, **changes)
    except TypeError as error:
        raise MetadataError(f"no such setting: {error}") from error
    try:
        yield _current
    finally:
        _current = before
