"""Appends with zarr-python, of any version, in a process of its own: the shape first, and then the chunks."""

import sys
import time

import numpy as np
import zarr


def main() -> None:
    """Append rows, of which row ``n`` holds ``n + 1``."""
    path, rows = sys.argv[1], int(sys.argv[2])
    array = zarr.open_array(path, mode="r+")
    while array.shape[0] < rows:
        first = array.shape[0]
        count = min(1 + first % 7, rows - first)
        array.append(np.arange(first + 1, first + count + 1)[:, np.newaxis] * np.ones(array.shape[1], "i4"))
        time.sleep(0.005)


if __name__ == "__main__":
    main()
