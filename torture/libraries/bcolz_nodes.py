"""bcolz: carrays and ctables in directories."""

from __future__ import annotations

from typing import Any

import bcolz
import numpy as np

from torture.libraries.interface import Library, Values


class Bcolz(Library):
    """bcolz-zipline, flushing after each operation."""

    module = "bcolz-zipline"
    layouts = ("bcolz", "table")
    codecs = ("none", "lz4", "zstd")
    lacks = ("attributes",)

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        if layout == "table":
            columns = [np.zeros(length, dtype), np.zeros(length, "f8")]
            bcolz.ctable(columns, names=["x", "y"], rootdir=path, mode="w").flush()
            return
        names = {"none": ("lz4", 0), "lz4": ("lz4", 5), "zstd": ("zstd", 5)}
        cname, clevel = names[codec]
        cparams = bcolz.cparams(cname=cname, clevel=clevel)
        bcolz.carray(np.zeros(length, dtype), chunklen=chunk, cparams=cparams, rootdir=path, mode="w").flush()

    def open(self, path: str, layout: str) -> Any:
        return bcolz.open(path, mode="a")

    def read(self, node: Any, selection: Any = slice(None)) -> Values:
        if isinstance(node, bcolz.ctable):
            rows = node[:]
            if not (rows["y"] == rows["x"] / 2).all():
                raise ValueError("the columns of the table do not belong together")
            return np.asarray(rows["x"][selection])
        return super().read(node, selection)

    def write(self, node: Any, selection: Any, values: Any) -> None:
        node[selection] = values
        node.flush()

    def append(self, node: Any, values: Values) -> None:
        node.append([values, values / 2] if isinstance(node, bcolz.ctable) else values)
        node.flush()

    def resize(self, node: Any, length: int) -> None:
        node.resize(length)
        node.flush()
