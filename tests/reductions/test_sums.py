"""Sums: the arithmetic of checksums, compared with Python's integers."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tegula.metadata.data_types import DataType, as_data_type
from tegula.reductions import sums
from tegula.reductions.sums import Sums, limbs_of, sums_of_fill, sums_of_values

pytestmark = pytest.mark.once(executors="none")

P = sums.PRIME
RESIDUES = st.one_of(st.integers(0, P - 1), st.sampled_from([0, 1, P - 1, 2**31 - 1, 2**31, 2**60]))


@given(st.lists(st.tuples(RESIDUES, RESIDUES), min_size=1))
def test_multiplication(pairs: list[tuple[int, int]]) -> None:
    one, other = (np.array(numbers, np.uint64) for numbers in zip(*pairs))
    assert sums.multiply(one, other).tolist() == [a * b % P for a, b in pairs]
    assert int(sums.total(one, 0)) == sum(a for a, _ in pairs) % P


@given(RESIDUES.filter(lambda base: base > 1), st.integers(0, 70), st.integers(0, 60))
def test_powers_and_their_sums(base: int, start: int, number: int) -> None:
    expected = [pow(base, exponent, P) for exponent in range(start + number)]
    assert sums.powers(base, start + number).tolist() == expected
    assert sums.geometric_sum(base, start, start + number) == sum(expected[start:]) % P
    assert sums.shift(np.array([base], np.uint64), start % 61).tolist() == [base * 2 ** (start % 61) % P]


def by_hand(values: np.ndarray[Any, Any], start: tuple[int, ...], data_type: DataType) -> Sums:
    """Add up all limbs times their weights, one by one, as the module's documentation says."""
    limbs = limbs_of(values, data_type)
    size = limbs.shape[-1]
    ndim = max(1, values.ndim)
    found, weights = [], []
    for key in range(2):
        bases = [sums.base_of(f"axis {axis}, set {key}") for axis in range(ndim - 1)]
        last = sums.base_of(f"limbs, set {key}")
        whole = weight = 0
        for index in np.ndindex(values.shape):
            place = [first + step for first, step in zip(start, index)] or [0]
            here = 1
            for base, exponent in zip(bases, place):
                here = here * pow(base, exponent, P) % P
            here = here * pow(last, place[-1] * size, P) % P
            weight += here
            whole += sum(int(limb) * here * pow(last, number, P) for number, limb in enumerate(limbs[index]))
        found.append(whole % P)
        weights.append(weight % P)
    return Sums(tuple(found), tuple(weights))


SHAPES = [(), (0,), (5,), (3, 4), (2, 0, 3), (3, 4, 5), (7, 2100), (2, 3, 700), (3000, 3), (40, 40, 3), (2, 1, 1100, 2)]


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("dtype", ["?", "u1", ">i2", "f4", "c16", "U3", "S3", "V0", "<M8[s]", "bfloat16", "int4"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_box_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    if np.prod(shape) > 5000 and dtype not in ("u1", "f4"):
        return  # takes long by hand
    data_type = as_data_type(dtype)
    count = int(np.prod(shape))
    if dtype == "int4":
        values = np.arange(count).reshape(shape).astype("i1").astype(data_type.numpy)
    else:
        raw = np.random.default_rng(0).bytes(count * data_type.itemsize)
        raw = bytes(byte & 1 for byte in raw) if dtype in ("?", "U3") else raw
        values = np.ndarray(shape, data_type.numpy, raw or b"\0")
    start = (3, 9, 1, 2)[: len(shape)]
    box = tuple(slice(first, first + size) for first, size in zip(start, shape))
    assert sums_of_values(values, box, data_type) == by_hand(values, start, data_type)


@settings(max_examples=60)
@given(st.data())
def test_the_parts_of_an_array_merge_in_any_order(data: Any) -> None:
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, max_side=30))
    dtype = data.draw(st.sampled_from(["u1", ">u2", "f8", "S5"]))
    values = np.frombuffer(data.draw(st.randoms()).randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
    values, kind = values.reshape(shape), as_data_type(dtype)
    cuts = [sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=2))}) for size in shape]
    boxes = data.draw(st.permutations([*product(*([slice(*pair) for pair in pairwise(cut)] for cut in cuts))]))
    found = Sums()
    for box in boxes:
        found = found.merge(sums_of_values(values[box], box, kind))
    assert found == sums_of_values(values, tuple(slice(0, size) for size in shape), kind)


@given(npst.array_shapes(max_dims=3, max_side=6), st.sampled_from(["u1", "f4", "S3"]), st.integers(0, 6))
def test_the_closed_form_of_equal_elements(shape: tuple[int, ...], dtype: str, rows: int) -> None:
    kind = as_data_type(dtype)
    fill = np.array(7).astype(dtype)
    values = np.full(shape, fill)
    values[:rows] = np.array(5).astype(dtype)
    box = (slice(0, min(rows, shape[0])), *(slice(0, size) for size in shape[1:]))
    part = sums_of_values(values[box], box, kind)
    whole = sums_of_values(values, tuple(slice(0, size) for size in shape), kind)
    assert part.merge(sums_of_fill(fill, shape, kind, part)) == whole


@pytest.mark.slow
def test_the_sizes_of_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).integers(0, 2**16, (37, 11, 13), "u2")
    box, kind = (slice(0, 37), slice(5, 16), slice(1, 14)), as_data_type("u2")
    whole = sums_of_values(values, box, kind)
    for block, piece in ((1, 1), (5, 7), (100, 250), (11 * 13, 2 * 11 * 13), (3000, 100)):
        monkeypatch.setattr(sums, "_BLOCK", block)
        monkeypatch.setattr(sums, "_PIECE", piece)
        assert sums_of_values(values, box, kind) == whole


def test_products_are_exact() -> None:
    """The largest limbs and weights: their products, added up, stay below 2**53."""
    assert (2**16 - 1) * (2**sums._PART - 1) * sums._BLOCK < 2**53
    values = np.full(10_000, 2**16 - 1, "u2")
    expected = by_hand(values, (0,), as_data_type("u2"))
    assert sums_of_values(values, (slice(0, 10_000),), as_data_type("u2")) == expected
