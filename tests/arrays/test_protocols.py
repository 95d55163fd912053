"""Protocols of Python and NumPy: arrays behave as those of NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, SelectionError, TegulaError
from tegula.testing import Fault, FaultyStore


def bounded(size: int) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    numbers = [st.integers(-size, size - 1)] if size else []
    return st.one_of(*numbers, st.builds(slice, ends, ends))


@st.composite
def arrays(draw: st.DrawFn) -> tuple[tegula.Array, np.ndarray[Any, Any]]:
    ndim = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(0, 7)] * ndim))
    chunks: list[Any] = list(draw(st.tuples(*[st.integers(1, 4)] * ndim)))
    options: dict[str, Any] = {}
    match draw(st.sampled_from(["plain", "shards", "varying"])):
        case "shards" if ndim:
            options = {"shards": [n * draw(st.integers(1, 2)) for n in chunks]}
        case "varying" if ndim:
            chunks[0] = [1, 2, 1, 3]
    a = tegula.create_array({}, shape=shape, chunks=chunks, dtype="i4", fill_value=-1, **options)
    values = np.arange(a.size, dtype="i4").reshape(shape)
    a[...] = values
    return a, values


@given(arrays(), st.data())
def test_the_regions_of_chunks_cover_a_selection_once(
    case: tuple[tegula.Array, np.ndarray[Any, Any]], data: st.DataObject
) -> None:
    a, values = case
    selection = tuple(data.draw(bounded(n)) for n in a.shape[: data.draw(st.integers(0, a.ndim))])
    kept = tuple(slice(i % n, i % n + 1) if isinstance(i, int) else i for i, n in zip(selection, a.shape))
    for regions in (a.iter_chunks, a.iter_shards):
        seen = np.zeros(a.shape, int)
        for region in regions(selection):
            assert np.array_equal(a[region], values[region])
            assert len(region) == a.ndim
            assert 0 not in a[region].shape
            seen[region] += 1
        expected = np.zeros(a.shape, int)
        expected[kept] = 1
        assert np.array_equal(seen, expected)
    if a.size:
        assert len([*a.iter_chunks()]) == a.nchunks
        assert len([*a.iter_shards()]) == (a.nchunks if a.nshards is None else a.nshards)
        inner = [*a.iter_chunks()]
        assert all(n <= (c if isinstance(c, int) else max(c)) for n, c in zip(a[inner[0]].shape, a.chunks))


@pytest.mark.parametrize("selection", [slice(0, 4, 2), [1, 2], (0, 0, 0), 9, "x", (..., ...), np.ones(4, bool), True])
def test_regions_are_of_ints_and_slices(selection: Any) -> None:
    with pytest.raises(SelectionError):
        next(tegula.zeros((4, 4)).iter_chunks(selection))


def test_regions_of_a_huge_grid_are_found_one_by_one() -> None:
    a = tegula.create_array({}, shape=(2**60, 2**60), chunks=(1, 1), dtype="u1")
    assert next(a.iter_chunks()) == (slice(0, 1), slice(0, 1))
    assert [*a.iter_chunks((2**60 - 1, slice(5, 7)))][1] == (slice(2**60 - 1, 2**60), slice(6, 7))


@given(arrays(), st.integers(-3, 400))
def test_membership_agrees_with_numpy(case: tuple[tegula.Array, np.ndarray[Any, Any]], value: int) -> None:
    a, values = case
    assert (value in a) == (value in values)


def test_membership_reads_stored_chunks_and_checks_the_fill_value() -> None:
    vast = tegula.create_array({}, shape=(10**9, 10**9), chunks=(10, 10), dtype="f8", fill_value=7)
    vast[5, 5] = 3
    assert (3 in vast, 7 in vast, 4 in vast) == (True, True, False)
    one = tegula.create_array({}, shape=8, chunks=8, dtype="f8", fill_value=np.nan)
    assert np.float64("nan") not in one  # as in NumPy
    text = tegula.array(["a", "bc"])
    assert ("bc" in text, "x" in text) == (True, False)
    records = tegula.array(np.array([(1, 2.5)], "i4,f8"))
    assert ((1, 2.5) in records, (1, 3) in records) == (True, False)
    with pytest.raises(TegulaError, match="single elements"):
        assert [1, 2] in one


@pytest.mark.parametrize("dtype", [True, "foo", "5,", object()])
def test_astype_names_a_data_type_that_is_none(dtype: Any) -> None:
    with pytest.raises(MetadataError, match=r"is not a data type.*'dtype'"):
        tegula.zeros(3).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16", "S3"])
def test_astype_converts_elements_on_reading(dtype: str) -> None:
    values = np.arange(12, dtype="i2").reshape(3, 4)
    view = tegula.array(values, chunks=(2, 2)).astype(dtype)
    for selection in [..., 1, (1, 2), slice(None, None, -1), [0, 2], (slice(1), [1, 1])]:
        expected = values.astype(dtype)[selection]
        assert np.array_equal(view[selection], expected)
        assert view[selection].dtype == expected.dtype
        assert type(view[selection]) is type(expected)
    assert (len(view), view.shape, view.ndim, view.size, view.dtype) == (3, (3, 4), 2, 12, np.dtype(dtype))
    assert np.asarray(view).dtype == np.dtype(dtype)
    assert np.asarray(view, "O").dtype == object
    with pytest.raises(ValueError, match="copy"):
        np.array(view, copy=False)


@pytest.mark.parametrize("value", [np.float32(2.5), np.int16(-3), np.bool_(False), np.uint64(2**63), np.complex64(1j)])
def test_an_array_without_dimensions_is_a_number(value: Any) -> None:
    a = tegula.array(value)
    kinds: list[Any] = [bool, complex, *([] if a.dtype.kind == "c" else [float, int])]
    for kind in kinds:
        assert kind(a) == kind(np.asarray(value))
    if a.dtype.kind in "iu":
        assert operator.index(a) == operator.index(value)
    else:
        with pytest.raises(TypeError):
            operator.index(a)
    assert tegula.array([[value]]).__bool__() == bool(value)


@pytest.mark.parametrize("convert", [float, int, complex, operator.index])
@pytest.mark.parametrize("shape", [(1,), (2, 2), (0,)])
def test_an_array_with_dimensions_is_not_a_number(convert: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError):
        convert(tegula.zeros(shape, dtype="i4"))


@pytest.mark.parametrize("shape", [(2, 2), (0,)])
def test_the_truth_of_several_elements_is_ambiguous(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        bool(tegula.zeros(shape))


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(divmod, operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.iadd, operator.imul),
    *(np.add, np.equal, np.hypot),
]  # fmt: skip


@pytest.mark.parametrize("act", BINARY)
@pytest.mark.parametrize("other", [1, 2.5, np.int8(1), np.arange(4)])
def test_operators_are_refused_without_reading(act: Any, other: Any) -> None:
    store = FaultyStore(tegula.MemoryStore())
    a = tegula.create_array(store, shape=4, dtype="i4")
    store.arm(Fault("crash"))
    for one, two in ((a, other), (other, a)):
        with pytest.raises(TypeError, match=r"a\[\.\.\.\]") as found:
            act(one, two)
        assert isinstance(found.value, TegulaError)
    for unary in (operator.neg, operator.pos, abs, operator.invert, np.sqrt, np.isnan):
        with pytest.raises(TegulaError):
            unary(a)


def test_nodes_are_compared_by_path_and_metadata() -> None:
    store = tegula.MemoryStore()
    a, b = tegula.zeros(3, store=store, path="a"), tegula.zeros(3, store=store, path="b")
    assert a == tegula.open(store, path="a")
    assert a != b
    assert a in [b, a]
    assert len({a, b, tegula.open(store, path="a")}) == 2
    assert {a: 1}[tegula.open(store, path="a")] == 1
    for other in (None, "a", b"a", object(), store):
        assert a != other
        assert not a == other  # noqa: SIM201 - another operator


def test_numpy_reads_arrays_for_reductions_and_copies() -> None:
    a = tegula.array(np.arange(6.0).reshape(2, 3))
    assert (np.sum(a), np.max(a), np.mean(a), np.median(a)) == (15, 5, 2.5, 2.5)
    assert np.concatenate([a, a]).shape == (4, 3)
    assert np.array_equal(a, np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("name", ["create_dataset", "maxshape", "get_basic_selection", "visititems"])
def test_attributes_of_other_libraries_name_the_equivalent(name: str) -> None:
    g = tegula.create_group({})
    for node in (g, g.create_array("x", shape=3, dtype="u1")):
        assert not hasattr(node, name)
        with pytest.raises(AttributeError, match="in tegula that is") as found:
            getattr(node, name)
        assert found.value.name == name


def test_attributes_are_updated_in_one_write() -> None:
    g = tegula.create_group({}, attributes={"a": 1})
    x = g.create_array("x", shape=3, dtype="u1")
    for node in (g, x):
        assert node.update_attributes({"b": 2, "c": [3]}) is node
        assert node.attrs["c"] == [3]
    assert g.attrs.asdict() == {"a": 1, "b": 2, "c": [3]}
