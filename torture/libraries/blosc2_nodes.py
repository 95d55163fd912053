"""python-blosc2: arrays in contiguous frames of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from torture.libraries.interface import Lacking, Library, Values

_CODECS = {
    "none": (blosc2.Codec.LZ4, 0),
    "lz4": (blosc2.Codec.LZ4, 5),
    "zstd": (blosc2.Codec.ZSTD, 5),
    "gzip": (blosc2.Codec.ZLIB, 5),
}


class Blosc2(Library):
    """A `blosc2.NDArray` in a file."""

    module = "blosc2"
    layouts = ("own",)

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        if Path(path).exists():
            raise FileExistsError(path)
        code, level = _CODECS[codec]
        cparams = {"codec": code, "clevel": level}
        blosc2.zeros((length,), dtype=np.dtype(dtype), chunks=(chunk,), urlpath=path, mode="w", cparams=cparams)

    def open(self, path: str, layout: str) -> Any:
        return blosc2.open(path, mode="a")

    def append(self, node: Any, values: Values) -> None:
        rows = node.shape[0]
        node.resize((rows + len(values),))
        node[rows:] = values

    def resize(self, node: Any, length: int) -> None:
        node.resize((length,))

    def set_attribute(self, node: Any, name: str, value: int) -> None:
        node.schunk.vlmeta[name] = value

    def attributes(self, node: Any) -> dict[str, Any]:
        found = node.schunk.vlmeta.getall()
        if not isinstance(found, dict):
            raise Lacking("its attributes can't be listed")
        return {name.decode() if isinstance(name, bytes) else name: value for name, value in found.items()}
