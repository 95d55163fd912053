"""Output streams: standard output, or a file that is replaced in one step."""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import typer

from tegula.runtime.system import files

__all__ = ["on_terminal", "output"]


def on_terminal(file: Path | None = None) -> bool:
    """Return whether `output` of a file is shown on a terminal; ``None`` and ``-`` mean standard output."""
    return (file is None or str(file) == "-") and sys.stdout.isatty()


@contextmanager
def output(file: Path | None) -> Iterator[IO[bytes]]:
    """Open a file for writing, or standard output for ``None`` and ``-``.

    A regular file is written under a temporary name in the same directory and renamed at the end: an error, or Ctrl-C,
    leaves the old file unchanged. Links are followed, and the permissions of an existing file are kept. Pipes and
    devices are written directly.

    Parameters
    ----------
    file : Path or None
        The file to write; ``None`` and ``-`` mean standard output.

    Yields
    ------
    binary file
        The stream to write to.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    if file is None or str(file) == "-":
        with _standard_output() as stream:
            yield stream
        return
    # regular files are replaced, pipes and devices written
    path = os.path.realpath(file)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    is_regular = mode is None or stat.S_ISREG(mode)
    try:
        with _replacement(path, mode) if is_regular else open(path, "wb") as stream:
            yield stream
    except OSError as error:
        if type(error) is OSError and error.filename is None:  # the error of a failed write does not name the file
            error.filename = str(file)
        raise


@contextmanager
def _replacement(path: str, mode: int | None) -> Iterator[IO[bytes]]:
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, "the file is write-protected", path)
    folder, name = os.path.split(path)
    try:
        handle, temporary = tempfile.mkstemp(".part", f".{name[:100]}.", folder)
    except OSError as error:
        error.filename = path
        raise
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(temporary, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        files.replace(temporary, path)
    except BaseException:  # also after Ctrl-C
        with suppress(OSError):
            files.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    stdout = typer.get_binary_stream("stdout")
    if not isinstance(stdout, io.RawIOBase):
        yield stdout
        stdout.flush()
        return
    buffered = io.BufferedWriter(stdout)  # with PYTHONUNBUFFERED, a write may be cut short without an error
    try:
        yield buffered
        buffered.flush()
    finally:
        buffered.detach()
