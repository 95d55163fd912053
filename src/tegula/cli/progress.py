"""The progress bar of commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar, if anybody is there to see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    parts = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        shown: str | None = None

        def show(name: str, done: int, total: int) -> None:
            nonlocal shown
            if name != shown:
                shown = name
                bar.reset(task, total=total, description=name or "array")
            bar.update(task, completed=done)

        yield show
