"""python-blosc2: the same values, chunks and codecs in a contiguous frame of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blosc2
import numpy as np
from cases import Case, Values

from contenders.interface import Contender

CODECS = {
    "none": (blosc2.Codec.LZ4, 0, blosc2.Filter.NOFILTER),
    "lz4": (blosc2.Codec.LZ4, 5, blosc2.Filter.SHUFFLE),
    "bzstd": (blosc2.Codec.ZSTD, 5, blosc2.Filter.BITSHUFFLE),
    "zstd": (blosc2.Codec.ZSTD, 1, blosc2.Filter.NOFILTER),
    "zlib": (blosc2.Codec.ZLIB, 1, blosc2.Filter.NOFILTER),
}


class Blosc2(Contender):
    """A `blosc2.NDArray` in a file."""

    name = module = "blosc2"
    own_files = True

    def lacks(self, case: Case, regime: str) -> str | None:
        return "its chunks have C order only" if case.order == "F" else super().lacks(case, regime)

    def make(self, case: Case, path: Path, rows: int | None = None) -> Any:
        codec, level, filter = CODECS[case.codec]
        shape = case.shape if rows is None else (rows, *case.shape[1:])
        cparams = {"codec": codec, "clevel": level, "filters": [filter]}
        dtype = np.dtype(case.dtype)
        return blosc2.empty(shape, dtype=dtype, chunks=case.chunks, urlpath=str(path), mode="w", cparams=cparams)

    def open(self, case: Case, path: Path) -> Any:
        return blosc2.open(str(path), mode="a")

    def points(self, array: Any, axes: tuple[Values, ...]) -> Values:
        return array[axes]

    def append(self, array: Any, values: Values) -> None:
        rows = array.shape[0]
        array.resize((rows + len(values), *array.shape[1:]))
        array[rows:] = values
