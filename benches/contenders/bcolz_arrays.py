"""bcolz: a carray of one axis; two-dimensional cases are laid out flat, chunk lengths as long as their chunks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import bcolz
import numpy as np
from cases import Case, Values

from contenders.interface import Contender

CODECS = {
    "none": bcolz.cparams(clevel=0, shuffle=0, cname="lz4"),
    "lz4": bcolz.cparams(clevel=5, shuffle=1, cname="lz4"),
    "bzstd": bcolz.cparams(clevel=5, shuffle=2, cname="zstd"),
    "zstd": bcolz.cparams(clevel=1, shuffle=0, cname="zstd"),
    "zlib": bcolz.cparams(clevel=1, shuffle=0, cname="zlib"),
}
REGIMES = {
    "first read",
    "read",
    "write",
    "overwrite",
    "append",
    "points",
    "vectorised points",
    "open",
    "first open",
    "memory",
}


class Flat:
    """A carray that stands for an array of a case."""

    def __init__(self, carray: Any, shape: tuple[int, ...]) -> None:
        self.carray, self.shape = carray, shape


class Bcolz(Contender):
    """bcolz-zipline."""

    name = "bcolz"
    module = "bcolz-zipline"

    own_files = True

    def makes(self, case: Case) -> bool:
        return case.format != "bcolz"

    def lacks(self, case: Case, regime: str) -> str | None:
        if case.order == "F":
            return "its chunks have C order only"
        if regime == "element":
            return "it answers from the block it decoded last without a look at the file"
        return None if regime in REGIMES else "a carray has one axis"

    def make(self, case: Case, path: Path, rows: int | None = None) -> Flat:
        shutil.rmtree(path, ignore_errors=True)
        nothing = np.empty(0, case.dtype)
        length = int(np.prod(case.chunks))
        carray = bcolz.carray(nothing, rootdir=str(path), mode="w", chunklen=length, cparams=CODECS[case.codec])
        flat = Flat(carray, case.shape)
        if rows is None:
            # it has no chunks of nothing
            self.put(flat, ..., np.zeros(case.shape, case.dtype))
        return flat

    def open(self, case: Case, path: Path) -> Flat:
        return Flat(bcolz.carray(rootdir=str(path), mode="a"), case.shape)

    def reader(self, array: Flat) -> Any:
        get, shape = array.carray.__getitem__, array.shape
        if len(shape) == 1:
            return lambda key: get(slice(None) if key is ... else key[0])
        width = shape[1]
        return lambda key: get(slice(None)).reshape(shape) if key is ... else get(key[0] * width + key[1])

    def put(self, array: Flat, key: Any, values: Values) -> None:
        flat = values.reshape(-1)
        if len(array.carray):
            array.carray[:] = flat
        else:
            array.carray.append(flat)
        array.carray.flush()

    def points(self, array: Flat, axes: tuple[Values, ...]) -> Values:
        indices = axes[0] if len(axes) == 1 else axes[0] * array.shape[1] + axes[1]
        return array.carray[indices]

    def append(self, array: Flat, values: Values) -> None:
        array.carray.append(values.reshape(-1))
        array.carray.flush()
