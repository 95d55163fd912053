"""Create an array, write a part of it, append to it and read it again: the same calls, whatever the format.

Run it from the clone, as often as you like::

    python examples/first_array.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    example-output/rain.zarr: zarr3, (372, 20, 30), 2 of 12 chunks stored
      January: 1.875 mm a day, first of February: nan, last week: [0.  0.5 1.  1.5 2.  2.5 3. ]
    example-output/rain.bcolz: bcolz, (372, 20, 30), 12 of 12 chunks stored
      January: 1.875 mm a day, first of February: nan, last week: [0.  0.5 1.  1.5 2.  2.5 3. ]
"""

import sys
from pathlib import Path

import numpy as np

import tegula


def main(folder: Path) -> None:
    """Write a year of rain on a grid, and another week, in two formats."""
    for name in ("rain.zarr", "rain.bcolz"):  # the suffix chooses the format
        a = tegula.create_array(
            folder / name, shape=(365, 20, 30), chunks=(31, 20, 30), dtype="f4", fill_value=np.nan, overwrite=True
        )
        a[:31] = np.linspace(0, 3.75, 31)[:, None, None]  # January; the other days stay missing
        a.append(np.broadcast_to(np.arange(7)[:, None, None] / 2, (7, 20, 30)))
        a.attrs["units"] = "mm"

        b = tegula.open(folder / name)  # read-only; the format is detected
        print(f"{folder / name}: {b.format}, {b.shape}, {b.nchunks_initialized()} of {b.nchunks} chunks stored")
        print(
            f"  January: {b[:31].mean()} {b.attrs['units']} a day, first of February: {b[31, 0, 0]},"
            f" last week: {b[-7:, 5, 5]}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output"))
