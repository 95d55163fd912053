"""Run by ``test_zarrista.py`` with an interpreter that has zarrista: reads and writes arrays of Zarr v3.

A line is a list: the path of an array, a file of NumPy, and ``read`` or ``write``. The answer is empty, or an error.
"""

import json
import sys

import numpy as np
import zarrista


def run(path, file, action):
    array = zarrista.Array.open(zarrista.store.FilesystemStore(path), path="/")
    if action == "read":
        np.save(file, array[...].to_numpy())
    else:
        array[...] = np.load(file)


if __name__ == "__main__":
    for line in sys.stdin:
        problem = ""
        try:
            run(*json.loads(line))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(problem, flush=True)
