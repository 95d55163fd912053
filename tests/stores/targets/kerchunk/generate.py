"""Write the references in this folder with kerchunk: run ``python tests/stores/targets/kerchunk/generate.py``.

It needs h5py, kerchunk and fastparquet. The files that the references name are written beside them.
"""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
from kerchunk.combine import MultiZarrToZarr
from kerchunk.df import refs_to_dataframe
from kerchunk.hdf import SingleHdf5ToZarr

HERE = Path(__file__).parent


def climate(path: Path, start: int) -> None:
    """Write a file as netCDF-4 libraries do: dimension scales, packed values, filters."""
    with h5py.File(path, "w", track_order=True) as file:
        for name, size in (("time", 4), ("x", 6)):
            scale = file.create_dataset(name, data=np.arange(size, dtype="i4") + (start if name == "time" else 0))
            scale.make_scale(name)
        values = (np.arange(24).reshape(4, 6) + 100 * start).astype("i2")
        packed = file.create_dataset("t", data=values, chunks=(2, 3), compression="gzip", shuffle=True, fillvalue=-1)
        packed.attrs.update(scale_factor=0.5, add_offset=10.0, units="K")
        plain = file.create_dataset("big", data=((np.arange(24).reshape(4, 6) + start) / 4).astype(">f8"))
        for dataset in (packed, plain):
            for axis, name in enumerate(("time", "x")):
                dataset.dims[axis].attach_scale(file[name])


def main() -> None:
    """Write files and references."""
    os.chdir(HERE)
    singles = []
    for number in range(2):
        climate(Path(f"climate{number}.h5"), 4 * number)
        singles.append(SingleHdf5ToZarr(f"climate{number}.h5", inline_threshold=17).translate())
    Path("single.json").write_text(json.dumps({"written_by": version("kerchunk"), **singles[0]}, indent=1))
    both = MultiZarrToZarr(singles, concat_dims=["time"], identical_dims=["x"], inline_threshold=0).translate()
    Path("combined.json").write_text(json.dumps(both, indent=1))
    shutil.rmtree("combined.parq", ignore_errors=True)
    refs_to_dataframe(both, "combined.parq", record_size=3)


if __name__ == "__main__":
    main()
