"""What is in a folder."""

import os
from pathlib import Path


def files(folder: str | os.PathLike[str]) -> list[str]:
    """Return every file and directory below `folder`, hidden ones too."""
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*"))
