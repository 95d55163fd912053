"""Settings for the whole process, and the environment variables that set their initial values.

=========================  =======================  ============================================================
setting                    environment variable     meaning
=========================  =======================  ============================================================
``threads``                ``TEGULA_THREADS``       chunks processed in parallel (default: the number of usable cores)
``max_chunk_bytes``        ``TEGULA_MAX_CHUNK``     largest chunk to read or create, in bytes (default 2 GiB)
``max_chunks``             ``TEGULA_MAX_CHUNKS``    most chunks that one operation may write, or visit although they
                                                    are not stored (default 10,000,000)
``concurrency``            ``TEGULA_CONCURRENCY``   requests to object storage that one store has under way at once
                                                    (default 64)
``write_empty_chunks``     ``TEGULA_WRITE_EMPTY``   store chunks that equal the fill value (default no)
``executor``               ``TEGULA_EXECUTOR``      implementation that reads and writes chunks: ``kernel`` (an error
                                                    if it is not built), ``reference``, or ``auto``, the kernel where
                                                    it is available (default)
=========================  =======================  ============================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from tegula import executors
from tegula.errors import MetadataError

__all__ = ["Config", "configure", "current"]


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Config:
    """The settings; the table of this module describes each.

    Raises
    ------
    MetadataError
        If a value has the wrong type or is out of range.
    UnsupportedError
        If `executor` is ``"kernel"`` and the kernel can't be loaded.

    Examples
    --------
    >>> from tegula import config
    >>> config.Config(threads=4).threads
    4
    """

    threads: int = 1
    max_chunk_bytes: int = 2**31
    max_chunks: int = 10**7
    concurrency: int = 64
    write_empty_chunks: bool = False
    executor: str = "auto"

    def __post_init__(self) -> None:
        for name in ("threads", "max_chunk_bytes", "max_chunks", "concurrency"):
            value: object = getattr(self, name)
            if type(value) is not int:
                raise MetadataError(f"{name} must be a whole number, not {value!r:.80}", field=name)
            if value < 1:
                raise MetadataError(f"{name} must be at least 1, not {value}", field=name)
        if type(self.write_empty_chunks) is not bool:
            raise MetadataError(
                f"write_empty_chunks must be True or False, not {self.write_empty_chunks!r:.80}",
                field="write_empty_chunks",
            )
        if type(self.executor) is not str or self.executor not in executors.EXECUTORS:
            names = ", ".join(executors.EXECUTORS)
            raise MetadataError(f"executor must be one of {names}, not {self.executor!r:.80}", field="executor")
        if self.executor == "kernel":
            executors.choose(self.executor)  # raises if the kernel can't be loaded


def _from_environment() -> Config:
    return Config(
        threads=_number("TEGULA_THREADS", _usable_cores()),
        max_chunk_bytes=_number("TEGULA_MAX_CHUNK", 2**31),
        max_chunks=_number("TEGULA_MAX_CHUNKS", 10**7),
        concurrency=_number("TEGULA_CONCURRENCY", 64),
        write_empty_chunks=_flag("TEGULA_WRITE_EMPTY"),
        executor=os.environ.get("TEGULA_EXECUTOR", "auto"),
    )


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise MetadataError(f"the environment variable {variable} is not a whole number: {text!r:.80}") from error


def _flag(variable: str) -> bool:
    text = os.environ.get(variable, "no").lower()
    if text not in ("0", "1", "false", "true", "no", "yes"):
        raise MetadataError(f"the environment variable {variable} is neither yes nor no: {text!r:.80}")
    return text in ("1", "true", "yes")


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
    """Change settings for the whole process until the ``with`` block ends.

    Parameters
    ----------
    **changes
        Fields of `Config` with their new values.

    Yields
    ------
    Config
        The new settings.

    Raises
    ------
    MetadataError
        If no setting has that name, or a value has the wrong type or is out of range.
    UnsupportedError
        If the kernel is requested and can't be loaded.

    Examples
    --------
    >>> from tegula import config
    >>> with config.configure(threads=1):
    ...     config.current().threads
    1
    """
    before = _current
    unknown = changes.keys() - {field.name for field in fields(Config)}
    if unknown:
        raise MetadataError(f"no such setting: {min(unknown)!r:.80}", field=min(unknown))
    settings, activate = replace(before, **changes), _activate
    activate(settings)
    try:
        yield settings
    finally:
        activate(before)  # a local name: if the interpreter exits inside the block, globals may be gone by now


def _put(**changes: Any) -> Config:
    """Change settings permanently and return the previous ones, for functions such as ``set_nthreads``."""
    before = _current
    _activate(replace(before, **changes))
    return before


def _activate(settings: Config, notify: Callable[[str], None] = executors.notify) -> None:
    """Make `settings` the current ones and notify the listeners; `notify` is bound early, as in `configure`."""
    global _current
    _current = settings
    notify(settings.executor)
