"""zarrs bound to Python by zarrista, without zarr-python between; it needs Python 3.12."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarrista
from cases import Case, Values

from contenders.interface import Contender, Lacking


class Handle:
    """An array, which is another object after it has another shape."""

    def __init__(self, array: Any) -> None:
        self.array = array


class Zarrista(Contender):
    """zarrs without zarr-python. It replaces chunks in place."""

    name = module = "zarrista"

    def lacks(self, case: Case, regime: str) -> str | None:
        return None if case.format == "zarr3" else "it is compared on Zarr v3"

    def open(self, case: Case, path: Path) -> Any:
        return Handle(zarrista.Array.open(zarrista.store.FilesystemStore(str(path))))

    def reader(self, array: Any) -> Any:
        get = array.array.__getitem__

        def read(key: Any) -> Values:
            return np.asarray(get(key))

        return read

    def put(self, array: Any, key: Any, values: Values) -> None:
        array.array[key] = np.ascontiguousarray(values)

    def points(self, array: Any, axes: tuple[Values, ...]) -> Values:
        raise Lacking("it reads no points")

    def append(self, array: Any, values: Values) -> None:
        rows, *rest = array.array.shape
        self.resize(array, (rows + len(values), *rest))
        array.array[(slice(rows, rows + len(values)), *(slice(0, size) for size in rest))] = values

    def resize(self, array: Any, shape: tuple[int, ...]) -> None:
        if shape[0] < array.array.shape[0]:
            raise Lacking("it leaves the chunks of a smaller array where they are")
        array.array = array.array.with_shape([*shape])
        array.array.store_metadata()

    def shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.array.shape)
