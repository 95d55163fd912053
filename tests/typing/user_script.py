"""A script as a user writes it: type-checked with ``mypy --strict`` and run by ``test_typing.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tegula


class CountingStore(tegula.MemoryStore):
    """A user's store that counts reads."""

    reads = 0

    def size(self, key: str) -> int | None:
        self.reads += 1
        return super().size(key)


def means(a: tegula.Array) -> Iterator[float]:
    for region in a.iter_chunks():
        block = a[region]
        yield float(block.mean())


def temperatures(folder: Path) -> npt.NDArray[np.float64]:
    a = tegula.create_array(folder / "air.zarr", shape=(0, 4), dtype="f8", chunks=(2, 4), fill_value=np.nan)
    shape: tuple[int, ...] = a.append(np.arange(12.0).reshape(3, 4))
    a[0, 1:3] = 5
    a.attrs["units"] = "K"
    a.update_attributes({"scale": 2}).attrs.update(offset=0.5)
    units: str = a.attrs["units"]
    assert (shape, units, a.nchunks, a.itemsize) == ((3, 4), "K", 2, 8)
    b = tegula.open(folder / "air.zarr")
    assert b[1:, 2].shape == (2,)
    return np.asarray(tegula.open_array(folder / "air.zarr")[:], np.float64)


def hierarchy(folder: Path) -> list[str]:
    with tegula.create_group(folder / "all.zarr", attributes={"title": "everything"}) as g:
        g["x"] = [1, 2, 3]
        y = g.require_array("era/y", shape=(4,), dtype="i4")
        y[...] = 7
        era = g.require_group("era")
        era.create_array("z", data=np.ones((2, 2)), chunks=(1, 2))
        g.copy("era", "copies/era")
        g.move("x", "old/x")
        first: int = int(g["old/x"][0])
        assert first == 1
        return [path for path, _ in g.walk()]


def table(folder: Path) -> float:
    t = tegula.create_table(folder / "prices.bcolz", {"day": [1, 2], "price": [10.5, 11.0]})
    rows: int = t.append({"day": [3], "price": [12.0]})
    dear = t.where("price > limit", variables={"limit": 10.8})
    column = t["price"]
    assert (rows, len(t), column.dtype.kind, t[:2].shape) == (3, 3, "f", (2,))
    return float(dear["price"].sum() + column[0])


def background(folder: Path) -> int:
    counting = CountingStore()
    a = tegula.zeros((100,), store=counting, chunks=10, dtype="i8")
    future: tegula.Future[None] = a.write(slice(0, 50), 1)
    future.result()
    total = int(a.read().result().sum())
    mapping: MutableMapping[str, bytes] = {}
    tegula.array(a, store=mapping)
    report: tegula.ConvertReport = tegula.convert(counting, folder / "converted.bcolz")
    tegula.copy(counting, folder / "copied.zarr", overwrite=True)
    try:
        tegula.open_group(folder / "missing")
    except tegula.NotFoundError as error:
        print(error.path)
    return total if report.ok and tegula.check(folder / "copied.zarr").ok and counting.reads else 0


if __name__ == "__main__":
    here = Path(sys.argv[1])
    print(temperatures(here).sum(), sum(means(tegula.open_array(here / "air.zarr"))))
    print(*hierarchy(here))
    print(table(here), background(here))
