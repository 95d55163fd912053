"""Let processes write to one chunk and append to one array at the same time, without locks, and lose nothing.

Run it from the clone, as often as you like::

    python examples/write_in_parallel.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    200 elements of one chunk written: 0 lost
    200 rows appended: 0 lost
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import tegula

WRITERS, EACH = 2, 100


def write(folder: Path, writer: int) -> None:
    """Write every second element of a chunk, and append rows, one by one."""
    field = tegula.open_array(folder / "field.zarr", mode="r+")
    log = tegula.open_array(folder / "log.zarr", mode="r+")
    for i in range(writer, WRITERS * EACH, WRITERS):
        # tegula reads the chunk, changes it, and stores it only if the other writer has not changed it since; if the
        # other writer has, tegula starts again
        field[i] = i + 1
        log.append([i + 1])


def main(folder: Path) -> int:
    """Start the writers, and count what is missing afterwards."""
    everything = np.arange(1, WRITERS * EACH + 1)
    for name, length in (("field.zarr", len(everything)), ("log.zarr", 0)):
        tegula.create_array(folder / name, shape=length, chunks=500, dtype="i4", overwrite=True)
    with ProcessPoolExecutor(WRITERS, mp_context=get_context("spawn")) as pool:
        list(pool.map(write, [folder] * WRITERS, range(WRITERS)))
    field, log = (tegula.open_array(folder / name)[:] for name in ("field.zarr", "log.zarr"))
    lost = [int((field != everything).sum()), len(np.setdiff1d(everything, log))]
    print(f"{len(everything)} elements of one chunk written: {lost[0]} lost")
    print(f"{len(log)} rows appended: {lost[1]} lost")
    return int(any(lost))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output")))
