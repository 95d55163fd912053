"""h5py: the same values and chunks in an HDF5 file; codecs other than deflate where hdf5plugin is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
from cases import Case, Values

from contenders.interface import Contender, Lacking

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None


def _filters(codec: str) -> dict[str, Any]:
    if codec == "none":
        return {}
    if codec == "zlib":
        return {"compression": "gzip", "compression_opts": 1}
    if hdf5plugin is None:
        raise Lacking("hdf5plugin is not installed")
    return {
        "lz4": lambda: hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE),
        "bzstd": lambda: hdf5plugin.Blosc(cname="zstd", clevel=5, shuffle=hdf5plugin.Blosc.BITSHUFFLE),
        "zstd": lambda: hdf5plugin.Zstd(clevel=3),
    }[codec]()


class HDF5(Contender):
    """A dataset; what is written is flushed to the file."""

    name = module = "h5py"
    own_files = True

    def lacks(self, case: Case, regime: str) -> str | None:
        if case.order == "F":
            return "its chunks have C order only"
        if regime == "vectorised points":
            return "it has no such selection"
        return super().lacks(case, regime)

    def make(self, case: Case, path: Path, rows: int | None = None) -> Any:
        shape = case.shape if rows is None else (rows, *case.shape[1:])
        maximum = (None,) * len(shape)
        filters = _filters(case.codec)
        file = h5py.File(path, "w")
        return file.create_dataset("a", shape, case.dtype, chunks=case.chunks, maxshape=maximum, **filters)

    def open(self, case: Case, path: Path) -> Any:
        return h5py.File(path, "r+")["a"]

    def close(self, array: Any) -> None:
        if array:
            array.file.close()

    def put(self, array: Any, key: Any, values: Values) -> None:
        array[key] = values
        array.file.flush()

    def append(self, array: Any, values: Values) -> None:
        rows = array.shape[0]
        self.resize(array, (rows + len(values), *array.shape[1:]))
        self.put(array, slice(rows, None), values)

    def resize(self, array: Any, shape: tuple[int, ...]) -> None:
        array.resize(shape)
        array.file.flush()

    def make_group(self, path: Path, count: int) -> None:
        with h5py.File(path, "w") as file:
            for number in range(count):
                file.create_dataset(f"a{number:05d}", (10,), "i4")

    def names(self, path: Path) -> int:
        with h5py.File(path) as file:
            return len(list(file))

    def arrays(self, path: Path) -> int:
        with h5py.File(path) as file:
            return sum(file[name].shape == (10,) for name in file)

    def member(self, path: Path, name: str) -> tuple[int, ...]:
        with h5py.File(path) as file:
            return file[name].shape
