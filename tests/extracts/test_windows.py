"""Windows that are read and written in blocks."""

import csv
import io
import itertools
import json
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tegula
from tegula.extracts import windows, writing
from tegula.extracts.coordinates import Heads
from tegula.extracts.values import array_to_json
from tegula.extracts.windows import window
from tegula.extracts.writing import WRITERS

SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


@st.composite
def parts(draw):
    """Generate an array, a basic selection, and a memory limit in bytes."""
    shape = draw(SHAPES)
    chunks = tuple(draw(st.integers(1, max(1, size))) for size in shape)
    selection = draw(npst.basic_indices(shape, allow_newaxis=False))
    dtype = draw(st.sampled_from(["u1", ">i4", "f8", "M8[s]", "V3", "i4,f8"]))
    array = tegula.create_array({}, shape=shape, chunks=chunks, dtype=dtype, format="zarr2")
    values = np.arange(array.size, dtype="i8").reshape(shape)
    array[...] = values.astype("S3").view("V3").reshape(shape) if dtype == "V3" else values.astype(dtype)
    selection = selection if isinstance(selection, tuple) else (selection,)
    return array, selection or (...,), draw(st.sampled_from([1, 8, 24, 100, 2**20]))


def joined(pieces) -> bytes:
    return b"".join(pieces)


@given(parts())
@settings(deadline=None, max_examples=150)
def test_all_formats_hold_the_elements_that_numpy_selects(part):
    array, selection, limit = part
    expected = np.asarray(array[...][selection], array.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_BLOCK_BYTES", limit)
        patch.setattr(writing, "_TEXT_ELEMENTS", 3)
        found = window(array, selection)
        raw = joined(WRITERS["raw"](found))
        npy = joined(WRITERS["npy"](found))
        text = joined(WRITERS["json"](found))
        rows = [*csv.reader(io.StringIO(joined(WRITERS["csv"](found)).decode()))] if expected.ndim <= 2 else None
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert raw == expected.tobytes()
    saved = io.BytesIO()
    np.save(saved, expected)
    assert npy == saved.getvalue()
    assert json.loads(text) == array_to_json(expected)
    if rows is not None and expected.dtype.names is None:
        flat = [str(item) for item in np.atleast_1d(array_to_json(expected)).ravel()]
        assert [cell for row in rows for cell in row] == flat
        assert expected.ndim == 0 or len(rows) == len(expected)


@given(parts())
@settings(deadline=None, max_examples=100)
def test_blocks_are_bounded_and_begin_with_chunks(part):
    array, selection, limit = part
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_BLOCK_BYTES", limit)
        found = window(array, selection)
        sizes = [piece.nbytes for piece in found.pieces()]
    assert max(sizes, default=0) <= max(limit, array.dtype.itemsize)


def test_each_chunk_is_decoded_once_where_a_row_of_them_fits():
    array = tegula.create_array({}, shape=(100,), chunks=10, dtype="i4")
    spans = [(part.start, part.stop) for part in windows._parts(range(5, 95), array.chunks[0], 4, 100)]
    assert spans == [(5, 20), (20, 40), (40, 60), (60, 80), (80, 95)]
    assert [part.start for part in windows._parts(range(94, -1, -3), 10, 4, 100)] == [94, 67]


def test_structured(tmp_path):
    array = tegula.create_array({}, shape=3, dtype=[("größe", "i4"), ("b b", "f8")], format="zarr2")
    array[1] = (3, np.nan)
    assert joined(WRITERS["csv"](window(array, (...,)))).decode() == "größe,b b\n0,0.0\n3,NaN\n0,0.0\n"
    assert joined(WRITERS["csv"](window(array, ("b b",)))) == b"0.0\nNaN\n0.0\n"
    assert joined(WRITERS["csv"](window(array, (["größe"], 1)))).decode() == "größe\n3\n"
    assert json.loads(joined(WRITERS["json"](window(array, (1,))))) == {"größe": 3, "b b": "NaN"}
    with pytest.raises(tegula.SelectionError, match="no field 'x'"):
        window(array, ("x",))
    # field names beyond latin-1 need version 3 of the format
    array = tegula.create_array({}, shape=2, dtype=[("温", "i4")], format="zarr2")
    file = tmp_path / "x.npy"
    file.write_bytes(joined(WRITERS["npy"](window(array, (...,)))))
    assert np.load(file).dtype == array.dtype
    assert file.stat().st_size % 64 == 8


def test_variable_length_elements():
    array = tegula.create_array({}, shape=(2, 2), chunks=(1, 2), dtype=str)
    array[:] = [["a", "b,\n"], ['"', "é"]]
    assert joined(WRITERS["csv"](window(array, (...,)))).decode() == 'a,"b,\n"\n"""",é\n'
    assert json.loads(joined(WRITERS["json"](window(array, (0, 1))))) == "b,\n"
    array = tegula.create_array({}, shape=2, dtype=bytes)
    array[:] = np.array([b"a\0", b"\xff"], object)
    assert json.loads(joined(WRITERS["json"](window(array, (0,))))) == "a\0"
    assert json.loads(joined(WRITERS["json"](window(array, (...,))))) == ["a\0", "base64:/w=="]
    for form in ("npy", "raw"):
        with pytest.raises(tegula.UnsupportedError, match="variable-length"):
            joined(WRITERS[form](window(array, (...,))))


def test_csv_is_flat():
    array = tegula.create_array({}, shape=(2, 2, 2), dtype="?")
    with pytest.raises(tegula.UnsupportedError, match="3 dimensions"):
        joined(WRITERS["csv"](window(array, (...,))))
    assert joined(WRITERS["csv"](window(array, (0,)))) == b"false,false\nfalse,false\n"


@given(npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5), st.sampled_from([1, 8, 24, 100, 2**20]))
@settings(deadline=None, max_examples=100)
def test_headed_csv_has_each_element_beside_its_coordinates(shape, limit):
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    array = tegula.create_array({}, data=values, chunks=(2,) * len(shape))
    along = [tegula.array(np.arange(length) * 10**axis) for axis, length in enumerate(shape)]
    parts = [None if axis == 1 else window(one, (...,)) for axis, one in enumerate(along)]
    names = "abcd"[: len(shape)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_TEXT_ELEMENTS", 3)
        heads = [Heads(name, range(length), part) for name, length, part in zip(names, shape, parts, strict=True)]
        text = joined(writing.write_headed_csv(window(array, (...,), limit), "v", heads))
    first, *lines = csv.reader(io.StringIO(text.decode()))
    scales = [1 if part is None else 10**axis for axis, part in enumerate(parts)]
    if len(shape) == 1:
        assert first == ["a", "v"]
        found = {(int(at),): int(value) for at, value in lines}
    else:
        outer = len(shape) - 1
        assert first[:outer] == [*names[:-2], f"{names[-2]}\\{names[-1]}"]
        found = {
            (*map(int, line[:outer]), int(at)): int(value)
            for line in lines
            for at, value in zip(first[outer:], line[outer:], strict=True)
        }
    expected = {tuple(i * scale for i, scale in zip(at, scales)): int(value) for at, value in np.ndenumerate(values)}
    assert [*found.items()] == [*expected.items()]  # in the order of the elements


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("shape", [(10**7,), (10**7, 2), (10**7, 2, 2)])
def test_headed_csv_holds_few_coordinates(shape):
    x = tegula.create_array({}, shape=shape[0], chunks=10**5, dtype="f8")
    x[:5] = np.arange(5) + 0.5
    array = tegula.create_array({}, shape=shape, chunks=(10**5, *shape[1:]), dtype="u1")
    part = window(array, (...,), 2**20)
    tracemalloc.start()
    try:
        stored = (window(x, (...,), 2**20), None, None)
        pieces = writing.write_headed_csv(part, "v", [Heads(*each) for each in zip("abc", map(range, shape), stored)])
        lines = b"".join(itertools.islice(pieces, 4)).decode().splitlines()
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert lines[1].startswith("0.5,")


@pytest.mark.parametrize(
    ("stored", "scale", "offset"),
    [
        ("i2", 0.01, 0.0), ("u2", 0.001, -273.15), ("i4", 0.1, 5), ("i2", 0.0017324539, 280.123456789),
        ("u1", 1 / 3, 0), ("i2", 1e-9, 1000.123456789), ("i8", 1.5, 0), ("f4", 1.0, 0), ("f4", 0.1, 0), ("f8", 0.5, 0),
    ],
)  # fmt: skip
def test_text_of_unpacked_values_is_short_and_tells_them_apart(stored, scale, offset):
    rng = np.random.default_rng(1)
    values = rng.random(5000).astype(stored) if stored[0] == "f" else rng.integers(0, 250, 5000).astype(stored)
    about = {"scale_factor": scale, "add_offset": offset}
    array = tegula.create_array({}, data=values, attributes=about)
    plain = window(array, (...,), decodes=True)
    exact, short = plain.read(), plain.for_text().read()
    assert np.abs(short - exact).max() <= 1e-7 * np.abs(exact).max()
    if stored[0] != "f":
        assert len({*map(str, short)}) == len({*values.tolist()})
    assert max(map(len, map(str, short))) <= max(map(len, map(str, exact)))


def test_text_of_few_decimals_is_exact():
    packed = np.arange(-(2**15), 2**15, 7, dtype="i2")
    array = tegula.create_array({}, data=packed, attributes={"scale_factor": 0.01, "add_offset": 273.15})
    short = window(array, (...,), decodes=True).for_text().read()
    exact = [int(each) * Decimal("0.01") + Decimal("273.15") for each in packed]
    assert [*map(Decimal, map(repr, short.tolist()))] == exact


@pytest.mark.parametrize(
    ("units", "dtype", "texts"),
    [
        ("hours since 2024-01-01", "i8", ["2024-01-01T00:00", "2024-01-01T01:00"]),
        ("days since 2024-01-01 12:00", "i4", ["2024-01-01T12:00", "2024-01-02T12:00"]),
        ("days since 2024-01-01", "i2", ["2024-01-01", "2024-01-02"]),
        ("seconds since 2024-01-01 00:00:00.25", "u4", ["2024-01-01T00:00:00.250", "2024-01-01T00:00:01.250"]),
        ("milliseconds since 2024-01-01", "i8", ["2024-01-01T00:00:00.000", "2024-01-01T00:00:00.001"]),
        ("nanoseconds since 2024-01-01", "i8", ["2024-01-01T00:00:00.000000000", "2024-01-01T00:00:00.000000001"]),
        ("hours since 2024-01-01", "f8", ["2024-01-01T00:00:00.000000", "2024-01-01T01:00:00.000000"]),
    ],
)
def test_the_text_of_times_has_no_more_digits_than_their_unit(units: str, dtype: str, texts: list[str]) -> None:
    array = tegula.create_array({}, data=np.arange(2, dtype=dtype), attributes={"units": units})
    part = window(array, (...,), decodes=True)
    assert array_to_json(part.for_text().read()) == texts
    np.testing.assert_array_equal(part.for_text().read(), part.read())
