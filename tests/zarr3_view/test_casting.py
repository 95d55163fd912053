"""Arrays with their elements cast: each element is the nearest value of the new type."""

from fractions import Fraction
from math import isnan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tegula
from tegula.metadata.data_types import as_data_type
from tegula.zarr3_view import casting
from tegula.zarr3_view.casting import CASTS, PARTS, CastArray, cast, suggested_cast

NUMBERS = ["?", "i1", ">i2", "i4", "i8", "u1", "u2", ">u4", "u8", "f2", "f4", ">f8"]


@given(st.sampled_from(NUMBERS).flatmap(lambda name: npst.arrays(name, st.integers(0, 8))), st.sampled_from([*CASTS]))
def test_numbers_become_the_nearest_ones(values: Any, name: str) -> None:
    dtype = np.dtype(name)
    found = cast(values, dtype)
    assert (found.dtype, found.shape) == (dtype, values.shape)
    for old, new in zip(values.tolist(), found.tolist()):
        if dtype.kind == "f":
            with np.errstate(all="ignore"):
                assert np.array_equal(np.array(old).astype(dtype), new, equal_nan=True)
        elif isnan(old):
            assert new == 0
        else:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            exact = high if old == float("inf") else low if old == float("-inf") else int(Fraction(old))
            assert new == min(high, max(low, exact))


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "25s", "ns", "Y", "M", "W"])
def test_dates_become_seconds(unit: str) -> None:
    dates = np.array(["1970-01-01", "2020-03-01", "NaT", "1901-05-06"], f"M8[{unit}]")
    expected = (dates.astype("M8[s]") - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    assert np.allclose(cast(dates, np.dtype("f8")), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["c8", ">c8", "c16"])
def test_complex_numbers_are_shown_by_their_parts(dtype: str) -> None:
    random = np.random.default_rng(0)
    values = (random.normal(size=10) + 1j * random.normal(size=10)).astype(dtype)
    array = tegula.create_array({}, data=values, chunks=4, fill_value=3 + 4j)
    for name, part in PARTS.items():
        shown = CastArray(array, name)
        assert shown.dtype == ("<f4" if values.itemsize == 8 else "<f8")
        assert shown.described.fill_value == np.asarray(part(np.array(3 + 4j)), shown.dtype)
        read = tegula.open({"zarr.json": shown.document, **{f"c/{at}": shown.chunk((at,)) for at in range(3)}})
        assert np.array_equal(read[:], part(values).astype(shown.dtype))
    with pytest.raises(tegula.UnsupportedError, match="only complex numbers have a phase"):
        CastArray(tegula.create_array({}, data=[1.0]), "phase")


@pytest.mark.parametrize(
    ("dtype", "to"), [("M8[s]", "int32"), ("U3", "float32"), ("c8", "float32"), ("m8[M]", "float64")]
)
def test_what_can_not_be_cast(dtype: str, to: str) -> None:
    with pytest.raises(tegula.UnsupportedError):
        cast(np.zeros(2, dtype), np.dtype(to))
    assert suggested_cast(as_data_type(dtype)) in (None, "float64")
    with pytest.raises(tegula.UnsupportedError, match="nosuch"):
        CastArray(tegula.create_array({}, shape=2, dtype="f8"), "nosuch")


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_arrays_read_as_cast(data: st.DataObject) -> None:
    """Put together from its document and chunks alone, an array has the cast elements, in any format and sharded."""
    item = data.draw(st.sampled_from(["zarr1", "zarr2", "zarr3", "bcolz"]))
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    chunks = data.draw(st.integers(1, 4))
    options: dict[str, Any] = {"chunks": [chunks, *shape[1:]] if item == "bcolz" else [chunks] * len(shape)}
    if item == "zarr3" and data.draw(st.booleans()):
        options["shards"] = [2 * chunks] * len(shape)
    dtype = data.draw(st.sampled_from(["?", "i8", "f8", ">u2", "M8[s]"]))
    array = tegula.create_array({}, shape=shape, dtype=dtype, format=item, **options)
    values = np.random.default_rng(0).integers(0, 2, shape).astype("i8").astype(dtype)
    array[...] = values
    to = suggested_cast(array.metadata.data_type)
    assert to is not None
    shown = CastArray(array, to)
    store = tegula.MemoryStore({"zarr.json": shown.document})
    for coords in np.ndindex(*shown.described.grid.counts(shape)):
        key = shown.described.keys.encode(coords)
        assert shown.coords(key) == coords
        if array.store.exists(shown.stored_key(coords)):  # else all its elements are the fill value
            store.set(key, shown.chunk(coords))
    found = tegula.open(store)
    assert found.dtype == np.dtype(to)
    assert np.array_equal(found[...], cast(values, np.dtype(to)))


@pytest.mark.parametrize("shape", [(), (7,), (5, 4), (1, 9), (3, 2, 5), (0, 3)])
@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_chunks_are_cast_in_pieces(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], size: int) -> None:
    """Each element is in one piece, and a chunk is the same whatever the pieces are."""
    monkeypatch.setattr(casting, "_PIECE", size)
    counts = np.zeros(shape, "i4")
    for piece in casting._pieces(shape):
        assert counts[piece].size <= size
        counts[piece] += 1
    assert (counts == 1).all()
    array = tegula.create_array({}, shape=shape, chunks=tuple(axis + 2 for axis in shape), dtype="f8", fill_value=-1)
    array[...] = np.arange(counts.size).reshape(shape)
    shown = CastArray(array, "uint8")
    part = shown._chain.decode(shown.chunk((0,) * len(shape)), shown.described.grid.largest_chunk())
    assert (part[tuple(map(slice, shape))] == array[...]).all()
    assert (part == 0).sum() >= part.size - counts.size  # the fill value, as the nearest one of the type


def test_chunks_that_few_programs_know_are_shown_as_usual_ones() -> None:
    values = np.arange(35.0).reshape(5, 7)
    bounded = [[2, 2, 1], [3, 3, 1]]
    for options in ({"chunks": bounded}, {"chunks": (2, 3), "codecs": [{"name": "reshape", "shape": [-1]}, "bytes"]}):
        cast = CastArray(tegula.create_array({}, data=values, **options), "float64")
        store = {"zarr.json": cast.document}
        for coords in np.ndindex(3, 3):
            store[f"c/{coords[0]}/{coords[1]}"] = cast.chunk(coords)
        shown = tegula.open(store)
        assert np.array_equal(shown[...], values)
        assert (shown.chunks, [codec.name for codec in shown.metadata.codecs]) == ((2, 3), ["bytes", "blosc"])
    varying = CastArray(tegula.create_array({}, data=values, chunks=[[3, 2], [7]]), "float64")
    assert varying.described.grid.is_regular
    assert not CastArray(
        tegula.create_array({}, data=values, chunks=[[2, 3], [7]]), "float64"
    ).described.grid.is_regular


@pytest.mark.parametrize("chunks", [(1, 3), (1, [2, 1]), (1, [1, 2])])
def test_a_grid_is_shown_without_a_look_at_every_chunk(chunks: Any) -> None:
    shown = CastArray(tegula.create_array({}, shape=(10**13, 3), chunks=chunks, dtype="i2"), "float32")
    assert shown.described.grid.is_regular == (chunks != (1, [1, 2]))
    assert shown.coords("c/9999999999999/0") == (10**13 - 1, 0)
