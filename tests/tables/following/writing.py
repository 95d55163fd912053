"""A writer and a follower that tests kill: each goes on where it, or one before it, was killed.

Row ``n`` of what is written holds ``n + 1`` in all columns or elements. The follower adds a line for each block to a
file, together with the token after it: one write for each, and of a line that was cut nothing counts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tegula

MOST = 7  # rows of an append


def values(first: int, count: int, width: int) -> Any:
    """Return the elements of some rows."""
    return np.arange(first + 1, first + count + 1)[:, np.newaxis] * np.ones(width, "i4")


def opened(target: str, mode: Any) -> Any:
    """Open an array or a table."""
    node: Any = tegula.open(target, mode=mode)
    return tegula.open_table(target, mode=mode) if isinstance(node, tegula.Group) else node


def write(target: str, rows: int, pause: float) -> None:
    """Append until there are so many rows; complete or cut off first what an earlier writer has begun."""
    node = opened(target, "r+")
    if isinstance(node, tegula.Table):
        while len(node) < rows:
            count = min(1 + len(node) % MOST, rows - len(node))
            numbers = np.arange(len(node) + 1, len(node) + count + 1)
            node.append({"n": numbers, "half": numbers / 2, "text": [str(number) for number in numbers]})
            time.sleep(pause)
        return
    width = node.shape[1]
    if not node.metadata.dense and node.shape[0]:
        begun = max(0, node.shape[0] - MOST)
        if os.getpid() % 2:  # write the rows that are missing where they belong
            node[begun:] = values(begun, node.shape[0] - begun, width)
        else:  # or cut them off
            whole = node[begun:].all(axis=1)
            node.resize(begun + int(np.argmin(whole)) if not whole.all() else node.shape[0], width)
    while node.shape[0] < rows:
        count = min(1 + node.shape[0] % MOST, rows - node.shape[0])
        node.append(values(node.shape[0], count, width))
        time.sleep(pause)


def read(target: str, rows: int, log: str) -> None:
    """Follow until there are so many rows, from the last whole line of the file on."""
    path = Path(log)
    lines = path.read_text().split("\n") if path.exists() else [""]
    with path.open("r+" if path.exists() else "w") as file:
        file.truncate(sum(len(line) + 1 for line in lines[:-1]))
    known = [json.loads(line) for line in lines[:-1]]
    options: dict[str, Any] = {"token": known[-1]["token"]} if known else {"from_row": 0}
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    node = opened(target, "r")
    with tegula.follow(node, settle=600, timeout=120, **options) as follower:
        while follower.position < rows:
            block = next(follower)
            numbers = block.values["n"] if isinstance(node, tegula.Table) else block.values
            found = numbers.reshape(len(block), -1).tolist()
            line = json.dumps({"start": block.start, "rows": found, "token": block.token})
            os.write(fd, f"{line}\n".encode())


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    (write if options.pop("writes") else read)(**options)
