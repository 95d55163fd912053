"""Settings for the whole process, and the environment variables that set their initial values.

=========================  =======================  ============================================================
setting                    environment variable     meaning
=========================  =======================  ============================================================
``threads``                ``TEGULA_THREADS``       chunks processed in parallel (default: the number of usable cores)
``max_chunk_bytes``        ``TEGULA_MAX_CHUNK``     largest chunk to read or create, in bytes (default 2 GiB)
``max_chunks``             ``TEGULA_MAX_CHUNKS``    most chunks that one operation may write, or visit even though they
                                                    are not stored (default 10,000,000)
``max_input_bytes``        ``TEGULA_MAX_INPUT``     largest document, set of references or directory of an archive that
                                                    is read, in bytes, and what a smaller one may cost (default 256 MiB)
``buffer_bytes``           ``TEGULA_BUFFER_BYTES``  bytes of chunks that operations on remote storage have under way
                                                    at once (default 256 MiB)
``concurrency``            ``TEGULA_CONCURRENCY``   initial number of requests to a bucket under way at once (default
                                                    64); rises up to four times as high if that helps
``write_empty_chunks``     ``TEGULA_WRITE_EMPTY``   store chunks that equal the fill value (default no)
``executor``               ``TEGULA_EXECUTOR``      implementation that reads and writes chunks: ``kernel`` (an error
                                                    if it is not built), ``reference``, or ``auto``, the kernel where
                                                    it is available (default)
``cache_bytes``            ``TEGULA_CACHE_BYTES``   bytes of decoded chunks that are kept for later reads (default 0:
                                                    none)
``recheck``                ``TEGULA_RECHECK``       when a cached value is compared with the store: at the first read
                                                    after opening an array (``open``, default), at each read
                                                    (``always``), after that many seconds, or ``never``
``missing_chunks``         ``TEGULA_MISSING``       what reads of chunks that are not stored give: ``fill``, the fill
                                                    value (default), or ``error``
=========================  =======================  ============================================================
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tegula.errors import MetadataError
from tegula.runtime import executors
from tegula.runtime.frozen import Frozen, replace

__all__ = ["Config", "check_missing_chunks", "check_recheck", "configure", "current", "put"]

_RECHECKS = ("open", "always", "never")


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


class Config(Frozen):
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

    threads: int
    max_chunk_bytes: int
    max_chunks: int
    max_input_bytes: int
    buffer_bytes: int
    concurrency: int
    write_empty_chunks: bool
    executor: str
    cache_bytes: int
    recheck: str | float
    missing_chunks: str

    def __init__(
        self,
        threads: int = 1,
        max_chunk_bytes: int = 2**31,
        max_chunks: int = 10**7,
        max_input_bytes: int = 2**28,
        buffer_bytes: int = 2**28,
        concurrency: int = 64,
        write_empty_chunks: bool = False,
        executor: str = "auto",
        cache_bytes: int = 0,
        recheck: str | float = "open",
        missing_chunks: str = "fill",
    ) -> None:
        super().__init__(
            threads,
            max_chunk_bytes,
            max_chunks,
            max_input_bytes,
            buffer_bytes,
            concurrency,
            write_empty_chunks,
            executor,
            cache_bytes,
            recheck,
            missing_chunks,
        )
        self._check()

    def _check(self) -> None:
        positive = "threads", "max_chunk_bytes", "max_chunks", "max_input_bytes", "buffer_bytes", "concurrency"
        for name, least in (*((name, 1) for name in positive), ("cache_bytes", 0)):
            value: object = getattr(self, name)
            if type(value) is not int:
                raise MetadataError(f"{name} must be a whole number, not {value!r:.80}", field=name)
            if value < least:
                raise MetadataError(f"{name} must be at least {least}, not {value}", field=name)
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
        check_recheck(self.recheck)
        check_missing_chunks(self.missing_chunks)


def check_missing_chunks(value: object) -> str:
    """Return a value of the setting ``missing_chunks``.

    Raises
    ------
    MetadataError
        If it is neither ``"fill"`` nor ``"error"``.

    Examples
    --------
    >>> check_missing_chunks("fill")
    'fill'
    """
    if not isinstance(value, str) or value not in ("fill", "error"):
        raise MetadataError(f"missing_chunks must be fill or error, not {value!r:.80}", field="missing_chunks")
    return value


def check_recheck(value: object) -> str | float:
    """Return a value of the setting ``recheck`` if it is valid.

    Parameters
    ----------
    value : "open", "always", "never" or number
        When cached values are compared with the store: at the first use after opening, at each use, never, or after
        that many seconds.

    Raises
    ------
    MetadataError
        If the value is not valid.

    Examples
    --------
    >>> check_recheck("open"), check_recheck(60)
    ('open', 60)
    """
    if isinstance(value, str) and value in _RECHECKS:
        return value
    if type(value) in (int, float):
        seconds: Any = value
        if 0 <= seconds < math.inf:
            return float(seconds) if type(seconds) is float else int(seconds)
    names = ", ".join(_RECHECKS)
    raise MetadataError(f"recheck must be one of {names}, or seconds, not {value!r:.80}", field="recheck")


def _from_environment() -> Config:
    return Config(
        threads=_number("TEGULA_THREADS", _usable_cores()),
        max_chunk_bytes=_number("TEGULA_MAX_CHUNK", 2**31),
        max_chunks=_number("TEGULA_MAX_CHUNKS", 10**7),
        max_input_bytes=_number("TEGULA_MAX_INPUT", 2**28),
        buffer_bytes=_number("TEGULA_BUFFER_BYTES", 2**28),
        concurrency=_number("TEGULA_CONCURRENCY", 64),
        write_empty_chunks=_flag("TEGULA_WRITE_EMPTY"),
        executor=os.environ.get("TEGULA_EXECUTOR", "auto"),
        cache_bytes=_number("TEGULA_CACHE_BYTES", 0),
        recheck=_recheck(os.environ.get("TEGULA_RECHECK", "open")),
        missing_chunks=os.environ.get("TEGULA_MISSING", "fill"),
    )


def _recheck(text: str) -> str | float:
    """Return the number in a text; otherwise the text, which `Config` checks."""
    try:
        return float(text)
    except ValueError:
        return text


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


def configure(**changes: Any) -> AbstractContextManager[Config]:
    """Change settings for the whole process until the ``with`` block ends; a call without ``with`` changes nothing.

    Parameters
    ----------
    **changes
        Fields of `Config` with their new values.

    Returns
    -------
    context manager of Config
        Its ``with`` block gets the new settings.

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
    unknown = changes.keys() - {*Config._fields}
    if unknown:
        raise MetadataError(f"there is no setting {min(unknown)!r:.80}", field=min(unknown))
    replace(_current, **changes)  # raises for wrong values, even if ``with`` was forgotten
    return _configured(changes)


@contextmanager
def _configured(changes: dict[str, Any]) -> Iterator[Config]:
    """Make the changes when the ``with`` block begins, and undo them when it ends."""
    before = _current
    settings, activate = replace(before, **changes), _activate
    activate(settings)
    try:
        yield settings
    finally:
        activate(before)  # a local name: if the interpreter exits inside the block, globals may be gone by now


def put(**changes: Any) -> Config:
    """Change settings permanently and return the previous ones, for functions such as ``set_nthreads``.

    Examples
    --------
    >>> before = put(threads=2)
    >>> current().threads, put(threads=before.threads).threads
    (2, 2)
    """
    before = _current
    _activate(replace(before, **changes))
    return before


def _activate(settings: Config, notify: Callable[[str, int], None] = executors.notify) -> None:
    """Make `settings` the current ones and notify the listeners; `notify` is bound early, as in `_configured`."""
    global _current
    _current = settings
    notify(settings.executor, settings.cache_bytes)
