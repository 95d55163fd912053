"""Filters and compressors have the names of the format."""

from __future__ import annotations

from typing import Any

import pytest
import zarr

import tegula

FILTERED = [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 3}]


@pytest.mark.parametrize(
    ("options", "filters", "compressors", "order"),
    [
        ({}, (), ("zstd",), "C"),
        ({"codecs": None}, (), (), "C"),
        ({"checksum": True}, (), ("zstd", "crc32c"), "C"),
        ({"order": "F"}, ("transpose",), ("zstd",), "F"),
        ({"shards": (4, 6), "codecs": ["gzip"]}, (), ("gzip",), "C"),
        ({"format": "zarr2"}, (), ("blosc",), "C"),
        ({"format": "zarr2", "codecs": None}, (), (), "C"),
        ({"format": "zarr2", "codecs": FILTERED}, ("delta",), ("zlib",), "C"),
        ({"format": "zarr2", "order": "F"}, (), ("blosc",), "F"),
        ({"format": "zarr1"}, (), ("blosc",), "C"),
        ({"format": "bcolz"}, (), ("blosc",), "C"),
    ],
)
def test_codecs_have_the_names_of_the_format(
    options: dict[str, Any], filters: tuple[str, ...], compressors: tuple[str, ...], order: str
) -> None:
    a = tegula.create_array({}, shape=(4, 6), chunks=(2, 6), dtype="i4", **options)
    key = "name" if a.format == "zarr3" else "id"
    assert tuple(codec[key] for codec in a.filters) == filters
    assert tuple(codec[key] for codec in a.compressors) == compressors
    assert a.order == order
    assert (a.compressor or {}).get(key) == (compressors[0] if compressors else None)
    # and they can be given to another array
    again = tegula.create_array(
        {}, shape=(4, 6), chunks=(2, 6), dtype="i4", format=a.format, order=a.order,
        codecs=[codec for codec in (*a.filters, *a.compressors) if codec[key] != "transpose"],
    )  # fmt: skip
    assert (again.filters, again.compressors, again.order) == (a.filters, a.compressors, a.order)


def test_zarr_2_filters_without_a_compressor() -> None:
    store: dict[str, Any] = {}
    zarr.create_array(zarr.storage.MemoryStore(), shape=3, dtype="i4", zarr_format=2, filters=None, compressors=None)
    tegula.create_array(store, shape=3, dtype="i4", format="zarr2", codecs=FILTERED)
    document = store[".zarray"].replace(b'"compressor": {', b'"compressor": null, "was": {')
    store[".zarray"] = document
    a = tegula.open_array(store)
    assert [codec["id"] for codec in a.filters] == ["delta"]
    assert (a.compressors, a.compressor) == ((), None)
