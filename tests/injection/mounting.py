"""File systems in a file, mounted for tests of what only some of them do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, kind: str, *options: str) -> Iterator[Path]:
    """Make a file system of 256 MiB and mount it; skip the test where that is not possible."""
    image, top = place / "image", place / "mounted"
    top.mkdir()
    make, mount = shutil.which(f"mkfs.{kind}", path=f"{os.environ['PATH']}:/sbin:/usr/sbin"), shutil.which("mount")
    if make is None or mount is None or os.geteuid() != 0:
        pytest.skip(f"needs mkfs.{kind}, and only root may mount a file system")
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run([make, "-q", *options, str(image)], check=True, capture_output=True, timeout=60)
    done = subprocess.run(
        [mount, "-o", "loop", str(image), str(top)], check=False, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    try:
        yield top
    finally:
        subprocess.run(["umount", str(top)], check=True, timeout=60)
