"""Writes ``corpus/seeds.zip``: small arrays, tables and archives that tegula itself and `zipfile` make.

What other implementations wrote is in ``tests/fixtures``. Run it as ``python -m tests.fuzzing.generate_corpus`` after
adding a codec; the seeds of findings (``corpus/regressions``) hold their bytes themselves.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tegula
from tegula.errors import TegulaError

from .seeds import CORPUS

_SHUFFLES = {"shuffle": 0, "blocksize": 0}
_N5 = {name: name for name in ("none", "gzip", "zlib", "bz2", "lzma", "lz4", "zstd", "blosc")}
_V2 = {
    "blosc-lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "blosc-blosclz": {"id": "blosc", "cname": "blosclz", "clevel": 9, **_SHUFFLES},
    "blosc-zlib": {"id": "blosc", "cname": "zlib", "clevel": 1, **_SHUFFLES},
    "blosc-zstd": {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
    "blosc-lz4hc-blocks": {"id": "blosc", "cname": "lz4hc", "clevel": 5, "shuffle": 1, "blocksize": 128},
    "blosc-stored": {"id": "blosc", "cname": "lz4", "clevel": 0, **_SHUFFLES},
    "zlib": {"id": "zlib", "level": 1}, "gzip": {"id": "gzip", "level": 1}, "bz2": {"id": "bz2", "level": 1},
    "lzma": {"id": "lzma"}, "lzma-alone": {"id": "lzma", "format": 2},
    "lzma-raw": {"id": "lzma", "format": 3, "filters": [{"id": 33, "preset": 1}]},
    "lzma-no-check": {"id": "lzma", "check": 0},
    "zstd": {"id": "zstd", "level": 1}, "zstd-checksum": {"id": "zstd", "level": 1, "checksum": True},
    "lz4": {"id": "lz4", "acceleration": 1}, "crc32": {"id": "crc32"}, "adler32": {"id": "adler32"},
    "jenkins": {"id": "jenkins_lookup3"}, "fletcher32": {"id": "fletcher32"}, "base64": {"id": "base64"},
    "shuffle": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
    "delta": [{"id": "delta", "dtype": "<i4"}, {"id": "zstd", "level": 1}],
    "delta-lz4-crc": [{"id": "delta", "dtype": "<i4"}, {"id": "lz4", "acceleration": 1}, {"id": "crc32"}],
}  # fmt: skip
_BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}
_GZIP, _ZSTD = ({"name": name, "configuration": {"level": 1}} for name in ("gzip", "zstd"))
_CHECKED = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_V3 = {
    "blosc": [_BLOSC], "blosc-blocks": [{**_BLOSC, "configuration": {**_BLOSC["configuration"], "blocksize": 128}}],
    "gzip": [_GZIP], "zstd": [_ZSTD], "zstd-checksum": [_CHECKED], "crc32c": ["crc32c"],
    "zstd-crc32c": [_ZSTD, "crc32c"], "crc32c-blosc": ["crc32c", _BLOSC], "none": None,
    "pcodec": [{"name": "numcodecs.pcodec"}], "lzma-crc32c": [{"name": "numcodecs.lzma"}, "crc32c"],
}  # fmt: skip


def _shard(codecs: list[Any], inner: list[int], *, start: bool = False, index: Any = None) -> dict[str, Any]:
    index = [_LITTLE, {"name": "crc32c"}] if index is None else index
    place = "start" if start else "end"
    options = {"chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": place}
    return {"name": "sharding_indexed", "configuration": options}


_SHARDS = {
    "plain": _shard([_LITTLE], [3, 4]),
    "crc": _shard([_LITTLE, {"name": "crc32c"}], [3, 4]),
    "crc-start": _shard([_LITTLE, {"name": "crc32c"}], [3, 4], start=True),
    "zstd": _shard([_LITTLE, _ZSTD], [3, 4], index=[_LITTLE]),
    "blosc-start": _shard([_LITTLE, _BLOSC], [3, 4], start=True, index=[_LITTLE]),
    "gzip": _shard([_LITTLE, _GZIP], [2, 4]),
    "nested": _shard([_shard([_LITTLE, {"name": "crc32c"}], [3, 2])], [3, 4]),
    "nested-start": _shard([_shard([_LITTLE, _ZSTD], [1, 2], start=True)], [6, 4]),
    "nested-thrice": _shard([_shard([_shard([_LITTLE], [1, 1])], [3, 2])], [6, 4]),
}


def _numbers() -> Any:
    values = np.repeat(np.random.default_rng(1).integers(0, 2**12, 24), 4).astype("<i4").reshape(12, 8)
    values[6:, 4:] = 0  # an inner chunk that is missing
    return values


def _texts(case: str) -> Any:
    items = {
        "vlen-bytes": [b"a", b"", b"ccc"], "vlen-array": [np.arange(3, dtype="<i4"), np.arange(0, dtype="<i4")],
        "json2": ["a", {"b": [1, None]}, 2.5], "msgpack2": ["a", {"b": [1, None]}, b"c"],
    }.get(case, ["a", "", "cçc", "\U0001f40d"])  # fmt: skip
    return np.fromiter((items * 12)[:12], object, 12)


def _arrays() -> Iterator[tuple[str, dict[str, Any], Any]]:
    values = _numbers()
    some = {"shape": (12, 8), "dtype": "<i4", "chunks": (6, 8)}
    for name, codecs in _V2.items():
        yield f"v2-{name}", {**some, "format": "zarr2", "codecs": codecs}, values
        if not isinstance(codecs, list) and name.split("-")[0] in ("blosc", "zlib", "bz2", "lzma"):
            yield f"v1-{name}", {**some, "format": "zarr1", "codecs": codecs}, values
    for name, chain in _V3.items():
        yield f"v3-{name}", {**some, "codecs": chain}, values
    for name, shard in _SHARDS.items():
        yield f"v3-shards-{name}", {**some, "chunks": (6, 8), "codecs": [shard]}, values
    yield "v3-big-f", {**some, "dtype": ">f8", "order": "F", "codecs": [_GZIP]}, values
    yield "v3-ragged", {**some, "chunks": ([5, 7], [2, 6]), "codecs": [_ZSTD]}, values
    yield "v2-packbits", {**some, "dtype": "?", "format": "zarr2", "codecs": [{"id": "packbits"}]}, values % 2 == 0
    yield "v3-packbits", {**some, "dtype": "?", "codecs": [{"name": "packbits"}]}, values % 2 == 0
    yield "v3-bfloat16", {**some, "dtype": "bfloat16", "codecs": [_BLOSC]}, values
    for name, codecs in _N5.items():
        yield f"n5-{name}", {**some, "format": "n5", "codecs": codecs}, values
    yield "n5-edge", {**some, "chunks": (5, 3), "dtype": "<f8", "format": "n5"}, values
    yield "bcolz", {"shape": (12, 8), "dtype": "<i4", "chunks": (5, 8), "format": "bcolz"}, values
    for case, dtype, codecs in (
        ("vlen-utf8", str, []), ("vlen-utf8-zstd", str, [{"id": "zstd"}]), ("vlen-utf8-blosc", str, [{"id": "blosc"}]),
        ("vlen-utf8-lz4", str, [{"id": "lz4"}]), ("vlen-bytes", bytes, [{"id": "crc32"}]),
        ("vlen-array", object, [{"id": "vlen-array", "dtype": "<i4"}]), ("json2", object, [{"id": "json2"}]),
        ("msgpack2", object, [{"id": "msgpack2"}, {"id": "gzip", "level": 1}]),
    ):  # fmt: skip
        some = {"shape": 12, "chunks": 5, "dtype": dtype, "fill_value": None if dtype is object else dtype()}
        yield f"v2-{case}", {**some, "format": "zarr2", "codecs": codecs or None}, _texts(case)
        if dtype is not object:
            yield f"v3-{case}", {**some, "codecs": "zstd"}, _texts(case)


def _nodes() -> Iterator[tuple[str, tegula.MemoryStore]]:
    for name, options, values in _arrays():
        store = tegula.MemoryStore()
        try:
            tegula.create_array(store, attributes={"unit": "m"}, **options)[...] = values
        except TegulaError as error:
            print(f"left out {name}: {error}")
            continue
        yield name, store
    for form in ("zarr2", "zarr3", "n5"):
        store = tegula.MemoryStore()
        group = tegula.create_group(store, format=form, attributes={"title": "x"})
        group.create_group("a").create_array("b", shape=(3, 2), chunks=(2, 2), dtype="u1")[...] = 7
        group.create_array("c", shape=4, dtype="f4")[...] = 0.5
        if form != "n5":
            group.consolidate()
        yield f"group-{form}", store
    for form in ("bcolz", "zarr2", "zarr3"):
        store = tegula.MemoryStore()
        columns = {"n": np.arange(7), "x": np.linspace(0, 1, 7), "s": np.array([*"abcdefg"])}
        tegula.create_table(store, columns, format=form)
        yield f"table-{form}", store


def _archives() -> Iterator[tuple[str, bytes]]:
    _, store = next(_nodes())
    contents = {key: store.get(key) for key in sorted(store.list())}
    contents["é/x"] = b"1234" * 9
    with tempfile.TemporaryDirectory() as folder:
        for compression in ("stored", "deflated"):
            path = Path(folder) / f"{compression}.zip"
            with tegula.ZipStore(path, "w", compression=compression) as archive:
                for key, value in contents.items():
                    archive.set(key, value)
            yield f"tegula-{compression}.zip", path.read_bytes()
    for name, method, options in (
        ("stored", zipfile.ZIP_STORED, {}), ("deflated", zipfile.ZIP_DEFLATED, {}), ("bz2", zipfile.ZIP_BZIP2, {}),
        ("lzma", zipfile.ZIP_LZMA, {}), ("zip64", zipfile.ZIP_STORED, {"force_zip64": True}),
    ):  # fmt: skip
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", method) as archive:
            archive.comment = b"a comment" if name == "stored" else b""
            for key, value in contents.items():
                with archive.open(zipfile.ZipInfo(key, (2026, 1, 1, 0, 0, 0)), "w", **options) as member:
                    member.write(value)
        yield f"zipfile-{name}.zip", raw.getvalue()
    yield "shifted.zip", b"#!/bin/sh\n" + raw.getvalue()
    yield "empty.zip", b"PK\5\6" + bytes(18)


_MEMORY = {"driver": "memory", "path": "p/"}
_SPECS: list[tuple[str, Any]] = [
    ("Spec", {"driver": "zarr", "kvstore": _MEMORY, "metadata": {
        "zarr_format": 2, "shape": [5, 6], "chunks": [2, 3], "dtype": "<u2", "compressor": {"id": "zlib", "level": 1},
        "filters": None, "fill_value": 3, "order": "C", "dimension_separator": "/"}}),
    ("Spec", {"driver": "zarr3", "kvstore": _MEMORY, "metadata": {
        "zarr_format": 3, "node_type": "array", "shape": [5, 6], "data_type": "uint16", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}}, "attributes": {"a": 1},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": [_SHARDS["crc"]]},
        "transform": {"input_inclusive_min": [1, 0], "input_exclusive_max": [3, 4]}}),
    ("Spec", {"driver": "zarr3", "kvstore": "memory://x/", "schema": {
        "dtype": "float32", "domain": {"shape": [7, [3]], "labels": ["x", "y"]}, "fill_value": 1.5,
        "chunk_layout": {"chunk": {"shape": [3, 3]}, "inner_order": [1, 0]}, "dimension_units": ["m", [4, "nm"]],
        "codec": {"driver": "zarr3", "codecs": [_GZIP]}}}),
    ("Spec", {"driver": "zarr1", "kvstore": _MEMORY, "schema": {"dtype": "int8", "domain": {"shape": [4]}}}),
    ("Spec", {"driver": "bcolz", "kvstore": _MEMORY, "schema": {"dtype": "int8", "domain": {"shape": [4]}}}),
    ("Spec", {"driver": "array", "dtype": "int32", "array": [[1, 2], [3, 4]], "transform": {
        "input_shape": [2, 3], "output": [{"input_dimension": 0}, {"index_array": [[0, 1, 1]], "offset": 0,
        "stride": 1}]}}),
    ("Spec", {"driver": "cast", "dtype": "float64", "base": {"driver": "array", "dtype": "int32", "array": [1, 2, 3]}}),
    ("Spec", {"driver": "downsample", "downsample_factors": [2], "downsample_method": "mean", "base": {
        "driver": "array", "dtype": "float32", "array": [1, 2, 3, 4]}}),
    ("Spec", {"driver": "stack", "layers": [
        {"driver": "array", "dtype": "int32", "array": [1, 2], "transform": {"input_inclusive_min": [0],
        "input_shape": [2]}}, {"driver": "array", "dtype": "int32", "array": [3, 4],
         "transform": {"input_inclusive_min": [2], "input_shape": [2], "output": [{"input_dimension": 0,
         "offset": -2}]}}]}),
    ("Spec", {"driver": "json", "kvstore": {"driver": "memory", "path": "a.json"}, "json_pointer": "/a/0"}),
    ("Spec", {"driver": "auto", "kvstore": "memory://p/|zarr3:"}),
    ("Spec", {"driver": "zarr", "kvstore": {"driver": "file", "path": "/nowhere/x/"}, "context": {
        "cache_pool": {"total_bytes_limit": 1000}, "data_copy_concurrency": {"limit": 2}},
        "recheck_cached_data": "open"}),
    ("KvStore.Spec", {"driver": "memory", "path": "a/b", "context": {"memory_key_value_store": {}}}),
    ("KvStore.Spec", {"driver": "zip", "path": "x", "base": {"driver": "memory", "path": "a.zip"}}),
    ("KvStore.Spec", "file:///nowhere/a%20b.zip|zip:c/d"), ("KvStore.Spec", "memory://a/b"),
    ("IndexTransform", {"input_inclusive_min": [0, ["-inf"]], "input_exclusive_max": [4, ["+inf"]],
                        "input_labels": ["x", ""], "output": [{"offset": 3, "stride": -2, "input_dimension": 1},
                        {"index_array": [[1], [2], [3], [4]], "index_array_bounds": [0, 9]}, {"offset": 7}]}),
    ("IndexDomain", {"inclusive_min": [1, ["-inf"]], "shape": [4, ["+inf"]], "labels": ["x", "y"]}),
    ("Schema", {"rank": 2, "dtype": "uint8", "domain": {"shape": [10, 20]}, "dimension_units": ["4 nm", None],
                "chunk_layout": {"grid_origin": [0, 0], "write_chunk": {"elements": 100, "aspect_ratio": [1, 2]},
                                 "read_chunk": {"shape_soft_constraint": [5, 5]}}, "fill_value": [1]}),
    ("ChunkLayout", {"rank": 2, "inner_order_soft_constraint": [0, 1], "chunk": {"shape": [3, -1]}}),
    ("CodecSpec", {"driver": "zarr3", "codecs": [_SHARDS["nested"], {"name": "crc32c"}]}),
    ("CodecSpec", {"driver": "zarr", "compressor": _V2["blosc-lz4"], "filters": None}),
    ("Unit", [4.5, "nm"]), ("Unit", "12 nm"), ("Context", {"cache_pool": {"total_bytes_limit": 5}, "a": "cache_pool"}),
    ("OutputIndexMap", {"offset": 1, "stride": 2, "input_dimension": 0}), ("Dim", {"inclusive_min": 1, "size": 2}),
]  # fmt: skip


def main() -> None:
    """Write the archive; the same each time."""
    target = CORPUS / "seeds.zip"
    files: list[tuple[str, bytes]] = [("specs.json", json.dumps(_SPECS, indent=1).encode())]
    for name, store in _nodes():
        files += [(f"{name}/store/{key}", store.get(key)) for key in sorted(store.list())]
    files += [(f"archives/{name}", data) for name, data in _archives()]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    print(target, len(files), "files", target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
