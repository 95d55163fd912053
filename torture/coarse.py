"""Updates by several processes on a file system that keeps whole seconds and uses inode numbers again at once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torture import updates
from torture.libraries import OURS
from torture.libraries.interface import Lacking
from torture.outcome import Outcome
from torture.workers import Worker

CASES = (
    "elements of one chunk, Zarr v2",
    "elements of one chunk, Zarr v3",
    "elements of one shard",
    "attributes, Zarr v3",
    "appends, Zarr v2",
    "appends, Zarr v3",
    "appends, bcolz table",
    "resizes, Zarr v3",
)
_BYTES = 256 << 20


@contextmanager
def mounted(place: Path) -> Iterator[Path]:
    """Mount an ext4 with inodes of 128 bytes, which takes a superuser.

    Raises
    ------
    Lacking
        If that is not permitted.
    """
    image, top = place / "image", place / "mounted"
    top.mkdir()
    with image.open("wb") as file:
        file.truncate(_BYTES)
    for command in (
        ["mkfs.ext4", "-q", "-I", "128", "-F", str(image)],
        ["mount", "-o", "loop", str(image), str(top)],
    ):
        program = shutil.which(command[0]) or shutil.which(command[0], path="/sbin:/usr/sbin")
        done = subprocess.run([program or "false", *command[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Lacking(f"no file system could be mounted: {command[0]}: {done.stderr.strip()}")
    try:
        yield top
    finally:
        subprocess.run(["umount", str(top)], check=True)


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Make `count` updates in each case, with tegula only, since other libraries lose some on any file system."""
    if worker.name not in OURS:
        return []
    with mounted(root) as place:
        found = [outcome for case in CASES if (outcome := updates.trial(worker, place, case, count)) is not None]
    return [replace(item, section="coarse", promise=f"{item.promise}, times in whole seconds") for item in found]
