"""Make a pyramid of a large image, which viewers of OME-Zarr show, and serve it over HTTP to other programs.

Run it from the clone, as often as you like; it needs the extras ``server``, ``zarr`` and ``cloud``, and aiohttp::

    python examples/pyramid_over_http.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    <tegula.Pyramid 'file:...cells.zarr', mean>
    s0  (1500, 2000) in chunks (250, 250)
    s1  (750, 1000) in chunks (250, 250)
    s2  (375, 500) in chunks (250, 250)
    s3  (188, 250) in chunks (250, 250)
    http://127.0.0.1:.../s2: (375, 500), equal
"""

import sys
from pathlib import Path

import numpy as np
import zarr

import tegula


def main(folder: Path) -> None:
    """Store an image in tiles, reduce it, and read a level of the pyramid with zarr-python."""
    y, x = np.mgrid[:1500, :2000]
    image = ((x - 1000) ** 2 + (y - 750) ** 2 < 600**2) * (x * y % 251)
    path = folder / "cells.zarr"
    tegula.create_group(path, overwrite=True).create_array(
        "s0", data=image.astype("u1"), chunks=(250, 250), shards=(500, 500), dimension_names=["y", "x"]
    )
    axes = [{"name": name, "unit": "micrometer"} for name in "yx"]
    print(tegula.downsample(path / "s0", axes=axes, scale=0.65))

    with tegula.serve(path, port=0) as server:  # on the command line: tegula serve PATH --open
        level = zarr.open_array(f"{server.url}/s2", mode="r")  # any program that reads Zarr v3 can do this
        equal = np.array_equal(level[:], tegula.open_array(path / "s2"))
        print(f"{server.url}/s2: {level.shape}, {'equal' if equal else 'different'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output"))
