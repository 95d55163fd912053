"""Arrays made of arrays compared with NumPy's `concatenate` and `stack`."""

from __future__ import annotations

import pickle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError, SelectionError

from .chains import steps

VALUES = np.arange(12).reshape(3, 4)
FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]


def members(number: int, shape: tuple[int, ...], **options: Any) -> tuple[list[np.ndarray[Any, Any]], list[Any]]:
    values = [np.arange(prod(shape)).reshape(shape) + 1000 * one for one in range(number)]
    arrays = [tegula.create_array({}, data=part, **{"chunks": 2, **options}) for part in values]
    return values, arrays


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_chains_of_selections_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    number = data.draw(st.integers(1, 4))
    if data.draw(st.booleans()):
        parts = []
        for one in range(number):
            own = [*shape]
            own[axis] = data.draw(st.integers(0, 3))
            parts.append(np.arange(prod(own)).reshape(own) + 1000 * one)
        arrays = [tegula.create_array({}, data=part, chunks=2) for part in parts]
        view, expected = tegula.concat(arrays, axis), np.concatenate(parts, axis)
    else:
        parts, arrays = members(number, shape)
        view, expected = tegula.stack(arrays, axis), np.stack(parts, axis)
    base, whole = view, expected.copy()
    for _ in range(data.draw(st.integers(0, 3))):
        step = data.draw(steps(expected.shape))
        try:
            selected = step.of_array(expected)
        except IndexError:
            break
        if selected.ndim > 8 or selected.size > 5000 or (isinstance(step.value, tuple) and not step.value):
            break
        view, expected = step.of_view(view), selected
    np.testing.assert_array_equal(view[...], expected, strict=True)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))[...], expected)
    out = np.zeros(expected.shape)
    view.read(out=out).result()
    np.testing.assert_array_equal(out, expected)

    # an assignment writes the elements of each member
    if expected.size == np.unique(expected).size:
        new = expected + 10**6
        flat, chosen = whole.reshape(-1), np.isin(whole.reshape(-1), expected)
        flat[chosen] += 10**6
        view[...] = new
        np.testing.assert_array_equal(base[...], whole)


def test_formats_types_stores_and_views_join(tmp_path: Path) -> None:
    values, arrays = members(4, (3, 2))
    arrays = [tegula.create_array(tmp_path / format, data=part, format=format) for part, format in zip(values, FORMATS)]
    targets: list[Any] = [arrays[0], tmp_path / "zarr2", str(tmp_path / "zarr1"), arrays[3].lazy[::-1]]
    view = tegula.concat(targets)
    np.testing.assert_array_equal(view[...], np.concatenate([*values[:3], values[3][::-1]]))
    assert (view.chunks, view.read_only) == ((3, 2), True)
    with pytest.raises(ReadOnlyError):
        view[4] = 0
    with pytest.raises(NotFoundError):
        tegula.concat([arrays[0], tmp_path / "nothing"])


def test_members_without_selected_elements_are_not_read() -> None:
    values, arrays = members(3, (4,))
    arrays[0].store.delete("c/1")
    arrays[0].store.delete("zarr.json")
    view = tegula.concat(arrays)
    np.testing.assert_array_equal(view[5:11][...], np.concatenate(values)[5:11])
    np.testing.assert_array_equal(view[[11, 4]][...], np.concatenate(values)[[11, 4]])


def test_facts_of_what_is_joined() -> None:
    options = {"dimension_names": ["t", "x"], "attributes": {"units": "K"}}
    _, arrays = members(3, (4, 6), **options)
    joined, stacked = tegula.concat(arrays, 0), tegula.stack(arrays)
    assert (joined.shape, joined.chunks, joined.dimension_names) == ((12, 6), (2, 2), ("t", "x"))
    assert (stacked.shape, stacked.chunks, stacked.dimension_names) == ((3, 4, 6), (1, 2, 2), (None, "t", "x"))
    assert dict(joined.attrs) == {"units": "K"}
    assert "3 arrays along axis 0" in repr(joined)
    np.testing.assert_array_equal(joined.to_dask().compute(), joined[...])
    swapped = tegula.concat([arrays[0], tegula.create_array({}, data=np.ones((1, 6), ">i8"))])
    assert swapped.dtype == np.dtype("i8").newbyteorder("=")
    assert swapped[-1][...].tolist() == [1] * 6


def test_records_are_joined() -> None:
    records = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    view = tegula.concat([tegula.create_array({}, data=records), tegula.create_array({}, data=records[:1])])
    np.testing.assert_array_equal(view["a"][1:][...], [3, 1])
    np.testing.assert_array_equal(view[::-1][...], np.concatenate([records, records[:1]])[::-1])


def test_names_are_those_of_the_arrays_that_have_some() -> None:
    def named(*names: str | None) -> Any:
        return tegula.create_array({}, data=VALUES, dimension_names=names or None)

    assert tegula.concat([named(), named("t", None), named(None, "x")]).dimension_names == ("t", "x")
    assert tegula.concat([named("t", "x"), named("t", "y")]).dimension_names == ("t", None)
    assert tegula.concat([named("x", "t"), named("t", "x")]).dimension_names is None
    assert tegula.concat([named("t", "x"), named()]).sel(t=slice(1, 3)).shape == (2, 4)


def test_parts_do_not_cross_arrays(tmp_path: Path) -> None:
    arrays = [tegula.create_array(tmp_path / str(n), data=np.ones((10, 4)), chunks=(4, 2)) for n in range(3)]
    joined = tegula.concat(arrays)
    assert joined.chunks is None
    assert joined.to_dask(chunks=None).chunks == ((10, 10, 10), (2, 2))
    tegula.save_view(joined, tmp_path / "v.json")
    opened = tegula.open(tmp_path / "v.json")
    assert opened.to_dask(chunks=None).chunks == ((10, 10, 10), (2, 2))
    assert tegula.open(opened.as_store()).chunks == (10, 2)


@pytest.mark.parametrize(
    ("arrays", "axis", "text"),
    [
        ([], 0, "no arrays"),
        ([np.zeros(2), np.zeros((2, 2))], 0, "array 1 has the shape"),
        ([np.zeros((2, 3)), np.zeros((2, 2))], 0, "array 1 has the shape"),
        ([np.zeros(2), np.zeros(2, "f4")], 0, "array 1 has the data type float32"),
        ([np.zeros(2), np.zeros(2)], 1, "no axis 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: list[Any], axis: int, text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        tegula.concat([tegula.create_array({}, data=one) for one in arrays], axis)


def test_a_large_number_of_arrays_is_one() -> None:
    values = [np.array([number, -number]) for number in range(1000)]
    view = tegula.stack([tegula.create_array({}, data=one) for one in values])
    np.testing.assert_array_equal(view[::37, 1][...], np.stack(values)[::37, 1])
    with pytest.raises(SelectionError, match="out has the shape"):
        view.read(out=np.zeros(3)).result()
