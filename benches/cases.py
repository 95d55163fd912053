"""The arrays that the regimes work on, and their metadata documents."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]
Box = tuple[int, int, int, int]  # rows from, to, columns from, to

CHUNKS = {  # lengths of a chunk along both axes, for elements of two and of four bytes
    "8k": {2: (64, 64), 4: (64, 32)},
    "128k": {2: (256, 256), 4: (256, 128)},
    "2m": {2: (1024, 1024), 4: (1024, 512)},
    "32m": {2: (4096, 4096), 4: (4096, 2048)},
}
SHARD = (2048, 2048)  # 8 MiB of two bytes
ZARR2_CODECS: dict[str, Any] = {
    "none": None,
    "lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "bzstd": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0},
    "zstd": {"id": "zstd", "level": 3},
    "zlib": {"id": "zlib", "level": 1},
}
N5_CODECS: dict[str, dict[str, Any]] = {
    "none": {"type": "raw"},
    "zlib": {"type": "gzip", "level": 1, "useZlib": False},
    **{
        name: {"type": codec["id"], **{option: value for option, value in codec.items() if option != "id"}}
        for name, codec in ZARR2_CODECS.items()
        if name in ("lz4", "bzstd", "zstd")
    },
}
# how many single operations a run has: a chunk of 32 MiB takes tens of milliseconds where it is decoded as a whole
OPERATIONS = {"8k": 200, "128k": 200, "2m": 40, "32m": 6}


def _zarr3_codecs(codec: str, item: int) -> list[dict[str, Any]]:
    blosc = {"typesize": item, "clevel": 5, "blocksize": 0}
    compressors: dict[str, tuple[str, dict[str, Any]]] = {
        "lz4": ("blosc", {**blosc, "cname": "lz4", "shuffle": "shuffle"}),
        "bzstd": ("blosc", {**blosc, "cname": "zstd", "shuffle": "bitshuffle"}),
        "zstd": ("zstd", {"level": 3, "checksum": False}),
        "zlib": ("gzip", {"level": 1}),
    }
    chosen = [compressors[codec]] if codec != "none" else []
    return [{"name": n, "configuration": c} for n, c in [("bytes", {"endian": "little"}), *chosen]]


@lru_cache(maxsize=1)
def _values(dtype: str, shape: tuple[int, ...]) -> Values:
    rng = np.random.default_rng(1)
    count = int(np.prod(shape))
    if dtype == "f4":
        return rng.standard_normal(count, dtype="f4").reshape(shape)
    return rng.integers(-3, 4, count, dtype="i4").cumsum().astype(dtype).reshape(shape)


@dataclass(frozen=True)
class Case:
    """An array: its format, chunks, codec, type and order."""

    format: str
    chunk: str
    codec: str
    dtype: str = "u2"
    order: str = "C"
    sharded: bool = False
    quick: bool = False

    @property
    def name(self) -> str:
        family = {"zarr2": "v2", "zarr3": "v3"}.get(self.format, self.format) + ("s" if self.sharded else "")
        return "-".join([family, self.chunk, self.codec, self.dtype, *("F" if self.order == "F" else "")])

    @property
    def item(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes: 128 MiB in all where libraries do gigabytes a second, else 32, and 8 in small files."""
        side = 4096
        if self.chunk == "32m":  # two chunks
            return (2 * side, side * 2 // self.item)
        if self.chunk == "8k" and not self.sharded:
            side = 2048
        elif self.codec in ("none", "lz4") and self.dtype == "u2" and self.order == "C" and not self.sharded:
            side = side if self.quick else 8192
        if self.format == "bcolz":
            return (side * side * 2 // self.item,)
        return (side, side * 2 // self.item)

    @property
    def chunks(self) -> tuple[int, ...]:
        rows, columns = CHUNKS[self.chunk][self.item]
        return (rows * columns,) if self.format == "bcolz" else (rows, columns)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.item

    @property
    def operations(self) -> int:
        return OPERATIONS[self.chunk]

    @property
    def changes(self) -> int:
        """How many updates a run has: few in shards, which most libraries write anew for each."""
        return max(4, self.operations // (20 if self.sharded else 4))

    def values(self) -> Values:
        """Return a random walk, which compresses two to three times, or noise."""
        return _values(self.dtype, self.shape)

    def documents(self, rows: int | None = None) -> dict[str, bytes]:
        """Return the metadata documents of the array, or of one with `rows` rows."""
        shape = list(self.shape if rows is None else (rows, *self.shape[1:]))
        if self.format == "zarr2":
            document = {
                "zarr_format": 2,
                "shape": shape,
                "chunks": list(self.chunks),
                "dtype": np.dtype(self.dtype).str,
                "compressor": ZARR2_CODECS[self.codec],
                "fill_value": 0,
                "order": self.order,
                "filters": None,
            }
            return {".zarray": json.dumps(document).encode()}
        if self.format == "n5":
            document = {
                "n5": "2.0.0",
                "dimensions": shape[::-1],
                "blockSize": list(self.chunks[::-1]),
                "dataType": np.dtype(self.dtype).name,
                "compression": N5_CODECS[self.codec],
            }
            return {"attributes.json": json.dumps(document).encode()}
        codecs = _zarr3_codecs(self.codec, self.item)
        if self.sharded:
            index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
            inner = {"chunk_shape": list(self.chunks), "codecs": codecs, "index_codecs": index, "index_location": "end"}
            codecs = [{"name": "sharding_indexed", "configuration": inner}]
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": np.dtype(self.dtype).name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(SHARD if self.sharded else self.chunks)},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": codecs,
            "attributes": {},
        }
        return {"zarr.json": json.dumps(document).encode()}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    # where the operations happen, the same for everyone

    def points(self, count: int) -> list[tuple[int, ...]]:
        rng = np.random.default_rng(2)
        return [tuple(point) for point in rng.integers(0, self.shape, (count, len(self.shape))).tolist()]

    def windows(self, count: int, side: int = 32) -> list[Box]:
        """Return squares anywhere."""
        rng = np.random.default_rng(3)
        corners = rng.integers(0, np.array(self.shape) - side, (count, 2)).tolist()
        return [(row, row + side, column, column + side) for row, column in corners]

    def updates(self, count: int, side: int = 32) -> list[Box]:
        """Return squares within chunks."""
        rng = np.random.default_rng(4)
        cells = rng.integers(0, np.array(self.shape) // self.chunks, (count, 2))
        corners = (cells * self.chunks + rng.integers(0, np.array(self.chunks) - side + 1, (count, 2))).tolist()
        return [(row, row + side, column, column + side) for row, column in corners]

    def fours(self, count: int) -> list[Box]:
        """Return boxes of two by two whole chunks."""
        rng = np.random.default_rng(5)
        height, width = self.chunks
        cells = rng.integers(0, np.array(self.shape) // self.chunks - 1, (count, 2)).tolist()
        return [(r * height, (r + 2) * height, c * width, (c + 2) * width) for r, c in cells]

    def columns(self, count: int) -> list[int]:
        return np.random.default_rng(6).integers(0, self.shape[-1], count).tolist()

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first and last row of each append: an eighth of the array, or a row of chunks if that is more."""
        step = max(self.shape[0] // 8, SHARD[0] if self.sharded else self.chunks[0])
        return [(start, start + step) for start in range(0, self.shape[0], step)]


def box_key(box: Box) -> tuple[slice, slice]:
    return slice(box[0], box[1]), slice(box[2], box[3])


def all_cases() -> list[Case]:
    """Return every case of the benchmark."""
    codecs = ["none", "lz4", "bzstd", "zstd", "zlib"]
    found = [Case("zarr2", chunk, codec) for chunk in CHUNKS for codec in codecs if (chunk, codec) != ("32m", "zlib")]
    found += [Case("zarr2", chunk, codec, "f4") for chunk in ("128k", "2m") for codec in ("lz4", "zstd")]
    found += [Case("zarr2", chunk, "lz4", order="F") for chunk in ("128k", "2m")]
    found += [Case("zarr3", *rest) for rest in [("8k", "lz4"), ("128k", "lz4"), ("128k", "zlib"), ("2m", "zstd")]]
    found += [
        Case("zarr3", *rest, sharded=True)
        for rest in [("8k", "lz4"), ("8k", "zstd"), ("128k", "lz4"), ("128k", "zstd"), ("128k", "none")]
    ]
    found += [Case("n5", *rest) for rest in [("8k", "lz4"), ("2m", "zstd")]]
    found += [Case("n5", "128k", codec) for codec in ("none", "lz4", "zlib")]
    found += [Case("bcolz", *rest) for rest in [("8k", "lz4"), ("128k", "lz4"), ("128k", "zstd"), ("2m", "lz4")]]
    return found


QUICK = {
    "v2-8k-lz4-u2",
    "v2-128k-none-u2",
    "v2-128k-lz4-u2",
    "v2-128k-zlib-u2",
    "v2-2m-bzstd-u2",
    "v2-2m-lz4-f4",
    "v2-128k-lz4-u2-F",
    "v3-128k-lz4-u2",
    "v3s-8k-lz4-u2",
    "v3s-128k-zstd-u2",
    "n5-128k-none-u2",
    "n5-128k-zlib-u2",
    "bcolz-128k-lz4-u2",
}


def cases(quick: bool) -> list[Case]:
    """Return all cases, or a few of them with smaller arrays."""
    if not quick:
        return all_cases()
    return [Case(**{**case.as_json(), "quick": True}) for case in all_cases() if case.name in QUICK]
