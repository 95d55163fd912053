"""Chunk grids and chunk keys, compared with their definitions."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.errors import MetadataError
from tegula.metadata.chunk_grids import ChunkAxis, RegularAxis, VaryingAxis, chunk_grid, regular_grid
from tegula.metadata.chunk_keys import V1_KEYS, V2_KEYS, ChunkKeyEncoding, default_keys, v2_keys

pytestmark = pytest.mark.once(executors="none")

axes = st.builds(RegularAxis, st.integers(1, 9)) | st.builds(
    VaryingAxis, st.lists(st.integers(1, 6), min_size=1, max_size=8).map(tuple)
)
ENCODINGS = [default_keys("/"), default_keys("."), v2_keys("/"), V2_KEYS, V1_KEYS]
OLD_KEYS = ChunkKeyEncoding(".", "__zdata__/", ".blosc", "")


def lengths(axis: ChunkAxis) -> list[int]:
    return [axis.chunk] * 8 if isinstance(axis, RegularAxis) else [*axis.edges]


@given(axes)
def test_an_axis_is_divided_into_chunks_of_its_lengths(axis: ChunkAxis) -> None:
    cuts = lengths(axis)
    starts = [0, *accumulate(cuts)]
    owner = [number for number, length in enumerate(cuts) for _ in range(length)]
    indices = np.arange(len(owner))
    assert [axis.locate(index) for index in range(len(owner))] == owner
    assert axis.locate(indices).tolist() == owner
    assert [axis.start(number) for number in range(len(cuts))] == starts[:-1]
    assert axis.start(np.arange(len(cuts))).tolist() == starts[:-1]
    assert [axis.length(number) for number in range(len(cuts))] == cuts
    assert axis.longest() == max(cuts)
    for size in range(len(owner) + 1):
        assert axis.count(size) == (owner[size - 1] + 1 if size else 0)
        assert type(axis.count(size)) is int
    assert type(axis.locate(0)) is type(axis.start(0)) is int


@given(st.lists(axes, max_size=3), st.data())
def test_a_grid_is_the_product_of_its_axes(parts: list[ChunkAxis], data: st.DataObject) -> None:
    spec = [axis.chunk if isinstance(axis, RegularAxis) else [*axis.edges] for axis in parts]
    grid = chunk_grid(spec)
    assert grid.axes == tuple(parts)
    assert grid.ndim == len(parts)
    assert grid.is_regular == all(isinstance(axis, RegularAxis) for axis in parts)
    shape = [data.draw(st.integers(0, sum(lengths(axis)))) for axis in parts]
    assert grid.counts(shape) == tuple(axis.count(size) for axis, size in zip(parts, shape))
    coords = [data.draw(st.integers(0, len(lengths(axis)) - 1)) for axis in parts]
    assert grid.chunk_shape(coords) == tuple(lengths(axis)[number] for axis, number in zip(parts, coords))
    assert all(n <= most for n, most in zip(grid.chunk_shape(coords), grid.largest_chunk()))


@pytest.mark.parametrize("chunks", [[0], [-1], [[1, 0]], [3, [2, -1]]])
def test_a_chunk_length_is_positive(chunks: list[int | list[int]]) -> None:
    with pytest.raises(MetadataError):
        chunk_grid(chunks)


def test_grids_compare_by_value() -> None:
    assert regular_grid((2, 3)) == regular_grid([2, 3])
    assert chunk_grid([[1, 2]]) == chunk_grid([(1, 2)])
    assert chunk_grid([[1, 2]]) != chunk_grid([[2, 1]])
    assert hash(chunk_grid([4, [1, 2]])) == hash(chunk_grid([4, [1, 2]]))


numbers = st.integers(0, 2**63 - 1) | st.integers(0, 12)


@given(st.sampled_from([*ENCODINGS, OLD_KEYS]), st.lists(numbers, max_size=4))
def test_decoding_a_key_gives_its_coordinates(keys: ChunkKeyEncoding, coords: list[int]) -> None:
    key = keys.encode(coords)
    if key == "":
        assert not coords
        assert keys.decode(key, 0) is None
        return
    assert keys.decode(key, len(coords)) == tuple(coords)
    if len(coords) > 1:  # "0" is a key of v2 for no dimension and for one
        assert keys.decode(key, len(coords) + 1) is None
        assert keys.decode(key, len(coords) - 1) is None


pieces = st.text(alphabet="c0123456789./-+ _xA٣", max_size=8) | st.from_regex(r"(c[/.])?\d{1,3}([/.]\d{1,3}){0,2}")


@given(st.sampled_from([*ENCODINGS, OLD_KEYS]), pieces, st.integers(0, 3))
def test_only_keys_in_canonical_form_are_decoded(keys: ChunkKeyEncoding, key: str, ndim: int) -> None:
    coords = keys.decode(key, ndim)
    if coords is not None:
        assert len(coords) == ndim
        assert keys.encode(coords) == key


@pytest.mark.parametrize(
    ("keys", "coords", "key"),
    [
        (default_keys(), (), "c"), (default_keys(), (1,), "c/1"), (default_keys("."), (1, 20), "c.1.20"),
        (V2_KEYS, (), "0"), (V2_KEYS, (0,), "0"), (v2_keys("/"), (3, 4), "3/4"),
        (V1_KEYS, (0, 3), "0.3"), (V1_KEYS, (), ""), (OLD_KEYS, (1, 0), "__zdata__/1.0.blosc"),
    ],
)  # fmt: skip
def test_keys_of_the_specifications(keys: ChunkKeyEncoding, coords: tuple[int, ...], key: str) -> None:
    assert keys.encode(coords) == key
