"""Files that the operating system has to read from the disk again: what it keeps of them in memory is dropped."""

from __future__ import annotations

import os
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")


def drop(path: Path) -> None:
    """Drop what is kept of the files below a path; where the system allows it, names and facts of all files, too."""
    for directory, _, names in os.walk(path):
        for name in names:
            file = os.open(Path(directory, name), os.O_RDONLY)
            try:
                os.fsync(file)  # what was not written yet can't be dropped
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
    try:
        DROP.write_text("2")
    except OSError:
        return
