"""h5py: a dataset in a file, which one process at a time may have open to write."""

from __future__ import annotations

from typing import Any

import h5py

from torture.libraries.interface import Library, Values


class HDF5(Library):
    """What is written is flushed to the file."""

    module = "h5py"
    layouts = ("own",)
    codecs = ("none", "gzip")
    lacks = ("writers",)

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        options = {"compression": "gzip"} if codec == "gzip" else {}
        with h5py.File(path, "x") as file:
            file.create_dataset("a", (length,), dtype, chunks=(chunk,), maxshape=(None,), **options)

    def open(self, path: str, layout: str) -> Any:
        return h5py.File(path, "r+")["a"]

    def close(self, node: Any) -> None:
        if node:
            node.file.close()

    def write(self, node: Any, selection: Any, values: Any) -> None:
        node[selection] = values
        node.file.flush()

    def append(self, node: Any, values: Values) -> None:
        rows = node.shape[0]
        node.resize((rows + len(values),))
        self.write(node, slice(rows, None), values)

    def resize(self, node: Any, length: int) -> None:
        node.resize((length,))
        node.file.flush()

    def set_attribute(self, node: Any, name: str, value: int) -> None:
        node.attrs[name] = value
        node.file.flush()
