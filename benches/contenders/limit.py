"""The limit: what system calls, decoding and copying take by themselves, on the files of the other contenders.

For each row it lists the files to read and write, the chunks (or blocks of a Blosc chunk) to decode and encode, and the
bytes to copy; times each list in a loop on one thread; and divides the sum by the number of cores that the chunks of
one operation can use, in the mean of all operations. numcodecs decodes, and Python adds about a microsecond to each
call: it is no proven bound.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from cases import SHARD, Box, Case
from places import Place

from contenders.interface import Lacking

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Read = tuple[str, int, int]  # file, offset, size


def _points(points: list[tuple[int, ...]]) -> list[Box]:
    return [(row, row + 1, column, column + 1) for row, column in points]


BOXES: dict[str, Callable[[Case], list[Box]]] = {
    "first read": lambda case: [(0, case.shape[0], 0, case.shape[1])],
    "points": lambda case: _points(case.points(case.operations)),
    "element": lambda case: _points(case.points(1) * case.operations),
    "vectorised points": lambda case: _points(case.points(500)),
    "windows": lambda case: case.windows(case.operations),
    "four chunks": lambda case: case.fours(20),
    "columns": lambda case: [(0, case.shape[0], column, column + 1) for column in case.columns(2)],
    "update": lambda case: case.updates(case.changes),
    "open": lambda case: _points([(0, 0)]),
}


class Limit:
    """The runner of the limit."""

    name = "limit"

    def begin(self, regime: str, case: Case, place: Place) -> None:
        """List what the row needs."""
        if case.format in ("bcolz", "n5"):
            raise Lacking("it reads and writes Zarr's chunks only")
        if case.codec == "zlib":
            raise Lacking("numcodecs' zlib is slower than those of others")
        if regime.startswith("cold"):
            raise Lacking("it reads what is in memory")
        self.case, self.place, self.fresh = case, place, regime == "first read"
        self.single = self.fresh or regime == "shrink"
        self.document = ".zarray" if case.format == "zarr2" else "zarr.json"
        self.reads: list[Read] = []
        self.decodes: list[tuple[bytes, int, int]] = []  # a chunk, its first element that is needed, and how many
        self.encodes, self.copied, self.threads = 0, 0, 1.0
        self.writes: list[tuple[str, int]] = []  # file, size
        self.removed: list[str] = []
        self.chunk = np.ascontiguousarray(case.values()[tuple(slice(n) for n in case.chunks)])
        self._choose_codec()
        document = str(place.shared / self.document)
        self.chunks: dict[tuple[int, int], tuple[Read, bytes]] = {}
        files = sorted(path for path in place.shared.rglob("*") if path.is_file() and path.name != self.document)
        if regime in ("write", "overwrite", "append"):
            self.encodes, self.copied = int(np.prod(case.shape) / self.chunk.size), case.nbytes
            self.writes = [(f"{number % 64}", path.stat().st_size) for number, path in enumerate(files)]
            self.writes += [(self.document, 1000)] * (len(case.blocks()) if regime == "append" else 0)
            self.threads = min(CORES, len(files))
        elif regime in ("grow", "shrink"):
            times = 10 if regime == "grow" else 1
            self.reads, self.writes = [(document, 0, 1000)] * times, [(self.document, 1000)] * times
            if regime == "shrink":  # any half does
                self.removed = [os.path.relpath(path, place.shared) for path in files[::2]]
        else:
            counts = [
                self._add(box, whole=regime == "update")
                for box in BOXES["first read" if regime == "read" else regime](case)
            ]
            if regime == "vectorised points":
                counts = [sum(counts)]
            # cores share the chunks of one operation, not those of several, most of which have but one
            self.threads = sum(counts) / sum(count / min(CORES, count) for count in counts)
            if regime == "vectorised points":  # one read of a chunk, and one decoding of a block, serve several points
                self.reads = [*{read[:2]: read for read in self.reads}.values()]
                self.decodes = [*{(id(one[0]), self._block(*one[:2])): one for one in self.decodes}.values()]
        if regime == "update":
            self.encodes = len(self.decodes)
            self.writes = [("0", Path(path).stat().st_size) for path, _, _ in self.reads]
        elif regime == "open":
            self.reads.append((document, 0, 1000))
        elif self.fresh or regime == "read":
            self.reads = [(str(path), 0, path.stat().st_size) for path in files]  # shards as a whole
        self.room = np.zeros(max([2**20, *(job[-1] for job in [*self.reads, *self.writes])]), "u1")
        self.target = place.bare(self.name)

    def _choose_codec(self) -> None:
        from numcodecs import blosc, zstd  # the interpreter of a worker need not have them

        blosc.use_threads = False
        if self.case.codec == "zstd":
            self.decode: Callable[..., Any] = lambda data, *_: zstd.decompress(data)
            self.encode: Callable[[], Any] = lambda: zstd.compress(self.chunk, 3)
            return
        out, whole = np.empty(self.chunk.nbytes, "u1"), self.chunk.size
        settings = (b"lz4", 5, 1) if self.case.codec == "lz4" else (b"zstd", 5, 2)
        part = ctypes.CDLL(blosc.__file__).blosc_getitem  # numcodecs has it, and does not show it
        self.encode = lambda: blosc.compress(self.chunk, *settings)

        def decode(data: bytes, first: int, count: int) -> Any:
            return (
                blosc.decompress(data, out)
                if count == whole
                else part(data, first, count, ctypes.c_void_p(out.ctypes.data))
            )

        self.decode = decode

    def _locate(self, row: int, column: int) -> tuple[Read, bytes]:
        """Return where a chunk lies, and its bytes."""
        if (row, column) not in self.chunks:
            per_file = [a // b for a, b in zip(SHARD, self.case.chunks, strict=True)] if self.case.sharded else [1, 1]
            at = row // per_file[0], column // per_file[1]
            name = f"{at[0]}.{at[1]}" if self.case.format == "zarr2" else f"c/{at[0]}/{at[1]}"
            data, offset = (self.place.shared / name).read_bytes(), 0
            size = len(data)
            if self.case.sharded:
                index = np.frombuffer(data[-16 * per_file[0] * per_file[1] - 4 : -4], "<u8").reshape(*per_file, 2)
                offset, size = index[row % per_file[0], column % per_file[1]].tolist()
            read = str(self.place.shared / name), offset, size
            self.chunks[row, column] = read, b"" if self.case.codec == "none" else data[offset : offset + size]
        return self.chunks[row, column]

    def _add(self, box: Box, *, whole: bool) -> int:
        """Add what reading a box, or the whole chunks of it, takes; return the number of chunks."""
        (height, width), item = self.case.chunks, self.case.item
        rows, columns = range(box[0] // height, -(-box[1] // height)), range(box[2] // width, -(-box[3] // width))
        for row, column in product(rows, columns):
            # the part of the chunk, and its first and last elements in the order of memory
            top, bottom = max(box[0] - row * height, 0), min(box[1] - row * height, height)
            left, right = max(box[2] - column * width, 0), min(box[3] - column * width, width)
            first, last = top * width + left, (bottom - 1) * width + right
            if self.case.order == "F":
                first, last = left * height + top, (right - 1) * height + bottom
            if whole:
                first, last = 0, height * width
            (path, offset, size), data = self._locate(row, column)
            if self.case.codec == "none":
                offset, size = offset + first * item, (last - first) * item
            else:
                self.decodes.append((data, first, last - first))
                self.copied += (bottom - top) * (right - left) * item
            if self.case.codec in ("lz4", "bzstd"):
                size = self._needed(data, first, last)
            self.reads.append((path, offset, size))
        return len(rows) * len(columns)

    def _block(self, data: bytes, element: int) -> int:
        """Return the number of the Blosc block that holds an element; 0 where a chunk can't be decoded in part."""
        return element * self.case.item // int.from_bytes(data[8:12], "little") if self.case.codec != "zstd" else 0

    def _needed(self, data: bytes, first: int, last: int) -> int:
        """Return the bytes of the blocks of a Blosc chunk that hold some elements, as if all were of one length."""
        blocks = -(-int.from_bytes(data[4:8], "little") // int.from_bytes(data[8:12], "little"))
        touched = self._block(data, last - 1) - self._block(data, first) + 1
        return min(len(data), 16 + 4 * touched + len(data) * touched // blocks)

    def sample(self, times: int) -> float:
        """Return the seconds of a run: the sum of what is timed, for the threads that share it."""
        target = self.place.linked(self.name) if self.removed else self.target
        calls = [(path, [self.room[:size].data], offset) for path, offset, size in self.reads]
        writes = [(f"{target}/{name}", self.room[:size].data) for name, size in self.writes]
        start = time.perf_counter()
        for _ in range(times):
            for path, into, offset in calls:
                file = os.open(path, os.O_RDONLY)
                os.preadv(file, into, offset)
                os.close(file)
            for chunk in self.decodes:
                self.decode(*chunk)
            for _ in range(self.encodes if self.case.codec != "none" else 0):
                self.encode()
            result = np.empty(self.copied, "u1") if self.fresh else self.room
            for at in range(0, self.copied, 2**20):
                size = min(2**20, self.copied - at)
                result[at if self.fresh else 0 :][:size] = self.room[-size:]
            for path, data in writes:
                file = os.open(f"{target}/.limit", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.write(file, data)
                os.close(file)
                os.rename(f"{target}/.limit", path)
            for name in self.removed:
                os.unlink(f"{target}/{name}")
        return (time.perf_counter() - start) / times / self.threads

    def end(self) -> None:
        self.place.discard(self.name)

    def stop(self) -> None: ...
