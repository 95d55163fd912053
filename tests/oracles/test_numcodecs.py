"""The chunks of Zarr v1 and v2 are, byte for byte, what numcodecs' own codecs return."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numcodecs
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config


def encode(chunk: np.ndarray[Any, Any], filters: list[Any], compressors: list[Any], order: str) -> bytes:
    """Encode as zarr 2 does: the filters see the chunk as it is, the compressor the memory in the array's order."""
    value: Any = np.asarray(chunk, order=order)
    if filters:
        value = value.ravel(order="A")
    for codec in [*filters, *compressors]:
        value = numcodecs.get_codec({**codec}).encode(value)
    return value.tobytes(order="A") if isinstance(value, np.ndarray) else bytes(value)


def same_libraries(codecs: str) -> AbstractContextManager[Any]:
    """Let the executor write that uses the libraries of numcodecs, where the kernel's make other bytes."""
    other = any(name in codecs for name in ("zlib", "gzip", "zstd"))
    return config.configure(executor="reference") if other else nullcontext()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_chunks_of_zarr2(cases: Callable[..., st.SearchStrategy[Any]], data: st.DataObject) -> None:
    case = data.draw(cases(formats=("zarr2",)))
    store: dict[str, bytes] = {}
    with same_libraries(repr(case.compressors)):
        case.create(store, write_empty_chunks=True)
    counts = [-(-size // chunk) for size, chunk in zip(case.shape, case.chunks)]
    for coords in np.ndindex(*counts):
        chunk = np.full(case.chunks, case.fill, case.dtype)
        part = case.values[tuple(slice(i * n, (i + 1) * n) for i, n in zip(coords, case.chunks))]
        chunk[tuple(slice(n) for n in part.shape)] = part
        key = case.separator.join(map(str, coords)) or "0"
        expected = encode(chunk, case.filters, case.compressors, case.order)
        if {"id": "gzip", "level": 2} in case.compressors:  # numcodecs writes the time of day, tegula none
            expected = expected[:4] + bytes(4) + expected[8:]
        assert bytes(store[key]) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["lz4", "blosclz", "zlib"]),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from("CF"),
    st.integers(1, 7),
)
def test_blosc_of_zarr1_sees_the_memory_in_order(
    cname: str, level: int, shuffle: int, order: Any, columns: int
) -> None:
    values = np.arange(60 * columns, dtype="<i4").reshape(60, columns)
    store: dict[str, bytes] = {}
    codec = numcodecs.Blosc(cname, level, shuffle)
    options: Any = {"shape": values.shape, "chunks": values.shape, "dtype": values.dtype, "format": "zarr1"}
    with same_libraries(cname):
        tegula.create_array(store, order=order, codecs=codec, **options)[...] = values
    assert bytes(store["0.0"]) == codec.encode(np.asarray(values, order=order))
