"""Run by ``test_readers.py`` with an interpreter that has another zarr: reads arrays until its input ends.

Each line of input is the directory of an array, each line of output the error, or nothing. The values are
written beside it, as ``.npy``.
"""

import sys
import warnings

import numpy as np
import zarr


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        path = line.rstrip("\n")
        try:
            array = zarr.open_array(path, mode="r")
            values = np.asarray(array[...])
            if values.dtype.kind == "T":
                values = values.astype(object)
            np.save(f"{path}.npy", values, allow_pickle=True)
            problem = ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".replace("\n", " ") or type(error).__name__
        print(problem, flush=True)


if __name__ == "__main__":
    main()
