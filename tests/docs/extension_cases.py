"""An array for each name of the Zarr extensions registry, and for names that other libraries use, and what reads it.

Run ``python -m tests.docs.extension_cases FOLDER`` to write the arrays into a folder; ``ask_peer.py`` beside this file
reads them with another library. Its answers are kept in ``extension_peers.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tegula
from tegula import config
from tegula.errors import TegulaError
from tegula.metadata.data_types import EXTENDED_DTYPES, as_data_type
from tegula.runtime import executors

__all__ = ["CASES", "Case", "outcome_of", "write_all"]

PEERS = Path(__file__).parent / "extension_peers.json"


class Case(NamedTuple):
    """An array that has an extension.

    Parameters
    ----------
    kind, name : str
        The extension point, and the name of the extension.
    options : dict
        How `tegula.create_array` makes the array.
    document : dict
        Members of the document to replace, where tegula reads a form that it does not choose itself; with ``None``
        the array is made by hand.
    """

    kind: str
    name: str
    options: dict[str, Any]
    document: dict[str, Any]


def _data_type(name: str, **options: Any) -> Case:
    return Case("data type", name, {"dtype": name, **options}, {})


def _codec(name: str, *codecs: Any, **options: Any) -> Case:
    return Case("codec", name, {"dtype": "int32", "codecs": [*codecs], **options}, {})


_SMALL = (
    "bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_NUMBERS = [f"{sign}{bits}" for sign in ("int", "uint") for bits in (2, 4, 8, 16, 32, 64)]
_UNITS = {"unit": "s", "scale_factor": 10}
_FIELDS = [{"name": "x", "data_type": "int16"}, {"name": "y", "data_type": "float32"}]
_SHARDS = {
    "name": "sharding_indexed", "chunk_shape": [2, 2], "codecs": ["bytes", "zstd"],
    "index_codecs": ["bytes", "crc32c"],
}  # fmt: skip
_CAST = {"name": "cast_value", "data_type": "int16"}

CASES: list[Case] = [
    *(_data_type(name) for name in ("bool", *_NUMBERS, "float16", "float32", "float64", *_SMALL)),
    *(_data_type(name) for name in ("complex64", "complex128", "complex_float32", "complex_float64")),
    *(_data_type(f"complex_{name}") for name in ("float16", *_SMALL)),
    _data_type("r16", fill_value=b"\1\2"),
    _data_type("string", fill_value=""),
    _data_type("bytes", fill_value=b""),
    Case("data type", "fixed_length_utf32", {"dtype": "U4"}, {}),
    Case("data type", "numpy.datetime64", {"dtype": {"name": "numpy.datetime64", "configuration": _UNITS}}, {}),
    Case("data type", "numpy.timedelta64", {"dtype": {"name": "numpy.timedelta64", "configuration": _UNITS}}, {}),
    Case("data type", "struct", {"dtype": {"name": "struct", "configuration": {"fields": _FIELDS}}}, {}),
    Case("data type", "structured", {"dtype": {"name": "structured", "configuration": {"fields": [
        ["x", "int16"], ["y", "float32"]]}}}, {}),
    Case("data type", "zarrs.optional", {"dtype": {
        "name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}}}, {}),
    _codec("bytes", "bytes"),
    _codec("packbits", {"name": "packbits"}),
    _codec("sharding_indexed", _SHARDS, chunks=(4, 4)),
    _codec("vlen-bytes", "vlen-bytes", dtype="bytes", fill_value=b""),
    _codec("vlen-utf8", "vlen-utf8", dtype="string", fill_value=""),
    _codec("zfp", {"name": "zfp", "mode": "reversible"}),
    _codec("bitround", {"name": "bitround", "keepbits": 8}, "bytes", dtype="float32"),
    _codec("cast_value", _CAST, "bytes"),
    _codec("reshape", {"name": "reshape", "shape": [[0, 1]]}, "bytes"),
    _codec("scale_offset", {"name": "scale_offset", "offset": 2, "scale": 2}, "bytes", dtype="float64"),
    _codec("transpose", {"name": "transpose", "order": [1, 0]}, "bytes"),
    _codec("blosc", "bytes", "blosc"),
    _codec("conditional", "bytes", {"name": "conditional", "codecs": ["zstd"]}),
    _codec("crc32c", "bytes", "crc32c"),
    _codec("gzip", "bytes", "gzip"),
    _codec("zstd", "bytes", "zstd"),
    Case("codec", "n5_default", {}, {"chunk_key_encoding": {"name": "v2"}, "codecs": [
        {"name": "n5_default", "configuration": {"codecs": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "gzip", "configuration": {"level": 1}}]}}]}),
    Case("codec", "vlen-array", {"dtype": "string", "fill_value": ""}, {"codecs": [{"name": "vlen-array"}]}),
    Case("codec", "zarrs.vlen_v2", {"dtype": "string", "fill_value": ""}, {"codecs": [{"name": "zarrs.vlen_v2"}]}),
    _codec("zarrs.squeeze", {"name": "zarrs.squeeze"}, "bytes", chunks=(1, 4)),
    Case("chunk grid", "regular", {"dtype": "int32"}, {}),
    Case("chunk grid", "rectilinear", {"dtype": "int32", "chunks": ([1, 3], [2, 2])}, {}),
    Case("chunk grid", "zarrs.regular_bounded", {"dtype": "int32", "chunks": ([3, 1], [3, 1])}, {
        "chunk_grid": {"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": [3, 3]}}}),
    Case("chunk key encoding", "default", {"dtype": "int32"}, {}),
    Case("chunk key encoding", "v2", {"dtype": "int32", "chunk_key_encoding": {"name": "v2"}}, {}),
    Case("chunk key encoding", "suffix", {"dtype": "int32", "chunk_key_encoding": {
        "name": "suffix", "configuration": {"suffix": ".bin"}}}, {}),
    Case("chunk key encoding", "zarrs.default_suffix", {"dtype": "int32", "chunk_key_encoding": {
        "name": "suffix", "configuration": {"suffix": ".bin"}}}, {"chunk_key_encoding": {
            "name": "zarrs.default_suffix", "configuration": {"separator": "/", "suffix": ".bin"}}}),
    Case("chunk key encoding", "fanout", {"dtype": "int32", "chunk_key_encoding": {"name": "fanout"}}, {}),
    Case("extra member", "must_understand: false", {"dtype": "int32"}, {"extra": {"must_understand": False}}),
]  # fmt: skip


def _values(dtype: np.dtype[Any], name: str) -> Any:
    """Return elements that all codecs store exactly."""
    numbers = np.array([[1, 0, 1, 2], [2, 1, 1, 0], [1, 2, 2, 2], [0, 1, 0, 1]])
    if name == "string":
        return np.array([["a", "", "cé", "d"]] * 4, object)
    if dtype.hasobject:
        return np.array([[b"a", b"", b"cc", b"d"]] * 4, object)
    if dtype.kind == "V" and dtype.names is None and dtype not in EXTENDED_DTYPES:
        return numbers.astype("<u2").view(dtype)
    if dtype.kind == "U":
        return numbers.astype(dtype)
    if dtype.names is not None:
        values = np.zeros((4, 4), dtype)
        for field in dtype.names:
            values[field] = (numbers % 2 + 1).astype(dtype[field])
        return values
    return (numbers % 2 if dtype.name in ("int2", "float8_e8m0fnu") else numbers).astype(dtype)


def _made(case: Case) -> tegula.MemoryStore | None:
    """Return a store with the array of a case; ``None`` if tegula can't write it."""
    store = tegula.MemoryStore()
    if not case.options:
        tegula.create_array(store, shape=(4, 4), dtype="int32")
    else:
        try:
            options = {"chunks": (2, 4), "codecs": None, **case.options}
            dtype = as_data_type(options["dtype"])
            array = tegula.create_array(store, shape=(4, 4), **options)
            array[...] = _values(dtype.numpy, case.name if case.name in ("string", "bytes") else dtype.variable)
        except TegulaError:
            return None
    if case.document:
        document = json.loads(store.get("zarr.json") or b"")
        store.set("zarr.json", json.dumps({**document, **case.document}).encode())
    return store


def _same(one: Any, two: Any) -> bool:
    if one.dtype.hasobject or one.dtype.kind == "T":
        return bool(one.tolist() == two.tolist())
    return bool(one.tobytes() == two.tobytes())


def outcome_of(case: Case) -> tuple[str, str]:
    """Return whether tegula reads and writes the array of a case, and which executors do."""
    store = _made(case)
    if store is None:
        return "no", "—"
    try:
        array = tegula.open_array(store, mode="r+")
        before = array[...]
        array[...] = before
        assert _same(tegula.open_array(store)[...], before)
    except TegulaError:
        return "no", "—"
    found = []
    for executor in ("kernel", "reference") if executors.kernel() is not None else ("reference",):
        with config.configure(executor=executor):
            assert _same(tegula.open_array(store)[...], before)
        found.append(executor)
    native = "kernel" in found and array.stored.chain.native is not None and not array.metadata.keys.digits
    return "reads, writes", "kernel" if native else "reference"


def write_all(folder: Path) -> None:
    """Write the arrays into a folder, with ``index.json``: names, and what a reader must return."""
    index = []
    for number, case in enumerate(CASES):
        store = _made(case)
        if store is None:
            continue
        for key in store.list():
            path = folder / str(number) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.get(key) or b"")
        entry: dict[str, Any] = {"folder": str(number), "kind": case.kind, "name": case.name, "values": None}
        try:
            values = tegula.open_array(store)[...]
            if values.dtype.hasobject or values.dtype.kind == "T":
                texts = [each.decode() if isinstance(each, bytes) else str(each) for each in values.ravel().tolist()]
                entry["values"] = {"texts": texts}
            else:
                plain = values.astype(values.dtype.newbyteorder("<"), copy=False)
                entry["values"] = {"bytes": plain.tobytes().hex()}
        except TegulaError:
            pass
        index.append(entry)
    (folder / "index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
