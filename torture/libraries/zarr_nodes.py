"""zarr-python: version 3, version 3 with the codec pipeline of zarrs, and version 2 under an interpreter of its own."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numcodecs
import zarr

from torture.libraries.interface import Lacking, Library, Values, inner_chunk

warnings.simplefilter("ignore")


def _v2_compressor(codec: str) -> Any:
    return {
        "none": None,
        "lz4": numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1),
        "zstd": numcodecs.Zstd(level=3),
        "gzip": numcodecs.GZip(level=5),
    }[codec]


class _ZarrPython(Library):
    module = "zarr"

    def open(self, path: str, layout: str) -> Any:
        return zarr.open_array(path, mode="r+")

    def append(self, node: Any, values: Values) -> None:
        node.append(values)


class Zarr3(_ZarrPython):
    """zarr-python as installed here."""

    layouts = ("zarr3", "zarr2", "shard")
    codecs = ("none", "lz4", "zstd", "gzip", "crc32c")

    def __init__(self) -> None:
        if int(zarr.__version__.split(".")[0]) < 3:
            raise Lacking("zarr-python 3 is not installed")

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        options: dict[str, Any] = {"zarr_format": 3, "chunks": (chunk,)}
        if layout == "zarr2":
            options.update(zarr_format=2, compressors=_v2_compressor(codec))
        else:
            options["compressors"] = {
                "none": None,
                "lz4": zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2),
                "zstd": zarr.codecs.ZstdCodec(level=3),
                "gzip": zarr.codecs.GzipCodec(level=5),
                "crc32c": zarr.codecs.Crc32cCodec(),
            }[codec]
        if layout == "shard":
            options.update(chunks=(inner_chunk(chunk),), shards=(chunk,))
        zarr.create_array(path, shape=(length,), dtype=dtype, **options)

    def resize(self, node: Any, length: int) -> None:
        node.resize((length,))


class Zarrs(Zarr3):
    """zarr-python with the codec pipeline of zarrs."""

    module = "zarrs"
    layouts = ("zarr3", "zarr2", "shard")

    def __init__(self) -> None:
        super().__init__()
        import_module("zarrs")
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})


class Zarr2(_ZarrPython):
    """zarr-python 2."""

    layouts = ("zarr2",)

    def __init__(self) -> None:
        if int(zarr.__version__.split(".")[0]) != 2:
            raise Lacking("zarr-python 2 is not installed")

    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        zarr.create(
            (length,), chunks=(chunk,), dtype=dtype, compressor=_v2_compressor(codec), store=zarr.DirectoryStore(path),
            fill_value=0,
        )  # fmt: skip


class LockedZarr2(Zarr2):
    """With its locks between processes."""

    def open(self, path: str, layout: str) -> Any:
        return zarr.open_array(path, mode="r+", synchronizer=zarr.ProcessSynchronizer(path + ".sync"))
