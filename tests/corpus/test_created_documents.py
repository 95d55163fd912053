"""An array created with the arguments that a recorded document describes has that very document."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tegula
from tegula.arrays.creation import completing, new_array

FIXTURES = Path(__file__).parent.parent / "fixtures"


# What the arguments do not determine, or tegula writes differently on purpose.
OTHERWISE = {
    "zarr-1.1.0": {
        "dtype_M8",  # a time as text; we write the number
        "fill_wraps",  # a value that does not fit; we refuse it
        "order_f_zlib",  # zarr 1 writes F and stores C; we write what is stored
    },
    "zarr-2.18.7": {
        "comp_adler32",  # checksums in the place of the compressor; we list them with the filters
        "comp_crc32",
        "comp_jenkins",
        "resized",  # zarr 2 adds the default separator when it writes a document again
    },
    "zarr-3.1.6": {
        "dtype_bytes",  # registered as "bytes" since
        "dtype_structured",  # registered as "struct" since
        "fill_payload",  # a document that the generator has edited
        "group",
    },
}


def recorded(archive: str, name: str) -> list[Any]:
    with zipfile.ZipFile(FIXTURES / f"{archive}.zip") as opened:
        cases = {c["case"] for c in json.loads(opened.read("index.json"))["cases"] if c["kind"] == "array"}
        found = {case: f"{case}/store/{name}" for case in sorted(cases - OTHERWISE[archive])}
        return [pytest.param(opened.read(key), id=case) for case, key in found.items() if key in opened.namelist()]


def recorded_carrays() -> list[Any]:
    """What bcolz itself wrote for arrays: the two documents of each."""
    with zipfile.ZipFile(FIXTURES / "bcolz-zipline-1.13.0.zip") as opened:
        index = json.loads(opened.read("index.json"))
        cases = [c["case"] for c in index["cases"] if c["kind"] == "array" and not c["case"].startswith("hand_")]
        names = {case: [f"{case}/store/meta/{document}" for document in ("storage", "sizes")] for case in cases}
        read = {case: [opened.read(index["copies"].get(name, name)) for name in names[case]] for case in cases}
    return [pytest.param(*documents, id=case) for case, documents in read.items()]


def create(document: bytes, name: str, **options: Any) -> str:
    """Create an array with the shape, dtype and fill value of a document, and return its own document."""
    like = tegula.open_array({name: document}, allow_pickle=True)
    store: dict[str, bytes] = {}
    dtype = {"string": str, "bytes": bytes}.get(like.metadata.data_type.variable, like.dtype)
    tegula.create_array(store, shape=like.shape, dtype=dtype, fill_value=like.fill_value, format=like.format, **options)
    return bytes(store[name]).decode()


@pytest.mark.parametrize("document", recorded("zarr-1.1.0", "meta"))
def test_zarr1(document: bytes) -> None:
    meta = json.loads(document)
    options = meta["compression_opts"]
    codec = {"id": meta["compression"], **(options if isinstance(options, dict) else {"level": options})}
    codecs = None if meta["compression"] == "none" else codec
    assert create(document, "meta", chunks=meta["chunks"], order=meta["order"], codecs=codecs) == document.decode()


@pytest.mark.parametrize("document", recorded("zarr-2.18.7", ".zarray"))
def test_zarr2(document: bytes) -> None:
    meta = json.loads(document)
    codecs = [*(meta["filters"] or []), *([meta["compressor"]] if meta["compressor"] else [])]
    options = {"chunks": meta["chunks"], "order": meta["order"], "chunk_key_encoding": meta.get("dimension_separator")}
    made = create(document, ".zarray", codecs=codecs, allow_pickle=True, **options)
    assert made == document.decode()


@pytest.mark.parametrize("document", recorded("zarr-3.1.6", "zarr.json"))
def test_zarr3(document: bytes) -> None:
    meta = json.loads(document)
    made = create(
        document,
        "zarr.json",
        chunks=meta["chunk_grid"]["configuration"]["chunk_shape"],
        codecs=meta["codecs"],
        chunk_key_encoding=meta["chunk_key_encoding"],
        dimension_names=meta.get("dimension_names"),
        attributes=meta["attributes"],
    )
    assert made == document.decode()


@pytest.mark.slow
@pytest.mark.parametrize(("storage", "sizes"), recorded_carrays())
def test_bcolz(storage: bytes, sizes: bytes) -> None:
    meta, lengths = json.loads(storage), json.loads(sizes)
    like = tegula.open_array({"meta/storage": storage, "meta/sizes": sizes})
    codec = {"id": "blosc", **meta["cparams"]}
    digits = codec.pop("quantize")
    made = new_array(
        store := tegula.MemoryStore(),
        "",
        shape=like.shape,
        dtype=like.dtype,
        chunks=(meta["chunklen"], *like.shape[1:]),
        fill_value=like.fill_value,
        codecs=[{"id": "quantize", "digits": digits, "dtype": like.dtype.str}, codec] if digits else codec,
        format="bcolz",
        extra={"expectedlen": meta["expectedlen"]},
        filled=False,
    )
    with completing(made):  # as if all chunks had been written
        assert made.shape == like.shape
    assert store.get("meta/storage") == storage
    made_lengths = json.loads(store.get("meta/sizes") or b"")
    assert [*made_lengths] == [*lengths]
    assert {**made_lengths, "cbytes": lengths["cbytes"]} == lengths  # which counts in its own way
    assert store.get("__attrs__") == b"{}\n"
